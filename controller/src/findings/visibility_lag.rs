//! Block 1: far minus near is one flight and not a round trip, at every distance and in the slope; load adds its own.

use super::Judged;
use super::row::{self, Rows, claim_at, table};
use crate::claim::{Bound, Claim, Finding, Sampled, order, within};
use crate::history::Series;
use crate::stats::quotient;

const COLUMNS: [&str; 8] = [
    "row",
    "n",
    "round trip, ms",
    "near, ms (median / p95)",
    "far, ms (median / p95)",
    "far - near, ms (median / p95)",
    "in flights",
    "by poll: near, far, ms",
];

pub fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged::default();
    let mut lines = Vec::new();
    for delay_ns in rows.distances() {
        let quiet = Lags::of(rows, "", delay_ns);
        lines.push(quiet.line(rows, delay_ns));
        judged.findings.push(one_flight(rows, &quiet, delay_ns));
        if rows.series("write under load", "set", Some(delay_ns)).is_some() {
            let loaded = Lags::of(rows, " under load", delay_ns);
            lines.push(loaded.line(rows, delay_ns));
            judged.findings.extend(load_adds(rows, &quiet, &loaded, delay_ns));
        }
    }
    if judged
        .findings
        .iter()
        .all(|finding| !finding.claim.starts_with(LOAD_ADDS))
    {
        let claim = Claim::new(LOAD_ADDS, "under load the lag is larger");
        judged
            .findings
            .push(claim.incomplete("nothing", "nothing was measured under load"));
    }
    judged.findings.extend(rows.slopes(
        "lag-grows-by-half-a-round-trip",
        "far minus near grows by half a round trip per round trip",
        // Half, within a tenth of it: the same room as for one round trip per round trip, since the difference of two
        // stamps varies as much as one time does.
        &Bound::between(0.45, 0.55, "round trips per round trip"),
        |delay_ns| Lags::of(rows, "", delay_ns).difference,
    ));
    judged.table = table(&COLUMNS, lines);
    judged.notes.extend(load_note(rows));
    judged
}

const LOAD_ADDS: &str = "1.load-adds-its-own";

/// Lags of the same writes at both replicas, nanoseconds, from the sending of the write.
struct Lags {
    load: &'static str,
    near: Sampled,
    far: Sampled,
    /// Far minus near, write by write.
    difference: Sampled,
    polls: [Sampled; 2],
}

impl Lags {
    fn of(rows: &Rows<'_>, load: &'static str, delay_ns: u64) -> Self {
        let series = |row: &str, what| rows.series(&format!("{row}{load}"), what, Some(delay_ns));
        let writes = series("write", "set");
        let lag = |row: &str, what| lags(rows, row, load, delay_ns, writes, series(row, what));
        let [near, far] = ["near", "far"].map(|row| lag(row, "event"));
        let difference = difference(&near, &far, row::at(&format!("far - near{load}"), Some(delay_ns)));
        Self {
            load,
            polls: ["near", "far"].map(|row| lag(row, "poll").0),
            near: near.0,
            far: far.0,
            difference,
        }
    }

    fn line(&self, rows: &Rows<'_>, delay_ns: u64) -> Vec<String> {
        let trips = rows.round_trips(delay_ns);
        vec![
            format!(
                "{} one way{}",
                row::time(delay_ns),
                if self.load.is_empty() { "" } else { ", under load" }
            ),
            row::n(&self.difference),
            row::median(&trips),
            row::median_p95(&self.near),
            row::median_p95(&self.far),
            row::median_p95(&self.difference),
            row::quotient(&self.difference, &trips, 0.5),
            format!("{}, {}", row::median(&self.polls[0]), row::median(&self.polls[1])),
        ]
    }
}

/// Lag of each write that was seen, with the number of the write beside it. Under load only writes that were sent
/// while the load was on.
fn lags(
    rows: &Rows<'_>,
    row: &str,
    load: &str,
    delay_ns: u64,
    writes: Option<&Series>,
    seen: Option<&Series>,
) -> (Sampled, Vec<i64>) {
    let row = row::at(&format!("{row}{load}"), Some(delay_ns));
    let what = seen.map_or("event", |series| series.what.as_str());
    let name = format!("lag by {what} of \"{row}\"");
    let missing = |failed| {
        let sampled = Sampled {
            name: name.clone(),
            values: None,
            failed,
        };
        (sampled, Vec::new())
    };
    let (Some(writes), Some(seen)) = (writes, seen) else {
        return missing(0);
    };
    // Number i belongs to the i-th write only if every write was made.
    if writes.failed() > 0 {
        return missing(writes.failed());
    }
    let during = load_window(rows, load);
    let (mut values, mut numbers) = (Vec::new(), Vec::new());
    for sample in &seen.samples {
        let write = usize::try_from(sample.outcome - 1)
            .ok()
            .and_then(|i| writes.samples.get(i));
        let Some(write) = write else { continue };
        if (during.0..=during.1).contains(&write.started_ns) {
            values.push(sample.ended_ns.saturating_sub(write.started_ns) as f64);
            numbers.push(sample.outcome);
        }
    }
    (Sampled::new(name, values, seen.failed()), numbers)
}

/// First and last stamp between which the load was on; always, for the rows without load.
fn load_window(rows: &Rows<'_>, load: &str) -> (u64, u64) {
    if load.is_empty() {
        return (0, u64::MAX);
    }
    let stamp = |name| rows.fact("load", name).and_then(|ns| u64::try_from(ns).ok());
    match (stamp("load_began_ns"), stamp("load_ended_ns")) {
        (Some(began), Some(ended)) => (began, ended),
        // Nothing lies in an empty window: then there is no row under load.
        _ => (u64::MAX, 0),
    }
}

fn difference(near: &(Sampled, Vec<i64>), far: &(Sampled, Vec<i64>), name: String) -> Sampled {
    let failed = near.0.failed.max(far.0.failed);
    let (Some(near_lags), Some(far_lags)) = (&near.0.values, &far.0.values) else {
        return Sampled {
            name,
            values: None,
            failed,
        };
    };
    let near: std::collections::BTreeMap<i64, f64> = near.1.iter().copied().zip(near_lags.iter().copied()).collect();
    let both = far.1.iter().zip(far_lags);
    let values = both
        .filter_map(|(number, far)| near.get(number).map(|near| far - near))
        .collect();
    Sampled::new(name, values, failed)
}

fn one_flight(rows: &Rows<'_>, lags: &Lags, delay_ns: u64) -> Finding {
    let claim = claim_at(
        1,
        "far-minus-near-is-one-flight",
        delay_ns,
        "a write is visible on the far replica one flight after the near one, not a round trip",
    );
    // Both stamps are taken after a wake-up, of the replica and of its probe, and those differ by some 0.1 to 0.3 ms of a
    // flight of 5 ms. A round trip would be 2.
    let bound = if delay_ns <= 10_000_000 {
        Bound::between(0.9, 1.2, "flights")
    } else {
        Bound::between(0.95, 1.1, "flights")
    };
    within::judge(
        claim,
        &[&lags.difference, &rows.round_trips(delay_ns)],
        |medians| quotient(medians[0], 0.5 * medians[1]),
        &bound,
        rows.seed(),
    )
}

fn load_adds(rows: &Rows<'_>, quiet: &Lags, loaded: &Lags, delay_ns: u64) -> [Finding; 2] {
    let of = |replica: &str, quiet: &Sampled, loaded: &Sampled| {
        let claim = claim_at(
            1,
            &format!("load-adds-its-own-{replica}"),
            delay_ns,
            &format!("under load a write is visible later on the {replica} replica than at low load"),
        );
        order::judge(claim, quiet, loaded, 1.0, rows.seed())
    };
    [
        of("near", &quiet.near, &loaded.near),
        of("far", &quiet.far, &loaded.far),
    ]
}

/// The load in words.
fn load_note(rows: &Rows<'_>) -> Option<String> {
    let fact = |name| rows.fact("load", name);
    let took_s = (fact("load_ended_ns")? - fact("load_began_ns")?) as f64 / 1e9;
    if took_s <= 0.0 {
        return None;
    }
    let (operations, bytes) = (fact("load_operations")? as f64, fact("load_value_bytes")? as f64);
    let failed = match fact("load_failures")? {
        0 => String::new(),
        failed => format!("; {failed} failed"),
    };
    Some(format!(
        "Load: {} connections, {:.0} SETs/s of {bytes:.0} bytes for {took_s:.1} s, {:.1} MB/s of values{failed}.",
        fact("load_connections")?,
        operations / took_s,
        operations * bytes / took_s / 1e6,
    ))
}
