//! Sentinels: which primary a node watches as one, and with which settings.
//!
//! Refuses to watch what has no failover of this kind (a replica, a node of a cluster, a database, another Sentinel), parts
//! that a Sentinel cannot play as well, and a quorum that there are not enough Sentinels for.

use super::file::{File, NodeFile};
use super::problem::{Code, Problems, nearest, quote};
use super::tree::{At, Place};
use super::{EngineKind, Role};
use crate::names::NodeName;
use std::collections::BTreeMap;

/// Settings of a Sentinel for the primary that it watches, as `SENTINEL SET` names them; `quorum` is how many of them have
/// to miss the primary.
const SETTINGS: [&str; 4] = [
    "down-after-milliseconds",
    "failover-timeout",
    "parallel-syncs",
    "quorum",
];

/// The role of a node that says `monitors`.
pub(super) fn role(
    key: &At<String>,
    node: &NodeFile,
    monitors: &At<String>,
    engine: EngineKind,
    file: &File,
    engines: &BTreeMap<&str, EngineKind>,
    problems: &mut Problems,
) -> Option<Role> {
    let own = quote(&key.value);
    for (other, what) in [
        (&node.role, "a role"),
        (&node.replica_of, "a node to copy"),
        (&node.cluster, "a cluster"),
        (&node.slots, "slots"),
    ] {
        if let Some(text) = other {
            let hint = "a Sentinel watches a primary and does nothing else";
            wrong(
                problems,
                text.place,
                format!("{own} is a Sentinel and has {what}"),
                hint,
            );
        }
    }
    if !engine.is_cache() {
        let message = format!("{own} runs {}, which has no Sentinel", engine.as_str());
        wrong(problems, monitors.place, message, "Sentinels are redis or valkey nodes");
        return None;
    }
    let Some((_, target)) = file.nodes.iter().find(|(other, _)| other.value == monitors.value) else {
        let message = format!("there is no node {}", quote(&monitors.value));
        let added = problems.add(monitors.place, Code::Absent, message);
        let known = file.nodes.iter().map(|(other, _)| other.value.as_str());
        if let Some(nearest) = nearest(&monitors.value, known.filter(|known| *known != key.value)) {
            added.hint(format!("did you mean `{nearest}`?"));
        }
        return None;
    };
    let watched = quote(&monitors.value);
    let hint = "a Sentinel watches the primary of a set of redis or valkey nodes";
    if let Some(primary) = &target.replica_of {
        let hint = format!("write `monitors: {}`", primary.value);
        wrong(problems, monitors.place, format!("{watched} is a replica"), &hint);
    } else if target.cluster.is_some() {
        let message = format!("{watched} is in a cluster, which fails over by itself");
        wrong(problems, monitors.place, message, hint);
    } else if target.monitors.is_some() {
        wrong(
            problems,
            monitors.place,
            format!("{watched} is a Sentinel itself"),
            hint,
        );
    } else if let Some(other) = engines.get(monitors.value.as_str()).filter(|other| **other != engine) {
        let message = format!("{own} runs {} and {watched} {}", engine.as_str(), other.as_str());
        wrong(
            problems,
            monitors.place,
            message,
            "a Sentinel runs what its primary runs",
        );
    }
    NodeName::new(&monitors.value).ok().map(Role::SentinelOf)
}

fn wrong(problems: &mut Problems, place: Place, message: String, hint: &str) {
    problems.add(place, Code::BadSentinel, message).hint(hint);
}

/// Reports settings that a Sentinel does not have, and values that are none.
pub(super) fn settings(node: &NodeFile, monitors: &At<String>, file: &File, problems: &mut Problems) {
    let sentinels = file.nodes.iter();
    let sentinels =
        sentinels.filter(|(_, other)| other.monitors.as_ref().map(|text| &text.value) == Some(&monitors.value));
    let count = sentinels.count();
    for (key, value) in &node.config {
        if !SETTINGS.contains(&key.value.as_str()) {
            let message = format!("a Sentinel has no setting {} here", quote(&key.value));
            let hint = match nearest(&key.value, SETTINGS) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("settings are {}", SETTINGS.join(", ")),
            };
            problems.add(key.place, Code::BadConfig, message).hint(hint);
            continue;
        }
        let number = value.value.parse::<u32>().ok().filter(|number| *number > 0);
        match number {
            None => {
                let message = format!("{} is no value of {}", quote(&value.value), quote(&key.value));
                let hint = "a whole number above 0; times are in milliseconds";
                problems.add(value.place, Code::BadConfig, message).hint(hint);
            }
            Some(quorum) if key.value == "quorum" && usize::try_from(quorum).is_ok_and(|quorum| quorum > count) => {
                let message = format!(
                    "a quorum of {quorum} needs as many Sentinels, and {count} watch {}",
                    quote(&monitors.value)
                );
                let hint = "leave `quorum` out for most of them";
                problems.add(value.place, Code::BadSentinel, message).hint(hint);
            }
            Some(_) => {}
        }
    }
}
