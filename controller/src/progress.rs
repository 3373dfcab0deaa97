//! What a command is doing, on stderr: one plain line per step with the time since the command began. Results never
//! come here, and `--quiet` silences it.

use std::io::Write;
use std::time::Instant;

/// Where steps are told.
#[derive(Debug, Clone)]
pub struct Progress {
    begun: Instant,
    quiet: bool,
    /// Of which of several things that go on at once.
    of: String,
}

impl Progress {
    /// Starts the clock.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        Self {
            begun: Instant::now(),
            quiet,
            of: String::new(),
        }
    }

    /// The same clock for one of several things that go on at once; its name precedes each of its steps.
    #[must_use]
    pub fn of(&self, name: impl std::fmt::Display) -> Self {
        Self {
            of: format!("{name}: "),
            ..self.clone()
        }
    }

    /// One that says nothing.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(true)
    }

    /// Tells one step.
    pub fn step(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            say(format_args!(
                "[{:6.2} s] {}{text}",
                self.begun.elapsed().as_secs_f64(),
                self.of
            ));
        }
    }

    /// Time since the command began.
    #[must_use]
    pub fn elapsed(&self) -> std::time::Duration {
        self.begun.elapsed()
    }
}

/// A line on stderr. A stderr that is gone (its terminal closed, its reader ended) must not stop the work half-way, as
/// `eprintln` would by its panic.
pub fn say(line: impl std::fmt::Display) {
    say_as_it_is(format_args!("{line}\n"));
}

/// The same for what brings its line ends along, or wants none.
pub fn say_as_it_is(text: impl std::fmt::Display) {
    let _gone = write!(std::io::stderr(), "{text}");
}
