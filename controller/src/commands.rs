//! One short function per verb, in a file of its own below; the only place where stages are chained.

pub mod screen;

use crate::cli::{Cli, Verb};
use crate::error::{CommandError, ExitCode};

/// Runs the verb.
///
/// # Errors
/// What the user can act on, with its exit code.
pub async fn run(cli: Cli) -> Result<ExitCode, CommandError> {
    match cli.verb {
        Verb::Completions { shell } => {
            let mut command = <Cli as clap::CommandFactory>::command();
            clap_complete::generate(shell, &mut command, "testbed", &mut std::io::stdout());
            Ok(ExitCode::Success)
        }
        verb => Err(CommandError::new(
            ExitCode::Bug,
            format!("run {verb:?}: not written yet"),
        )),
    }
}
