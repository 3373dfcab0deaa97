//! Whether every cut cut: what came through one, and that the relays' counters prove that it took place. What is frozen is
//! late and not lost, so a freeze proves no cut. Beacons pass a cut of ports, of which only the counters tell.

use super::beacons::Heard;
use super::doubt::Doubt;
use super::seen::{Link, Seen};
use crate::claim::Cause;
use crate::findings::card;
use crate::history::BlockNumber;

/// Beacons under a cut of which at least one must have been destroyed by it.
const FEWEST_DESTROYED: usize = 2;

/// Doubts about the cuts of a directed link.
pub fn doubts(link: &Link<'_>, heard: &Heard) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if heard.leaked > 0 {
        let text = format!(
            "the cut leaks: {} packets from {} came through that it should have destroyed",
            heard.leaked,
            link.name()
        );
        doubts.push(Doubt::void(Cause::Instrument, text));
    }
    let under_cut: usize = heard.stretches.iter().map(|stretch| stretch.under_cut).sum();
    if under_cut >= FEWEST_DESTROYED && destroyed(link) == 0 {
        let text = format!(
            "no cut took place from {}: its relay destroyed nothing of {under_cut} packets sent under it",
            link.name(),
        );
        doubts.push(Doubt::void(Cause::Instrument, text));
    }
    let unseen = heard
        .stretches
        .iter()
        .filter(|stretch| stretch.cut && stretch.under_cut == 0)
        .count();
    if unseen > 0 && link.watched.is_some() {
        let text = format!(
            "whether {unseen} of the cuts from {} cut is not known: too short for the watch",
            link.name()
        );
        doubts.push(Doubt::suspect(text));
    }
    doubts.extend(of_ports(link));
    doubts
}

/// A cut of ports that nobody asked for, or that met nothing.
fn of_ports(link: &Link<'_>) -> Option<Doubt> {
    let (asked, destroyed) = (link.ever_cut_ports(), destroyed_by_port(link));
    let foreign = |what: String| {
        let text = format!(
            "somebody else cut ports of the link from {} in the middle of the block: {what}",
            link.name()
        );
        Some(Doubt::void(Cause::Instrument, text))
    };
    if let Some(ports) = link.foreign_ports {
        return foreign(listed(ports));
    }
    match (asked.as_slice(), destroyed) {
        ([], 0) => None,
        ([], packets) => foreign(format!("{packets} packets of them were destroyed")),
        (ports, 0) => Some(Doubt::suspect(format!(
            "whether the cut of ports {} from {} cut is not known: it met no packet of them",
            listed(ports),
            link.name()
        ))),
        _ => None,
    }
}

/// Ports for people.
pub fn listed(ports: &[u16]) -> String {
    if ports.is_empty() {
        return "none".to_owned();
    }
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// A block whose method cuts, and in which nothing was cut.
pub fn missing(block: BlockNumber, seen: &Seen<'_>) -> Option<Doubt> {
    let wanted = card::of(block).is_some_and(|card| card.cuts());
    let any_cut = seen
        .links
        .iter()
        .any(|link| cuts(link) > 0 || !link.ever_cut_ports().is_empty());
    if !wanted || any_cut || !seen.completed || !seen.watched() {
        return None;
    }
    let frozen = seen
        .links
        .iter()
        .any(|link| link.course.steps().iter().any(|step| step.frozen));
    let text = if frozen {
        "no cut took place: the link was frozen, and what is frozen is late, not lost"
    } else {
        "no cut took place"
    };
    Some(Doubt::void(Cause::Instrument, text))
}

/// What the cuts destroyed, for people; nothing if there were none.
pub fn told(seen: &Seen<'_>) -> Option<String> {
    let told = |link: &Link<'_>| {
        let times = cuts(link);
        (times > 0).then(|| match destroyed(link) {
            0 => format!("{}: {times}, nothing was in flight", link.name()),
            packets => format!("{}: {times}, {packets} packets destroyed", link.name()),
        })
    };
    let ports = |link: &Link<'_>| {
        let ports = link.ever_cut_ports();
        (!ports.is_empty()).then(|| {
            let packets = destroyed_by_port(link);
            format!("{}: ports {}, {packets} packets destroyed", link.name(), listed(&ports))
        })
    };
    let links = seen.links.iter();
    let told: Vec<String> = links.flat_map(|link| [told(link), ports(link)]).flatten().collect();
    (!told.is_empty()).then(|| format!("cuts {}", told.join("; ")))
}

fn cuts(link: &Link<'_>) -> usize {
    link.course.steps().iter().filter(|step| step.cut).count()
}

fn destroyed(link: &Link<'_>) -> u64 {
    link.grew(|counters| counters.dropped_cut)
}

fn destroyed_by_port(link: &Link<'_>) -> u64 {
    link.grew(|counters| counters.dropped_ports)
}
