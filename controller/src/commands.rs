//! One short function per verb, in a file of its own below; the only place where stages are chained.

pub mod blocks;
pub mod compare;
pub mod doctor;
pub mod down;
mod exec;
mod export;
pub mod fault;
mod graph;
pub mod images;
pub mod init;
mod judge;
pub mod link;
pub mod logs;
pub mod man;
mod matrix;
mod mounts;
pub mod plan;
pub mod prepare;
pub mod ps;
mod reap;
mod report;
mod reproduce;
mod run;
mod schema;
pub mod screen;
pub mod source;
pub mod top;
pub mod up;
pub mod validate;

use crate::address::Pool;
use crate::cli::{Cli, Global, Verb};
use crate::docker::Docker;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Engines, LabError, Orphans};
use crate::progress::Progress;
use std::sync::Arc;

/// Runs the verb.
///
/// # Errors
/// What the user can act on, with its exit code.
pub async fn run(cli: Cli) -> Result<ExitCode, CommandError> {
    match cli.verb {
        Verb::Completions { shell } => man::completions(shell),
        Verb::Man(args) => man::pages(&args),
        Verb::Init(args) => init::run(&cli.global, &args),
        Verb::Blocks(args) => blocks::run(&cli.global, &args),
        Verb::Compare(args) => compare::run(&cli.global, &args),
        Verb::Down(down) => down::run(&cli.global, down).await,
        Verb::Doctor => doctor::run(&cli.global).await,
        Verb::Exec(exec) => exec::run(&cli.global, exec).await,
        Verb::Export(verb) => export::run(&cli.global, verb).await,
        Verb::Fault(verb) => fault::run(&cli.global, verb).await,
        Verb::Graph(args) => graph::run(&cli.global, args).await,
        Verb::Images(verb) => images::run(&cli.global, verb).await,
        Verb::Judge(judge) => judge::run(&cli.global, &judge),
        Verb::Link(link) => link::run(&cli.global, link).await,
        Verb::Logs(logs) => logs::run(&cli.global, logs).await,
        Verb::Matrix(args) => matrix::run(&cli.global, args).await,
        Verb::Plan(args) => plan::run(&cli.global, &args).await,
        Verb::Ps(ps) => ps::run(&cli.global, ps).await,
        Verb::Reap => reap::run(&cli.global).await,
        Verb::Report(report) => report::run(&cli.global, &report),
        Verb::Reproduce(args) => reproduce::run(&cli.global, args).await,
        Verb::Run(args) => run::run(&cli.global, args).await,
        Verb::Schema => schema::run(),
        Verb::Top(args) => top::run(&cli.global, args).await,
        Verb::Up(up) => up::run(&cli.global, up).await,
        Verb::Validate(args) => validate::run(&cli.global, &args),
    }
}

/// Removes what killed runs left on the engine, and says so. What cannot be removed stops no command but `down`.
async fn sweep_orphans(engines: &Engines, progress: &Progress) -> Result<(), LabError> {
    match lab::sweep_orphans(engines).await {
        Ok(None) => Ok(()),
        Ok(Some(Orphans { labs, lowered })) => {
            let labs: Vec<String> = labs.into_iter().collect();
            progress.step(format_args!(
                "removed what a killed run left: {} ({} objects)",
                labs.join(", "),
                lowered.removed
            ));
            Ok(())
        }
        Err(error) => {
            progress.step(format_args!("what a killed run left is still there: failed to {error}"));
            Err(error)
        }
    }
}

/// Where the command line lets labs have their addresses.
fn pool(global: &Global) -> Result<Pool, CommandError> {
    Pool::of(&global.pool).map_err(|error| CommandError::new(ExitCode::Usage, error.to_string()).hint(error.hint()))
}

/// The engine that the command line means.
async fn connect(global: &Global) -> Result<Docker, CommandError> {
    let docker = Docker::connect(global.host.as_deref()).await?;
    Ok(docker.with_limit(global.engine_timeout))
}

/// The same as the engines of a lab.
async fn engines(global: &Global) -> Result<Engines, CommandError> {
    let engine: crate::docker::EngineHandle = Arc::new(connect(global).await?);
    Ok(engine.into())
}
