//! Claims on SET + WAIT 1 with the far replica only, which blocks 3 and 10 share: one round trip at a distance, one more for
//! each round trip more, answered by that replica, and none of it in a plain SET.

use super::row::{Rows, claim_at, one_per_round_trip, one_round_trip};
use crate::claim::{Bound, Claim, Finding, Sampled, outcome, ratio};
use crate::history::Series;

/// Share of a round trip below which a time did not include one: a flight would be half of it.
const NO_TRIP: f64 = 0.25;

/// The row with the far replica only.
pub const FAR: &str = "far only";

pub(super) fn costs_one_round_trip(rows: &Rows<'_>, delay_ns: u64) -> Finding {
    let claim = claim_at(
        rows.block,
        "wait-costs-one-round-trip",
        delay_ns,
        "SET + WAIT 1 with the far replica only costs one round trip",
    );
    ratio::judge(
        claim,
        &rows.sampled(FAR, "set_wait", Some(delay_ns)),
        &rows.round_trips(delay_ns),
        &one_round_trip(delay_ns),
        rows.seed(),
    )
}

/// Between every two distances.
pub(super) fn grows_by_one_round_trip(rows: &Rows<'_>) -> Vec<Finding> {
    rows.slopes(
        "wait-grows-by-one-round-trip",
        "SET + WAIT 1 grows by one round trip per round trip",
        &one_per_round_trip(),
        |delay_ns| rows.sampled(FAR, "set_wait", Some(delay_ns)),
    )
}

pub(super) fn set_pays_no_trip(rows: &Rows<'_>, delay_ns: u64) -> Finding {
    let claim = claim_at(
        rows.block,
        "set-pays-no-trip",
        delay_ns,
        "a plain SET does not wait for the link",
    );
    no_trip(rows, claim, &rows.sampled(FAR, "set", Some(delay_ns)), delay_ns)
}

/// That a time does not include a round trip.
pub(super) fn no_trip(rows: &Rows<'_>, claim: Claim, time: &Sampled, delay_ns: u64) -> Finding {
    let bound = Bound::at_most(NO_TRIP, "round trips");
    ratio::judge(claim, time, &rows.round_trips(delay_ns), &bound, rows.seed())
}

/// At all distances together: with the far replica only, WAIT 1 is answered by it.
pub(super) fn each_saw_one(rows: &Rows<'_>) -> Finding {
    let claim = Claim::new(
        format!("{}.wait-saw-one-replica", rows.block),
        "each WAIT 1 with the far replica only returned 1",
    );
    let measured = rows.distances().into_iter();
    let all = measured
        .filter_map(|delay_ns| rows.series(FAR, "set_wait", Some(delay_ns)).cloned())
        .reduce(|mut all, one| {
            all.samples.extend(one.samples);
            all.failures.extend(one.failures);
            all
        });
    outcome::judge_usual(claim, "set_wait of \"far only\"", all.as_ref(), 1)
}

/// What the WAITs of a series returned: `1 (20)`, or `1 (38), 2 (2)`.
pub(super) fn answers(series: Option<&Series>) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for sample in series.map_or(&[][..], |series| &series.samples) {
        *counts.entry(sample.outcome).or_insert(0_u32) += 1;
    }
    let told: Vec<String> = counts.iter().map(|(answer, n)| format!("{answer} ({n})")).collect();
    if told.is_empty() {
        "-".to_owned()
    } else {
        told.join(", ")
    }
}
