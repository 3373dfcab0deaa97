//! Reads a run directory back. A last line that was cut short by a kill is left out and told; anything else that is
//! damaged is an error with its line, since a history with holes must not be judged.

use super::{HISTORY, MANIFEST, REPORT_JSON, StoreError};
use crate::claim::Verdict;
use crate::findings::Findings;
use crate::history::{Event, History};
use crate::manifest::Manifest;
use crate::plan::Plan;
use crate::report::{Cell, ReportDocument};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A run, read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// What happened.
    pub history: History,
    /// What it was made of.
    pub manifest: Manifest,
    /// Plans of its labs by the names of their files. Nothing is judged by them, so one that is missing is no error.
    pub plans: BTreeMap<String, Plan>,
    /// What was left out of the history, for the reader.
    pub left_out: Option<String>,
}

impl Stored {
    /// As reports need it.
    #[must_use]
    pub fn cell<'a>(&'a self, findings: &'a Findings) -> Cell<'a> {
        Cell {
            name: &self.manifest.name,
            history: &self.history,
            manifest: &self.manifest,
            findings,
            plans: &self.plans,
        }
    }
}

/// Reads a run directory.
///
/// # Errors
/// It is none, or a file of it is damaged.
pub fn load(path: &Path) -> Result<Stored, StoreError> {
    let not_a_run = |why: String| StoreError::NotARun {
        path: path.to_owned(),
        why,
    };
    if !path.is_dir() {
        let why = if path.exists() {
            "it is not a directory"
        } else {
            "there is no such directory"
        };
        return Err(not_a_run(why.to_owned()));
    }
    let read = |name: &str| {
        let file = path.join(name);
        match fs::read(&file) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(not_a_run(format!("it has no {name}"))),
            Err(cause) => Err(StoreError::io("read", &file, cause)),
        }
    };
    let (events, left_out) = events(&read(HISTORY)?).map_err(|(line, cause)| StoreError::Damaged {
        path: path.join(HISTORY),
        line,
        cause,
    })?;
    let manifest: Manifest = serde_json::from_str(&read(MANIFEST)?).map_err(|cause| StoreError::Damaged {
        path: path.join(MANIFEST),
        line: cause.line(),
        cause,
    })?;
    Ok(Stored {
        history: History { events },
        plans: plans(path, &manifest),
        manifest,
        left_out,
    })
}

/// Plans that a manifest names and that can be read.
fn plans(path: &Path, manifest: &Manifest) -> BTreeMap<String, Plan> {
    let files = manifest.labs.iter().map(|lab| &lab.plan_file);
    // A manifest can be a stranger's: no file beside or above the directory is read for it.
    let own = files.filter(|file| Path::new(file).file_name().is_some_and(|name| name == file.as_str()));
    let read = |file: &String| {
        let text = fs::read_to_string(path.join(file)).ok()?;
        Some((file.clone(), serde_json::from_str(&text).ok()?))
    };
    own.filter_map(read).collect()
}

/// Verdicts of the report that lies in a run directory, by claim; `None` if there is none that can be read.
#[must_use]
pub fn stored_verdicts(path: &Path) -> Option<BTreeMap<String, Verdict>> {
    let text = fs::read_to_string(path.join(REPORT_JSON)).ok()?;
    let report: ReportDocument = serde_json::from_str(&text).ok()?;
    let findings = report.blocks.into_iter().flat_map(|block| block.findings);
    Some(findings.map(|finding| (finding.claim, finding.verdict)).collect())
}

/// Events of a history file, and what was left out of it.
fn events(text: &str) -> Result<(Vec<Event>, Option<String>), (usize, serde_json::Error)> {
    let (whole, rest) = text.split_at(text.rfind('\n').map_or(0, |end| end + 1));
    let mut events = Vec::new();
    for (i, line) in whole.lines().enumerate() {
        events.push(serde_json::from_str(line).map_err(|cause| (i + 1, cause))?);
    }
    let left_out = (!rest.is_empty()).then(|| {
        let line = events.len() + 1;
        format!(
            "line {line} of {HISTORY} is cut short after {} bytes and left out: the run was killed",
            rest.len()
        )
    });
    Ok((events, left_out))
}
