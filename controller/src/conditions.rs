//! Conditions of a link as people write them, one text for topology files, the command line and schedules:
//! `delay=20ms jitter=normal:1ms loss=1%:burst:4`. What is printed can be read again and means the same.
//!
//! A condition changes what it names and nothing else. Refuses bare numbers where a unit belongs, shares that are no
//! share, and what contradicts itself. Knows nothing of files, places and links.

mod condition;
mod delay;
mod mode;
mod quantity;
mod schedule;

pub use condition::{Condition, Key, check, difference, not_in_stream_mode, shown, text};
pub(crate) use condition::{burst_milli, loss_of, reorder_of, table, varies};
pub use delay::{BadDelay, parse_delay};
pub use mode::mode_text;
pub(crate) use quantity::percent;
pub use quantity::time_text;
pub use schedule::{BadStep, Timetable, schedule_text};

/// Why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Bad {
    /// Whether only a unit is missing.
    pub no_unit: bool,
    /// A fragment that fits behind the text: `has no unit`.
    pub what: String,
    /// What to write instead.
    pub hint: String,
}

impl Bad {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            no_unit: false,
            what: what.into(),
            hint: hint.into(),
        }
    }
}
