//! Block 11: what a relay that terminates TCP costs, and what TCP_NODELAY on its own sockets has to do with it. SET + WAIT sends
//! two small messages in a row through it, the SET in the replication stream and the question after it; without the option
//! the second waits until the first is acknowledged, which the other end puts off for 40 ms. A GET is one message and
//! pays nothing. The 40 ms are a constant: they neither grow with the distance nor are they a number of round trips.
//!
//! These are the milliseconds of a kernel's timer and not of a server, so that they may be claimed.

use super::Judged;
use super::row::{self, DISTANCES_NS, Rows, table};
use crate::claim::{Bound, Claim, Counted, Finding, Sampled, exact, slope, within};
use crate::stats::quotient;

/// Forwarded by the kernel.
pub const KERNEL: &str = "no relay";
/// TCP_NODELAY on both legs.
pub const ON: &str = "on";
/// On none.
pub const OFF: &str = "off";
/// On the leg to the node that dialled: here the replica, which gets the two messages.
pub const NEAR_LEG: &str = "near leg only";
/// On the leg to the node that was dialled.
pub const FAR_LEG: &str = "far leg only";

/// Facts of a row: TCP_NODELAY of each leg as asked for and as read back from the socket, 1 or 0.
pub const LEGS: [LegFacts; 2] = [
    LegFacts {
        asked: "near_leg_nodelay_asked_flag",
        read: "near_leg_nodelay_read_flag",
    },
    LegFacts {
        asked: "far_leg_nodelay_asked_flag",
        read: "far_leg_nodelay_read_flag",
    },
];

/// Names of the facts of one leg.
#[derive(Debug, Clone, Copy)]
pub struct LegFacts {
    /// As asked for.
    pub asked: &'static str,
    /// As read back.
    pub read: &'static str,
}

/// Rows through a relay.
const RELAYED: [&str; 4] = [ON, OFF, NEAR_LEG, FAR_LEG];
/// A delayed acknowledgement: 40 ms, and what a busy host makes of it.
const NAGLE_MS: (f64, f64) = (20.0, 60.0);
/// Most that a time may differ which has no delayed acknowledgement in it.
const NOTHING_MS: f64 = 10.0;
/// Most that the constant part may grow or fall per round trip: over 80 ms of it two ticks of a kernel that counts 250 a second,
/// which is how fine its timer for acknowledgements is.
const NO_GROWTH: f64 = 0.1;
/// Least by which the ratio at a distance is above that at the next: a fixed number of round trips would give 1.
const FALLS: f64 = 1.15;

const COLUMNS: [&str; 7] = [
    "TCP_NODELAY",
    "one way",
    "round trip",
    "SET + WAIT",
    "beyond it",
    "round trips",
    "GET",
];

/// Zero and the distances.
fn distances() -> Vec<u64> {
    std::iter::once(0).chain(DISTANCES_NS).collect()
}

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged::default();
    judged.findings.push(relay_costs_nothing(rows));
    for delay_ns in distances() {
        judged.findings.push(off_pays(rows, delay_ns));
    }
    judged.findings.extend(one_leg(rows));
    judged.findings.extend(reads_pay_nothing(rows));
    judged.findings.push(excess_stays(rows));
    for pair in DISTANCES_NS.windows(2) {
        judged.findings.push(ratio_falls(rows, pair[0], pair[1]));
    }
    judged.findings.push(options_are_as_asked(rows));
    judged.table = table(&COLUMNS, lines(rows));
    judged.notes.push(LEGEND.to_owned());
    judged.notes.extend(bad_instrument(rows));
    judged
}

/// What the columns hold.
const LEGEND: &str = "Times in ms, median / p95. TCP_NODELAY of the relay's own sockets; the near leg is that to the replica, which dialled. SET + \
     WAIT beside the primary, beyond it: minus the round trip. GET from the other datacenter, through the relay.";

fn waits(rows: &Rows<'_>, row: &str, delay_ns: u64) -> Sampled {
    rows.sampled(row, "set_wait", Some(delay_ns))
}

fn gets(rows: &Rows<'_>, row: &str, delay_ns: u64) -> Sampled {
    rows.sampled(row, "get", Some(delay_ns))
}

/// The first takes so many milliseconds longer than the second.
fn dearer(rows: &Rows<'_>, claim: Claim, times: [Sampled; 2], (low, high): (f64, f64)) -> Finding {
    within::judge(
        claim,
        &times.each_ref(),
        |medians| (medians[0] - medians[1]) / 1e6,
        &Bound::between(low, high, "ms more"),
        rows.seed(),
    )
}

fn relay_costs_nothing(rows: &Rows<'_>) -> Finding {
    let claim = Claim::new(
        "11.relay-with-nodelay-costs-nothing",
        "through a relay with TCP_NODELAY on, SET + WAIT 1 takes as long as without a relay",
    );
    let times = [waits(rows, ON, 0), waits(rows, KERNEL, 0)];
    dearer(rows, claim, times, (-NOTHING_MS, NOTHING_MS))
}

fn off_pays(rows: &Rows<'_>, delay_ns: u64) -> Finding {
    let delay = row::time(delay_ns);
    let claim = Claim::new(
        format!("11.nodelay-off-pays@{delay}"),
        format!(
            "at {delay} one way: with TCP_NODELAY off, SET + WAIT 1 takes a delayed acknowledgement longer than with it on"
        ),
    );
    let times = [waits(rows, OFF, delay_ns), waits(rows, ON, delay_ns)];
    dearer(rows, claim, times, NAGLE_MS)
}

/// Only the leg that carries the two messages, to the replica, matters.
fn one_leg(rows: &Rows<'_>) -> [Finding; 2] {
    let pays = Claim::new(
        "11.near-leg-without-it-pays",
        "with TCP_NODELAY missing on the leg to the replica only, SET + WAIT 1 pays the same",
    );
    let free = Claim::new(
        "11.far-leg-without-it-pays-nothing",
        "with TCP_NODELAY missing on the leg to the primary only, it pays nothing",
    );
    [
        dearer(rows, pays, [waits(rows, FAR_LEG, 0), waits(rows, ON, 0)], NAGLE_MS),
        dearer(
            rows,
            free,
            [waits(rows, NEAR_LEG, 0), waits(rows, ON, 0)],
            (-NOTHING_MS, NOTHING_MS),
        ),
    ]
}

/// One message at a time has nothing to wait for.
fn reads_pay_nothing(rows: &Rows<'_>) -> [Finding; 2] {
    let at_zero = Claim::new(
        "11.get-pays-nothing",
        "a GET through any of these relays takes as long as without a relay",
    );
    let far = Claim::new(
        "11.get-pays-nothing-at-a-distance",
        "and at every distance a GET with TCP_NODELAY off takes as long as with it on",
    );
    let bound = Bound::at_most(NOTHING_MS, "ms more");
    let mut times = vec![gets(rows, KERNEL, 0)];
    times.extend(RELAYED.map(|row| gets(rows, row, 0)));
    let most = |medians: &[f64]| dearest(medians[1..].iter().map(|time| time - medians[0]));
    let at_zero = within::judge(at_zero, &times.iter().collect::<Vec<_>>(), most, &bound, rows.seed());
    let times: Vec<Sampled> = DISTANCES_NS
        .into_iter()
        .flat_map(|delay_ns| [gets(rows, OFF, delay_ns), gets(rows, ON, delay_ns)])
        .collect();
    let most = |medians: &[f64]| dearest(medians.chunks(2).map(|pair| pair[0] - pair[1]));
    let far = within::judge(far, &times.iter().collect::<Vec<_>>(), most, &bound, rows.seed());
    [at_zero, far]
}

/// The largest, in milliseconds.
fn dearest(times: impl Iterator<Item = f64>) -> f64 {
    times.fold(f64::NEG_INFINITY, f64::max) / 1e6
}

fn excess_stays(rows: &Rows<'_>) -> Finding {
    let claim = Claim::new(
        "11.excess-does-not-depend-on-distance",
        "with TCP_NODELAY off, what SET + WAIT 1 costs beyond the round trip stays the same at every distance",
    );
    let times: Vec<Sampled> = distances().iter().map(|&delay_ns| waits(rows, OFF, delay_ns)).collect();
    let trips: Vec<Sampled> = distances().iter().map(|&delay_ns| rows.round_trips(delay_ns)).collect();
    let bound = Bound::between(-NO_GROWTH, NO_GROWTH, "round trips per round trip");
    slope::judge_excess(claim, &times, &trips, &bound, rows.seed())
}

fn ratio_falls(rows: &Rows<'_>, shorter: u64, longer: u64) -> Finding {
    let pair = format!("{}-{}", row::time(shorter), row::time(longer));
    let claim = Claim::new(
        format!("11.ratio-falls@{pair}"),
        format!(
            "with TCP_NODELAY off, SET + WAIT 1 is no fixed number of round trips: there are more of them at {} than at {}",
            row::time(shorter),
            row::time(longer)
        ),
    );
    let parts = [
        waits(rows, OFF, shorter),
        rows.round_trips(shorter),
        waits(rows, OFF, longer),
        rows.round_trips(longer),
    ];
    let falls = |medians: &[f64]| quotient(quotient(medians[0], medians[1]), quotient(medians[2], medians[3]));
    let bound = Bound::at_least(FALLS, "times as many");
    within::judge(claim, &parts.each_ref(), falls, &bound, rows.seed())
}

/// An option that was only asked for explains nothing.
fn options_are_as_asked(rows: &Rows<'_>) -> Finding {
    let claim = Claim::new(
        "11.options-are-as-asked",
        "TCP_NODELAY of each leg, read back from its socket, is what was asked for",
    );
    let different = |row: &str, leg: LegFacts| Some(i64::from(rows.fact(row, leg.asked)? != rows.fact(row, leg.read)?));
    let seen = RELAYED.into_iter().flat_map(|row| LEGS.map(|leg| different(row, leg)));
    let sum: Option<i64> = seen.sum();
    exact::judge(claim, &Counted::new("number of legs that are not as asked", sum), 0)
}

fn lines(rows: &Rows<'_>) -> Vec<Vec<String>> {
    let at_zero = [KERNEL, ON, NEAR_LEG, FAR_LEG, OFF].map(|row| (row, 0));
    let at_distances = [ON, OFF]
        .into_iter()
        .flat_map(|row| DISTANCES_NS.map(|delay_ns| (row, delay_ns)));
    at_zero
        .into_iter()
        .chain(at_distances)
        .map(|(row, delay_ns)| line(rows, row, delay_ns))
        .collect()
}

fn line(rows: &Rows<'_>, row: &str, delay_ns: u64) -> Vec<String> {
    let waits = waits(rows, row, delay_ns);
    let trips = rows.round_trips(delay_ns);
    let beyond = waits.median().zip(trips.median()).map(|(wait, trip)| wait - trip);
    vec![
        row.to_owned(),
        row::time(delay_ns),
        row::median(&trips),
        row::median_p95(&waits),
        beyond.map_or_else(|| "-".to_owned(), row::ms),
        if delay_ns == 0 {
            "-".to_owned()
        } else {
            row::quotient(&waits, &trips, 1.0)
        },
        row::median_p95(&gets(rows, row, delay_ns)),
    ]
}

/// The picture that was once taken for something else.
fn bad_instrument(rows: &Rows<'_>) -> Option<String> {
    let ratio = |delay_ns: u64| Some(waits(rows, OFF, delay_ns).median()? / rows.round_trips(delay_ns).median()?);
    let ratios: Option<Vec<String>> = DISTANCES_NS
        .iter()
        .map(|&delay_ns| Some(format!("{:.2}", ratio(delay_ns)?)))
        .collect();
    Some(format!(
        "What a bad instrument looks like: with TCP_NODELAY off, WAIT costs {} round trips at 5, 20 and 40 ms (the record: 5.20, 2.10, 1.55). \
         Measured at 20 ms only, that was once taken for two round trips.",
        ratios?.join(", ")
    ))
}

#[cfg(test)]
mod tests;
