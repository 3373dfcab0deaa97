//! The reaper: a detached process of this program that holds a pipe from its controller, and removes what the controller was
//! making when the pipe ends without a word. This is the controller's end of the pipe; the other one is the verb `reap`.
//!
//! It has a session of its own, so that no signal of a terminal reaches it, stands in `/`, and keeps no stream of the caller
//! open: nobody who waits for the end of a pipe waits for it. A controller without a reaper works on: what it leaves when it
//! is killed is removed by the next command.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::Mutex;

/// What the reaper says on its stdout when it has its own session.
pub const READY: &str = "ready";
/// How long that may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// A caller's files that were left open for its children (a lock, a pipe of a test runner) are not the reaper's to hold; a
/// shell can close those of one digit.
const CLOSE: &str = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec \"$0\" \"$@\"";

/// A line of the pipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// What carries all of these labels ends with the controller.
    Watch(BTreeMap<String, String>),
    /// It does so no longer: it is gone, or it stays.
    Forget(BTreeMap<String, String>),
}

/// The controller's end; the reaper sees it close when this is dropped, or the process ends in any way.
#[derive(Debug)]
pub struct Reaper {
    pipe: Mutex<ChildStdin>,
}

impl Reaper {
    /// Starts one that will speak to this engine (its URL). `None`, with a warning, if it cannot be started.
    pub async fn begin(endpoint: &str) -> Option<Self> {
        match tokio::time::timeout(PATIENCE, start(endpoint)).await {
            Ok(Ok(pipe)) => Some(Self { pipe: Mutex::new(pipe) }),
            Ok(Err(error)) => {
                tracing::warn!("nobody removes the lab if this process is killed: cannot start the reaper: {error}");
                None
            }
            Err(_) => {
                tracing::warn!("nobody removes the lab if this process is killed: the reaper does not start");
                None
            }
        }
    }

    /// From now on what carries these labels ends with this process.
    pub async fn watch(&self, labels: &BTreeMap<String, String>) {
        self.tell(Order::Watch(labels.clone())).await;
    }

    /// It does so no longer.
    pub async fn forget(&self, labels: &BTreeMap<String, String>) {
        self.tell(Order::Forget(labels.clone())).await;
    }

    async fn tell(&self, order: Order) {
        let mut line = serde_json::to_string(&order).expect("an order is JSON");
        line.push('\n');
        let mut pipe = self.pipe.lock().await;
        let told = async {
            pipe.write_all(line.as_bytes()).await?;
            pipe.flush().await
        };
        if let Err(error) = told.await {
            tracing::warn!("nobody removes the lab if this process is killed: the reaper is gone: {error}");
        }
    }
}

async fn start(endpoint: &str) -> std::io::Result<ChildStdin> {
    let own = std::env::current_exe()?;
    // It may have been replaced since it was started; the kernel still has it.
    let program = match own.exists() {
        true => own.into_os_string(),
        false => OsString::from("/proc/self/exe"),
    };
    let mut reaper = Command::new("/bin/sh")
        .args(["-c", CLOSE])
        .arg(program)
        .args(["reap", "--host", endpoint])
        .env_remove("TESTBED_FORMAT")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let stdout = reaper.stdout.take().expect("it is piped");
    let pipe = reaper.stdin.take().expect("it is piped");
    let mut word = String::new();
    BufReader::new(stdout).read_line(&mut word).await?;
    match word.trim_end() {
        READY => Ok(pipe),
        _ => Err(std::io::Error::other("it ended at once")),
    }
}
