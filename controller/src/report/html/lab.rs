//! The lab of a block as it was: nodes and replication from its plan, links with every delay that the block gave them, and the cut
//! where it was. Without the plan there are still the nodes and links that the history names.

use crate::conditions::shown;
use crate::findings::row;
use crate::history::{BlockNumber, Event, ServerSeen, What};
use crate::picture::{Datacenter, Link, Node, Passage, Picture};
use crate::plan::{Plan, PlannedNode};
use crate::report::Cell;
use crate::topology::Role;
use std::fmt::Write as _;
use wire::PortCut;

/// See the top of the file; `None` if no lab was ready for the block.
pub fn picture(cell: &Cell<'_>, block: BlockNumber) -> Option<Picture> {
    let events = &cell.history.events;
    let began = |event: &Event| matches!(event.what, What::BlockStarted { block: begun, .. } if begun == block);
    let start = events.iter().rposition(began)?;
    let ready = |event: &Event| matches!(event.what, What::LabReady { .. });
    let mut labs = events[..start].iter().filter(|event| ready(event));
    // Labs stand in the manifest in the order in which they became ready.
    let used = labs
        .clone()
        .count()
        .checked_sub(1)
        .and_then(|i| cell.manifest.labs.get(i));
    let What::LabReady {
        lab, topology, servers, ..
    } = &labs.next_back()?.what
    else {
        return None;
    };
    let plan = used
        .filter(|used| used.lab == *lab)
        .and_then(|used| cell.plans.get(&used.plan_file));
    let changes: Vec<Change<'_>> = events[start..]
        .iter()
        .filter_map(|event| change(&event.what, block))
        .collect();
    Some(Picture {
        title: topology.clone(),
        datacenters: datacenters(plan, servers),
        links: links(plan, &changes),
    })
}

fn datacenters(plan: Option<&Plan>, servers: &[ServerSeen]) -> Vec<Datacenter> {
    let mut names: Vec<&str> = plan.map_or_else(Vec::new, |plan| {
        plan.datacenters
            .iter()
            .map(|datacenter| datacenter.name.as_str())
            .collect()
    });
    for server in servers {
        if !names.contains(&server.datacenter.as_str()) {
            names.push(&server.datacenter);
        }
    }
    let nodes = |name: &str| {
        let own = servers.iter().filter(|server| server.datacenter == name);
        own.map(|server| node(plan, server)).collect()
    };
    names
        .into_iter()
        .map(|name| Datacenter {
            name: name.to_owned(),
            nodes: nodes(name),
        })
        .collect()
}

fn node(plan: Option<&Plan>, server: &ServerSeen) -> Node {
    let planned = plan.and_then(|plan| plan.nodes.iter().find(|node| node.name.as_str() == server.node));
    let (role, upstream) = planned.map_or((String::new(), None), role);
    let slots = planned.map(PlannedNode::slots).filter(|slots| !slots.is_empty());
    Node {
        slots: slots.map(|slots| slots.to_string()),
        name: server.node.clone(),
        what: format!("{} {} {role}", server.engine, server.version)
            .trim_end()
            .to_owned(),
        upstream,
        trouble: None,
    }
}

fn role(node: &PlannedNode) -> (String, Option<String>) {
    match (&node.role, &node.cluster) {
        (Role::ReplicaOf(upstream), _) => ("replica".to_owned(), Some(upstream.to_string())),
        (Role::Primary, Some(_)) => ("master".to_owned(), None),
        (Role::Primary, None) => ("primary".to_owned(), None),
        (Role::Postgres, _) => ("database".to_owned(), None),
        (Role::SentinelOf(primary), _) => (format!("sentinel of {primary}"), None),
    }
}

/// What a block asked of a link.
struct Change<'a> {
    from: &'a str,
    to: &'a str,
    delay_ns: u64,
    state: Passage,
}

fn change(what: &What, block: BlockNumber) -> Option<Change<'_>> {
    let What::LinkChanged {
        block: of,
        from,
        to,
        delay_ns,
        cut,
        port_cut,
        frozen,
        ..
    } = what
    else {
        return None;
    };
    let state = match cut {
        Some(kind) => Passage::Cut(kind.word().to_owned()),
        None if *frozen => Passage::Frozen,
        None => match port_cut.as_ref().filter(|cut| cut.ended_ns.is_none()) {
            Some(cut) => Passage::CutPorts(format!("ports {}", ports(cut))),
            None => Passage::Open,
        },
    };
    (*of == block).then_some(Change {
        from,
        to,
        delay_ns: *delay_ns,
        state,
    })
}

fn ports(cut: &PortCut) -> String {
    cut.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

fn links(plan: Option<&Plan>, changes: &[Change<'_>]) -> Vec<Link> {
    let mut ends: Vec<(&str, &str, String)> = Vec::new();
    for link in plan.map_or(&[][..], |plan| &plan.links) {
        ends.push((link.from.as_str(), link.to.as_str(), shown(&link.conditions)));
    }
    for change in changes {
        if !ends
            .iter()
            .any(|(from, to, _)| (*from, *to) == (change.from, change.to))
        {
            ends.push((change.from, change.to, String::new()));
        }
    }
    let link = |(from, to, planned): (&str, &str, String)| {
        let own: Vec<&Change<'_>> = changes
            .iter()
            .filter(|change| (change.from, change.to) == (from, to))
            .collect();
        // One that was cut for a while is drawn cut: where is what the picture is for.
        let cut = own.iter().find(|change| change.state != Passage::Open);
        Link {
            from: from.to_owned(),
            to: to.to_owned(),
            conditions: conditions(planned, &own),
            state: cut.map_or(Passage::Open, |change| change.state.clone()),
        }
    };
    ends.into_iter().map(link).collect()
}

/// The planned conditions, and the delays of the block if it changed them.
fn conditions(planned: String, own: &[&Change<'_>]) -> String {
    let mut delays: Vec<u64> = own.iter().map(|change| change.delay_ns).collect();
    delays.sort_unstable();
    delays.dedup();
    let words: Vec<String> = delays.into_iter().map(row::time).collect();
    match words.as_slice() {
        [] => planned,
        [only] if planned.is_empty() => format!("delay={only}"),
        [only] if planned.split(' ').any(|word| *word == format!("delay={only}")) => planned,
        _ if planned.is_empty() => format!("delay {}", words.join(", ")),
        _ => format!("{planned}, in this block {}", words.join(", ")),
    }
}

/// The picture in words.
pub fn told(picture: &Picture) -> String {
    let mut text = String::new();
    for datacenter in &picture.datacenters {
        let nodes: Vec<String> = datacenter
            .nodes
            .iter()
            .map(|node| match (&node.upstream, &node.slots) {
                (Some(upstream), _) => format!("{} ({}, follows {upstream})", node.name, node.what),
                (None, Some(slots)) => format!("{} ({}, slots {slots})", node.name, node.what),
                (None, None) => format!("{} ({})", node.name, node.what),
            })
            .collect();
        // Writing to a text cannot fail.
        let _ = write!(text, "{}: {}. ", datacenter.name, nodes.join(", "));
    }
    for link in &picture.links {
        let state = match &link.state {
            Passage::Open => String::new(),
            Passage::Cut(what) | Passage::CutPorts(what) => format!(", was cut ({what})"),
            Passage::Frozen => ", was frozen".to_owned(),
        };
        let _ = write!(text, "{} to {}: {}{state}. ", link.from, link.to, link.conditions);
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::Passage;
    use crate::report::samples::Made;
    use wire::{CutKind, Path};

    fn changed(from: &str, to: &str, ms: u64, cut: Option<CutKind>) -> What {
        What::LinkChanged {
            block: 3,
            from: from.to_owned(),
            to: to.to_owned(),
            at_ns: 0,
            delay_ns: ms * 1_000_000,
            cut,
            port_cut: None,
            frozen: false,
            path: Path::Tun,
        }
    }

    fn made() -> Made {
        let server = |node: &str, datacenter: &str| ServerSeen {
            node: node.to_owned(),
            datacenter: datacenter.to_owned(),
            engine: "redis".to_owned(),
            release: String::new(),
            version: "7.0.15".to_owned(),
            address: String::new(),
        };
        let whats = [
            What::LabReady {
                lab: "x".to_owned(),
                topology: "two-dc".to_owned(),
                took_ms: 1,
                servers: vec![server("a", "dc1"), server("b", "dc2")],
            },
            What::BlockStarted { block: 3, method: None },
            changed("dc1", "dc2", 5, None),
            changed("dc2", "dc1", 5, None),
            changed("dc1", "dc2", 20, Some(CutKind::Drop)),
            changed("dc1", "dc2", 20, None),
        ];
        let mut made = Made::default();
        made.history.events = whats.into_iter().map(|what| Event { at_ns: 0, what }).collect();
        made
    }

    #[test]
    fn without_a_plan_there_are_the_nodes_the_delays_and_the_cut_of_the_history() {
        let made = made();
        let picture = picture(&made.cell("x"), 3).unwrap();
        let states: Vec<(&str, &str, &Passage)> = picture
            .links
            .iter()
            .map(|link| (link.from.as_str(), link.conditions.as_str(), &link.state))
            .collect();
        let cut = Passage::Cut("drop".to_owned());
        assert_eq!(
            states,
            [("dc1", "delay 5ms, 20ms", &cut), ("dc2", "delay=5ms", &Passage::Open)]
        );
        assert_eq!(
            told(&picture),
            "dc1: a (redis 7.0.15). dc2: b (redis 7.0.15). dc1 to dc2: delay 5ms, 20ms, was cut (drop). dc2 to dc1: delay=5ms."
        );
    }

    #[test]
    fn a_block_that_had_no_lab_has_no_picture() {
        let mut made = made();
        assert!(picture(&made.cell("x"), 7).is_none());
        made.history.events.remove(0);
        assert!(picture(&made.cell("x"), 3).is_none());
    }
}
