//! What a call that raises a lab writes on every object: a number of its own, its process, and whether the object ends with
//! that process. By the number a failed call removes its own work and nothing else, and the reaper that of a killed one; by the
//! process others see who holds a lab, and remove what belongs to one that is dead.

use super::{Engines, Found, LabError, Lowered, find, lower};
use crate::controller::{Controller, Fate};
use crate::docker::{Object, Sort};
use crate::names::{
    Kind, LABEL_CONTROLLER, LABEL_ENDS, LABEL_KIND, LABEL_LAB, LABEL_RAISE, LABEL_RUN, LABEL_TOPOLOGY, LabName,
    WITH_CONTROLLER, name_volume,
};
use crate::plan::{Plan, VolumeSpec};
use std::collections::{BTreeMap, BTreeSet};

/// How long a lab lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Life {
    /// Until it is removed.
    #[default]
    OfItsOwn,
    /// As long as the process that raised it.
    OfController,
}

/// The labels of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    labels: BTreeMap<String, String>,
}

impl Mark {
    /// A new one.
    pub(super) fn new(life: Life) -> Self {
        let mut labels = BTreeMap::from([
            (LABEL_RAISE.to_owned(), format!("{:016x}", fastrand::u64(..))),
            (LABEL_CONTROLLER.to_owned(), Controller::own().label()),
        ]);
        if life == Life::OfController {
            labels.insert(LABEL_ENDS.to_owned(), WITH_CONTROLLER.to_owned());
        }
        Self { labels }
    }

    /// The label by which everything of this call is found.
    pub(super) fn found_by(&self) -> BTreeMap<String, String> {
        let number = self.labels.get_key_value(LABEL_RAISE);
        number
            .map(|(key, value)| (key.clone(), value.clone()))
            .into_iter()
            .collect()
    }

    /// Writes it on an object.
    pub(super) fn stamp(&self, labels: &mut BTreeMap<String, String>) {
        labels.extend(self.labels.clone());
    }

    /// The plan with it on every object.
    pub(super) fn stamped(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        let networks = plan.networks.iter_mut().map(|network| &mut network.labels);
        let volumes = plan.volumes.iter_mut().map(|volume| &mut volume.labels);
        let containers = plan.containers.iter_mut().map(|container| &mut container.labels);
        networks
            .chain(volumes)
            .chain(containers)
            .for_each(|labels| self.stamp(labels));
        plan
    }

    /// The volume that is the lab's name. Engines answer the second who makes a volume with the one that is there, and its
    /// labels say whose it is; a name of a network can be given twice, and two who make several networks at once would each
    /// get some.
    pub(super) fn name_of(&self, plan: &Plan) -> VolumeSpec {
        let mut labels = find::labels_of(Some(&plan.lab));
        labels.insert(LABEL_KIND.to_owned(), Kind::Name.as_str().to_owned());
        let network = plan.networks.first().map(|network| &network.labels);
        for label in [LABEL_TOPOLOGY, LABEL_RUN] {
            if let Some(value) = network.and_then(|labels| labels.get(label)) {
                labels.insert(label.to_owned(), value.clone());
            }
        }
        self.stamp(&mut labels);
        VolumeSpec {
            name: name_volume(&plan.lab),
            labels,
        }
    }
}

impl Found {
    /// The process that raised it, if its objects tell.
    #[must_use]
    pub fn controller(&self) -> Option<Controller> {
        controller_of(&self.objects)
    }

    /// The error of one who finds it in the making, or half gone, by a process that lives (`None`: there is no such).
    #[must_use]
    pub fn held(&self, lab: &LabName) -> Option<LabError> {
        let by = self.controller()?;
        (by.fate() == Fate::Alive && by != *Controller::own()).then(|| LabError::Held {
            lab: lab.clone(),
            by: Box::new(by),
            fate: Fate::Alive,
            running: true,
        })
    }
}

fn controller_of(objects: &[Object]) -> Option<Controller> {
    // The name is made first: where two meet, it is the winner's.
    let name = |object: &&Object| object.labels.get(LABEL_KIND).map(String::as_str) == Some(Kind::Name.as_str());
    let named = objects.iter().find(name);
    let label = |object: &Object| Controller::from_label(object.labels.get(LABEL_CONTROLLER)?);
    named.and_then(label).or_else(|| objects.iter().find_map(label))
}

/// The error of one who finds the name of a lab taken, as far as the engine can tell by whom.
pub(super) async fn held(engines: &Engines, lab: &LabName, refused: LabError) -> LabError {
    let mut objects = Vec::new();
    for engine in engines.all() {
        match engine.list(&find::labels_of(Some(lab))).await {
            Ok(listed) => objects.extend(listed),
            Err(_) => return refused,
        }
    }
    let Some(by) = controller_of(&objects) else {
        return refused;
    };
    let running = objects.iter().any(|object| object.sort == Sort::Container);
    LabError::Held {
        lab: lab.clone(),
        fate: by.fate(),
        by: Box::new(by),
        running,
    }
}

/// A lab that outlived its controller and should not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphans {
    /// The labs.
    pub labs: BTreeSet<String>,
    /// What was removed of them.
    pub lowered: Lowered,
}

/// Removes what should have ended with a process of this machine that is dead, and says what that was (`None`: there was
/// nothing). Labs of `up`, of processes that live and of those that cannot be seen from here are not touched.
///
/// # Errors
/// What is still there, with reasons; an engine that cannot even list.
pub async fn sweep_orphans(engines: &Engines) -> Result<Option<Orphans>, LabError> {
    let mut ending = find::labels_of(None);
    ending.insert(LABEL_ENDS.to_owned(), WITH_CONTROLLER.to_owned());
    let mut dead: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for engine in engines.all() {
        for object in engine.list(&ending).await? {
            let Some(label) = object.labels.get(LABEL_CONTROLLER) else {
                continue;
            };
            if Controller::from_label(label).is_some_and(|controller| controller.fate() == Fate::Dead) {
                let labs = dead.entry(label.clone()).or_default();
                labs.extend(object.labels.get(LABEL_LAB).cloned());
            }
        }
    }
    let mut orphans: Option<Orphans> = None;
    for (controller, labs) in dead {
        let mut labels = ending.clone();
        labels.insert(LABEL_CONTROLLER.to_owned(), controller);
        let lowered = lower::sweep(engines, &labels).await?;
        match &mut orphans {
            None => orphans = Some(Orphans { labs, lowered }),
            Some(known) => {
                known.labs.extend(labs);
                known.lowered.removed += lowered.removed;
                known.lowered.took += lowered.took;
            }
        }
    }
    Ok(orphans)
}
