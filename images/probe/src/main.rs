//! The probe: the measuring client of a datacenter, and process 1 of its container.
//!
//! Orders come as JSON lines on stdin, answers leave as JSON lines on stdout, logs go to stderr (`wire` has the words).
//! It takes no arguments but `once ORDER`, which does one thing, without a controller, and ends (see `once.rs`). It ends on SIGTERM or SIGINT at once, whatever is under way; an end of
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
mod once;
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ran = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run(&serve),
        ["once", order] => {
            let order = order.to_owned();
            run(&move || once::begin(&order))
        }
        _ => {
            eprintln!(
                "probe {}: takes no arguments but `once ORDER`; other orders come on stdin as JSON lines",
                env!("CARGO_PKG_VERSION")
            );
            return ExitCode::from(2);
        }
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe: failed to {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the threads that take orders.
fn serve() -> std::io::Result<()> {
    let ears = beacon::Ears::default();
    echo::responder::serve(&ears);
    control::serve(ears)
}

/// Starts the threads, then waits for a signal. Returning ends the process and with it every order.
fn run(start: &dyn Fn() -> std::io::Result<()>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Process 1 has no default action for signals: without these it could only be killed. They are
    // installed before the first order is read.
    let (mut term, mut int) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    start()?;
    runtime.block_on(async {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    });
    Ok(())
}
