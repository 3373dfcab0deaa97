//! The rows of a block: how they are named, and what a history holds of them at which distance. What is missing stays
//! missing, with its name, so that a claim about it can say what it lacks.

use super::Table;
use crate::claim::{Bound, Claim, Finding, Sampled, slope};
use crate::history::{BlockNumber, History, Series};
use crate::stats::Summary;
use std::time::Duration;

/// One-way delays at which a claim about distance is judged, nanoseconds: nothing is concluded from one point.
pub const DISTANCES_NS: [u64; 3] = [5_000_000, 20_000_000, 40_000_000];

/// Name of the row with the link's own round trips, and what they are called.
pub const LINK: &str = "link";
/// See [`LINK`].
pub const RTT: &str = "rtt";

/// Name of a row at a distance: `far, 20ms`.
#[must_use]
pub fn at(row: &str, delay_ns: Option<u64>) -> String {
    match delay_ns {
        Some(delay_ns) => format!("{row}, {}", time(delay_ns)),
        None => row.to_owned(),
    }
}

/// Nanoseconds as people write them: `20ms`.
#[must_use]
pub fn time(ns: u64) -> String {
    humantime::format_duration(Duration::from_nanos(ns)).to_string()
}

/// Nanoseconds as milliseconds with two decimals.
#[must_use]
pub fn ms(ns: f64) -> String {
    format!("{:.2}", ns / 1e6)
}

/// Median and p95 in milliseconds, or a dash.
#[must_use]
pub fn median_p95(sampled: &Sampled) -> String {
    match summary(sampled) {
        Some(summary) => format!("{} / {}", ms(summary.median), ms(summary.p95)),
        None => "-".to_owned(),
    }
}

/// Median in milliseconds, or a dash.
#[must_use]
pub fn median(sampled: &Sampled) -> String {
    summary(sampled).map_or_else(|| "-".to_owned(), |summary| ms(summary.median))
}

/// Number of samples.
#[must_use]
pub fn n(sampled: &Sampled) -> String {
    sampled.values.as_ref().map_or(0, Vec::len).to_string()
}

/// Median of one in units of `share` of the median of another, or a dash.
#[must_use]
pub fn quotient(time: &Sampled, unit: &Sampled, share: f64) -> String {
    match (summary(time), summary(unit)) {
        (Some(time), Some(unit)) if unit.median > 0.0 => format!("{:.2}", time.median / (share * unit.median)),
        _ => "-".to_owned(),
    }
}

fn summary(sampled: &Sampled) -> Option<Summary> {
    Summary::of(sampled.values.as_deref()?)
}

/// What a time that is one round trip may come out at, in round trips.
///
/// Below 1 there is only what the two clocks of the comparison differ by: the round trip is the median of datagrams that
/// themselves wait some 0.1 ms for a wake-up, which at 10 ms is 1 %. Above 1 there is the server's own work and the wake-ups
/// of one process more: 0.2 to 0.9 ms, which is much at 10 ms of round trip and little at 40.
#[must_use]
pub fn one_round_trip(delay_ns: u64) -> Bound {
    const SHORT_NS: u64 = 10_000_000;
    let high = if delay_ns <= SHORT_NS { 1.3 } else { 1.1 };
    Bound::between(0.98, high, "round trips")
}

/// What a growth of one round trip per round trip may come out at. What is constant drops out, so this is narrow; it
/// leaves room for 0.7 ms of change in the constant part between 5 and 20 ms one way.
#[must_use]
pub fn one_per_round_trip() -> Bound {
    Bound::between(0.95, 1.05, "round trips per round trip")
}

/// A table of these columns.
#[must_use]
pub fn table(columns: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table {
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        rows,
    }
}

/// A block's part of a history.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The history.
    pub history: &'a History,
    /// The block.
    pub block: BlockNumber,
}

impl<'a> Rows<'a> {
    /// Seed of the run; histories without one are judged alike too.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.history.seed().unwrap_or(1)
    }

    /// The series of a row at a distance.
    #[must_use]
    pub fn series(&self, row: &str, what: &str, delay_ns: Option<u64>) -> Option<&'a Series> {
        self.history.series(self.block, &at(row, delay_ns), what)
    }

    /// Durations of a row at a distance.
    #[must_use]
    pub fn sampled(&self, row: &str, what: &str, delay_ns: Option<u64>) -> Sampled {
        Sampled::find(self.history, self.block, &at(row, delay_ns), what)
    }

    /// A number of a row.
    #[must_use]
    pub fn fact(&self, row: &str, name: &str) -> Option<i64> {
        self.history.fact(self.block, row, name)
    }

    /// All round trips of the link at a distance, both ways, before and after.
    #[must_use]
    pub fn round_trips(&self, delay_ns: u64) -> Sampled {
        self.round_trips_of(LINK, delay_ns)
    }

    /// The same for one row of the table.
    #[must_use]
    pub fn round_trips_of(&self, row: &str, delay_ns: u64) -> Sampled {
        let row = at(row, Some(delay_ns));
        let mut all = Sampled {
            name: format!("round trip of \"{row}\""),
            values: None,
            failed: 0,
        };
        let measured = self.history.all_series(self.block);
        for series in measured.filter(|series| series.row == row && series.what == RTT) {
            all.values.get_or_insert_default().extend(series.elapsed_ns());
            all.failed = all.failed.saturating_add(series.failed());
        }
        all
    }

    /// The distances that were measured and those that ought to have been, ascending.
    #[must_use]
    pub fn distances(&self) -> Vec<u64> {
        let measured = self.history.all_series(self.block).filter_map(|series| series.delay_ns);
        let mut distances: Vec<u64> = measured.chain(DISTANCES_NS).collect();
        distances.sort_unstable();
        distances.dedup();
        distances
    }

    /// Every two distances, the shorter first.
    #[must_use]
    pub fn pairs(&self) -> Vec<[u64; 2]> {
        let distances = self.distances();
        let mut pairs = Vec::new();
        for (i, &shorter) in distances.iter().enumerate() {
            pairs.extend(distances[i + 1..].iter().map(|&longer| [shorter, longer]));
        }
        pairs
    }

    /// For every two distances: how much `time` grows for each unit by which the round trip grows.
    pub fn slopes(&self, name: &str, text: &str, bound: &Bound, time_at: impl Fn(u64) -> Sampled) -> Vec<Finding> {
        let judged = |[shorter, longer]: [u64; 2]| {
            let claim = Claim::new(
                format!("{}.{name}@{}-{}", self.block, time(shorter), time(longer)),
                format!("from {} to {} one way: {text}", time(shorter), time(longer)),
            );
            let times = [time_at(shorter), time_at(longer)];
            let trips = [self.round_trips(shorter), self.round_trips(longer)];
            slope::judge(claim, times.each_ref(), trips.each_ref(), bound, self.seed())
        };
        self.pairs().into_iter().map(judged).collect()
    }
}

/// A claim at a distance: `3.wait-costs-one-round-trip@20ms`.
#[must_use]
pub fn claim_at(block: BlockNumber, name: &str, delay_ns: u64, text: &str) -> Claim {
    let delay = time(delay_ns);
    Claim::new(format!("{block}.{name}@{delay}"), format!("at {delay} one way: {text}"))
}
