//! Whether a block's numbers can be vouched for: what the relays dropped, whether the link was as long as it was told to
//! be, and whether every socket had TCP_NODELAY. Void numbers decide no claim in either direction.

use super::Trust;
use super::row::{self, Rows};
use crate::claim::Cause;
use crate::history::What;
use crate::stats;
use std::collections::BTreeMap;
use wire::LinkCounters;

/// A round trip shorter than asked by more than this was not delayed; a median has no such error.
const EARLY_NS: f64 = 200_000.0;
/// A round trip longer than asked by more than this share and this much is not the link's: the host is busy.
const LATE: (f64, f64) = (0.1, 1_000_000.0);
/// Share of round trips that may be lost.
const LOST: f64 = 0.05;

/// Why numbers are void, if they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// In words.
    pub text: String,
    /// As a claim gives it.
    pub cause: Cause,
}

/// Trust in a block's numbers, and the first reason for which they are void.
#[must_use]
pub fn of(rows: &Rows<'_>) -> (Trust, Option<Reason>) {
    let mut void = dropped(rows);
    void.extend(without_nodelay(rows));
    let mut suspect = Vec::new();
    for delay_ns in rows.distances() {
        length(rows, delay_ns, &mut void, &mut suspect);
    }
    let first = void.first().cloned();
    let trust = if !void.is_empty() {
        Trust::Void(void.into_iter().map(|reason| reason.text).collect())
    } else if !suspect.is_empty() {
        Trust::Suspect(suspect)
    } else {
        Trust::Sound
    };
    (trust, first)
}

/// Packets that a relay lost without being told to, between the first and the last look at each direction.
fn dropped(rows: &Rows<'_>) -> Vec<Reason> {
    let mut seen: BTreeMap<(&str, &str), [LinkCounters; 2]> = BTreeMap::new();
    for event in &rows.history.events {
        if let What::LinkSeen {
            block, from, status, ..
        } = &event.what
            && *block == rows.block
        {
            let counters = status.counters;
            seen.entry((from, &status.to)).or_insert([counters; 2])[1] = counters;
        }
    }
    let mut reasons = Vec::new();
    for ((from, to), [first, last]) in seen {
        let queue = last.dropped_queue.saturating_sub(first.dropped_queue);
        let write = last.dropped_write.saturating_sub(first.dropped_write);
        for (dropped, why) in [
            (queue, "its queue was full"),
            (write, "the kernel did not take them back"),
        ] {
            if dropped > 0 {
                reasons.push(Reason {
                    text: format!("the relay dropped {dropped} packets from {from} to {to}: {why}"),
                    cause: Cause::Noise,
                });
            }
        }
    }
    reasons
}

fn without_nodelay(rows: &Rows<'_>) -> Option<Reason> {
    let series = rows
        .history
        .all_series(rows.block)
        .find(|series| series.nodelay == Some(false))?;
    Some(Reason {
        text: format!("TCP_NODELAY was off for {} of \"{}\"", series.what, series.row),
        cause: Cause::Incomplete,
    })
}

/// The link's measured length against the one that was asked for.
fn length(rows: &Rows<'_>, delay_ns: u64, void: &mut Vec<Reason>, suspect: &mut Vec<String>) {
    let trips = rows.round_trips(delay_ns);
    let Some(values) = &trips.values else { return };
    let Some(median) = stats::median(values) else {
        void.push(Reason {
            text: format!("no round trip of {} came back", trips.name),
            cause: Cause::Incomplete,
        });
        return;
    };
    let asked = 2.0 * delay_ns as f64;
    let told = format!(
        "the round trip at {} one way was {} ms",
        row::time(delay_ns),
        row::ms(median)
    );
    if median < asked - EARLY_NS {
        void.push(Reason {
            text: format!("{told}: the link was shorter than asked"),
            cause: Cause::Incomplete,
        });
    } else if median > asked * (1.0 + LATE.0) + LATE.1 {
        suspect.push(format!("{told}: the link was longer than asked"));
    }
    let tried = values.len() as f64 + f64::from(trips.failed);
    if f64::from(trips.failed) > LOST * tried {
        suspect.push(format!("{} of {tried} of {} were lost", trips.failed, trips.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::findings::synthetic::Story;

    /// Reads across the link that hold their claim at 20 ms.
    fn story() -> Story {
        Story::of(7)
            .round_trips(20)
            .took("cache far", "get", Some(20), 40.2, 40, 0)
    }

    fn counters(dropped_queue: u64) -> LinkCounters {
        LinkCounters {
            dropped_queue,
            ..LinkCounters::default()
        }
    }

    const CLAIM: &str = "7.far-costs-one-round-trip@20ms";

    #[test]
    fn quiet_counters_and_a_link_of_the_right_length_are_sound() {
        let judged = story()
            .link("start", None, counters(5))
            .link("end", None, counters(5))
            .judged();
        assert_eq!(judged.trust, Trust::Sound);
        assert_eq!(judged.verdict(CLAIM), Verdict::Holds);
    }

    #[test]
    fn packets_that_a_relay_dropped_during_the_block_make_every_claim_inconclusive() {
        let judged = story()
            .link("start", None, counters(5))
            .link("end", None, counters(6))
            .judged();
        assert!(matches!(&judged.trust, Trust::Void(why) if why[0].contains("dropped 1 packets")));
        assert_eq!(judged.claim(CLAIM).cause, Some(Cause::Noise));
    }

    #[test]
    fn a_socket_without_nodelay_and_a_link_that_is_too_short_are_void() {
        let judged = story().without_nodelay().judged();
        assert!(matches!(judged.trust, Trust::Void(_)));
        assert_eq!(judged.verdict(CLAIM), Verdict::Inconclusive);
        let short = Story::of(7).took("link", "rtt", Some(20), 39.0, 30, 0).judged();
        assert!(matches!(short.trust, Trust::Void(_)));
    }

    #[test]
    fn a_link_that_is_too_long_and_lost_round_trips_are_suspect_and_decide_all_the_same() {
        let long = story().took("link", "rtt", Some(20), 50.0, 300, 0).judged();
        assert!(matches!(long.trust, Trust::Suspect(_)));
        let lost = story().took("link", "rtt", Some(20), 40.1, 30, 0).failed(10).judged();
        assert!(matches!(lost.trust, Trust::Suspect(_)));
    }
}
