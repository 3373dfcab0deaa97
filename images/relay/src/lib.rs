//! The border router of a datacenter, as the modules that its binary and its bench share.
//!
//! A packet of a node is read from a TUN device ([`router`]), given to the lane of the link that leads to its
//! destination ([`lane`]), judged there ([`link`]), held until it is due ([`delay_line`]) and written back
//! unchanged; the kernel forwards it on. In stream mode the connections of the nodes end in sockets of the relay instead
//! ([`stream`]). Orders come in as JSON lines ([`control`]).
//!
//! Everything but `control`, `netlink`, `paths`, `router`, `routes`, `stream` and `sysctls` is pure: time is an argument.
//! Of `stream`, `directions` and `flow` are pure too. All unsafe code is below `router`.

pub mod capture;
pub mod chance;
pub mod check;
pub mod checksum;
pub mod control;
pub mod counters;
pub mod delay_line;
pub mod flows;
pub mod icmp;
pub mod lane;
pub mod link;
pub mod netlink;
pub mod packet;
pub mod paths;
pub mod rate;
pub mod reset;
pub mod router;
pub mod routes;
#[cfg(test)]
mod sample;
pub mod schedule;
pub mod segment;
pub mod stream;
pub mod sysctls;
pub mod tap;
