//! Faults of nodes: paused, killed, stopped, and the way back. Who is meant is found by the labels of the lab's
//! containers, so nothing of others and no other lab can be met; everything that is wrong is said before anything is done.
//!
//! Relays only when they are named (`relay.dc1`): a border router that dies is a fault of its own, which a cut of its links
//! is not. Probes never: they are the instrument.

use super::{Found, Lab, LabError, choose};
use crate::docker::{EngineError, Faults, Sort};
use crate::names::{DatacenterName, Kind, LABEL_KIND, NodeName, spoken};
use crate::stop::{Signal, Stop};
use std::time::Duration;

/// What is done to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Its processes stand still, its connections stay open.
    Pause,
    /// The end of a pause.
    Resume,
    /// SIGKILL.
    Kill,
    /// SIGTERM, and SIGKILL after the grace.
    Stop {
        /// How long it may take to end by itself.
        grace: Duration,
    },
    /// It is started again, with the state that it kept.
    Start,
}

/// A container that a fault is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As the lab calls it: a node's name, or `relay.dc1`.
    pub name: String,
    /// The engine's id.
    pub container: String,
}

/// Why a fault was not done, or not undone.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// Names that mean nothing here; nothing was done.
    #[error("{verb} in lab {lab}: {}", .problems.join("; "))]
    Unknown {
        /// The verb.
        verb: &'static str,
        /// The lab.
        lab: String,
        /// One per name.
        problems: Vec<String>,
        /// What the lab has.
        known: Vec<String>,
    },
    /// Nodes that are in no state for it; nothing was done.
    #[error("{verb} in lab {lab}: {}", .problems.join("; "))]
    State {
        /// The verb.
        verb: &'static str,
        /// The lab.
        lab: String,
        /// One per node.
        problems: Vec<String>,
        /// The next step.
        hint: &'static str,
    },
    /// The engine refused some of it.
    #[error("{}", listed(.0))]
    Engine(Vec<EngineError>),
    /// It was done, and could not be undone.
    #[error("put back what was done: {}", listed(.0))]
    Left(Vec<EngineError>),
}

fn listed(errors: &[EngineError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Fault {
    /// The word on the command line.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Kill => "kill",
            Self::Stop { .. } => "stop",
            Self::Start => "start",
        }
    }

    /// What takes it back.
    #[must_use]
    pub fn undo(self) -> Self {
        match self {
            Self::Pause => Self::Resume,
            Self::Resume => Self::Pause,
            Self::Kill | Self::Stop { .. } => Self::Start,
            Self::Start => Self::Stop {
                grace: Duration::from_secs(10),
            },
        }
    }

    /// Whether a container in this state can have it; else the next step.
    fn possible(self, state: &str) -> Result<(), &'static str> {
        match (self, state) {
            (Self::Pause | Self::Kill | Self::Stop { .. }, "running")
            | (Self::Resume, "paused")
            | (Self::Start, "created" | "exited") => Ok(()),
            (_, "paused") => Err("testbed fault resume NODE ends a pause"),
            (_, "running") => Err("testbed ps shows what each node is"),
            _ => Err("testbed fault start NODE starts it again"),
        }
    }
}

impl Found {
    /// The containers of these names, each in a state for the fault.
    ///
    /// # Errors
    /// All names that mean nothing, or all nodes that are in no state for it.
    pub fn targets(&self, fault: Fault, asked: &[String]) -> Result<Vec<Target>, FaultError> {
        let containers = self.objects.iter().filter(|object| object.sort == Sort::Container);
        let named: Vec<_> = containers
            .filter_map(|object| Some((spoken(&object.labels)?, object)))
            .collect();
        let probe = |labels: &std::collections::BTreeMap<String, String>| {
            labels.get(LABEL_KIND).map(String::as_str) == Some(Kind::Probe.as_str())
        };
        let (mut targets, mut unknown, mut unfit, mut hint) = (Vec::new(), Vec::new(), Vec::new(), None);
        for name in asked {
            match named.iter().find(|(known, _)| known == name) {
                None => unknown.push(format!("{name}: there is no such node")),
                Some((_, object)) if probe(&object.labels) => {
                    unknown.push(format!(
                        "{name}: a probe is the instrument, and no part of what is tried"
                    ));
                }
                Some((_, object)) => {
                    if let Err(next) = fault.possible(&object.state) {
                        unfit.push(format!("{name} is {}", object.state));
                        hint.get_or_insert(next);
                    }
                    let target = Target {
                        name: name.clone(),
                        container: object.id.clone(),
                    };
                    if !targets.contains(&target) {
                        targets.push(target);
                    }
                }
            }
        }
        let (verb, lab) = (fault.verb(), self.lab.clone());
        if !unknown.is_empty() {
            let mut known: Vec<String> = named
                .iter()
                .filter(|(_, object)| !probe(&object.labels))
                .map(|(name, _)| name.clone())
                .collect();
            known.sort();
            unknown.extend(unfit);
            return Err(FaultError::Unknown {
                verb,
                lab,
                problems: unknown,
                known,
            });
        }
        match hint {
            None => Ok(targets),
            Some(hint) => Err(FaultError::State {
                verb,
                lab,
                problems: unfit,
                hint,
            }),
        }
    }
}

impl Lab {
    /// Lets these nodes of a datacenter stand still, their connections open.
    ///
    /// # Errors
    /// One does not run, or the engine refused; the others stand still.
    pub async fn pause(&self, datacenter: &DatacenterName, nodes: &[NodeName]) -> Result<(), LabError> {
        self.inflict(Fault::Pause, datacenter, nodes).await
    }

    /// Lets those of these nodes of a datacenter go on that stand still, and says which.
    ///
    /// # Errors
    /// The engine refused; the others go on.
    pub async fn resume(&self, datacenter: &DatacenterName, nodes: &[NodeName]) -> Result<Vec<NodeName>, LabError> {
        let found = choose(&self.engines, Some(self.name())).await?;
        let paused = |node: &&NodeName| found.state(&self.node(node).container) == Some("paused");
        let paused: Vec<NodeName> = nodes.iter().filter(paused).cloned().collect();
        self.inflict(Fault::Resume, datacenter, &paused).await?;
        Ok(paused)
    }

    async fn inflict(&self, fault: Fault, datacenter: &DatacenterName, nodes: &[NodeName]) -> Result<(), LabError> {
        let asked: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        let found = choose(&self.engines, Some(self.name())).await?;
        let targets = found.targets(fault, &asked)?;
        Ok(inflict(self.engines.of(datacenter).as_ref(), fault, &targets).await?)
    }
}

/// Does it to all of them at once.
///
/// # Errors
/// What the engine refused; the others have it.
pub async fn inflict(engine: &dyn Faults, fault: Fault, targets: &[Target]) -> Result<(), FaultError> {
    let failed: Vec<EngineError> = each(engine, fault, targets)
        .await
        .into_iter()
        .filter_map(Result::err)
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(FaultError::Engine(failed))
    }
}

/// Does it for a time, or until somebody asks to stop, and takes it back, also when some of it was refused; who asked.
/// `done` is told when it has been done.
///
/// # Errors
/// What the engine refused, or what could not be taken back.
pub async fn hold(
    engine: &dyn Faults,
    fault: Fault,
    targets: &[Target],
    time: Duration,
    stop: &Stop,
    done: impl FnOnce(),
) -> Result<Option<Signal>, FaultError> {
    let outcomes = each(engine, fault, targets).await;
    let (mut failed, mut changed) = (Vec::new(), Vec::new());
    for (target, outcome) in targets.iter().zip(outcomes) {
        // After an answer that was lost it may have been done; one that refused has not.
        if !matches!(outcome, Err(EngineError::Refused { .. })) {
            changed.push(target.clone());
        }
        failed.extend(outcome.err());
    }
    let mut asked = None;
    if failed.is_empty() {
        done();
        asked = tokio::select! {
            () = tokio::time::sleep(time) => None,
            signal = stop.stopped() => Some(signal),
        };
    }
    let left = each(engine, fault.undo(), &changed).await;
    let left: Vec<EngineError> = left.into_iter().filter_map(Result::err).collect();
    if !failed.is_empty() {
        failed.extend(left);
        return Err(FaultError::Engine(failed));
    }
    if left.is_empty() {
        Ok(asked)
    } else {
        Err(FaultError::Left(left))
    }
}

async fn each(engine: &dyn Faults, fault: Fault, targets: &[Target]) -> Vec<Result<(), EngineError>> {
    let calls = targets.iter().map(|target| async move {
        let container = &target.container;
        let done = match fault {
            Fault::Pause => engine.pause(container).await,
            Fault::Resume => engine.resume(container).await,
            Fault::Kill => engine.kill(container).await,
            Fault::Stop { grace } => engine.stop(container, grace).await,
            Fault::Start => engine.start(container).await,
        };
        done.map_err(|error| error.about(&target.name))
    });
    futures_util::future::join_all(calls).await
}
