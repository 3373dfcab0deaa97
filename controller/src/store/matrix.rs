//! The directory of a matrix: `matrix.json` with the plan and the state of every cell, and below it one run directory per
//! cell. Written by rename, so that it is whole whenever the program is killed; what a cell came to is told by the cell's
//! own directory, whatever `matrix.json` says.
//!
//! Only one program at a time writes in it: it is locked as long as the value lives.

use super::{HISTORY, MANIFEST, StoreError, empty_directory, load, new_directory, utc_now, write};
use crate::document::document;
use crate::findings;
use crate::manifest::Manifest;
use crate::matrix::{Cell, Matrix};
use crate::report::{self, Compared, Style};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

const MATRIX: &str = "matrix.json";
const LOCK: &str = ".lock";

/// The directory of a matrix that is under way.
#[derive(Debug)]
pub struct MatrixDirectory {
    path: PathBuf,
    _lock: File,
}

/// What the directory of a cell holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellFound {
    /// Nothing: it was not begun.
    Nothing,
    /// A run that came to its end without an error.
    Complete,
    /// A run that did not, and its id if that is known. It may have left a lab.
    Half(Option<String>),
}

impl MatrixDirectory {
    /// Makes the directory: `out`, or a new one below [`super::DEFAULT_PARENT`].
    ///
    /// # Errors
    /// `out` exists and is not an empty directory, or the system refused.
    pub fn create(out: Option<&Path>) -> Result<Self, StoreError> {
        let path = match out {
            Some(out) => empty_directory(out)?,
            None => new_directory(Path::new(super::DEFAULT_PARENT), &utc_now(), "matrix")?,
        };
        Self::locked(path)
    }

    /// The directory of a matrix that was begun before, and what its `matrix.json` says.
    ///
    /// # Errors
    /// It is none, it is damaged, or another program writes in it.
    pub fn open(path: &Path) -> Result<(Self, Matrix), StoreError> {
        let matrix = load_matrix(path)?;
        Ok((Self::locked(path.to_owned())?, matrix))
    }

    fn locked(path: PathBuf) -> Result<Self, StoreError> {
        let file = path.join(LOCK);
        let lock = File::create(&file).map_err(|cause| StoreError::io("make", &file, cause))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StoreError::MatrixBusy { path }),
            Err(TryLockError::Error(cause)) => Err(StoreError::io("lock", &file, cause)),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a cell is.
    #[must_use]
    pub fn of(&self, cell: &Cell) -> PathBuf {
        self.path.join(&cell.directory)
    }

    /// Writes plan and states.
    ///
    /// # Errors
    /// The system refused.
    pub fn write(&self, matrix: &Matrix) -> Result<(), StoreError> {
        write(&self.path.join(MATRIX), &document("matrix", matrix))
    }

    /// Writes the report in the formats that people and CI servers look for, as for a run.
    ///
    /// # Errors
    /// The system refused.
    pub fn write_judged(&self, compared: &Compared<'_>) -> Result<(), StoreError> {
        let versions = compared.versions;
        for (name, text) in [
            ("report.txt", report::versions(versions, Style::default())),
            ("report.md", report::matrix_markdown(compared)),
            ("report.json", document("versions", versions)),
            ("report.xml", report::matrix_junit(compared)),
            ("report.html", report::matrix_html(compared)),
        ] {
            write(&self.path.join(name), &text)?;
        }
        Ok(())
    }

    /// Removes what a cell has written.
    ///
    /// # Errors
    /// The system refused.
    pub fn remove(&self, cell: &Cell) -> Result<(), StoreError> {
        let path = self.of(cell);
        match fs::remove_dir_all(&path) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io("remove", &path, cause)),
            _ => Ok(()),
        }
    }

    /// What a cell has come to.
    #[must_use]
    pub fn found(&self, cell: &Cell) -> CellFound {
        let path = self.of(cell);
        if !path.exists() {
            return CellFound::Nothing;
        }
        match load(&path) {
            Ok(stored) if stored.left_out.is_none() && findings::judge(&stored.history).error.is_none() => {
                CellFound::Complete
            }
            _ => CellFound::Half(run_of(&path)),
        }
    }
}

/// Whether a directory is that of a matrix.
#[must_use]
pub fn is_matrix(path: &Path) -> bool {
    path.join(MATRIX).is_file() && !path.join(HISTORY).exists()
}

/// Plan and states of a matrix directory.
///
/// # Errors
/// It is none, or it is damaged.
pub fn load_matrix(path: &Path) -> Result<Matrix, StoreError> {
    let file = path.join(MATRIX);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let why = if path.is_dir() {
                "it has no matrix.json"
            } else {
                "there is no such directory"
            };
            return Err(StoreError::NotAMatrix {
                path: path.to_owned(),
                why,
            });
        }
        Err(cause) => return Err(StoreError::io("read", &file, cause)),
    };
    serde_json::from_str(&text).map_err(|cause| StoreError::Damaged {
        path: file,
        line: cause.line(),
        cause,
    })
}

/// Id of a run that may have been killed at any moment; one that has no manifest yet has made nothing.
fn run_of(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path.join(MANIFEST)).ok()?;
    let manifest: Manifest = serde_json::from_str(&text).ok()?;
    Some(manifest.run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Column, Group, State, cells};

    fn one_cell() -> Cell {
        let group = Group {
            topology: "two-dc".to_owned(),
            blocks: vec![2, 7],
        };
        let column = Column {
            release: "redis-7.0.15".to_owned(),
            groups: vec![group],
        };
        cells(&[column], 1, 1).remove(0)
    }

    fn made() -> (tempfile::TempDir, MatrixDirectory, Matrix) {
        let parent = tempfile::tempdir().unwrap();
        let directory = MatrixDirectory::create(Some(&parent.path().join("m"))).unwrap();
        let matrix = Matrix {
            version: "0.1.0".to_owned(),
            started_utc: String::new(),
            ended_utc: None,
            seed: 1,
            repeats: 1,
            jobs: 2,
            blocks: vec![2, 7],
            releases: vec!["redis-7.0.15".to_owned()],
            cells: vec![one_cell()],
        };
        directory.write(&matrix).unwrap();
        (parent, directory, matrix)
    }

    /// The committed made-up run as a cell, with its history cut after so many bytes from its end.
    fn measured(directory: &MatrixDirectory, cell: &Cell, less: usize) {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/run");
        let path = directory.of(cell);
        fs::create_dir(&path).unwrap();
        let history = fs::read(golden.join(HISTORY)).unwrap();
        fs::write(path.join(HISTORY), &history[..history.len() - less]).unwrap();
        fs::copy(golden.join(MANIFEST), path.join(MANIFEST)).unwrap();
    }

    #[test]
    fn a_plan_is_read_back_as_it_was_written() {
        let (_parent, directory, mut matrix) = made();
        matrix.cells[0].state = State::Running;
        directory.write(&matrix).unwrap();
        assert_eq!(load_matrix(directory.path()).unwrap(), matrix);
        assert!(is_matrix(directory.path()));
    }

    #[test]
    fn a_cells_own_directory_tells_what_it_came_to() {
        let (_parent, directory, matrix) = made();
        let cell = &matrix.cells[0];
        assert_eq!(directory.found(cell), CellFound::Nothing);
        fs::create_dir(directory.of(cell)).unwrap();
        assert_eq!(
            directory.found(cell),
            CellFound::Half(None),
            "killed before its manifest"
        );
        for less in [1, 40, 400] {
            directory.remove(cell).unwrap();
            measured(&directory, cell, less);
            let run = Some("synthetic".to_owned());
            assert_eq!(directory.found(cell), CellFound::Half(run), "{less} bytes less");
        }
        directory.remove(cell).unwrap();
        directory.remove(cell).unwrap();
        measured(&directory, cell, 0);
        assert_eq!(directory.found(cell), CellFound::Complete);
    }

    #[test]
    fn two_programs_do_not_measure_in_one_directory() {
        let (_parent, directory, _) = made();
        let error = MatrixDirectory::open(directory.path()).unwrap_err();
        assert!(matches!(error, StoreError::MatrixBusy { .. }), "{error}");
        let path = directory.path().to_owned();
        drop(directory);
        assert!(MatrixDirectory::open(&path).is_ok());
    }
}
