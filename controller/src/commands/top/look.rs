//! One look at a lab, and what two of them say together: rates between them, and what changed. Rates are differences of
//! counters; a counter that fell (a restart) or a server that did not answer twice gives none.

use crate::commands::link::{LinkRow, RelayRow};
use crate::commands::ps::{self, NodeRow};
use crate::conditions::shown;
use crate::error::CommandError;
use crate::lab::{self, Engines, Lab};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

/// A lab at one moment.
pub(in crate::commands) struct Look {
    /// When it was asked.
    pub at: Instant,
    /// Its servers.
    pub nodes: Vec<NodeRow>,
    /// Commands that each server has done since its start (`None`: it does not tell).
    pub commands: Vec<Option<Commands>>,
    /// Its directed links.
    pub links: Vec<LinkRow>,
    /// Bytes that each link holds.
    pub held_bytes: Vec<u64>,
    /// Its relays.
    pub relays: Vec<RelayRow>,
}

/// What a server says of its commands.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct Commands {
    /// Done since its start, but for the questions of this look: a server counts a command once it has answered it.
    done: u64,
    /// Questions of this look.
    asked: u64,
}

/// What `top` shows: one look, with rates since the one before.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TopLine {
    /// The lab.
    pub lab: String,
    /// Time between the two looks, milliseconds.
    pub over_ms: u64,
    /// Servers.
    pub nodes: Vec<TopNode>,
    /// Directed links.
    pub links: Vec<TopLink>,
    /// Relays.
    pub relays: Vec<TopRelay>,
}

/// A server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TopNode {
    /// Its name.
    pub node: String,
    /// Where it stands.
    pub datacenter: String,
    /// Its role, as it says (`null`: it says nothing).
    pub role: Option<&'static str>,
    /// Commands per second that it did, without those that `top` asks (`null`: a database, or unknown).
    pub commands_per_s: Option<u64>,
    /// Bytes of its upstream's stream that it has not applied (`null`: no replica, or unknown).
    pub lag_bytes: Option<u64>,
    /// `ready`, or why not.
    pub health: String,
}

/// A directed link.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TopLink {
    /// Sending side.
    pub from: String,
    /// Receiving side.
    pub to: String,
    /// Conditions, as asked for.
    pub conditions: String,
    /// `up`, or the cut, freeze or schedule in force.
    pub state: String,
    /// What passed, bits per second (`null`: its relay was started in between).
    pub bits_per_s: Option<u64>,
    /// What passed, packets per second.
    pub packets_per_s: Option<u64>,
    /// Packets that wait or are under way.
    pub held_packets: u64,
    /// Their bytes.
    pub held_bytes: u64,
    /// Packets that did not pass, per second, whatever the reason.
    pub dropped_per_s: Option<u64>,
    /// 99 of 100 packets left at most so long after they were due, since the relay started (`null`: none left, or beyond
    /// the largest class).
    pub late_p99_us: Option<u64>,
}

/// A relay.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TopRelay {
    /// Datacenter that it serves.
    pub datacenter: String,
    /// How it carries connections.
    pub mode: String,
    /// Scheduling class that the kernel granted.
    pub scheduling: String,
}

/// Asks everything once.
pub(in crate::commands) async fn look(engines: &Engines, lab: &Lab) -> Result<Look, CommandError> {
    let (found, nodes, links, relays) = tokio::join!(
        lab::choose(engines, Some(lab.name())),
        lab.look(),
        lab.links(),
        lab.relay_states()
    );
    let (found, links, relays) = (found?, links?, relays?);
    let commands = nodes.iter().map(|seen| {
        let state = seen.state.as_ref().ok()?;
        Some(Commands {
            done: state.commands?,
            asked: state.asked,
        })
    });
    Ok(Look {
        at: Instant::now(),
        commands: commands.collect(),
        nodes: ps::rows(lab, &found, &nodes, &links),
        held_bytes: links.iter().map(|link| link.status.counters.held_bytes).collect(),
        links: links.iter().map(LinkRow::from).collect(),
        relays: relays.iter().map(RelayRow::from).collect(),
    })
}

/// What two looks say together.
pub(in crate::commands) fn line(lab: &str, before: &Look, now: &Look) -> TopLine {
    let over = now.at.duration_since(before.at);
    let nodes = now.nodes.iter().enumerate().map(|(place, node)| TopNode {
        node: node.node.clone(),
        datacenter: node.datacenter.clone(),
        role: node.role,
        commands_per_s: match (before.commands.get(place).copied().flatten(), now.commands[place]) {
            (Some(before), Some(now)) => own_rate(before, now, over),
            _ => None,
        },
        lag_bytes: node.replication.as_ref().and_then(|replication| replication.lag_bytes),
        health: node.health.clone(),
    });
    let links = now.links.iter().enumerate().map(|(place, link)| {
        let since = |of: fn(&LinkRow) -> u64| rate(of(before.links.get(place)?), of(link), over);
        TopLink {
            from: link.from.clone(),
            to: link.to.clone(),
            conditions: shown(&link.conditions),
            state: link.state(),
            bits_per_s: since(|link| link.forwarded_bytes * 8),
            packets_per_s: since(|link| link.forwarded_packets),
            held_packets: link.held_packets,
            held_bytes: now.held_bytes[place],
            dropped_per_s: since(|link| link.dropped.all()),
            late_p99_us: link.late_p99_us,
        }
    });
    let relays = now.relays.iter().map(|relay| TopRelay {
        datacenter: relay.datacenter.clone(),
        mode: relay.mode.clone(),
        scheduling: relay.scheduling.clone(),
    });
    TopLine {
        lab: lab.to_owned(),
        over_ms: u64::try_from(over.as_millis()).unwrap_or(u64::MAX),
        nodes: nodes.collect(),
        links: links.collect(),
        relays: relays.collect(),
    }
}

/// Commands per second without the questions of the look before; none if the server was started in between.
fn own_rate(before: Commands, now: Commands, over: Duration) -> Option<u64> {
    let known = before.done.saturating_add(before.asked);
    match now.done >= before.done {
        true => rate(known.min(now.done), now.done, over),
        false => None,
    }
}

/// Per second, rounded to the nearest.
fn rate(before: u64, now: u64, over: Duration) -> Option<u64> {
    let ns = over.as_nanos();
    let more = u128::from(now.checked_sub(before)?) * 1_000_000_000;
    u64::try_from((more + ns / 2).checked_div(ns)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_difference_over_the_time_and_none_after_a_restart() {
        let over = Duration::from_millis(500);
        assert_eq!(rate(100, 150, over), Some(100));
        assert_eq!(rate(150, 150, over), Some(0));
        assert_eq!(rate(150, 3, over), None);
        assert_eq!(rate(1, 2, Duration::ZERO), None);
    }

    #[test]
    fn what_top_asks_itself_is_no_work_of_a_server_that_is_started_anew_either() {
        let over = Duration::from_secs(1);
        let commands = |done| Commands { done, asked: 3 };
        assert_eq!(own_rate(commands(1000), commands(1003), over), Some(0), "idle");
        assert_eq!(own_rate(commands(1000), commands(1053), over), Some(50));
        assert_eq!(
            own_rate(commands(1000), commands(40), over),
            None,
            "it was started in between"
        );
        assert_eq!(
            own_rate(commands(40), commands(93), over),
            Some(50),
            "and counts from there"
        );
    }
}
