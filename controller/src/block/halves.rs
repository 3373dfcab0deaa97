//! Blocks 4, 5 and 6: one real cut of a cluster of which both halves are asked, before, during and after it. Every node of a
//! half is read and written for every slot range by the probe of its own datacenter, and asked what it thinks of the cluster.
//!
//! With `--method stop` also the record's own way: one half stopped, the other asked, a fresh cluster for each.
//!
//! Afterwards every acknowledged write is looked for, every node is put back in its place by a manual failover, and the
//! keys are removed.

pub mod keys;
mod ledger;

pub use ledger::{keys_left, prepare, remove_keys, write};

use super::formed::Formed;
use super::scene::{REPLY, Scene};
use super::{Block, BlockError, Member, Method};
use crate::findings::halves::row;
use crate::history::{ClusterPlaced, NodePlaced, Parting, RangePlaced};
use crate::lab::Only;
use crate::names::DatacenterName;
use crate::probe::{HalfWatching, nanoseconds};
use keys::Range;
use std::time::{Duration, Instant};
use wire::HalfWatch;

/// Between two reads, and between two writes, of one slot range on one node.
const INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks at what a node says of the cluster.
const LOOK: Duration = Duration::from_millis(100);
/// Limit of each connection and reply of the probes: a node that is silent for longer is recorded so.
const LIMIT: Duration = Duration::from_millis(500);
/// The halves are watched for so long before they are parted, and after all nodes agree again.
const AROUND: Duration = Duration::from_secs(2);
/// Settled is what has not changed for so many node timeouts. An election that failed is tried again after four; two more
/// would do for a state.
const QUIET_TIMEOUTS: u32 = 4;
/// The halves are parted no longer than this, whatever they do.
const LONGEST: Duration = Duration::from_secs(40);
/// Limit of a watch, should nobody end it.
const WATCH: Duration = Duration::from_secs(300);
/// Between two looks whether the halves have settled.
const SETTLING: Duration = Duration::from_millis(200);
/// Settings under which a replica must have heard from its master within one node timeout and a second, beyond another node
/// timeout.
const BARELY_OLD: [(&str, &str); 2] = [
    ("cluster-replica-validity-factor", "1"),
    ("repl-ping-replica-period", "1"),
];
/// Beyond two node timeouts, the age at which a replica is too old for that, and a second more, since ages are told in whole ones.
const MORE_S: i64 = 2;
/// Limit of ending a watch.
pub const END: Duration = Duration::from_secs(10);

pub fn method(block: Block, method: Method) -> String {
    let partial = match block {
        Block::LayoutB => " Then the same with cluster-require-full-coverage no on every node.",
        _ => "",
    };
    let stale = match block {
        Block::LayoutC => {
            " Then the same with cluster-replica-validity-factor 1 and repl-ping-replica-period 1, after the client ports alone were cut for so long \
             that the replica at home had heard nothing from its master for two node timeouts and 2 s."
        }
        _ => "",
    };
    let stop = match method {
        Method::Cut => "",
        Method::Stop => {
            " Then the record's own way, twice: a fresh cluster is formed of the same nodes (FLUSHALL, CLUSTER RESET HARD, the same placement), and the \
             nodes of one half are paused by the engine in place of the cut, until the other half has settled; then they go on."
        }
    };
    format!(
        "All nodes of both halves are read and written for every slot range by the probe of their own datacenter, one of each every {} per node \
         and range (open loop, limit {}), and asked every {} for CLUSTER INFO, CLUSTER NODES and INFO replication; redirects are recorded and not \
         followed. {} later the link is cut in both directions, bus and all, until no node's cluster_state or role has changed for {QUIET_TIMEOUTS} node \
         timeouts, then healed and watched until all nodes agree. Every acknowledged write is then looked for on the owners of the slots. Masters are \
         put back by CLUSTER FAILOVER, the placement is verified, the keys are removed.{partial}{stale}{stop}",
        humantime::format_duration(INTERVAL),
        humantime::format_duration(LIMIT),
        humantime::format_duration(LOOK),
        humantime::format_duration(AROUND),
    )
}

pub async fn measure(block: Block, scene: &mut Scene<'_>, formed: &Formed) -> Result<(), BlockError> {
    part(scene, formed, row::CUT, Parting::Cut).await?;
    if block == Block::LayoutB {
        let members = scene.members();
        formed.set(scene, "cluster-require-full-coverage", "no").await?;
        part(scene, formed, row::PARTIAL, Parting::Cut).await?;
        formed.put_settings_back(scene, &members).await?;
    }
    if block == Block::LayoutC {
        let members = scene.members();
        for (name, value) in BARELY_OLD {
            formed.set(scene, name, value).await?;
        }
        part(scene, formed, row::STALE, Parting::Cut).await?;
        formed.put_settings_back(scene, &members).await?;
    }
    if scene.means.method == Method::Stop {
        for (row, parting) in [
            (row::AWAY_STOPPED, Parting::AwayStopped),
            (row::HOME_STOPPED, Parting::HomeStopped),
        ] {
            scene.progress(&format!("{row}: forming a fresh cluster"));
            scene.form_again().await?;
            part(scene, formed, row, parting).await?;
        }
    }
    Ok(())
}

/// One parting, from the cluster in its place to the cluster in its place.
async fn part(scene: &mut Scene<'_>, formed: &Formed, row: &str, parting: Parting) -> Result<(), BlockError> {
    let members = scene.members();
    scene.progress(&format!("{row}: reads and writes on {} nodes", members.len()));
    scene.seated(&members).await?;
    let ranges = keys::ranges(&members);
    record_placement(scene, formed, &members, &ranges, row, parting).await?;
    ledger::prepare(scene, &members, &ranges, row).await?;
    let watches = watch_both(scene, &members, &ranges, row).await?;
    // The time before the parting is the experiment's own parameter, not a wait for a condition.
    tokio::time::sleep(AROUND).await;
    if row == row::STALE {
        age(scene, formed, &members).await?;
    }
    begin(scene, row, parting).await?;
    scene.progress(&format!("{row}: parted, waiting until no node changes any more"));
    settle(scene, formed, &able(scene, &members, parting), row).await?;
    end(scene, row, parting).await?;
    scene.progress(&format!("{row}: the halves have met, waiting until all agree"));
    scene.agreed(&members).await?;
    tokio::time::sleep(AROUND).await;
    for (datacenter, watch) in watches {
        let seen = watch.stop(END).await?;
        ledger::look_for(scene, &members, &ranges, row, &datacenter, &seen).await?;
        scene.half_watched(row, &datacenter, seen)?;
    }
    scene.progress(&format!("{row}: putting every node back in its place"));
    scene.seat(&members).await?;
    remove_keys(scene, &members).await
}

/// Both halves from now on, each by the probe of its own datacenter.
pub async fn watch_both(
    scene: &Scene<'_>,
    members: &[Member],
    ranges: &[Range],
    row: &str,
) -> Result<Vec<(DatacenterName, HalfWatching)>, BlockError> {
    let mut watches = Vec::new();
    for datacenter in [&scene.cast.home, &scene.cast.away] {
        let watch = watch(scene, members, ranges, row, datacenter).await?;
        watches.push((datacenter.clone(), watch));
    }
    Ok(watches)
}

async fn watch(
    scene: &Scene<'_>,
    members: &[Member],
    ranges: &[Range],
    row: &str,
    datacenter: &DatacenterName,
) -> Result<HalfWatching, BlockError> {
    let order = HalfWatch {
        nodes: keys::nodes_of(members, datacenter)
            .map(|member| member.part.target)
            .collect(),
        ranges: ranges.iter().map(|range| range.tags.clone()).collect(),
        prefix: keys::prefix(row, datacenter),
        interval_ns: nanoseconds(INTERVAL),
        look_ns: nanoseconds(LOOK),
        for_ns: nanoseconds(WATCH),
        timeout_ns: nanoseconds(LIMIT),
    };
    Ok(scene.lab.probe(datacenter).half(order, REPLY).await?)
}

/// Tells the history how the cluster is placed.
pub async fn record_placement(
    scene: &mut Scene<'_>,
    formed: &Formed,
    members: &[Member],
    ranges: &[Range],
    row: &str,
    parting: Parting,
) -> Result<(), BlockError> {
    let settings = formed.deciding(scene).await?;
    scene.cluster_placed(placed(scene, formed, members, ranges, row, parting, settings))
}

/// How the cluster is placed, for the history.
pub fn placed(
    scene: &Scene<'_>,
    formed: &Formed,
    members: &[Member],
    ranges: &[Range],
    row: &str,
    parting: Parting,
    settings: Vec<(String, String)>,
) -> ClusterPlaced {
    let node = |member: &Member| NodePlaced {
        node: member.part.node.to_string(),
        datacenter: member.part.datacenter.to_string(),
        address: member.part.target.to_string(),
        slots: member.slots.to_string(),
        of: member.master.as_ref().map(ToString::to_string),
    };
    let range = |range: &Range| RangePlaced {
        slots: range.slots.to_string(),
        master: range.master.to_string(),
        tags: range.tags.clone(),
    };
    ClusterPlaced {
        block: scene.block_number(),
        row: row.to_owned(),
        parting,
        home: scene.cast.home.to_string(),
        away: scene.cast.away.to_string(),
        nodes: members.iter().map(node).collect(),
        ranges: ranges.iter().map(range).collect(),
        node_timeout_ms: formed.node_timeout_ms,
        settings,
    }
}

/// Cuts the client ports only, so that masters feed no replica across the link while the bus goes on, until no replica at home
/// of a master in the other half has heard from it for longer than [`BARELY_OLD`] allows.
async fn age(scene: &mut Scene<'_>, formed: &Formed, members: &[Member]) -> Result<(), BlockError> {
    let master_of = |replica: &&Member| {
        let master = replica.master.as_ref();
        members.iter().find(|member| Some(&member.part.node) == master)
    };
    let home = scene.cast.home.clone();
    let candidates: Vec<Member> = members
        .iter()
        .filter(|member| member.part.datacenter == home)
        .filter(|member| master_of(member).is_some_and(|master| master.part.datacenter != home))
        .cloned()
        .collect();
    let timeout_s = i64::try_from(formed.node_timeout_ms.div_ceil(1000)).unwrap_or(i64::MAX);
    let least_s = timeout_s.saturating_mul(2).saturating_add(MORE_S);
    scene.cut_ports(&Only::Clients).await?;
    scene.progress(&format!(
        "{}: client ports are cut until replicas are {least_s} s old",
        row::STALE
    ));
    let began = Instant::now();
    loop {
        let views = scene.views(&candidates).await?;
        let ages = views.iter().map(|view| view.replication.silent_s());
        if ages.clone().all(|age_s| age_s.is_some_and(|age_s| age_s >= least_s)) {
            return Ok(());
        }
        if began.elapsed() > LONGEST {
            return Err(BlockError::NotSeen {
                wanted: format!("replicas at home that have heard nothing for {least_s} s"),
                limit: LONGEST,
                seen: format!("{:?} s", ages.collect::<Vec<_>>()),
            });
        }
        tokio::time::sleep(SETTLING).await;
    }
}

/// Members that can be asked while the halves are parted.
fn able(scene: &Scene<'_>, members: &[Member], parting: Parting) -> Vec<Member> {
    let stopped = stopped(scene, parting);
    let able = members.iter().filter(|member| Some(&member.part.datacenter) != stopped);
    able.cloned().collect()
}

/// Datacenter whose half is stopped.
fn stopped<'s>(scene: &'s Scene<'_>, parting: Parting) -> Option<&'s DatacenterName> {
    match parting {
        Parting::Cut => None,
        Parting::HomeStopped => Some(&scene.cast.home),
        Parting::AwayStopped => Some(&scene.cast.away),
    }
}

/// Parts the halves, and records when.
pub async fn begin(scene: &mut Scene<'_>, row: &str, parting: Parting) -> Result<(), BlockError> {
    let at_ns = match stopped(scene, parting).cloned() {
        Some(half) => {
            scene.pause_half(&half).await?;
            scene.now_ns().await?
        }
        None => {
            scene.cut(row).await?;
            let links = scene.links().await?;
            let cut = links.iter().filter_map(|link| link.status.last_cut_ns).max();
            // A freeze, the negative control, is no cut.
            let now = links.iter().map(|link| link.now_ns).max();
            cut.or(now).unwrap_or_default()
        }
    };
    scene.fact(row, "parted_at_ns", i64::try_from(at_ns).unwrap_or(i64::MAX))
}

/// Brings the halves together again, and records when.
pub async fn end(scene: &mut Scene<'_>, row: &str, parting: Parting) -> Result<(), BlockError> {
    let at_ns = match stopped(scene, parting).cloned() {
        Some(half) => {
            // Before: what it says from then on is of no half that is stopped.
            let at_ns = scene.now_ns().await?;
            scene.resume_half(&half).await?;
            at_ns
        }
        None => {
            scene.heal(row).await?;
            scene.now_ns().await?
        }
    };
    scene.fact(row, "joined_at_ns", i64::try_from(at_ns).unwrap_or(i64::MAX))
}

/// Waits until no node that can be asked has changed its state or role for so long that none will.
async fn settle(scene: &mut Scene<'_>, formed: &Formed, asked: &[Member], row: &str) -> Result<(), BlockError> {
    let quiet = Duration::from_millis(formed.node_timeout_ms) * QUIET_TIMEOUTS;
    let began = Instant::now();
    let (mut last, mut changed) = (Vec::new(), Instant::now());
    loop {
        let views = scene.views(asked).await?;
        let now: Vec<(bool, String)> = views
            .into_iter()
            .map(|view| (view.cluster.ok, view.replication.role))
            .collect();
        if now != last {
            (last, changed) = (now, Instant::now());
        }
        if changed.elapsed() > quiet {
            return Ok(());
        }
        if began.elapsed() > LONGEST {
            return scene.note(format!("{row}: the halves had not settled after {LONGEST:?}."));
        }
        tokio::time::sleep(SETTLING).await;
    }
}
