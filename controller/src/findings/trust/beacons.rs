//! What the beacons of a directed link say: whether anything left it early, whether it was as long as asked between any two
//! changes, whether what had to come through did, and whether a heal healed.

use super::course::{Arrival, Step};
use super::doubt::Doubt;
use super::excess::Excess;
use super::limits::{CLOCK_NS, FEWEST, FEWEST_LOST, GUARD_NS, HELD_UP, HELD_UP_NS, LOST};
use super::seen::Link;
use crate::claim::Cause;
use crate::findings::row;
use crate::history::BeaconTimes;
use wire::MILLION;

/// The beacons of a directed link, sorted by what they say.
#[derive(Debug, Default)]
pub struct Heard {
    /// Sent.
    pub sent: usize,
    /// Received though they cannot have come through.
    pub leaked: usize,
    /// By how much each that left the link too early did so, nanoseconds.
    pub early_ns: Vec<u64>,
    /// One per step of the link's course.
    pub stretches: Vec<Stretch>,
}

/// Beacons between two changes of a link.
#[derive(Debug, Default, Clone)]
pub struct Stretch {
    /// One way, as asked.
    pub asked_ns: u64,
    /// Whether it began with the end of a cut.
    pub healed: bool,
    /// Whether it was cut.
    pub cut: bool,
    /// Sent under that cut for certain.
    pub under_cut: usize,
    /// Those that had to come through.
    pub due: usize,
    /// Of these, those that did not.
    pub lost: usize,
    /// By how much the others took longer than asked, where nothing changed on their way, nanoseconds.
    pub excess_ns: Vec<f64>,
}

impl Heard {
    /// Sorts the beacons of a link.
    pub fn of(link: &Link<'_>) -> Self {
        let steps = link.course.steps();
        let stretch = |(i, step): (usize, &Step)| Stretch {
            asked_ns: step.delay_ns,
            cut: step.cut,
            healed: i > 0 && steps[i - 1].cut && !step.cut,
            ..Stretch::default()
        };
        let mut heard = Self {
            stretches: steps.iter().enumerate().map(stretch).collect(),
            ..Self::default()
        };
        for beacon in link.watched.iter().flat_map(|watched| watched.times()) {
            heard.sort(link, &beacon);
        }
        heard
    }

    fn sort(&mut self, link: &Link<'_>, beacon: &BeaconTimes) {
        self.sent += 1;
        let sent_ns = beacon.sent_ns;
        if let Some(step) = link.course.met_cut(sent_ns) {
            self.stretches[step].under_cut += 1;
        }
        if let Some(received_ns) = beacon.received_ns {
            match link.course.judge(sent_ns, received_ns, link.early_ns) {
                Arrival::Leaked => self.leaked += 1,
                Arrival::Early(by_ns) if by_ns > CLOCK_NS && link.never_early() => self.early_ns.push(by_ns),
                Arrival::Early(_) | Arrival::Possible => {}
            }
        }
        let Some(passage) = link.course.must_pass(sent_ns).filter(|_| listened(link, beacon)) else {
            return;
        };
        let stretch = &mut self.stretches[passage.step];
        match beacon.received_ns {
            _ if passage.due_ns.saturating_add(GUARD_NS) > link.heard_until_ns() => {}
            None => {
                stretch.due += 1;
                stretch.lost += 1;
            }
            Some(received_ns) => {
                stretch.due += 1;
                if passage.steady {
                    stretch.excess_ns.push(received_ns as f64 - passage.due_ns as f64);
                }
            }
        }
    }

    /// Excesses of all stretches.
    pub fn excess_ns(&self) -> Vec<f64> {
        self.stretches
            .iter()
            .flat_map(|stretch| &stretch.excess_ns)
            .copied()
            .collect()
    }

    fn due(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.due).sum()
    }

    /// Beacons that were lost for no reason that was asked for.
    pub fn lost(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.lost).sum()
    }
}

fn listened(link: &Link<'_>, beacon: &BeaconTimes) -> bool {
    link.watched
        .is_some_and(|watched| beacon.sent_ns >= watched.heard_from_ns)
}

/// All doubts about a directed link. `late` is the cause of what a busy host could have done as well.
pub fn doubts(link: &Link<'_>, heard: &Heard, late: Cause) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    doubts.extend(early(link, heard));
    if link.is_steady() {
        doubts.extend(long(link, heard, late));
        doubts.extend(held_up(link, heard, late));
    }
    match closed(link, heard) {
        Some(doubt) => doubts.push(doubt),
        None => doubts.extend(lost(link, heard, late)),
    }
    doubts
}

/// A delay line can be late, never early: one packet is enough.
fn early(link: &Link<'_>, heard: &Heard) -> Option<Doubt> {
    let most_ns = heard.early_ns.iter().max()?;
    let text = format!(
        "packets from {} left early ({} of {}, by up to {} ms): the link is shorter than asked",
        link.name(),
        heard.early_ns.len(),
        heard.sent,
        row::ms(*most_ns as f64),
    );
    Some(Doubt::void(Cause::Instrument, text))
}

/// The worst stretch.
fn long(link: &Link<'_>, heard: &Heard, late: Cause) -> Option<Doubt> {
    let judged = heard
        .stretches
        .iter()
        .filter(|stretch| stretch.excess_ns.len() >= FEWEST);
    let excesses = judged.filter_map(|stretch| Some((stretch, Excess::of(&stretch.excess_ns)?)));
    let (stretch, excess) = excesses.max_by(|a, b| a.1.cmp(&b.1))?;
    excess.doubt(late, |excess| {
        format!(
            "the link from {} is {excess} than asked ({}, {} packets)",
            link.name(),
            row::time(stretch.asked_ns),
            stretch.excess_ns.len()
        )
    })
}

fn held_up(link: &Link<'_>, heard: &Heard, late: Cause) -> Option<Doubt> {
    let excess = heard.excess_ns();
    if excess.len() < FEWEST {
        return None;
    }
    let late_ones = excess.iter().filter(|&&excess_ns| excess_ns > HELD_UP_NS).count();
    let share = late_ones as f64 / excess.len() as f64;
    Doubt::graded(share, HELD_UP, late, || {
        format!(
            "{late_ones} of {} packets from {} came more than {} ms late",
            excess.len(),
            link.name(),
            row::ms(HELD_UP_NS)
        )
    })
}

/// A stretch in which nothing at all came through.
fn closed(link: &Link<'_>, heard: &Heard) -> Option<Doubt> {
    let silent = |stretch: &&Stretch| stretch.due >= FEWEST_LOST && stretch.lost == stretch.due;
    let stretch = heard.stretches.iter().find(silent)?;
    let what = if stretch.healed {
        "the heal did not heal"
    } else {
        "the link was closed though nobody asked for it"
    };
    let text = format!(
        "{what}: none of {} packets from {} came through",
        stretch.due,
        link.name()
    );
    Some(Doubt::void(Cause::Instrument, text))
}

/// Some are lost, beyond what was asked for.
fn lost(link: &Link<'_>, heard: &Heard, late: Cause) -> Option<Doubt> {
    let (lost, due) = (heard.lost() as f64, heard.due() as f64);
    let share = link.conditions().map_or(0.0, |told| {
        let ppm = told.loss.map_or(0, |loss| loss.ppm) + told.corrupt_ppm;
        f64::from(ppm) / f64::from(MILLION)
    });
    // Four standard deviations of what chance takes; bursts spread wider.
    let burst = link
        .conditions()
        .and_then(|told| told.loss)
        .map_or(1.0, |loss| f64::from(loss.burst_milli) / 1000.0);
    let asked = share * due + 4.0 * (share * due * burst).sqrt();
    let beyond = lost - asked;
    let few = (LOST * due).max(2.0);
    Doubt::graded(beyond, [0.0, few], late, || {
        format!(
            "{lost} of {due} packets from {} were lost though the link was up",
            link.name()
        )
    })
}
