//! `run --capture`: what the link of a block sees while it runs, beside its history. A capture that fails never fails the
//! block; what became of it is a note in the history.

use super::chronicle::Chronicle;
use crate::block::Block;
use crate::capture::{Capture, CaptureError, Counts};
use crate::error::CommandError;
use crate::history::{BlockNumber, What};
use crate::lab::Lab;
use std::path::Path;
use tokio::fs::File;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Bytes kept of each packet: all of most commands, and of bulk data what tells it apart.
const SNAP_BYTES: u32 = 256;

/// A capture that goes on beside a block.
pub(super) struct Beside {
    block: BlockNumber,
    link: String,
    file: String,
    over: oneshot::Sender<()>,
    followed: JoinHandle<(Capture, Result<(), CaptureError>)>,
}

/// Begins to capture the link of a block, if it has one. What keeps it from that is in the history.
pub(super) async fn begin(block: Block, lab: &Lab, chronicle: &mut Chronicle) -> Result<Option<Beside>, CommandError> {
    let Ok(cast) = block.applies(&lab.plan) else {
        return Ok(None);
    };
    let block = block.number();
    let file = format!("capture-{block}.pcapng");
    match open(lab, [&cast.home, &cast.away], &chronicle.path().join(&file)).await {
        Ok((mut capture, mut sink)) => {
            let (over, until) = oneshot::channel();
            let followed = tokio::spawn(async move {
                // If nobody says that it is over, nobody is left to write for.
                let followed = capture.follow(&mut sink, until).await.map(|_| ());
                (capture, followed)
            });
            Ok(Some(Beside {
                block,
                link: cast.link(),
                file,
                over,
                followed,
            }))
        }
        Err(error) => {
            tell(
                chronicle,
                block,
                format!("There is no capture of the link {}: failed to {error}.", cast.link()),
            )?;
            Ok(None)
        }
    }
}

async fn open(
    lab: &Lab,
    [one, other]: [&crate::names::DatacenterName; 2],
    path: &Path,
) -> Result<(Capture, File), CaptureError> {
    let file = File::create(path).await?;
    let capture = Capture::begin(lab, &[(one, other), (other, one)], SNAP_BYTES).await?;
    Ok((capture, file))
}

impl Beside {
    /// Ends it, and says in the history what is in the file.
    pub(super) async fn end(self, chronicle: &mut Chronicle) -> Result<(), CommandError> {
        // Fails if the capture has failed already, which it tells below.
        let _ = self.over.send(());
        let (capture, followed) = self.followed.await.expect("a capture does not panic");
        let counts: Vec<&Counts> = capture.counts().map(|(_, counts)| counts).collect();
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(|counts| of(counts)).sum::<u64>();
        let mut text = format!(
            "What the link {} saw is in {}: {} packets arrived, {} left, {} were dropped.",
            self.link,
            self.file,
            sum(|counts| counts.arrived),
            sum(|counts| counts.departed),
            sum(|counts| counts.dropped.values().sum()),
        );
        match sum(|counts| counts.lost) {
            0 => {}
            lost => text += &format!(" {lost} copies are missing: the relays had no room for them."),
        }
        if let Err(error) = followed {
            text += &format!(" It ended early: failed to {error}.");
        }
        tell(chronicle, self.block, text)
    }
}

fn tell(chronicle: &mut Chronicle, block: BlockNumber, text: String) -> Result<(), CommandError> {
    chronicle.progress().step(format_args!("block {block}: {text}"));
    chronicle.write(What::Note { block, text })
}
