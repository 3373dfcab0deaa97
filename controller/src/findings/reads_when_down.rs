//! Block 8: reads of a cluster that is down are decided by `cluster-allow-reads-when-down`, writes never. How the keys split is
//! computed per node from their slots, and from whom it copies where a connection says READONLY.

use super::Judged;
use super::row::{Rows, table};
use crate::claim::{Claim, Finding};
use crate::history::{ClusterPlaced, KeyAsked, KeysAsked, NodePlaced};
use std::collections::BTreeMap;
use wire::Outcome;

const COLUMNS: [&str; 7] = [
    "allow-reads-when-down",
    "node",
    "READONLY",
    "expected of reads",
    "reads",
    "writes",
    "cluster_state",
];

/// What the columns hold.
const LEGEND: &str = "Expected: keys in slots that the node serves (its own; with READONLY on a replica those of its master) and all others. Reads and writes are what \
     the node answered, with how many keys.";

/// Rows: values of the setting.
pub const VALUES: [&str; 2] = ["no", "yes"];

/// Row of the whole, from before the cut until after the heal: shown and not judged.
pub const COURSE: &str = "cut";

/// What the time is called at which every node had the setting at this value.
#[must_use]
pub fn set_at(value: &str) -> String {
    format!("allow_reads_{value}_at_ns")
}

/// The cluster is down.
const DOWN: &str = "CLUSTERDOWN";

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged {
        notes: vec![LEGEND.to_owned()],
        ..Judged::default()
    };
    let mut lines = Vec::new();
    for value in VALUES {
        let asked = rows.history.asked(rows.block, value);
        let placed = rows.history.placed(rows.block, value);
        let all = All::of(placed, &asked);
        if let Ok(all) = &all {
            lines.extend(all.asked.iter().map(|asked| all.line(value, asked)));
        }
        judged.findings.extend(findings(value, &all));
    }
    judged.table = table(&COLUMNS, lines);
    judged
}

fn findings(value: &str, all: &Result<All<'_>, String>) -> Vec<Finding> {
    let claim = |name: &str, text: &str| {
        Claim::new(
            format!("8.{name}@{value}"),
            format!("cluster-allow-reads-when-down {value}: {text}"),
        )
    };
    let with = |claim: Claim, judge: &dyn Fn(&All<'_>, Claim) -> Finding| match all {
        Ok(all) => judge(all, claim),
        Err(lack) => claim.incomplete("nothing", lack),
    };
    let mut findings = vec![with(
        claim("all-down", "every node of both halves is down"),
        &|all, claim| all.all_down(claim),
    )];
    if value == "no" {
        let text = "every read is refused with CLUSTERDOWN, on every node, with and without READONLY";
        findings.push(with(claim("reads-refused", text), &|all, claim| {
            all.reads_refused(claim)
        }));
    } else {
        let text = "every node serves reads of its own slots (a replica with READONLY those of its master) and redirects the others";
        findings.push(with(claim("reads-split-by-slots", text), &|all, claim| {
            all.reads_split(claim)
        }));
    }
    let text = "every write is refused or redirected, none is acknowledged";
    findings.push(with(claim("writes-refused", text), &|all, claim| {
        all.writes_refused(claim)
    }));
    findings
}

/// All that was asked with one value of the setting.
struct All<'a> {
    placed: &'a ClusterPlaced,
    asked: Vec<&'a KeysAsked>,
}

impl<'a> All<'a> {
    fn of(placed: Option<&'a ClusterPlaced>, asked: &[&'a KeysAsked]) -> Result<Self, String> {
        let placed = placed.ok_or("the history does not tell how the cluster was placed")?;
        for node in &placed.nodes {
            for readonly in [false, true] {
                let here = asked
                    .iter()
                    .any(|asked| asked.node == node.node && asked.readonly == readonly && !asked.keys.is_empty());
                if !here {
                    let way = if readonly { "with" } else { "without" };
                    return Err(format!("{} was not asked {way} READONLY", node.node));
                }
            }
        }
        Ok(Self {
            placed,
            asked: asked.to_vec(),
        })
    }

    fn node(&self, name: &str) -> Option<&'a NodePlaced> {
        self.placed.nodes.iter().find(|node| node.node == name)
    }

    /// Whether a node serves a key on this kind of connection, if the setting lets it; and if not, to whom it redirects.
    fn serves(&self, asked: &KeysAsked, key: &KeyAsked) -> Result<(), Option<&'a str>> {
        let owner = self
            .placed
            .nodes
            .iter()
            .find(|node| node.of.is_none() && contains(&node.slots, key.slot));
        let Some(owner) = owner else { return Err(None) };
        let node = self.node(&asked.node);
        let own = node.is_some_and(|node| {
            node.node == owner.node || (asked.readonly && node.of.as_deref() == Some(owner.node.as_str()))
        });
        if own { Ok(()) } else { Err(Some(&owner.address)) }
    }

    fn all_down(&self, claim: Claim) -> Finding {
        let up = self.asked.iter().find(|asked| asked.cluster_state != "fail");
        let measured = format!("{} nodes", self.placed.nodes.len());
        match up {
            None => claim.holds(format!("{measured}, cluster_state fail on all")),
            Some(asked) => claim.diverged(
                measured,
                format!("cluster_state of {} is {}", asked.node, asked.cluster_state),
            ),
        }
    }

    fn reads_refused(&self, claim: Claim) -> Finding {
        self.every(claim, |_, key| match &key.read {
            Outcome::Refused(text) if text.starts_with(DOWN) => None,
            other => Some(told(other)),
        })
    }

    fn reads_split(&self, claim: Claim) -> Finding {
        self.every(claim, |asked, key| match (self.serves(asked, key), &key.read) {
            (Ok(()), Outcome::Served) => None,
            (Err(Some(owner)), Outcome::Moved(to)) if to == owner => None,
            (_, other) => Some(told(other)),
        })
    }

    fn writes_refused(&self, claim: Claim) -> Finding {
        self.every(claim, |_, key| match &key.write {
            Outcome::Refused(text) if text.starts_with(DOWN) => None,
            other => Some(told(other)),
        })
    }

    /// Judges every key on every node: `odd` says what it answered if that is not what is claimed.
    fn every(&self, claim: Claim, odd: impl Fn(&KeysAsked, &KeyAsked) -> Option<String>) -> Finding {
        let mut all = 0;
        let mut odds = Vec::new();
        for asked in &self.asked {
            for key in &asked.keys {
                all += 1;
                if let Some(odd) = odd(asked, key) {
                    let way = if asked.readonly { " with READONLY" } else { "" };
                    odds.push(format!("{}{way}, slot {}: {odd}", asked.node, key.slot));
                }
            }
        }
        let measured = format!("{} of {all} as claimed", all - odds.len());
        match odds.into_iter().next() {
            None => claim.holds(measured),
            Some(first) => claim.diverged(measured, first),
        }
    }

    fn line(&self, value: &str, asked: &KeysAsked) -> Vec<String> {
        let node = self.node(&asked.node);
        let served = asked.keys.iter().filter(|key| self.serves(asked, key).is_ok()).count();
        let expected = match value {
            "no" => format!("{} {DOWN}", asked.keys.len()),
            _ => format!("{served} served, {} redirected", asked.keys.len() - served),
        };
        let of = node.and_then(|node| node.of.as_ref());
        vec![
            value.to_owned(),
            format!(
                "{} ({}{})",
                asked.node,
                node.map_or("", |node| node.datacenter.as_str()),
                of.map_or_else(String::new, |of| format!(", of {of}"))
            ),
            if asked.readonly { "yes" } else { "no" }.to_owned(),
            expected,
            counted(asked.keys.iter().map(|key| &key.read)),
            counted(asked.keys.iter().map(|key| &key.write)),
            asked.cluster_state.clone(),
        ]
    }
}

/// Outcomes with how often, the most frequent first; redirects to different nodes are one.
fn counted<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in outcomes {
        let told = match outcome {
            Outcome::Moved(_) => "MOVED".to_owned(),
            other => told(other),
        };
        *counts.entry(told).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told = counts.iter().map(|(told, count)| format!("{count} {told}"));
    told.collect::<Vec<_>>().join(", ")
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Served => "served".to_owned(),
        Outcome::Absent => "no such key".to_owned(),
        Outcome::Moved(to) => format!("MOVED to {to}"),
        Outcome::Ask(to) => format!("ASK {to}"),
        Outcome::Refused(text) => text.clone(),
        Outcome::Silent(cause) => cause.clone(),
    }
}

/// Whether a slot is among `0-5460 7000`.
fn contains(slots: &str, slot: u16) -> bool {
    slots.split([' ', ',']).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&slot),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::synthetic::{Story, cluster_b};
    use crate::history::What;

    /// Slots of 20 keys: 9, 5 and 6 in the three ranges.
    const SLOTS: [u16; 20] = [
        1, 5460, 30, 40, 50, 60, 70, 80, 90, 5461, 6000, 7000, 10922, 9000, 10923, 16383, 12000, 13000, 14000, 15000,
    ];

    fn ask(node: &str, readonly: bool, value: &str, answer: impl Fn(u16) -> (Outcome, Outcome)) -> What {
        let keys = SLOTS.iter().map(|&slot| {
            let (read, write) = answer(slot);
            KeyAsked {
                key: format!("k{slot}"),
                slot,
                read,
                write,
            }
        });
        What::KeysAsked(Box::new(KeysAsked {
            block: 8,
            row: value.to_owned(),
            node: node.to_owned(),
            readonly,
            cluster_state: "fail".to_owned(),
            keys: keys.collect(),
        }))
    }

    fn refused(text: &str) -> Outcome {
        Outcome::Refused(text.to_owned())
    }

    /// What servers answer: written down from the servers' own rules, not from the code above.
    fn usual() -> Story {
        let mut story = Story::of(8);
        for value in VALUES {
            let placed = cluster_b(8, value);
            story = story.event(What::ClusterPlaced(Box::new(placed)));
            for (node, own, copies) in [
                ("node-1", 0..5461, 0..5461),
                ("node-2", 5461..10923, 5461..10923),
                ("node-3", 10923..16384, 10923..16384),
                ("node-4", 0..0, 0..5461),
                ("node-5", 0..0, 5461..10923),
                ("node-6", 0..0, 10923..16384),
            ] {
                for readonly in [false, true] {
                    let served = if readonly { copies.clone() } else { own.clone() };
                    story = story.event(ask(node, readonly, value, |slot| {
                        if value == "no" {
                            return (
                                refused("CLUSTERDOWN The cluster is down"),
                                refused("CLUSTERDOWN The cluster is down"),
                            );
                        }
                        let owner = match slot {
                            0..=5460 => "198.18.0.1:6379",
                            5461..=10922 => "198.18.0.2:6379",
                            _ => "198.18.2.3:6379",
                        };
                        let read = match served.contains(&slot) {
                            true => Outcome::Served,
                            false => Outcome::Moved(owner.to_owned()),
                        };
                        (
                            read,
                            refused("CLUSTERDOWN The cluster is down and only accepts read commands"),
                        )
                    }));
                }
            }
        }
        story
    }

    #[test]
    fn the_records_answer_holds_on_every_node() {
        let judged = usual().judged();
        judged.assert_all_hold();
        assert_eq!((judged.findings.len(), judged.table.rows.len()), (6, 24));
        let line = |i: usize| judged.table.rows[i].join(" | ");
        assert!(line(0).contains("20 CLUSTERDOWN The cluster is down"), "{}", line(0));
        assert!(
            line(12).contains("yes | node-1 (dc1) | no | 9 served, 11 redirected | 11 MOVED, 9 served"),
            "{}",
            line(12)
        );
        assert!(
            line(18).contains("node-4 (dc1, of node-1) | no | 0 served, 20 redirected | 20 MOVED"),
            "{}",
            line(18)
        );
        assert!(line(19).contains("yes | 9 served, 11 redirected"), "{}", line(19));
    }

    #[test]
    fn one_read_that_is_served_or_redirected_elsewhere_diverged() {
        let served = usual()
            .event(ask("node-2", true, "no", |_| {
                (Outcome::Served, refused("CLUSTERDOWN x"))
            }))
            .judged();
        assert_eq!(served.verdict("8.reads-refused@no"), crate::claim::Verdict::Diverged);
        assert_eq!(served.verdict("8.writes-refused@no"), crate::claim::Verdict::Holds);
        let astray = usual()
            .event(ask("node-2", false, "yes", |_| {
                (Outcome::Moved("198.18.0.9:6379".into()), Outcome::Served)
            }))
            .judged();
        assert_eq!(
            astray.verdict("8.reads-split-by-slots@yes"),
            crate::claim::Verdict::Diverged
        );
        assert_eq!(astray.verdict("8.writes-refused@yes"), crate::claim::Verdict::Diverged);
    }

    #[test]
    fn a_node_that_was_not_asked_decides_nothing() {
        let some = usual()
            .without(|what| matches!(what, What::KeysAsked(asked) if asked.node == "node-6" && asked.readonly && asked.row == "yes"));
        let judged = some.judged();
        judged.assert_incomplete("8.reads-split-by-slots@yes");
        assert_eq!(judged.verdict("8.reads-refused@no"), crate::claim::Verdict::Holds);
    }
}
