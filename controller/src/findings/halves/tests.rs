//! Both halves of a parted cluster, judged from made-up histories.

use crate::claim::Verdict;
use crate::findings::BlockFindings;
use crate::findings::synthetic::{Play, Story};
use crate::history::{Parting, What};

fn play(block: u8, layout: char) -> Play {
    Play::record(block, super::row::CUT, layout)
}

fn judged(block: u8, plays: impl IntoIterator<Item = Play>) -> BlockFindings {
    let story = plays.into_iter().fold(Story::of(block), |story, play| play.tell(story));
    story.judged()
}

fn partial() -> Play {
    Play::record(5, super::row::PARTIAL, 'B').home(Some([1, 2, 3]))
}

fn stale() -> Play {
    let play = Play::record(6, super::row::STALE, 'C').home(None).promoted(None);
    play.lost(None).last([1, 2, 3]).stale(9)
}

/// Block 6 with `--method stop`.
fn both_ways() -> [Play; 4] {
    let stop = |row, parting| Play::record(6, row, 'C').stopped(parting);
    [
        play(6, 'C'),
        stale(),
        stop(super::row::AWAY_STOPPED, Parting::AwayStopped),
        stop(super::row::HOME_STOPPED, Parting::HomeStopped).promoted(None),
    ]
}

#[test]
fn the_records_layouts_hold() {
    let a = judged(4, [play(4, 'A')]);
    a.assert_all_hold();
    assert_eq!((a.findings.len(), a.table.rows.len()), (5, 6));
    let b = judged(5, [play(5, 'B'), partial()]);
    b.assert_all_hold();
    assert_eq!((b.findings.len(), b.table.rows.len()), (10, 12));
    let c = judged(6, [play(6, 'C'), stale()]);
    c.assert_all_hold();
    assert_eq!(c.claim("6.promoted@cut").measured, "node-6 became master");
    assert_eq!(c.claim("6.minoritys-are-lost@cut").measured, "27 lost, 0 kept");
    let line = c.table.rows[2].join(" | ");
    assert_eq!(
        line,
        "cut | dc1 | ok | 10923-16383 (node-3) | node-1, node-2: MOVED to node-6 (dc1); node-6: served | node-1, node-2: MOVED to node-6 \
         (dc1); node-6: served"
    );
    assert!(c.table.rows[5][4].contains("all: CLUSTERDOWN The cluster is down"));
    let notes = c.notes.join("\n");
    assert!(
        notes.contains("node-6 became master after 3.0 s, its master last heard"),
        "{notes}"
    );
    assert!(notes.contains("limit 30 s"), "{notes}");
    assert!(
        notes.contains("2 of 3 masters, the majority") && notes.contains("1 of 3 masters, no majority"),
        "{notes}"
    );
}

#[test]
fn a_half_that_answers_though_it_should_not_diverged() {
    let serves = judged(4, [play(4, 'A').away(Some([1, 2, 3]))]);
    assert_eq!(serves.verdict("4.dc2-down@cut"), Verdict::Diverged);
    assert_eq!(serves.verdict("4.dc1-works@cut"), Verdict::Holds);
    let works = judged(5, [play(5, 'B').home(Some([1, 2, 3])), partial()]);
    assert_eq!(works.verdict("5.dc1-down@cut"), Verdict::Diverged);
    assert_eq!(works.verdict("5.dc1-serves-its-own@partial"), Verdict::Holds);
}

#[test]
fn a_half_that_should_answer_and_is_down_or_redirects_across_the_cut_diverged() {
    let down = judged(6, [play(6, 'C').home(None).promoted(None)]);
    assert_eq!(down.verdict("6.dc1-works@cut"), Verdict::Diverged);
    assert_eq!(down.verdict("6.promoted@cut"), Verdict::Diverged);
    let across = judged(6, [play(6, 'C').home(Some([1, 2, 3]))]);
    let finding = across.claim("6.dc1-works@cut");
    assert_eq!(finding.verdict, Verdict::Diverged);
    assert!(
        finding.reason.as_ref().unwrap().contains("0 nodes serve"),
        "{finding:?}"
    );
    let whole = judged(5, [play(5, 'B'), partial().home(Some([1, 2, 4]))]);
    assert_eq!(whole.verdict("5.dc1-serves-its-own@partial"), Verdict::Diverged);
}

#[test]
fn a_promotion_that_nobody_expected_diverged() {
    let promoted = judged(4, [play(4, 'A').promoted(Some(5))]);
    assert_eq!(promoted.verdict("4.nobody-promoted@cut"), Verdict::Diverged);
    let another = judged(6, [play(6, 'C').promoted(Some(4))]);
    assert_eq!(another.verdict("6.promoted@cut"), Verdict::Diverged);
}

#[test]
fn a_replica_that_is_not_promoted_needs_a_reason() {
    let judged_stale = |play: Play| judged(6, [self::play(6, 'C'), play]);
    let told = &judged_stale(stale());
    let measured = &told.claim("6.too-old@stale").measured;
    assert_eq!(
        measured,
        "node-6 was not fresh enough: when its master was seen as failed it had heard nothing from it for 9 s, and \
         cluster-replica-validity-factor allows 3 s beyond the node timeout of 2 s"
    );
    assert!(
        told.notes.iter().any(|note| note.contains(measured)),
        "{:?}",
        told.notes
    );
    let fresh = judged_stale(stale().stale(5));
    assert_eq!(fresh.verdict("6.too-old@stale"), Verdict::Diverged);
    assert_eq!(fresh.verdict("6.nobody-promoted@stale"), Verdict::Holds);
    let promoted = judged_stale(stale().promoted(Some(6)));
    assert_eq!(promoted.verdict("6.nobody-promoted@stale"), Verdict::Diverged);
}

#[test]
fn a_write_that_is_lost_diverged_unless_its_master_was_replaced() {
    let lost = judged(4, [play(4, 'A').lost(Some((1, 0, 200)))]);
    assert_eq!(lost.verdict("4.none-lost@cut"), Verdict::Diverged);
    let of_the_majority = judged(6, [play(6, 'C').lost(Some((1, 0, 200)))]);
    assert_eq!(
        of_the_majority.verdict("6.lost-are-the-minoritys@cut"),
        Verdict::Diverged
    );
    assert_eq!(of_the_majority.verdict("6.minoritys-are-lost@cut"), Verdict::Diverged);
    let all_kept = judged(6, [play(6, 'C').lost(None)]);
    assert_eq!(all_kept.verdict("6.minoritys-are-lost@cut"), Verdict::Diverged);
    assert_eq!(all_kept.verdict("6.lost-are-the-minoritys@cut"), Verdict::Holds);
}

#[test]
fn what_had_not_settled_or_was_not_watched_decides_nothing() {
    let unwatched = play(4, 'A')
        .tell(Story::of(4))
        .without(|what| matches!(what, What::HalfWatched(half) if half.datacenter == "dc2"));
    unwatched.judged().assert_incomplete("4.");
    let short = play(4, 'A')
        .tell(Story::of(4))
        .fact(super::row::CUT, "joined_at_ns", 15_000_000_000);
    // 13 s, when the nodes noticed, lies within the last two node timeouts
    let judged = short.judged();
    judged.assert_incomplete("4.dc2-down@cut");
    let uncounted = play(4, 'A')
        .tell(Story::of(4))
        .without(|what| matches!(what, What::Kept(_)));
    uncounted.judged().assert_incomplete("4.none-lost@cut");
}

#[test]
fn nodes_that_do_not_agree_in_the_end_diverged() {
    let mut story = play(6, 'C').tell(Story::of(6));
    let one = play(6, 'C').last([1, 2, 3]).tell(Story::of(6));
    let other = one.history().half(6, super::row::CUT, "dc2").unwrap().clone();
    story = story.event(What::HalfWatched(Box::new(other)));
    assert_eq!(story.judged().verdict("6.all-agree@cut"), Verdict::Diverged);
}

#[test]
fn a_stopped_half_is_not_judged_and_stands_beside_the_cut() {
    let judged = judged(6, both_ways());
    judged.assert_all_hold();
    let stops: Vec<&str> = judged
        .findings
        .iter()
        .map(|finding| finding.claim.as_str())
        .filter(|claim| claim.ends_with("@stop"))
        .collect();
    assert_eq!(
        stops,
        [
            "6.dc1-works@stop",
            "6.promoted@stop",
            "6.dc2-down@stop",
            "6.nobody-promoted@stop"
        ]
    );
    let beside: Vec<&String> = judged
        .notes
        .iter()
        .filter(|note| note.contains("beside the same half"))
        .collect();
    assert_eq!(
        beside,
        [
            "far half stopped, dc1, beside the same half under the cut: the same cluster_state, the same answers to every slot range; \
             node-6 master after 3.0 s beside 3.0 s.",
            "home half stopped, dc2, beside the same half under the cut: the same cluster_state, the same answers to every slot range; \
             fail after 3.0 to 3.0 s beside 3.0 to 3.0 s."
        ]
    );
    assert_eq!(judged.table.rows.len(), 24);
    assert_eq!(judged.table.rows[15][1], "dc2 (stopped)");
}

/// The whole report of one block, with both ways of parting the halves, as people see it.
#[test]
fn the_report_is_the_committed_one() {
    let story = both_ways()
        .into_iter()
        .fold(Story::of(6), |story, play| play.tell(story));
    let findings = crate::findings::judge(&story.history());
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/report");
    let read = |name: &str| std::fs::read_to_string(golden.join(name)).unwrap_or_default();
    let manifest = serde_json::from_str(&read("manifest.json")).expect("manifest.json is what it is called");
    let made = crate::report::terminal(&findings, &manifest, None, crate::report::Style::default());
    if std::env::var_os("TESTBED_ACCEPT").is_some() {
        std::fs::write(golden.join("halves.txt"), &made).expect("the golden file can be written");
    }
    assert!(
        read("halves.txt") == made,
        "halves.txt differs; look at it, and accept it with `TESTBED_ACCEPT=1 cargo test -p testbed --lib findings::halves`\n{made}"
    );
}
