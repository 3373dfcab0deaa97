//! `run`: blocks on labs, into a run directory, judged. Blocks of one topology share a lab; a block that consumed its lab, or
//! failed on it, gets the next one a fresh lab, and stops no other block.
//!
//! What this command makes it removes, on every path, unless it is told to keep it. A lab that was up before (`-p`) is
//! left up, and no block touches more of it than it says and puts back.

mod capture;
mod chronicle;
mod github;
mod ground;
pub(in crate::commands) mod words;

pub(super) use github::tell_github;

use super::blocks::chosen;
use super::report::rendered;
use super::screen;
use crate::address::Pool;
use crate::block::{self, Block, BlockError, Ended, Means};
use crate::claim::{Verdict, combine};
use crate::cli::{Global, Keep, Printed, Run};
use crate::docker::{Docker, EngineHandle};
use crate::error::{CommandError, ExitCode};
use crate::findings::BlockFindings;
use crate::history::What;
use crate::lab::Engines;
use crate::manifest::{Instrument, Manifest};
use crate::progress::Progress;
use crate::reaper::Reaper;
use crate::stop::{Signal, Stop};
use crate::store::{host, utc_now};
use chronicle::{Chronicle, Judged};
use ground::{Labs, Making, Place};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is to be run: checked before an engine is asked.
pub(super) struct Task {
    args: Run,
    blocks: Vec<Block>,
    places: Vec<Place>,
    /// Where the addresses of its labs are from.
    pool: Pool,
    /// What to type for the same run.
    command_line: Vec<String>,
}

/// A run that came to its end, whatever that was.
pub(super) struct Ran {
    /// Its directory.
    path: PathBuf,
    /// What it found.
    judged: Judged,
    /// What ended it early.
    failed: Option<CommandError>,
}

/// Runs blocks and prints their report.
pub(super) async fn run(global: &Global, args: Run) -> Result<ExitCode, CommandError> {
    let github = args.github.clone();
    let task = Task::of(global, args)?;
    let stop = Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?;
    // The engine is asked before anything is written: without one there is no run.
    let docker = super::connect(global).await?;
    let ran = task.measured(&docker, &stop, Progress::new(global.quiet)).await?;
    let printed = global.printed.unwrap_or(Printed::Text);
    screen::print(&rendered(global, printed, &ran.judged.cell(), &ran.path))?;
    github::tell(&github, &ran.judged.cell())?;
    ran.outcome()
}

impl Task {
    /// The blocks of a command line, and where they run.
    pub(super) fn of(global: &Global, args: Run) -> Result<Self, CommandError> {
        let blocks = chosen(&args.only)?;
        let places = ground::places(global, &args, &blocks)?;
        let command_line = words::words(&args);
        Ok(Self {
            args,
            blocks,
            places,
            pool: super::pool(global)?,
            command_line,
        })
    }

    /// Measures into a run directory.
    pub(super) async fn measured(self, docker: &Docker, stop: &Stop, progress: Progress) -> Result<Ran, CommandError> {
        let manifest = self.manifest();
        let args = self.args;
        let mut chronicle = Chronicle::begin(args.out.as_deref(), manifest, progress)?;
        chronicle.write(What::RunStarted {
            run: chronicle.run().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            utc: utc_now(),
            blocks: self.blocks.iter().map(|block| block.number()).collect(),
            seed: args.seed,
        })?;
        let engine: EngineHandle = Arc::new(docker.clone());
        // What cannot be removed of others does not stop this one; it was said.
        let _ = super::sweep_orphans(&Engines::from(engine), chronicle.progress()).await;
        let reaper = Reaper::begin(docker.endpoint()).await.map(Arc::new);
        let mut failed = None;
        for place in self.places {
            let making = Making {
                reaper: reaper.clone(),
                keep: args.keep,
                pool: self.pool.clone(),
            };
            let labs = Labs::new(docker, place, stop, making);
            if let Err(error) = measure(&mut chronicle, labs, &args).await {
                failed = Some(error);
                break;
            }
        }
        let path = chronicle.path().to_owned();
        let judged = chronicle.end(failed.as_ref().map(|error| error.text.clone()))?;
        Ok(Ran { path, judged, failed })
    }

    fn manifest(&self) -> Manifest {
        let name = self.places.first().map_or("run", |place| place.name()).to_owned();
        Manifest {
            run: format!("{:08x}", fastrand::u32(..)),
            name,
            instrument: Instrument {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..Instrument::default()
            },
            command_line: self.command_line.clone(),
            seed: self.args.seed,
            started_utc: utc_now(),
            ended_utc: None,
            host: host(),
            engine: None,
            labs: Vec::new(),
        }
    }
}

impl Ran {
    /// Where it is stored.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether everything was measured, whatever came out.
    pub(super) fn completed(self) -> Result<(), CommandError> {
        match (self.failed, self.judged.findings.error) {
            (Some(error), _) => Err(error),
            (None, Some(error)) => Err(CommandError::new(
                ExitCode::Incomplete,
                format!("measure everything: {error}"),
            )),
            (None, None) => Ok(()),
        }
    }

    /// Exit code of its verdicts, or what went wrong.
    pub(super) fn outcome(self) -> Result<ExitCode, CommandError> {
        let findings = &self.judged.findings;
        match self.failed {
            // The report has said it; the code is that of what went wrong, or of the signal.
            Some(error) => Err(error),
            None if findings.blocks.iter().all(|block| block.skipped.is_some()) => {
                let text = "run a block: none applies to this lab, the report says why";
                Err(CommandError::new(ExitCode::Incomplete, text)
                    .hint("without -f and -p each block gets the topology that it needs"))
            }
            None => Ok(ExitCode::of(findings)),
        }
    }
}

/// All blocks of one place, each on a lab that is as it should be.
async fn measure(chronicle: &mut Chronicle, mut labs: Labs<'_>, args: &Run) -> Result<(), CommandError> {
    let outcome = measure_blocks(chronicle, &mut labs, args).await;
    let bad = outcome.is_err() || worth_a_look(chronicle, labs.seen());
    // Who interrupts wants it gone, whatever was said before.
    let interrupted = outcome
        .as_ref()
        .is_err_and(|error| matches!(error.code, ExitCode::Interrupted | ExitCode::Terminated));
    let ended = labs.end(chronicle, kept(args.keep, bad) && !interrupted).await;
    match (outcome, ended) {
        // What is left behind must be told, and an interruption is over only when nothing is.
        (Err(error), Err(left)) => {
            let text = format!("{}; then failed to {}", error.text, left.text);
            let error = CommandError::new(left.code, text);
            Err(match left.hint {
                Some(hint) => error.hint(hint),
                None => error,
            })
        }
        (outcome, ended) => outcome.and(ended),
    }
}

async fn measure_blocks(chronicle: &mut Chronicle, labs: &mut Labs<'_>, args: &Run) -> Result<(), CommandError> {
    labs.prepare(chronicle).await?;
    let means = Means {
        cutting: args.cut_by,
        method: args.method,
    };
    for block in labs.blocks() {
        if let Some(reason) = labs.skips(block).await {
            let block = block.number();
            chronicle
                .progress()
                .step(format_args!("block {block} is not run: {reason}"));
            chronicle.write(What::BlockSkipped { block, reason })?;
            continue;
        }
        let stop = labs.stop;
        let lab = labs.ready(chronicle, block).await?;
        let beside = match args.capture {
            true => capture::begin(block, lab, chronicle).await?,
            false => None,
        };
        let Ended { lab: after, outcome } = block::run(block, means, lab, chronicle, stop).await;
        if let Some(beside) = beside {
            beside.end(chronicle).await?;
        }
        let failed = match outcome {
            Ok(()) => false,
            Err(BlockError::Stopped(signal)) => return Err(stopped(signal)),
            Err(error) => {
                let block = block.number();
                chronicle
                    .progress()
                    .step(format_args!("block {block}: failed to {error}"));
                true
            }
        };
        labs.used(chronicle, block, after, failed, args.keep).await?;
    }
    Ok(())
}

/// Whether a lab stays up.
fn kept(keep: Keep, bad: bool) -> bool {
    match keep {
        Keep::Never => false,
        Keep::Failed => bad,
        Keep::Always => true,
    }
}

/// Whether somebody will want to look at the lab on which these blocks ran: a claim of theirs diverged, or one was not
/// completed.
fn worth_a_look(chronicle: &Chronicle, blocks: &[Block]) -> bool {
    chronicle.judged_so_far().is_ok_and(|findings| {
        let here = |block: &&BlockFindings| blocks.iter().any(|seen| seen.number() == block.block);
        findings
            .blocks
            .iter()
            .filter(here)
            .any(|block| block.error.is_some() || combine(&block.findings) == Some(Verdict::Diverged))
    })
}

fn stopped(signal: Signal) -> CommandError {
    CommandError::new(signal.exit_code(), "finish the run: stopped by a signal")
}
