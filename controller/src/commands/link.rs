//! `link`: conditions and state of a running lab's links. `dc1-dc2` means both directions, changed at one instant;
//! `dc1:dc2` the one from dc1 to dc2. What `--for` changes is restored, on an interruption as well.

mod capture;
mod change;
mod mode;
mod name;
mod table;

pub use capture::{CaptureDocument, CaptureRow};
pub use table::{CutPortsRow, DroppedRow, LinkRow, RelayRow, StreamRow};

use super::engines;
use super::screen;
use crate::cli::{CutArgs, Format, FreezeArgs, Global, LinkVerb, PlayArgs, SabotageArgs, SetArgs};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Lab, LabError, LinkSeen};
use crate::progress::Progress;
use crate::stop::{Signal, Stop};
use change::{Change, apply, restore};
use name::LinkName;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
pub(super) use table::link_table;
use table::stream_table;

/// What `link --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkDocument {
    /// The lab.
    pub lab: String,
    /// Directed links, after the change.
    pub links: Vec<LinkRow>,
    /// Relays, after the change.
    pub relays: Vec<RelayRow>,
}

pub(super) async fn run(global: &Global, verb: LinkVerb) -> Result<ExitCode, CommandError> {
    let (text, lab, duration) = match &verb {
        LinkVerb::Capture(args) => return capture::run(global, args).await,
        LinkVerb::Show { link, lab } => (link.as_ref(), lab, None),
        LinkVerb::Mode(args) => (None, &args.lab, None),
        LinkVerb::Set(SetArgs { at, duration, .. })
        | LinkVerb::Cut(CutArgs { at, duration, .. })
        | LinkVerb::Freeze(FreezeArgs { at, duration }) => (Some(&at.link), &at.lab, *duration),
        LinkVerb::Heal(at) | LinkVerb::Thaw(at) | LinkVerb::Stop(at) => (Some(&at.link), &at.lab, None),
        LinkVerb::Play(PlayArgs { at, .. }) | LinkVerb::Sabotage(SabotageArgs { at, .. }) => {
            (Some(&at.link), &at.lab, None)
        }
    };
    let name = text.map(|text| LinkName::parse(text)).transpose()?;
    let change = Change::of(&verb)?;
    // Only what is to be restored must outlive a signal.
    let stop = match duration {
        Some(_) => Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?,
        None => Stop::never(),
    };
    let lab = lab::find(&engines(global).await?, lab.lab.as_ref()).await?;
    let Some(name) = name else {
        if let LinkVerb::Mode(args) = &verb {
            mode::change(&lab, args).await?;
        }
        show(global, &lab, &lab.links().await?).await?;
        return Ok(ExitCode::Success);
    };
    let before = seen(&lab, &name).await?;
    let Some(duration) = duration else {
        let after = apply(&lab, &change, &before).await?;
        show(global, &lab, &after).await?;
        return Ok(ExitCode::Success);
    };
    if let Some(signal) = stop.asked() {
        return Ok(signal.exit_code());
    }
    let progress = Progress::new(global.quiet);
    let outcome = hold(global, &lab, (&change, &before), duration, (&stop, &progress)).await;
    // Whatever became of it: one direction may be changed, or stdout may be full.
    restore(&lab, &change, &before).await?;
    progress.step("restored");
    Ok(outcome?.map_or(ExitCode::Success, Signal::exit_code))
}

/// Changes, shows, and waits for the time to pass or for the signal that it returns.
async fn hold(
    global: &Global,
    lab: &Lab,
    (change, before): (&Change, &[LinkSeen]),
    duration: Duration,
    (stop, progress): (&Stop, &Progress),
) -> Result<Option<Signal>, CommandError> {
    let after = apply(lab, change, before).await?;
    show(global, lab, &after).await?;
    progress.step(format_args!("restoring in {}", humantime::format_duration(duration)));
    Ok(tokio::select! {
        () = tokio::time::sleep(duration) => None,
        signal = stop.stopped() => Some(signal),
    })
}

async fn seen(lab: &Lab, name: &LinkName) -> Result<Vec<LinkSeen>, LabError> {
    let directions = name.directions();
    let asked = directions.iter().map(|(from, to)| lab.link(from, to));
    futures_util::future::try_join_all(asked).await
}

async fn show(global: &Global, lab: &Lab, links: &[LinkSeen]) -> Result<(), CommandError> {
    let relays = lab.relay_states().await?;
    let shown = LinkDocument {
        lab: lab.name().to_string(),
        links: links.iter().map(LinkRow::from).collect(),
        relays: relays.iter().map(RelayRow::from).collect(),
    };
    screen::print(&match global.format {
        Format::Json => document("link", &shown),
        Format::Text => link_table(&shown.links) + &stream_table(&shown.relays),
    })
}
