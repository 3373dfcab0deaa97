//! Block 10: the price of WAIT grows by one round trip per round trip, between every two distances; at each it is one round
//! trip; and what it costs beyond the round trip does not grow with the distance. The first is the main claim: a ratio near
//! two at one distance was once taken for two round trips, where it was a constant of the instrument.

use super::Judged;
use super::row::{self, Rows, table};
use super::waits::{self, FAR};
use crate::claim::{Bound, Claim, Finding, Sampled, slope};

const COLUMNS: [&str; 7] = [
    "one way",
    "round trip",
    "SET",
    "SET + WAIT",
    "round trips",
    "beyond it",
    "growth",
];

/// What the columns hold.
const LEGEND: &str = "Times in ms, median / p95. Round trips: SET + WAIT in units of the measured one; beyond it: SET + WAIT minus the round \
     trip; growth: from the row above, in round trips per round trip. The record had 1.09, 1.04 and 1.02 round trips at 5, 20 and 40 ms, and 1.02 and \
     1.00 of growth.";

/// Most that the part beyond the round trip may grow, per round trip, over all distances together: 1.4 ms from 5 to 40 ms. It is the
/// work of two processes and their wake-ups, which come later the longer a processor has slept.
const NO_GROWTH: f64 = 0.02;

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged::default();
    let distances = rows.distances();
    judged.findings.extend(waits::grows_by_one_round_trip(rows));
    for &delay_ns in &distances {
        judged.findings.push(waits::costs_one_round_trip(rows, delay_ns));
    }
    judged.findings.push(excess_does_not_grow(rows, &distances));
    for &delay_ns in &distances {
        judged.findings.push(waits::set_pays_no_trip(rows, delay_ns));
    }
    judged.findings.push(waits::each_saw_one(rows));
    judged.table = table(&COLUMNS, lines(rows, &distances));
    judged.notes.push(LEGEND.to_owned());
    judged
}

fn excess_does_not_grow(rows: &Rows<'_>, distances: &[u64]) -> Finding {
    let claim = Claim::new(
        "10.excess-does-not-grow",
        "what SET + WAIT 1 costs beyond the round trip does not grow with the distance",
    );
    let at_all = |find: &dyn Fn(u64) -> Sampled| distances.iter().map(|&delay_ns| find(delay_ns)).collect::<Vec<_>>();
    slope::judge_excess(
        claim,
        &at_all(&|delay_ns| rows.sampled(FAR, "set_wait", Some(delay_ns))),
        &at_all(&|delay_ns| rows.round_trips(delay_ns)),
        &Bound::at_most(NO_GROWTH, "round trips per round trip"),
        rows.seed(),
    )
}

fn lines(rows: &Rows<'_>, distances: &[u64]) -> Vec<Vec<String>> {
    let mut above = None;
    let mut lines = Vec::new();
    for &delay_ns in distances {
        let sets = rows.sampled(FAR, "set", Some(delay_ns));
        let waits = rows.sampled(FAR, "set_wait", Some(delay_ns));
        let trips = rows.round_trips(delay_ns);
        let here = waits.median().zip(trips.median());
        lines.push(vec![
            row::time(delay_ns),
            row::median(&trips),
            row::median_p95(&sets),
            row::median_p95(&waits),
            row::quotient(&waits, &trips, 1.0),
            here.map_or_else(dash, |(wait, trip)| row::ms(wait - trip)),
            above.zip(here).map_or_else(dash, growth),
        ]);
        above = here;
    }
    lines
}

/// Growth of the first from one row to the next for each unit by which the second grows.
fn growth(((wait_above, trip_above), (wait, trip)): ((f64, f64), (f64, f64))) -> String {
    format!("{:.2}", (wait - wait_above) / (trip - trip_above))
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::findings::synthetic::Story;

    /// A whole run in which SET + WAIT takes so long, in ms, for a round trip of so many.
    fn story(wait: impl Fn(f64) -> f64, n: usize) -> Story {
        let mut story = Story::of(10);
        for delay_ms in [5, 20, 40] {
            let delay = Some(delay_ms);
            let ms = wait(2.0 * delay_ms as f64 + 0.1);
            story = story
                .round_trips(delay_ms)
                .took(FAR, "set", delay, 0.15, 200, 0)
                .took(FAR, "set_wait", delay, ms, n, 1);
        }
        story
    }

    #[test]
    fn the_records_own_figures_hold() {
        let records = |trip: f64| match trip {
            trip if trip < 20.0 => 10.90,
            trip if trip < 60.0 => 41.52,
            _ => 81.40,
        };
        let judged = story(records, 20).judged();
        judged.assert_all_hold();
        assert_eq!(judged.findings.len(), 3 + 3 + 1 + 3 + 1);
        assert!(judged.findings[0].claim.starts_with("10.wait-grows-by-one-round-trip"));
        assert_eq!(judged.table.rows.len(), 3);
        assert_eq!(judged.table.rows[2][0], "40ms");
        assert_eq!(judged.table.rows[0][6], "-");
        assert_eq!(judged.table.rows[2][6], "1.00");
    }

    #[test]
    fn a_constant_of_42_ms_is_seen_by_every_ratio_and_by_no_slope() {
        let judged = story(|trip| trip + 42.0, 20).judged();
        for delay in ["5ms", "20ms", "40ms"] {
            let ratio = format!("10.wait-costs-one-round-trip@{delay}");
            assert_eq!(judged.verdict(&ratio), Verdict::Diverged);
        }
        for pair in ["5ms-20ms", "5ms-40ms", "20ms-40ms"] {
            let slope = format!("10.wait-grows-by-one-round-trip@{pair}");
            assert_eq!(judged.verdict(&slope), Verdict::Holds);
        }
        assert_eq!(judged.verdict("10.excess-does-not-grow"), Verdict::Holds);
    }

    #[test]
    fn two_round_trips_are_seen_by_every_claim_on_waits() {
        let judged = story(|trip| 2.0 * trip + 0.2, 20).judged();
        assert_eq!(judged.verdict("10.wait-costs-one-round-trip@5ms"), Verdict::Diverged);
        assert_eq!(
            judged.verdict("10.wait-grows-by-one-round-trip@5ms-20ms"),
            Verdict::Diverged
        );
        assert_eq!(judged.verdict("10.excess-does-not-grow"), Verdict::Diverged);
        assert_eq!(judged.verdict("10.set-pays-no-trip@5ms"), Verdict::Holds);
    }

    #[test]
    fn a_part_that_grows_slowly_hides_in_the_slopes_and_not_in_the_excess() {
        let judged = story(|trip| 1.04 * trip + 0.5, 40).judged();
        assert_eq!(
            judged.verdict("10.wait-grows-by-one-round-trip@5ms-40ms"),
            Verdict::Holds
        );
        assert_eq!(judged.verdict("10.excess-does-not-grow"), Verdict::Diverged);
    }

    #[test]
    fn three_samples_decide_nothing_and_neither_does_a_missing_distance() {
        story(|trip| trip + 0.5, 3).judged().assert_incomplete("10.wait");
        let judged = story(|trip| trip + 0.5, 20).without_row("far only, 40ms").judged();
        judged.assert_incomplete("10.excess-does-not-grow");
        judged.assert_incomplete("10.wait-grows-by-one-round-trip@20ms-40ms");
        assert_eq!(judged.table.rows[2][5], "-");
    }
}
