//! What claims are made about: the samples of a series and single numbers, found in a history by block, row and name.
//!
//! What is missing is kept as missing, with its name, so that a claim about it can say what it lacks.

use crate::history::{BlockNumber, History, Series};
use crate::stats;

/// Durations of a series, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// What was timed, for the reader, e.g. `get of "far, 20ms"`.
    pub name: String,
    /// Durations of the operations that succeeded (`None`: there is no such series).
    pub values: Option<Vec<f64>>,
    /// Operations that failed or were lost.
    pub failed: u32,
}

/// A single number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// What it is, for the reader, e.g. `lost_keys of "cut at once"`.
    pub name: String,
    /// The number (`None`: it was not recorded).
    pub value: Option<i64>,
}

impl Sampled {
    /// The series `what` of a block's row; from start to end of each operation.
    #[must_use]
    pub fn find(history: &History, block: BlockNumber, row: &str, what: &str) -> Self {
        match history.series(block, row, what) {
            Some(series) => Self::of(series),
            None => Self {
                name: named(what, row),
                values: None,
                failed: 0,
            },
        }
    }

    /// Durations of a series.
    #[must_use]
    pub fn of(series: &Series) -> Self {
        Self::new(named(&series.what, &series.row), series.elapsed_ns(), series.failed())
    }

    /// Durations from elsewhere, e.g. computed from pairs of samples.
    pub fn new(name: impl Into<String>, values: Vec<f64>, failed: u32) -> Self {
        Self {
            name: name.into(),
            values: Some(values),
            failed,
        }
    }

    /// Median of the durations, if there are any.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        stats::median(self.values.as_deref()?)
    }
}

impl Counted {
    /// The fact `name` of a block's row.
    #[must_use]
    pub fn find(history: &History, block: BlockNumber, row: &str, name: &str) -> Self {
        Self {
            name: named(name, row),
            value: history.fact(block, row, name),
        }
    }

    /// A number from elsewhere, e.g. counted in a ledger.
    pub fn new(name: impl Into<String>, value: Option<i64>) -> Self {
        Self {
            name: name.into(),
            value,
        }
    }
}

fn named(what: &str, row: &str) -> String {
    format!("{what} of \"{row}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_keeps_its_name() {
        let history = History::default();
        let sampled = Sampled::find(&history, 7, "far", "get");
        assert_eq!((sampled.name.as_str(), sampled.values), ("get of \"far\"", None));
        let counted = Counted::find(&history, 2, "cut at once", "lost_keys");
        assert_eq!(
            (counted.name.as_str(), counted.value),
            ("lost_keys of \"cut at once\"", None)
        );
    }
}
