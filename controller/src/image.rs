//! Images, however they are had: present, pulled, or built from Debian packages; and those of our own two programs.
//!
//! A release's image always has the release's own name on the engine (`testbed/redis:7.0.15`), so that a plan needs not
//! know where it came from. Whether it is present is decided by the label with the recipe's hash and never by an id,
//! which differs between engines. An image of the user's is used as it is. Only images that carry our label are ever
//! removed, and none that a container uses.

mod apt;
mod archive;
mod build;
mod contents;
mod elf;
mod folder;
mod packages;
mod sources;
mod supply;
mod tree;

use crate::docker::EngineError;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use apt::AptError;
pub use build::{BuildError, abandon};
pub use folder::{FolderError, settle};
pub use supply::Supply;
pub use tree::TreeError;

/// Ways that are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// What is present, else pull, else build.
    Auto,
    /// The official image.
    Pull,
    /// From Debian packages.
    Build,
}

/// How an image was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// From its registry.
    Registry,
    /// From Debian packages.
    Packages,
    /// An image of the user's.
    User,
    /// From a folder with a server that the user built.
    Folder,
}

/// An image that the engine has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Obtained {
    /// Release.
    pub release: String,
    /// Reference that containers use.
    pub image: String,
    /// The engine's id.
    pub id: String,
    /// Digest in its registry, if it came from one.
    pub digest: Option<String>,
    /// Where it came from.
    pub source: Source,
    /// Whether this call fetched it.
    pub fetched: bool,
    /// Package -> Debian version, if it was built.
    pub packages: BTreeMap<String, String>,
    /// Size, bytes.
    pub size_bytes: u64,
}

/// A release and what the engine has of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// Release.
    pub release: String,
    /// Engine of the release.
    pub engine: &'static str,
    /// Version that its server must report.
    pub version: Option<String>,
    /// Reference at its registry.
    pub official: Option<String>,
    /// Debian suites that it can be built from.
    pub suites: Vec<String>,
    /// What the engine has.
    pub present: Option<Obtained>,
}

/// What a removal did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Pruned {
    /// References or ids that are gone.
    pub removed: Vec<String>,
    /// References or ids that containers use.
    pub in_use: Vec<String>,
}

/// Why an image cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The engine refused something.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The registry does not give it.
    #[error("pull {release}: {cause}")]
    Pull {
        /// Release.
        release: String,
        /// Why.
        cause: String,
        /// Whether it can be built instead.
        buildable: bool,
    },
    /// It cannot be built. `pulled`: what was tried before.
    #[error("build {release}: failed to {source}{}", .pulled.as_ref().map(|cause| format!(" (and its pull: {cause})")).unwrap_or_default())]
    Build {
        /// Release.
        release: String,
        /// Why the pull before it failed, if one was tried.
        pulled: Option<String>,
        /// Why.
        source: Box<BuildError>,
    },
    /// The folder is no build.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// An image of the user's own that is not there and that no registry gives.
    #[error("pull {image}: {cause}")]
    NoOwn {
        /// Reference.
        image: String,
        /// Why.
        cause: String,
    },
    /// There is no such way to it.
    #[error("{way} {release}: {why}")]
    NoWay {
        /// `pull` or `build`.
        way: &'static str,
        /// Release.
        release: String,
        /// Why not.
        why: &'static str,
    },
}

impl ImageError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Engine(error) => error.hint(),
            Self::Pull { buildable: true, .. } => {
                Some("`testbed images build` makes it from Debian packages".to_owned())
            }
            Self::Pull { .. } => Some(
                "it is not in Debian; where no registry answers, use another release (`testbed images list`)"
                    .to_owned(),
            ),
            Self::Build { source, .. } => match source.as_ref() {
                BuildError::Apt(error) => error.hint(),
                _ => None,
            },
            Self::Folder(error) => Some(error.hint()),
            Self::NoOwn { image, .. } => Some(format!(
                "build or load it on the engine of the lab first: docker image inspect {image}"
            )),
            Self::NoWay { .. } => Some("`testbed images list` shows the ways".to_owned()),
        }
    }

    /// Whether the machine or its engine is not fit for it, rather than the attempt having failed.
    #[must_use]
    pub fn is_host(&self) -> bool {
        match self {
            Self::Engine(error) => matches!(error, EngineError::Unreachable { .. } | EngineError::TooOld { .. }),
            Self::Build { source, .. } => matches!(
                source.as_ref(),
                BuildError::Apt(AptError::NoProgram { .. } | AptError::NoArchive) | BuildError::Architecture(_)
            ),
            Self::Pull { .. } | Self::NoOwn { .. } | Self::NoWay { .. } => true,
            Self::Folder(_) => false,
        }
    }
}

/// The folder for package lists and downloads: `$XDG_CACHE_HOME/testbed`, else `~/.cache/testbed`.
#[must_use]
pub fn cache_folder() -> PathBuf {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("testbed")
}
