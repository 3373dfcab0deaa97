//! Whether every cut cut: what came through one, and that the relays' counters prove that it took place. What is frozen is
//! late and not lost, so a freeze proves no cut.

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
    doubts
}

/// A block whose method cuts, and in which nothing was cut.
pub fn missing(block: BlockNumber, seen: &Seen<'_>) -> Option<Doubt> {
    let wanted = card::of(block).is_some_and(|card| card.cuts());
    let any_cut = seen.links.iter().any(|link| cuts(link) > 0);
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
    let told: Vec<String> = seen.links.iter().filter_map(told).collect();
    (!told.is_empty()).then(|| format!("cuts {}", told.join("; ")))
}

fn cuts(link: &Link<'_>) -> usize {
    link.course.steps().iter().filter(|step| step.cut).count()
}

fn destroyed(link: &Link<'_>) -> u64 {
    link.grew(|counters| counters.dropped_cut)
}
