//! `link` and its verbs.

use super::LabArg;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `link`.
#[derive(Debug, Subcommand)]
pub enum LinkVerb {
    /// Conditions, state and counters
    Show {
        /// dc1-dc2 (both directions), dc1:dc2 (from dc1 to dc2); without it all
        link: Option<String>,
        /// The lab
        #[command(flatten)]
        lab: LabArg,
    },
    /// Change conditions, e.g. delay=50ms
    Set {
        /// dc1-dc2 (both directions) or dc1:dc2 (from dc1 to dc2)
        link: String,
        /// delay=TIME (one way) or rtt=TIME (both directions together)
        #[arg(required = true)]
        conditions: Vec<String>,
        /// Restore after this
        #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
        duration: Option<std::time::Duration>,
        /// The lab
        #[command(flatten)]
        lab: LabArg,
    },
    /// Cut a link: what is in flight is destroyed
    Cut {
        /// dc1-dc2 (both directions) or dc1:dc2 (from dc1 to dc2)
        link: String,
        /// Heal after this
        #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
        duration: Option<std::time::Duration>,
        /// The lab
        #[command(flatten)]
        lab: LabArg,
    },
    /// End a cut
    Heal {
        /// dc1-dc2 (both directions) or dc1:dc2 (from dc1 to dc2)
        link: String,
        /// The lab
        #[command(flatten)]
        lab: LabArg,
    },
    /// Write what a link sees to a pcapng file: packets that arrive, leave, and are dropped
    Capture(CaptureArgs),
}

/// `link capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// dc1-dc2 (both directions) or dc1:dc2 (from dc1 to dc2)
    pub link: String,
    /// File (`-`: stdout, e.g. for `| tshark -r -`)
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub file: PathBuf,
    /// Keep so many bytes of each packet, from the IP header on
    #[arg(long, default_value_t = 262_144, value_name = "BYTES")]
    pub snaplen: u32,
    /// End after this; without it, Ctrl-C ends it
    #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub duration: Option<std::time::Duration>,
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
}
