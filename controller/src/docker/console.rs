//! What people ask of a running container, and of the engine itself: commands, logs, description.
//!
//! A command's own exit code is the answer, whatever it is. What the engine says instead of running a command goes to
//! stderr, never into the command's stdout.

use super::{About, Console, Docker, EngineError, ExecSpec, LogLine, LogsSpec, terminal};
use async_trait::async_trait;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::{ListContainersOptions, LogsOptions};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Shells' codes of a command that cannot be run, and of one that is not there.
const CANNOT_RUN: i64 = 126;
const NOT_THERE: i64 = 127;
/// Three keys in a row that nobody presses: the engine's own default (Ctrl-P Ctrl-Q) would hold back Ctrl-P.
const DETACH_KEYS: &str = "ctrl-_,ctrl-^,ctrl-_";
/// What an engine without an own word for "not found" writes into the command's stdout (20.10).
const RUNTIME_FAILED: &[u8] = b"OCI runtime exec failed";

type Frames = Pin<Box<dyn futures_util::Stream<Item = Result<LogOutput, Error>> + Send>>;

#[async_trait]
impl Console for Docker {
    async fn about(&self) -> Result<About, EngineError> {
        let seen = self
            .timed(self.api.info())
            .await
            .map_err(|error| self.refused("ask", "the engine", &error))?;
        let text = Option::unwrap_or_default;
        let off = |warning: &String| warning.contains("bridge-nf-call-iptables is disabled");
        Ok(About {
            version: text(seen.server_version),
            api_version: self.api_version(),
            kernel: text(seen.kernel_version),
            os: text(seen.operating_system),
            architecture: text(seen.architecture),
            cpus: seen.ncpu.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or_default(),
            memory_bytes: seen
                .mem_total
                .and_then(|bytes| u64::try_from(bytes).ok())
                .unwrap_or_default(),
            cgroup: seen
                .cgroup_version
                .map(|version| version.to_string())
                .unwrap_or_default(),
            storage: text(seen.driver),
            bridge_netfilter: !seen.warnings.unwrap_or_default().iter().any(off),
        })
    }

    async fn exec(&self, container: &str, exec: &ExecSpec) -> Result<i64, EngineError> {
        let refused = |error: &Error| self.refused("run a command in", container, error);
        let options = CreateExecOptions {
            attach_stdin: Some(exec.interactive),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(exec.tty),
            detach_keys: Some(DETACH_KEYS.to_owned()),
            cmd: Some(exec.command.clone()),
            user: exec.user.clone(),
            ..CreateExecOptions::default()
        };
        let id = self
            .timed(self.api.create_exec(container, options))
            .await
            .map_err(|error| refused(&error))?
            .id;
        let start = StartExecOptions {
            tty: exec.tty,
            ..StartExecOptions::default()
        };
        let (output, input) = match self.timed(self.api.start_exec(&id, Some(start))).await {
            Ok(StartExecResults::Attached { output, input }) => (output, input),
            Ok(StartExecResults::Detached) => unreachable!("an exec that was not asked to detach is attached"),
            Err(error) => {
                let Some(code) = code_of_refused_start(&error) else {
                    return Err(refused(&error));
                };
                // If nobody reads stderr the code still tells.
                let _ = writeln!(std::io::stderr(), "{error}");
                return Ok(code);
            }
        };
        let raw = terminal::Raw::enter(exec.tty && exec.interactive);
        let sizes = exec.tty.then(|| tokio::spawn(follow_size(self.clone(), id.clone())));
        let typed = exec.interactive.then(|| tokio::spawn(forward_stdin(input)));
        let copied = copy_out(output).await;
        for task in [sizes, typed].into_iter().flatten() {
            task.abort();
        }
        drop(raw);
        copied.map_err(|error| refused(&error))?;
        let seen = self
            .timed(self.api.inspect_exec(&id))
            .await
            .map_err(|error| refused(&error))?;
        Ok(seen.exit_code.unwrap_or(CANNOT_RUN))
    }

    async fn logs(&self, container: &str, logs: &LogsSpec, lines: mpsc::Sender<LogLine>) -> Result<(), EngineError> {
        let options = LogsOptions {
            follow: logs.follow,
            stdout: true,
            stderr: true,
            timestamps: true,
            tail: logs.tail.map_or_else(|| "all".to_owned(), |lines| lines.to_string()),
            ..LogsOptions::default()
        };
        let mut frames = self.api.logs(container, Some(options));
        // Partial lines of stdout and stderr.
        let mut begun = [Vec::new(), Vec::new()];
        while let Some(frame) = frames.next().await {
            let frame = frame.map_err(|error| self.refused("read the log of", container, &error))?;
            let stream = usize::from(matches!(frame, LogOutput::StdErr { .. }));
            for line in whole_lines(&mut begun[stream], &frame.into_bytes()) {
                if lines.send(line).await.is_err() {
                    return Ok(());
                }
            }
        }
        for rest in begun.into_iter().filter(|rest| !rest.is_empty()) {
            if lines.send(stamped(&rest)).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl Docker {
    /// Where the engine keeps images and volumes, on its own host.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn storage_folder(&self) -> Result<Option<PathBuf>, EngineError> {
        let seen = self
            .timed(self.api.info())
            .await
            .map_err(|error| self.refused("ask", "the engine", &error))?;
        Ok(seen.docker_root_dir.map(PathBuf::from))
    }

    /// Container id -> when it was made, of those that carry every one of these labels.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn made_at(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, SystemTime>, EngineError> {
        let options = ListContainersOptions {
            all: true,
            filters: Some(super::bodies::label_filters(labels)),
            ..ListContainersOptions::default()
        };
        let seen = self.timed(self.api.list_containers(Some(options))).await;
        let seen = seen.map_err(|error| self.refused("list", "containers", &error))?;
        let times = seen.into_iter().filter_map(|container| {
            let seconds = u64::try_from(container.created?).ok()?;
            Some((container.id?, SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
        });
        Ok(times.collect())
    }
}

/// Copies frames to our stdout and stderr until the command has ended.
async fn copy_out(mut frames: Frames) -> Result<(), Error> {
    let mut first = true;
    while let Some(frame) = frames.next().await {
        let frame = frame?;
        let runtime = first && frame.as_ref().starts_with(RUNTIME_FAILED);
        first = false;
        // A reader that has gone (`| head`) must not end the command's run with an error of ours.
        let _gone = if runtime || matches!(frame, LogOutput::StdErr { .. }) {
            std::io::stderr().write_all(frame.as_ref())
        } else {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(frame.as_ref()).and_then(|()| stdout.flush())
        };
    }
    Ok(())
}

/// Our stdin to the command's, ended by a half close: dropping the stream would not be seen by the command.
async fn forward_stdin(mut input: Pin<Box<dyn AsyncWrite + Send>>) {
    let copied = tokio::io::copy(&mut tokio::io::stdin(), &mut input).await;
    if copied.is_ok() {
        // The command may have ended already; then there is nothing to close.
        let _ended = input.shutdown().await;
    }
}

/// Gives the command's terminal the size of ours, now and whenever ours changes.
async fn follow_size(docker: Docker, exec: String) {
    let Ok(mut changed) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::window_change()) else {
        return;
    };
    loop {
        if let Some((width, height)) = terminal::size() {
            let size = bollard::exec::ResizeExecOptions { height, width };
            if let Err(error) = docker.api.resize_exec(&exec, size).await {
                tracing::debug!("the command's terminal keeps its size: {error}");
            }
        }
        if changed.recv().await.is_none() {
            return;
        }
    }
}

/// Newer engines refuse to start what cannot be run; then the shells' exit codes apply.
fn code_of_refused_start(error: &Error) -> Option<i64> {
    let Error::DockerResponseServerError { message, .. } = error else {
        return None;
    };
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["executable file not found", "no such file or directory"]) {
        return Some(NOT_THERE);
    }
    says(&["permission denied", "OCI runtime exec failed"]).then_some(CANNOT_RUN)
}

/// The lines that `bytes` complete; the rest stays in `begun`.
fn whole_lines(begun: &mut Vec<u8>, bytes: &[u8]) -> Vec<LogLine> {
    begun.extend_from_slice(bytes);
    let Some(end) = begun.iter().rposition(|byte| *byte == b'\n') else {
        return Vec::new();
    };
    let rest = begun.split_off(end + 1);
    let whole = std::mem::replace(begun, rest);
    whole[..end].split(|byte| *byte == b'\n').map(stamped).collect()
}

/// A line as the engine writes it with times: `<RFC 3339, nine digits> <text>`.
fn stamped(line: &[u8]) -> LogLine {
    let line = String::from_utf8_lossy(line);
    let (at, text) = line.split_once(' ').unwrap_or((&line, ""));
    LogLine {
        at: at.to_owned(),
        text: text.trim_end_matches('\r').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_not_lines() {
        let mut begun = Vec::new();
        assert_eq!(whole_lines(&mut begun, b"2026-01-01T00:00:00.000000000Z on"), []);
        let lines = whole_lines(&mut begun, b"e\n2026-01-01T00:00:01.000000000Z two words\r\n20");
        let texts: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["one", "two words"]);
        assert_eq!(lines[1].at, "2026-01-01T00:00:01.000000000Z");
        assert_eq!(begun, b"20");
    }

    #[test]
    fn an_empty_line_is_a_line() {
        let lines = whole_lines(&mut Vec::new(), b"2026-01-01T00:00:00.000000000Z \n");
        assert_eq!(lines[0].text, "");
    }

    #[test]
    fn a_program_that_is_not_there_is_127_and_one_that_cannot_run_126() {
        let refused = |message: &str| Error::DockerResponseServerError {
            status_code: 400,
            message: message.to_owned(),
        };
        let absent = "OCI runtime exec failed: exec failed: unable to start container process: exec: \"x\": executable \
                      file not found in $PATH: unknown";
        assert_eq!(code_of_refused_start(&refused(absent)), Some(127));
        let denied = "OCI runtime exec failed: exec: \"/data\": permission denied: unknown";
        assert_eq!(code_of_refused_start(&refused(denied)), Some(126));
        assert_eq!(code_of_refused_start(&refused("container x is not running")), None);
    }
}
