//! `down`: removes a lab by the labels of its objects; needs no topology file and does nothing if nothing is there.

use super::{connect, screen};
use crate::cli::{Down, Format, Global};
use crate::docker::{Docker, EngineHandle};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Engines, Found, LabError, Left};
use crate::names::LabName;
use crate::progress::{Progress, say_as_it_is};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What `down --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DownDocument {
    /// Labs that are gone.
    pub labs: Vec<String>,
    /// Number of objects removed.
    pub removed: usize,
    /// How long it took.
    pub took_ms: u64,
}

pub(super) async fn run(global: &Global, down: Down) -> Result<ExitCode, CommandError> {
    let progress = Progress::new(global.quiet);
    let docker = connect(global).await?;
    let engine: EngineHandle = Arc::new(docker.clone());
    let engines = Engines::from(engine);
    // Nothing stops the rest: what failed is told at the end.
    let mut failed = Failed::default();
    failed.unless(super::sweep_orphans(&engines, &progress).await);
    let labs = wanted(&docker, &engines, &down, global).await?;
    let many = down.all || down.older_than.is_some();
    if many && !down.yes && !labs.is_empty() && !agreed(&labs)? {
        return Ok(ExitCode::Success);
    }
    let mut removed = 0;
    for name in &labs {
        match lab::sweep(&engines, &lab::labels_of(Some(name))).await {
            Ok(lowered) => {
                removed += lowered.removed;
                progress.step(match lowered.removed {
                    0 => format!("lab {name} is not up: nothing to remove"),
                    objects => format!("lab {name}: {objects} objects removed, nothing of it is left"),
                });
            }
            outcome => failed.unless(outcome.map(|_| ())),
        }
    }
    failed.none()?;
    if labs.is_empty() {
        progress.step(match down.older_than {
            Some(age) => format!("no lab is older than {}", humantime::format_duration(age)),
            None => "no lab is up".to_owned(),
        });
    }
    if global.format == Format::Json {
        let done = DownDocument {
            labs: labs.iter().map(ToString::to_string).collect(),
            removed,
            took_ms: u64::try_from(progress.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        screen::print(&document("down", &done))?;
    }
    Ok(ExitCode::Success)
}

/// What could not be removed, and what could not be asked.
#[derive(Default)]
struct Failed {
    left: Vec<Left>,
    first: Option<LabError>,
}

impl Failed {
    fn unless(&mut self, outcome: Result<(), LabError>) {
        match outcome {
            Ok(()) => {}
            Err(LabError::Left(left)) => {
                // An orphan and its lab can be the same object.
                let new = left
                    .into_iter()
                    .filter(|left| !self.left.iter().any(|known| known.name == left.name));
                let new: Vec<Left> = new.collect();
                self.left.extend(new);
            }
            Err(error) => self.first = self.first.take().or(Some(error)),
        }
    }

    fn none(self) -> Result<(), CommandError> {
        match (self.first, self.left) {
            (None, left) if left.is_empty() => Ok(()),
            (None, left) => Err(LabError::Left(left).into()),
            (Some(error), left) if left.is_empty() => Err(error.into()),
            (Some(cause), left) => Err(LabError::FailedAndLeft {
                cause: Box::new(cause),
                left,
            }
            .into()),
        }
    }
}

async fn wanted(
    docker: &Docker,
    engines: &Engines,
    down: &Down,
    global: &Global,
) -> Result<Vec<LabName>, CommandError> {
    // As for `up FILE -p NAME`: the name that is given wins over the file's.
    if let Some(lab) = &down.lab.lab {
        return Ok(vec![lab.clone()]);
    }
    if let Some(file) = &down.file {
        return Ok(vec![
            super::source::read(file, global.format, global.color)?.topology.name,
        ]);
    }
    let mut found = lab::labs(engines).await?;
    if let Some(age) = down.older_than {
        let made = docker.made_at(&lab::labels_of(None)).await?;
        let now = SystemTime::now();
        found.retain(|found| is_older(found, &made, now, age));
    } else if found.len() > 1 && !down.all {
        let up = found.into_iter().map(|found| found.lab).collect();
        return Err(LabError::SeveralLabs { up }.into());
    }
    // A name that is no lab name was not labelled by us.
    let names = found.iter().filter_map(|found| LabName::new(&found.lab).ok());
    Ok(names.collect())
}

/// Whether a lab was made at least so long ago: its oldest container, or where it has none, the process that made it. Of what
/// does not tell its age nobody knows that it is old.
fn is_older(found: &Found, made: &BTreeMap<String, SystemTime>, now: SystemTime, age: Duration) -> bool {
    let containers = found
        .objects
        .iter()
        .filter_map(|object| made.get(&object.id))
        .min()
        .copied();
    let process = || humantime::parse_rfc3339(&found.controller()?.since).ok();
    let since = containers.or_else(process);
    since.is_some_and(|since| now.duration_since(since).is_ok_and(|old| old >= age))
}

fn agreed(labs: &[LabName]) -> Result<bool, CommandError> {
    let names: Vec<String> = labs.iter().map(ToString::to_string).collect();
    if !std::io::stdin().is_terminal() {
        let text = format!(
            "remove {} ({}) without being told so",
            count(labs.len()),
            names.join(", ")
        );
        return Err(CommandError::new(ExitCode::Usage, text).hint("add --yes"));
    }
    say_as_it_is(format_args!(
        "remove {} ({})? [y/N] ",
        count(labs.len()),
        names.join(", ")
    ));
    // A terminal that cannot be read from has not agreed.
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn count(labs: usize) -> String {
    if labs == 1 {
        "1 lab".to_owned()
    } else {
        format!("{labs} labs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Controller;
    use crate::docker::{Object, Sort};
    use crate::names::LABEL_CONTROLLER;

    fn found(labels: BTreeMap<String, String>) -> Found {
        let object = Object {
            sort: Sort::Container,
            id: "1".to_owned(),
            name: "tb-one-a".to_owned(),
            labels,
            state: "running".to_owned(),
        };
        Found {
            lab: "one".to_owned(),
            objects: vec![object],
        }
    }

    #[test]
    fn a_lab_is_as_old_as_its_first_container_or_else_as_its_maker() {
        let hour = Duration::from_secs(3600);
        let now = SystemTime::now();
        let made = |ago: Duration| BTreeMap::from([("1".to_owned(), now.checked_sub(ago).unwrap())]);
        let plain = found(BTreeMap::new());
        assert!(is_older(&plain, &made(hour), now, hour));
        assert!(!is_older(&plain, &made(hour / 2), now, hour));
        // Clocks differ: what is made in the future is not old.
        assert!(!is_older(
            &plain,
            &BTreeMap::from([("1".to_owned(), now + hour)]),
            now,
            hour
        ));
        assert!(
            !is_older(&plain, &BTreeMap::new(), now, Duration::ZERO),
            "nobody knows its age"
        );
        let told = found(BTreeMap::from([(
            LABEL_CONTROLLER.to_owned(),
            Controller::own().label(),
        )]));
        assert!(is_older(&told, &BTreeMap::new(), now + 2 * hour, hour));
        assert!(!is_older(&told, &BTreeMap::new(), now, hour));
    }
}
