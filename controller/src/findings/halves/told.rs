//! What a parting looked like, for people: a line per half and slot range, and the figures of its course.

use super::half::{Half, verb};
use super::parted::Parted;
use crate::history::{NodePlaced, Parting};
use std::collections::BTreeMap;
use wire::{Access, LookRun, NodeState, Outcome};

/// Lines of the table.
pub fn lines(parted: &Parted<'_>) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for home in [true, false] {
        let half = parted.half(home);
        let stopped = parted.placed.stopped() == Some(half.datacenter);
        for (range, placed) in (0..).zip(&parted.placed.ranges) {
            let cell = |access| answers(half, range, access);
            lines.push(vec![
                parted.placed.row.clone(),
                half.datacenter.to_owned() + if stopped { " (stopped)" } else { "" },
                half.told_states(),
                format!("{} ({})", placed.slots, placed.master),
                cell(Access::Read),
                cell(Access::Write),
            ]);
        }
    }
    lines
}

/// Nodes by what they answered: `node-1 serves; node-2, node-4 -> node-1 (dc1)`.
fn answers(half: &Half<'_>, range: u32, access: Access) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for node in half.nodes() {
        let outcomes = half.said(node, range, access);
        let told: Vec<String> = outcomes.iter().map(|outcome| short(half, outcome)).collect();
        let told = if told.is_empty() {
            "not asked".to_owned()
        } else {
            told.join(", then ")
        };
        match said.iter_mut().find(|(known, _)| *known == told) {
            Some((_, nodes)) => nodes.push(&node.node),
            None => said.push((told, vec![&node.node])),
        }
    }
    if let [(told, _)] = said.as_slice() {
        return format!("all: {told}");
    }
    let told = said.iter().map(|(told, nodes)| format!("{}: {told}", nodes.join(", ")));
    told.collect::<Vec<_>>().join("; ")
}

fn short(half: &Half<'_>, outcome: &Outcome) -> String {
    let place = |to: &String| {
        let node = half.placed.nodes.iter().find(|node| node.address == *to);
        node.map_or_else(|| to.clone(), |node| format!("{} ({})", node.node, node.datacenter))
    };
    match outcome {
        Outcome::Served => "served".to_owned(),
        Outcome::Absent => "no such key".to_owned(),
        Outcome::Moved(to) => format!("MOVED to {}", place(to)),
        Outcome::Ask(to) => format!("ASK {}", place(to)),
        Outcome::Refused(text) => text.clone(),
        Outcome::Silent(cause) => cause.clone(),
    }
}

/// Notes below the table.
pub fn notes(parted: &Parted<'_>) -> Vec<String> {
    let row = &parted.placed.row;
    let mut notes: Vec<String> = vec![format!("{row}: {}", settings(parted))];
    for half in parted.asked() {
        notes.push(format!("{row}, {}: {}", half.datacenter, course(parted, half)));
    }
    match parted.placed.parting {
        Parting::Cut => {
            notes.push(format!("{row}: {}", writes(parted)));
            notes.push(format!("{row}: {}", ending(parted)));
        }
        Parting::HomeStopped | Parting::AwayStopped => notes.push(format!(
            "{row}: the stopped half takes connections (its kernel does) and answers nothing; what it thinks of the cluster cannot be asked."
        )),
    }
    notes
}

/// What differs between a half under a cut and the same half whose counterpart was stopped.
pub fn beside(cut: &Parted<'_>, stopped: &Parted<'_>) -> Vec<String> {
    let both = |what: &str, of: &dyn Fn(&Parted<'_>) -> Option<String>| {
        let [stop, cut] = [stopped, cut].map(|parted| of(parted).unwrap_or_else(|| "never".to_owned()));
        (stop != "never" || cut != "never").then(|| format!("{what} {stop} beside {cut}"))
    };
    let of_half = |half: &Half<'_>| {
        let datacenter = half.datacenter;
        let home = datacenter == stopped.placed.home;
        let said = |parted: &Parted<'_>| {
            let half = parted.half(home);
            let ranges = 0..u32::try_from(half.placed.ranges.len()).unwrap_or_default();
            let of_range = |range| [Access::Read, Access::Write].map(|access| answers(half, range, access));
            (half.told_states(), ranges.flat_map(of_range).collect::<Vec<_>>())
        };
        let same = if said(stopped) == said(cut) {
            "the same cluster_state, the same answers to every slot range"
        } else {
            "not the same cluster_state and answers, see the table"
        };
        let mut told = vec![same.to_owned()];
        told.extend(both("fail after", &|parted| {
            let (first_s, last_s) = spread(parted.half(home), parted, |state| state.cluster_state == "fail")?;
            Some(format!("{first_s:.1} to {last_s:.1} s"))
        }));
        for node in half.nodes().filter(|node| node.of.is_some()) {
            told.extend(both(&format!("{} master after", node.node), &|parted| {
                let mut runs = after(parted.half(home), node, parted);
                let run = runs.find(|run| said_so(run, |state| state.role == "master"))?;
                Some(format!("{:.1} s", seconds(run.from_ns, parted.parted_ns)))
            }));
        }
        format!(
            "{}, {datacenter}, beside the same half under the {}: {}.",
            stopped.placed.row,
            cut.placed.row,
            told.join("; ")
        )
    };
    stopped.asked().into_iter().map(of_half).collect()
}

fn settings(parted: &Parted<'_>) -> String {
    let placed = parted.placed;
    let told: Vec<String> = placed
        .settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let held_s = parted.joined_ns.saturating_sub(parted.parted_ns) as f64 / 1e9;
    format!(
        "parted for {held_s:.1} s; node timeout {} ms, {}. Before: {}.",
        placed.node_timeout_ms,
        told.join(", "),
        placement(
            placed
                .nodes
                .iter()
                .map(|node| (node, node.of.as_deref(), node.slots.as_str()))
        ),
    )
}

/// `dc1: node-1 0-5460, node-4 of node-1; dc2: ...`
fn placement<'p>(nodes: impl Iterator<Item = (&'p NodePlaced, Option<&'p str>, &'p str)>) -> String {
    let mut by_datacenter: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (node, of, slots) in nodes {
        let told = match of {
            Some(of) => format!("{} of {of}", node.node),
            None => format!("{} {slots}", node.node),
        };
        by_datacenter.entry(&node.datacenter).or_default().push(told);
    }
    let told = by_datacenter
        .iter()
        .map(|(datacenter, nodes)| format!("{datacenter}: {}", nodes.join(", ")));
    told.collect::<Vec<_>>().join("; ")
}

/// Votes, detection, promotion of a half.
fn course(parted: &Parted<'_>, half: &Half<'_>) -> String {
    let placed = parted.placed;
    let masters = placed.nodes.iter().filter(|node| node.of.is_none()).count();
    let here = half.nodes().filter(|node| node.of.is_none()).count();
    let majority = if 2 * here > masters {
        "the majority"
    } else {
        "no majority"
    };
    let mut told = vec![format!("{here} of {masters} masters, {majority}")];
    told.push(match spread(half, parted, |state| state.cluster_state == "fail") {
        None => "cluster_state never failed".to_owned(),
        Some((first_s, last_s)) => format!("cluster_state fail after {first_s:.1} to {last_s:.1} s"),
    });
    if let Some(again_s) = again(half, parted) {
        told.push(format!("ok again on all after {again_s:.1} s"));
    }
    for node in half.nodes().filter(|node| node.of.is_some()) {
        if let Some(run) = after(half, node, parted).find(|run| said_so(run, |state| state.role == "master")) {
            told.push(format!(
                "{} became master after {:.1} s, {}",
                node.node,
                seconds(run.from_ns, parted.parted_ns),
                freshness(parted, half, node, run)
            ));
        }
    }
    if half.datacenter == placed.home
        && let Some(reason) = parted.too_old()
    {
        told.push(reason);
    }
    let given = half.nodes().filter_map(|node| Some((node, votes(half, node, parted)?)));
    let given: Vec<String> = given.map(|(node, votes)| format!("{} {votes}", node.node)).collect();
    if !given.is_empty() {
        told.push(format!("votes given: {}", given.join(", ")));
    }
    if let Some((was, is)) = epochs(half, parted) {
        told.push(format!("epoch {was}, then {is}"));
    }
    let mut text = told.join("; ");
    text.push('.');
    text
}

/// How old a promoted replica's data was, against the limit.
fn freshness(parted: &Parted<'_>, half: &Half<'_>, node: &NodePlaced, promoted: &LookRun) -> String {
    let before = half.looks(node).filter(|run| run.to_ns < promoted.from_ns).last();
    let age = match before.map(|run| run.last) {
        Some(last) if last.down_since_s.is_some() => last.down_since_s,
        Some(last) => last.heard_ago_s,
        None => None,
    };
    let age = age.map_or_else(|| "an unknown time".to_owned(), |age_s| format!("{age_s} s"));
    match parted.oldest_s() {
        Some(limit_s) => {
            let timeout_s = parted.placed.node_timeout_ms as f64 / 1e3;
            format!("its master last heard {age} before (limit {limit_s} s, and the node timeout of {timeout_s} s)")
        }
        None => format!("its master last heard {age} before (no limit)"),
    }
}

/// When the first and the last node of a half first said so, seconds after the parting.
fn spread(half: &Half<'_>, parted: &Parted<'_>, what: impl Fn(&NodeState) -> bool) -> Option<(f64, f64)> {
    let firsts = half
        .nodes()
        .filter_map(|node| after(half, node, parted).find(|run| said_so(run, &what)))
        .map(|run| seconds(run.from_ns, parted.parted_ns));
    firsts.fold(None, |spread: Option<(f64, f64)>, at| match spread {
        None => Some((at, at)),
        Some((first, last)) => Some((first.min(at), last.max(at))),
    })
}

/// When all nodes of a half that failed were ok again before the halves met, seconds after the parting.
fn again(half: &Half<'_>, parted: &Parted<'_>) -> Option<f64> {
    let mut last_s = None::<f64>;
    for node in half.nodes() {
        let failed = after(half, node, parted).find(|run| said_so(run, |state| state.cluster_state == "fail"))?;
        let ok = after(half, node, parted)
            .find(|run| run.from_ns > failed.from_ns && said_so(run, |state| state.cluster_state == "ok"))?;
        let at_s = seconds(ok.from_ns, parted.parted_ns);
        last_s = Some(last_s.map_or(at_s, |last_s| last_s.max(at_s)));
    }
    last_s
}

/// Votes that a node gave while the halves were parted.
fn votes(half: &Half<'_>, node: &NodePlaced, parted: &Parted<'_>) -> Option<u64> {
    let given = |run: &LookRun| run.last.votes_given.unwrap_or_default();
    let before = half
        .looks(node)
        .filter(|run| run.from_ns <= parted.parted_ns)
        .last()
        .map(given);
    let last = after(half, node, parted).last().map(given)?;
    Some(last.saturating_sub(before?)).filter(|&votes| votes > 0)
}

/// The largest epoch that a half knew before the parting, and at the end of it, if it grew.
fn epochs(half: &Half<'_>, parted: &Parted<'_>) -> Option<(u64, u64)> {
    let epoch = |run: &LookRun| Some(run.seen.as_ref().ok()?.current_epoch);
    let before = half
        .nodes()
        .flat_map(|node| half.looks(node).filter(|run| run.from_ns <= parted.parted_ns));
    let was = before.filter_map(epoch).max()?;
    let is = half
        .nodes()
        .flat_map(|node| after(half, node, parted))
        .filter_map(epoch)
        .max()?;
    (is > was).then_some((was, is))
}

/// Looks at a node between the parting and the meeting.
fn after<'a>(half: &Half<'a>, node: &NodePlaced, parted: &Parted<'_>) -> impl Iterator<Item = &'a LookRun> + use<'a> {
    let (parted_ns, joined_ns) = (parted.parted_ns, parted.joined_ns);
    half.looks(node)
        .filter(move |run| run.to_ns > parted_ns && run.from_ns <= joined_ns)
}

fn said_so(run: &LookRun, what: impl Fn(&NodeState) -> bool) -> bool {
    run.seen.as_ref().is_ok_and(what)
}

fn seconds(at_ns: u64, since_ns: u64) -> f64 {
    at_ns.saturating_sub(since_ns) as f64 / 1e9
}

/// Acknowledged writes of both halves and what was lost of them.
fn writes(parted: &Parted<'_>) -> String {
    let told = |home: bool| {
        let half = parted.half(home);
        let all = parted.acknowledged(half);
        let under = all
            .iter()
            .filter(|write| write.at_ns > parted.parted_ns && write.at_ns < parted.joined_ns)
            .count();
        let lost = all.iter().filter(|write| write.kept == Some(false)).count();
        format!(
            "{}: {} {} acknowledged, {under} of them while parted, {lost} lost",
            half.datacenter,
            all.len(),
            verb(Access::Write)
        )
    };
    format!("{}; {}.", told(true), told(false))
}

/// When all agreed, and on what.
fn ending(parted: &Parted<'_>) -> String {
    let Ok(views) = parted.last_views() else {
        return "not every node was asked to the end.".to_owned();
    };
    let after_s = parted.agreed_after_s();
    let Some((_, state)) = views.first() else {
        return "nothing was seen at the end.".to_owned();
    };
    let name = |address: &str| {
        let node = parted.placed.nodes.iter().find(|node| node.address == address);
        node.map(|node| node.node.as_str())
    };
    let nodes = parted.placed.nodes.iter().filter_map(|node| {
        let peer = state.peers.iter().find(|peer| peer.address == node.address)?;
        Some((node, peer.of.as_deref().and_then(name), peer.slots.as_str()))
    });
    format!(
        "the last change that any node saw came {after_s:.1} s after the halves met. At the end: {}.",
        placement(nodes)
    )
}
