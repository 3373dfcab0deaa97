//! Block 13: a link that delays one portion after the other against one that delays each from its own arrival, which is what a
//! wire does; with TCP_NODELAY on its sockets and without.
//!
//! In the serialising link a portion leaves one delay after it arrived or after the one before it left, whichever is later, in each
//! direction by itself. Of k messages in a row the last therefore leaves after k delays. The replies come one delay apart, so each finds the
//! way back free: one delay more. In all k + 1 flights, k - 1 more than on a wire. SET + WAIT sends two messages in a row,
//! the SET and the question after it, and pays one flight more.
//!
//! Without TCP_NODELAY the question waits for the replica's delayed acknowledgement of the SET, longer than a flight: then the flight
//! cannot be seen. One defect hid the other.

use super::Judged;
use super::row::{self, Rows, claim_at, table};
use crate::claim::{Bound, Claim, Finding, Sampled, ratio, slope, within};

const MS: u64 = 1_000_000;

/// One-way delays, both below a delayed acknowledgement, nanoseconds.
pub const DELAYS_NS: [u64; 2] = [5 * MS, 20 * MS];
/// Numbers of messages in a row.
pub const MESSAGES: [u32; 3] = [1, 2, 4];
/// Between the starts of two of them: far more than a read takes, so that each is a portion of its own, and a small part of a flight.
pub const SPACING_NS: u64 = 300_000;

/// Pipelined with TCP_NODELAY on.
pub const WIRE: &str = "pipelined, on";
/// Serialising with it on.
pub const SERIAL: &str = "serialising, on";
/// Pipelined with it off.
pub const WIRE_OFF: &str = "pipelined, off";
/// Serialising with it off.
pub const SERIAL_OFF: &str = "serialising, off";

/// By how much a whole number of flights may be missed. They are counted by growth from the one delay to the other, so that
/// wake-ups and the spacing, which do not grow, drop out.
const RESIDUAL: f64 = 0.2;
/// Most flights between the two links where the difference cannot be seen.
const HIDDEN: f64 = 0.5;
/// Least that a delayed acknowledgement takes, in milliseconds of a kernel's timer.
const NAGLE_MS: f64 = 20.0;

const COLUMNS: [&str; 7] = [
    "order",
    "TCP_NODELAY",
    "one way",
    "1 message",
    "2 in a row",
    "4 in a row",
    "SET + WAIT",
];

/// What the columns hold.
const LEGEND: &str = "Flights, and the median in ms: the time in units of half a round trip of the link itself. A message is a PING from the \
     datacenter of the replica; so many are written 0.3 ms apart without waiting, and the time ends with the last reply. Beside a serialising link with \
     TCP_NODELAY off, the flight that SET + WAIT pays for the order is hidden by the delayed acknowledgement that it pays for the option.";

/// What a series of so many messages is called.
#[must_use]
pub fn messages(count: u32) -> &'static str {
    match count {
        1 => "messages_1",
        2 => "messages_2",
        _ => "messages_4",
    }
}

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged::default();
    for &count in &MESSAGES[1..] {
        judged.findings.push(messages_in_a_row(rows, WIRE, count));
        judged.findings.push(messages_in_a_row(rows, SERIAL, count));
    }
    judged.findings.push(wait_costs_a_flight(rows));
    for delay_ns in DELAYS_NS {
        judged.findings.push(off_dominates(rows, delay_ns));
    }
    judged.findings.push(off_hides_the_flight(rows));
    judged.table = table(&COLUMNS, lines(rows));
    judged.notes.push(LEGEND.to_owned());
    judged
}

fn time(rows: &Rows<'_>, row: &str, what: &str, delay_ns: u64) -> Sampled {
    rows.sampled(row, what, Some(delay_ns))
}

/// The first, a row and what was timed in it, takes so many flights more than the second at each delay.
fn flights_more(rows: &Rows<'_>, claim: Claim, [longer, shorter]: [(&str, &str); 2], flights: u32) -> Finding {
    let times = |(row, what)| DELAYS_NS.map(|delay_ns| time(rows, row, what, delay_ns));
    let (longer, shorter) = (times(longer), times(shorter));
    let trips = DELAYS_NS.map(|delay_ns| rows.round_trips(delay_ns));
    let flights = f64::from(flights);
    let bound = Bound::between(flights - RESIDUAL, flights + RESIDUAL, "flights more");
    slope::judge_difference(
        claim,
        longer.each_ref(),
        shorter.each_ref(),
        trips.each_ref(),
        0.5,
        &bound,
        rows.seed(),
    )
}

fn messages_in_a_row(rows: &Rows<'_>, row: &str, count: u32) -> Finding {
    let (link, more) = match row {
        WIRE => ("pipelined", 0),
        _ => ("serialising", count - 1),
    };
    let shown = match more {
        0 => "no flight",
        1 => "1 flight",
        _ => &format!("{more} flights"),
    };
    let claim = Claim::new(
        format!("13.{link}-costs-{count}-messages"),
        format!("in the {link} link {count} messages in a row cost {shown} more than one"),
    );
    flights_more(rows, claim, [(row, messages(count)), (row, messages(1))], more)
}

fn wait_costs_a_flight(rows: &Rows<'_>) -> Finding {
    let claim = Claim::new(
        "13.serialising-costs-wait-a-flight",
        "with TCP_NODELAY on, SET + WAIT 1 costs one flight more in the serialising link than in the pipelined one",
    );
    flights_more(rows, claim, [(SERIAL, "set_wait"), (WIRE, "set_wait")], 1)
}

fn off_dominates(rows: &Rows<'_>, delay_ns: u64) -> Finding {
    let claim = claim_at(
        13,
        "nodelay-off-dominates",
        delay_ns,
        "in the pipelined link SET + WAIT 1 takes a delayed acknowledgement longer with TCP_NODELAY off than on",
    );
    let times = [WIRE_OFF, WIRE].map(|row| time(rows, row, "set_wait", delay_ns));
    let bound = Bound::at_least(NAGLE_MS, "ms more");
    within::judge(
        claim,
        &times.each_ref(),
        |medians| (medians[0] - medians[1]) / 1e6,
        &bound,
        rows.seed(),
    )
}

/// At the longer delay only: at the shorter a flight is as long as one tick of the kernel's timer for acknowledgements.
fn off_hides_the_flight(rows: &Rows<'_>) -> Finding {
    let delay_ns = DELAYS_NS[1];
    let claim = claim_at(
        13,
        "nodelay-off-hides-the-flight",
        delay_ns,
        "with TCP_NODELAY off, the serialising link cannot be told from the pipelined one by SET + WAIT 1",
    );
    let bound = Bound::between(-HIDDEN, HIDDEN, "flights more");
    let [longer, shorter] = [SERIAL_OFF, WIRE_OFF].map(|row| time(rows, row, "set_wait", delay_ns));
    let trips = rows.round_trips(delay_ns);
    ratio::judge_difference(claim, [&longer, &shorter], &trips, 0.5, &bound, rows.seed())
}

fn lines(rows: &Rows<'_>) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for delay_ns in DELAYS_NS {
        for row in [WIRE, SERIAL, WIRE_OFF, SERIAL_OFF] {
            let (order, nodelay) = row.split_once(", ").expect("a row names its order and its option");
            let mut line = vec![order.to_owned(), nodelay.to_owned(), row::time(delay_ns)];
            let whats = MESSAGES.into_iter().map(messages).chain(["set_wait"]);
            line.extend(whats.map(|what| flights(rows, &time(rows, row, what, delay_ns), delay_ns)));
            lines.push(line);
        }
    }
    lines
}

/// `2.02 (40.7)`.
fn flights(rows: &Rows<'_>, time: &Sampled, delay_ns: u64) -> String {
    match time.median() {
        Some(median) => format!(
            "{} ({:.1})",
            row::quotient(time, &rows.round_trips(delay_ns), 0.5),
            median / 1e6
        ),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests;
