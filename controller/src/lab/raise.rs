//! Makes a lab whole or not at all. Networks and volumes first, then all containers at once, each with the conditions
//! that its start waits for; a failure or a wish to stop lets calls under way end and then removes what was made.
//!
//! Relays and primaries run before replicas start: Redis tries a refused or lost first connection again only after a
//! second. Nodes of a cluster start at once and are brought together by `form`. What this call made is known by a label of its
//! own, so that a lab of the same name is never touched.

mod mirrors;
mod sets;

use super::form::Forming;
use super::mark::{Mark, held};
use super::ready::{Asker, Bounds, is_primary_of_a_set};
use super::{Engines, Lab, LabError, lower};
use crate::channel::ChannelError;
use crate::docker::{EngineError, EngineHandle};
use crate::history::ServerSeen;
use crate::names::{DatacenterName, Kind, NodeName};
use crate::plan::{ContainerSpec, NetworkSpec, Plan, PlannedApplication, PlannedNode, VolumeSpec};
use crate::probe::ProbeClient;
use crate::progress::Progress;
use crate::relay::RelayClient;
use crate::stop::Stop;
use crate::topology::Role;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use ipnet::Ipv4Net;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SetOnce};
use tokio::time::timeout_at;
use wire::{AWAKE_DEVICE, ProbeOrder, RelayOrder};

/// Engine calls under way at once.
const AT_ONCE: usize = 12;
/// How long an engine call that has outlived the deadline is still waited for, to know what it made.
const LATE: Duration = Duration::from_secs(60);
/// Plans tried before a refused subnet is an error: others would have to take subnets as fast as we plan, many at once.
const PLANS: u32 = 20;

/// Makes a lab and waits until it is ready. Then the schedules of its links begin.
///
/// # Errors
/// The first failure, after everything that was made is gone again; or the failure and what could not be removed.
pub async fn raise(
    engines: Engines,
    plan: Plan,
    progress: &Progress,
    stop: &Stop,
    limit: Duration,
) -> Result<Lab, LabError> {
    let mark = Mark::new(engines.life());
    stop.advise(format!("`testbed down -p {}` removes what was made", plan.lab));
    let site = Site::new(&engines, &plan, progress, Bounds::from_now(limit));
    let marked = mark.stamped(&plan);
    let name = mark.name_of(&plan);
    engines.watch(&mark.found_by()).await;
    let outcome = {
        let mut work = std::pin::pin!(site.build(&name, &marked));
        tokio::select! {
            outcome = &mut work => outcome,
            signal = stop.stopped() => {
                site.bounds.halt.cancel();
                // Calls under way end first: what they make must be known to be removed.
                let _ = work.await;
                Err(LabError::Stopped(signal))
            }
        }
    };
    match outcome {
        Ok(()) => {
            let took = site.bounds.begun.elapsed();
            let Finished {
                relays,
                probes,
                servers,
            } = site.finished();
            let lab = Lab {
                relays,
                probes,
                servers,
                took,
                was_up: false,
                mark: Some(mark.clone()),
                engines,
                plan,
            };
            match lab.play_planned().await {
                Ok(0) => Ok(lab),
                Ok(links) => {
                    progress.step(format_args!("the schedules of {links} directed links begin"));
                    Ok(lab)
                }
                Err(cause) => Err(removed(&lab.engines, &mark, cause, progress).await),
            }
        }
        Err(cause) => Err(removed(&engines, &mark, cause, progress).await),
    }
}

/// Removes what a call made that failed; what is to be told of it.
async fn removed(engines: &Engines, mark: &Mark, cause: LabError, progress: &Progress) -> LabError {
    progress.step("failed: removing what was made");
    match lower::sweep(engines, &mark.found_by()).await {
        Ok(_) => {
            engines.forget(&mark.found_by()).await;
            cause
        }
        Err(LabError::Left(left)) => LabError::FailedAndLeft {
            cause: Box::new(cause),
            left,
        },
        Err(silent) => LabError::FailedAndUnknown {
            cause: Box::new(cause),
            silent: Box::new(silent),
        },
    }
}

/// Raises what `plan` gives for the subnets that are taken. Somebody else can take a subnet between plan and call: then
/// the next plan avoids it, a bounded number of times.
///
/// # Errors
/// There is no plan, or as [`raise`].
pub async fn raise_on_free_subnets<E: From<LabError>>(
    engines: &Engines,
    mut plan: impl FnMut(&[Ipv4Net]) -> Result<Plan, E>,
    progress: &Progress,
    stop: &Stop,
    limit: Duration,
) -> Result<Lab, E> {
    let mut refused: Vec<Ipv4Net> = Vec::new();
    for left in (0..PLANS).rev() {
        let there = engines.subnets().await.map_err(LabError::from)?;
        let plan = match plan(&[there.as_slice(), &refused].concat()) {
            // What was refused once may be free by now: two who wanted the same have both let go of it.
            Err(_) if !refused.is_empty() => {
                refused.clear();
                plan(&there)?
            }
            planned => planned?,
        };
        let subnets: Vec<Ipv4Net> = plan.networks.iter().map(|network| network.subnet).collect();
        match raise(engines.clone(), plan, progress, stop, limit).await {
            Err(error) if error.is_overlap() && left > 0 => {
                progress.step("a subnet was taken meanwhile: planning again");
                refused.extend(subnets);
                // So that two who refused each other do not meet again.
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..500))).await;
            }
            outcome => return Ok(outcome?),
        }
    }
    unreachable!("the last plan is raised or its error returned")
}

/// A part of the work; all parts of a phase run at once.
type Step<'a, T> = BoxFuture<'a, Result<T, LabError>>;

/// What talks to a container that was made but does not run yet.
enum Client<'a> {
    Relay(&'a DatacenterName, RelayClient),
    Probe(&'a DatacenterName, ProbeClient),
    /// A server: it is asked by a probe.
    Node(&'a PlannedNode),
    /// A container of the user's own.
    Application(&'a PlannedApplication),
}

async fn last_words(engines: &Engines, spec: &ContainerSpec) -> String {
    super::ready::words(engines.of_labels(&spec.labels), &spec.name).await
}

/// Where a lab is being made: what there is so far, and what others wait for.
struct Site<'a> {
    engines: &'a Engines,
    plan: &'a Plan,
    progress: &'a Progress,
    bounds: Bounds,
    calls: Semaphore,
    /// Containers whose start the engine has confirmed, by Docker name.
    started: BTreeMap<String, SetOnce<()>>,
    relays: BTreeMap<DatacenterName, SetOnce<RelayClient>>,
    probes: BTreeMap<DatacenterName, SetOnce<ProbeClient>>,
    servers: BTreeMap<NodeName, SetOnce<ServerSeen>>,
    forming: Forming,
}

impl<'a> Site<'a> {
    fn new(engines: &'a Engines, plan: &'a Plan, progress: &'a Progress, bounds: Bounds) -> Self {
        let datacenters = || plan.datacenters.iter().map(|datacenter| datacenter.name.clone());
        let containers = plan.containers.iter();
        Self {
            engines,
            plan,
            progress,
            bounds,
            calls: Semaphore::new(AT_ONCE),
            started: containers.map(|spec| (spec.name.clone(), SetOnce::new())).collect(),
            relays: datacenters().map(|name| (name, SetOnce::new())).collect(),
            probes: datacenters().map(|name| (name, SetOnce::new())).collect(),
            servers: plan
                .nodes
                .iter()
                .map(|node| (node.name.clone(), SetOnce::new()))
                .collect(),
            forming: Forming::new(plan),
        }
    }

    async fn build(&self, name: &VolumeSpec, stamped: &Plan) -> Result<(), LabError> {
        // Alone and first: where two raise one lab at once, one of them has it.
        if let Err(error) = self.volume(name).await {
            return Err(match error.is_taken() {
                true => held(self.engines, &self.plan.lab, error).await,
                false => error,
            });
        }
        let networks = stamped.networks.iter().map(|spec| self.network(spec));
        let volumes = stamped.volumes.iter().map(|spec| self.volume(spec));
        let ids: BTreeMap<String, String> = self
            .together(networks.chain(volumes))
            .await?
            .into_iter()
            .flatten()
            .collect();
        self.progress.step(format_args!("{} networks made", ids.len()));

        let containers = stamped.containers.iter().map(|spec| self.container(spec, &ids));
        self.together(containers).await?;
        let (containers, servers) = (stamped.containers.len(), self.servers.len());
        self.progress
            .step(format_args!("{containers} containers run, {servers} servers answer"));

        let primaries = self.plan.nodes.iter().filter(|node| is_primary_of_a_set(node));
        let sets = primaries.map(|primary| -> Step<'_, ()> { Box::pin(self.acknowledged(primary)) });
        let clusters = self.plan.clusters().into_iter();
        let clusters = clusters.map(|cluster| -> Step<'_, ()> { Box::pin(self.placed(cluster)) });
        self.together(sets.chain(clusters)).await?;
        let sentinels = self.plan.nodes.iter();
        let sentinels = sentinels.filter(|node| matches!(node.role, Role::SentinelOf(_)));
        self.together(sentinels.map(|node| -> Step<'_, ()> { Box::pin(self.watching(node)) }))
            .await?;
        Ok(())
    }

    /// Runs all steps at once; after the first failure the others are waited for, since what they make must be known.
    async fn together<'s, T>(&self, steps: impl Iterator<Item = Step<'s, T>>) -> Result<Vec<T>, LabError> {
        let mut running: FuturesUnordered<Step<'s, T>> = steps.collect();
        let mut done = Vec::new();
        let mut first = None;
        while let Some(outcome) = running.next().await {
            match outcome {
                Ok(value) => done.push(value),
                Err(error) => {
                    self.bounds.halt.cancel();
                    if matches!(first, None | Some(LabError::Abandoned)) {
                        first = Some(error);
                    }
                }
            }
        }
        first.map_or(Ok(done), Err)
    }

    fn network<'s>(&'s self, spec: &'s NetworkSpec) -> Step<'s, Option<(String, String)>> {
        Box::pin(async move {
            let engine = self.engines.of_labels(&spec.labels);
            let made = self.call(&spec.name, engine.create_network(spec)).await?;
            Ok(Some((spec.name.clone(), made.id)))
        })
    }

    fn volume<'s>(&'s self, spec: &'s VolumeSpec) -> Step<'s, Option<(String, String)>> {
        Box::pin(async move {
            let engine = self.engines.of_labels(&spec.labels);
            self.call(&spec.name, engine.create_volume(spec)).await?;
            Ok(None)
        })
    }

    fn container<'s>(&'s self, spec: &'s ContainerSpec, networks: &'s BTreeMap<String, String>) -> Step<'s, ()> {
        Box::pin(async move {
            let engine = self.engines.of_labels(&spec.labels);
            let client = self.run(engine, spec, networks).await?;
            set(self.started.get(&spec.name), ());
            match client {
                Client::Relay(name, client) => {
                    let first = client.order_within(RelayOrder::Show, self.bounds.left());
                    self.first_answer(spec, first).await?;
                    self.mirrored(name, &client).await?;
                    set(self.relays.get(name), client);
                }
                Client::Probe(name, client) => {
                    let first = client.order(ProbeOrder::Hello, self.bounds.left());
                    self.first_answer(spec, first).await?;
                    set(self.probes.get(name), client);
                }
                Client::Node(node) => {
                    let probe = self.wait(self.probes.get(&node.datacenter)).await?;
                    let asker = self.asker(probe);
                    let seen = asker.server(node, &self.bounds).await?;
                    self.forming.join(&asker, node, &self.bounds).await?;
                    set(self.servers.get(&node.name), seen);
                }
                Client::Application(application) => {
                    let probe = self.wait(self.probes.get(&application.datacenter)).await?;
                    self.asker(probe).application(application, &self.bounds).await?;
                }
            }
            tracing::debug!("{}: ready after {:.3?}", spec.name, self.bounds.begun.elapsed());
            Ok(())
        })
    }

    /// Makes a container and starts it in its turn. On an engine whose machine lacks a device that is of use and not
    /// needed, without it.
    async fn run(
        &self,
        engine: &EngineHandle,
        spec: &ContainerSpec,
        networks: &BTreeMap<String, String>,
    ) -> Result<Client<'a>, LabError> {
        let made = self.call(&spec.name, engine.create_container(spec, networks)).await?;
        // Attached before its start, so that the end of a program that fails at once is seen: an attachment to a
        // container that has ended already would wait for its next start.
        let client = self.attach(spec).await?;
        self.turn(spec).await?;
        let refused = match self.call(&spec.name, engine.start(&made.id)).await {
            Ok(()) => return Ok(client),
            Err(error) if error.to_string().contains(AWAKE_DEVICE) => error,
            Err(error) => return Err(error),
        };
        tracing::warn!("the relay's machine cannot keep its cores awake, and delays are less exact: {refused}");
        self.call(&spec.name, engine.remove(&made)).await?;
        let mut spec = spec.clone();
        spec.devices.retain(|device| device != AWAKE_DEVICE);
        let made = self.call(&spec.name, engine.create_container(&spec, networks)).await?;
        let client = self.attach(&spec).await?;
        self.call(&spec.name, engine.start(&made.id)).await?;
        Ok(client)
    }

    async fn attach(&self, spec: &ContainerSpec) -> Result<Client<'a>, LabError> {
        let engine = Arc::clone(self.engines.of_labels(&spec.labels));
        let mut datacenters = self.plan.datacenters.iter();
        match spec.kind {
            Kind::Relay => {
                let datacenter = datacenters.find(|datacenter| datacenter.relay == spec.name);
                let name = &datacenter.expect("a relay belongs to a datacenter").name;
                let client = RelayClient::attach(engine, &spec.name, self.bounds.left()).await?;
                Ok(Client::Relay(name, client))
            }
            Kind::Probe => {
                let datacenter = datacenters.find(|datacenter| datacenter.probe == spec.name);
                let name = &datacenter.expect("a probe belongs to a datacenter").name;
                let client = ProbeClient::attach(engine, &spec.name, self.bounds.left()).await?;
                Ok(Client::Probe(name, client))
            }
            Kind::Application => {
                let mut applications = self.plan.applications.iter();
                let application = applications.find(|application| application.container == spec.name);
                Ok(Client::Application(application.expect("an application is in the plan")))
            }
            _ => {
                let node = self.plan.nodes.iter().find(|node| node.container == spec.name);
                Ok(Client::Node(node.expect("what is neither relay nor probe is a node")))
            }
        }
    }

    /// The first answer says that a program is ready; if there is none in time, its log may say why.
    async fn first_answer<T>(
        &self,
        spec: &ContainerSpec,
        answer: impl Future<Output = Result<T, ChannelError>>,
    ) -> Result<(), LabError> {
        match self.unless_halted(answer).await? {
            Ok(_) => Ok(()),
            Err(silent @ ChannelError::Deadline { .. }) => Err(LabError::NotReady {
                what: format!("{} (it answers orders)", spec.name),
                waited: self.bounds.begun.elapsed(),
                last: format!("failed to {silent}; {}", last_words(self.engines, spec).await),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until a container may start: relays at once, servers and probes behind them, a replica when what it
    /// replicates from is ready and the relays on its way are.
    async fn turn(&self, spec: &ContainerSpec) -> Result<(), LabError> {
        if spec.kind == Kind::Relay {
            return Ok(());
        }
        for relay in self.plan.datacenters.iter().map(|datacenter| &datacenter.relay) {
            self.wait(self.started.get(relay)).await?;
        }
        if spec.kind == Kind::Application {
            // It finds its servers there, as it would in a datacenter that is in use.
            for server in self.servers.values() {
                self.wait(Some(server)).await?;
            }
        }
        let node = self.plan.nodes.iter().find(|node| node.container == spec.name);
        let of_a_set = node.filter(|node| node.cluster.is_none());
        if let Some(Role::ReplicaOf(upstream)) = of_a_set.map(|node| &node.role) {
            for relay in self.relays.values() {
                self.wait(Some(relay)).await?;
            }
            self.wait(self.servers.get(upstream)).await?;
        }
        if let Some(Role::SentinelOf(primary)) = node.map(|node| &node.role) {
            // It asks the primary once at its start who its replicas are, and then every ten seconds.
            let replica = |node: &&PlannedNode| matches!(&node.role, Role::ReplicaOf(of) if of == primary);
            let set = self.plan.nodes.iter().filter(replica).map(|node| &node.name);
            for name in set.chain([primary]) {
                self.wait(self.servers.get(name)).await?;
            }
        }
        Ok(())
    }

    fn asker(&self, probe: &'a ProbeClient) -> Asker<'_> {
        Asker {
            plan: self.plan,
            engines: self.engines,
            probe,
        }
    }

    /// An engine call in its turn. It is not broken off when something else fails: what it makes must be known.
    async fn call<T>(&self, object: &str, call: impl Future<Output = Result<T, EngineError>>) -> Result<T, LabError> {
        let turn = self.unless_halted(self.calls.acquire()).await?;
        let _turn = turn.expect("the queue of calls is never closed");
        if self.bounds.halt.is_cancelled() {
            return Err(LabError::Abandoned);
        }
        let begun = self.bounds.begun.elapsed();
        let mut call = std::pin::pin!(call);
        let outcome = timeout_at(self.bounds.deadline, &mut call).await;
        if outcome.is_err() {
            // The engine goes on with what it was asked to make, and a removal that comes before would miss it.
            let _ = tokio::time::timeout(LATE, call).await;
        }
        let ended = self.bounds.begun.elapsed();
        tracing::debug!("{object}: engine call from {begun:.3?} to {ended:.3?}");
        match outcome {
            // By its name: ids mean nothing to people.
            Ok(outcome) => Ok(outcome.map_err(|error| error.about(object))?),
            Err(_) => Err(LabError::NotReady {
                what: format!("{object} (the engine's answer)"),
                waited: self.bounds.begun.elapsed(),
                last: "no answer".to_owned(),
            }),
        }
    }

    async fn wait<'s, T>(&self, awaited: Option<&'s SetOnce<T>>) -> Result<&'s T, LabError> {
        let awaited = awaited.expect("what is waited for is in the plan");
        self.unless_halted(awaited.wait()).await
    }

    async fn unless_halted<T>(&self, work: impl Future<Output = T>) -> Result<T, LabError> {
        tokio::select! {
            biased;
            () = self.bounds.halt.cancelled() => Err(LabError::Abandoned),
            outcome = work => Ok(outcome),
        }
    }

    /// What a finished site leaves behind.
    fn finished(self) -> Finished {
        fn all<K: Ord, V>(of: BTreeMap<K, SetOnce<V>>) -> BTreeMap<K, V> {
            let taken = of.into_iter();
            taken
                .map(|(name, value)| (name, value.into_inner().expect("a finished site has everything")))
                .collect()
        }
        let mut servers = all(self.servers);
        let nodes = self.plan.nodes.iter();
        Finished {
            relays: all(self.relays),
            probes: all(self.probes),
            servers: nodes.filter_map(|node| servers.remove(&node.name)).collect(),
        }
    }
}

struct Finished {
    relays: BTreeMap<DatacenterName, RelayClient>,
    probes: BTreeMap<DatacenterName, ProbeClient>,
    servers: Vec<ServerSeen>,
}

fn set<T>(slot: Option<&SetOnce<T>>, value: T) {
    let slot = slot.expect("what is made is in the plan");
    assert!(slot.set(value).is_ok(), "everything is made once");
}
