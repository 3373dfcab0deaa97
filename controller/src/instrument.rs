//! Where the two programs of the instrument, relay and probe, come from: static files beside an installed `testbed`, or
//! built from the source checkout that it runs from.
//!
//! They are programs of their own so that the instrument does not change when the controller's dependencies do; their
//! digests are part of every run's manifest. A file that needs a loader or libraries is refused: it could not start in
//! an image with nothing else.

use crate::progress::Progress;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The relay's program.
pub const RELAY: &str = "relay";
/// The probe's program.
pub const PROBE: &str = "probe";
/// Source folders of the two programs, below the checkout.
const SOURCES: [&str; 5] = [
    "images/relay",
    "images/probe",
    "images/wire",
    "Cargo.toml",
    "Cargo.lock",
];

/// Both programs.
#[derive(Debug, Clone)]
pub struct Instrument {
    /// Border router.
    pub relay: Program,
    /// Measuring client.
    pub probe: Program,
}

/// A static program.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it was found.
    pub path: PathBuf,
    /// The file.
    pub bytes: bytes::Bytes,
    /// sha256 of the file, hex.
    pub digest: String,
}

/// Why there is no instrument.
#[derive(Debug, thiserror::Error)]
pub enum InstrumentError {
    /// Neither installed nor buildable.
    #[error("find the programs {RELAY} and {PROBE}: they are not beside {}, and its source is gone", .0.display())]
    Absent(PathBuf),
    /// A file cannot be read.
    #[error("read {}: {cause}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A file that cannot run alone.
    #[error("use {}: it is no static Linux program", .0.display())]
    NotStatic(PathBuf),
    /// cargo cannot be run.
    #[error("run {cargo} to build {RELAY} and {PROBE}: {cause}")]
    NoCargo {
        /// The program.
        cargo: String,
        /// Why.
        cause: std::io::Error,
    },
    /// cargo failed.
    #[error("build {RELAY} and {PROBE} in {}: cargo ended with {status}: {output}", .checkout.display())]
    Build {
        /// The checkout.
        checkout: PathBuf,
        /// Exit status.
        status: std::process::ExitStatus,
        /// Its last lines.
        output: String,
    },
}

impl InstrumentError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Absent(_) | Self::Unreadable { .. } => {
                "install the static programs `relay` and `probe` beside testbed, or run testbed from its source checkout"
            }
            Self::NotStatic(_) => "build it with RUSTFLAGS=\"-C target-feature=+crt-static\" and an explicit --target",
            Self::NoCargo { .. } => "install Rust, see README.md",
            Self::Build { .. } => "the static C library is needed: on Debian it comes with libc6-dev",
        }
    }
}

/// Finds both programs, building them if `testbed` runs from a source checkout and they are older than their source.
///
/// # Errors
/// They can neither be found nor built.
pub async fn find(progress: &Progress) -> Result<Instrument, InstrumentError> {
    let this = std::env::current_exe().map_err(|cause| InstrumentError::Unreadable {
        path: PathBuf::from("/proc/self/exe"),
        cause,
    })?;
    let beside = this.parent().unwrap_or(Path::new("/")).to_owned();
    let checkout = checkout();
    let target = checkout.as_deref().map(target_folder);
    // Beside a `testbed` in a checkout's own target folder lie the dynamic programs of a debug build.
    let in_checkout = target.as_deref().is_some_and(|target| beside.starts_with(target));
    let folder = if !in_checkout && beside.join(RELAY).is_file() && beside.join(PROBE).is_file() {
        beside
    } else {
        let (Some(checkout), Some(target)) = (checkout, target) else {
            return Err(InstrumentError::Absent(this));
        };
        let folder = target.join(triple()).join("release");
        if stale(&checkout, &folder) {
            build(&checkout, &target, progress).await?;
        }
        folder
    };
    Ok(Instrument {
        relay: read(folder.join(RELAY))?,
        probe: read(folder.join(PROBE))?,
    })
}

/// The source that this program was built from, if it is still there.
fn checkout() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    root.join("images/relay/Cargo.toml").is_file().then(|| root.to_owned())
}

fn target_folder(checkout: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => checkout.join(folder),
        None => checkout.join("target"),
    }
}

fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Whether a program is absent or older than any file that it is made from. Asking cargo would be exact but takes a
/// third of a second each time.
fn stale(checkout: &Path, folder: &Path) -> bool {
    let built = [RELAY, PROBE].map(|program| modified(&folder.join(program)));
    let [Some(relay), Some(probe)] = built else { return true };
    let newest = SOURCES.iter().filter_map(|source| newest(&checkout.join(source))).max();
    newest.is_none_or(|newest| newest > relay.min(probe))
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return modified(path);
    }
    let entries = std::fs::read_dir(path).ok()?;
    entries.filter_map(|entry| newest(&entry.ok()?.path())).max()
}

async fn build(checkout: &Path, target: &Path, progress: &Progress) -> Result<(), InstrumentError> {
    progress.step("building relay and probe (once; a minute or two on a small machine)");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = tokio::process::Command::new(&cargo)
        .args(["build", "--locked", "--release", "-p", RELAY, "-p", PROBE])
        .args(["--target", &triple()])
        .arg("--target-dir")
        .arg(target)
        // With an explicit target the flag stays away from build scripts and procedural macros.
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(checkout)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|cause| InstrumentError::NoCargo {
            cargo: cargo.clone(),
            cause,
        })?;
    if output.status.success() {
        touch(target);
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    Err(InstrumentError::Build {
        checkout: checkout.to_owned(),
        status: output.status,
        output: lines[lines.len().saturating_sub(12)..].join("\n"),
    })
}

/// What cargo found unchanged keeps its old time; after a new checkout that would be older than its source for ever.
fn touch(target: &Path) {
    for program in [RELAY, PROBE] {
        let path = target.join(triple()).join("release").join(program);
        let file = std::fs::File::options().append(true).open(path);
        if let Err(error) = file.and_then(|file| file.set_modified(SystemTime::now())) {
            tracing::debug!("cargo will be asked again next time: {program}: {error}");
        }
    }
}

fn read(path: PathBuf) -> Result<Program, InstrumentError> {
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes::Bytes::from(bytes),
        Err(cause) => return Err(InstrumentError::Unreadable { path, cause }),
    };
    if !is_static(&bytes) {
        return Err(InstrumentError::NotStatic(path));
    }
    let digest = Sha256::digest(&bytes);
    let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Program { path, bytes, digest })
}

/// Whether a file is a 64-bit little-endian ELF program that asks for no loader (no PT_INTERP segment).
fn is_static(file: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let slice = file.get(at..at.checked_add(bytes)?)?;
        Some(
            slice
                .iter()
                .rev()
                .fold(0, |number, &byte| number << 8 | u64::from(byte)),
        )
    };
    let segments = || -> Option<bool> {
        let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        for segment in 0..count {
            let at = usize::try_from(table.checked_add(segment * size)?).ok()?;
            if number(at, 4)? == u64::from(PT_INTERP) {
                return Some(false);
            }
        }
        Some(true)
    };
    file.starts_with(b"\x7fELF\x02\x01") && segments() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_needs_a_loader_is_refused() {
        // The test program itself is dynamic, and a text is no program.
        let this = std::env::current_exe().unwrap();
        assert!(!is_static(&std::fs::read(this).unwrap()));
        assert!(!is_static(b"#!/bin/sh\n"));
        assert!(!is_static(b"\x7fELF\x02\x01"), "cut off");
    }

    #[test]
    fn programs_older_than_their_source_are_stale() {
        let folder = tempfile::tempdir().unwrap();
        let (checkout, built) = (folder.path().join("source"), folder.path().join("built"));
        std::fs::create_dir_all(checkout.join("images/relay/src")).unwrap();
        std::fs::create_dir_all(&built).unwrap();
        let source = checkout.join("images/relay/src/main.rs");
        let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let write = |path: &Path, seconds| {
            let file = std::fs::File::create(path).unwrap();
            file.set_modified(at(seconds)).unwrap();
        };
        write(&source, 100);
        assert!(stale(&checkout, &built), "absent");
        write(&built.join(RELAY), 200);
        write(&built.join(PROBE), 200);
        assert!(!stale(&checkout, &built));
        write(&source, 300);
        assert!(stale(&checkout, &built));
    }
}
