//! What a trust rests on, in figures, one line per kind: printed with every table, sound or not.

use super::beacons::Heard;
use super::seen::{Link, Seen};
use super::{calibration, cuts, host, peers};
use crate::findings::row;
use crate::stats::Summary;

/// All lines.
pub fn lines(seen: &Seen<'_>, heard: &[Heard]) -> Vec<String> {
    [
        calibrated(seen),
        watched(seen, heard),
        cuts::told(seen),
        relays(seen),
        peers::told(seen),
        processor(seen),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn joined(kind: &str, parts: Vec<String>) -> Option<String> {
    (!parts.is_empty()).then(|| format!("{kind} {}", parts.join("; ")))
}

fn calibrated(seen: &Seen<'_>) -> Option<String> {
    let told = |link: &Link<'_>| {
        let calibrated = link.calibrated?;
        let excess = calibration::excess(calibrated)?;
        Some(format!(
            "{} {} asked, {} ms measured (n={})",
            link.name(),
            row::time(calibrated.asked_ns),
            row::ms(calibrated.asked_ns as f64 + excess.median_ns),
            calibrated.one_way_ns.len()
        ))
    };
    let mut parts: Vec<String> = seen.links.iter().filter_map(told).collect();
    let own = seen.probes.iter().filter_map(|probe| calibration::own_ns(probe));
    if let Some(own_ns) = own.reduce(f64::max) {
        parts.push(format!("a probe's round trip with itself {} ms", row::ms(own_ns)));
    }
    joined("calibration", parts)
}

fn watched(seen: &Seen<'_>, heard: &[Heard]) -> Option<String> {
    let told = |(link, heard): (&Link<'_>, &Heard)| {
        let interval_ns = link.watched?.interval_ns;
        let over = match Summary::of(&heard.excess_ns()) {
            Some(excess) => format!(
                "{} / {} / {} ms over the delay asked (median / p95 / most)",
                row::ms(excess.median),
                row::ms(excess.p95),
                row::ms(excess.max)
            ),
            None => "no delay judged".to_owned(),
        };
        Some(format!(
            "{} {} packets every {}, {over}, {} lost, {} early",
            link.name(),
            heard.sent,
            row::time(interval_ns),
            heard.lost(),
            heard.early_ns.len()
        ))
    };
    joined("watch", seen.links.iter().zip(heard).filter_map(told).collect())
}

fn relays(seen: &Seen<'_>) -> Option<String> {
    let told = |(datacenter, looks): (&&str, &Vec<&crate::history::RelaySeen>)| {
        let last = looks.last()?;
        let most = last.status.links.iter().map(|link| link.counters.held_bytes_max).max();
        Some(format!(
            "{datacenter} scheduled `{}`, cores {}, {} looks, at most {} KiB held since it started",
            last.status.scheduling,
            if last.status.keeps_awake {
                "kept awake"
            } else {
                "free to sleep"
            },
            last.looks,
            most.unwrap_or_default().div_ceil(1024)
        ))
    };
    joined("relays", seen.relays.iter().filter_map(told).collect())
}

fn processor(seen: &Seen<'_>) -> Option<String> {
    let mut parts = Vec::new();
    let overslept = seen.probes.iter().filter_map(|probe| host::oversleeping(probe));
    if let Some(worst) = overslept.reduce(|a, b| if a.p95 > b.p95 { a } else { b }) {
        parts.push(format!(
            "sleeps {} / {} ms too long (median / p95)",
            row::ms(worst.median),
            row::ms(worst.p95)
        ));
    }
    let late = seen.links.iter().filter_map(|link| host::lateness(link.watched?));
    if let Some(worst) = late.reduce(|a, b| if a.p95 > b.p95 { a } else { b }) {
        parts.push(format!("packets sent {} ms late (p95)", row::ms(worst.p95)));
    }
    if let Some(shares) = host::Shares::between(seen, "before", "start") {
        parts.push(format!("{:.0} % busy before", 100.0 * shares.busy));
    }
    if let Some(shares) = host::Shares::between(seen, "start", "end") {
        parts.push(format!(
            "{:.0} % busy and {:.1} % stolen of {} cores during the block",
            100.0 * shares.busy,
            100.0 * shares.steal,
            shares.cores
        ));
    }
    joined("host", parts)
}
