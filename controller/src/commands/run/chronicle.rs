//! A run's directory while it is written: history, manifest, and steps told on stderr. What is judged at the end is read back
//! from it, so a report never knows more than the directory.

use crate::block::Recorder;
use crate::docker::{Console, Docker};
use crate::error::CommandError;
use crate::findings::{self, Findings};
use crate::history::What;
use crate::instrument::Instrument;
use crate::manifest::{LabUsed, Manifest};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::Cell;
use crate::store::{self, RunDirectory, StoreError, Stored, utc_now};
use std::io;
use std::path::Path;

/// See the top of the file.
pub(super) struct Chronicle {
    directory: RunDirectory,
    manifest: Manifest,
    progress: Progress,
}

/// A finished run, judged.
pub(super) struct Judged {
    pub(super) findings: Findings,
    stored: Stored,
}

impl Judged {
    /// As reports need it.
    pub(super) fn cell(&self) -> Cell<'_> {
        self.stored.cell(&self.findings)
    }
}

impl Chronicle {
    /// Makes the directory and writes its first manifest.
    pub(super) fn begin(out: Option<&Path>, manifest: Manifest, progress: Progress) -> Result<Self, StoreError> {
        let directory = RunDirectory::create(out, &manifest.name)?;
        crate::log::keep_in(directory.log_file()?);
        directory.write_manifest(&manifest)?;
        Ok(Self {
            directory,
            manifest,
            progress,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Id of the run.
    pub(super) fn run(&self) -> &str {
        &self.manifest.run
    }

    /// Appends to the history.
    pub(super) fn write(&mut self, what: What) -> Result<(), CommandError> {
        Ok(self.directory.record(what).map_err(|cause| self.unwritten(cause))?)
    }

    fn unwritten(&self, cause: io::Error) -> StoreError {
        StoreError::Io {
            verb: "write the history in",
            path: self.directory.path().to_owned(),
            cause,
        }
    }

    /// What the run found out about engine and instrument.
    pub(super) async fn learn(&mut self, docker: &Docker, instrument: Option<&Instrument>) -> Result<(), CommandError> {
        self.manifest.engine = Some(docker.about().await?);
        if let Some(instrument) = instrument {
            self.manifest.instrument.relay_sha256 = Some(instrument.relay.digest.clone());
            self.manifest.instrument.probe_sha256 = Some(instrument.probe.digest.clone());
        }
        Ok(self.directory.write_manifest(&self.manifest)?)
    }

    /// Writes plan and topology of a lab and adds it to the manifest.
    pub(super) fn lab(&mut self, plan: &Plan, topology: Option<&str>, mut used: LabUsed) -> Result<(), StoreError> {
        let files = self.directory.write_lab(plan, topology)?;
        used.plan_file = files.plan;
        used.topology_file = files.topology;
        self.manifest.labs.push(used);
        self.directory.write_manifest(&self.manifest)
    }

    /// Ends the history, judges it as it was written, and writes the reports.
    pub(super) fn end(mut self, error: Option<String>) -> Result<Judged, StoreError> {
        let ended = self.directory.record(What::RunEnded { error });
        ended.map_err(|cause| self.unwritten(cause))?;
        self.manifest.ended_utc = Some(utc_now());
        self.directory.write_manifest(&self.manifest)?;
        let stored = store::load(self.directory.path())?;
        let findings = findings::judge(&stored.history);
        self.directory.write_reports(&stored.cell(&findings))?;
        Ok(Judged { findings, stored })
    }

    /// The run so far, judged.
    pub(super) fn judged_so_far(&self) -> Result<Findings, StoreError> {
        Ok(findings::judge(&store::load(self.directory.path())?.history))
    }
}

impl Recorder for Chronicle {
    fn record(&mut self, what: What) -> io::Result<()> {
        self.directory.record(what)
    }

    fn progress(&mut self, text: &str) {
        self.progress.step(text);
    }
}
