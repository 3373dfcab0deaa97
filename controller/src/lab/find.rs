//! Labs that are up, known from the labels of their objects alone: no state file, works after a killed controller.

use super::{Engines, Lab, LabError};
use crate::docker::{Object, Sort};
use crate::names::{Kind, LABEL_LAB, LABEL_OWNER, LABEL_PLAN, LabName, OWNER};
use crate::plan::Plan;
use crate::probe::ProbeClient;
use crate::relay::RelayClient;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{ProbeOrder, RelayOrder};

/// Limit of attaching to one container that runs already, and of its first answer.
const ATTACH: Duration = Duration::from_secs(5);

/// What is there of a lab, whole or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its name, as labelled.
    pub lab: String,
    /// Its objects.
    pub objects: Vec<Object>,
}

impl Found {
    /// The plan, from the label of its relays.
    ///
    /// # Errors
    /// No relay is left, or its label is not understood.
    pub fn plan(&self) -> Result<Plan, LabError> {
        let labelled = self.objects.iter().find_map(|object| {
            let plan = object.labels.get(LABEL_PLAN)?;
            Some((object, plan))
        });
        let Some((object, plan)) = labelled else {
            return Err(LabError::NotWhole {
                lab: self.lab.clone(),
                missing: vec!["its relays".to_owned()],
            });
        };
        Plan::from_label(plan).map_err(|error| LabError::BrokenPlan {
            lab: self.lab.clone(),
            container: object.name.clone(),
            cause: error.to_string(),
        })
    }

    /// State of a container of this lab (`None`: absent).
    #[must_use]
    pub fn state(&self, container: &str) -> Option<&str> {
        let object = self
            .objects
            .iter()
            .find(|object| object.sort == Sort::Container && object.name == container)?;
        Some(&object.state)
    }

    /// Containers of the plan that are absent or do not run, with their state.
    #[must_use]
    pub fn not_running(&self, plan: &Plan, kinds: &[Kind]) -> Vec<String> {
        let specs = plan.containers.iter().filter(|spec| kinds.contains(&spec.kind));
        specs
            .filter_map(|spec| match self.state(&spec.name) {
                Some("running") => None,
                Some(state) => Some(format!("{} is {state}", spec.name)),
                None => Some(format!("{} is absent", spec.name)),
            })
            .collect()
    }
}

/// Labels that all objects of a lab carry (`None`: of all labs).
#[must_use]
pub fn labels_of(lab: Option<&LabName>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(LABEL_OWNER.to_owned(), OWNER.to_owned())]);
    if let Some(lab) = lab {
        labels.insert(LABEL_LAB.to_owned(), lab.to_string());
    }
    labels
}

/// Everything of ours on the engines, by lab, in the order of names.
///
/// # Errors
/// An engine cannot list.
pub async fn labs(engines: &Engines) -> Result<Vec<Found>, LabError> {
    let mut labs: BTreeMap<String, Vec<Object>> = BTreeMap::new();
    for engine in engines.all() {
        for object in engine.list(&labels_of(None)).await? {
            // What belongs to no lab (an image being built) is somebody else's business.
            if let Some(lab) = object.labels.get(LABEL_LAB).cloned() {
                labs.entry(lab).or_default().push(object);
            }
        }
    }
    Ok(labs.into_iter().map(|(lab, objects)| Found { lab, objects }).collect())
}

/// The lab of this name, or the only one, whole or not.
///
/// # Errors
/// There is none, or several and none was named.
pub async fn choose(engines: &Engines, asked: Option<&LabName>) -> Result<Found, LabError> {
    let mut labs = labs(engines).await?;
    let up: Vec<String> = labs.iter().map(|found| found.lab.clone()).collect();
    match asked {
        Some(asked) => labs.into_iter().find(|found| found.lab == asked.as_str()),
        None if labs.len() > 1 => return Err(LabError::SeveralLabs { up }),
        None => labs.pop(),
    }
    .ok_or_else(|| LabError::NoLab {
        asked: asked.cloned(),
        up,
    })
}

/// Attaches to the lab of this name, or to the only one that is up. Its relays and probes must answer; whether the
/// servers are ready is not asked.
///
/// # Errors
/// There is no such lab, or several and none was named, or it is not whole.
pub async fn find(engines: &Engines, asked: Option<&LabName>) -> Result<Lab, LabError> {
    let found = choose(engines, asked).await?;
    attach(engines, &found).await
}

/// Attaches to what was found.
///
/// # Errors
/// It is not whole, or a relay or probe does not answer.
pub async fn attach(engines: &Engines, found: &Found) -> Result<Lab, LabError> {
    let plan = found.plan()?;
    let missing = found.not_running(&plan, &[Kind::Relay, Kind::Probe]);
    if !missing.is_empty() {
        return Err(LabError::NotWhole {
            lab: found.lab.clone(),
            missing,
        });
    }
    let relays = plan.datacenters.iter().map(|datacenter| async {
        let engine = engines.of(&datacenter.name).clone();
        let client = RelayClient::attach(engine, &datacenter.relay, ATTACH).await?;
        client.order_within(RelayOrder::Show, ATTACH).await?;
        Ok::<_, LabError>((datacenter.name.clone(), client))
    });
    let probes = plan.datacenters.iter().map(|datacenter| async {
        let engine = engines.of(&datacenter.name).clone();
        let client = ProbeClient::attach(engine, &datacenter.probe, ATTACH).await?;
        client.order(ProbeOrder::Hello, ATTACH).await?;
        Ok::<_, LabError>((datacenter.name.clone(), client))
    });
    let (relays, probes) = tokio::try_join!(
        futures_util::future::try_join_all(relays),
        futures_util::future::try_join_all(probes)
    )?;
    Ok(Lab {
        engines: engines.clone(),
        relays: relays.into_iter().collect(),
        probes: probes.into_iter().collect(),
        servers: Vec::new(),
        took: Duration::ZERO,
        was_up: true,
        mark: None,
        plan,
    })
}
