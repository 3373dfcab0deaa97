//! Clusters: which node is in which one, and which slots its masters have.
//!
//! A master says its cluster and its slots, a replica only whom it copies. Refuses slots that two masters have or that
//! nobody has, masters without slots, members that cannot form a cluster with each other.

use super::file::{File, NodeFile};
use super::problem::{Code, Problems, quote};
use super::tree::At;
use super::{EngineKind, Membership};
use crate::cluster::{BadSlots, Slots};
use crate::names::ClusterName;
use std::collections::BTreeMap;

/// A master as the file has it.
struct Master<'f> {
    key: &'f At<String>,
    node: &'f NodeFile,
    cluster: &'f At<String>,
    /// `None`: they could not be read, or there are none.
    slots: Option<Slots>,
}

/// The places of all nodes that are in a cluster, by node.
pub(super) fn memberships<'f>(
    file: &'f File,
    engines: &BTreeMap<&str, EngineKind>,
    problems: &mut Problems,
) -> BTreeMap<&'f str, Membership> {
    let mut masters: Vec<Master> = Vec::new();
    for (key, node) in &file.nodes {
        if node.monitors.is_some() {
            // A Sentinel with a cluster is a problem of its own.
            continue;
        }
        if node.replica_of.is_some() {
            replica(key, node, file, problems);
            continue;
        }
        let slots = node.slots.as_ref().and_then(|text| slots(text, problems));
        let Some(cluster) = &node.cluster else {
            if let Some(slots) = &node.slots
                && !node.broken.contains(&"cluster")
                && !node.broken.contains(&"replica-of")
            {
                problems
                    .add(
                        slots.place,
                        Code::BadCluster,
                        format!("{} has slots and is in no cluster", quote(&key.value)),
                    )
                    .hint("write `cluster: NAME` beside them");
            }
            continue;
        };
        if let Err(bad) = ClusterName::new(&cluster.value) {
            let message = format!("{} is no name of a cluster", quote(&cluster.value));
            problems.add(cluster.place, Code::BadName, message).hint(bad.rule);
        }
        masters.push(Master {
            key,
            node,
            cluster,
            slots,
        });
    }
    let mut names: Vec<&str> = Vec::new();
    for master in &masters {
        if !names.contains(&master.cluster.value.as_str()) {
            names.push(&master.cluster.value);
        }
    }
    for name in names {
        let of_it: Vec<&Master> = masters.iter().filter(|master| master.cluster.value == name).collect();
        engines_of(&of_it, engines, problems);
        slots_of(name, &of_it, problems);
    }
    places(file, &masters)
}

fn places<'f>(file: &'f File, masters: &[Master<'f>]) -> BTreeMap<&'f str, Membership> {
    let place = |name: &str| {
        let master = masters.iter().find(|master| master.key.value == name)?;
        Some((ClusterName::new(&master.cluster.value).ok()?, master.slots.clone()))
    };
    let nodes = file.nodes.iter().filter_map(|(key, node)| {
        let membership = match &node.replica_of {
            None => place(&key.value).map(|(name, slots)| (name, slots.unwrap_or_default())),
            Some(master) => place(&master.value).map(|(name, _)| (name, Slots::default())),
        };
        let (name, slots) = membership?;
        Some((key.value.as_str(), Membership { name, slots }))
    });
    nodes.collect()
}

fn replica(key: &At<String>, node: &NodeFile, file: &File, problems: &mut Problems) {
    if let Some(slots) = &node.slots {
        problems
            .add(
                slots.place,
                Code::BadSlots,
                format!("{} is a replica and has slots", quote(&key.value)),
            )
            .hint("slots are those of its master; take them, or `replica-of`, away");
    }
    let Some(cluster) = &node.cluster else { return };
    let master = node.replica_of.as_ref().and_then(|master| {
        let mut nodes = file.nodes.iter();
        nodes.find(|(other, _)| other.value == master.value)
    });
    // One that does not exist, or is a replica itself, is another problem.
    let Some((master, of)) = master.filter(|(_, of)| of.replica_of.is_none() && !of.broken.contains(&"cluster")) else {
        return;
    };
    match &of.cluster {
        Some(theirs) if theirs.value == cluster.value => {}
        Some(theirs) => {
            problems
                .add(
                    cluster.place,
                    Code::BadCluster,
                    format!(
                        "{} is in cluster {} and copies {}, which is in {}",
                        quote(&key.value),
                        quote(&cluster.value),
                        quote(&master.value),
                        quote(&theirs.value)
                    ),
                )
                .hint("leave `cluster` out: a replica is in the cluster of the node that it copies");
        }
        None => {
            problems
                .add(
                    cluster.place,
                    Code::BadCluster,
                    format!(
                        "{} is in cluster {} and copies {}, which is in none",
                        quote(&key.value),
                        quote(&cluster.value),
                        quote(&master.value)
                    ),
                )
                .hint(format!("write `cluster` and `slots` in {}", quote(&master.value)));
        }
    }
}

fn slots(text: &At<String>, problems: &mut Problems) -> Option<Slots> {
    Slots::parse(&text.value)
        .map_err(|bad| {
            let hint = match bad {
                BadSlots::Unreadable(_) => "write 0-5460, or several ranges with commas between",
                BadSlots::Beyond(_) => "slots are 0 to 16383",
                BadSlots::Reversed(..) => "the smaller number comes first",
                BadSlots::Twice(_) => "each slot stands there once",
            };
            let message = match bad {
                BadSlots::Unreadable(part) => format!("{} is no range of slots", quote(&part)),
                bad => bad.to_string(),
            };
            problems.add(text.place, Code::BadSlots, message).hint(hint);
        })
        .ok()
}

fn engines_of(masters: &[&Master], engines: &BTreeMap<&str, EngineKind>, problems: &mut Problems) {
    let engine = |master: &Master| engines.get(master.key.value.as_str()).copied();
    let mut first: Option<(&Master, EngineKind)> = None;
    for master in masters {
        let Some(own) = engine(master) else { continue };
        let place = master.node.engine.as_ref().map_or(master.key.place, |text| text.place);
        let (name, cluster) = (quote(&master.key.value), quote(&master.cluster.value));
        if !own.is_cache() {
            problems
                .add(
                    master.cluster.place,
                    Code::BadCluster,
                    format!("{name} runs {}, which has no clusters", own.as_str()),
                )
                .hint("clusters are for redis and valkey");
            continue;
        }
        match first {
            None => first = Some((master, own)),
            Some((other, theirs)) if theirs != own => {
                let other = quote(&other.key.value);
                problems
                    .add(
                        place,
                        Code::BadCluster,
                        format!(
                            "{name} runs {} and {other} of the same cluster {cluster} {}",
                            own.as_str(),
                            theirs.as_str()
                        ),
                    )
                    .hint("the nodes of a cluster run one engine");
            }
            Some(_) => {}
        }
    }
}

fn slots_of(name: &str, masters: &[&Master], problems: &mut Problems) {
    let mut taken: Vec<(&str, &Slots)> = Vec::new();
    let mut unknown = false;
    for master in masters {
        let node = master.key.value.as_str();
        let Some(slots) = &master.slots else {
            unknown = true;
            if master.node.slots.is_none() && !master.node.broken.contains(&"slots") {
                problems
                    .add(
                        master.key.place,
                        Code::Missing,
                        format!(
                            "{} is a master of cluster {} and has no slots",
                            quote(node),
                            quote(name)
                        ),
                    )
                    .hint(format!(
                        "write `slots`, {}; or `replica-of`, if it is none",
                        even(masters.len())
                    ));
            }
            continue;
        };
        for (owner, theirs) in &taken {
            let common = theirs.shared(slots);
            if let (false, Some(text)) = (common.is_empty(), &master.node.slots) {
                problems
                    .add(
                        text.place,
                        Code::BadSlots,
                        format!("{} belong to {} already", common.shown(), quote(owner)),
                    )
                    .hint(format!("each slot has one master: {}", even(masters.len())));
            }
        }
        taken.push((node, slots));
    }
    if unknown {
        return;
    }
    let all = taken.iter().fold(Slots::default(), |all, (_, slots)| all.with(slots));
    let missing = all.missing();
    if let (false, Some(first)) = (missing.is_empty(), masters.first()) {
        problems
            .add(
                first.cluster.place,
                Code::BadSlots,
                format!("{} of cluster {} belong to nobody", missing.shown(), quote(name)),
            )
            .hint(format!("each slot has a master: {}", even(masters.len())));
    }
}

/// Slots that would be right, for as many masters.
fn even(masters: usize) -> String {
    const MOST: usize = 5;
    let parts = Slots::even(masters);
    let shown: Vec<String> = parts.iter().take(MOST).map(ToString::to_string).collect();
    let more = if parts.len() > MOST { ", ..." } else { "" };
    format!("for {masters} masters {}{more}", shown.join(", ")).replace("for 1 masters", "for one master")
}
