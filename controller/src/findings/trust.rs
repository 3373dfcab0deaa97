//! Whether a block's numbers can be vouched for: `sound`, `suspect` or `void`, with every reason and what it rests on.
//!
//! Judged from the history alone, by rules that only know the instrument: none of them sees a claim. Void numbers decide no
//! claim in either direction. What was not watched is never sound. One file per kind of rule below; all tolerances are in
//! `limits`.

mod beacons;
mod bus;
mod calibration;
mod course;
mod cuts;
mod doubt;
mod evidence;
mod excess;
mod host;
mod limits;
mod paused;
mod peers;
mod relays;
#[cfg(test)]
mod scenery;
mod seen;
mod series;
mod unsteady;

use super::Trust;
use super::row::Rows;
use crate::claim::Cause;
use beacons::Heard;
use doubt::{Doubt, Weight};
pub use peers::any_unseen;
use seen::Seen;

/// What a block's trust is, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// The trust.
    pub trust: Trust,
    /// The gravest reason for which the numbers are void, if they are: what a claim on them gives as its own.
    pub void: Option<(String, Cause)>,
    /// What it rests on, in figures.
    pub evidence: Vec<String>,
}

/// Judges what a history holds of the instrument during a block.
#[must_use]
pub fn of(rows: &Rows<'_>) -> Assessment {
    let seen = Seen::of(rows);
    let heard: Vec<Heard> = seen.links.iter().map(Heard::of).collect();
    let mut doubts = doubts(rows, &seen, &heard);
    // Stable: of equal gravity the first rule's word comes first.
    doubts.sort_by_key(|doubt| std::cmp::Reverse(doubt.gravity()));
    let void = doubts.first().filter(|doubt| doubt.weight == Weight::Void);
    Assessment {
        void: void.map(|doubt| (doubt.text.clone(), doubt.cause)),
        trust: weigh(&doubts),
        evidence: evidence::lines(&seen, &heard)
            .into_iter()
            .chain(bus::told(rows))
            .collect(),
    }
}

fn doubts(rows: &Rows<'_>, seen: &Seen<'_>, heard: &[Heard]) -> Vec<Doubt> {
    let host = host::doubts(seen);
    // A busy host makes an intact link late; on a quiet one it is the link.
    let late = if host.is_empty() {
        Cause::Instrument
    } else {
        Cause::Noise
    };
    let mut doubts = relays::ended(seen);
    doubts.extend(relays::doubts(seen));
    doubts.extend(cuts::missing(rows.block, seen));
    doubts.extend(bus::doubts(rows));
    doubts.extend(paused::doubts(rows));
    for (link, heard) in seen.links.iter().zip(heard) {
        doubts.extend(cuts::doubts(link, heard));
        doubts.extend(beacons::doubts(link, heard, late));
        doubts.extend(calibration::doubts(link, late));
        doubts.extend(relays::of_link(link, seen));
    }
    doubts.extend(unsteady::doubts(seen));
    doubts.extend(peers::doubts(seen));
    doubts.extend(calibration::overhead(seen));
    doubts.extend(series::doubts(rows));
    doubts.extend(host);
    doubts.extend(unwatched(seen));
    doubts
}

fn unwatched(seen: &Seen<'_>) -> Option<Doubt> {
    let why = seen.unwatched.unwrap_or("the history has no beacons of it");
    (!seen.watched()).then(|| Doubt::suspect(format!("nobody watched the link during the block: {why}")))
}

/// The reasons of the weight that decides, and below void the reservations too.
fn weigh(doubts: &[Doubt]) -> Trust {
    let mut reasons: Vec<String> = Vec::new();
    for doubt in doubts {
        if !reasons.contains(&doubt.text) {
            reasons.push(doubt.text.clone());
        }
    }
    match doubts.first().map(|doubt| doubt.weight) {
        None => Trust::Sound,
        Some(Weight::Suspect) => Trust::Suspect(reasons),
        Some(Weight::Void) => Trust::Void(reasons),
    }
}

#[cfg(test)]
mod tests;
