//! The border router of a datacenter, as the modules that its binary and its bench share.
//!
//! A packet of a node is read from a TUN device ([`router`]), given to the lane of the link that leads to its
//! destination ([`lane`]), judged there ([`link`]), held until it is due ([`delay_line`]) and written back
//! unchanged; the kernel forwards it on. Orders come in as JSON lines ([`control`]).
//!
//! The crate refuses everything that is not packet mode. Everything but `control`, `netlink`, `router`, `routes` and
//! `sysctls` is pure: time is an argument. All unsafe code is below `router`.

pub mod capture;
pub mod check;
pub mod control;
pub mod counters;
pub mod delay_line;
pub mod lane;
pub mod link;
pub mod netlink;
pub mod rate;
pub mod router;
pub mod routes;
pub mod sysctls;
pub mod tap;
