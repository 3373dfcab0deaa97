//! `link capture`: what a link sees, into a pcapng file, until the time is up or a signal comes.

use super::name::LinkName;
use crate::capture::{Capture, CaptureError, Counts, Direction};
use crate::cli::{CaptureArgs, Format, Global};
use crate::commands::engines;
use crate::commands::screen::{self, plain_table};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Lab};
use crate::progress::Progress;
use crate::stop::Stop;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::pin::Pin;
use tokio::io::AsyncWrite;

/// What `link capture --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CaptureDocument {
    /// The lab.
    pub lab: String,
    /// The file.
    pub file: String,
    /// Directed links with what is in the file of each.
    pub links: Vec<CaptureRow>,
}

/// What a capture holds of a directed link.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CaptureRow {
    /// Sending side.
    pub from: String,
    /// Receiving side.
    pub to: String,
    /// Packets that arrived; with offload one can be 64 KiB of a flow.
    pub arrived_packets: u64,
    /// Packets that left.
    pub departed_packets: u64,
    /// Packets that were dropped, by reason.
    pub dropped_packets: BTreeMap<String, u64>,
    /// Packets that the relay made itself.
    pub made_packets: u64,
    /// Copies that are missing, because the relay had no room for them.
    pub lost_copies: u64,
}

impl From<(&Direction, &Counts)> for CaptureRow {
    fn from((direction, counts): (&Direction, &Counts)) -> Self {
        let dropped = counts
            .dropped
            .iter()
            .map(|(reason, count)| ((*reason).to_owned(), *count));
        Self {
            from: direction.from.to_string(),
            to: direction.to.to_string(),
            arrived_packets: counts.arrived,
            departed_packets: counts.departed,
            dropped_packets: dropped.collect(),
            made_packets: counts.made,
            lost_copies: counts.lost,
        }
    }
}

/// Captures until the time is up, a signal comes, or the reader of stdout has gone. Without `--for` a signal is how it ends.
pub(super) async fn run(global: &Global, args: &CaptureArgs) -> Result<ExitCode, CommandError> {
    let name = LinkName::parse(&args.link)?;
    let stop = Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?;
    let lab = lab::find(&engines(global).await?, args.lab.lab.as_ref()).await?;
    let blind = blind(&lab, &name).await?;
    let mut capture = Capture::begin(&lab, &name.directions(), args.snaplen).await?;
    let to_stdout = args.file.as_os_str() == "-";
    let mut file = match open(&args.file, to_stdout).await {
        Ok(file) => file,
        Err(error) => {
            capture.end().await?;
            return Err(error);
        }
    };
    let progress = Progress::new(global.quiet);
    if let Some(blind) = blind {
        progress.step(blind);
    }
    progress.step(match args.duration {
        Some(duration) => format!("capturing {} for {}", args.link, humantime::format_duration(duration)),
        None => format!("capturing {}; Ctrl-C ends it", args.link),
    });
    let until = async {
        tokio::select! {
            () = async {
                match args.duration {
                    Some(duration) => tokio::time::sleep(duration).await,
                    None => std::future::pending().await,
                }
            } => None,
            signal = stop.stopped() => Some(signal),
        }
    };
    let followed = capture.follow(&mut file, until).await;
    let shown = CaptureDocument {
        lab: lab.name().to_string(),
        file: args.file.display().to_string(),
        links: capture.counts().map(CaptureRow::from).collect(),
    };
    // Where the file itself is on stdout, nothing else can be.
    match to_stdout {
        true => progress.step(format_args!("captured\n{}", table(&shown.links).trim_end())),
        false => screen::print(&match global.format {
            Format::Json => document("capture", &shown),
            Format::Text => table(&shown.links),
        })?,
    }
    if shown.links.iter().any(|link| link.lost_copies > 0) {
        progress.step(
            "copies are missing: the relays had no room for them; --snaplen 128 keeps headers only and needs less",
        );
    }
    match followed {
        Ok(Some(signal)) if args.duration.is_some() => Ok(signal.exit_code()),
        Ok(_) => Ok(ExitCode::Success),
        // A reader that has seen enough is no error.
        Err(CaptureError::Write(error)) if to_stdout && error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::Success),
        Err(error) => Err(error.into()),
    }
}

/// What the capture cannot see, because of the way that packets take.
async fn blind(lab: &Lab, name: &LinkName) -> Result<Option<&'static str>, CommandError> {
    let mut blind = None;
    for (from, to) in name.directions() {
        blind = blind.or(match lab.link(from, to).await?.path {
            wire::Path::Tun => None,
            wire::Path::Stream(_) => {
                Some("the link is in stream mode: connections that it terminates are not captured")
            }
            wire::Path::Kernel => Some("the kernel forwards past the relay: nothing is captured"),
        });
    }
    Ok(blind)
}

async fn open(path: &Path, to_stdout: bool) -> Result<Pin<Box<dyn AsyncWrite>>, CommandError> {
    if to_stdout {
        return Ok(Box::pin(tokio::io::stdout()));
    }
    match tokio::fs::File::create(path).await {
        Ok(file) => Ok(Box::pin(file)),
        Err(error) => Err(CommandError::new(
            ExitCode::Usage,
            format!("write to {}: {error}", path.display()),
        )),
    }
}

fn table(links: &[CaptureRow]) -> String {
    let rows = links.iter().map(|link| {
        let dropped: u64 = link.dropped_packets.values().sum();
        let reasons = link
            .dropped_packets
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"));
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        [
            format!("{}:{}", link.from, link.to),
            link.arrived_packets.to_string(),
            link.departed_packets.to_string(),
            match dropped {
                0 => "0".to_owned(),
                _ => format!("{dropped} ({reasons})"),
            },
            link.made_packets.to_string(),
            link.lost_copies.to_string(),
        ]
    });
    plain_table(["LINK", "ARRIVED", "DEPARTED", "DROPPED", "MADE", "COPIES LOST"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_drops_by_reason() {
        let row = CaptureRow {
            from: "dc1".to_owned(),
            to: "dc2".to_owned(),
            arrived_packets: 9,
            departed_packets: 4,
            dropped_packets: BTreeMap::from([("cut".to_owned(), 3), ("loss".to_owned(), 1)]),
            made_packets: 0,
            lost_copies: 2,
        };
        let text = table(&[row]);
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words, ["dc1:dc2", "9", "4", "4", "(cut", "3,", "loss", "1)", "0", "2"]);
    }
}
