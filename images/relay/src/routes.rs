//! Addresses, routes and rules of a relay, set over netlink: what makes every packet of a node pass the TUN
//! device, and what makes it vanish when the device is gone.
//!
//! What must stay true (fail closed): a packet that comes in from the datacenter goes to the TUN device or
//! nowhere, whatever its destination, the relay's own addresses included. Without the device a blackhole with a
//! worse metric takes over. The gateway address, by which nodes find the relay, is added last. Answers to ARP
//! need the local table, so only the gateway address stays reachable from inside: a ping of it is answered by
//! the kernel and says nothing about any link.

use crate::netlink::{InterfaceChange, Message, Netlink};
use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, IpProtocol};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use wire::{Path, RelayConfig};

/// Table whose default is the TUN device.
const TABLE_TUN: u8 = 100;
/// Table with the links' networks only: the kernel's way.
const TABLE_LINKS: u8 = 101;
const TABLE_LOCAL: u8 = 255;

// Order of the rules.
const RULE_LOCAL_OF_KERNEL: u32 = 0;
const RULE_DROP: u32 = 100;
const RULE_LOCAL: u32 = 200;
const RULE_KERNEL_PATH: u32 = 300;
const RULE_TUN_PATH: u32 = 400;
const RULE_FROM_WAN: u32 = 500;
const RULE_FROM_WAN_DROP: u32 = 501;

/// Metric of the blackhole that remains when the TUN device is gone.
const BLACKHOLE_METRIC: u32 = 4096;
/// Packets that the TUN device may queue before the relay reads them; the default of 500 loses bursts.
const TUN_QUEUE_PACKETS: u32 = 5000;

/// A step of the set-up failed.
#[derive(Debug, thiserror::Error)]
pub enum RoutesError {
    /// The kernel refused.
    #[error("{step} {object}: {source}")]
    Refused {
        /// What was to be done.
        step: &'static str,
        /// To what.
        object: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No interface has the address.
    #[error("find the {side} interface: none has address {address}")]
    NoInterface {
        /// `inside` or `outside`.
        side: &'static str,
        /// Address of the configuration.
        address: Ipv4Addr,
    },
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Number.
    pub index: u32,
    /// Name.
    pub name: String,
}

/// The relay's part of the kernel's routing.
pub struct Routes {
    netlink: Netlink,
    inside: Interface,
    outside: Interface,
    path: Path,
}

impl Routes {
    /// Find the relay's interfaces.
    pub fn open(config: &RelayConfig) -> Result<Self, RoutesError> {
        let mut netlink = Netlink::open().map_err(refused("open", "netlink socket"))?;
        let addresses = netlink
            .dump(Message::GetAddress(inet_addresses()))
            .map_err(refused("list", "addresses"))?;
        let inside = interface_with(&addresses, "inside", config.inside)?;
        let outside = interface_with(&addresses, "outside", config.outside)?;
        Ok(Self {
            netlink,
            inside,
            outside,
            path: Path::Tun,
        })
    }

    /// Set everything up for the TUN path; `tun` exists and is read from now on.
    pub fn set_up(&mut self, config: &RelayConfig, tun: &Interface) -> Result<(), RoutesError> {
        self.raise_tun(tun)?;
        self.add_route(blackhole_default(), || {
            format!("blackhole default in table {TABLE_TUN}")
        })?;
        self.add_route(tun_default(tun), || {
            format!("default dev {} in table {TABLE_TUN}", tun.name)
        })?;
        self.add_rules(config)?;
        self.remove_default_routes()?;
        for link in &config.links {
            let network = network_of(link.network, link.prefix_len);
            for table in [RouteHeader::RT_TABLE_MAIN, TABLE_LINKS] {
                let route = via(table, network, link.prefix_len, link.via, self.outside.index);
                self.add_route(route, || format!("{network}/{} via {}", link.prefix_len, link.via))?;
            }
        }
        self.switch_off_checks(&self.inside.clone())?;
        self.switch_off_checks(&self.outside.clone())?;
        self.switch_off_checks(tun)?;
        self.add_gateway(config)
    }

    /// Which way packets take.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Send packets of the nodes the other way. One rule comes or goes, so that no packet finds neither way.
    pub fn set_path(&mut self, path: Path) -> Result<(), RoutesError> {
        let rule = to_table(RULE_KERNEL_PATH, Some(&self.inside.name), TABLE_LINKS);
        match path {
            Path::Kernel => self.add_rule(rule)?,
            Path::Tun | Path::Stream(_) => self.delete_rule(rule)?,
        }
        self.path = path;
        Ok(())
    }

    fn raise_tun(&mut self, tun: &Interface) -> Result<(), RoutesError> {
        let queue = DefaultNla::new(libc::IFLA_TXQLEN, TUN_QUEUE_PACKETS.to_ne_bytes().to_vec());
        let change = InterfaceChange {
            index: tun.index,
            raise: true,
            attributes: vec![queue],
        };
        self.netlink
            .change(Message::SetLink(change), 0)
            .map_err(refused("raise", &tun.name))
    }

    /// Interface settings by netlink, which works where /proc/sys is read-only.
    fn switch_off_checks(&mut self, interface: &Interface) -> Result<(), RoutesError> {
        // IPV4_DEVCONF_SEND_REDIRECTS and IPV4_DEVCONF_RP_FILTER.
        let settings = [6, 8].map(|setting| DefaultNla::new(setting, 0u32.to_ne_bytes().to_vec()));
        let inet_conf = nested(1, &settings);
        let inet = nested(
            libc::AF_INET.cast_unsigned().try_into().expect("AF_INET is 2"),
            &[inet_conf],
        );
        let attributes = vec![nested(libc::IFLA_AF_SPEC, &[inet])];
        let change = InterfaceChange {
            index: interface.index,
            raise: false,
            attributes,
        };
        self.netlink
            .change(Message::SetLink(change), 0)
            .map_err(refused("switch off rp_filter and send_redirects of", &interface.name))
    }

    fn add_rules(&mut self, config: &RelayConfig) -> Result<(), RoutesError> {
        let (inside, outside) = (self.inside.name.clone(), self.outside.name.clone());
        // A relay that was killed in this namespace may have left the kernel's way open.
        self.delete_rule(to_table(RULE_KERNEL_PATH, Some(&inside), TABLE_LINKS))?;
        self.add_rule(to_table(RULE_TUN_PATH, Some(&inside), TABLE_TUN))?;
        // The relay's own addresses answer nobody but ARP. For that the local table has to come later than the
        // kernel puts it; it is added in the new place before it is removed from the old one.
        for address in [config.inside, config.outside] {
            if address != config.gateway {
                self.add_rule(drop_to(&inside, address))?;
            }
        }
        for address in [config.inside, config.gateway] {
            self.add_rule(drop_to(&outside, address))?;
        }
        for protocol in [IpProtocol::Tcp, IpProtocol::Udp] {
            self.add_rule(drop_own(protocol))?;
        }
        self.add_rule(to_table(RULE_LOCAL, None, TABLE_LOCAL))?;
        self.delete_rule(to_table(RULE_LOCAL_OF_KERNEL, None, TABLE_LOCAL))?;
        // From the WAN only the datacenter can be reached, never a third place through this relay.
        let mut rule = to_table(RULE_FROM_WAN, Some(&outside), RouteHeader::RT_TABLE_MAIN);
        rule.header.dst_len = config.prefix_len;
        let network = network_of(config.inside, config.prefix_len);
        rule.attributes.push(RuleAttribute::Destination(IpAddr::V4(network)));
        self.add_rule(rule)?;
        self.add_rule(rule_of(RULE_FROM_WAN_DROP, Some(&outside), RuleAction::Blackhole))
    }

    fn remove_default_routes(&mut self) -> Result<(), RoutesError> {
        // Each deletion takes one route away; more than a few cannot be there.
        for _ in 0..16 {
            let mut message = route(RouteHeader::RT_TABLE_MAIN, RouteType::Unspec);
            message.header.scope = RouteScope::NoWhere;
            message.header.protocol = RouteProtocol::Unspec;
            match self.netlink.change(Message::DelRoute(message), 0) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
                Err(error) => return Err(refused("remove", "default route")(error)),
            }
        }
        Ok(())
    }

    fn add_gateway(&mut self, config: &RelayConfig) -> Result<(), RoutesError> {
        if config.gateway == config.inside {
            return Ok(());
        }
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = config.prefix_len;
        message.header.index = self.inside.index;
        let address = IpAddr::V4(config.gateway);
        message.attributes.push(AddressAttribute::Local(address));
        message.attributes.push(AddressAttribute::Address(address));
        self.netlink
            .change(Message::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(refused(
                "add",
                &format!("address {} to {}", config.gateway, self.inside.name),
            ))
    }

    fn add_route(&mut self, message: RouteMessage, object: impl FnOnce() -> String) -> Result<(), RoutesError> {
        self.netlink
            .change(Message::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|source| RoutesError::Refused {
                step: "add route",
                object: object(),
                source,
            })
    }

    fn add_rule(&mut self, message: RuleMessage) -> Result<(), RoutesError> {
        let object = describe(&message);
        match self
            .netlink
            .change(Message::NewRule(message), NLM_F_CREATE | NLM_F_EXCL)
        {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            result => result.map_err(refused("add rule", &object)),
        }
    }

    fn delete_rule(&mut self, message: RuleMessage) -> Result<(), RoutesError> {
        let object = describe(&message);
        match self.netlink.change(Message::DelRule(message), 0) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result.map_err(refused("delete rule", &object)),
        }
    }
}

fn refused(step: &'static str, object: &str) -> impl FnOnce(io::Error) -> RoutesError + use<> {
    let object = object.to_owned();
    move |source| RoutesError::Refused { step, object, source }
}

/// An attribute made of attributes.
fn nested(kind: u16, parts: &[DefaultNla]) -> DefaultNla {
    let mut bytes = vec![0; parts.buffer_len()];
    parts.emit(&mut bytes);
    DefaultNla::new(kind | NLA_F_NESTED, bytes)
}

fn inet_addresses() -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message
}

fn interface_with(addresses: &[Message], side: &'static str, wanted: Ipv4Addr) -> Result<Interface, RoutesError> {
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

fn network_of(address: Ipv4Addr, prefix_len: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len.min(32))).unwrap_or(0);
    Ipv4Addr::from(u32::from(address) & mask)
}

fn route(table: u8, kind: RouteType) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.table = table;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = kind;
    message
}

fn blackhole_default() -> RouteMessage {
    let mut message = route(TABLE_TUN, RouteType::BlackHole);
    message.attributes.push(RouteAttribute::Priority(BLACKHOLE_METRIC));
    message
}

fn tun_default(tun: &Interface) -> RouteMessage {
    let mut message = route(TABLE_TUN, RouteType::Unicast);
    message.header.scope = RouteScope::Link;
    message.attributes.push(RouteAttribute::Oif(tun.index));
    message
}

fn via(table: u8, network: Ipv4Addr, prefix_len: u8, via: Ipv4Addr, interface: u32) -> RouteMessage {
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

fn rule_of(priority: u32, iif: Option<&str>, action: RuleAction) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.action = action;
    message.attributes.push(RuleAttribute::Priority(priority));
    if let Some(name) = iif {
        message.attributes.push(RuleAttribute::Iifname(name.to_owned()));
    }
    message
}

fn to_table(priority: u32, iif: Option<&str>, table: u8) -> RuleMessage {
    let mut message = rule_of(priority, iif, RuleAction::ToTable);
    message.header.table = table;
    message
}

fn drop_to(iif: &str, address: Ipv4Addr) -> RuleMessage {
    let mut message = rule_of(RULE_DROP, Some(iif), RuleAction::Blackhole);
    message.header.dst_len = 32;
    message.attributes.push(RuleAttribute::Destination(IpAddr::V4(address)));
    message
}

/// The relay itself opens no connection and refuses none: no reset leaves it. ICMP must, as path MTU discovery
/// lives on errors about forwarded packets.
fn drop_own(protocol: IpProtocol) -> RuleMessage {
    let mut message = rule_of(RULE_DROP, Some("lo"), RuleAction::Blackhole);
    message.attributes.push(RuleAttribute::IpProtocol(protocol));
    message
}

fn describe(rule: &RuleMessage) -> String {
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
            "100: iif lo ipproto Tcp blackhole"
        );
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
