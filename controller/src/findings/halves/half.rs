//! One half of a parted cluster: what its nodes said in the time in which it had settled, judged against what is expected of
//! it.

use super::Expected;
use crate::claim::{Claim, Finding};
use crate::history::{ClusterPlaced, NodePlaced};
use std::net::Ipv4Addr;
use wire::{Access, Answers, HalfSeen, LookRun, NodeState, Outcome};

/// See the top of the file.
pub struct Half<'a> {
    /// How the cluster was placed.
    pub placed: &'a ClusterPlaced,
    /// Datacenter.
    pub datacenter: &'a str,
    /// What its probe saw.
    pub seen: &'a HalfSeen,
    /// From when to when it had settled.
    pub settled: (u64, u64),
}

/// Error of a node that refuses since the cluster is down.
const DOWN: &str = "CLUSTERDOWN";

impl<'a> Half<'a> {
    /// Its nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &'a NodePlaced> + use<'a> {
        let datacenter = self.datacenter;
        let nodes = self.placed.nodes.iter();
        nodes.filter(move |node| node.datacenter == datacenter)
    }

    /// Name of the node at an address.
    pub fn name_of(&self, address: Ipv4Addr) -> String {
        let node = self
            .placed
            .nodes
            .iter()
            .find(|node| host(&node.address) == address.to_string());
        node.map_or_else(|| address.to_string(), |node| node.node.clone())
    }

    /// All looks at a node.
    pub fn looks(&self, node: &NodePlaced) -> impl Iterator<Item = &'a LookRun> + use<'a> {
        let address = host(&node.address).to_owned();
        let mut nodes = self.seen.nodes.iter();
        let looks = nodes.find(|looks| looks.node.to_string() == address);
        looks.into_iter().flat_map(|looks| &looks.runs)
    }

    /// Looks at a node while the half had settled.
    pub fn settled_looks(&self, node: &NodePlaced) -> Vec<&'a LookRun> {
        let (from_ns, to_ns) = self.settled;
        let runs = self.looks(node);
        runs.filter(|run| run.to_ns >= from_ns && run.from_ns <= to_ns)
            .collect()
    }

    /// What a node said while the half had settled.
    pub fn settled_state(&self, node: &NodePlaced) -> Result<&'a NodeState, String> {
        let runs = self.settled_looks(node);
        let last = runs.last().ok_or(format!("nobody looked at {} then", node.node))?;
        let state = last.seen.as_ref().map_err(|cause| format!("{}: {cause}", node.node))?;
        let same = |run: &&LookRun| {
            let seen = run.seen.as_ref();
            seen.is_ok_and(|seen| seen.cluster_state == state.cluster_state && seen.role == state.role)
        };
        if runs.iter().all(same) {
            Ok(state)
        } else {
            Err(format!(
                "{} had not settled: its state or role still changed",
                node.node
            ))
        }
    }

    /// Outcomes of one kind of access to a range on a node while the half had settled; of several in a row each once.
    pub fn said(&self, node: &NodePlaced, range: u32, access: Access) -> Vec<&'a Outcome> {
        let (from_ns, to_ns) = self.settled;
        let wanted =
            |all: &&Answers| all.range == range && all.access == access && all.node.to_string() == host(&node.address);
        let runs = self.seen.answers.iter().filter(wanted).flat_map(|all| &all.runs);
        let mut outcomes: Vec<&Outcome> = Vec::new();
        for run in runs.filter(|run| run.to_ns >= from_ns && run.from_ns <= to_ns) {
            if !outcomes.contains(&&run.outcome) {
                outcomes.push(&run.outcome);
            }
        }
        outcomes
    }

    /// The one outcome, or why there is none.
    fn one(&self, node: &NodePlaced, range: u32, access: Access) -> Result<&'a Outcome, String> {
        match self.said(node, range, access).as_slice() {
            [outcome] => Ok(outcome),
            [] => Err(format!("{} was not asked then", node.node)),
            several => Err(format!(
                "{} had not settled: it answered in {} ways to {} of {}",
                node.node,
                several.len(),
                verb(access),
                self.placed.ranges[range as usize].slots,
            )),
        }
    }

    /// Whether the half does what is expected of it.
    pub fn judge(&self, expected: Expected, claim: Claim) -> Finding {
        let state = if expected == Expected::Down { "fail" } else { "ok" };
        let measured = format!("{} in {}", self.told_states(), self.datacenter);
        match self.find_odd(expected, state) {
            Err(lack) => claim.incomplete(measured, lack),
            Ok(None) => claim.holds(format!(
                "{measured}, {} kinds of access as expected",
                self.accesses().len()
            )),
            Ok(Some(odd)) => claim.diverged(measured, odd),
        }
    }

    /// `cluster_state` of its nodes, each value once.
    pub fn told_states(&self) -> String {
        let mut states: Vec<String> = Vec::new();
        for node in self.nodes() {
            let told = match self.settled_state(node) {
                Ok(state) => state.cluster_state.clone(),
                Err(_) => match self.settled_looks(node).last().map(|run| &run.seen) {
                    Some(Err(cause)) => cause.clone(),
                    _ => "unsettled".to_owned(),
                },
            };
            if !states.contains(&told) {
                states.push(told);
            }
        }
        states.join(", ")
    }

    fn accesses(&self) -> Vec<(u32, Access)> {
        let ranges = 0..u32::try_from(self.placed.ranges.len()).unwrap_or_default();
        ranges
            .flat_map(|range| [(range, Access::Read), (range, Access::Write)])
            .collect()
    }

    /// What is not as expected; or what is missing for saying so.
    fn find_odd(&self, expected: Expected, state: &str) -> Result<Option<String>, String> {
        for node in self.nodes() {
            let seen = self.settled_state(node)?;
            if seen.cluster_state != state {
                return Ok(Some(format!(
                    "cluster_state of {} is {}",
                    node.node, seen.cluster_state
                )));
            }
        }
        for (range, access) in self.accesses() {
            let mut said = Vec::new();
            for node in self.nodes() {
                said.push((node, self.one(node, range, access)?));
            }
            let master_here = self
                .nodes()
                .any(|node| node.node == self.placed.ranges[range as usize].master);
            let odd = match expected {
                Expected::Down => not_refused(&said),
                Expected::Works => not_served(&said),
                Expected::ServesItsOwn if master_here => not_served(&said),
                Expected::ServesItsOwn => self.not_redirected(&said),
                Expected::Unasked => None,
            };
            if let Some(odd) = odd {
                let slots = &self.placed.ranges[range as usize].slots;
                return Ok(Some(format!("{} of {slots}: {odd}", verb(access))));
            }
        }
        Ok(None)
    }

    fn not_redirected(&self, said: &[(&NodePlaced, &Outcome)]) -> Option<String> {
        let here = |to: &str| self.nodes().any(|node| node.address == to);
        said.iter().find_map(|(node, outcome)| match outcome {
            Outcome::Moved(to) if !here(to) => None,
            other => Some(format!("{} {}", node.node, words(other))),
        })
    }
}

/// Reads or writes.
pub fn verb(access: Access) -> &'static str {
    match access {
        Access::Read => "reads",
        Access::Write => "writes",
    }
}

/// An outcome in words that follow a node's name.
pub fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Served => "serves".to_owned(),
        Outcome::Absent => "answers that there is no such key".to_owned(),
        Outcome::Moved(to) => format!("redirects to {to}"),
        Outcome::Ask(to) => format!("redirects to {to} for once"),
        Outcome::Refused(text) => format!("refuses: {text}"),
        Outcome::Silent(cause) => format!("is silent: {cause}"),
    }
}

fn not_refused(said: &[(&NodePlaced, &Outcome)]) -> Option<String> {
    said.iter().find_map(|(node, outcome)| match outcome {
        Outcome::Refused(text) if text.starts_with(DOWN) => None,
        other => Some(format!("{} {}", node.node, words(other))),
    })
}

/// One node serves, and the others redirect to it.
fn not_served(said: &[(&NodePlaced, &Outcome)]) -> Option<String> {
    let serving: Vec<&NodePlaced> = said
        .iter()
        .filter(|(_, outcome)| **outcome == Outcome::Served)
        .map(|(node, _)| *node)
        .collect();
    let [server] = serving.as_slice() else {
        let told: Vec<String> = said
            .iter()
            .map(|(node, outcome)| format!("{} {}", node.node, words(outcome)))
            .collect();
        return Some(format!("{} nodes serve: {}", serving.len(), told.join(", ")));
    };
    said.iter().find_map(|(node, outcome)| match outcome {
        Outcome::Served => None,
        Outcome::Moved(to) if *to == server.address => None,
        other => Some(format!("{} {}", node.node, words(other))),
    })
}

/// `198.18.0.3` of `198.18.0.3:6379`.
pub fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
