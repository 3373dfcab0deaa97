//! The links before the block, asked against measured, and what a probe costs by itself.

use super::doubt::Doubt;
use super::excess::Excess;
use super::limits::{CLOCK_NS, FEWEST, OVERHEAD_NS};
use super::seen::{Link, Seen};
use crate::claim::Cause;
use crate::findings::row;
use crate::history::{Calibrated, ProbeSeen};
use crate::stats;

/// Doubts about the calibration of a directed link. `late` is the cause of what a busy host could have done as well.
pub fn doubts(link: &Link<'_>, late: Cause) -> Vec<Doubt> {
    let Some(calibrated) = link.calibrated else {
        return Vec::new();
    };
    let Some(excess) = excess(calibrated) else {
        let text = format!(
            "calibration: of {} packets from {} only {} came back",
            calibrated.lost as usize + calibrated.one_way_ns.len(),
            link.name(),
            calibrated.one_way_ns.len()
        );
        return vec![Doubt::void(Cause::Incomplete, text)];
    };
    let told = |than: &str| {
        format!(
            "calibration: the link from {} was {} ms instead of {}: {than} than asked",
            link.name(),
            row::ms(excess.median_ns + calibrated.asked_ns as f64),
            row::time(calibrated.asked_ns),
        )
    };
    if link.never_early() && shortest_ns(calibrated) + link.early_ns + CLOCK_NS < calibrated.asked_ns {
        vec![Doubt::void(Cause::Instrument, told("shorter"))]
    } else if link.is_steady() {
        excess
            .doubt(late, |excess| told(&excess.to_string()))
            .into_iter()
            .collect()
    } else {
        Vec::new()
    }
}

/// Doubts about the probes.
pub fn overhead(seen: &Seen<'_>) -> Vec<Doubt> {
    let doubt = |probe: &&ProbeSeen| {
        let own_ns = own_ns(probe)?;
        let text = || {
            format!(
                "a round trip of the probe of {} with itself takes {} ms",
                probe.datacenter,
                row::ms(own_ns)
            )
        };
        (own_ns > OVERHEAD_NS).then(|| Doubt::suspect(text()))
    };
    seen.probes.iter().filter_map(doubt).collect()
}

/// By how much the link was longer than asked; nothing if too few packets came back.
pub fn excess(calibrated: &Calibrated) -> Option<Excess> {
    if calibrated.one_way_ns.len() < FEWEST {
        return None;
    }
    let over = |&one_way_ns: &u64| one_way_ns as f64 - calibrated.asked_ns as f64;
    Excess::of(&calibrated.one_way_ns.iter().map(over).collect::<Vec<_>>())
}

/// Median round trip of a probe with itself.
pub fn own_ns(probe: &ProbeSeen) -> Option<f64> {
    let echo: Vec<f64> = probe.echo_ns.iter().map(|&ns| ns as f64).collect();
    stats::median(&echo)
}

fn shortest_ns(calibrated: &Calibrated) -> u64 {
    calibrated.one_way_ns.iter().copied().min().unwrap_or_default()
}
