//! `doctor`: what a lab needs of engine and host, each with what was found and, where it does not suffice, a fix.
//!
//! Changes nothing; one container is made and removed to try out what a relay needs. A `warn` costs precision or
//! comfort, a `fail` means that a lab cannot come up; only a `fail` makes the exit code 4.

mod engine;
mod host;

use super::{connect, screen};
use crate::cli::{Format, Global};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use schemars::JsonSchema;
use serde::Serialize;

/// What `doctor --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorDocument {
    /// In the order in which they were made.
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it suffices.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do about it (`null`: nothing).
    pub fix: Option<String>,
}

/// Whether what was found suffices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It does.
    Ok,
    /// A lab works, but something costs precision or comfort.
    Warn,
    /// A lab cannot come up.
    Fail,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            found: found.into(),
            fix: None,
        }
    }

    fn warn(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Warn,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }

    fn fail(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            state: State::Fail,
            ..Self::warn(name, found, fix)
        }
    }
}

pub(super) async fn run(global: &Global) -> Result<ExitCode, CommandError> {
    let mut checks = Vec::new();
    match connect(global).await {
        Ok(docker) => checks.extend(engine::checks(&docker).await?),
        Err(error) => {
            let fix = error
                .hint
                .unwrap_or_else(|| "install Docker Engine 20.10 or newer".to_owned());
            checks.push(Check::fail("engine", format!("cannot {}", error.text), fix));
        }
    }
    checks.extend(host::programs());
    let failed = checks.iter().any(|check| check.state == State::Fail);
    screen::print(&match global.format {
        Format::Json => document("doctor", &DoctorDocument { checks }),
        Format::Text => lines(&checks, screen::style(global).colour),
    })?;
    Ok(if failed { ExitCode::Host } else { ExitCode::Success })
}

fn lines(checks: &[Check], colour: bool) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for check in checks {
        let (word, code) = match check.state {
            State::Ok => ("ok  ", "32"),
            State::Warn => ("warn", "33"),
            State::Fail => ("fail", "31"),
        };
        let word = if colour {
            format!("\u{1b}[{code}m{word}\u{1b}[0m")
        } else {
            word.to_owned()
        };
        text.push_str(&format!("{word}  {:width$}  {}\n", check.name, check.found));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("{:6}{:width$}  fix: {fix}\n", "", ""));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fix_stands_below_what_was_found() {
        let checks = [
            Check::ok("engine", "20.10"),
            Check::fail("tun", "absent", "modprobe tun"),
        ];
        assert_eq!(
            lines(&checks, false),
            "ok    engine  20.10\nfail  tun     absent\n              fix: modprobe tun\n"
        );
    }

    #[test]
    fn a_fail_is_worse_than_a_warning() {
        assert!(State::Ok < State::Warn && State::Warn < State::Fail);
    }
}
