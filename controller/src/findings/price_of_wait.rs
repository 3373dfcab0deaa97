//! Block 3: SET + WAIT 1 with the far replica only costs one round trip, at every distance and in the slope; a plain SET
//! does not pay it; under a cut WAIT returns 0 after its limit and the key stays; a near replica answers for nothing.

use super::Judged;
use super::row::{self, Rows, one_round_trip, table};
use super::waits::{self, FAR};
use crate::claim::{Claim, Counted, Finding, Sampled, exact, outcome, ratio, threshold};
use crate::history::Series;
use wire::Sample;

const COLUMNS: [&str; 7] = [
    "attached",
    "one way",
    "round trip",
    "SET",
    "SET + WAIT",
    "round trips",
    "WAIT returned",
];

/// What the columns hold.
const LEGEND: &str = "Times in ms, median / p95. Round trips: SET + WAIT in units of the measured one. WAIT returned: number of replicas, and \
     how often. WAIT 1, but for the last row, which waits for every replica.";

/// The row with both replicas, WAIT for one.
pub const BOTH: &str = "near and far";
/// The same, WAIT for both.
pub const ALL: &str = "near and far, all";
const FAR_CUT: &str = "far only, cut";
const BOTH_CUT: &str = "near and far, cut";

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged::default();
    for delay_ns in rows.distances() {
        judged.findings.push(waits::costs_one_round_trip(rows, delay_ns));
        judged.findings.push(waits::set_pays_no_trip(rows, delay_ns));
    }
    judged.findings.extend(waits::grows_by_one_round_trip(rows));
    judged.findings.push(waits::each_saw_one(rows));
    judged.findings.extend(under_cut(rows));
    judged.findings.extend(trap(rows));
    judged.table = table(&COLUMNS, lines(rows));
    judged.notes.push(LEGEND.to_owned());
    judged.notes.extend(heal_note(rows));
    judged
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
        Some((series, delay_ns)) => waits::no_trip(rows, cheap, &Sampled::of(series), delay_ns),
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
        (ALL, "near and far: all", false),
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
    let link = if cut { ", cut" } else { "" };
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
        waits::answers(rows.series(row, "set_wait", Some(delay_ns))),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Cause, Verdict};
    use crate::findings::synthetic::{MS, Story, sample};

    /// A whole run in which SET + WAIT costs so many round trips.
    fn story(round_trips: f64, n: usize) -> Story {
        let mut story = Story::of(3);
        for delay_ms in [5, 20, 40] {
            let ms = round_trips * (2.0 * delay_ms as f64 + 0.1) + 0.2;
            let delay = Some(delay_ms);
            story = story
                .round_trips(delay_ms)
                .took(FAR, "set", delay, 0.15, 200, 0)
                .took(FAR, "set_wait", delay, ms, n, 1);
        }
        cut(story, 0, 3)
            .took(BOTH_CUT, "set_wait", Some(20), 0.3, 20, 1)
            .took(BOTH, "set_wait", Some(20), 0.3, 40, 1)
            .took(ALL, "set_wait", Some(20), 40.4, 20, 2)
    }

    fn cut(story: Story, answer: i64, kept: i64) -> Story {
        let waits = (0..3).map(|i| sample(i * 1000 * MS, 301 * MS, answer)).collect();
        story
            .samples(FAR_CUT, "set_wait", Some(20), waits)
            .fact(FAR_CUT, "wait_limit_ms", 300)
            .fact(FAR_CUT, "keys_on_primary_count", kept)
            .fact(FAR_CUT, "keys_on_far_count", 0)
    }

    #[test]
    fn one_round_trip_at_every_distance_holds() {
        let judged = story(1.0, 20).judged();
        judged.assert_all_hold();
        assert_eq!(judged.findings.len(), 6 + 3 + 1 + 4 + 3);
        assert_eq!(judged.table.rows.len(), 7);
    }

    #[test]
    fn two_round_trips_diverged_in_each_ratio_and_each_slope() {
        let judged = story(2.0, 20).judged();
        for delay in ["5ms", "20ms", "40ms"] {
            assert_eq!(
                judged.verdict(&format!("3.wait-costs-one-round-trip@{delay}")),
                Verdict::Diverged
            );
        }
        for pair in ["5ms-20ms", "5ms-40ms", "20ms-40ms"] {
            assert_eq!(
                judged.verdict(&format!("3.wait-grows-by-one-round-trip@{pair}")),
                Verdict::Diverged
            );
        }
    }

    #[test]
    fn a_constant_of_40_ms_diverged_in_the_ratios_and_not_in_the_slopes() {
        let mut story = story(1.0, 20);
        for delay_ms in [5, 20, 40] {
            story = story.took(FAR, "set_wait", Some(delay_ms), 2.0 * delay_ms as f64 + 42.0, 20, 1);
        }
        let judged = story.judged();
        assert_eq!(judged.verdict("3.wait-costs-one-round-trip@20ms"), Verdict::Diverged);
        assert_eq!(
            judged.verdict("3.wait-grows-by-one-round-trip@5ms-40ms"),
            Verdict::Holds
        );
    }

    #[test]
    fn three_samples_decide_nothing() {
        let judged = story(1.0, 3).judged();
        judged.assert_incomplete("3.wait-costs-one-round-trip");
        judged.assert_incomplete("3.wait-grows-by-one-round-trip");
        judged.assert_incomplete("3.wait-saw-one-replica");
    }

    #[test]
    fn most_waits_held_up_by_a_busy_host_are_noise() {
        let quick = (0..5).map(|i| sample(i * 1000 * MS, 40_300_000, 1));
        let held_up = (5..20).map(|i| sample(i * 1000 * MS, 48 * MS, 1));
        let judged = story(1.0, 20)
            .samples(FAR, "set_wait", Some(20), quick.chain(held_up).collect())
            .judged();
        let finding = judged.claim("3.wait-costs-one-round-trip@20ms");
        assert_eq!(finding.cause, Some(Cause::Noise), "{finding:?}");
    }

    #[test]
    fn a_wait_that_another_replica_answered_diverged() {
        let judged = story(1.0, 20).took(FAR, "set_wait", Some(20), 40.3, 20, 2).judged();
        assert_eq!(judged.verdict("3.wait-saw-one-replica"), Verdict::Diverged);
    }

    #[test]
    fn under_a_cut_an_answer_a_lost_key_or_a_key_far_away_diverged() {
        let answered = cut(story(1.0, 20), 1, 3).judged();
        assert_eq!(answered.verdict("3.wait-returns-0-under-a-cut"), Verdict::Diverged);
        let undone = cut(story(1.0, 20), 0, 2).judged();
        assert_eq!(undone.verdict("3.key-stays-under-a-cut"), Verdict::Diverged);
        let leaked = story(1.0, 20).fact(FAR_CUT, "keys_on_far_count", 1).judged();
        assert_eq!(leaked.verdict("3.key-is-not-far-under-a-cut"), Verdict::Diverged);
    }

    #[test]
    fn a_wait_that_gives_up_early_diverged() {
        let waits = (0..3).map(|i| sample(i * 1000 * MS, 200 * MS, 0)).collect();
        let judged = story(1.0, 20).samples(FAR_CUT, "set_wait", Some(20), waits).judged();
        assert_eq!(judged.verdict("3.wait-lasts-its-limit-under-a-cut"), Verdict::Diverged);
    }

    #[test]
    fn a_near_replica_that_is_no_cheaper_and_one_that_sees_the_cut_diverged() {
        let judged = story(1.0, 20)
            .took(BOTH, "set_wait", Some(20), 40.3, 40, 1)
            .took(BOTH_CUT, "set_wait", Some(20), 300.0, 20, 0)
            .judged();
        assert_eq!(judged.verdict("3.near-replica-answers-for-nothing"), Verdict::Diverged);
        assert_eq!(judged.verdict("3.wait-1-does-not-see-the-cut"), Verdict::Diverged);
    }

    #[test]
    fn a_heal_is_told_in_words() {
        let healed = |full, partial| {
            let judged = story(1.0, 20)
                .fact("heal", "far_full_syncs_count", full)
                .fact("heal", "far_partial_syncs_count", partial)
                .fact("heal", "in_sync_after_ms", 190)
                .fact("heal", "far_keys_after_heal_count", 3)
                .judged();
            judged.notes.join(" ")
        };
        assert!(healed(0, 0).contains("resumed"));
        assert!(healed(0, 1).contains("partial resynchronisation"));
        assert!(healed(1, 0).contains("full synchronisation"));
    }
}
