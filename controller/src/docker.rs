//! The only door to the Docker engine: traits that take our types and return our errors, and their bollard
//! implementation below. A bollard type outside `docker` is a bug.
//!
//! Objects are found by label and used by id; everything made carries our labels; nothing of others is touched.

mod bodies;
mod connect;
mod console;
mod endpoint;
pub mod fake;
mod faults;
mod images;
mod objects;
mod refusal;
mod terminal;

pub use crate::manifest::About;

use crate::plan::{ContainerSpec, NetworkSpec, VolumeSpec};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// The engine of a datacenter. Several hosts will have several; today all are the same.
pub type EngineHandle = Arc<dyn Faults>;

/// Objects of an engine.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Makes a network.
    async fn create_network(&self, spec: &NetworkSpec) -> Result<Object, EngineError>;
    /// Makes a volume.
    async fn create_volume(&self, spec: &VolumeSpec) -> Result<Object, EngineError>;
    /// Makes a container with all its endpoints, not started. `networks` maps Docker network names to ids.
    async fn create_container(
        &self,
        spec: &ContainerSpec,
        networks: &BTreeMap<String, String>,
    ) -> Result<Object, EngineError>;
    /// Makes a container that shares the network of another one, not started.
    async fn create_lookout(&self, lookout: &Lookout, container: &str) -> Result<Object, EngineError>;
    /// Starts a container.
    async fn start(&self, container: &str) -> Result<(), EngineError>;
    /// Removes an object by id, with force; an absent one is done.
    async fn remove(&self, object: &Object) -> Result<(), EngineError>;
    /// All containers, networks and volumes that carry every one of these labels.
    async fn list(&self, labels: &BTreeMap<String, String>) -> Result<Vec<Object>, EngineError>;
    /// Attaches to stdin and stdout of a container's main process; stderr goes to the log.
    async fn attach(&self, container: &str) -> Result<Attached, EngineError>;
    /// Subnets of all networks of the engine and addresses that it would refuse, as far as it tells.
    async fn subnets(&self) -> Result<Vec<ipnet::Ipv4Net>, EngineError>;
    /// Why a container is not running: state, exit code, error, last log lines.
    async fn post_mortem(&self, container: &str) -> Result<String, EngineError>;
    /// Waits until a container's main process has ended, however long that takes; why, as far as the engine tells. An error
    /// if the engine itself is gone first.
    async fn ended(&self, container: &str) -> Result<String, EngineError>;
}

/// What is done on purpose to containers that run; the way back from an end is [`Engine::start`].
#[async_trait]
pub trait Faults: Engine {
    /// Lets a container's processes stand still; its connections stay open.
    async fn pause(&self, container: &str) -> Result<(), EngineError>;
    /// Ends a pause.
    async fn resume(&self, container: &str) -> Result<(), EngineError>;
    /// Kills a container's main process at once.
    async fn kill(&self, container: &str) -> Result<(), EngineError>;
    /// Asks it to end, and kills it after `grace`.
    async fn stop(&self, container: &str, grace: Duration) -> Result<(), EngineError>;
}

/// What people ask of a running container, and of the engine itself.
#[async_trait]
pub trait Console: Send + Sync {
    /// Version, API, platform, cgroups, storage.
    async fn about(&self) -> Result<About, EngineError>;
    /// Runs a command in a container, with the caller's streams; the command's exit code.
    async fn exec(&self, container: &str, exec: &ExecSpec) -> Result<i64, EngineError>;
    /// Sends a container's log, line by line, until its end or until nobody receives.
    async fn logs(&self, container: &str, logs: &LogsSpec, lines: mpsc::Sender<LogLine>) -> Result<(), EngineError>;
}

/// Images of an engine. Archives are Docker-loadable tars.
#[async_trait]
pub trait Images: Send + Sync {
    /// Images that carry every one of these labels.
    async fn images(&self, labels: &BTreeMap<String, String>) -> Result<Vec<ImageSeen>, EngineError>;
    /// The image of this reference, if the engine has it.
    async fn image(&self, reference: &str) -> Result<Option<ImageSeen>, EngineError>;
    /// Loads an archive.
    async fn load(&self, archive: bytes::Bytes) -> Result<(), EngineError>;
    /// Pulls a reference from its registry.
    async fn pull(&self, reference: &str) -> Result<(), EngineError>;
    /// Gives an image one more reference, `name:tag`.
    async fn tag(&self, reference: &str, new: &str) -> Result<(), EngineError>;
    /// Removes a reference; one in use is an error, an absent one is done.
    async fn remove_image(&self, reference: &str) -> Result<(), EngineError>;
    /// Contents of a folder of a (stopped) container, as a tar.
    async fn download(&self, container: &str, path: &str) -> Result<bytes::Bytes, EngineError>;
    /// Waits until a container has ended; its exit code.
    async fn wait(&self, container: &str) -> Result<i64, EngineError>;
}

/// The engine as bollard speaks to it; made by [`Docker::connect`], cheap to clone.
#[derive(Debug, Clone)]
pub struct Docker {
    /// The client, its version negotiated.
    pub(in crate::docker) api: bollard::Docker,
    /// Socket or address, for messages.
    pub(in crate::docker) endpoint: String,
    /// Longest time of one call, other than those that move images.
    pub(in crate::docker) limit: Duration,
}

/// A container, network or volume of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub sort: Sort,
    /// The engine's id (a volume: its name).
    pub id: String,
    /// Docker name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// A container's state (`running`, `exited`, ...); empty for others.
    pub state: String,
}

/// Sort of an engine object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Container.
    Container,
    /// Network.
    Network,
    /// Volume.
    Volume,
}

/// A container that shares another one's network and has nothing else: no volume, no capability, stdin open for orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookout {
    /// Docker name.
    pub name: String,
    /// Image reference.
    pub image: String,
    /// Whole entrypoint.
    pub entrypoint: Vec<String>,
    /// `uid:gid` or name (`None`: the image's).
    pub user: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// Streams of a container's main process.
pub struct Attached {
    /// To its stdin. Shutting it down only detaches: stdin stays open for the next attachment.
    pub stdin: Pin<Box<dyn AsyncWrite + Send>>,
    /// From its stdout, frames joined.
    pub stdout: Pin<Box<dyn AsyncRead + Send>>,
}

/// An image of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSeen {
    /// The engine's id.
    pub id: String,
    /// References (`name:tag`).
    pub references: Vec<String>,
    /// Digest in its registry, if it came from one.
    pub digest: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Size, bytes.
    pub size_bytes: u64,
}

/// A command to run in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Forward our stdin.
    pub interactive: bool,
    /// Give it a terminal.
    pub tty: bool,
    /// User (`None`: the container's).
    pub user: Option<String>,
}

/// Which log lines are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogsSpec {
    /// Go on until the container ends.
    pub follow: bool,
    /// Only the last so many lines.
    pub tail: Option<u64>,
}

/// A line that a container logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When, by the engine's clock: RFC 3339 with nine digits, so that texts sort as times.
    pub at: String,
    /// The line, without its end.
    pub text: String,
}

/// An engine call that failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine cannot be reached.
    #[error("reach the Docker engine at {endpoint}: {cause}")]
    Unreachable {
        /// Socket or address.
        endpoint: String,
        /// Innermost cause.
        cause: String,
        /// What to do.
        hint: String,
    },
    /// An engine that answered before gave no answer to this call: it may or may not have done what was asked.
    #[error("{verb} {object}: the Docker engine at {endpoint} gave no answer: {cause}")]
    Lost {
        /// What was tried, e.g. `create network`.
        verb: &'static str,
        /// Docker name or id.
        object: String,
        /// Socket or address.
        endpoint: String,
        /// Innermost cause.
        cause: String,
    },
    /// The engine is too old.
    #[error("use Docker engine {version} (API {api_version}): 20.10 (API 1.41) or newer is needed")]
    TooOld {
        /// Engine version.
        version: String,
        /// Its API.
        api_version: String,
    },
    /// A call was refused.
    #[error("{verb} {object}: {cause}")]
    Refused {
        /// What was tried, e.g. `create network`.
        verb: &'static str,
        /// Docker name or id.
        object: String,
        /// HTTP status (0: none).
        status: u16,
        /// The engine's words.
        cause: String,
        /// What kind of refusal.
        refusal: Refusal,
    },
}

impl EngineError {
    /// The same with the object under this name.
    #[must_use]
    pub fn about(mut self, name: &str) -> Self {
        if let Self::Refused { object, .. } | Self::Lost { object, .. } = &mut self {
            name.clone_into(object);
        }
        self
    }

    /// What the user can do about it, whatever was under way.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { hint, .. } => Some(hint.clone()),
            Self::Lost { .. } => Some(
                "does `docker version` answer? The engine may have been restarted, or be busy (--engine-timeout). \
                 `testbed down -p NAME` then removes what is left of the lab"
                    .to_owned(),
            ),
            Self::Refused { cause, .. } if cause.contains("no space left on device") => Some(
                "the engine's disk is full: `docker system df` shows what takes it, `testbed images prune` removes images \
                 that testbed made"
                    .to_owned(),
            ),
            Self::Refused {
                refusal: Refusal::NotFound,
                cause,
                ..
            } if cause.to_lowercase().contains("no such image") => Some(
                "the image went away after it was looked for: the same command again pulls or builds it".to_owned(),
            ),
            Self::Refused {
                refusal: Refusal::Other, ..
            } => Some("the engine's own log (`journalctl -u docker`) may say more; then the same command again".to_owned()),
            Self::Refused { .. } | Self::TooOld { .. } => None,
        }
    }
}

/// Kinds of refusal that callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Absent.
    NotFound,
    /// Name, bridge or address is taken.
    Taken,
    /// Subnet overlaps another network's.
    Overlap,
    /// Still in use.
    InUse,
    /// No registry answered.
    NoRegistry,
    /// Anything else.
    Other,
}
