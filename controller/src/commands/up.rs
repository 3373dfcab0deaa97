//! `up`: a lab from a topology, ready. A lab of the same name that is up and the same is left as it is; one that is not
//! the same is an error, never replaced.

use super::connect;
use super::prepare::{self, Ground};
use super::ps::place;
use super::screen::{self, plain_table};
use super::source::{self, Source};
use crate::cli::{Format, Global, Up};
use crate::docker::EngineHandle;
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::image;
use crate::lab::{self, Engines, Lab, LabError, Life};
use crate::names::{Kind, LabName, NodeName};
use crate::progress::Progress;
use crate::reaper::Reaper;
use crate::release::Release;
use crate::stop::Stop;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What `up --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UpDocument {
    /// The lab.
    pub lab: String,
    /// Whether it was up before.
    pub already_up: bool,
    /// From the first engine call to ready; 0 if it was up before.
    pub took_ms: u64,
    /// Its nodes, in the order of the topology, then its applications.
    pub nodes: Vec<UpNode>,
}

/// A node that is ready.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UpNode {
    /// Name.
    pub node: String,
    /// Where it stands.
    pub datacenter: String,
    /// Address and port, the same from every datacenter.
    pub address: String,
    /// Release asked for; of an application its image.
    pub release: String,
    /// Server and version as it reports them (`null`: it was not asked).
    pub version: Option<String>,
}

pub(super) async fn run(global: &Global, up: Up) -> Result<ExitCode, CommandError> {
    let source = source::read(&up.file, global.format, global.color)?;
    let releases = prepare::releases(&source.topology, &up.release)?;
    let pool = super::pool(global)?;
    let name = up.lab.unwrap_or_else(|| source.topology.name.clone());
    let progress = Progress::new(global.quiet);
    let stop = Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?;
    let docker = connect(global).await?;
    let engine: EngineHandle = Arc::new(docker.clone());
    let engines = Engines::from(engine);
    // What cannot be removed of others does not stop this one; it was said.
    let _ = super::sweep_orphans(&engines, &progress).await;
    if let Some(mut lab) = already_up(&engines, &name, &source, &releases).await? {
        tokio::select! {
            ready = lab.wait_ready(up.wait_timeout) => ready?,
            signal = stop.stopped() => return Ok(signal.exit_code()),
        }
        progress.step(format_args!("lab {name} is up already"));
        show(global, &lab, true)?;
        return Ok(ExitCode::Success);
    }
    let reaper = Reaper::begin(docker.endpoint()).await.map(Arc::new);
    let engine = docker.clone();
    let prepared = Ground::prepare(docker, source, releases, &progress);
    let ground = tokio::select! {
        ground = prepared => ground?,
        signal = stop.stopped() => {
            image::abandon(&engine).await?;
            return Ok(signal.exit_code());
        }
    };
    // Half a lab ends with this process, a whole one stays.
    let ground = ground.reaped(reaper, Life::OfItsOwn).within(pool);
    let lab = ground.raise(&name, None, &progress, &stop, up.wait_timeout).await?;
    lab.stays().await;
    progress.step(format_args!("lab {name} is ready"));
    show(global, &lab, false)?;
    Ok(ExitCode::Success)
}

/// The lab of this name, if it is up and what the command line asks for.
async fn already_up(
    engines: &Engines,
    name: &LabName,
    source: &Source,
    releases: &BTreeMap<NodeName, Release>,
) -> Result<Option<Lab>, CommandError> {
    let found = match lab::choose(engines, Some(name)).await {
        Err(LabError::NoLab { .. }) => return Ok(None),
        found => found?,
    };
    let plan = found.plan().map_err(|error| found.held(name).unwrap_or(error))?;
    let missing = found.not_running(&plan, &[Kind::Relay, Kind::Probe, Kind::Node, Kind::Application]);
    if !missing.is_empty() {
        let lab = name.to_string();
        // Another process is at it.
        if let Some(held) = found.held(name) {
            return Err(held.into());
        }
        return Err(LabError::NotWhole { lab, missing }.into());
    }
    let as_asked = plan.topology_hash == source.hash
        && plan.nodes.iter().all(|node| {
            releases
                .get(&node.name)
                .is_some_and(|release| release.name == node.release)
        });
    if !as_asked {
        let text = format!("raise lab `{name}`: one of this name is up, with another topology or other releases");
        return Err(CommandError::new(ExitCode::Incomplete, text).hint(format!(
            "`testbed down -p {name}` removes it; -p gives this one another name"
        )));
    }
    Ok(Some(lab::attach(engines, &found).await?))
}

fn show(global: &Global, lab: &Lab, already_up: bool) -> Result<(), CommandError> {
    let seen = |node: &NodeName| lab.servers().iter().find(|server| server.node == node.as_str());
    let nodes = lab.plan.nodes.iter().map(|node| UpNode {
        node: node.name.to_string(),
        datacenter: node.datacenter.to_string(),
        address: lab::target(node).to_string(),
        release: node.release.clone(),
        version: seen(&node.name).map(|server| format!("{} {}", server.engine, server.version)),
    });
    let applications = lab.plan.applications.iter().map(|application| UpNode {
        node: application.name.to_string(),
        datacenter: application.datacenter.to_string(),
        address: place(application),
        release: application.image.clone(),
        version: None,
    });
    let shown = UpDocument {
        lab: lab.name().to_string(),
        already_up,
        took_ms: u64::try_from(lab.took().as_millis()).unwrap_or(u64::MAX),
        nodes: nodes.chain(applications).collect(),
    };
    let rows = shown.nodes.iter().map(|node| {
        let server = node.version.as_ref().unwrap_or(&node.release);
        [&node.node, &node.datacenter, &node.address, server].map(String::clone)
    });
    screen::print(&match global.format {
        Format::Json => document("up", &shown),
        Format::Text => plain_table(["NODE", "DATACENTER", "ADDRESS", "SERVER"], rows),
    })
}
