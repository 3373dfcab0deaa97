//! What `up` would have to do to a lab that is there: two plans compared, object by object.
//!
//! Labels that only say who made an object are no difference, nor is the topology's hash: a comment in the file
//! changes nothing. What a link does is changed on the running relay, every other difference needs the
//! object anew.

use super::{ContainerSpec, NetworkSpec, Plan, PlannedDatacenter, VolumeSpec};
use crate::names::{DatacenterName, Kind, LABEL_PLAN, LABEL_RAISE, LABEL_RUN, LABEL_TOPOLOGY};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use wire::{Conditions, Path, Schedule};

/// A difference between a plan and what is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// An object is absent.
    Make {
        /// What it is for.
        kind: Kind,
        /// Docker name.
        name: String,
    },
    /// An object is not wanted any more.
    Remove {
        /// What it is for.
        kind: Kind,
        /// Docker name.
        name: String,
    },
    /// An object is there and differs.
    Remake {
        /// What it is for.
        kind: Kind,
        /// Docker name.
        name: String,
    },
    /// A link has other conditions.
    Conditions {
        /// Sending side.
        from: DatacenterName,
        /// Receiving side.
        to: DatacenterName,
        /// What they are.
        there: Box<Conditions>,
        /// What they should be.
        conditions: Box<Conditions>,
    },
    /// A link has another schedule.
    Schedule {
        /// Sending side.
        from: DatacenterName,
        /// Receiving side.
        to: DatacenterName,
        /// Conditions of the link at its start.
        conditions: Box<Conditions>,
        /// What it should be (`None`: there should be none).
        schedule: Option<Schedule>,
    },
    /// The relays carry connections in another way.
    Path {
        /// How they should.
        path: Path,
    },
}

/// Everything that has to be done to come from `there` to `wanted`: networks, volumes, containers, links.
#[must_use]
pub fn changes(wanted: &Plan, there: &Plan) -> Vec<Change> {
    let mut changes = Vec::new();
    let networks = |plan: &Plan| plan.networks.iter().map(bare_network).collect();
    let volumes = |plan: &Plan| plan.volumes.iter().map(bare_volume).collect();
    let containers = |plan: &Plan| plan.containers.iter().map(|spec| bare_container(spec, plan)).collect();
    compare(&networks(wanted), &networks(there), &mut changes);
    compare(&volumes(wanted), &volumes(there), &mut changes);
    compare(&containers(wanted), &containers(there), &mut changes);
    if let (Some(path), Some(old)) = (wanted.path(), there.path())
        && path != old
    {
        changes.push(Change::Path { path });
    }
    for link in &wanted.links {
        let mut others = there.links.iter();
        let Some(other) = others.find(|other| other.from == link.from && other.to == link.to) else {
            continue;
        };
        let (from, to) = (link.from.clone(), link.to.clone());
        let conditions = Box::new(link.conditions.clone());
        if other.conditions != link.conditions {
            changes.push(Change::Conditions {
                from: from.clone(),
                to: to.clone(),
                there: Box::new(other.conditions.clone()),
                conditions: conditions.clone(),
            });
        }
        if other.schedule != link.schedule {
            changes.push(Change::Schedule {
                from,
                to,
                conditions,
                schedule: link.schedule.clone(),
            });
        }
    }
    changes
}

/// An object without what does not matter.
#[derive(PartialEq)]
struct Bare<T> {
    kind: Kind,
    name: String,
    spec: T,
}

fn compare<T: PartialEq>(wanted: &Vec<Bare<T>>, there: &Vec<Bare<T>>, changes: &mut Vec<Change>) {
    for object in wanted {
        let (kind, name) = (object.kind, object.name.clone());
        match there.iter().find(|other| other.name == object.name) {
            None => changes.push(Change::Make { kind, name }),
            Some(other) if other != object => changes.push(Change::Remake { kind, name }),
            Some(_) => {}
        }
    }
    for object in there {
        if !wanted.iter().any(|other| other.name == object.name) {
            changes.push(Change::Remove {
                kind: object.kind,
                name: object.name.clone(),
            });
        }
    }
}

fn bare_network(spec: &NetworkSpec) -> Bare<NetworkSpec> {
    let mut spec = spec.clone();
    strip(&mut spec.labels);
    Bare {
        kind: spec.kind,
        name: spec.name.clone(),
        spec,
    }
}

fn bare_volume(spec: &VolumeSpec) -> Bare<VolumeSpec> {
    let mut spec = spec.clone();
    strip(&mut spec.labels);
    Bare {
        kind: Kind::State,
        name: spec.name.clone(),
        spec,
    }
}

fn bare_container(spec: &ContainerSpec, plan: &Plan) -> Bare<(ContainerSpec, Option<PlannedDatacenter>)> {
    let mut spec = spec.clone();
    strip(&mut spec.labels);
    let mut datacenter = None;
    if spec.kind == Kind::Relay {
        // Its configuration is compared as a value, without what can be changed while it runs.
        spec.command.clear();
        datacenter = plan.datacenters.iter().find(|dc| dc.relay == spec.name).cloned();
        if let Some(datacenter) = &mut datacenter {
            datacenter.relay_config.path = Path::Tun;
            datacenter
                .relay_config
                .links
                .iter_mut()
                .for_each(|link| link.conditions = Conditions::delay(0));
        }
    }
    Bare {
        kind: spec.kind,
        name: spec.name.clone(),
        spec: (spec, datacenter),
    }
}

fn strip(labels: &mut BTreeMap<String, String>) {
    for label in [LABEL_PLAN, LABEL_RAISE, LABEL_RUN, LABEL_TOPOLOGY] {
        labels.remove(label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::{difference, mode_text};
    use crate::plan::{plan_beside, tests::planned};
    use crate::topology;

    const TWO_DC: &str = include_str!("../../../topologies/two-dc.yaml");

    /// What `up` would do to the lab of two-dc for this text.
    fn told(text: &str) -> Vec<String> {
        let there = planned(TWO_DC);
        let parsed = topology::parse("two-dc.yaml", text).expect("a right topology");
        let images = crate::plan::tests::images(&parsed);
        let wanted = plan_beside(&there, &parsed, &topology::hash(text), &images, &[]).expect("a plan");
        changes(&wanted, &there)
            .into_iter()
            .map(|change| match change {
                Change::Make { name, .. } => format!("make {name}"),
                Change::Remove { name, .. } => format!("remove {name}"),
                Change::Remake { name, .. } => format!("remake {name}"),
                Change::Conditions {
                    from,
                    to,
                    there,
                    conditions,
                } => format!("set {from}:{to} {}", difference(&there, &conditions)),
                Change::Schedule { from, to, schedule, .. } => format!(
                    "schedule {from}:{to} {}",
                    schedule.map_or(0, |schedule| schedule.steps.len())
                ),
                Change::Path { path } => format!("mode {}", mode_text(path)),
            })
            .collect()
    }

    #[test]
    fn a_comment_changes_nothing() {
        assert_eq!(told(&format!("{TWO_DC}# the end\n")), [""; 0]);
    }

    #[test]
    fn a_delay_is_set_and_no_relay_is_remade() {
        let text = TWO_DC.replace("20ms }", "20ms }\n  dc2:dc1: { delay: 1ms }");
        assert_eq!(told(&text), ["set dc2:dc1 delay=1ms"]);
    }

    #[test]
    fn conditions_schedules_and_the_mode_are_changed_on_running_relays() {
        let text = TWO_DC.replace("20ms }", "20ms, loss: 1%, schedule: \"at 5s cut\" }");
        assert_eq!(
            told(&text),
            [
                "set dc1:dc2 loss=1%",
                "schedule dc1:dc2 1",
                "set dc2:dc1 loss=1%",
                "schedule dc2:dc1 1"
            ]
        );
        let text = format!("mode: {{ stream: {{ nodelay: off }} }}\n{TWO_DC}");
        assert_eq!(told(&text), ["mode stream order=pipelined nodelay=off"]);
    }

    #[test]
    fn another_seed_needs_other_relays() {
        let text = format!("seed: 7\n{TWO_DC}");
        assert_eq!(
            told(&text),
            ["remake tb-two-dc-relay.dc1", "remake tb-two-dc-relay.dc2"]
        );
    }

    #[test]
    fn a_setting_remakes_its_node_only() {
        let text = TWO_DC.replace(
            "redis-far: { datacenter: dc2,",
            "redis-far: { datacenter: dc2, config: { hz: 20 },",
        );
        assert_eq!(told(&text), ["remake tb-two-dc-redis-far"]);
    }

    #[test]
    fn a_node_more_is_made_with_its_volume_and_is_known_to_all() {
        let told = told(&format!("{TWO_DC}  last: {{ datacenter: dc1 }}\n"));
        assert!(told.contains(&"make tb-two-dc-last".to_owned()), "{told:?}");
        assert!(told.contains(&"make tb-two-dc-last-state".to_owned()), "{told:?}");
        assert!(
            told.contains(&"remake tb-two-dc-redis-far".to_owned()),
            "its hosts: {told:?}"
        );
    }

    #[test]
    fn a_node_less_is_removed() {
        let text = TWO_DC.replace("  postgres: { datacenter: dc2, engine: postgres }\n", "");
        let told = told(&text);
        assert!(told.contains(&"remove tb-two-dc-postgres".to_owned()), "{told:?}");
        assert!(told.contains(&"remove tb-two-dc-postgres-state".to_owned()), "{told:?}");
    }

    #[test]
    fn a_lab_that_moved_on_past_another_stays_where_it_is() {
        let parsed = topology::parse("two-dc.yaml", TWO_DC).expect("a right topology");
        let images = crate::plan::tests::images(&parsed);
        let home = planned(TWO_DC).networks[0].subnet;
        let hash = topology::hash(TWO_DC);
        let moved = crate::plan::plan(&parsed, &hash, &parsed.name, Some("run"), &images, &[home]).expect("a plan");
        assert_ne!(moved.networks[0].subnet, home);
        let again = plan_beside(&moved, &parsed, &hash, &images, &[]).expect("a plan");
        assert_eq!(changes(&again, &moved), []);
        assert!(!changes(&planned(TWO_DC), &moved).is_empty());
    }
}
