//! A lab: a plan that is up and ready. Raised whole or not at all, lowered by an explicit call on every path.
//!
//! `raise` makes one, `find` attaches to one that is up, `lower` and `sweep` remove by label. A [`Lab`] value means that
//! every relay and probe answers and, after `raise`, that every server was ready, in its role, and the version asked for.
//! Nothing is removed that does not carry our labels. Engine handles are kept per datacenter.

mod application;
mod engines;
mod fault;
mod find;
mod form;
mod links;
mod lower;
mod mark;
mod peers;
mod raise;
mod ready;
mod seen;
mod sentinels;

pub use engines::Engines;
pub use fault::{Fault, FaultError, Target, hold, inflict};
pub use find::{Found, attach, choose, find, labels_of, labs};
pub use links::{LinkSeen, NoPorts, Only, Played};
pub use lower::{Left, Lowered, sweep};
pub use mark::{Life, Orphans, sweep_orphans};
pub use peers::Flowed;
pub use raise::{raise, raise_on_free_subnets};
pub use seen::{ClusterView, NodeSeen, ReplicaSeen, ServerState};

use crate::channel::ChannelError;
use crate::controller::{Controller, Fate};
use crate::docker::{EngineError, Refusal};
use crate::history::ServerSeen;
use crate::names::{DatacenterName, LabName, NodeName};
use crate::plan::{Plan, PlannedDatacenter, PlannedNode};
use crate::probe::ProbeClient;
use crate::relay::RelayClient;
use crate::release::VersionMismatch;
use crate::stop::Signal;
use crate::topology::Role;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::time::Duration;

/// A lab that is up.
pub struct Lab {
    /// What was made.
    pub plan: Plan,
    engines: Engines,
    relays: BTreeMap<DatacenterName, RelayClient>,
    probes: BTreeMap<DatacenterName, ProbeClient>,
    servers: Vec<ServerSeen>,
    took: Duration,
    was_up: bool,
    /// What is written on its objects (`None`: another command raised it).
    mark: Option<mark::Mark>,
}

impl Lab {
    /// Name of the lab.
    #[must_use]
    pub fn name(&self) -> &LabName {
        &self.plan.lab
    }

    /// Client of a datacenter's relay.
    ///
    /// # Panics
    /// If the plan has no such datacenter.
    #[must_use]
    pub fn relay(&self, datacenter: &DatacenterName) -> &RelayClient {
        self.relays
            .get(datacenter)
            .expect("a lab has a relay in each datacenter of its plan")
    }

    /// Client of a datacenter's probe.
    ///
    /// # Panics
    /// If the plan has no such datacenter.
    #[must_use]
    pub fn probe(&self, datacenter: &DatacenterName) -> &ProbeClient {
        self.probes
            .get(datacenter)
            .expect("a lab has a probe in each datacenter of its plan")
    }

    /// A datacenter of the plan.
    ///
    /// # Panics
    /// If the plan has no such datacenter.
    #[must_use]
    pub fn datacenter(&self, name: &DatacenterName) -> &PlannedDatacenter {
        self.plan
            .datacenters
            .iter()
            .find(|datacenter| datacenter.name == *name)
            .expect("the datacenter is in the plan")
    }

    /// A server of the plan.
    ///
    /// # Panics
    /// If the plan has no such node.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> &PlannedNode {
        self.plan
            .nodes
            .iter()
            .find(|node| node.name == *name)
            .expect("the node is in the plan")
    }

    /// Where a server listens.
    ///
    /// # Panics
    /// If the plan has no such node.
    #[must_use]
    pub fn target(&self, name: &NodeName) -> SocketAddrV4 {
        target(self.node(name))
    }

    /// Waits until the container of a node has ended; why, as far as its engine tells. An error if the engine is gone first.
    ///
    /// # Panics
    /// If the plan has no such node.
    pub fn ending(&self, name: &NodeName) -> impl Future<Output = Result<String, EngineError>> + Send + use<> {
        let node = self.node(name);
        let engine = std::sync::Arc::clone(self.engines.of(&node.datacenter));
        let container = node.container.clone();
        async move { engine.ended(&container).await.map_err(|error| error.about(&container)) }
    }

    /// Whether stamps of all its containers are of one clock: containers of one engine share CLOCK_MONOTONIC.
    #[must_use]
    pub fn has_one_clock(&self) -> bool {
        self.engines.all().len() == 1
    }

    /// Direct replicas of a node, as planned.
    pub fn replicas_of<'l>(&'l self, upstream: &'l NodeName) -> impl Iterator<Item = &'l PlannedNode> {
        let nodes = self.plan.nodes.iter();
        nodes.filter(move |node| matches!(&node.role, Role::ReplicaOf(name) if name == upstream))
    }

    /// Live servers with the versions that they report, in the order of the plan.
    #[must_use]
    pub fn servers(&self) -> &[ServerSeen] {
        &self.servers
    }

    /// Whether it was up before this command, which must leave it as it was.
    #[must_use]
    pub fn was_up(&self) -> bool {
        self.was_up
    }

    /// Time from the first engine call to ready (after `find`: zero).
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }
}

/// Where a server listens.
#[must_use]
pub fn target(node: &PlannedNode) -> SocketAddrV4 {
    SocketAddrV4::new(node.address, node.port())
}

/// What went wrong with a lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An engine call.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A relay or probe.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// Something did not become ready.
    #[error("see {what} ready within {:.1} s; last seen: {last}", .waited.as_secs_f64())]
    NotReady {
        /// Node, relay or probe with its condition.
        what: String,
        /// How long was waited.
        waited: Duration,
        /// The last thing seen.
        last: String,
    },
    /// A server is not what its release says.
    #[error("use node {node}: {mismatch}")]
    WrongServer {
        /// The node.
        node: NodeName,
        /// Wanted and found.
        mismatch: VersionMismatch,
    },
    /// A server ended while it was waited for.
    #[error("keep node {node} running: {post_mortem}")]
    NodeEnded {
        /// The node.
        node: NodeName,
        /// The engine's words on its end.
        post_mortem: String,
    },
    /// A node could not be paused or resumed.
    #[error(transparent)]
    Fault(Box<FaultError>),
    /// Given up because something else failed; the other failure is the one that is reported.
    #[error("go on after another failure")]
    Abandoned,
    /// Somebody asked to stop.
    #[error("finish: stopped by a signal")]
    Stopped(Signal),
    /// No such lab is up.
    #[error("find {}: {}", .asked.as_ref().map_or("a lab".to_owned(), |lab| format!("lab `{lab}`")), listed(.up))]
    NoLab {
        /// Name asked for.
        asked: Option<LabName>,
        /// Labs that are up.
        up: Vec<String>,
    },
    /// Several labs are up and none was named.
    #[error("choose a lab: {} are up: {}", .up.len(), .up.join(", "))]
    SeveralLabs {
        /// Labs that are up.
        up: Vec<String>,
    },
    /// Another process has this name.
    #[error("raise lab `{lab}`: {}", match (.fate, .running) {
        (Fate::Alive, _) => format!("it is in the hands of {by}"),
        (_, true) => format!("one of this name is there, made by {by}"),
        (_, false) => format!("a part of one of this name is there, made by {by}"),
    })]
    Held {
        /// The lab.
        lab: LabName,
        /// Who has it.
        by: Box<Controller>,
        /// Whether that process still runs.
        fate: Fate,
        /// Whether there is more than a name.
        running: bool,
    },
    /// A lab of which parts are missing or not running.
    #[error("use lab `{lab}`: it is not whole: {}", .missing.join(", "))]
    NotWhole {
        /// The lab.
        lab: String,
        /// What is missing, with its state.
        missing: Vec<String>,
    },
    /// A lab whose plan this program cannot read.
    #[error("read the plan of lab `{lab}` from {container}: {cause}")]
    BrokenPlan {
        /// The lab.
        lab: String,
        /// The relay's container.
        container: String,
        /// Why.
        cause: String,
    },
    /// A link that the lab does not have.
    #[error("find link {from}:{to}: the lab has {}", .links.join(", "))]
    NoLink {
        /// Sending side.
        from: String,
        /// Receiving side.
        to: String,
        /// Links of the lab.
        links: Vec<String>,
    },
    /// Ports on which no node of the lab listens.
    #[error("cut `{only}` of a link: {}", match .unknown.as_slice() {
        [] => "no node of the lab is in a cluster".to_owned(),
        unknown => format!("no node of the lab listens on {}", links::listed(unknown)),
    })]
    NoPort {
        /// As asked for.
        only: Only,
        /// Those of them that nobody has.
        unknown: Vec<u16>,
        /// Ports of the lab's nodes.
        ports: Vec<u16>,
    },
    /// A condition that relays in stream mode cannot have.
    #[error("take stream mode: link {link} has `{condition}`")]
    NotInStreamMode {
        /// The directed link.
        link: String,
        /// The condition.
        condition: &'static str,
    },
    /// A cut of ports that another mode than packet mode does not know.
    #[error("leave packet mode: ports of link {link} are cut")]
    PortsCut {
        /// The directed link.
        link: String,
    },
    /// Removal left something behind.
    #[error("remove everything: still there: {}", Left::list(.0))]
    Left(Vec<Left>),
    /// It failed, and removing what had been made left something behind.
    #[error("{cause}; then failed to remove everything: still there: {}", Left::list(.left))]
    FailedAndLeft {
        /// The failure.
        cause: Box<LabError>,
        /// What is still there.
        left: Vec<Left>,
    },
    /// It failed, and whether anything is left is unknown, since the engine cannot be asked.
    #[error("{cause}; then failed to see what is left: {silent}")]
    FailedAndUnknown {
        /// The failure.
        cause: Box<LabError>,
        /// Why the engine could not be asked.
        silent: Box<LabError>,
    },
}

impl From<FaultError> for LabError {
    fn from(error: FaultError) -> Self {
        Self::Fault(Box::new(error))
    }
}

impl LabError {
    /// Whether another choice of subnets could help.
    #[must_use]
    pub fn is_overlap(&self) -> bool {
        matches!(
            self,
            Self::Engine(EngineError::Refused {
                refusal: Refusal::Overlap,
                ..
            })
        )
    }

    /// Whether somebody else has a name or an address.
    fn is_taken(&self) -> bool {
        matches!(
            self,
            Self::Engine(EngineError::Refused {
                refusal: Refusal::Taken,
                ..
            })
        )
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Engine(EngineError::Refused {
                refusal: Refusal::Taken,
                ..
            }) => Some("is a lab of this name up, or half gone? `testbed down -p NAME` removes it".to_owned()),
            Self::Engine(EngineError::Refused { cause, .. }) if cause.contains("executable file not found") => Some(
                "is its image one of that server? `--release ENGINE=IMAGE` or the file's `release` chose it".to_owned(),
            ),
            Self::Engine(error) | Self::Channel(ChannelError::Attach(error)) => error.hint(),
            Self::Channel(_) | Self::NodeEnded { .. } => Some(
                "`testbed ps` and `testbed logs` show a lab that is still up; the same command again makes a fresh one"
                    .to_owned(),
            ),
            Self::NotReady { .. } => Some(
                "a busy machine or engine takes longer (`up --wait-timeout`, --engine-timeout); `testbed doctor` looks at both"
                    .to_owned(),
            ),
            Self::NoLab { up, .. } if up.is_empty() => Some("testbed up topologies/two-dc.yaml".to_owned()),
            Self::NoLab { .. } | Self::SeveralLabs { .. } => Some("name one with -p NAME".to_owned()),
            Self::Held {
                lab, fate: Fate::Alive, ..
            } => Some(format!(
                "wait until it has ended, and then `testbed ps -p {lab}`; or give this one another name with -p"
            )),
            Self::Held { lab, .. } => Some(format!(
                "`testbed down -p {lab}` removes it; or give this one another name with -p"
            )),
            Self::NotWhole { lab, .. } => Some(format!(
                "if another command is still raising it, wait for that one; else testbed down -p {lab}, then up again"
            )),
            Self::NoPort { ports, .. } => Some(format!(
                "its nodes listen on {}: --only clients, or some of these",
                links::listed(ports)
            )),
            Self::NotInStreamMode { condition, .. } => Some(format!(
                "stream mode delays the bytes of connections and nothing else; testbed link set ... {condition}=default"
            )),
            Self::PortsCut { link } => Some(format!("testbed link heal {link}")),
            Self::BrokenPlan { lab, .. } => Some(format!("testbed down -p {lab}, then up again")),
            Self::WrongServer { .. } => Some("`testbed images list` shows which image a release uses".to_owned()),
            Self::Left(_) => Some("run the same command again, or `testbed down --all`".to_owned()),
            Self::FailedAndLeft { cause, .. } | Self::FailedAndUnknown { cause, .. } => cause
                .hint()
                .or_else(|| Some("`testbed down -p NAME` removes what is left".to_owned())),
            _ => None,
        }
    }
}

fn listed(up: &[String]) -> String {
    match up {
        [] => "none is up".to_owned(),
        _ => format!("up: {}", up.join(", ")),
    }
}
