//! By how much one-way times exceed the delay asked. A busy host holds some packets up and lets others pass; a link that is
//! too long holds up even the fastest. So the fastest tell whose fault it is.

use super::doubt::Doubt;
use super::limits::LONG_NS;
use crate::claim::Cause;
use crate::findings::row;
use std::cmp::Ordering;
use std::fmt;

/// One packet in this many is left alone by a busy host.
const FASTEST_ONE_IN: usize = 10;

/// See the top of the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Excess {
    /// What the fastest tenth stays below, nanoseconds.
    pub fastest_ns: f64,
    /// Of all.
    pub median_ns: f64,
}

impl Excess {
    /// Of a sample; nothing of none.
    pub fn of(excess_ns: &[f64]) -> Option<Self> {
        let mut sorted = excess_ns.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self {
            fastest_ns: *sorted.get(sorted.len() / FASTEST_ONE_IN)?,
            median_ns: crate::stats::median(&sorted)?,
        })
    }

    /// The worse of two is the one whose fastest are slower, then the one that is longer.
    pub fn cmp(&self, other: &Self) -> Ordering {
        let worst = |excess: &Self| (excess.fastest_ns > LONG_NS[1], excess.median_ns);
        let (a, b) = (worst(self), worst(other));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    }

    /// A doubt, if it is too much. `late` is the cause if only the host may have done it; the words end in `than asked`.
    pub fn doubt(&self, late: Cause, words: impl FnOnce(&Self) -> String) -> Option<Doubt> {
        let cause = if self.fastest_ns > LONG_NS[1] {
            Cause::Instrument
        } else {
            late
        };
        Doubt::graded(self.median_ns, LONG_NS, cause, || words(self))
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ms (median; the fastest tenth {} ms) longer",
            row::ms(self.median_ns),
            row::ms(self.fastest_ns)
        )
    }
}
