//! `matrix`: blocks on several releases, cell by cell, each a run like any other in a directory of its own; then block 15
//! over all of them. A cell that fails is told, and the rest goes on.
//!
//! Cells that bear company go on beside each other, up to `--jobs` of them; each tears down its own lab, whatever becomes of the others.
//!
//! What a killed matrix left is found again by its directory: `--resume` removes the lab and the files of a cell that
//! was under way and measures it anew; what is complete is not measured twice.

mod columns;
mod judged;

use super::blocks::chosen;
use super::run::Task;
use super::screen;
use crate::block::{Cutting, Method};
use crate::cli::{Format, GithubArgs, Global, MatrixArgs, ReleaseArg, Run};
use crate::docker::{Docker, EngineHandle};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Engines};
use crate::log;
use crate::matrix::{self, Cell, Matrix, State, estimate};
use crate::names::LABEL_RUN;
use crate::progress::Progress;
use crate::release;
use crate::stop::Stop;
use crate::store::{CellFound, MatrixDirectory, load_matrix, utc_now};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) use judged::{cells_of, judge, rendered};

/// What is measured unless `--release` says otherwise.
const DEFAULT: [&str; 4] = ["redis-7.0.15", "redis-8.0", "redis-8.6", "valkey-9.1"];

/// Measures or judges a matrix.
pub(super) async fn run(global: &Global, args: MatrixArgs) -> Result<ExitCode, CommandError> {
    if let Some(path) = &args.judge {
        return judge(global, path);
    }
    let stored = args.resume.as_deref().map(load_matrix).transpose()?;
    let wanted = planned(&args, stored.as_ref())?;
    if let (Some(stored), Some(path)) = (&stored, &args.resume) {
        same(stored, &wanted, path)?;
    }
    if args.dry_run {
        let mut matrix = stored.unwrap_or(wanted);
        matrix.jobs = args.jobs;
        within(&mut matrix, &args)?;
        screen::print(&shown(&matrix, global.format))?;
        return Ok(ExitCode::Success);
    }
    let stop = Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?;
    let docker = super::connect(global).await?;
    let progress = Progress::new(global.quiet);
    let (directory, mut matrix) = match &args.resume {
        Some(path) => {
            let (directory, mut matrix) = MatrixDirectory::open(path)?;
            take_up(&docker, &directory, &mut matrix, &progress).await?;
            (directory, matrix)
        }
        None => (MatrixDirectory::create(args.out.as_deref())?, wanted),
    };
    matrix.jobs = args.jobs;
    within(&mut matrix, &args)?;
    directory.write(&matrix)?;
    let place = directory.path().display().to_string();
    progress.step(format_args!(
        "matrix of {} cells in {place}: {}",
        matrix.cells.len(),
        estimated(&matrix)
    ));
    for cell in matrix.cells.iter().filter(|cell| cell.state == State::LeftOut) {
        let why = cell.error.as_deref().unwrap_or_default();
        progress.step(format_args!("not measured: {}: {why}", cell.shown()));
    }
    let measured = Measuring {
        global,
        args: &args,
        docker: &docker,
        directory: &directory,
        stop: &stop,
        progress: &progress,
    };
    if let Some(error) = measured.all(&mut matrix).await? {
        return Err(error.hint(format!("`testbed matrix --resume {place}` goes on with it")));
    }
    matrix.ended_utc = Some(utc_now());
    directory.write(&matrix)?;
    judged::finish(global, &args.github, &directory, &matrix)
}

/// The matrix that the command line means; what it leaves open is as in the one that is gone on with.
fn planned(args: &MatrixArgs, stored: Option<&Matrix>) -> Result<Matrix, CommandError> {
    let releases = match stored {
        _ if !args.release.is_empty() => args.release.iter().map(|release| placed(release)).collect(),
        Some(stored) => stored.releases.clone(),
        None => DEFAULT.map(str::to_owned).to_vec(),
    };
    let numbers = match stored {
        Some(stored) if args.only.is_empty() => &stored.blocks,
        _ => &args.only,
    };
    let blocks = chosen(numbers)?;
    let repeats = args.repeat.unwrap_or(stored.map_or(1, |stored| stored.repeats));
    let seed = args.seed.unwrap_or(stored.map_or(1, |stored| stored.seed));
    let columns = columns::of(&releases, &blocks)?;
    Ok(Matrix {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_utc: utc_now(),
        ended_utc: None,
        seed,
        repeats,
        jobs: args.jobs,
        blocks: blocks.iter().map(|block| block.number()).collect(),
        releases,
        cells: matrix::cells(&columns, repeats, seed),
    })
}

/// A folder by its whole path, so that the matrix is gone on with from anywhere.
fn placed(release: &str) -> String {
    let whole = release::folder_of(release).and_then(|(engine, path)| {
        let path = std::path::absolute(path).ok()?;
        Some(format!("{engine}={}", path.display()))
    });
    whole.unwrap_or_else(|| release.to_owned())
}

/// Leaves out what the budget has no room for.
fn within(matrix: &mut Matrix, args: &MatrixArgs) -> Result<(), CommandError> {
    let Some(budget) = args.budget else { return Ok(()) };
    let before = matrix.count(State::Planned);
    estimate::fit(&mut matrix.cells, budget, matrix.jobs);
    if before > 0 && matrix.count(State::Planned) == 0 {
        let text = format!(
            "measure anything in {}: no topology fits on all releases",
            humantime::format_duration(budget)
        );
        return Err(CommandError::new(ExitCode::Usage, text)
            .hint("fewer blocks with --only, or fewer releases; --dry-run shows how long each cell takes"));
    }
    Ok(())
}

/// `4 to measure, about 2m 30s`.
fn estimated(matrix: &Matrix) -> String {
    let left = estimate::left(&matrix.cells, matrix.jobs);
    format!(
        "{} to measure, about {} on two idle cores, images present",
        matrix.count(State::Planned),
        humantime::format_duration(Duration::from_secs(left.as_secs()))
    )
}

/// Refuses to go on with another matrix than the one that was begun.
fn same(stored: &Matrix, wanted: &Matrix, path: &Path) -> Result<(), CommandError> {
    let differences = stored.differences(wanted);
    if differences.is_empty() {
        return Ok(());
    }
    let text = format!(
        "go on with the matrix in {}: it is another one: {}",
        path.display(),
        differences.join("; ")
    );
    Err(CommandError::new(ExitCode::Usage, text).hint(
        "leave out --release, --only, --repeat and --seed to go on as it was begun, with the same version of testbed",
    ))
}

/// Finds out what each cell has come to; what is half is removed, its lab first: its directory alone knows the lab's name.
async fn take_up(
    docker: &Docker,
    directory: &MatrixDirectory,
    matrix: &mut Matrix,
    progress: &Progress,
) -> Result<(), CommandError> {
    let engine: EngineHandle = Arc::new(docker.clone());
    let engines = Engines::from(engine);
    for cell in &mut matrix.cells {
        match directory.found(cell) {
            CellFound::Complete => {
                cell.state = State::Complete;
                cell.error = None;
                continue;
            }
            CellFound::Nothing => {}
            CellFound::Half(run) => {
                progress.step(format_args!("half measured, and measured anew: {}", cell.shown()));
                if let Some(run) = run {
                    let mut labels = lab::labels_of(None);
                    labels.insert(LABEL_RUN.to_owned(), run);
                    lab::sweep(&engines, &labels).await?;
                }
                directory.remove(cell)?;
            }
        }
        cell.state = State::Planned;
        cell.error = None;
        cell.took_ms = None;
    }
    matrix.ended_utc = None;
    estimate::by_measured(&mut matrix.cells);
    Ok(())
}

/// What all cells are measured with.
struct Measuring<'a> {
    global: &'a Global,
    args: &'a MatrixArgs,
    docker: &'a Docker,
    directory: &'a MatrixDirectory,
    stop: &'a Stop,
    progress: &'a Progress,
}

impl Measuring<'_> {
    /// Measures every cell that is not measured yet; what stopped it early, if so. It returns when none is under way.
    async fn all(&self, matrix: &mut Matrix) -> Result<Option<CommandError>, CommandError> {
        let count = matrix.cells.len();
        let mut under_way = FuturesUnordered::new();
        let mut stopped = None;
        loop {
            while stopped.is_none()
                && let Some(number) = matrix.next()
            {
                if let Some(signal) = self.stop.asked() {
                    let text = "finish the matrix: stopped by a signal";
                    stopped = Some(CommandError::new(signal.exit_code(), text));
                    break;
                }
                let cell = &mut matrix.cells[number];
                self.progress
                    .step(format_args!("cell {} of {count}: {}", number + 1, cell.shown()));
                cell.state = State::Running;
                stopped = self.write(matrix);
                let cell = matrix.cells[number].clone();
                let progress = self.progress_of(number, &cell, matrix.jobs);
                under_way.push(self.timed(number, cell, matrix.seed, progress));
            }
            let Some((number, took, outcome)) = under_way.next().await else {
                return Ok(stopped);
            };
            let cell = &mut matrix.cells[number];
            if let (Err(_), Some(_)) = (&outcome, self.stop.asked()) {
                // Half a cell is measured anew.
                cell.state = State::Planned;
                stopped = stopped.or(outcome.err());
            } else {
                cell.took_ms = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
                cell.error = outcome.err().map(|error| error.text);
                cell.state = match &cell.error {
                    None => State::Complete,
                    Some(error) => {
                        self.progress
                            .step(format_args!("cell {} failed to {error}", number + 1));
                        State::Failed
                    }
                };
            }
            let unwritten = self.write(matrix);
            stopped = stopped.or(unwritten);
        }
    }

    /// Writes plan and states. What goes wrong ends the matrix, but only when the cells under way have torn down their labs.
    fn write(&self, matrix: &Matrix) -> Option<CommandError> {
        self.directory.write(matrix).err().map(CommandError::from)
    }

    /// How a cell tells its steps: by its number where others may go on beside it.
    fn progress_of(&self, number: usize, cell: &Cell, jobs: u32) -> Progress {
        match jobs > 1 && cell.bears_company() {
            true => self.progress.of(format_args!("cell {}", number + 1)),
            false => self.progress.clone(),
        }
    }

    /// One cell, and how long it took.
    async fn timed(
        &self,
        number: usize,
        cell: Cell,
        seed: u64,
        progress: Progress,
    ) -> (usize, Duration, Result<(), CommandError>) {
        let begun = Instant::now();
        let outcome = log::apart(self.cell(&cell, seed, progress)).await;
        (number, begun.elapsed(), outcome)
    }

    /// Measures one cell. That a claim diverged, or that no block applies, is a result.
    async fn cell(&self, cell: &Cell, seed: u64, progress: Progress) -> Result<(), CommandError> {
        let args = Run {
            only: cell.blocks.clone(),
            file: None,
            lab: None,
            release: ReleaseArg {
                release: vec![cell.release.clone()],
            },
            out: Some(self.directory.of(cell)),
            capture: false,
            keep: self.args.keep,
            method: Method::Cut,
            github: GithubArgs::default(),
            cut_by: Cutting::Drop,
            seed,
        };
        let task = Task::of(self.global, args)?;
        let ran = task.measured(self.docker, self.stop, progress).await?;
        ran.completed()
    }
}

/// What would be measured.
fn shown(matrix: &Matrix, format: Format) -> String {
    if format == Format::Json {
        return document("matrix", matrix);
    }
    let rows = matrix.cells.iter().zip(1..).map(|(cell, number): (&Cell, u32)| {
        let blocks: Vec<String> = cell.blocks.iter().map(ToString::to_string).collect();
        [
            number.to_string(),
            release::shown(&cell.release).to_owned(),
            cell.topology.clone(),
            blocks.join(","),
            cell.repeat.to_string(),
            format!("{} s", cell.estimated_ms / 1000),
            cell.state.word().to_owned(),
        ]
    });
    let header = ["CELL", "RELEASE", "TOPOLOGY", "BLOCKS", "REPEAT", "ESTIMATE", "STATE"];
    screen::plain_table(header, rows) + &estimated(matrix) + "\n"
}
