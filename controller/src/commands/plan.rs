//! `plan`: prints every Docker object that `up` would make. Needs no engine; with `--exit-code` it asks the engine what
//! is there and says what `up` would change.

use super::{prepare, screen, source};
use crate::cli::{Format, Global, PlanArgs};
use crate::conditions::{difference, mode_text, schedule_text};
use crate::docker::{Docker, Engine, EngineHandle};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Engines, Found};
use crate::names::{Kind, LabName};
use crate::plan::{self, Change, Images, Plan};
use ipnet::Ipv4Net;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Arc;

/// What `plan --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlanDocument {
    /// Every object; without the label of the relays that repeats the plan.
    plan: Plan,
    /// What `up` would do (absent without `--exit-code`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<Vec<Change>>,
}

/// Prints the plan.
///
/// # Errors
/// The topology is wrong, its releases do not exist, there are no addresses, or the engine does not answer.
pub(super) async fn run(global: &Global, args: &PlanArgs) -> Result<ExitCode, CommandError> {
    let source = source::read(&args.file, global.format, global.color)?;
    let lab = args.lab.as_ref().unwrap_or(&source.topology.name);
    let outside = super::pool(global)?.outside();
    let images = Images {
        // Which build of our own two programs it will be is known only where they are built.
        relay: "tb/relay".to_owned(),
        probe: "tb/probe".to_owned(),
        releases: prepare::releases(&source.topology, &args.release)?,
    };
    let (plan, pending) = if args.exit_code {
        let engine = super::connect(global).await?;
        compared(engine, &source, lab, &images, &outside).await?
    } else {
        let plan = plan::plan(&source.topology, &source.hash, lab, None, &images, &outside)?;
        (plan, None)
    };
    let changes = pending.as_ref().is_some_and(|changes| !changes.is_empty());
    if global.format == Format::Json {
        screen::print(&document(
            "plan",
            &PlanDocument {
                plan: plan.unlabelled(),
                pending,
            },
        ))?;
    } else {
        let mut text = plan::table(&plan);
        if let Some(pending) = &pending {
            text += &told(pending);
        }
        screen::print(&text)?;
    }
    Ok(if changes { ExitCode::Pending } else { ExitCode::Success })
}

async fn compared(
    engine: Docker,
    source: &source::Source,
    lab: &LabName,
    images: &Images,
    outside: &[Ipv4Net],
) -> Result<(Plan, Option<Vec<Change>>), CommandError> {
    let taken = [engine.subnets().await?.as_slice(), outside].concat();
    let engines = Engines::from(Arc::new(engine) as EngineHandle);
    let labs = lab::labs(&engines).await?;
    let (topology, hash) = (&source.topology, &source.hash);
    let there = labs.iter().find(|found| found.lab == lab.as_str());
    // What is left of a lab without its relays does not say what it was: it is no lab.
    let Some((found, old)) = there.and_then(|found| Some((found, found.plan().ok()?))) else {
        let plan = plan::plan(topology, hash, lab, None, images, &taken)?;
        let pending = all(&plan);
        return Ok((plan, Some(pending)));
    };
    // The programs that a running lab has are not compared: which ones `up` would take is known only to `up`.
    let images = Images {
        relay: image_of(&old, Kind::Relay).unwrap_or_else(|| images.relay.clone()),
        probe: image_of(&old, Kind::Probe).unwrap_or_else(|| images.probe.clone()),
        releases: images.releases.clone(),
    };
    let plan = plan::plan_beside(&old, topology, hash, &images, &taken)?;
    let mut pending = plan::changes(&plan, &old);
    pending.extend(stopped(&plan, found, &pending));
    Ok((plan, Some(pending)))
}

fn image_of(plan: &Plan, kind: Kind) -> Option<String> {
    let container = plan.containers.iter().find(|container| container.kind == kind)?;
    Some(container.image.clone())
}

/// Containers that should run and do not.
fn stopped(plan: &Plan, found: &Found, known: &[Change]) -> Vec<Change> {
    plan.containers
        .iter()
        .filter(|container| found.state(&container.name) != Some("running"))
        .map(|container| Change::Make {
            kind: container.kind,
            name: container.name.clone(),
        })
        .filter(|change| !known.iter().any(|other| name_of(other) == name_of(change)))
        .collect()
}

fn all(plan: &Plan) -> Vec<Change> {
    let networks = plan.networks.iter().map(|object| (object.kind, &object.name));
    let volumes = plan.volumes.iter().map(|object| (Kind::State, &object.name));
    let containers = plan.containers.iter().map(|object| (object.kind, &object.name));
    networks
        .chain(volumes)
        .chain(containers)
        .map(|(kind, name)| Change::Make {
            kind,
            name: name.clone(),
        })
        .collect()
}

fn name_of(change: &Change) -> Option<&str> {
    match change {
        Change::Make { name, .. } | Change::Remove { name, .. } | Change::Remake { name, .. } => Some(name),
        Change::Conditions { .. } | Change::Schedule { .. } | Change::Path { .. } => None,
    }
}

fn told(pending: &[Change]) -> String {
    if pending.is_empty() {
        return "\nthe lab is up, and nothing is pending\n".to_owned();
    }
    let mut out = String::from("\npending\n");
    for change in pending {
        let line = match change {
            Change::Make { kind, name } => format!("make   {} {name}", kind.as_str()),
            Change::Remove { kind, name } => format!("remove {} {name}", kind.as_str()),
            Change::Remake { kind, name } => format!("remake {} {name}", kind.as_str()),
            Change::Conditions {
                from,
                to,
                there,
                conditions,
            } => format!("set    {from}:{to} {}", difference(there, conditions)),
            Change::Schedule {
                from,
                to,
                conditions,
                schedule: Some(schedule),
            } => format!("play   {from}:{to} {}", schedule_text(schedule, conditions)),
            Change::Schedule { from, to, .. } => format!("stop   {from}:{to}"),
            Change::Path { path } => format!("mode   {}", mode_text(*path)),
        };
        writeln!(out, "  {line}").expect("a string can be written");
    }
    out
}
