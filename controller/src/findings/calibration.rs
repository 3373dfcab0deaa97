//! Block 14: the instrument is what it is told to be. For each way of measuring and each direction: the one-way time grows as
//! the delay that was asked for, its error at each delay is within the tolerance, and nothing arrives early.
//!
//! Both probes read one clock and the echo's answer carries the far stamp, so each direction has its own times. They are compared
//! with those at zero delay of the same series, so what the probes themselves cost drops out. The tolerance is in
//! microseconds: it is about the instrument and not about a server, and no machine is let off.

use super::Judged;
use super::row::{self, Rows, table};
use crate::claim::{Bound, Claim, Counted, Finding, Sampled, exact, threshold, within};
use crate::history::Series;
use crate::stats::{self, line_slope};
use wire::{Sample, Transport};

const MS: u64 = 1_000_000;

/// One-way delays asked for, from the primary's datacenter and back to it, nanoseconds. Each delay comes once in each direction and
/// never the same in both, but for the middle: directions that were mixed up would show.
pub const GRID: [[u64; 2]; 5] = [
    [0, 40 * MS],
    [MS, 20 * MS],
    [5 * MS, 5 * MS],
    [20 * MS, MS],
    [40 * MS, 0],
];

/// What a series is called.
pub const ECHO: &str = "echo";
/// Row of the facts on relays.
pub const RELAYS: &str = "relays";
/// How much before its deadline a relay releases a packet.
pub const EARLY: &str = "early_ns";
/// Portions of bytes that the relays delivered in stream mode, all together.
pub const PORTIONS: &str = "stream_portions_count";

/// Stamps of two processors on one clock are good to this.
const RESOLUTION_NS: i64 = 1_000;
/// Most by which the one-way time may grow more or less than the delay asked for, microseconds per millisecond.
const SLOPE_US_PER_MS: f64 = 10.0;
/// Most that a one-way time may be off up to 5 ms and above, microseconds. The goal on an idle machine is 50 and 100 for a whole
/// round trip, and 45, once 130, were seen one way; with all cores busy, before relays kept them awake, 200 and 250, and what is
/// claimed must be decided there too. A timer of whole milliseconds, or a hidden one, is far outside.
const TOLERANCE_US: (f64, f64) = (200.0, 300.0);
/// Delays up to this have the first tolerance.
const SHORT_NS: u64 = 5 * MS;

/// A way of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Row of its series, without the step.
    pub row: &'static str,
    /// In names of claims.
    slug: &'static str,
    /// What carries the echoes.
    pub transport: Transport,
    /// Whether the probe of the primary's datacenter asks, or the other.
    pub from_home: bool,
    /// Whether a relay terminates the connection.
    pub stream: bool,
}

/// All of them; the two of a mode are measured at once.
pub const WAYS: [Way; 4] = [
    Way {
        row: "UDP packets",
        slug: "packets-udp",
        transport: Transport::Udp,
        from_home: true,
        stream: false,
    },
    Way {
        row: "TCP packets",
        slug: "packets-tcp",
        transport: Transport::Tcp,
        from_home: false,
        stream: false,
    },
    Way {
        row: "stream, home",
        slug: "stream-home",
        transport: Transport::Tcp,
        from_home: true,
        stream: true,
    },
    Way {
        row: "stream, far",
        slug: "stream-far",
        transport: Transport::Tcp,
        from_home: false,
        stream: true,
    },
];

/// A direction of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// From the primary's datacenter.
    Outward,
    /// To it.
    Back,
}

const DIRECTIONS: [Direction; 2] = [Direction::Outward, Direction::Back];

impl Direction {
    fn word(self) -> &'static str {
        match self {
            Self::Outward => "outward",
            Self::Back => "back",
        }
    }

    /// The delay that a step asks of it.
    fn asked_ns(self, step: [u64; 2]) -> u64 {
        match self {
            Self::Outward => step[0],
            Self::Back => step[1],
        }
    }

    /// The step that asks this of it.
    fn step(self, delay_ns: u64) -> [u64; 2] {
        let found = GRID.into_iter().find(|&step| self.asked_ns(step) == delay_ns);
        found.expect("each delay comes once in each direction")
    }
}

/// Row of a way's series at a step.
#[must_use]
pub fn row_of(way: Way, [outward_ns, back_ns]: [u64; 2]) -> String {
    format!(
        "{}, {} outward, {} back",
        way.row,
        row::time(outward_ns),
        row::time(back_ns)
    )
}

/// Delays of one direction, ascending.
fn delays() -> [u64; 5] {
    GRID.map(|[outward_ns, _]| outward_ns)
}

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged::default();
    for way in WAYS {
        for direction in DIRECTIONS {
            judged.findings.push(grows_as_asked(rows, way, direction));
            let errors = delays().into_iter().filter(|&delay_ns| delay_ns > 0);
            judged
                .findings
                .extend(errors.map(|delay_ns| is_true(rows, way, direction, delay_ns)));
        }
        judged.findings.push(never_early(rows, way));
    }
    judged.findings.push(streams_were_terminated(rows));
    judged.table = lines(rows);
    judged.notes.push(legend(rows));
    judged
}

/// One-way times of a direction at the delay that was asked of it.
fn one_way(rows: &Rows<'_>, way: Way, direction: Direction, delay_ns: u64) -> Sampled {
    let row = row_of(way, direction.step(delay_ns));
    let name = format!("one-way times {} of \"{row}\"", direction.word());
    let Some(series) = rows.history.series(rows.block, &row, ECHO) else {
        return Sampled {
            name,
            values: None,
            failed: 0,
        };
    };
    let asks = way.from_home == (direction == Direction::Outward);
    let times: Option<Vec<f64>> = series.samples.iter().map(|sample| time(sample, asks)).collect();
    Sampled {
        name: match times {
            Some(_) => name,
            None => format!("{name}, by one clock,"),
        },
        values: times,
        failed: series.failed(),
    }
}

/// From the asker to the far stamp, or from that to the asker; `None` if the far stamp is not in between: another clock.
fn time(sample: &Sample, asks: bool) -> Option<f64> {
    let far_ns = u64::try_from(sample.outcome).ok()?;
    let there = far_ns.checked_sub(sample.started_ns)?;
    let back = sample.ended_ns.checked_sub(far_ns)?;
    Some(if asks { there } else { back } as f64)
}

fn grows_as_asked(rows: &Rows<'_>, way: Way, direction: Direction) -> Finding {
    let claim = Claim::new(
        format!("14.grows-as-asked@{}-{}", way.slug, direction.word()),
        format!(
            "{}, {}: the one-way time grows as the delay that is asked for",
            way.row,
            direction.word()
        ),
    );
    let times = delays().map(|delay_ns| one_way(rows, way, direction, delay_ns));
    let asked = delays().map(|delay_ns| delay_ns as f64);
    let parts: Vec<&Sampled> = times.iter().collect();
    let bound = Bound::between(-SLOPE_US_PER_MS, SLOPE_US_PER_MS, "us off per ms");
    let off = |medians: &[f64]| 1e3 * (line_slope(&asked, medians) - 1.0);
    within::judge(claim, &parts, off, &bound, rows.seed())
}

fn is_true(rows: &Rows<'_>, way: Way, direction: Direction, delay_ns: u64) -> Finding {
    let delay = row::time(delay_ns);
    let claim = Claim::new(
        format!("14.delay-is-true@{}-{}-{delay}", way.slug, direction.word()),
        format!(
            "{}, {}, {delay} asked: the one-way time is that of zero delay and {delay}",
            way.row,
            direction.word()
        ),
    );
    let tolerance = tolerance_us(delay_ns);
    let times = [delay_ns, 0].map(|delay_ns| one_way(rows, way, direction, delay_ns));
    within::judge(
        claim,
        &times.each_ref(),
        |medians| (medians[0] - medians[1] - delay_ns as f64) / 1e3,
        &Bound::between(-tolerance, tolerance, "us off"),
        rows.seed(),
    )
}

/// Most that a one-way time may be off at a delay, microseconds.
#[must_use]
pub fn tolerance_us(delay_ns: u64) -> f64 {
    if delay_ns <= SHORT_NS {
        TOLERANCE_US.0
    } else {
        TOLERANCE_US.1
    }
}

/// How far a way of measuring was off in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Errors {
    /// Row of the way.
    pub way: &'static str,
    /// `outward` or `back`.
    pub direction: &'static str,
    /// Delay asked for, nanoseconds, and the median of what the one-way time was off, microseconds.
    pub off: Vec<(u64, f64)>,
}

/// Of every way and direction, at every delay but zero, with which they are compared.
#[must_use]
pub fn errors(rows: &Rows<'_>) -> Vec<Errors> {
    let of = |way: Way, direction: Direction| {
        let median = |delay_ns| one_way(rows, way, direction, delay_ns).median();
        let zero_ns = median(0);
        let off = |delay_ns: u64| Some((delay_ns, (median(delay_ns)? - zero_ns? - delay_ns as f64) / 1e3));
        let delays = delays().into_iter().filter(|&delay_ns| delay_ns > 0);
        Errors {
            way: way.row,
            direction: direction.word(),
            off: delays.filter_map(off).collect(),
        }
    };
    let all = WAYS
        .into_iter()
        .flat_map(|way| DIRECTIONS.map(|direction| of(way, direction)));
    all.filter(|errors| !errors.off.is_empty()).collect()
}

fn never_early(rows: &Rows<'_>, way: Way) -> Finding {
    let claim = Claim::new(
        format!("14.never-early@{}", way.slug),
        format!(
            "{}: nothing arrives before its delay has passed, but for what the relay says",
            way.row
        ),
    );
    let Some(early_ns) = rows.fact(RELAYS, EARLY) else {
        return claim.incomplete("nothing", format!("{EARLY} of the relays was not recorded"));
    };
    let allowed_ns = (early_ns + RESOLUTION_NS) as f64;
    let mut early = Some(0);
    for direction in DIRECTIONS {
        for delay_ns in delays() {
            let times = one_way(rows, way, direction, delay_ns).values;
            let least_ns = delay_ns as f64 - allowed_ns;
            let here = times.map(|times| times.iter().filter(|&&time| time < least_ns).count());
            early = early.zip(here).map(|(sum, here)| sum + here);
        }
    }
    let early = early.and_then(|count| i64::try_from(count).ok());
    exact::judge(claim, &Counted::new("number of early arrivals", early), 0)
}

/// What went around the terminating sockets would be calibrated as packets.
fn streams_were_terminated(rows: &Rows<'_>) -> Finding {
    let claim = Claim::new(
        "14.streams-were-terminated",
        "in stream mode every message went through the sockets of a relay",
    );
    let ways = WAYS.into_iter().filter(|way| way.stream);
    let rows_of = ways.flat_map(|way| GRID.map(|step| row_of(way, step)));
    let series: Option<Vec<&Series>> = rows_of.map(|row| rows.history.series(rows.block, &row, ECHO)).collect();
    let Some(series) = series else {
        return claim.incomplete("nothing", "not every series of stream mode was measured");
    };
    // A question and an answer each.
    let least: usize = series.iter().map(|series| 2 * series.samples.len()).sum();
    let portions = Counted::find(rows.history, rows.block, RELAYS, PORTIONS);
    threshold::judge_at_least(claim, &portions, i64::try_from(least).unwrap_or(i64::MAX))
}

fn lines(rows: &Rows<'_>) -> super::Table {
    let mut columns = vec!["way".to_owned(), "direction".to_owned()];
    columns.extend(delays().map(row::time));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let lines = WAYS
        .into_iter()
        .flat_map(|way| DIRECTIONS.map(|direction| line(rows, way, direction)));
    table(&columns, lines.collect())
}

fn line(rows: &Rows<'_>, way: Way, direction: Direction) -> Vec<String> {
    let times = delays().map(|delay_ns| one_way(rows, way, direction, delay_ns));
    let summaries = times
        .each_ref()
        .map(|times| stats::Summary::of(times.values.as_deref().unwrap_or_default()));
    let base = summaries[0].map(|zero| zero.median);
    let mut line = vec![way.row.to_owned(), direction.word().to_owned()];
    for (delay_ns, summary) in delays().into_iter().zip(summaries) {
        let off = |time: f64, base: f64| (time - base - delay_ns as f64) / 1e3;
        line.push(match (summary, base) {
            (Some(zero), _) if delay_ns == 0 => format!("{:.0} / {:.0}", zero.median / 1e3, zero.p95 / 1e3),
            (Some(seen), Some(base)) => format!("{:+.0} / {:+.0}", off(seen.median, base), off(seen.p95, base)),
            _ => "-".to_owned(),
        });
    }
    line
}

fn legend(rows: &Rows<'_>) -> String {
    let early = rows.fact(RELAYS, EARLY).map_or_else(
        || "how early the relays release was not recorded".to_owned(),
        |early_ns| format!("the relays release {:.0} us before the deadline", early_ns as f64 / 1e3),
    );
    format!(
        "Microseconds, median / p95: at zero delay the one-way time itself, at the other delays what it is off: the one-way time minus the \
         delay asked for minus the median at zero delay. Outward is away from the primary's datacenter; a stream is dialled there (home) or \
         in the other (far). Tolerance of the median: {:.0} us up to {}, {:.0} us \
         above; {early}.",
        TOLERANCE_US.0,
        row::time(SHORT_NS),
        TOLERANCE_US.1
    )
}

#[cfg(test)]
mod tests;
