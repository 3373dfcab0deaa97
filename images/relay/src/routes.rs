//! Addresses, routes and rules of a relay, set over netlink: what makes every packet of a node pass the TUN
//! device, and what makes it vanish when the device is gone.
//!
//! What must stay true (fail closed): a packet that comes in from the datacenter goes to the TUN device or
//! nowhere, whatever its destination, the relay's own addresses included; on the other paths it goes where their rules
//! say, or nowhere. Without the device nothing is forwarded, accepted or sent on any path: the table of the device then
//! has only a blackhole, and a guard before all rules of the paths asks that table first. The gateway address, by which
//! nodes find the relay, is added last. Answers to ARP need the local table, so only the gateway address stays reachable
//! from inside: a ping of it is answered by the kernel and says nothing about any link.
//!
//! Stream mode: what nodes send to the ports is delivered to the relay's own sockets, and so is what far nodes send from
//! them, which the relay had dialled in a node's name. What the nodes of this datacenter send *from* these ports belongs
//! to connections that the far relay terminates, and delays; the kernel forwards it. So all relays of a lab must be in
//! stream mode, or none.

mod messages;

use crate::netlink::{InterfaceChange, Message, Netlink};
use messages::{
    RULE_FROM_WAN, RULE_FROM_WAN_DROP, RULE_KERNEL_PATH, RULE_LOCAL, RULE_LOCAL_OF_KERNEL, RULE_STREAM_ANSWERS,
    RULE_STREAM_BACK, RULE_STREAM_OUT, RULE_STREAM_OWN, RULE_TUN_PATH, TABLE_LINKS, TABLE_LOCAL, TABLE_TAKE_BACK,
    TABLE_TAKE_OUT, TABLE_TUN, blackhole_default, describe, drop_own, drop_to, guard, inet_addresses, interface_with,
    nested, network_of, one, route, rule_of, taking, tcp, to_table, tun_default, via,
};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::route::{RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, IpProtocol};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use wire::{Path, RelayConfig};

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
    ports: Vec<u16>,
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
            ports: config.ports.clone(),
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
            self.add_route(taking(TABLE_TAKE_OUT, network, link.prefix_len), || {
                format!("local {network}/{} in table {TABLE_TAKE_OUT}", link.prefix_len)
            })?;
        }
        let own = network_of(config.inside, config.prefix_len);
        self.add_route(taking(TABLE_TAKE_BACK, own, config.prefix_len), || {
            format!("local {own}/{} in table {TABLE_TAKE_BACK}", config.prefix_len)
        })?;
        self.switch_off_checks(&self.inside.clone())?;
        self.switch_off_checks(&self.outside.clone())?;
        self.switch_off_checks(tun)?;
        self.add_gateway(config)
    }

    /// Which way packets take.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Send packets of the nodes another way. The rule of the TUN path is always there, so that no packet finds no way.
    pub fn set_path(&mut self, path: Path) -> Result<(), RoutesError> {
        let kernel = to_table(RULE_KERNEL_PATH, Some(&self.inside.name), TABLE_LINKS);
        match path {
            Path::Tun => {
                self.delete_rule(kernel)?;
                self.delete_stream_rules()?;
            }
            Path::Kernel => {
                self.add_rule(kernel)?;
                self.delete_stream_rules()?;
            }
            Path::Stream(_) => {
                for rule in self.stream_rules() {
                    self.add_rule(rule)?;
                }
                self.delete_rule(kernel)?;
            }
        }
        self.path = path;
        Ok(())
    }

    /// In the order in which they are added: what the relay takes, it must be able to answer.
    fn stream_rules(&self) -> Vec<RuleMessage> {
        let (inside, outside) = (self.inside.name.as_str(), self.outside.name.as_str());
        let main = RouteHeader::RT_TABLE_MAIN;
        let of_port = |port| {
            let (from, to) = (RuleAttribute::SourcePortRange, RuleAttribute::DestinationPortRange);
            [
                tcp(RULE_STREAM_OWN, "lo", from(one(port)), main),
                tcp(RULE_STREAM_OWN, "lo", to(one(port)), main),
                tcp(RULE_STREAM_BACK, outside, from(one(port)), TABLE_TAKE_BACK),
                tcp(RULE_STREAM_OUT, inside, to(one(port)), TABLE_TAKE_OUT),
                tcp(RULE_STREAM_ANSWERS, inside, from(one(port)), TABLE_LINKS),
            ]
        };
        self.ports.iter().copied().flat_map(of_port).collect()
    }

    fn delete_stream_rules(&mut self) -> Result<(), RoutesError> {
        let rules = self.stream_rules();
        rules.into_iter().rev().try_for_each(|rule| self.delete_rule(rule))
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
        // A relay that was killed in this namespace may have left another way open.
        self.delete_rule(to_table(RULE_KERNEL_PATH, Some(&inside), TABLE_LINKS))?;
        self.delete_stream_rules()?;
        self.add_rule(guard())?;
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
