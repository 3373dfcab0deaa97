//! The machine's apt, asked for packages of another suite: with a configuration, state and cache of our own, so that
//! nothing of the machine's package system is changed and no root is needed.
//!
//! apt itself verifies what it fetches, with the keyring that the machine's own sources name; there is no way here
//! around it. A release file whose time is over is accepted only after apt has said so, and with a warning. Only
//! `apt-get`, `apt-cache` and `dpkg-deb` are run.

use super::packages::{self, Package};
use super::sources::{self, Archive};
use crate::release::{Recipe, VersionPattern, upstream_of_debian};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// How often a lock that another `testbed` holds is tried again.
const LOCK_POLL: Duration = Duration::from_millis(100);
/// Keyrings that Debian installs, newest form first; for sources that name none.
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];

/// Package lists of some suites, fetched and verified.
#[derive(Debug)]
pub struct Apt {
    folder: PathBuf,
    suites: Vec<String>,
}

/// Why packages cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum AptError {
    /// A program of the machine is missing.
    #[error("run `{program}`: this machine has no such program")]
    NoProgram {
        /// Its name.
        program: &'static str,
    },
    /// The machine's sources have no Debian archive.
    #[error("find a Debian archive in the apt sources of this machine")]
    NoArchive,
    /// A file of ours cannot be made.
    #[error("write {}", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("{step}: {words}")]
    Failed {
        /// What was tried.
        step: String,
        /// The program's words.
        words: String,
    },
    /// The suite has moved on, or never had it.
    #[error("find {package} {wanted} in Debian {suite}: it has {found}")]
    NoVersion {
        /// Package.
        package: String,
        /// Version that the release wants.
        wanted: String,
        /// Suites.
        suite: String,
        /// What is there.
        found: String,
    },
}

impl AptError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoProgram { .. } => Some(
                "images are built on Debian only, with apt and dpkg; elsewhere: `testbed images pull`, or --release ENGINE=IMAGE"
                    .to_owned(),
            ),
            Self::NoArchive => Some(
                "building needs a `deb` entry with a Debian suite and `main` in /etc/apt; elsewhere: `testbed images pull`"
                    .to_owned(),
            ),
            Self::Failed { words, .. } if words.contains("NO_PUBKEY") || words.contains("not signed") => Some(
                "the machine's keyring is older than the suite: install the debian-archive-keyring of its updates".to_owned(),
            ),
            Self::Failed { words, .. } if words.contains("not valid yet") => {
                Some("the clock of this machine is behind".to_owned())
            }
            Self::Failed { .. } => Some("does `apt-get update` work on this machine?".to_owned()),
            Self::NoVersion { .. } => Some("`testbed images list` shows the others".to_owned()),
            Self::File { .. } => None,
        }
    }
}

impl Apt {
    /// Fetches the lists of these suites, for an architecture as Debian writes it.
    ///
    /// # Errors
    /// The machine has no apt or no Debian archive, or the lists cannot be fetched or verified.
    pub async fn open(cache: &Path, suites: &[String], architecture: &str) -> Result<Self, AptError> {
        let mut archive = sources::debian(&machine_sources()).ok_or(AptError::NoArchive)?;
        if archive.signed_by.is_none() {
            archive.signed_by = KEYRINGS
                .iter()
                .find(|path| Path::new(path).exists())
                .map(|path| (*path).to_owned());
        }
        let folder = cache.join("apt").join(format!("{}-{architecture}", suites.join("-")));
        for below in ["lists/partial", "cache/archives/partial"] {
            make_folder(&folder.join(below))?;
        }
        let apt = Self {
            folder,
            suites: suites.to_vec(),
        };
        let _lock = apt.lock().await?;
        apt.configure(architecture)?;
        apt.update(&archive).await?;
        Ok(apt)
    }

    /// The packages that a recipe needs, with the versions that apt would install together. `beside` are packages that
    /// every server of the kind needs, at whatever version the suite has.
    ///
    /// # Errors
    /// The suites do not have the version, or not what it depends on.
    pub async fn resolve(
        &self,
        recipe: &Recipe,
        version: &VersionPattern,
        beside: &[&str],
    ) -> Result<Vec<Package>, AptError> {
        let server = recipe.packages.first().map_or("", String::as_str);
        let listed = self
            .run(
                "apt-cache",
                &["madison".to_owned(), server.to_owned()],
                "look a package up",
            )
            .await?;
        let found = packages::versions(&listed, server);
        let Some(exact) = found.iter().find(|found| version.accepts(upstream_of_debian(found))) else {
            return Err(AptError::NoVersion {
                package: server.to_owned(),
                wanted: version.to_string(),
                suite: self.suites.join(", "),
                found: if found.is_empty() {
                    "none".to_owned()
                } else {
                    found.join(", ")
                },
            });
        };
        let exact: Vec<String> = recipe
            .packages
            .iter()
            .map(|package| format!("{package}={exact}"))
            .collect();
        let mut install: Vec<String> = ["--simulate", "--no-install-recommends", "install"]
            .iter()
            .map(|&word| word.to_owned())
            .collect();
        install.extend(exact);
        install.extend(beside.iter().map(|&package| package.to_owned()));
        let planned = self.run("apt-get", &install, "resolve dependencies").await?;
        let planned = packages::planned(&planned);
        let mut show = vec!["show".to_owned()];
        show.extend(planned.iter().map(Package::pinned));
        let described = self.run("apt-cache", &show, "read dependencies").await?;
        let roots: Vec<&str> = recipe
            .packages
            .iter()
            .map(String::as_str)
            .chain(beside.iter().copied())
            .collect();
        Ok(packages::needed(&roots, &planned, &described))
    }

    /// Downloads packages into a folder of their own and returns their files.
    ///
    /// # Errors
    /// One cannot be fetched or is not what the signed list says.
    pub async fn download(&self, packages: &[Package], into: &Path) -> Result<Vec<PathBuf>, AptError> {
        make_folder(into)?;
        let mut words = vec!["download".to_owned()];
        words.extend(packages.iter().map(Package::pinned));
        self.run_in(into, "apt-get", &words, "download packages").await?;
        let listed = std::fs::read_dir(into).map_err(|source| AptError::File {
            path: into.to_owned(),
            source,
        })?;
        let mut files: Vec<PathBuf> = listed.filter_map(Result::ok).map(|file| file.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
        files.sort();
        if files.len() == packages.len() {
            return Ok(files);
        }
        let words = format!("{} of {} packages arrived", files.len(), packages.len());
        Err(AptError::Failed {
            step: "download packages".to_owned(),
            words,
        })
    }

    fn configure(&self, architecture: &str) -> Result<(), AptError> {
        let path = |below: &str| self.folder.join(below).display().to_string();
        let text = format!(
            "Dir::Etc::sourcelist \"{sources}\";\n\
             Dir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::preferences \"/dev/null\";\n\
             Dir::Etc::preferencesparts \"/dev/null\";\n\
             Dir::State \"{folder}\";\n\
             Dir::State::lists \"lists/\";\n\
             Dir::State::status \"{status}\";\n\
             Dir::Log \"{folder}\";\n\
             Dir::Cache \"{cache}\";\n\
             Dir::Cache::pkgcache \"pkgcache.bin\";\n\
             Dir::Cache::srcpkgcache \"\";\n\
             #clear APT::Update::Pre-Invoke;\n\
             #clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n\
             #clear Acquire::IndexTargets::deb::DEP-11;\n\
             #clear Acquire::IndexTargets::deb::DEP-11-icons-small;\n\
             #clear Acquire::IndexTargets::deb::DEP-11-icons;\n\
             #clear APT::Architectures;\n\
             APT::Architecture \"{architecture}\";\n\
             APT::Architectures {{ \"{architecture}\"; }};\n\
             APT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::Retries \"2\";\n\
             Acquire::http::Timeout \"20\";\n\
             Acquire::https::Timeout \"20\";\n",
            sources = path("debian.sources"),
            folder = self.folder.display(),
            status = path("status"),
            cache = path("cache"),
        );
        self.write("status", "")?;
        self.write("apt.conf", &text)
    }

    /// Fetches the lists, the second time with an expired release file if that was the only trouble.
    async fn update(&self, archive: &Archive) -> Result<(), AptError> {
        let step = format!("fetch the package lists of Debian {}", self.suites.join(", "));
        self.write("debian.sources", &archive.sources(&self.suites, false))?;
        let words = ["update".to_owned(), "--error-on=any".to_owned()];
        let Err(error) = self.run("apt-get", &words, &step).await else {
            return Ok(());
        };
        let AptError::Failed { words: said, .. } = &error else {
            return Err(error);
        };
        let Some(age) = packages::expired(said) else {
            return Err(error);
        };
        tracing::warn!(
            "Debian {}: the release file is expired ({age}); signatures are still verified, but an old state of the suite would not be noticed",
            self.suites.join(", ")
        );
        self.write("debian.sources", &archive.sources(&self.suites, true))?;
        self.run("apt-get", &words, &step).await.map(|_| ())
    }

    /// One `testbed` at a time changes this folder.
    async fn lock(&self) -> Result<File, AptError> {
        let path = self.folder.join("lock");
        let failed = |source| AptError::File {
            path: path.clone(),
            source,
        };
        let file = File::create(&path).map_err(failed)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_POLL).await,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }

    fn write(&self, below: &str, text: &str) -> Result<(), AptError> {
        let path = self.folder.join(below);
        std::fs::write(&path, text).map_err(|source| AptError::File { path, source })
    }

    async fn run(&self, program: &'static str, words: &[String], step: &str) -> Result<String, AptError> {
        self.run_in(&self.folder, program, words, step).await
    }

    async fn run_in(
        &self,
        folder: &Path,
        program: &'static str,
        words: &[String],
        step: &str,
    ) -> Result<String, AptError> {
        let ran = Command::new(program)
            .arg("-c")
            .arg(self.folder.join("apt.conf"))
            .args(["-q", "-y"].iter().filter(|_| program == "apt-get"))
            .args(words)
            .current_dir(folder)
            .env("LC_ALL", "C.UTF-8")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await;
        let ran = ran.map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => AptError::NoProgram { program },
            _ => AptError::Failed {
                step: step.to_owned(),
                words: source.to_string(),
            },
        })?;
        if ran.status.success() {
            return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
        }
        Err(AptError::Failed {
            step: step.to_owned(),
            words: packages::complaints(&String::from_utf8_lossy(&ran.stderr)),
        })
    }
}

/// The files of the machine's apt sources, as (name, text).
fn machine_sources() -> Vec<(String, String)> {
    let mut paths = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = std::fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let mut parts: Vec<PathBuf> = parts.map(|file| file.path()).collect();
    parts.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "sources" || extension == "list")
    });
    parts.sort();
    paths.extend(parts);
    paths
        .into_iter()
        .filter_map(|path| Some((path.display().to_string(), std::fs::read_to_string(path).ok()?)))
        .collect()
}

fn make_folder(path: &Path) -> Result<(), AptError> {
    std::fs::create_dir_all(path).map_err(|source| AptError::File {
        path: path.to_owned(),
        source,
    })
}
