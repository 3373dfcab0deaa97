//! The probe: the measuring client of a datacenter, and process 1 of its container.
//!
//! Takes no arguments. Orders come as JSON lines on stdin, answers leave as JSON lines on stdout, logs go to
//! stderr (`wire` has the words). It ends on SIGTERM or SIGINT at once, whatever is under way; an end of
//! file on stdin does not end it, because a later command may attach again.
//!
//! Everything that is timed runs on a thread of its own with blocking sockets; see `redis.rs` for why.

mod anew;
mod beacon;
mod bulk;
mod clock;
mod connect;
mod control;
mod echo;
mod failures;
mod host;
mod load;
mod order;
mod pace;
mod postgres;
mod redis;
mod running;
mod socket;
mod sockets;

use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    if std::env::args_os().count() > 1 {
        eprintln!(
            "probe {}: takes no arguments; orders come on stdin as JSON lines",
            env!("CARGO_PKG_VERSION")
        );
        return ExitCode::from(2);
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe: failed to {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the threads, then waits for a signal. Returning ends the process and with it every order.
fn run() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Process 1 has no default action for signals: without these it could only be killed. They are
    // installed before the first order is read.
    let (mut term, mut int) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let ears = beacon::Ears::default();
    echo::responder::serve(&ears);
    control::serve(ears)?;
    runtime.block_on(async {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    });
    Ok(())
}
