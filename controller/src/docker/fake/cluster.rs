//! A server's part in a cluster, as forming and looking at one needs it: it gets its epoch and slots, meets others, copies a
//! master. What it knows of the others is what they are now, as far as the links allow; nothing takes time.

use super::programs::way;
use super::{Container, World};
use crate::cluster::{SLOTS, Slots};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use wire::Reply;

/// What a server has been told of its cluster.
#[derive(Debug, Default)]
pub(super) struct Membership {
    epoch: u64,
    slots: Slots,
    /// Addresses of those that it has met.
    met: BTreeSet<Ipv4Addr>,
    master: Option<Ipv4Addr>,
}

/// The master that it copies (`None`: it is one, or is in no cluster).
pub(super) fn master(container: &Container) -> Option<Ipv4Addr> {
    container.membership.master
}

/// Reply to `CLUSTER ...`.
pub(super) fn reply(world: &mut World, server: &str, words: &[&str]) -> Reply {
    let Some(own) = world.container(server) else {
        return Reply::Error("ERR no such server".to_owned());
    };
    if !own.spec.command.iter().any(|word| word == "--cluster-enabled") {
        return Reply::Error("ERR This instance has cluster support disabled".to_owned());
    }
    let Some(here) = address(own) else {
        return Reply::Error("ERR no address".to_owned());
    };
    let ok = || Reply::Text("OK".to_owned());
    match *words {
        ["MYID"] => Reply::Text(id(here)),
        ["INFO"] => Reply::Text(state(world, own)),
        ["NODES"] => Reply::Text(nodes(world, own)),
        ["SET-CONFIG-EPOCH", epoch] => match (epoch.parse(), &own.membership) {
            (Ok(epoch), membership) if membership.epoch == 0 && membership.met.is_empty() => {
                change(world, server, |own| own.epoch = epoch);
                ok()
            }
            _ => Reply::Error("ERR Node config epoch is already non-zero, or it knows others".to_owned()),
        },
        ["ADDSLOTSRANGE", ref ranges @ ..] => {
            let text = ranges
                .chunks(2)
                .map(|range| range.join("-"))
                .collect::<Vec<_>>()
                .join(",");
            let Ok(slots) = Slots::parse(&text) else {
                return Reply::Error("ERR Invalid or out of range slot".to_owned());
            };
            change(world, server, |own| own.slots = own.slots.with(&slots));
            ok()
        }
        ["MEET", host, _] => {
            let met = host
                .parse()
                .ok()
                .and_then(|host| world.at(host).map(|other| (host, other)));
            let open = met.filter(|(_, other)| way(world, own.datacenter(), other.datacenter()).is_some());
            let Some((host, other)) = open else { return ok() };
            let other = other.spec.name.clone();
            change(world, server, |own| own.met.insert(host));
            change(world, &other, |other| other.met.insert(here));
            ok()
        }
        ["REPLICATE", master] => {
            let known = own.membership.met.iter().find(|met| id(**met) == master).copied();
            let Some(known) = known else {
                return Reply::Error(format!("ERR Unknown node {master}"));
            };
            let misled = world.misled.get(server).and_then(|other| world.container(other));
            let master = misled.and_then(address).unwrap_or(known);
            change(world, server, |own| own.master = Some(master));
            ok()
        }
        ["RESET", "HARD"] if own.membership.master.is_none() && !own.keys.is_empty() => {
            Reply::Error("ERR CLUSTER RESET can't be called with master nodes containing keys".to_owned())
        }
        ["RESET", "HARD"] => {
            change(world, server, |own| *own = Membership::default());
            ok()
        }
        _ => Reply::Error(format!("ERR the fake server knows no CLUSTER {}", words.join(" "))),
    }
}

fn change<T>(world: &mut World, server: &str, change: impl FnOnce(&mut Membership) -> T) {
    let mut containers = world.containers.values_mut();
    if let Some(own) = containers.find(|container| container.spec.name == server) {
        change(&mut own.membership);
    }
}

fn address(container: &Container) -> Option<Ipv4Addr> {
    container.endpoints.values().next().copied()
}

/// 40 hexadecimal digits, one for each address.
fn id(address: Ipv4Addr) -> String {
    format!("{:040x}", u32::from(address))
}

/// All that it knows, itself first, with whether it can be reached.
fn known<'w>(world: &'w World, own: &'w Container) -> Vec<(Ipv4Addr, Option<&'w Container>)> {
    let reached = |address: Ipv4Addr| {
        let other = world.at(address);
        other.filter(|other| way(world, own.datacenter(), other.datacenter()).is_some())
    };
    let met = own.membership.met.iter().map(|met| (*met, reached(*met)));
    address(own)
        .map(|address| (address, Some(own)))
        .into_iter()
        .chain(met)
        .collect()
}

fn nodes(world: &World, own: &Container) -> String {
    let mut text = String::new();
    for (at, reached) in known(world, own) {
        let there = reached.or_else(|| world.containers.values().find(|other| address(other) == Some(at)));
        let Some(there) = there else { continue };
        let member = &there.membership;
        let role = if member.master.is_some() { "slave" } else { "master" };
        let flags = match (address(own) == Some(at), reached) {
            (true, _) => format!("myself,{role}"),
            (false, Some(_)) => role.to_owned(),
            (false, None) => format!("{role},fail?"),
        };
        let master = member.master.map_or_else(|| "-".to_owned(), id);
        let ranges = member.slots.to_string().replace(',', " ");
        let line = format!(
            "{} {at}:6379@16379 {flags} {master} 0 0 {} connected {ranges}",
            id(at),
            member.epoch
        );
        writeln!(text, "{}", line.trim_end()).expect("a string can be written");
    }
    text
}

fn state(world: &World, own: &Container) -> String {
    let known = known(world, own);
    let reached = known.iter().filter_map(|(_, reached)| *reached);
    let slots = reached.fold(Slots::default(), |slots, member| slots.with(&member.membership.slots));
    let ok = if slots.count() == SLOTS { "ok" } else { "fail" };
    let (count, epoch) = (slots.count(), own.membership.epoch);
    format!(
        "cluster_state:{ok}\r\ncluster_slots_assigned:{count}\r\ncluster_slots_ok:{count}\r\n\
         cluster_known_nodes:{}\r\ncluster_size:3\r\ncluster_current_epoch:{epoch}\r\ncluster_my_epoch:{epoch}\r\n",
        known.len()
    )
}
