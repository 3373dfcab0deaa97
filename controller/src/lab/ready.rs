//! Readiness as conditions, each with a deadline and the last thing seen; there is no fixed sleep, only the pause between
//! two looks. Servers are asked by the probe of their own datacenter, so that no link is on the way.

use super::{Engines, Lab, LabError, target};
use crate::channel::ChannelError;
use crate::docker::{EngineHandle, Sort};
use crate::history::ServerSeen;
use crate::names::{DatacenterName, LABEL_NODE, NodeName};
use crate::plan::{Plan, PlannedNode};
use crate::probe::ProbeClient;
use crate::release::{Reported, VersionPattern, reported};
use crate::replication::{Replication, text_of};
use crate::topology::{EngineKind, Role};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use wire::Reply;

/// Pause after the first look that was too early; half as much again after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Limit of one question to a server.
const QUESTION: Duration = Duration::from_secs(2);
/// Limit of one WAIT, as the command takes it.
const WAIT_MS: &str = "200";
/// Limit of asking the engine about a container.
const WORDS: Duration = Duration::from_secs(5);
/// Failed looks between two questions to the engine whether the container runs at all.
const LOOKS_PER_STATE: u32 = 12;

/// Until when, and since when, something is waited for.
#[derive(Clone)]
pub(super) struct Bounds {
    pub(super) begun: Instant,
    pub(super) deadline: Instant,
    /// Something else failed, or somebody asked to stop: waiting is over.
    pub(super) halt: CancellationToken,
}

impl Bounds {
    pub(super) fn from_now(limit: Duration) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            deadline: begun + limit,
            halt: CancellationToken::new(),
        }
    }

    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// A look at a condition that does not hold.
pub(super) enum NotYet {
    /// It may hold later; what was seen instead.
    Seen(String),
    /// It never will.
    Never(LabError),
}

impl From<ChannelError> for NotYet {
    fn from(error: ChannelError) -> Self {
        match error {
            // The probe's words on a server that does not answer yet.
            ChannelError::Refused { cause, .. } => Self::Seen(cause),
            ChannelError::Deadline { .. } => Self::Seen(error.to_string()),
            ChannelError::Attach(_) | ChannelError::Ended { .. } | ChannelError::Strange { .. } => {
                Self::Never(error.into())
            }
        }
    }
}

impl From<LabError> for NotYet {
    fn from(error: LabError) -> Self {
        Self::Never(error)
    }
}

/// Looks again and again until `look` is content.
pub(super) async fn until<T, L>(what: &str, bounds: &Bounds, mut look: impl FnMut(u32) -> L) -> Result<T, LabError>
where
    L: Future<Output = Result<T, NotYet>>,
{
    let mut pause = FIRST_PAUSE;
    let mut last = "nothing yet".to_owned();
    for times in 1.. {
        let looked = tokio::select! {
            biased;
            () = bounds.halt.cancelled() => return Err(LabError::Abandoned),
            looked = timeout_at(bounds.deadline, look(times)) => looked,
        };
        match looked {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(NotYet::Never(error))) => return Err(error),
            Ok(Err(NotYet::Seen(seen))) => {
                if seen != last {
                    tracing::debug!("{what}: after {:.3?}: {seen}", bounds.begun.elapsed());
                }
                last = seen;
            }
            Err(_) => break,
        }
        if Instant::now() + pause >= bounds.deadline {
            break;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
    Err(LabError::NotReady {
        what: what.to_owned(),
        waited: bounds.begun.elapsed(),
        last,
    })
}

/// Who asks the servers of one datacenter.
pub(super) struct Asker<'a> {
    pub(super) plan: &'a Plan,
    pub(super) engines: &'a Engines,
    /// The probe of that datacenter.
    pub(super) probe: &'a ProbeClient,
}

impl Asker<'_> {
    /// Waits until a server answers in its role, and checks that it is the one that was asked for.
    pub(super) async fn server(&self, node: &PlannedNode, bounds: &Bounds) -> Result<ServerSeen, LabError> {
        let what = match node.role {
            _ if node.cluster.is_some() => format!("node {} (server answers)", node.name),
            Role::Primary => format!("node {} (primary answers)", node.name),
            Role::ReplicaOf(ref upstream) => format!("node {} (replication from {upstream} is up)", node.name),
            Role::Postgres => format!("node {} (database answers queries)", node.name),
            Role::SentinelOf(_) => format!("node {} (Sentinel answers)", node.name),
        };
        let found = until(&what, bounds, |times| async move {
            let looked = match node.engine {
                EngineKind::Postgres => self.database(node).await,
                EngineKind::Redis | EngineKind::Valkey => self.cache(node).await,
            };
            if looked.is_err() && times % LOOKS_PER_STATE == 0 {
                self.still_runs(node).await?;
            }
            looked
        })
        .await;
        let found = match found {
            Err(LabError::NotReady { what, waited, last }) => {
                let words = words(self.engines.of(&node.datacenter), &node.container).await;
                let last = format!("{last}; {words}");
                return Err(LabError::NotReady { what, waited, last });
            }
            found => found?,
        };
        check_version(node, &found)?;
        Ok(ServerSeen {
            node: node.name.to_string(),
            datacenter: node.datacenter.to_string(),
            engine: found.engine.as_str().to_owned(),
            release: node.release.clone(),
            version: found.version,
            address: node.address.to_string(),
        })
    }

    /// Waits until all direct replicas of a primary acknowledge what it sends: a message is published on it, which
    /// passes through the replication stream and leaves no trace in the data.
    pub(super) async fn waitable(&self, primary: &PlannedNode, bounds: &Bounds) -> Result<(), LabError> {
        let replicas = self.replicas_of(primary);
        if replicas.is_empty() {
            return Ok(());
        }
        let wanted = replicas.len();
        let what = format!("node {} ({wanted} replicas acknowledge)", primary.name);
        let replicas = &replicas;
        until(&what, bounds, |_| async move {
            let publish = ["PUBLISH", "testbed:ready", "1"];
            let number = wanted.to_string();
            let wait = ["WAIT", &number, WAIT_MS];
            let replies = self.ask(primary, &[&["INFO", "replication"], &publish, &wait]).await?;
            let seen = Replication::parse(&text_of(&replies[0]));
            for replica in replicas {
                let state = seen.replica(replica.address).map(|line| line.state.as_str());
                if state != Some("online") {
                    let state = state.unwrap_or("absent");
                    return Err(NotYet::Seen(format!("it sees {} as {state}", replica.name)));
                }
            }
            match &replies[2] {
                Reply::Integer(count) if usize::try_from(*count).is_ok_and(|count| count >= wanted) => Ok(()),
                other => Err(NotYet::Seen(format!("WAIT {wanted} {WAIT_MS} said {}", text_of(other)))),
            }
        })
        .await
    }

    fn replicas_of(&self, primary: &PlannedNode) -> Vec<&PlannedNode> {
        let nodes = self.plan.nodes.iter();
        nodes
            .filter(|node| matches!(&node.role, Role::ReplicaOf(upstream) if *upstream == primary.name))
            .collect()
    }

    async fn cache(&self, node: &PlannedNode) -> Result<Reported, NotYet> {
        let replies = self
            .ask(node, &[&["PING"], &["INFO", "server"], &["INFO", "replication"]])
            .await?;
        if replies[0] != Reply::Text("PONG".to_owned()) {
            return Err(NotYet::Seen(format!("PING said {}", text_of(&replies[0]))));
        }
        let seen = Replication::parse(&text_of(&replies[2]));
        if let Some(unready) = self.wrong_role(node, &seen) {
            return Err(NotYet::Seen(unready));
        }
        let server = text_of(&replies[1]);
        reported(node.engine, &server).ok_or_else(|| NotYet::Seen(format!("INFO server said {server}")))
    }

    fn wrong_role(&self, node: &PlannedNode, seen: &Replication) -> Option<String> {
        if matches!(node.role, Role::SentinelOf(_)) {
            // What it knows is looked at when all of them run.
            return None;
        }
        if node.cluster.is_some() {
            // It begins as a master of nothing; the places in a cluster are looked at together.
            return None;
        }
        let Role::ReplicaOf(upstream) = &node.role else {
            return (seen.role != "master").then(|| format!("its role is {}", seen.role));
        };
        let upstream = self.plan.nodes.iter().find(|node| node.name == *upstream);
        let upstream = upstream.expect("the upstream of a replica is in the plan").address;
        if seen.role != "slave" {
            return Some(format!("its role is {}", seen.role));
        }
        if seen.upstream != Some(upstream) {
            return Some(format!("it replicates from {:?}, not {upstream}", seen.upstream));
        }
        (!seen.link_up).then(|| format!("its link to {upstream} is down ({})", seen.sync_state()))
    }

    async fn database(&self, node: &PlannedNode) -> Result<Reported, NotYet> {
        let version = self
            .probe
            .postgres(target(node), "SHOW server_version", QUESTION)
            .await?;
        reported(node.engine, &version).ok_or_else(|| NotYet::Seen(format!("server_version is {version}")))
    }

    pub(super) async fn ask(&self, node: &PlannedNode, commands: &[&[&str]]) -> Result<Vec<Reply>, NotYet> {
        let commands = commands
            .iter()
            .map(|command| command.iter().map(|&word| word.to_owned()).collect())
            .collect();
        self.ask_all(node, commands).await
    }

    pub(super) async fn ask_all(&self, node: &PlannedNode, commands: Vec<Vec<String>>) -> Result<Vec<Reply>, NotYet> {
        Ok(self.probe.redis_all(target(node), commands, QUESTION).await?)
    }

    /// A server that ended never becomes ready: say so now and why, instead of waiting for the deadline.
    async fn still_runs(&self, node: &PlannedNode) -> Result<(), LabError> {
        self.runs(&node.datacenter, &node.name, &node.container).await
    }

    /// Whether the container of a node or an application runs.
    pub(super) async fn runs(
        &self,
        datacenter: &DatacenterName,
        name: &NodeName,
        container: &str,
    ) -> Result<(), LabError> {
        let engine = self.engines.of(datacenter);
        let mut labels = super::find::labels_of(Some(&self.plan.lab));
        labels.insert(LABEL_NODE.to_owned(), name.to_string());
        let listed = engine.list(&labels).await?;
        let found = listed
            .iter()
            .find(|object| object.sort == Sort::Container && object.name == container);
        if found.is_some_and(|found| found.state == "running") {
            return Ok(());
        }
        Err(LabError::NodeEnded {
            node: name.clone(),
            post_mortem: engine.post_mortem(container).await?,
        })
    }
}

/// The engine's words on a container that is not as it should be: state and last log lines.
pub(super) async fn words(engine: &EngineHandle, container: &str) -> String {
    match tokio::time::timeout(WORDS, engine.post_mortem(container)).await {
        Ok(Ok(words)) => format!("its container is {words}"),
        Ok(Err(error)) => format!("failed to {error}"),
        Err(_) => "the engine does not say more".to_owned(),
    }
}

/// Whether a node is the primary of a set of its own, as against the master of a part of a cluster.
pub(super) fn is_primary_of_a_set(node: &PlannedNode) -> bool {
    node.role == Role::Primary && node.cluster.is_none()
}

fn check_version(node: &PlannedNode, found: &Reported) -> Result<(), LabError> {
    let Some(pattern) = node.version.as_deref().and_then(VersionPattern::parse) else {
        return Ok(());
    };
    pattern
        .check(node.engine, found)
        .map_err(|mismatch| LabError::WrongServer {
            node: node.name.clone(),
            mismatch,
        })
}

impl Lab {
    /// Waits until every server answers in its role, replication is up and acknowledged, and reads the versions.
    ///
    /// # Errors
    /// The first server that is not ready within `limit`, with the last thing seen; or one of another version.
    pub async fn wait_ready(&mut self, limit: Duration) -> Result<(), LabError> {
        let bounds = Bounds::from_now(limit);
        let bounds = &bounds;
        let this = &*self;
        let (plan, engines) = (&this.plan, &this.engines);
        let asker = |node: &PlannedNode| Asker {
            plan,
            engines,
            probe: this.probe(&node.datacenter),
        };
        let servers = self.plan.nodes.iter();
        let servers = servers.map(|node| async move { asker(node).server(node, bounds).await });
        let servers = futures_util::future::try_join_all(servers).await?;
        let primaries = self.plan.nodes.iter().filter(|node| is_primary_of_a_set(node));
        let waits = primaries.map(|node| async move { asker(node).waitable(node, bounds).await });
        futures_util::future::try_join_all(waits).await?;
        self.clusters_placed(bounds).await?;
        let sentinels = self.plan.nodes.iter();
        let sentinels = sentinels.map(|node| async move { asker(node).watching(node, bounds).await });
        futures_util::future::try_join_all(sentinels).await?;
        let applications = self.plan.applications.iter();
        let applications = applications.map(|application| async move {
            let asker = Asker {
                plan,
                engines,
                probe: this.probe(&application.datacenter),
            };
            asker.application(application, bounds).await
        });
        futures_util::future::try_join_all(applications).await?;
        self.servers = servers;
        Ok(())
    }
}
