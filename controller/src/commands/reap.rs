//! `reap`: the other end of a controller's pipe. Waits until the pipe ends, and then removes what it was told to watch and
//! not told to forget. Hidden: nobody types it.
//!
//! The engine goes on with calls that were under way when the controller died, so it looks again until nothing has appeared
//! for a while; an engine that does not answer is asked again, but not for ever.

use crate::cli::Global;
use crate::docker::{Docker, EngineHandle};
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Engines};
use crate::reaper::{Order, READY};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout};

/// For how long nothing may have appeared. Engines on a busy machine were seen to take 20 s for a container.
const QUIET: Duration = Duration::from_secs(30);
/// When it gives up on what cannot be removed, and on an engine that is silent.
const LONGEST: Duration = Duration::from_secs(600);
/// Limit of one look with its removals.
const LOOK: Duration = Duration::from_secs(120);
/// Pause between two looks at first; it doubles up to the other one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(global: &Global) -> Result<ExitCode, CommandError> {
    // Refused only where it leads its own group already, started by hand from a shell.
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!("no session of its own: {error}");
    }
    let mut out = tokio::io::stdout();
    let said = async {
        out.write_all(format!("{READY}\n").as_bytes()).await?;
        out.flush().await
    };
    // A controller that is dead already has watched nothing.
    if said.await.is_err() {
        return Ok(ExitCode::Success);
    }
    let mut watched: Vec<BTreeMap<String, String>> = Vec::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        take(&line, &mut watched);
    }
    if watched.is_empty() || reaped(global.host.as_deref(), &watched).await {
        return Ok(ExitCode::Success);
    }
    Ok(ExitCode::Incomplete)
}

/// A line cut short by the controller's death is none.
fn take(line: &str, watched: &mut Vec<BTreeMap<String, String>>) {
    match serde_json::from_str(line) {
        Ok(Order::Watch(labels)) if !labels.is_empty() && !watched.contains(&labels) => watched.push(labels),
        Ok(Order::Forget(labels)) => watched.retain(|other| *other != labels),
        Ok(Order::Watch(_)) | Err(_) => {}
    }
}

/// Whether nothing is left.
async fn reaped(host: Option<&str>, watched: &[BTreeMap<String, String>]) -> bool {
    let begun = Instant::now();
    let mut quiet_since = None;
    let mut pause = FIRST_PAUSE;
    while begun.elapsed() < LONGEST {
        match timeout(LOOK, look(host, watched)).await {
            Ok(Ok(0)) => {
                let since = *quiet_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= QUIET {
                    return true;
                }
            }
            Ok(Ok(_)) => {
                quiet_since = None;
                pause = FIRST_PAUSE;
            }
            Ok(Err(_)) | Err(_) => quiet_since = None,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
    false
}

/// Removes what is there; how many objects that were.
async fn look(host: Option<&str>, watched: &[BTreeMap<String, String>]) -> Result<usize, CommandError> {
    let engine: EngineHandle = Arc::new(Docker::connect(host).await?);
    let engines = Engines::from(engine);
    let mut removed = 0;
    let mut first = None;
    for labels in watched {
        match lab::sweep(&engines, labels).await {
            Ok(lowered) => removed += lowered.removed,
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(removed), |error| Err(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_or_cut_short_is_not_watched() {
        let labels = |value: &str| BTreeMap::from([("testbed.raise".to_owned(), value.to_owned())]);
        let line = |order: Order| serde_json::to_string(&order).unwrap();
        let mut watched = Vec::new();
        take(&line(Order::Watch(labels("1"))), &mut watched);
        take(&line(Order::Watch(labels("2"))), &mut watched);
        take(&line(Order::Watch(labels("2"))), &mut watched);
        take(&line(Order::Forget(labels("1"))), &mut watched);
        let cut = line(Order::Watch(labels("3")));
        take(&cut[..cut.len() - 3], &mut watched);
        // Without a label everything would be meant.
        take(&line(Order::Watch(BTreeMap::new())), &mut watched);
        assert_eq!(watched, [labels("2")]);
    }
}
