//! Verbs of daily use: `init`, `top`, `man`.

use super::LabArg;
use crate::names::LabName;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `init`.
#[derive(Debug, Args)]
pub struct Init {
    /// Name of the lab; the file is NAME.yaml (without it the template's)
    #[arg(value_name = "NAME")]
    pub name: Option<LabName>,
    /// Which template, see --list
    #[arg(short, long, default_value = "two-dc", value_name = "TEMPLATE")]
    pub template: String,
    /// List the templates and write nothing
    #[arg(short, long)]
    pub list: bool,
}

/// `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Write a page per verb into this directory; without it testbed(1) is printed
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
    /// Time between two looks
    #[arg(short, long, value_parser = interval, default_value = "1s", value_name = "TIME")]
    pub interval: Duration,
    /// Look twice, print once, end
    #[arg(long)]
    pub once: bool,
    /// End after this time
    #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub duration: Option<Duration>,
}

/// Shortest time between two looks: each one asks every server and relay.
const SHORTEST: Duration = Duration::from_millis(100);

fn interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if interval < SHORTEST {
        return Err("at least 100ms: each look asks every server and relay".to_owned());
    }
    Ok(interval)
}
