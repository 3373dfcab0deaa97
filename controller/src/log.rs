//! Log lines: on stderr as much as was asked for, and in the run's `run.log` all of ours. Results never come here.
//!
//! The file is known only once a run has its directory: until then its lines go nowhere. Runs beside each other in one
//! process keep their logs [`apart`]; what a task that they spawned says then goes to neither.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::{self, MakeWriter, format};
use tracing_subscriber::prelude::*;

/// Where the lines of a run go, once that is known.
type Place = Arc<Mutex<Option<File>>>;

/// Where they go for whoever has no place of their own.
static RUN_LOG: LazyLock<Place> = LazyLock::new(Place::default);

tokio::task_local! {
    static OWN_LOG: Place;
}

/// What the run's log keeps: ours in detail, others' as far as they matter.
const KEPT: &str = "info,testbed=debug";

/// Starts logging; once per process. `verbosity` is the number of `-v`.
pub fn start(verbosity: u8, colour: bool) {
    let level = match verbosity {
        0 => "warn",
        1 => "testbed=info,warn",
        2 => "testbed=debug,info",
        _ => "trace",
    };
    let screen = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .with_filter(EnvFilter::new(level));
    // Layers that format fields by the same type share the text of a span's fields, colours and all; hence a type of
    // its own for the file.
    let fields = format::debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{value:?}"),
        name => write!(writer, "{name}={value:?}"),
    })
    .delimited(" ");
    let kept = fmt::layer()
        .fmt_fields(fields)
        .with_writer(RunLog)
        .with_ansi(false)
        .with_filter(EnvFilter::new(KEPT));
    tracing_subscriber::registry().with(screen).with(kept).init();
}

/// From now on lines go to this file too.
pub fn keep_in(file: File) {
    *place().lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
}

/// What this future says goes to the file that it names itself, and to no other's.
pub async fn apart<F: Future>(future: F) -> F::Output {
    OWN_LOG.scope(Place::default(), future).await
}

fn place() -> Place {
    OWN_LOG.try_with(Arc::clone).unwrap_or_else(|_| Arc::clone(&RUN_LOG))
}

/// Writes to the run's log, if there is one.
struct RunLog;

impl<'a> MakeWriter<'a> for RunLog {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl Write for RunLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match place().lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(file) => file.write(line),
            None => Ok(line.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn runs_beside_each_other_write_into_their_own_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let run = |name: &'static str| {
            let file = File::create(path(name)).unwrap();
            apart(async move {
                keep_in(file);
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    RunLog.write_all(name.as_bytes()).unwrap();
                }
            })
        };
        tokio::join!(run("a"), run("b"));
        for (name, kept) in [("a", "aaa"), ("b", "bbb")] {
            assert_eq!(std::fs::read_to_string(path(name)).unwrap(), kept);
        }
    }
}
