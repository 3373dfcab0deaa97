//! Block 1: far minus near is one flight and not a round trip, at every distance and in the slope; load adds its own.

use super::Judged;
use super::row::{self, Rows, claim_at, table};
use crate::claim::{Bound, Claim, Finding, Sampled, order, within};
use crate::history::Series;
use crate::stats::quotient;

const COLUMNS: [&str; 8] = [
    "one way",
    "n",
    "round trip",
    "near",
    "far",
    "far - near",
    "flights",
    "by poll",
];

/// What the columns hold.
const LEGEND: &str = "Times in ms, median / p95, from the sending of a write to its event on the replica; by poll: medians near and far. \
     A flight is half of the measured round trip.";

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
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
    judged.notes.push(LEGEND.to_owned());
    judged.notes.extend(load_note(rows));
    judged
}

/// Lags of the writes at the near and at the far replica, at low load.
#[must_use]
pub fn near_and_far(rows: &Rows<'_>, delay_ns: u64) -> [Sampled; 2] {
    let lags = Lags::of(rows, "", delay_ns);
    [lags.near, lags.far]
}

/// Lags at every distance that was measured, near and far, quiet and under load.
pub(super) fn lags_of_all(rows: &Rows<'_>) -> Vec<Sampled> {
    let mut all = Vec::new();
    for delay_ns in rows.distances() {
        for load in ["", " under load"] {
            let lags = Lags::of(rows, load, delay_ns);
            all.extend([lags.near, lags.far]);
        }
    }
    all
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
                "{}{}",
                row::time(delay_ns),
                if self.load.is_empty() { "" } else { ", load" }
            ),
            row::n(&self.difference),
            row::median(&trips),
            row::median_p95(&self.near),
            row::median_p95(&self.far),
            row::median_p95(&self.difference),
            row::quotient(&self.difference, &trips, 0.5),
            format!("{} {}", row::median(&self.polls[0]), row::median(&self.polls[1])),
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

#[cfg(test)]
mod tests {
    use crate::claim::{Cause, Verdict};
    use crate::findings::synthetic::{MS, Story, ns, sample};

    const NEAR_NS: u64 = 300_000;

    /// Writes every 25 ms that are seen near after 0.3 ms, and far so many flights later.
    fn lags(story: Story, load: &str, delay_ms: u64, flights: f64, near_ns: u64, n: u64) -> Story {
        let far_ns = near_ns + ns(flights * delay_ms as f64);
        let write = |i: u64| i * 25 * MS;
        let seen = |after_ns: u64| {
            let stamp = |i: u64| {
                let at = write(i) + after_ns + (i % 7) * 1000;
                sample(at, 0, i64::try_from(i).unwrap() + 1)
            };
            (0..n).map(stamp).collect::<Vec<_>>()
        };
        let delay = Some(delay_ms);
        story
            .samples(
                &format!("write{load}"),
                "set",
                delay,
                (0..n).map(|i| sample(write(i), 100_000, 0)).collect(),
            )
            .samples(&format!("near{load}"), "event", delay, seen(near_ns))
            .samples(&format!("far{load}"), "event", delay, seen(far_ns))
    }

    fn story(flights: f64, n: u64) -> Story {
        let mut story = Story::of(1);
        for delay_ms in [5, 20, 40] {
            story = lags(story.round_trips(delay_ms), "", delay_ms, flights, NEAR_NS, n);
        }
        story
    }

    fn with_load(story: Story, near_ns: u64) -> Story {
        lags(story, " under load", 20, 1.0, near_ns, 50)
            .fact("load", "load_began_ns", 0)
            .fact("load", "load_ended_ns", 2_000_000_000)
    }

    #[test]
    fn one_flight_at_every_distance_and_a_lag_that_grows_under_load_hold() {
        let judged = with_load(story(1.0, 40), 3 * NEAR_NS).judged();
        judged.assert_all_hold();
        assert_eq!(judged.findings.len(), 3 + 2 + 3);
        assert_eq!(judged.table.rows.len(), 4);
    }

    #[test]
    fn a_round_trip_instead_of_a_flight_diverged_at_every_distance_and_in_the_slope() {
        let judged = story(2.0, 40).judged();
        for delay in ["5ms", "20ms", "40ms"] {
            let claim = format!("1.far-minus-near-is-one-flight@{delay}");
            assert_eq!(judged.verdict(&claim), Verdict::Diverged);
        }
        for pair in ["5ms-20ms", "5ms-40ms", "20ms-40ms"] {
            let claim = format!("1.lag-grows-by-half-a-round-trip@{pair}");
            assert_eq!(judged.verdict(&claim), Verdict::Diverged);
        }
    }

    #[test]
    fn a_constant_delay_that_looks_like_a_flight_at_one_distance_diverged_in_the_slope() {
        let mut story = Story::of(1);
        for delay_ms in [5, 20, 40] {
            let flights = 20.0 / delay_ms as f64;
            story = lags(story.round_trips(delay_ms), "", delay_ms, flights, NEAR_NS, 40);
        }
        let judged = story.judged();
        assert_eq!(judged.verdict("1.far-minus-near-is-one-flight@20ms"), Verdict::Holds);
        assert_eq!(
            judged.verdict("1.lag-grows-by-half-a-round-trip@5ms-40ms"),
            Verdict::Diverged
        );
    }

    #[test]
    fn three_writes_and_a_missing_distance_decide_nothing() {
        story(1.0, 3).judged().assert_incomplete("1.far-minus-near");
        let judged = story(1.0, 40).without_row("far, 40ms").judged();
        judged.assert_incomplete("1.far-minus-near-is-one-flight@40ms");
        judged.assert_incomplete("1.lag-grows-by-half-a-round-trip@20ms-40ms");
        assert_eq!(
            judged.verdict("1.lag-grows-by-half-a-round-trip@5ms-20ms"),
            Verdict::Holds
        );
    }

    #[test]
    fn events_are_not_matched_to_writes_of_which_one_failed() {
        let mut story = Story::of(1).round_trips(20);
        story = lags(story, "", 20, 1.0, NEAR_NS, 40);
        let writes = (0..40).map(|i| sample(i * 25 * MS, 100_000, 0)).collect();
        let judged = story.samples("write", "set", Some(20), writes).failed(1).judged();
        judged.assert_incomplete("1.far-minus-near-is-one-flight@20ms");
    }

    #[test]
    fn a_lag_that_does_not_grow_under_load_diverged_and_no_load_decides_nothing() {
        let judged = with_load(story(1.0, 40), NEAR_NS / 2).judged();
        assert_eq!(judged.verdict("1.load-adds-its-own-near@20ms"), Verdict::Diverged);
        story(1.0, 40).judged().assert_incomplete("1.load-adds-its-own");
        let outside = lags(story(1.0, 40), " under load", 20, 1.0, 3 * NEAR_NS, 50);
        outside.judged().assert_incomplete("1.load-adds-its-own");
    }

    #[test]
    fn lags_of_a_host_that_is_too_busy_are_noise() {
        // Every fourth write gets through, the others wait for their turn.
        let stamps = (0..40_u64)
            .map(|i| {
                let at = i * 25 * MS + NEAR_NS + 20 * MS + (i % 4) * 4 * MS;
                sample(at, 0, i64::try_from(i).unwrap() + 1)
            })
            .collect();
        let judged = story(1.0, 40).samples("far", "event", Some(20), stamps).judged();
        let finding = judged.claim("1.far-minus-near-is-one-flight@20ms");
        assert_eq!(finding.cause, Some(Cause::Noise), "{finding:?}");
    }
}
