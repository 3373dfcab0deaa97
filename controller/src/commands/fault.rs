//! `fault`: nodes of a lab paused, killed, stopped and started. What `--for` does is taken back, on an interruption as well.

use super::{connect, screen};
use crate::cli::{FaultVerb, Format, Global, HurtArgs};
use crate::docker::{Docker, EngineHandle};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Engines, Fault, Found};
use crate::names::{LabName, spoken};
use crate::progress::Progress;
use crate::stop::{Signal, Stop};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// What `fault --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FaultDocument {
    /// The lab.
    pub lab: String,
    /// The containers that were named, after it.
    pub nodes: Vec<FaultRow>,
}

/// A container.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FaultRow {
    /// Node, or `relay.<datacenter>`.
    pub node: String,
    /// Its state, by the engine: `running`, `paused`, `exited`...
    pub state: String,
}

pub(super) async fn run(global: &Global, verb: FaultVerb) -> Result<ExitCode, CommandError> {
    let (fault, HurtArgs { at, duration }) = of(verb);
    let stop = match duration {
        Some(_) => Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?,
        None => Stop::never(),
    };
    let docker = connect(global).await?;
    let engine: EngineHandle = Arc::new(docker.clone());
    let engines = Engines::from(engine);
    let found = lab::choose(&engines, at.lab.lab.as_ref()).await?;
    let targets = found.targets(fault, &at.nodes)?;
    let scene = Scene {
        global,
        engines,
        docker,
        lab: LabName::new(&found.lab).ok(),
        nodes: at.nodes,
    };
    let Some(duration) = duration else {
        lab::inflict(&scene.docker, fault, &targets).await?;
        scene.show().await?;
        return Ok(ExitCode::Success);
    };
    if let Some(signal) = stop.asked() {
        return Ok(signal.exit_code());
    }
    let progress = Progress::new(global.quiet);
    stop.advise(format!(
        "testbed fault {} -p {} {}",
        fault.undo().verb(),
        found.lab,
        scene.nodes.join(" ")
    ));
    let told = || {
        let (undo, time) = (fault.undo().verb(), humantime::format_duration(duration));
        progress.step(format_args!("{}; {undo} in {time}", done(fault)));
    };
    let asked = lab::hold(&scene.docker, fault, &targets, duration, &stop, told).await?;
    progress.step(done(fault.undo()));
    scene.show().await?;
    Ok(asked.map_or(ExitCode::Success, Signal::exit_code))
}

fn of(verb: FaultVerb) -> (Fault, HurtArgs) {
    match verb {
        FaultVerb::Pause(args) => (Fault::Pause, args),
        FaultVerb::Kill(args) => (Fault::Kill, args),
        FaultVerb::Stop(args) => (Fault::Stop { grace: args.grace }, args.hurt),
        FaultVerb::Resume(at) => (Fault::Resume, HurtArgs { at, duration: None }),
        FaultVerb::Start(at) => (Fault::Start, HurtArgs { at, duration: None }),
    }
}

fn done(fault: Fault) -> &'static str {
    match fault {
        Fault::Pause => "paused",
        Fault::Resume => "resumed",
        Fault::Kill => "killed",
        Fault::Stop { .. } => "stopped",
        Fault::Start => "started",
    }
}

/// Where it is done, and how it is shown.
struct Scene<'a> {
    global: &'a Global,
    engines: Engines,
    docker: Docker,
    lab: Option<LabName>,
    nodes: Vec<String>,
}

impl Scene<'_> {
    /// The containers as they are now.
    async fn show(&self) -> Result<(), CommandError> {
        let found = lab::choose(&self.engines, self.lab.as_ref()).await?;
        let shown = FaultDocument {
            lab: found.lab.clone(),
            nodes: self.nodes.iter().map(|name| row(&found, name)).collect(),
        };
        screen::print(&match self.global.format {
            Format::Json => document("fault", &shown),
            Format::Text => {
                let rows = shown.nodes.iter().map(|row| [row.node.clone(), row.state.clone()]);
                screen::plain_table(["NODE", "STATE"], rows)
            }
        })
    }
}

fn row(found: &Found, name: &str) -> FaultRow {
    let object = found
        .objects
        .iter()
        .find(|object| spoken(&object.labels).as_deref() == Some(name));
    FaultRow {
        node: name.to_owned(),
        state: object.map_or("absent", |object| &object.state).to_owned(),
    }
}
