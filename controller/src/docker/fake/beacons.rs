//! Beacons of the probes of the fake engine: each leaves when it was meant to, and takes as long as its link says at
//! the time when they are counted.

use super::programs::leg;
use super::{Container, World};
use std::net::Ipv4Addr;
use wire::{Beacon, Id, ProbeAnswer};

/// Longest list of an answer.
const MOST: u64 = 100_000;

/// An order to send beacons.
pub(super) struct Beaconing {
    id: Id,
    targets: Vec<Ipv4Addr>,
    interval_ns: u64,
    from_ns: u64,
    /// When it was ended.
    until_ns: Option<u64>,
}

impl Beaconing {
    /// When each was sent, until `now_ns`.
    fn beats(&self, now_ns: u64) -> impl Iterator<Item = u64> {
        let until_ns = self.until_ns.unwrap_or(now_ns);
        let beats = (until_ns.saturating_sub(self.from_ns) / self.interval_ns + 1).min(MOST);
        let (from_ns, interval_ns) = (self.from_ns, self.interval_ns);
        (0..beats).map(move |i| from_ns + i * interval_ns)
    }
}

/// A probe begins to send.
pub(super) fn start(
    world: &mut World,
    probe: &str,
    id: Id,
    targets: &[Ipv4Addr],
    interval_ns: u64,
) -> Result<(), String> {
    if interval_ns == 0 {
        return Err("beacons: an interval of zero was ordered".to_owned());
    }
    let from_ns = world.now_ns();
    if let Some(probe) = named(world, probe) {
        probe.beacons.push(Beaconing {
            id,
            targets: targets.to_vec(),
            interval_ns,
            from_ns,
            until_ns: None,
        });
    }
    Ok(())
}

/// A probe ends an order and answers it; `None` if it is not under way.
pub(super) fn stop(world: &mut World, probe: &str, id: Id) -> Option<ProbeAnswer> {
    let now_ns = world.now_ns();
    let own = named(world, probe)?;
    let mut orders = own.beacons.iter_mut();
    let order = orders.find(|order| order.id == id && order.until_ns.is_none())?;
    order.until_ns = Some(now_ns);
    let from_ns = order.from_ns;
    let targets = order.targets.iter();
    let sent = targets.flat_map(|target| order.beats(now_ns).map(|beat| (*target, beat, beat)));
    let mut sent: Vec<(Ipv4Addr, u64, u64)> = sent.collect();
    sent.sort_by_key(|(_, beat, _)| *beat);
    Some(ProbeAnswer::Beacons {
        sent,
        heard: heard(world, probe, from_ns, now_ns),
    })
}

/// What came in at a probe between two moments.
fn heard(world: &World, probe: &str, from_ns: u64, now_ns: u64) -> Vec<Beacon> {
    let mut heard = Vec::new();
    let Some(own) = world.container(probe) else {
        return heard;
    };
    for other in world.containers.values().filter(|other| other.runs()) {
        let (Some(way_ns), Some(from)) = (
            leg(world, other.datacenter(), own.datacenter()),
            other.endpoints.values().next(),
        ) else {
            continue;
        };
        let to_us = |order: &&Beaconing| own.endpoints.values().any(|address| order.targets.contains(address));
        let beats = other.beacons.iter().filter(to_us).flat_map(|order| order.beats(now_ns));
        let beacons = beats.map(|beat| Beacon {
            from: *from,
            intended_ns: beat,
            sent_ns: beat,
            received_ns: beat + way_ns,
        });
        heard.extend(beacons.filter(|beacon| (from_ns..=now_ns).contains(&beacon.received_ns)));
    }
    heard.sort_by_key(|beacon| beacon.received_ns);
    heard
}

fn named<'a>(world: &'a mut World, probe: &str) -> Option<&'a mut Container> {
    let mut containers = world.containers.values_mut();
    containers.find(|container| container.spec.name == probe)
}
