//! One parting of a cluster as a history holds it, and what can be claimed of both halves together: roles, lost writes, and
//! that all agree in the end.

use super::half::Half;
use crate::claim::{Claim, Finding};
use crate::findings::row::Rows;
use crate::history::{ClusterPlaced, Kept, NodePlaced};
use std::collections::BTreeSet;
use wire::{Access, Answers, LookRun, NodeState, Outcome};

/// See the top of the file.
pub struct Parted<'a> {
    /// How it was placed.
    pub placed: &'a ClusterPlaced,
    /// When the halves were parted, CLOCK_MONOTONIC.
    pub parted_ns: u64,
    /// When they met again.
    pub joined_ns: u64,
    home: Half<'a>,
    away: Half<'a>,
    kept: Vec<&'a Kept>,
}

/// An acknowledged write.
pub struct Acknowledged {
    /// Where it was written.
    pub node: String,
    /// When it was sent, nanoseconds, interpolated within its run.
    pub at_ns: u64,
    /// Whether it was there afterwards (`None`: nobody looked).
    pub kept: Option<bool>,
}

impl<'a> Parted<'a> {
    /// Of a row; else what is missing.
    pub fn of(rows: &Rows<'a>, row: &str) -> Result<Self, String> {
        let (history, block) = (rows.history, rows.block);
        let placed = history
            .placed(block, row)
            .ok_or("the history does not tell how the cluster was placed")?;
        let time = |name: &str| rows.fact(row, name).and_then(|ns| u64::try_from(ns).ok());
        let parted_ns = time("parted_at_ns").ok_or("the halves were not parted")?;
        let joined_ns = time("joined_at_ns").ok_or("the halves did not meet again")?;
        let settled_ns = joined_ns.saturating_sub(2 * placed.node_timeout_ms * 1_000_000);
        if settled_ns <= parted_ns {
            return Err("the halves met again within two node timeouts".to_owned());
        }
        let half = |datacenter: &str| {
            let watched = history
                .half(block, row, datacenter)
                .ok_or(format!("nobody watched the half in {datacenter}"))?;
            Ok::<_, String>(Half {
                placed,
                datacenter: watched.datacenter.as_str(),
                seen: &watched.seen,
                settled: (
                    settled_ns,
                    match placed.stopped() {
                        Some(stopped) if stopped == datacenter => joined_ns.saturating_sub(ON_ITS_WAY_NS),
                        _ => joined_ns,
                    },
                ),
            })
        };
        Ok(Self {
            placed,
            parted_ns,
            joined_ns,
            home: half(&placed.home)?,
            away: half(&placed.away)?,
            kept: history.kept(block, row),
        })
    }

    /// The half with most masters, or the other.
    pub fn half(&self, home: bool) -> &Half<'a> {
        if home { &self.home } else { &self.away }
    }

    /// Halves that can be asked.
    pub fn asked(&self) -> Vec<&Half<'a>> {
        let halves = [&self.home, &self.away].into_iter();
        halves
            .filter(|half| self.placed.stopped() != Some(half.datacenter))
            .collect()
    }

    /// Nodes whose role once settled is not that of before, with both.
    pub fn changes(&self) -> Result<Vec<(&'a NodePlaced, &'static str)>, String> {
        let mut changes = Vec::new();
        for half in self.asked() {
            for node in half.nodes() {
                let now = half.settled_state(node)?;
                let was = if node.of.is_none() { "master" } else { "slave" };
                if now.role != was {
                    changes.push((
                        node,
                        if was == "slave" {
                            "became master"
                        } else {
                            "became replica"
                        },
                    ));
                }
            }
        }
        Ok(changes)
    }

    /// Replicas in the home half of masters in the other.
    fn candidates(&self) -> Vec<&'a NodePlaced> {
        let master_away = |replica: &&NodePlaced| {
            let of = replica.of.as_ref();
            let master = of.and_then(|of| self.placed.nodes.iter().find(|node| node.node == *of));
            replica.datacenter == self.placed.home && master.is_some_and(|master| master.datacenter == self.placed.away)
        };
        self.placed.nodes.iter().filter(master_away).collect()
    }

    /// Role changes are those of a promotion in the home half, or none.
    pub fn roles(&self, promotion: bool, claim: Claim) -> Finding {
        let changes = match self.changes() {
            Ok(changes) => changes,
            Err(lack) => return claim.incomplete("nothing", lack),
        };
        let told: Vec<String> = changes
            .iter()
            .map(|(node, change)| format!("{} {change}", node.node))
            .collect();
        let measured = if told.is_empty() {
            "no role changed".to_owned()
        } else {
            told.join(", ")
        };
        let changed: BTreeSet<&str> = changes.iter().map(|(node, _)| node.node.as_str()).collect();
        let expected: BTreeSet<&str> = match promotion {
            true => self.candidates().iter().map(|node| node.node.as_str()).collect(),
            false => BTreeSet::new(),
        };
        if promotion && expected.is_empty() {
            return claim.incomplete(measured, "no replica of a far master is in the home half");
        }
        if changed == expected {
            return claim.holds(measured);
        }
        let stale = if promotion { self.too_old() } else { None };
        let reason = stale.unwrap_or_else(|| format!("expected was a change of {expected:?}"));
        claim.diverged(measured, reason)
    }

    /// Why a replica was not fresh enough to be promoted, if so.
    pub fn too_old(&self) -> Option<String> {
        let limit_s = self.oldest_s()?;
        let timeout_s = i64::try_from(self.placed.node_timeout_ms / 1000).ok()?;
        self.candidates().into_iter().find_map(|node| {
            let age_s = self.age_s(node)?;
            (age_s - timeout_s > limit_s).then(|| {
                format!(
                    "{} was not fresh enough: when its master was seen as failed it had heard nothing from it for {age_s} s, and \
                     cluster-replica-validity-factor allows {limit_s} s beyond the node timeout of {timeout_s} s",
                    node.node
                )
            })
        })
    }

    /// How long a replica had heard nothing from its master when it last did not see it as failed, seconds.
    fn age_s(&self, replica: &NodePlaced) -> Option<i64> {
        let master = replica.of.as_ref()?;
        let master = self.placed.nodes.iter().find(|node| node.node == *master)?;
        let failed = |run: &&LookRun| {
            let peers = run.seen.iter().flat_map(|seen| &seen.peers);
            let mut master = peers.filter(|peer| peer.address == master.address);
            master.any(|peer| peer.flags.split(',').any(|flag| flag == "fail"))
        };
        let before = self.home.looks(replica).take_while(|run| !failed(run)).last()?;
        before.last.down_since_s.or(before.last.heard_ago_s)
    }

    /// The replica of the lost master was too old to be promoted.
    pub fn stale(&self, claim: Claim) -> Finding {
        match (self.too_old(), self.candidates().first()) {
            (Some(told), _) => claim.holds(told),
            (None, None) => claim.incomplete("nothing", "no replica of a far master is in the home half"),
            (None, Some(replica)) => match self.age_s(replica) {
                None => claim.incomplete("nothing", format!("nobody saw how old {} was", replica.node)),
                Some(age_s) => claim.diverged(
                    format!("{} had heard nothing from its master for {age_s} s", replica.node),
                    "that is recent enough",
                ),
            },
        }
    }

    /// Longest time beyond the node timeout for which a replica that is promoted may have lost its master, seconds (`None`: any).
    pub fn oldest_s(&self) -> Option<i64> {
        let number = |name: &str| self.placed.setting(name)?.parse::<i64>().ok();
        let factor = number("cluster-replica-validity-factor").filter(|factor| *factor > 0)?;
        let timeout_ms = i64::try_from(self.placed.node_timeout_ms).ok()?;
        Some(number("repl-ping-replica-period")? + timeout_ms * factor / 1000)
    }

    /// All acknowledged writes of a half.
    pub fn acknowledged(&self, half: &Half<'_>) -> Vec<Acknowledged> {
        let writes = half.seen.answers.iter().filter(|all| all.access == Access::Write);
        writes.flat_map(|answers| self.of_stream(half, answers)).collect()
    }

    fn of_stream(&self, half: &Half<'_>, answers: &Answers) -> Vec<Acknowledged> {
        let node = half.name_of(answers.node);
        let kept = self
            .kept
            .iter()
            .find(|kept| kept.node == node && kept.range == answers.range);
        let served = answers.runs.iter().filter(|run| run.outcome == Outcome::Served);
        let each = served.flat_map(|run| {
            let step_ns = run.to_ns.saturating_sub(run.from_ns) / u64::from(run.count.max(1));
            (0..run.count).map(move |i| (run.first + i, run.from_ns + u64::from(i) * step_ns))
        });
        each.map(|(number, at_ns)| Acknowledged {
            node: node.clone(),
            at_ns,
            kept: kept.map(|kept| kept.has(number)),
        })
        .collect()
    }

    /// Every acknowledged write; or why nothing can be said.
    fn all(&self) -> Result<Vec<Acknowledged>, String> {
        let mut all = self.acknowledged(&self.home);
        all.extend(self.acknowledged(&self.away));
        if all.is_empty() {
            return Err("no write was acknowledged".to_owned());
        }
        match all.iter().find(|write| write.kept.is_none()) {
            Some(write) => Err(format!("nobody looked for what {} acknowledged", write.node)),
            None => Ok(all),
        }
    }

    pub fn none_lost(&self, claim: Claim) -> Finding {
        match self.all() {
            Err(lack) => claim.incomplete("nothing", lack),
            Ok(all) => lost_are(claim, &all, |_| false, "it was acknowledged"),
        }
    }

    /// Lost are writes of a master that was replaced only.
    pub fn lost_elsewhere(&self, claim: Claim) -> Finding {
        let replaced = self.replaced();
        match self.all() {
            Err(lack) => claim.incomplete("nothing", lack),
            Ok(all) => lost_are(
                claim,
                &all,
                |write| replaced.contains(write.node.as_str()),
                "its master was not replaced",
            ),
        }
    }

    /// Everything that a replaced master acknowledged under the cut is lost.
    pub fn late_ones_lost(&self, claim: Claim) -> Finding {
        let all = match self.all() {
            Err(lack) => return claim.incomplete("nothing", lack),
            Ok(all) => all,
        };
        let replaced = self.replaced();
        // A time within a run is known to an interval of the load: what was written that close to the cut is left out.
        let from_ns = self.parted_ns + MARGIN_NS;
        let late = all.iter().filter(|write| {
            replaced.contains(write.node.as_str()) && write.at_ns > from_ns && write.at_ns < self.joined_ns
        });
        let (kept, lost): (Vec<_>, Vec<_>) = late.partition(|write| write.kept == Some(true));
        let measured = format!("{} lost, {} kept", lost.len(), kept.len());
        if lost.is_empty() && kept.is_empty() {
            return claim.incomplete(
                measured,
                "the master that was replaced acknowledged nothing under the cut",
            );
        }
        if kept.is_empty() {
            claim.holds(measured)
        } else {
            claim.diverged(measured, format!("{} of them are there", kept.len()))
        }
    }

    /// Masters of the far half that have a replica in the home half: those that a promotion replaces.
    fn replaced(&self) -> BTreeSet<&'a str> {
        self.candidates()
            .into_iter()
            .filter_map(|node| node.of.as_deref())
            .collect()
    }

    /// The last views of all nodes are the same, and none has a doubt.
    pub fn all_agree(&self, claim: Claim) -> Finding {
        let views = match self.last_views() {
            Ok(views) => views,
            Err(lack) => return claim.incomplete("nothing", lack),
        };
        let measured = format!("{} nodes, {:.1} s after they met", views.len(), self.agreed_after_s());
        let odd = views.iter().find_map(|(node, state)| {
            if state.cluster_state != "ok" {
                return Some(format!("cluster_state of {node} is {}", state.cluster_state));
            }
            let doubted = state
                .peers
                .iter()
                .find(|peer| peer.flags.contains("fail") || !peer.connected)?;
            Some(format!("{node} sees {} as {}", doubted.address, doubted.flags))
        });
        if let Some(odd) = odd {
            return claim.diverged(measured, odd);
        }
        let first = views.first().map(|(_, state)| view(state));
        match views.iter().find(|(_, state)| Some(view(state)) != first) {
            Some((node, _)) => claim.diverged(measured, format!("{node} sees another placement than {}", views[0].0)),
            None => claim.holds(measured),
        }
    }

    /// The last look at every node, by name.
    pub fn last_views(&self) -> Result<Vec<(String, &'a NodeState)>, String> {
        let mut views = Vec::new();
        for half in [&self.home, &self.away] {
            for looks in &half.seen.nodes {
                let name = half.name_of(looks.node);
                let last = looks.runs.last().ok_or(format!("nobody looked at {name}"))?;
                if last.to_ns < self.joined_ns {
                    return Err(format!("nobody looked at {name} after the halves met"));
                }
                let state = last.seen.as_ref().map_err(|cause| format!("{name}: {cause}"))?;
                views.push((name, state));
            }
        }
        Ok(views)
    }

    /// From the meeting of the halves to the last change that any node saw, seconds.
    pub fn agreed_after_s(&self) -> f64 {
        let halves = [&self.home, &self.away].into_iter();
        let changes = halves.flat_map(|half| half.seen.nodes.iter().filter_map(|looks| looks.runs.last()));
        let last_ns = changes.map(|run| run.from_ns).max().unwrap_or_default();
        last_ns.saturating_sub(self.joined_ns) as f64 / 1e9
    }
}

/// What was asked of a half that is stopped so shortly before it goes on may be answered by it then, nanoseconds: more than any
/// limit of a reply.
pub const ON_ITS_WAY_NS: u64 = 1_000_000_000;

/// How exactly the time of a write within a run is known, nanoseconds: two intervals of the load.
const MARGIN_NS: u64 = 250_000_000;

/// Who is what, in the eyes of a node.
fn view(state: &NodeState) -> Vec<(&str, Option<&str>, &str)> {
    let peers = state.peers.iter();
    peers
        .map(|peer| (peer.address.as_str(), peer.of.as_deref(), peer.slots.as_str()))
        .collect()
}

/// Judges that only writes were lost that may be.
fn lost_are(claim: Claim, all: &[Acknowledged], may: impl Fn(&Acknowledged) -> bool, why: &str) -> Finding {
    let lost: Vec<&Acknowledged> = all.iter().filter(|write| write.kept == Some(false)).collect();
    let measured = format!("{} of {} acknowledged writes lost", lost.len(), all.len());
    let unexpected: Vec<&&Acknowledged> = lost.iter().filter(|write| !may(write)).collect();
    match unexpected.first() {
        None => claim.holds(measured),
        Some(write) => claim.diverged(
            measured,
            format!(
                "{} of them should be there: a write to {} is lost, and {why}",
                unexpected.len(),
                write.node
            ),
        ),
    }
}
