//! Removal: of a lab that is up, of what a failed `raise` made, of what an earlier command left. By label only.
//!
//! Never stops at the first failure: it goes on with the rest, tries again what can be tried again, and returns what is
//! still there. Containers first, since networks and volumes cannot go before them.

use super::{Engines, Lab, LabError, find};
use crate::docker::{EngineError, EngineHandle, Object, Sort};
use crate::names::{Kind, LABEL_DATACENTER, LABEL_KIND, LABEL_LAB};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Removals under way at once.
const AT_ONCE: usize = 16;
/// Rounds of listing and removing before what is left is reported.
const ROUNDS: u32 = 8;
/// Pause before the second round, doubled for each further one (6 s in all): a network can be in use for a moment after
/// its containers are gone.
const PAUSE: Duration = Duration::from_millis(50);

/// Limit of removing one object, waiting for what still uses it included; what takes longer is tried again.
const CALL: Duration = Duration::from_secs(90);
/// After this no further round begins: an engine that takes all of a call's limit each time would be waited for without end.
const LONGEST: Duration = Duration::from_secs(120);

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowered {
    /// Number of objects.
    pub removed: usize,
    /// How long it took.
    pub took: Duration,
}

/// An object that could not be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// What it is.
    pub sort: Sort,
    /// Docker name.
    pub name: String,
    /// The engine's last words on it.
    pub cause: String,
}

impl Left {
    /// As errors list them.
    pub(super) fn list(left: &[Self]) -> String {
        let each = left.iter().map(|left| {
            let sort = match left.sort {
                Sort::Container => "container",
                Sort::Network => "network",
                Sort::Volume => "volume",
            };
            format!("{sort} {} ({})", left.name, left.cause)
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

impl Lab {
    /// Removes the lab.
    ///
    /// # Errors
    /// What is still there, with reasons.
    pub async fn lower(self) -> Result<Lowered, LabError> {
        let lowered = sweep(&self.engines, &find::labels_of(Some(&self.plan.lab))).await?;
        self.stays().await;
        Ok(lowered)
    }

    /// Lets it live on after this process, however that ends: the reaper is told to forget it.
    pub async fn stays(&self) {
        if let Some(mark) = &self.mark {
            self.engines.forget(&mark.found_by()).await;
        }
    }
}

/// Removes everything that carries all of these labels; nothing there is success.
///
/// # Errors
/// What is still there, with reasons; an engine that cannot even list.
///
/// # Panics
/// Without labels: that would be everything.
pub async fn sweep(engines: &Engines, labels: &BTreeMap<String, String>) -> Result<Lowered, LabError> {
    assert!(!labels.is_empty(), "a removal names at least one label");
    let begun = Instant::now();
    let mut removed = 0;
    let mut left = Vec::new();
    let mut silent = None;
    for engine in engines.all() {
        match sweep_engine(&engine, labels).await {
            Ok((gone, remaining)) => {
                removed += gone;
                left.extend(remaining);
            }
            Err(error) => silent = Some(error),
        }
    }
    match silent {
        Some(error) => Err(error),
        None if left.is_empty() => Ok(Lowered {
            removed,
            took: begun.elapsed(),
        }),
        None => Err(LabError::Left(left)),
    }
}

/// Lists and removes until a list is empty: what a call under way still made is seen by the next one.
async fn sweep_engine(
    engine: &EngineHandle,
    labels: &BTreeMap<String, String>,
) -> Result<(usize, Vec<Left>), LabError> {
    let mut removed = 0;
    let mut pause = PAUSE;
    let mut left = Vec::new();
    let mut silent: Option<LabError> = None;
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        if begun.elapsed() > LONGEST {
            break;
        }
        // Without a failure the next list follows at once.
        if silent.is_some() || !left.is_empty() {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        let listed = match answered("list", engine.list(labels)).await {
            Ok(listed) => listed,
            Err(error) => {
                silent = Some(error);
                continue;
            }
        };
        silent = None;
        if listed.is_empty() {
            return Ok((removed, Vec::new()));
        }
        let wanted = listed.len();
        let (containers, others): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|object| object.sort == Sort::Container);
        left = remove_containers(engine, containers).await;
        left.extend(remove_all(engine, others).await);
        removed += wanted - left.len();
    }
    silent.map_or(Ok((removed, left)), Err)
}

async fn answered<T>(object: &str, call: impl Future<Output = Result<T, EngineError>>) -> Result<T, LabError> {
    match tokio::time::timeout(CALL, call).await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(LabError::NotReady {
            what: format!("{object} (the engine's answer)"),
            waited: CALL,
            last: "no answer".to_owned(),
        }),
    }
}

/// Removes containers, those that share a network one after another: engines (20.10 was seen to) can lose count of the endpoints
/// of a network from which several containers go at the same moment, and then keep that network until they are restarted.
/// Datacenters have networks of their own; relays stand in a further one, and go last.
async fn remove_containers(engine: &EngineHandle, containers: Vec<Object>) -> Vec<Left> {
    let label = |object: &Object, name: &str| object.labels.get(name).cloned().unwrap_or_default();
    let (relays, others): (Vec<_>, Vec<_>) = containers
        .into_iter()
        .partition(|object| label(object, LABEL_KIND) == Kind::Relay.as_str());
    let mut left = remove_in_lanes(engine, others, |object| {
        (label(object, LABEL_LAB), label(object, LABEL_DATACENTER))
    })
    .await;
    left.extend(remove_in_lanes(engine, relays, |object| label(object, LABEL_LAB)).await);
    left
}

/// Removes objects of one lane one after another, and lanes at once.
async fn remove_in_lanes<L: Ord>(
    engine: &EngineHandle,
    objects: Vec<Object>,
    lane_of: impl Fn(&Object) -> L,
) -> Vec<Left> {
    let mut lanes: BTreeMap<L, Vec<Object>> = BTreeMap::new();
    for object in objects {
        lanes.entry(lane_of(&object)).or_default().push(object);
    }
    let lanes = lanes.into_values().map(|lane| async move {
        let mut left = Vec::new();
        for object in lane {
            left.extend(remove(engine, object).await);
        }
        left
    });
    let left = futures_util::stream::iter(lanes).buffer_unordered(AT_ONCE);
    left.collect::<Vec<_>>().await.concat()
}

async fn remove_all(engine: &EngineHandle, objects: Vec<Object>) -> Vec<Left> {
    let removals = objects.into_iter().map(|object| remove(engine, object));
    let outcomes = futures_util::stream::iter(removals).buffer_unordered(AT_ONCE);
    outcomes.filter_map(std::future::ready).collect().await
}

/// Removes an object; what is left of it, if it could not.
async fn remove(engine: &EngineHandle, object: Object) -> Option<Left> {
    let error = answered(&object.name, engine.remove(&object)).await.err()?;
    Some(Left {
        sort: object.sort,
        name: object.name,
        cause: error.to_string(),
    })
}
