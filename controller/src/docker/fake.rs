//! An engine in memory, for tests of what is made, unmade and asked, in which order, and of what happens when a call fails.
//!
//! It keeps the rules of a real engine that labs meet: networks that overlap or share a bridge, names and addresses that
//! are taken, images and networks that are absent, networks and volumes in use. In its containers run a relay and a probe
//! that answer orders, and servers that the probe can ask. It measures nothing: orders that measure are refused in words.

mod beacons;
mod cache;
mod cluster;
mod faults;
mod programs;
mod relay;
mod world;

use super::{Attached, Engine, EngineError, Lookout, Object, Refusal, Sort};
use crate::plan::{ContainerSpec, NetworkSpec, VolumeSpec};
use async_trait::async_trait;
use beacons::Beaconing;
use relay::Relay;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use world::{network_object, volume_object};

/// Bytes that an attached stream holds before the writer waits.
const PIPE: usize = 64 << 10;
/// Lines that a slow reader of a container's stdout may lag behind.
const LAG: usize = 1024;

/// The engine; clones are the same one.
#[derive(Clone)]
pub struct Fake {
    world: Arc<Mutex<World>>,
}

/// A call that was made, failed ones included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// As in [`EngineError`]: `create network`, `start container`, `remove volume`...
    pub verb: &'static str,
    /// Docker name of its object (empty: none).
    pub object: String,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.object)
    }
}

/// How a call fails on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The engine refuses; nothing was changed.
    Refused(Refusal),
    /// The engine cannot be reached; nothing was changed.
    Unreachable,
    /// The engine does what was asked, but its answer is lost.
    AnswerLost,
    /// The engine never answers; nothing was changed.
    Silent,
}

/// Everything that is there.
struct World {
    begun: Instant,
    serial: u64,
    calls: Vec<Call>,
    /// Number of the call (from 1) -> how it fails.
    failures: BTreeMap<usize, Failure>,
    absent_images: BTreeSet<String>,
    absent_devices: BTreeSet<String>,
    /// Docker name -> exit code and last words of what ends at its start.
    doomed: BTreeMap<String, (i64, String)>,
    /// Docker name -> version that its server reports.
    versions: BTreeMap<String, String>,
    /// Docker name of a replica -> that of the master that it copies instead of the one that it is told.
    misled: BTreeMap<String, String>,
    networks: BTreeMap<String, NetworkSpec>,
    volumes: BTreeMap<String, VolumeSpec>,
    containers: BTreeMap<String, Container>,
}

struct Container {
    spec: ContainerSpec,
    /// Network id -> address.
    endpoints: BTreeMap<String, Ipv4Addr>,
    state: watch::Sender<State>,
    stdout: broadcast::Sender<String>,
    /// Its state, if it is a relay.
    relay: Relay,
    /// Orders to send beacons that it got, if it is a probe.
    beacons: Vec<Beaconing>,
    /// Its part in a cluster, if it is in one.
    membership: cluster::Membership,
    /// Keys, if it is a primary.
    keys: BTreeMap<String, String>,
    /// Bytes that a primary has written into its replication stream.
    offset: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Created,
    Running,
    Paused,
    Exited(i64, String),
}

impl State {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Exited(..) => "exited",
        }
    }
}

impl Default for Fake {
    fn default() -> Self {
        Self::new()
    }
}

impl Fake {
    /// An empty engine that has every image.
    #[must_use]
    pub fn new() -> Self {
        Self {
            world: Arc::new(Mutex::new(World {
                begun: Instant::now(),
                serial: 0,
                calls: Vec::new(),
                failures: BTreeMap::new(),
                absent_images: BTreeSet::new(),
                absent_devices: BTreeSet::new(),
                doomed: BTreeMap::new(),
                versions: BTreeMap::new(),
                misled: BTreeMap::new(),
                networks: BTreeMap::new(),
                volumes: BTreeMap::new(),
                containers: BTreeMap::new(),
            })),
        }
    }

    /// What a relay was told of the opposite direction of one of its links.
    #[must_use]
    pub fn mirror(&self, container: &str, to: &str) -> Option<wire::Mirror> {
        self.world().container(container)?.relay.mirror(to)
    }

    /// Makes the `nth` call from now (1: the next one) fail.
    pub fn fail(&self, nth: usize, failure: Failure) {
        let mut world = self.world();
        let number = world.calls.len() + nth;
        world.failures.insert(number, failure);
    }

    /// Takes an image away: containers of it are refused.
    pub fn lack_image(&self, reference: &str) {
        self.world().absent_images.insert(reference.to_owned());
    }

    /// Takes a device of the engine's machine away: containers that want it do not start.
    pub fn lack_device(&self, path: &str) {
        self.world().absent_devices.insert(path.to_owned());
    }

    /// Lets a container end as soon as it is started.
    pub fn doom(&self, container: &str, exit_code: i64, last_words: &str) {
        let end = (exit_code, last_words.to_owned());
        self.world().doomed.insert(container.to_owned(), end);
    }

    /// Ends a running container.
    pub fn end(&self, container: &str, exit_code: i64, last_words: &str) {
        let world = self.world();
        if let Some(found) = world.container(container) {
            found
                .state
                .send_replace(State::Exited(exit_code, last_words.to_owned()));
        }
    }

    /// From now on this replica of a cluster copies another master than the one that it is told to copy.
    pub fn mislead(&self, replica: &str, master: &str) {
        self.world().misled.insert(replica.to_owned(), master.to_owned());
    }

    /// Lets a server report another version than its image's tag.
    pub fn report_version(&self, container: &str, version: &str) {
        self.world().versions.insert(container.to_owned(), version.to_owned());
    }

    /// All calls so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.world().calls.clone()
    }

    /// Everything that is there, whatever its labels.
    #[must_use]
    pub fn objects(&self) -> Vec<Object> {
        self.world().objects()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // A panic in a test while it was held says enough; others may go on looking.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call and carries it out, unless it was asked to fail.
    async fn call<T>(
        &self,
        verb: &'static str,
        object: &str,
        act: impl FnOnce(&mut World) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let failure = {
            let mut world = self.world();
            world.calls.push(Call {
                verb,
                object: object.to_owned(),
            });
            let number = world.calls.len();
            world.failures.remove(&number)
        };
        // As with a real engine, others get a turn while a call is under way.
        tokio::task::yield_now().await;
        match failure {
            None => act(&mut self.world()),
            Some(Failure::Refused(kind)) => Err(refused(verb, object, kind, "as the test asked")),
            Some(Failure::Unreachable) => Err(unreachable()),
            Some(Failure::AnswerLost) => act(&mut self.world()).and_then(|_| Err(unreachable())),
            Some(Failure::Silent) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Engine for Fake {
    async fn create_network(&self, spec: &NetworkSpec) -> Result<Object, EngineError> {
        let verb = "create network";
        self.call(verb, &spec.name, |world| {
            for other in world.networks.values() {
                // In the order of a real engine: addresses are reserved before the bridge is made.
                if other.subnet.contains(&spec.subnet) || spec.subnet.contains(&other.subnet) {
                    let cause = "Pool overlaps with other one on this address space";
                    return Err(refused(verb, &spec.name, Refusal::Overlap, cause));
                }
                if other.bridge == spec.bridge {
                    return Err(refused(
                        verb,
                        &spec.name,
                        Refusal::Taken,
                        "networks have same bridge name",
                    ));
                }
            }
            let id = world.id();
            world.networks.insert(id.clone(), spec.clone());
            Ok(network_object(&id, spec))
        })
        .await
    }

    async fn create_volume(&self, spec: &VolumeSpec) -> Result<Object, EngineError> {
        let verb = "create volume";
        self.call(verb, &spec.name, |world| {
            let there = world.volumes.entry(spec.name.clone()).or_insert_with(|| spec.clone());
            if there.labels != spec.labels {
                return Err(refused(verb, &spec.name, Refusal::Taken, "it exists with other labels"));
            }
            Ok(volume_object(spec))
        })
        .await
    }

    async fn create_container(
        &self,
        spec: &ContainerSpec,
        networks: &BTreeMap<String, String>,
    ) -> Result<Object, EngineError> {
        self.call("create container", &spec.name, |world| {
            world.create_container(spec, networks)
        })
        .await
    }

    async fn create_lookout(&self, lookout: &Lookout, _: &str) -> Result<Object, EngineError> {
        let verb = "create container";
        self.call(verb, &lookout.name, |_| {
            Err(refused(verb, &lookout.name, Refusal::Other, "this engine is a fake"))
        })
        .await
    }

    async fn start(&self, container: &str) -> Result<(), EngineError> {
        let name = self.world().name_of(container);
        self.call("start container", &name, |world| world.start(container))
            .await
    }

    async fn remove(&self, object: &Object) -> Result<(), EngineError> {
        let verb = match object.sort {
            Sort::Container => "remove container",
            Sort::Network => "remove network",
            Sort::Volume => "remove volume",
        };
        self.call(verb, &object.name, |world| world.remove(verb, object)).await
    }

    async fn list(&self, labels: &BTreeMap<String, String>) -> Result<Vec<Object>, EngineError> {
        self.call("list", "", |world| {
            let mut objects = world.objects();
            objects.retain(|object| labels.iter().all(|(key, value)| object.labels.get(key) == Some(value)));
            Ok(objects)
        })
        .await
    }

    async fn attach(&self, container: &str) -> Result<Attached, EngineError> {
        let verb = "attach to container";
        let name = self.world().name_of(container);
        let (near, far) = tokio::io::duplex(PIPE);
        let (spec, state, stdout) = self
            .call(verb, &name, |world| {
                let found = world.container(container);
                let found = found.ok_or_else(|| refused(verb, &name, Refusal::NotFound, "No such container"))?;
                Ok((found.spec.clone(), found.state.subscribe(), found.stdout.clone()))
            })
            .await?;
        tokio::spawn(serve(self.clone(), spec, state, stdout, far));
        let (stdout, stdin) = tokio::io::split(near);
        Ok(Attached {
            stdin: Box::pin(stdin),
            stdout: Box::pin(stdout),
        })
    }

    async fn subnets(&self) -> Result<Vec<ipnet::Ipv4Net>, EngineError> {
        self.call("list", "networks", |world| {
            Ok(world.networks.values().map(|network| network.subnet).collect())
        })
        .await
    }

    async fn post_mortem(&self, container: &str) -> Result<String, EngineError> {
        let verb = "inspect container";
        let name = self.world().name_of(container);
        self.call(verb, &name, |world| {
            let found = world.container(container);
            let found = found.ok_or_else(|| refused(verb, &name, Refusal::NotFound, "No such container"))?;
            let state = found.state.borrow();
            Ok(match &*state {
                State::Exited(code, words) => format!("exited, exit code {code}; last log lines:\n{words}"),
                other => other.as_str().to_owned(),
            })
        })
        .await
    }

    async fn ended(&self, container: &str) -> Result<String, EngineError> {
        let verb = "wait for";
        let name = self.world().name_of(container);
        let mut state = self
            .call(verb, &name, |world| {
                let found = world.container(container);
                let found = found.ok_or_else(|| refused(verb, &name, Refusal::NotFound, "No such container"))?;
                Ok(found.state.subscribe())
            })
            .await?;
        let over = state
            .wait_for(|now| !matches!(now, State::Running | State::Paused))
            .await;
        Ok(match over.as_deref() {
            Ok(State::Exited(code, words)) => format!("exited, exit code {code}; last log lines:\n{words}"),
            _ => "removed".to_owned(),
        })
    }
}

/// One attachment: order lines in, all answers of the container out, until either side has gone.
async fn serve(
    fake: Fake,
    spec: ContainerSpec,
    mut state: watch::Receiver<State>,
    stdout: broadcast::Sender<String>,
    stream: DuplexStream,
) {
    let mut answers = stdout.subscribe();
    let (reader, mut writer) = tokio::io::split(stream);
    leave(&mut state, &State::Created).await;
    let mut orders = BufReader::new(reader).lines();
    let mut attached = true;
    loop {
        tokio::select! {
            () = leave(&mut state, &State::Running) => return,
            order = orders.next_line(), if attached => match order {
                Ok(Some(order)) => {
                    for answer in programs::answer(&fake, &spec, &order) {
                        // Nobody listens: as with a real container, the line goes to the log only.
                        let _unheard = stdout.send(answer);
                    }
                }
                // Detaching leaves stdin open for others.
                _ => attached = false,
            },
            answer = answers.recv() => {
                let Ok(mut answer) = answer else { return };
                answer.push('\n');
                if writer.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Waits until a container is in another state, or removed.
async fn leave(state: &mut watch::Receiver<State>, left: &State) {
    // An error: the sender is gone, with the container.
    let _gone = state.wait_for(|now| now != left).await;
}

impl Container {
    fn runs(&self) -> bool {
        *self.state.borrow() == State::Running
    }
}

fn refused(verb: &'static str, object: &str, refusal: Refusal, cause: &str) -> EngineError {
    EngineError::Refused {
        verb,
        object: object.to_owned(),
        status: 0,
        cause: cause.to_owned(),
        refusal,
    }
}

fn unreachable() -> EngineError {
    EngineError::Unreachable {
        endpoint: "memory".to_owned(),
        cause: "as the test asked".to_owned(),
        hint: "ask the test".to_owned(),
    }
}

#[cfg(test)]
mod tests;
