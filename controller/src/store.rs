//! The run directory: everything that is known of a run, as files. `judge` and `report` work from it alone.
//!
//! ```text
//! history.jsonl                 one event per line, written as it happens
//! manifest.json                 versions, digests, host, engine, servers' configuration
//! topology.yaml, plan.json      of the first lab; of a further one that differs topology-2.yaml, plan-2.json
//! report.html, report.txt, report.md, report.json
//! report.xml                    JUnit
//! capture-3.pcapng              what the link of block 3 saw, with `run --capture`
//! run.log
//! ```
//! The directory of a matrix has `matrix.json`, one such directory per cell, and `report.txt` and `report.json` over all.
//!
//! The history is only appended to, each line in one write, so that a killed run loses at most the line under way. All
//! other files are written beside their place and renamed. Never writes into a directory that holds anything else.

mod lab;
mod load;
mod matrix;
mod survey;

pub use lab::lab_used;
pub use load::{Stored, load, stored_verdicts};
pub use matrix::{CellFound, MatrixDirectory, is_matrix, load_matrix};
pub use survey::{host, sha256_of_file, sha256_of_text, utc_now};

use crate::document::document;
use crate::history::{Event, What};
use crate::manifest::Manifest;
use crate::report::{self, Cell, Style};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where run directories are made unless `--out` says another place.
pub const DEFAULT_PARENT: &str = "testbed-runs";
pub(crate) const HISTORY: &str = "history.jsonl";
pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const REPORT_JSON: &str = "report.json";
const LOG: &str = "run.log";

/// Why the run directory could not be made, written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `--out` points at something that is in use.
    #[error("make the run directory {}: it exists and {why}", path.display())]
    OutTaken {
        /// The path.
        path: PathBuf,
        /// What it is instead of an empty directory.
        why: &'static str,
    },
    /// A path that is no run directory.
    #[error("read the run in {}: {why}", path.display())]
    NotARun {
        /// The path.
        path: PathBuf,
        /// What it lacks.
        why: String,
    },
    /// A path that is no directory of a matrix.
    #[error("read the matrix in {}: {why}", path.display())]
    NotAMatrix {
        /// The path.
        path: PathBuf,
        /// What it lacks.
        why: &'static str,
    },
    /// Another program measures there.
    #[error("go on with the matrix in {}: another testbed is at work in it", path.display())]
    MatrixBusy {
        /// The path.
        path: PathBuf,
    },
    /// A file of a run directory is damaged.
    #[error("read {}, line {line}: {cause}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// The system refused.
    #[error("{verb} {}: {cause}", path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
}

impl StoreError {
    /// Whether the user pointed at a wrong place, which is a matter of the command line.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::OutTaken { .. } | Self::NotARun { .. } | Self::NotAMatrix { .. }
        )
    }

    /// The next step.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OutTaken { .. } => Some("name a directory that does not exist or is empty"),
            Self::NotARun { .. } => {
                Some("name the directory that `testbed run` printed, e.g. testbed-runs/<time>-<name>")
            }
            Self::NotAMatrix { .. } => Some("name the directory that `testbed matrix` printed"),
            Self::MatrixBusy { .. } => Some("wait for its end"),
            Self::Damaged { .. } | Self::Io { .. } => None,
        }
    }

    fn io(verb: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::Io {
            verb,
            path: path.to_owned(),
            cause,
        }
    }
}

/// The directory of a run that is under way.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    history: File,
    began: Instant,
    plans: usize,
}

/// Names that a lab's files got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabFiles {
    /// Its plan.
    pub plan: String,
    /// Copy of its topology.
    pub topology: Option<String>,
}

impl RunDirectory {
    /// Makes the directory: `out`, or a new one below [`DEFAULT_PARENT`] named after the time and `name`. The clock of
    /// the run's events starts here.
    ///
    /// # Errors
    /// `out` exists and is not an empty directory, or the system refused.
    pub fn create(out: Option<&Path>, name: &str) -> Result<Self, StoreError> {
        let path = match out {
            Some(out) => empty_directory(out)?,
            None => new_directory(Path::new(DEFAULT_PARENT), &utc_now(), name)?,
        };
        let history = path.join(HISTORY);
        let history = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&history)
            .map_err(|cause| StoreError::io("make", &history, cause))?;
        Ok(Self {
            path,
            history,
            began: Instant::now(),
            plans: 0,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends to the history, at once.
    ///
    /// # Errors
    /// The system refused.
    pub fn record(&mut self, what: What) -> io::Result<()> {
        let at_ns = u64::try_from(self.began.elapsed().as_nanos()).expect("a run is shorter than 584 years");
        let mut line = serde_json::to_vec(&Event { at_ns, what })?;
        line.push(b'\n');
        self.history.write_all(&line)
    }

    /// File for log lines.
    ///
    /// # Errors
    /// The system refused.
    pub fn log_file(&self) -> Result<File, StoreError> {
        let path = self.path.join(LOG);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(|cause| StoreError::io("make", &path, cause))
    }

    /// Writes plan and topology of a lab; a lab that was made anew with the same plan gets the same names.
    ///
    /// # Errors
    /// The system refused.
    pub fn write_lab(&mut self, plan: &crate::plan::Plan, topology: Option<&str>) -> Result<LabFiles, StoreError> {
        let text = serde_json::to_string_pretty(plan).expect("a plan can be written as JSON");
        let known = (1..=self.plans).find(|number| {
            let same = |name: String, text: &str| fs::read_to_string(self.path.join(name)).is_ok_and(|old| old == text);
            same(numbered("plan", *number, "json"), &text)
                && topology.is_none_or(|topology| same(numbered("topology", *number, "yaml"), topology))
        });
        let number = known.unwrap_or(self.plans + 1);
        let files = LabFiles {
            plan: numbered("plan", number, "json"),
            topology: topology.map(|_| numbered("topology", number, "yaml")),
        };
        if known.is_none() {
            self.plans = number;
            write(&self.path.join(&files.plan), &text)?;
            if let (Some(name), Some(topology)) = (&files.topology, topology) {
                write(&self.path.join(name), topology)?;
            }
        }
        Ok(files)
    }

    /// Writes the manifest; may be called again whenever more is known.
    ///
    /// # Errors
    /// The system refused.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        write(&self.path.join(MANIFEST), &document("manifest", manifest))
    }

    /// Writes the report in the formats that people and CI servers look for.
    ///
    /// # Errors
    /// The system refused.
    pub fn write_reports(&self, cell: &Cell<'_>) -> Result<(), StoreError> {
        let (findings, manifest) = (cell.findings, cell.manifest);
        let cells = std::slice::from_ref(cell);
        let place = self.path.display().to_string();
        for (name, text) in [
            (
                "report.txt",
                report::terminal(findings, manifest, Some(&place), Style::default()),
            ),
            ("report.md", report::markdown(findings, manifest)),
            (REPORT_JSON, report::json(findings, manifest)),
            ("report.xml", report::junit(cells)),
            ("report.html", report::html(cells)),
        ] {
            write(&self.path.join(name), &text)?;
        }
        Ok(())
    }
}

fn numbered(stem: &str, number: usize, extension: &str) -> String {
    match number {
        1 => format!("{stem}.{extension}"),
        _ => format!("{stem}-{number}.{extension}"),
    }
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), StoreError> {
    let name = path.file_name().expect("a file of a run directory has a name");
    let beside = path.with_file_name(format!(".{}.new", name.to_string_lossy()));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|cause| StoreError::io("write", path, cause))
}

fn empty_directory(path: &Path) -> Result<PathBuf, StoreError> {
    let taken = |why| StoreError::OutTaken {
        path: path.to_owned(),
        why,
    };
    match fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => Ok(path.to_owned()),
            Some(_) => Err(taken("is not empty")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path).map_err(|cause| StoreError::io("make", path, cause))?;
            Ok(path.to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(taken("is not a directory")),
        Err(cause) => Err(StoreError::io("read", path, cause)),
    }
}

/// A directory that was not there before, even if another run begins in the same second.
fn new_directory(parent: &Path, utc: &str, name: &str) -> Result<PathBuf, StoreError> {
    fs::create_dir_all(parent).map_err(|cause| StoreError::io("make", parent, cause))?;
    let time: String = utc.chars().filter(|c| !"-:".contains(*c)).collect();
    let mut number = 1;
    loop {
        let path = match number {
            1 => parent.join(format!("{time}-{name}")),
            _ => parent.join(format!("{time}-{name}-{number}")),
        };
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => number += 1,
            Err(cause) => return Err(StoreError::io("make", &path, cause)),
        }
    }
}

#[cfg(test)]
mod tests;
