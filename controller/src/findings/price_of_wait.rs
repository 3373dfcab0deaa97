//! Block 3: SET + WAIT 1 with the far replica only costs one round trip, at every distance and in the slope; a plain SET
//! does not pay it; under a cut WAIT returns 0 after its limit and the key stays; a near replica answers for nothing.

use super::Judged;
use super::row::{self, Rows, claim_at, one_per_round_trip, one_round_trip, table};
use crate::claim::{Bound, Claim, Counted, Finding, Sampled, exact, outcome, ratio, threshold};
use crate::history::Series;
use wire::Sample;

const COLUMNS: [&str; 7] = [
    "attached",
    "link",
    "round trip, ms",
    "SET, ms (median / p95)",
    "SET + WAIT, ms (median / p95)",
    "in round trips",
    "WAIT returned (n)",
];

/// Share of a round trip below which a time did not include one: a flight would be half of it.
const NO_TRIP: f64 = 0.25;

const FAR: &str = "far only";
const BOTH: &str = "near and far";
const ALL: &str = "near and far, all";
const FAR_CUT: &str = "far only, cut";
const BOTH_CUT: &str = "near and far, cut";

pub fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged::default();
    for delay_ns in rows.distances() {
        judged.findings.push(costs_one_round_trip(rows, FAR, delay_ns));
        judged.findings.push(set_pays_no_trip(rows, delay_ns));
    }
    judged.findings.extend(rows.slopes(
        "wait-grows-by-one-round-trip",
        "SET + WAIT 1 grows by one round trip per round trip",
        &one_per_round_trip(),
        |delay_ns| rows.sampled(FAR, "set_wait", Some(delay_ns)),
    ));
    judged.findings.push(each_saw_one(rows));
    judged.findings.extend(under_cut(rows));
    judged.findings.extend(trap(rows));
    judged.table = table(&COLUMNS, lines(rows));
    judged.notes.extend(heal_note(rows));
    judged
}

fn costs_one_round_trip(rows: &Rows<'_>, row: &str, delay_ns: u64) -> Finding {
    let claim = claim_at(
        3,
        "wait-costs-one-round-trip",
        delay_ns,
        "SET + WAIT 1 with the far replica only costs one round trip",
    );
    ratio::judge(
        claim,
        &rows.sampled(row, "set_wait", Some(delay_ns)),
        &rows.round_trips(delay_ns),
        &one_round_trip(delay_ns),
        rows.seed(),
    )
}

fn set_pays_no_trip(rows: &Rows<'_>, delay_ns: u64) -> Finding {
    let claim = claim_at(
        3,
        "set-pays-no-trip",
        delay_ns,
        "a plain SET does not wait for the link",
    );
    no_trip(rows, claim, &rows.sampled(FAR, "set", Some(delay_ns)), delay_ns)
}

fn no_trip(rows: &Rows<'_>, claim: Claim, time: &Sampled, delay_ns: u64) -> Finding {
    let bound = Bound::at_most(NO_TRIP, "round trips");
    ratio::judge(claim, time, &rows.round_trips(delay_ns), &bound, rows.seed())
}

/// At all distances together: with the far replica only, WAIT 1 is answered by it.
fn each_saw_one(rows: &Rows<'_>) -> Finding {
    let claim = Claim::new(
        "3.wait-saw-one-replica",
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

/// The series of a row that is measured at one distance only, with that distance.
fn only<'a>(rows: &Rows<'a>, row: &str) -> Option<(&'a Series, u64)> {
    let find = |delay_ns| Some((rows.series(row, "set_wait", Some(delay_ns))?, delay_ns));
    rows.distances().into_iter().find_map(find)
}

fn under_cut(rows: &Rows<'_>) -> [Finding; 4] {
    /// A WAIT that runs into its limit takes long, so there are only a few.
    const FEWEST: usize = 3;
    let waits = only(rows, FAR_CUT).map(|(series, _)| series);
    let name = format!("set_wait of \"{FAR_CUT}\"");
    let zero = Claim::new("3.wait-returns-0-under-a-cut", "with the link cut, WAIT 1 returns 0");
    let limit = Claim::new(
        "3.wait-lasts-its-limit-under-a-cut",
        "with the link cut, WAIT 1 returns when its limit has passed, not before",
    );
    let stays = Claim::new(
        "3.key-stays-under-a-cut",
        "WAIT reports and does not undo: the key stays on the primary",
    );
    let absent = Claim::new("3.key-is-not-far-under-a-cut", "and it is not on the far replica");
    let tried = waits.and_then(|series| i64::try_from(series.samples.len()).ok());
    let elapsed = |sample: &Sample| sample.ended_ns.saturating_sub(sample.started_ns) / 1_000_000;
    let shortest = waits.and_then(|series| series.samples.iter().map(elapsed).min());
    let shortest = shortest.and_then(|ms| i64::try_from(ms).ok());
    let fact = |name| Counted::find(rows.history, rows.block, FAR_CUT, name);
    let limit_ms = rows.fact(FAR_CUT, "wait_limit_ms");
    [
        outcome::judge(zero, &name, waits, 0, FEWEST),
        match limit_ms {
            // The server counts whole milliseconds from a clock that it has cut off to one.
            Some(limit_ms) => threshold::judge_at_least(
                limit,
                &Counted::new(format!("shortest {name}, ms,"), shortest),
                limit_ms - 1,
            ),
            None => limit.incomplete("nothing", "the limit was not recorded"),
        },
        match tried {
            Some(tried) => exact::judge(stays, &fact("keys_on_primary_count"), tried),
            None => stays.incomplete("nothing", format!("{name} was not measured")),
        },
        exact::judge(absent, &fact("keys_on_far_count"), 0),
    ]
}

/// With a near replica attached, WAIT 1 is cheap and means nothing for the far one.
fn trap(rows: &Rows<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let cheap = Claim::new(
        "3.near-replica-answers-for-nothing",
        "with a near replica attached too, SET + WAIT 1 costs a small part of a round trip",
    );
    let blind = Claim::new(
        "3.wait-1-does-not-see-the-cut",
        "so WAIT 1 says nothing about the far datacenter: with the link cut it still returns 1",
    );
    let all = Claim::new(
        "3.wait-for-all-costs-one-round-trip",
        "waiting for the far replica too costs the round trip again",
    );
    findings.push(match only(rows, BOTH) {
        Some((series, delay_ns)) => no_trip(rows, cheap, &Sampled::of(series), delay_ns),
        None => cheap.incomplete("nothing", format!("set_wait of \"{BOTH}\" was not measured")),
    });
    let blind_waits = only(rows, BOTH_CUT).map(|(series, _)| series);
    findings.push(outcome::judge_usual(
        blind,
        &format!("set_wait of \"{BOTH_CUT}\""),
        blind_waits,
        1,
    ));
    findings.push(match only(rows, ALL) {
        Some((series, delay_ns)) => ratio::judge(
            all,
            &Sampled::of(series),
            &rows.round_trips(delay_ns),
            &one_round_trip(delay_ns),
            rows.seed(),
        ),
        None => all.incomplete("nothing", format!("set_wait of \"{ALL}\" was not measured")),
    });
    findings
}

fn lines(rows: &Rows<'_>) -> Vec<Vec<String>> {
    let mut lines: Vec<Vec<String>> = rows
        .distances()
        .into_iter()
        .map(|delay_ns| line(rows, FAR, FAR, delay_ns, false))
        .collect();
    for (row, shown, cut) in [
        (FAR_CUT, FAR, true),
        (BOTH_CUT, BOTH, true),
        (BOTH, BOTH, false),
        (ALL, "near and far, WAIT for all", false),
    ] {
        if let Some((_, delay_ns)) = only(rows, row) {
            lines.push(line(rows, row, shown, delay_ns, cut));
        }
    }
    lines
}

fn line(rows: &Rows<'_>, row: &str, shown: &str, delay_ns: u64, cut: bool) -> Vec<String> {
    let waits = rows.sampled(row, "set_wait", Some(delay_ns));
    let trips = rows.round_trips(delay_ns);
    let link = if cut { ", cut" } else { " one way" };
    vec![
        shown.to_owned(),
        format!("{}{link}", row::time(delay_ns)),
        if cut { "-".to_owned() } else { row::median(&trips) },
        row::median_p95(&rows.sampled(row, "set", Some(delay_ns))),
        row::median_p95(&waits),
        if cut {
            "-".to_owned()
        } else {
            row::quotient(&waits, &trips, 1.0)
        },
        answers(rows.series(row, "set_wait", Some(delay_ns))),
    ]
}

/// `1 (20)`, or `1 (38), 2 (2)`.
fn answers(series: Option<&Series>) -> String {
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

fn heal_note(rows: &Rows<'_>) -> Option<String> {
    let fact = |name| rows.fact("heal", name);
    let (full, partial) = (fact("far_full_syncs_count")?, fact("far_partial_syncs_count")?);
    let how = match (full, partial) {
        (0, 0) => "its connection resumed, without any resynchronisation",
        (0, _) => "by a partial resynchronisation",
        _ => "by a full synchronisation",
    };
    Some(format!(
        "After the heal the far replica was in sync {} ms later, {how}, and had {} of the {} keys written under the cut.",
        fact("in_sync_after_ms")?,
        fact("far_keys_after_heal_count")?,
        only(rows, FAR_CUT)?.0.samples.len(),
    ))
}
