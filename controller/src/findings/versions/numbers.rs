//! Times that moved between releases. The first release is compared with each other one, operation by operation.
//!
//! The samples of a cell share its lab, so they are not independent of each other: two labs of the same release differ by
//! more than their samples' spread says. Over several repeats a cell is therefore one number, its median, and these are
//! ranked. With one repeat nothing is known of labs, and with few not enough: that samples differ, or that all cells lie
//! apart, is told, and not called a move beyond noise.

use super::{Measured, of};
use crate::findings::row::{RTT, Rows};
use crate::findings::visibility_lag;
use crate::history::BlockNumber;
use crate::stats::{self, false_discovery, rank_sum, rounds_ratio_interval};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Share of false moves among those that are called one.
const FALSE_SHARE: f64 = 0.05;

/// Fewest samples of a median that is compared.
const FEWEST: usize = 8;

/// How it was decided whether a time moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Test {
    /// In words.
    pub method: String,
    /// Most rounds that a comparison had.
    pub rounds: usize,
    /// Comparisons that were made, all corrected together.
    pub comparisons: usize,
    /// Share of false moves among those that are called one, at most.
    pub false_share: f64,
}

/// A time of an operation, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Number {
    /// The block.
    pub block: BlockNumber,
    /// What was timed, e.g. `set_wait of "far only, 20ms"`.
    pub name: String,
    /// Whether no server takes part in it: if it moved, the host did.
    pub control: bool,
    /// Median on the first release, over the medians of its cells, nanoseconds.
    pub first_ns: f64,
    /// One per other release that has it.
    pub moves: Vec<Move>,
}

/// A time on another release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Move {
    /// The release.
    pub release: String,
    /// Median over the medians of its cells, nanoseconds.
    pub here_ns: f64,
    /// Rounds that both have.
    pub rounds: usize,
    /// Here / on the first release: geometric mean over rounds.
    pub ratio: f64,
    /// Lower end of its 95 % bootstrap interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability of such a ratio by chance, uncorrected (null: it could not be tested).
    pub p: Option<f64>,
    /// The same, corrected for all comparisons.
    pub corrected: Option<f64>,
    /// What that means.
    pub moved: Moved,
}

/// Whether a time moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    /// By more than labs of the same release differ.
    BeyondNoise,
    /// All cells of one release lie above all of the other, but they are too few to rule out chance.
    Apart,
    /// Not by more than that.
    WithinNoise,
    /// The samples of one lab each differ; labs of the same release may too.
    SamplesDiffer,
    /// It could not be tested.
    Untested,
}

/// Samples by block and name, then by release and repeat.
type Samples = BTreeMap<(BlockNumber, String), BTreeMap<(String, u32), Vec<f64>>>;

pub(super) fn compared(releases: &[String], cells: &[Measured], seed: u64) -> (Vec<Number>, Test) {
    let samples = samples(releases, cells);
    let mut numbers: Vec<Number> = Vec::new();
    for ((block, name), sampled) in &samples {
        let Some((first, others)) = releases.split_first() else {
            break;
        };
        let moves: Vec<Move> = others
            .iter()
            .filter_map(|other| compare(sampled, first, other, seed))
            .collect();
        if moves.is_empty() {
            continue;
        }
        numbers.push(Number {
            block: *block,
            name: name.clone(),
            control: name.starts_with(&format!("{RTT} of ")),
            first_ns: median_of(sampled, first),
            moves,
        });
    }
    let test = decide(&mut numbers);
    (numbers, test)
}

fn samples(releases: &[String], cells: &[Measured]) -> Samples {
    let mut samples = Samples::new();
    for release in releases {
        for cell in of(release, cells) {
            let Some(read) = cell.read() else { continue };
            for block in read.findings.blocks.iter().filter(|block| block.error.is_none()) {
                let rows = Rows {
                    history: &read.history,
                    block: block.block,
                };
                for (name, values) in times(&rows) {
                    let key = (release.clone(), cell.repeat);
                    let known = samples.entry((block.block, name)).or_default();
                    known.entry(key).or_default().extend(values);
                }
            }
        }
    }
    samples
}

/// What a block timed, with the durations. The lags of block 1 are differences of stamps and no durations of a series.
fn times(rows: &Rows<'_>) -> Vec<(String, Vec<f64>)> {
    let mut times: Vec<(String, Vec<f64>)> = rows
        .history
        .all_series(rows.block)
        .filter(|series| series.what != "event")
        .map(|series| (format!("{} of \"{}\"", series.what, series.row), series.elapsed_ns()))
        .collect();
    if rows.block == 1 {
        let lags = visibility_lag::lags_of_all(rows).into_iter();
        times.extend(lags.filter_map(|lag| Some((lag.name, lag.values?))));
    }
    times
}

fn compare(sampled: &BTreeMap<(String, u32), Vec<f64>>, first: &str, other: &str, seed: u64) -> Option<Move> {
    let enough =
        |values: &&Vec<f64>| values.len() >= FEWEST && stats::median(values).is_some_and(|median| median > 0.0);
    let rounds: Vec<(&[f64], &[f64])> = sampled
        .iter()
        .filter(|((release, _), _)| release == first)
        .filter_map(|((_, repeat), here)| {
            let there = sampled.get(&(other.to_owned(), *repeat)).filter(enough)?;
            enough(&here).then_some((here.as_slice(), there.as_slice()))
        })
        .collect();
    let interval = rounds_ratio_interval(&rounds, seed)?;
    let medians = |(first, other): &(&[f64], &[f64])| Some((stats::median(first)?, stats::median(other)?));
    let (of_first, of_other): (Vec<f64>, Vec<f64>) = rounds.iter().filter_map(medians).unzip();
    let p = match rounds.as_slice() {
        [(first, other)] => rank_sum(first, other),
        _ => rank_sum(&of_first, &of_other),
    };
    Some(Move {
        release: other.to_owned(),
        here_ns: median_of(sampled, other),
        rounds: rounds.len(),
        ratio: interval.estimate,
        low: interval.low,
        high: interval.high,
        p,
        corrected: None,
        moved: match p {
            None => Moved::Untested,
            Some(_) if rounds.len() > 1 && apart(&of_first, &of_other) => Moved::Apart,
            Some(_) => Moved::WithinNoise,
        },
    })
}

/// Whether all of one lie above all of the other.
fn apart(one: &[f64], other: &[f64]) -> bool {
    let below = |low: &[f64], high: &[f64]| low.iter().all(|low| high.iter().all(|high| low < high));
    below(one, other) || below(other, one)
}

/// Median over the medians of a release's cells.
fn median_of(sampled: &BTreeMap<(String, u32), Vec<f64>>, release: &str) -> f64 {
    let of_it = sampled.iter().filter(|((of, _), _)| of == release);
    let medians: Vec<f64> = of_it.filter_map(|(_, values)| stats::median(values)).collect();
    stats::median(&medians).unwrap_or(f64::NAN)
}

/// Corrects all comparisons together, and says what each means.
fn decide(numbers: &mut [Number]) -> Test {
    let mut tested: Vec<&mut Move> = numbers
        .iter_mut()
        .flat_map(|number| &mut number.moves)
        .filter(|moved| moved.p.is_some())
        .collect();
    let p: Vec<f64> = tested.iter().filter_map(|moved| moved.p).collect();
    for (moved, corrected) in tested.iter_mut().zip(false_discovery(&p)) {
        moved.corrected = Some(corrected);
        if corrected <= FALSE_SHARE {
            moved.moved = match moved.rounds {
                1 => Moved::SamplesDiffer,
                _ => Moved::BeyondNoise,
            };
        }
    }
    let rounds = numbers
        .iter()
        .flat_map(|number| &number.moves)
        .map(|moved| moved.rounds);
    let rounds = rounds.max().unwrap_or(0);
    let method = match rounds {
        0 => "nothing could be compared",
        1 => {
            "one lab each: Mann and Whitney's rank test on the samples, corrected after Benjamini and Hochberg; labs of the same release differ \
             too, and one repeat cannot tell"
        }
        _ => {
            "each cell is one number, its median: Mann and Whitney's rank test, corrected after Benjamini and Hochberg; intervals by \
             bootstrap of rounds and samples"
        }
    };
    Test {
        method: method.to_owned(),
        rounds,
        comparisons: p.len(),
        false_share: FALSE_SHARE,
    }
}
