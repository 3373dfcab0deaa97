//! Messages of a relay's routes and rules, and the order of the rules.
//!
//! Pure: it makes values. What a rule is for is said where it is made, in what order they are asked by their numbers.

use super::{Interface, RoutesError};
use crate::netlink::Message;
use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange};
use netlink_packet_route::{AddressFamily, IpProtocol};
use std::net::{IpAddr, Ipv4Addr};

/// Table whose default is the TUN device.
pub(super) const TABLE_TUN: u8 = 100;
/// Table with the links' networks only: the kernel's way.
pub(super) const TABLE_LINKS: u8 = 101;
/// Table that takes packets to the links' networks for the relay's own.
pub(super) const TABLE_TAKE_OUT: u8 = 102;
/// The same for packets to the datacenter's network.
pub(super) const TABLE_TAKE_BACK: u8 = 103;
pub(super) const TABLE_LOCAL: u8 = 255;

// Order of the rules.
pub(super) const RULE_LOCAL_OF_KERNEL: u32 = 0;
const RULE_DROP: u32 = 100;
pub(super) const RULE_LOCAL: u32 = 200;
const RULE_GUARD: u32 = 210;
pub(super) const RULE_STREAM_OWN: u32 = 220;
const RULE_DROP_OWN: u32 = 230;
pub(super) const RULE_STREAM_OUT: u32 = 240;
pub(super) const RULE_STREAM_ANSWERS: u32 = 241;
pub(super) const RULE_STREAM_BACK: u32 = 242;
pub(super) const RULE_KERNEL_PATH: u32 = 300;
pub(super) const RULE_TUN_PATH: u32 = 400;
pub(super) const RULE_FROM_WAN: u32 = 500;
pub(super) const RULE_FROM_WAN_DROP: u32 = 501;

/// Number of the loopback interface in every namespace.
const LOOPBACK: u32 = 1;
/// Metric of the blackhole that remains when the TUN device is gone.
const BLACKHOLE_METRIC: u32 = 4096;

/// An attribute made of attributes.
pub(super) fn nested(kind: u16, parts: &[DefaultNla]) -> DefaultNla {
    let mut bytes = vec![0; parts.buffer_len()];
    parts.emit(&mut bytes);
    DefaultNla::new(kind | NLA_F_NESTED, bytes)
}

pub(super) fn inet_addresses() -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message
}

pub(super) fn interface_with(
    addresses: &[Message],
    side: &'static str,
    wanted: Ipv4Addr,
) -> Result<Interface, RoutesError> {
    for message in addresses {
        let Message::NewAddress(address) = message else {
            continue;
        };
        if !address
            .attributes
            .contains(&AddressAttribute::Local(IpAddr::V4(wanted)))
        {
            continue;
        }
        // The label of an IPv4 address is its interface's name, with a suffix for an alias.
        let label = address.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Label(label) => label.split(':').next(),
            _ => None,
        });
        if let Some(name) = label {
            return Ok(Interface {
                index: address.header.index,
                name: name.to_owned(),
            });
        }
    }
    Err(RoutesError::NoInterface { side, address: wanted })
}

pub(super) fn network_of(address: Ipv4Addr, prefix_len: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len.min(32))).unwrap_or(0);
    Ipv4Addr::from(u32::from(address) & mask)
}

pub(super) fn route(table: u8, kind: RouteType) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.table = table;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = kind;
    message
}

pub(super) fn blackhole_default() -> RouteMessage {
    let mut message = route(TABLE_TUN, RouteType::BlackHole);
    message.attributes.push(RouteAttribute::Priority(BLACKHOLE_METRIC));
    message
}

pub(super) fn tun_default(tun: &Interface) -> RouteMessage {
    let mut message = route(TABLE_TUN, RouteType::Unicast);
    message.header.scope = RouteScope::Link;
    message.attributes.push(RouteAttribute::Oif(tun.index));
    message
}

/// What goes to the network is the relay's own, whatever its address.
pub(super) fn taking(table: u8, network: Ipv4Addr, prefix_len: u8) -> RouteMessage {
    let mut message = route(table, RouteType::Local);
    message.header.scope = RouteScope::Host;
    message.header.destination_prefix_length = prefix_len;
    let destination = RouteAddress::Inet(network);
    message.attributes.push(RouteAttribute::Destination(destination));
    message.attributes.push(RouteAttribute::Oif(LOOPBACK));
    message
}

pub(super) fn via(table: u8, network: Ipv4Addr, prefix_len: u8, via: Ipv4Addr, interface: u32) -> RouteMessage {
    let mut message = route(table, RouteType::Unicast);
    message.header.destination_prefix_length = prefix_len;
    message
        .attributes
        .push(RouteAttribute::Destination(RouteAddress::Inet(network)));
    message
        .attributes
        .push(RouteAttribute::Gateway(RouteAddress::Inet(via)));
    message.attributes.push(RouteAttribute::Oif(interface));
    message
}

pub(super) fn rule_of(priority: u32, iif: Option<&str>, action: RuleAction) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.action = action;
    message.attributes.push(RuleAttribute::Priority(priority));
    if let Some(name) = iif {
        message.attributes.push(RuleAttribute::Iifname(name.to_owned()));
    }
    message
}

pub(super) fn to_table(priority: u32, iif: Option<&str>, table: u8) -> RuleMessage {
    let mut message = rule_of(priority, iif, RuleAction::ToTable);
    message.header.table = table;
    message
}

pub(super) fn drop_to(iif: &str, address: Ipv4Addr) -> RuleMessage {
    let mut message = rule_of(RULE_DROP, Some(iif), RuleAction::Blackhole);
    message.header.dst_len = 32;
    message.attributes.push(RuleAttribute::Destination(IpAddr::V4(address)));
    message
}

/// Whether there is a TUN device: if so, its default route is found and passed over, and the next rule is asked; if
/// not, the blackhole behind it is found.
pub(super) fn guard() -> RuleMessage {
    let mut message = to_table(RULE_GUARD, None, TABLE_TUN);
    message.attributes.push(RuleAttribute::SuppressPrefixLen(0));
    message
}

pub(super) fn tcp(priority: u32, iif: &str, port: RuleAttribute, table: u8) -> RuleMessage {
    let mut message = to_table(priority, Some(iif), table);
    message.attributes.push(RuleAttribute::IpProtocol(IpProtocol::Tcp));
    message.attributes.push(port);
    message
}

pub(super) fn one(port: u16) -> RulePortRange {
    RulePortRange { start: port, end: port }
}

/// The relay itself opens no connection and refuses none, but for those of stream mode: no reset leaves it. ICMP must, as
/// path MTU discovery lives on errors about forwarded packets.
pub(super) fn drop_own(protocol: IpProtocol) -> RuleMessage {
    let mut message = rule_of(RULE_DROP_OWN, Some("lo"), RuleAction::Blackhole);
    message.attributes.push(RuleAttribute::IpProtocol(protocol));
    message
}

pub(super) fn describe(rule: &RuleMessage) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for attribute in &rule.attributes {
        // Writing to a String cannot fail.
        let _ = match attribute {
            RuleAttribute::Priority(priority) => write!(text, "{priority}:"),
            RuleAttribute::Iifname(name) => write!(text, " iif {name}"),
            RuleAttribute::Destination(address) => {
                write!(text, " to {address}/{}", rule.header.dst_len)
            }
            RuleAttribute::IpProtocol(protocol) => write!(text, " ipproto {protocol:?}"),
            RuleAttribute::SourcePortRange(range) => write!(text, " sport {}", range.start),
            RuleAttribute::DestinationPortRange(range) => write!(text, " dport {}", range.start),
            RuleAttribute::SuppressPrefixLen(length) => write!(text, " suppress_prefixlength {length}"),
            _ => Ok(()),
        };
    }
    match rule.header.action {
        RuleAction::ToTable => text + &format!(" lookup {}", rule.header.table),
        _ => text + " blackhole",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(local: [u8; 4], index: u32, label: &str) -> Message {
        let mut message = inet_addresses();
        message.header.index = index;
        message.attributes.push(AddressAttribute::Local(IpAddr::from(local)));
        message.attributes.push(AddressAttribute::Label(label.into()));
        Message::NewAddress(message)
    }

    #[test]
    fn an_interface_is_found_by_its_address_even_under_an_alias() {
        let addresses = [address([10, 0, 0, 2], 4, "eth0"), address([10, 0, 1, 2], 6, "eth1:0")];
        let found = interface_with(&addresses, "outside", Ipv4Addr::new(10, 0, 1, 2)).unwrap();
        assert_eq!(
            found,
            Interface {
                index: 6,
                name: "eth1".into()
            }
        );
    }

    #[test]
    fn a_missing_interface_is_named_by_side_and_address() {
        let error = interface_with(&[], "inside", Ipv4Addr::new(10, 0, 0, 2)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "find the inside interface: none has address 10.0.0.2"
        );
    }

    #[test]
    fn a_refused_rule_is_described_as_the_ip_command_would() {
        assert_eq!(describe(&to_table(400, Some("eth0"), 100)), "400: iif eth0 lookup 100");
        assert_eq!(describe(&to_table(200, None, 255)), "200: lookup 255");
        assert_eq!(
            describe(&drop_to("eth1", Ipv4Addr::new(10, 0, 0, 1))),
            "100: iif eth1 to 10.0.0.1/32 blackhole"
        );
        assert_eq!(
            describe(&drop_own(IpProtocol::Tcp)),
            "230: iif lo ipproto Tcp blackhole"
        );
        let port = RuleAttribute::DestinationPortRange(one(6379));
        assert_eq!(
            describe(&tcp(240, "eth0", port, 102)),
            "240: iif eth0 ipproto Tcp dport 6379 lookup 102"
        );
        assert_eq!(describe(&guard()), "210: suppress_prefixlength 0 lookup 100");
    }

    #[test]
    fn host_bits_of_a_network_are_cleared() {
        assert_eq!(
            network_of(Ipv4Addr::new(198, 18, 3, 7), 24),
            Ipv4Addr::new(198, 18, 3, 0)
        );
        assert_eq!(
            network_of(Ipv4Addr::new(198, 18, 3, 7), 32),
            Ipv4Addr::new(198, 18, 3, 7)
        );
        assert_eq!(network_of(Ipv4Addr::new(198, 18, 3, 7), 0), Ipv4Addr::UNSPECIFIED);
    }
}
