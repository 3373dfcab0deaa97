//! `down`: removes a lab by the labels of its objects; needs no topology file and does nothing if nothing is there.

use super::{engines, screen};
use crate::cli::{Down, Format, Global};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Engines, LabError};
use crate::names::LabName;
use crate::progress::{Progress, say_as_it_is};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::IsTerminal;

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
    let engines = engines(global).await?;
    let orphans = super::sweep_orphans(&engines, &progress).await;
    let labs = wanted(&engines, &down, global).await?;
    if down.all && !down.yes && !labs.is_empty() && !agreed(&labs)? {
        return Ok(ExitCode::Success);
    }
    let mut removed = 0;
    let mut left = match orphans {
        Err(LabError::Left(remaining)) => remaining,
        orphans => orphans.map(|()| Vec::new())?,
    };
    for name in &labs {
        match lab::sweep(&engines, &lab::labels_of(Some(name))).await {
            Ok(lowered) => {
                removed += lowered.removed;
                progress.step(match lowered.removed {
                    0 => format!("lab {name} is not up: nothing to remove"),
                    objects => format!("lab {name}: {objects} objects removed"),
                });
            }
            Err(LabError::Left(remaining)) => left.extend(remaining),
            Err(error) => return Err(error.into()),
        }
    }
    if !left.is_empty() {
        return Err(LabError::Left(left).into());
    }
    if labs.is_empty() {
        progress.step("no lab is up");
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

async fn wanted(engines: &Engines, down: &Down, global: &Global) -> Result<Vec<LabName>, CommandError> {
    // As for `up FILE -p NAME`: the name that is given wins over the file's.
    if let Some(lab) = &down.lab.lab {
        return Ok(vec![lab.clone()]);
    }
    if let Some(file) = &down.file {
        return Ok(vec![
            super::source::read(file, global.format, global.color)?.topology.name,
        ]);
    }
    let found = lab::labs(engines).await?;
    if found.len() > 1 && !down.all {
        let up = found.into_iter().map(|found| found.lab).collect();
        return Err(LabError::SeveralLabs { up }.into());
    }
    // A name that is no lab name was not labelled by us.
    let names = found.iter().filter_map(|found| LabName::new(&found.lab).ok());
    Ok(names.collect())
}

fn agreed(labs: &[LabName]) -> Result<bool, CommandError> {
    let names: Vec<String> = labs.iter().map(ToString::to_string).collect();
    if !std::io::stdin().is_terminal() {
        let text = format!("remove all labs ({}) without being told so", names.join(", "));
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
