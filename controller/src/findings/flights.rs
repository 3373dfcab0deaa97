//! Block 12: how many times an operation pays the one-way delay. Counted from the growth between two delays, in which what
//! the operation costs by itself drops out; the median at each delay must then be nearest to the same integer.
//!
//! What an operation costs by itself is measured too, from a probe beside the server at the same time, and taken off: to prove
//! a password is work for both ends, and a busy host makes more of it at one delay than at the other.

use super::Judged;
use super::row::{self, Rows, table};
use crate::claim::{Bound, Claim, Finding, Sampled, outcome, within};
use crate::stats::{self, quotient};

/// One-way delays at which everything is measured, nanoseconds. Far enough from each other that the work of both ends, some ms where
/// a password is proved, is a small part of a flight; the longer one decides how long the block takes.
pub const DELAYS_NS: [u64; 2] = [15_000_000, 50_000_000];

/// An operation, as it is measured and what is expected of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Row of the table.
    pub row: &'static str,
    /// Row of the same operation beside the server, where there is one to compare with.
    pub beside: Option<&'static str>,
    /// What is timed.
    pub what: &'static str,
    /// As names of claims have it.
    pub slug: &'static str,
    /// One-way delays that it pays.
    pub flights: u32,
    /// Where they go.
    pub way: &'static str,
}

/// A TCP connection.
pub const CONNECT: Expected = Expected {
    row: "TCP connect",
    beside: Some("TCP connect beside"),
    what: "connect",
    slug: "connect",
    flights: 2,
    way: "SYN there, SYN-ACK back",
};

/// A read.
pub const GET: Expected = Expected {
    row: "GET",
    beside: Some("GET beside"),
    what: "get",
    slug: "get",
    flights: 2,
    way: "request and reply",
};

/// A write.
pub const SET: Expected = Expected {
    row: "SET",
    beside: Some("SET beside"),
    what: "set",
    slug: "set",
    flights: 2,
    way: "request and reply",
};

/// A write that is waited for, by a client beside the primary.
pub const WAIT: Expected = Expected {
    row: "SET + WAIT",
    beside: None,
    what: "set_wait",
    slug: "set-wait",
    flights: 2,
    way: "from the primary to the replica and its acknowledgement back; the client stands beside the primary",
};

/// A transaction of two writes, each command after the reply to the one before.
pub const MULTI: Expected = Expected {
    row: "MULTI of 2 SETs",
    beside: Some("MULTI of 2 SETs beside"),
    what: "multi",
    slug: "multi",
    flights: 8,
    way: "MULTI, SET, SET and EXEC, each with its reply",
};

/// The same, written at once.
pub const PIPELINED: Expected = Expected {
    row: "MULTI of 2 SETs, pipelined",
    beside: Some("MULTI of 2 SETs, pipelined, beside"),
    what: "multi",
    slug: "multi-pipelined",
    flights: 2,
    way: "all commands at once, all replies at once",
};

/// A replica's request for everything. Not measured beside the server, whose saves would meet.
pub const PSYNC: Expected = Expected {
    row: "PSYNC",
    beside: None,
    what: "psync",
    slug: "psync",
    flights: 2,
    way: "request and +FULLRESYNC",
};

/// A session of a role that is trusted.
pub const TRUSTED: Expected = Expected {
    row: "Postgres connect, trust",
    beside: Some("Postgres connect, trust, beside"),
    what: "postgres_connect",
    slug: "postgres-connect-trust",
    flights: 4,
    way: "TCP, then the startup message and the server's readiness",
};

/// A session of a role that has to prove its password.
pub const SCRAM: Expected = Expected {
    row: "Postgres connect, SCRAM",
    beside: Some("Postgres connect, SCRAM, beside"),
    what: "postgres_connect",
    slug: "postgres-connect-scram",
    flights: 8,
    way: "TCP, startup, then two messages of SCRAM with their answers",
};

/// A prepared query.
pub const QUERY: Expected = Expected {
    row: "Postgres query, prepared",
    beside: Some("Postgres query, prepared, beside"),
    what: "postgres_read",
    slug: "postgres-query",
    flights: 2,
    way: "request and reply",
};

/// All of them, in the order of the table.
pub static OPERATIONS: [Expected; 10] = [CONNECT, GET, SET, WAIT, MULTI, PIPELINED, PSYNC, TRUSTED, SCRAM, QUERY];

/// How far the counted flights may be from the integer: 5 ms between the two delays, where a flight is 35.
const RESIDUAL: f64 = 0.15;

/// What the columns hold.
const LEGEND: &str = "Flights: by how many one-way times the median grows from 15ms to 50ms one way, the nearest integer; residual: what is left to \
     it. Times in ms, medians; beside: from a probe beside the server, at the same time. One-way times: each median without that, in units of half \
     the measured round trip.";

const COLUMNS: [&str; 7] = [
    "operation",
    "flights",
    "residual",
    "at 15ms",
    "at 50ms",
    "beside",
    "one-way times",
];

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged::default();
    for operation in &OPERATIONS {
        judged.findings.push(grows(rows, operation));
        judged.findings.push(says_the_same(rows, operation));
    }
    judged.findings.push(each_wait_saw_one(rows));
    let lines = OPERATIONS.iter().map(|operation| line(rows, operation));
    judged.table = table(&COLUMNS, lines.collect());
    judged.notes.push(LEGEND.to_owned());
    let ways = OPERATIONS
        .iter()
        .map(|operation| format!("{}: {}", operation.row, operation.way));
    judged.notes.push(format!(
        "What is expected to fly. {}.",
        ways.collect::<Vec<_>>().join(". ")
    ));
    judged
}

/// The times at both delays, the round trips, and the times beside the server if there are such.
fn parts(rows: &Rows<'_>, operation: &Expected) -> Vec<Sampled> {
    let [short, long] = DELAYS_NS;
    let time = |row, delay_ns| rows.sampled(row, operation.what, Some(delay_ns));
    let mut parts = vec![
        time(operation.row, short),
        time(operation.row, long),
        rows.round_trips(short),
        rows.round_trips(long),
    ];
    if let Some(beside) = operation.beside {
        parts.extend([time(beside, short), time(beside, long)]);
    }
    parts
}

/// What the link makes of the operation, at both delays.
fn of_link(medians: &[f64]) -> [f64; 2] {
    let own = |i: usize| medians.get(4 + i).copied().unwrap_or(0.0);
    [medians[0] - own(0), medians[1] - own(1)]
}

/// Growth in one-way times, of which a round trip has two.
fn flights(medians: &[f64]) -> f64 {
    let [short, long] = of_link(medians);
    quotient(2.0 * (long - short), medians[3] - medians[2])
}

/// Each by itself in one-way times.
fn alone(medians: &[f64]) -> [f64; 2] {
    let [short, long] = of_link(medians);
    [quotient(2.0 * short, medians[2]), quotient(2.0 * long, medians[3])]
}

/// How often an operation paid the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    /// Which.
    pub operation: &'static Expected,
    /// One-way delays, by the growth from the one delay to the other.
    pub by_growth: f64,
    /// One-way delays, at each delay by itself.
    pub at_each: [f64; 2],
}

/// Of every operation that was measured at both delays.
#[must_use]
pub fn counted(rows: &Rows<'_>) -> Vec<Counted> {
    let one = |operation: &'static Expected| {
        let parts = parts(rows, operation);
        let medians: Vec<f64> = parts.iter().map(Sampled::median).collect::<Option<_>>()?;
        let counted = Counted {
            operation,
            by_growth: flights(&medians),
            at_each: alone(&medians),
        };
        let all = [counted.by_growth, counted.at_each[0], counted.at_each[1]];
        all.iter().all(|number| number.is_finite()).then_some(counted)
    };
    OPERATIONS.iter().filter_map(one).collect()
}

fn grows(rows: &Rows<'_>, operation: &Expected) -> Finding {
    let n = f64::from(operation.flights);
    let claim = Claim::new(
        format!("12.flights-of-{}", operation.slug),
        format!("{} pays the one-way delay {} times", operation.row, operation.flights),
    );
    let parts = parts(rows, operation);
    let bound = Bound::between(n - RESIDUAL, n + RESIDUAL, "flights");
    within::judge(claim, &parts.iter().collect::<Vec<_>>(), flights, &bound, rows.seed())
}

fn says_the_same(rows: &Rows<'_>, operation: &Expected) -> Finding {
    let n = f64::from(operation.flights);
    let claim = Claim::new(
        format!("12.each-delay-says-so-of-{}", operation.slug),
        format!(
            "and at each delay alone its median is nearest to {} one-way times",
            operation.flights
        ),
    );
    let parts = parts(rows, operation);
    // Of both the one that is further away: it decides.
    let furthest = |medians: &[f64]| {
        let [short, long] = alone(medians);
        if (short - n).abs() > (long - n).abs() {
            short
        } else {
            long
        }
    };
    let bound = Bound::between(n - 0.5, n + 0.5, "one-way times");
    within::judge(claim, &parts.iter().collect::<Vec<_>>(), furthest, &bound, rows.seed())
}

/// Without this the flights of WAIT would be those of nothing.
fn each_wait_saw_one(rows: &Rows<'_>) -> Finding {
    let claim = Claim::new(
        "12.wait-saw-one-replica",
        "each WAIT 1 with the far replica only returned 1",
    );
    let series = DELAYS_NS.map(|delay_ns| rows.series(WAIT.row, WAIT.what, Some(delay_ns)).cloned());
    let all = match series {
        [Some(mut short), Some(long)] => {
            short.samples.extend(long.samples);
            short.failures.extend(long.failures);
            Some(short)
        }
        _ => None,
    };
    outcome::judge_usual(claim, "set_wait of \"SET + WAIT\"", all.as_ref(), 1)
}

fn line(rows: &Rows<'_>, operation: &Expected) -> Vec<String> {
    let parts = parts(rows, operation);
    let medians: Option<Vec<f64>> = parts
        .iter()
        .map(|part| stats::median(part.values.as_deref()?))
        .collect();
    let counted = medians.as_deref().map(flights).filter(|flights| flights.is_finite());
    let dash = || "-".to_owned();
    vec![
        operation.row.to_owned(),
        counted.map_or_else(dash, |flights| format!("{:.0}", flights.round())),
        counted.map_or_else(dash, |flights| format!("{:+.2}", flights - flights.round())),
        row::median(&parts[0]),
        row::median(&parts[1]),
        row::median(&beside(&parts)),
        medians.map_or_else(dash, |medians| {
            let [short, long] = alone(&medians);
            format!("{short:.2}, {long:.2}")
        }),
    ]
}

/// The times beside the server at both delays, together.
fn beside(parts: &[Sampled]) -> Sampled {
    let values = parts[4..].iter().filter_map(|part| part.values.clone());
    Sampled::new("beside", values.flatten().collect(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::findings::synthetic::Story;

    /// A whole run in which each operation pays so many one-way delays and costs so many ms by itself, at a one-way delay in ms.
    fn story(pays: impl Fn(&Expected, f64) -> (f64, f64), n: usize) -> Story {
        let mut story = Story::of(12);
        for delay_ms in [15, 50] {
            story = story.round_trips(delay_ms);
            let delay = Some(delay_ms);
            for operation in &OPERATIONS {
                let (flights, own_ms) = pays(operation, delay_ms as f64);
                let ms = flights * (delay_ms as f64 + 0.05) + own_ms;
                story = story.took(operation.row, operation.what, delay, ms, n, 1);
                if let Some(beside) = operation.beside {
                    story = story.took(beside, operation.what, delay, own_ms, n, 1);
                }
            }
        }
        story
    }

    fn as_expected(operation: &Expected, _: f64) -> (f64, f64) {
        (f64::from(operation.flights), 0.2)
    }

    #[test]
    fn the_delays_are_those_of_the_words() {
        let [short, long] = DELAYS_NS.map(row::time);
        assert_eq!(COLUMNS[3..5], [format!("at {short}"), format!("at {long}")]);
        assert!(LEGEND.contains(&format!("from {short} to {long} one way")));
    }

    #[test]
    fn whole_flights_and_a_constant_cost_hold() {
        let judged = story(as_expected, 24).judged();
        judged.assert_all_hold();
        assert_eq!(judged.findings.len(), 2 * 10 + 1);
        assert_eq!(judged.table.rows.len(), 10);
        let history = story(as_expected, 24).history();
        let counted = counted(&Rows {
            history: &history,
            block: 12,
        });
        assert_eq!(counted.len(), OPERATIONS.len());
        assert!((counted[8].by_growth - 8.0).abs() < 0.1, "{counted:?}");
        let scram = &judged.table.rows[8];
        assert_eq!(scram[1], "8");
        assert!(scram[2].ends_with("0.00") || scram[2].ends_with("0.01"), "{scram:?}");
    }

    #[test]
    fn what_an_operation_costs_by_itself_is_no_flight() {
        // a host that is busy only at the shorter delay
        let work = |operation: &Expected, delay_ms| match *operation {
            SCRAM if delay_ms < 30.0 => (8.0, 45.0),
            SCRAM => (8.0, 9.0),
            _ => as_expected(operation, delay_ms),
        };
        let judged = story(work, 24).judged();
        judged.assert_all_hold();
        assert_eq!(judged.table.rows[8][1], "8");
    }

    #[test]
    fn a_flight_more_is_seen_in_its_own_operation_and_in_no_other() {
        let dearer = |operation: &Expected, delay_ms| match *operation {
            GET => (3.0, 0.2),
            _ => as_expected(operation, delay_ms),
        };
        let judged = story(dearer, 24).judged();
        assert_eq!(judged.verdict("12.flights-of-get"), Verdict::Diverged);
        assert_eq!(judged.verdict("12.each-delay-says-so-of-get"), Verdict::Diverged);
        let diverged = |finding: &&Finding| finding.verdict == Verdict::Diverged;
        assert_eq!(judged.findings.iter().filter(diverged).count(), 2);
        assert_eq!(judged.table.rows[1][1], "3");
    }

    #[test]
    fn a_constant_of_40_ms_is_seen_at_each_delay_and_not_in_the_growth() {
        let mut late = story(as_expected, 24);
        for delay_ms in [15, 50] {
            let ms = 2.0 * delay_ms as f64 + 40.3;
            late = late.took(SET.row, SET.what, Some(delay_ms), ms, 24, 0);
        }
        let judged = late.judged();
        assert_eq!(judged.verdict("12.flights-of-set"), Verdict::Holds);
        assert_eq!(judged.verdict("12.each-delay-says-so-of-set"), Verdict::Diverged);
    }

    #[test]
    fn a_growth_between_two_integers_diverged() {
        let between = |operation: &Expected, _: f64| (1.2 * f64::from(operation.flights), 0.2);
        let judged = story(between, 24).judged();
        assert_eq!(judged.verdict("12.flights-of-connect"), Verdict::Diverged);
        assert_eq!(judged.verdict("12.each-delay-says-so-of-connect"), Verdict::Holds);
    }

    #[test]
    fn few_samples_a_missing_delay_and_a_missing_operation_decide_nothing() {
        let few = story(as_expected, 3).judged();
        few.assert_incomplete("12.");
        let one_delay = story(as_expected, 24).without_row("PSYNC, 50ms").judged();
        one_delay.assert_incomplete("12.flights-of-psync");
        one_delay.assert_incomplete("12.each-delay-says-so-of-psync");
        assert_eq!(one_delay.table.rows[6][1..3], ["-", "-"]);
        assert_eq!(one_delay.verdict("12.flights-of-get"), Verdict::Holds);
        let no_comparison = story(as_expected, 24).without_row("GET beside, 15ms").judged();
        no_comparison.assert_incomplete("12.flights-of-get");
        let no_echoes = story(as_expected, 24).without_row("link, 15ms").judged();
        no_echoes.assert_incomplete("12.flights-of-");
    }

    #[test]
    fn a_wait_that_nobody_answered_diverged() {
        let judged = story(as_expected, 24)
            .took(WAIT.row, WAIT.what, Some(50), 100.3, 24, 0)
            .judged();
        assert_eq!(judged.verdict("12.wait-saw-one-replica"), Verdict::Diverged);
    }
}
