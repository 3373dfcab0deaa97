//! `fault` and its verbs.

use super::LabArg;
use clap::{Args, Subcommand};
use std::time::Duration;

/// `fault`.
#[derive(Debug, Subcommand)]
pub enum FaultVerb {
    /// Let nodes stand still; their connections stay open
    Pause(HurtArgs),
    /// End a pause
    #[command(alias = "unpause")]
    Resume(NodesArg),
    /// Kill nodes at once (SIGKILL)
    Kill(HurtArgs),
    /// Ask nodes to end (SIGTERM), and kill those that do not
    Stop(StopArgs),
    /// Start nodes again, with the state that they kept; `ps` says when they are ready
    Start(NodesArg),
}

/// Nodes of a lab.
#[derive(Debug, Args)]
pub struct NodesArg {
    /// Nodes, or relay.dc1: a border router, which comes back with the conditions of the topology
    #[arg(required = true, value_name = "NODE")]
    #[arg(add = clap_complete::ArgValueCandidates::new(crate::complete::nodes))]
    pub nodes: Vec<String>,
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
}

/// `fault pause` and `fault kill`.
#[derive(Debug, Args)]
pub struct HurtArgs {
    /// The nodes
    #[command(flatten)]
    pub at: NodesArg,
    /// Take it back after this, or at Ctrl-C
    #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub duration: Option<Duration>,
}

/// `fault stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// The nodes, and for how long
    #[command(flatten)]
    pub hurt: HurtArgs,
    /// How long they may take to end by themselves; whole seconds
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub grace: Duration,
}
