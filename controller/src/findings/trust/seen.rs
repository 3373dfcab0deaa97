//! What a history holds of the instrument during one block, in the shape in which the rules ask for it. Of a block that ran
//! twice only the last time counts.

use super::course::{Course, Step};
use super::limits::STAMP_NS;
use crate::findings::row::Rows;
use crate::history::{
    Calibrated, FlowsSeen, HostSeen, NodeLost, PeersSeen, ProbeSeen, RelayLost, RelaySeen, Watched, What,
};
use std::collections::BTreeMap;
use wire::{Conditions, LinkCounters, LinkStatus, Path, PortCut};

/// See the top of the file.
#[derive(Debug, Default)]
pub struct Seen<'a> {
    /// Directed links, in the order of their names.
    pub links: Vec<Link<'a>>,
    /// States of relays by datacenter, in the order of the looks.
    pub relays: BTreeMap<&'a str, Vec<&'a RelaySeen>>,
    /// Relays that were lost.
    pub lost: Vec<&'a RelayLost>,
    /// Nodes that ended.
    pub ended: Vec<&'a NodeLost>,
    /// Connections of nodes.
    pub peers: Vec<&'a PeersSeen>,
    /// Connections that relays saw.
    pub flows: Vec<&'a FlowsSeen>,
    /// Probes by themselves.
    pub probes: Vec<&'a ProbeSeen>,
    /// Processor time, in the order of the looks.
    pub hosts: Vec<&'a HostSeen>,
    /// Why there are no beacons, if that was said.
    pub unwatched: Option<&'a str>,
    /// Whether the block was run to its end.
    pub completed: bool,
    /// How long it took, nanoseconds.
    pub took_ns: u64,
}

/// A directed link.
#[derive(Debug, Default)]
pub struct Link<'a> {
    /// Sending datacenter; its relay applies the link's conditions.
    pub from: &'a str,
    /// Receiving datacenter.
    pub to: &'a str,
    /// What was asked of it.
    pub course: Course,
    /// Which way packets were to take, each from a time on.
    pub paths: Vec<(u64, Path)>,
    /// Which ports the block had cut, each from a time on. No beacon has a port of theirs.
    pub cut_ports: Vec<(u64, &'a [u16])>,
    /// Ports that the block found cut when it changed something, and had not cut.
    pub foreign_ports: Option<&'a [u16]>,
    /// Measured before the block.
    pub calibrated: Option<&'a Calibrated>,
    /// Beacons.
    pub watched: Option<&'a Watched>,
    /// States as its relay told them, in the order of the looks.
    pub states: Vec<State<'a>>,
    /// How much before a deadline its relay releases a packet.
    pub early_ns: u64,
}

/// A look at a link.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// The relay's clock and the way of packets, where the look tells them.
    pub when: Option<(u64, Path)>,
    /// What it said.
    pub status: &'a LinkStatus,
}

impl<'a> Seen<'a> {
    /// Of a block's part of a history.
    pub fn of(rows: &Rows<'a>) -> Self {
        let events = &rows.history.events;
        let began = events
            .iter()
            .rposition(|event| matches!(event.what, What::BlockStarted { block, .. } if block == rows.block));
        let mut seen = Self::default();
        let of_block = events[began.unwrap_or_default()..].iter().map(|event| &event.what);
        for what in of_block.filter(|what| what.block() == Some(rows.block)) {
            seen.take(what);
        }
        for link in &mut seen.links {
            let looks = seen.relays.get(link.from).into_iter().flatten();
            link.early_ns = looks.map(|look| look.status.early_ns).max().unwrap_or_default();
        }
        seen.links.sort_by_key(|link| (link.from, link.to));
        seen
    }

    fn take(&mut self, what: &'a What) {
        match what {
            What::LinkChanged {
                from,
                to,
                at_ns,
                path,
                port_cut,
                ..
            } => {
                let link = self.link(from, to);
                link.course.add(asked(what).expect("it is a change of a link"));
                link.paths.push((*at_ns, *path));
                let asked = port_cut.as_ref().filter(|cut| link.asked_for(cut, *at_ns));
                if let Some(cut) = port_cut.as_ref().filter(|_| asked.is_none()) {
                    link.foreign_ports.get_or_insert(&cut.ports);
                }
                link.cut_ports.push((*at_ns, asked.map_or(&[], |cut| &cut.ports)));
            }
            What::LinkSeen { from, status, .. } => {
                self.link(from, &status.to).states.push(State { when: None, status });
            }
            What::Calibrated(calibrated) => {
                self.link(&calibrated.from, &calibrated.to).calibrated = Some(calibrated);
            }
            What::Watched(watched) => self.link(&watched.from, &watched.to).watched = Some(watched),
            What::RelaySeen(relay) => self.relay(relay),
            What::RelayLost(lost) => self.lost.push(lost),
            What::NodeLost(lost) => self.ended.push(lost),
            What::PeersSeen(peers) => self.peers.push(peers),
            What::FlowsSeen(flows) => self.flows.push(flows),
            What::ProbeSeen(probe) => self.probes.push(probe),
            What::HostSeen(host) => self.hosts.push(host),
            What::Unwatched { reason, .. } => self.unwatched = Some(reason),
            What::BlockEnded { error, took_ms, .. } => {
                self.completed = error.is_none();
                self.took_ns = took_ms.saturating_mul(1_000_000);
            }
            _ => {}
        }
    }

    fn relay(&mut self, relay: &'a RelaySeen) {
        let status = &relay.status;
        self.relays.entry(&status.datacenter).or_default().push(relay);
        for state in &status.links {
            // Links that the block does not use are none of its business.
            let known = self
                .links
                .iter_mut()
                .find(|link| (link.from, link.to) == (&status.datacenter, &state.to));
            if let Some(link) = known {
                link.states.push(State {
                    when: Some((status.now_ns, status.path)),
                    status: state,
                });
            }
        }
    }

    fn link(&mut self, from: &'a str, to: &'a str) -> &mut Link<'a> {
        let known = self.links.iter().position(|link| (link.from, link.to) == (from, to));
        let at = known.unwrap_or_else(|| {
            self.links.push(Link {
                from,
                to,
                ..Link::default()
            });
            self.links.len() - 1
        });
        &mut self.links[at]
    }

    /// Whether any beacons were sent.
    pub fn watched(&self) -> bool {
        self.links.iter().any(|link| link.watched.is_some())
    }
}

impl<'a> Link<'a> {
    /// For people.
    pub fn name(&self) -> String {
        format!("{} to {}", self.from, self.to)
    }

    /// The ways that packets were to take at some moment of a stretch of time.
    pub fn paths_between(&self, from_ns: u64, to_ns: u64) -> Vec<Path> {
        between(&self.paths, from_ns, to_ns)
    }

    /// Whether the block itself asked for a cut of ports that a change at `at_ns` found in force: it began with that change, or
    /// goes on since one that it did begin with.
    fn asked_for(&self, cut: &PortCut, at_ns: u64) -> bool {
        let began_with = |at_ns: u64| {
            at_ns
                .checked_sub(cut.began_ns)
                .is_some_and(|late_ns| late_ns <= STAMP_NS)
        };
        let known = self
            .cut_ports
            .iter()
            .any(|(at_ns, ports)| *ports == cut.ports && began_with(*at_ns));
        known || began_with(at_ns)
    }

    /// The ports that were to be cut at some moment of a stretch of time.
    pub fn cut_ports_between(&self, from_ns: u64, to_ns: u64) -> Vec<&'a [u16]> {
        between(&self.cut_ports, from_ns, to_ns)
    }

    /// All ports that were to be cut at some moment, sorted.
    pub fn ever_cut_ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.cut_ports.iter().flat_map(|(_, ports)| *ports).copied().collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// What it was told to do at the start.
    pub fn conditions(&self) -> Option<&'a Conditions> {
        self.states.first().map(|state| &state.status.conditions)
    }

    /// Whether every packet takes the same time: its length can be told from any of them.
    pub fn is_steady(&self) -> bool {
        let slow = |conditions: &Conditions| {
            let rate = conditions.rate_bits_per_s;
            rate.is_some_and(|rate| rate < super::limits::SLOW_BITS_PER_S)
        };
        self.conditions()
            .is_none_or(|told| told.jitter.is_none() && told.reorder.is_none() && !slow(told))
    }

    /// Whether no packet can take less than the delay.
    pub fn never_early(&self) -> bool {
        self.conditions().is_none_or(|told| told.jitter.is_none())
    }

    /// Until when beacons were listened for (not at all: 0).
    pub fn heard_until_ns(&self) -> u64 {
        self.watched.map_or(0, |watched| watched.heard_until_ns)
    }

    /// Counters at the first look and at the last.
    pub fn counters(&self) -> Option<[&'a LinkCounters; 2]> {
        let [first, last] = [self.states.first()?, self.states.last()?];
        Some([&first.status.counters, &last.status.counters])
    }

    /// By how much a counter grew during the block.
    pub fn grew(&self, counter: impl Fn(&LinkCounters) -> u64) -> u64 {
        let [first, last] = self.counters().map_or([0, 0], |looks| looks.map(counter));
        last.saturating_sub(first)
    }
}

/// What held, each from a time on, at some moment of a stretch of time.
fn between<T: Copy>(held: &[(u64, T)], from_ns: u64, to_ns: u64) -> Vec<T> {
    let first = held.iter().rposition(|(at_ns, _)| *at_ns <= from_ns);
    let stretch = held.iter().skip(first.unwrap_or_default());
    let stretch = stretch.take_while(|(at_ns, _)| *at_ns <= to_ns);
    stretch.map(|(_, what)| *what).collect()
}

/// What a change asks of a link. No condition applies to what the kernel forwards.
fn asked(what: &What) -> Option<Step> {
    let What::LinkChanged {
        at_ns,
        delay_ns,
        cut,
        frozen,
        path,
        ..
    } = what
    else {
        return None;
    };
    let relayed = *path != Path::Kernel;
    Some(Step {
        at_ns: *at_ns,
        delay_ns: if relayed { *delay_ns } else { 0 },
        cut: relayed && cut.is_some(),
        frozen: relayed && *frozen,
    })
}
