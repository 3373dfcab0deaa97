//! Log lines: on stderr as much as was asked for, and in the run's `run.log` all of ours. Results never come here.
//!
//! The file is known only once a run has its directory: until then its lines go nowhere.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::{self, MakeWriter, format};
use tracing_subscriber::prelude::*;

static RUN_LOG: Mutex<Option<File>> = Mutex::new(None);

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
    *lock() = Some(file);
}

fn lock() -> MutexGuard<'static, Option<File>> {
    RUN_LOG.lock().unwrap_or_else(PoisonError::into_inner)
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
        match lock().as_mut() {
            Some(file) => file.write(line),
            None => Ok(line.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
