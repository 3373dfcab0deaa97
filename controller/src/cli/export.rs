//! `export`.

use super::ReleaseArg;
use crate::names::LabName;
use clap::{Args, Subcommand};
use ipnet::Ipv4Net;
use std::path::PathBuf;

/// `export`.
#[derive(Debug, Subcommand)]
pub enum ExportVerb {
    /// A lab as a file for `docker compose` or docker-compose; needs no engine
    Compose(ComposeArgs),
    /// See to it that the engine has every image that such a file names
    Images(ExportedImages),
}

/// `export compose`.
#[derive(Debug, Args)]
pub struct ComposeArgs {
    /// Topology file (`-`: stdin)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Name of the lab, which its addresses come from; without it the topology's
    #[arg(short = 'p', long = "lab", env = "TESTBED_LAB", value_name = "NAME")]
    pub lab: Option<LabName>,
    /// Addresses of all its networks, e.g. 198.18.52.0/24, instead of those from its name
    #[arg(long, value_name = "NETWORK")]
    pub subnet: Option<Ipv4Net>,
    /// Releases
    #[command(flatten)]
    pub release: ReleaseArg,
}

/// `export images`.
#[derive(Debug, Args)]
pub struct ExportedImages {
    /// Topology files (`-`: stdin)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Releases
    #[command(flatten)]
    pub release: ReleaseArg,
}
