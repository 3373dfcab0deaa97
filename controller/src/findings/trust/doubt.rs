//! A doubt: one reason not to vouch for a table, with its weight. Every rule of the trust returns doubts and nothing else.

use crate::claim::Cause;

/// How much a doubt counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The numbers stand, with a reservation.
    Suspect,
    /// The numbers mean nothing.
    Void,
}

/// See the top of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// How much it counts.
    pub weight: Weight,
    /// What a claim on a void table gives as its cause.
    pub cause: Cause,
    /// In words, with the figures.
    pub text: String,
}

impl Doubt {
    /// The numbers mean nothing.
    pub fn void(cause: Cause, text: impl Into<String>) -> Self {
        Self {
            weight: Weight::Void,
            cause,
            text: text.into(),
        }
    }

    /// The numbers stand, with a reservation.
    pub fn suspect(text: impl Into<String>) -> Self {
        Self {
            weight: Weight::Suspect,
            // No claim is ever voided by it.
            cause: Cause::Noise,
            text: text.into(),
        }
    }

    /// By how much a figure exceeds: nothing up to the first limit, suspect up to the second, then void.
    pub fn graded(figure: f64, [suspect, void]: [f64; 2], cause: Cause, text: impl FnOnce() -> String) -> Option<Self> {
        if figure > void {
            Some(Self::void(cause, text()))
        } else if figure > suspect {
            Some(Self::suspect(text()))
        } else {
            None
        }
    }

    /// How badly it speaks: void before suspect, and of the void ones those that no quieter host would cure first.
    pub fn gravity(&self) -> (Weight, u8) {
        let curable = match self.cause {
            Cause::Instrument => 2,
            Cause::Incomplete => 1,
            Cause::Noise => 0,
        };
        (self.weight, curable)
    }
}
