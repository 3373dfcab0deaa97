//! `link` and its verbs.

use super::LabArg;
use clap::Subcommand;

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
}
