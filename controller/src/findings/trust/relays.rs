//! What the relays say of themselves: alive from start to end, doing what they were asked and nothing that nobody asked
//! for, dropping nothing unasked, not overloaded, and scheduled alike.

use super::cuts;
use super::doubt::Doubt;
use super::limits::{OVERLOADED, RECORDED_NS, WRITTEN_LATE, WRITTEN_LATE_NS};
use super::seen::{Link, Seen, State};
use crate::claim::Cause;
use crate::findings::row;
use crate::history::RelaySeen;
use wire::{Conditions, DEFAULT_RATE_BITS_PER_S, LATENESS_BOUNDS_NS, LinkCounters, Path};

/// Tenths of a second in a nanosecond.
const TENTH_NS: f64 = 1e8;

/// Nodes of the block that ended while it ran: whatever was measured, it was not what the block is about.
pub fn ended(seen: &Seen<'_>) -> Vec<Doubt> {
    let lost = seen.ended.iter().map(|lost| {
        let text = format!("node {} did not run to the end of the block: {}", lost.node, lost.cause);
        Doubt::void(Cause::Incomplete, text)
    });
    lost.collect()
}

/// Doubts about relays as such.
pub fn doubts(seen: &Seen<'_>) -> Vec<Doubt> {
    let mut doubts: Vec<Doubt> = Vec::new();
    for lost in &seen.lost {
        let text = format!(
            "the relay of {} stopped answering in the middle of the block: {}",
            lost.datacenter, lost.cause
        );
        doubts.push(Doubt::void(Cause::Instrument, text));
    }
    for (datacenter, looks) in &seen.relays {
        doubts.extend(restarted(datacenter, looks));
        doubts.extend(unread(datacenter, looks));
    }
    doubts.extend(unequal(seen));
    doubts
}

/// Doubts about the relay's part of a directed link.
pub fn of_link(link: &Link<'_>, seen: &Seen<'_>) -> Vec<Doubt> {
    let mut doubts = dropped(link);
    doubts.extend(written_late(link));
    doubts.extend(overloaded(link, seen));
    doubts.extend(changed(link));
    doubts
}

fn restarted(datacenter: &str, looks: &[&RelaySeen]) -> Option<Doubt> {
    let first = looks.first()?.status.since_ns;
    looks.iter().any(|look| look.status.since_ns != first).then(|| {
        let text = format!("the relay of {datacenter} was restarted in the middle of the block");
        Doubt::void(Cause::Instrument, text)
    })
}

/// Dropped by the TUN device before the relay could read it.
fn unread(datacenter: &str, looks: &[&RelaySeen]) -> Option<Doubt> {
    let [first, last] = [looks.first()?, looks.last()?].map(|look| look.status.dropped_unread);
    let dropped = last.saturating_sub(first);
    (dropped > 0).then(|| {
        let text = format!("the relay of {datacenter} was too slow to read {dropped} packets");
        Doubt::void(Cause::Noise, text)
    })
}

/// Two directions of one link, scheduled differently, are not equally exact.
fn unequal(seen: &Seen<'_>) -> Vec<Doubt> {
    let class = |datacenter: &str| Some(seen.relays.get(datacenter)?.last()?.status.scheduling.as_str());
    let pairs = seen.links.iter().filter(|link| link.from < link.to);
    let doubt = |link: &Link<'_>| {
        let (one, other) = (class(link.from)?, class(link.to)?);
        (one != other).then(|| {
            Doubt::suspect(format!(
                "the relays of one link are scheduled differently: {one} in {}, {other} in {}",
                link.from, link.to
            ))
        })
    };
    pairs.filter_map(doubt).collect()
}

/// A reason for which a relay drops.
struct Drop {
    count: fn(&LinkCounters) -> u64,
    why: &'static str,
    /// Whether the conditions ask for it.
    asked: fn(&Conditions) -> bool,
    cause: Cause,
}

const DROPS: [Drop; 6] = [
    Drop {
        count: |counters| counters.dropped_queue,
        why: "its queue was full",
        asked: |_| false,
        cause: Cause::Noise,
    },
    Drop {
        count: |counters| counters.dropped_write,
        why: "the kernel did not take them back",
        asked: |_| false,
        cause: Cause::Noise,
    },
    Drop {
        count: |counters| counters.dropped_frozen,
        why: "the frozen link held as much as it may",
        asked: |_| false,
        cause: Cause::Instrument,
    },
    Drop {
        count: |counters| counters.dropped_rate,
        why: "too much waited for its turn at the rate",
        asked: |told| told.rate_bits_per_s.is_some_and(|rate| rate != DEFAULT_RATE_BITS_PER_S),
        cause: Cause::Instrument,
    },
    Drop {
        count: |counters| counters.dropped_loss,
        why: "by chance, though no loss was asked for",
        asked: |told| told.loss.is_some(),
        cause: Cause::Instrument,
    },
    Drop {
        count: |counters| counters.dropped_mtu,
        why: "larger than an MTU that was not asked for",
        asked: |told| told.mtu.is_some(),
        cause: Cause::Instrument,
    },
];

fn dropped(link: &Link<'_>) -> Vec<Doubt> {
    let doubt = |drop: &Drop| {
        let packets = link.grew(drop.count);
        let asked = link.conditions().is_some_and(drop.asked);
        (packets > 0 && !asked).then(|| {
            let text = format!("the relay dropped {packets} packets from {}: {}", link.name(), drop.why);
            Doubt::void(drop.cause, text)
        })
    };
    DROPS.iter().filter_map(doubt).collect()
}

fn overloaded(link: &Link<'_>, seen: &Seen<'_>) -> Option<Doubt> {
    let tenths = link.grew(|counters| counters.overloaded_tenths) as f64;
    let of = (seen.took_ns as f64 / TENTH_NS).max(1.0);
    (tenths / of > OVERLOADED).then(|| {
        Doubt::suspect(format!(
            "the relay of {} was overloaded for {:.1} of {:.1} s",
            link.from,
            tenths / 10.0,
            of / 10.0
        ))
    })
}

/// Packets that the relay wrote late, whatever passed: the block's own and the beacons.
fn written_late(link: &Link<'_>) -> Option<Doubt> {
    let classes = LATENESS_BOUNDS_NS.iter().map(Some).chain([None]);
    let grown = classes.enumerate().map(|(i, bound)| {
        let late = bound.is_none_or(|&bound_ns| bound_ns > WRITTEN_LATE_NS);
        (late, link.grew(|counters| counters.lateness[i]))
    });
    let (mut late, mut all) = (0, 0);
    for (is_late, packets) in grown {
        all += packets;
        late += if is_late { packets } else { 0 };
    }
    if all == 0 {
        return None;
    }
    Doubt::graded(late as f64 / all as f64, WRITTEN_LATE, Cause::Noise, || {
        format!(
            "the relay of {} wrote {late} of {all} packets to {} more than {} too late: its delay was not true",
            link.from,
            link.to,
            row::time(WRITTEN_LATE_NS)
        )
    })
}

/// A state that is none that this block asked for: somebody else changes the link.
fn changed(link: &Link<'_>) -> Option<Doubt> {
    let odd = link.states.iter().find_map(|state| differs(link, state))?;
    let text = format!(
        "somebody else changed the link from {} in the middle of the block: {odd}",
        link.name()
    );
    Some(Doubt::void(Cause::Instrument, text))
}

fn differs(link: &Link<'_>, state: &State<'_>) -> Option<String> {
    let (now_ns, path) = state.when?;
    let until_ns = now_ns.saturating_add(RECORDED_NS);
    let status = state.status;
    if status.playing_since_ns.is_some() {
        return Some("a schedule is being carried out".to_owned());
    }
    let paths = link.paths_between(now_ns, until_ns);
    if !paths.contains(&path) {
        return Some(format!("packets took the way {path:?} instead of {:?}", paths.first()?));
    }
    if path == Path::Kernel {
        return None;
    }
    let told = &status.conditions;
    let is = (told.delay_ns, status.cut.is_some(), status.frozen);
    let asked = link.course.overlapping(now_ns, until_ns).iter();
    let asked: Vec<_> = asked.map(|step| (step.delay_ns, step.cut, step.frozen)).collect();
    if !asked.contains(&is) {
        return Some(format!("it was {} instead of {}", shown(is), shown(*asked.first()?)));
    }
    let ports = status.port_cut().map_or(&[][..], |cut| &cut.ports);
    let asked = link.cut_ports_between(now_ns, until_ns);
    if !asked.contains(&ports) {
        let asked = asked.first().copied().unwrap_or_default();
        return Some(format!(
            "the ports cut were {} instead of {}",
            cuts::listed(ports),
            cuts::listed(asked)
        ));
    }
    let alike = Conditions {
        delay_ns: told.delay_ns,
        ..link.conditions()?.clone()
    };
    (*told != alike).then(|| "conditions other than its delay".to_owned())
}

fn shown((delay_ns, cut, frozen): (u64, bool, bool)) -> String {
    let state = match (cut, frozen) {
        (true, _) => ", cut",
        (_, true) => ", frozen",
        _ => "",
    };
    format!("{}{state}", row::time(delay_ns))
}
