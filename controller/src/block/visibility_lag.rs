//! Block 1: when is a write visible on a replica? One numbered write after the other in the primary's datacenter, seen by
//! a probe beside each replica, by the replica's own events and, as the record did it, by polling.
//!
//! All probes stamp with one clock, so far minus near is taken write by write and has no granularity of a poll.

use super::found::AsFound;
use super::scene::{Distance, Heading, LOAD, REPLY, Scene, in_words};
use super::{BlockError, Part};
use crate::findings::row;
use crate::probe::{Samples, nanoseconds};
use std::time::Duration;
use wire::{Load, Operation, Pace, ProbeOrder};

/// The key that is written and watched.
const KEY: &str = "testbed:lag";
/// Key prefix of the load.
const LOAD_KEY: &str = "testbed:lag:load:";
/// Between two writes: no write waits for the one before it, and the servers are idle in between.
const INTERVAL: Duration = Duration::from_millis(25);
/// Writes before the counted ones (to another key).
const WARMUP: u32 = 10;
/// Writes at the link's own distance, at the others, and under load.
const WRITES: (u32, u32, u32) = (100, 40, 50);
/// Round trips of the link beside the writes, from each end, at its own distance and at the others, and their pause.
const BESIDE: (u32, u32) = (40, 20);
const BESIDE_PAUSE: Duration = Duration::from_millis(17);
/// Between two polls: two polling probes must not use up two cores.
const POLL_PAUSE: Duration = Duration::from_micros(500);

/// The load of the second row: this many connections, each writing the next value as soon as the last is acknowledged.
const LOAD_CONNECTIONS: u32 = 16;
const LOAD_VALUE_BYTES: u32 = 1024;
const LOAD_KEYS: u32 = 1000;
/// The load goes on for so long beyond the writes that it surrounds, on either side.
const LOAD_MARGIN: Duration = Duration::from_millis(300);

pub fn method() -> String {
    format!(
        "A probe beside the primary sets one key to ascending numbers, {}, after {WARMUP} writes to another key. A probe beside \
         each replica stamps the replica's keyspace event of every write, and polls the key, {} pause. The lag of a write \
         runs from its sending to its stamp; far minus near is taken write by write. {} writes at the link's own delay, {} at the other \
         distances. Second row: {} writes while {LOAD_CONNECTIONS} connections set values of {LOAD_VALUE_BYTES} bytes, closed loop, from the \
         same probe. Round trip: datagrams between the probes, both ways, before, beside and after the writes without load.",
        in_words(pace()),
        humantime::format_duration(POLL_PAUSE),
        WRITES.0,
        WRITES.1,
        WRITES.2,
    )
}

pub async fn measure(scene: &mut Scene<'_>, found: &AsFound) -> Result<(), BlockError> {
    for replica in replicas(scene) {
        AsFound::set(scene, replica, "notify-keyspace-events", "K$").await?;
    }
    for distance in Distance::all(found.delay_ns()) {
        at_distance(scene, distance).await?;
        if distance.full {
            scene.progress("visibility under load");
            under_load(scene, distance).await?;
        }
    }
    Ok(())
}

/// Every key that the block writes.
pub fn keys() -> Vec<String> {
    let load = (0..LOAD_KEYS).map(|i| format!("{LOAD_KEY}{i}"));
    [KEY.to_owned(), format!("{KEY}:warmup")]
        .into_iter()
        .chain(load)
        .collect()
}

async fn at_distance(scene: &mut Scene<'_>, distance: Distance) -> Result<(), BlockError> {
    let delay_ns = distance.delay_ns;
    scene.set_delay(delay_ns).await?;
    scene.progress(&format!("visibility at {} one way", row::time(delay_ns)));
    scene.round_trips(delay_ns).await?;
    fresh_key(scene).await?;
    let count = distance.samples(WRITES.0, WRITES.1);
    let beside = (distance.samples(BESIDE.0, BESIDE.1), BESIDE_PAUSE);
    let seen = scene
        .round_trips_beside(delay_ns, beside, async |scene| watched_writes(scene, count).await)
        .await?;
    record(scene, ["write", "near", "far"], delay_ns, seen)?;
    scene.round_trips(delay_ns).await
}

async fn under_load(scene: &mut Scene<'_>, distance: Distance) -> Result<(), BlockError> {
    let lasts = INTERVAL * (WARMUP + WRITES.2) + LOAD_MARGIN * 2;
    let load = Load {
        target: scene.cast.primary.target,
        operation: Operation::Set {
            key: LOAD_KEY.to_owned(),
            keys: LOAD_KEYS,
            value_bytes: LOAD_VALUE_BYTES,
        },
        connections: LOAD_CONNECTIONS,
        warmup: 0,
        count: u32::MAX,
        for_ns: Some(nanoseconds(lasts)),
        pace: Pace::Closed { pause_ns: 0 },
        timeout_ns: nanoseconds(REPLY),
    };
    fresh_key(scene).await?;
    let writes = async {
        // Not a wait for readiness: how far the load began before the first write is told from its own stamps.
        tokio::time::sleep(LOAD_MARGIN).await;
        watched_writes(scene, WRITES.2).await
    };
    let (load, seen) = tokio::join!(scene.load(&scene.cast.home, load), writes);
    let (load, seen) = (load?, seen?);
    record(
        scene,
        ["write under load", "near under load", "far under load"],
        distance.delay_ns,
        seen,
    )?;
    record_load(scene, &load)?;
    Ok(())
}

/// The key begins anew, on every replica: a poll takes what it finds first for news. What a load left on its way has
/// then arrived as well.
async fn fresh_key(scene: &Scene<'_>) -> Result<(), BlockError> {
    scene.remove_keys(&[KEY.to_owned()]).await?;
    scene.in_sync(&scene.cast.replicas()).await?;
    Ok(())
}

/// The load in numbers: it is the condition of the row, not what is measured, and has tens of thousands of operations.
fn record_load(scene: &mut Scene<'_>, load: &Samples) -> Result<(), BlockError> {
    let stamp = |ns: Option<u64>| i64::try_from(ns.unwrap_or_default()).unwrap_or(i64::MAX);
    let began = load.samples.iter().map(|sample| sample.started_ns).min();
    let ended = load.samples.iter().map(|sample| sample.ended_ns).max();
    let failed: u32 = load.failures.iter().map(|failure| failure.times).sum();
    let operations = i64::try_from(load.samples.len()).unwrap_or(i64::MAX);
    for (name, value) in [
        ("load_connections", i64::from(LOAD_CONNECTIONS)),
        ("load_value_bytes", i64::from(LOAD_VALUE_BYTES)),
        ("load_operations", operations),
        ("load_failures", i64::from(failed)),
        ("load_began_ns", stamp(began)),
        ("load_ended_ns", stamp(ended)),
    ] {
        scene.fact("load", name, value)?;
    }
    Ok(())
}

/// What the three probes saw of the same writes.
struct Seen {
    writes: Samples,
    /// Events at the near and at the far replica.
    events: [Samples; 2],
    /// Polls at the near and at the far replica.
    polls: [Samples; 2],
}

async fn watched_writes(scene: &Scene<'_>, count: u32) -> Result<Seen, BlockError> {
    let [near, far] = replicas(scene);
    let (near_watch, far_watch, near_poll, far_poll) = tokio::try_join!(
        watching(scene, near, watch(near, count)),
        watching(scene, far, watch(far, count)),
        watching(scene, near, poll(near, count)),
        watching(scene, far, poll(far, count)),
    )?;
    let load = Load {
        target: scene.cast.primary.target,
        operation: Operation::SetNumber { key: KEY.to_owned() },
        connections: 1,
        warmup: WARMUP,
        count,
        for_ns: None,
        pace: pace(),
        timeout_ns: nanoseconds(REPLY),
    };
    let writes = scene.load(&scene.cast.home, load).await?;
    Ok(Seen {
        writes,
        events: [near_watch.finish().await?, far_watch.finish().await?],
        polls: [near_poll.finish().await?, far_poll.finish().await?],
    })
}

async fn watching(scene: &Scene<'_>, replica: &Part, order: ProbeOrder) -> Result<crate::probe::Watching, BlockError> {
    Ok(scene.lab.probe(&replica.datacenter).watch(order, LOAD).await?)
}

fn watch(replica: &Part, count: u32) -> ProbeOrder {
    ProbeOrder::Watch {
        target: replica.target,
        key: KEY.to_owned(),
        count,
        deadline_ns: nanoseconds(deadline(count)),
    }
}

fn poll(replica: &Part, count: u32) -> ProbeOrder {
    ProbeOrder::Poll {
        target: replica.target,
        key: KEY.to_owned(),
        count,
        pause_ns: nanoseconds(POLL_PAUSE),
        deadline_ns: nanoseconds(deadline(count)),
    }
}

/// The writes themselves, and what a busy host and a long link may add.
fn deadline(count: u32) -> Duration {
    INTERVAL * (count + WARMUP) + Duration::from_secs(10)
}

fn record(scene: &mut Scene<'_>, rows: [&'static str; 3], delay_ns: u64, seen: Seen) -> Result<(), BlockError> {
    let [write, near, far] = rows;
    let home = scene.cast.home.clone();
    let written = Heading {
        row: write,
        what: "set",
        path: format!("{home} probe -> {}", scene.cast.primary.shown()),
        delay_ns: Some(delay_ns),
        warmup: WARMUP,
        pace: in_words(pace()),
    };
    scene.series(written, seen.writes)?;
    let [near_replica, far_replica] = replicas(scene).map(Clone::clone);
    let [near_events, far_events] = seen.events;
    let [near_polls, far_polls] = seen.polls;
    for (row, what, replica, samples) in [
        (near, "event", &near_replica, near_events),
        (far, "event", &far_replica, far_events),
        (near, "poll", &near_replica, near_polls),
        (far, "poll", &far_replica, far_polls),
    ] {
        let heading = Heading {
            row,
            what,
            path: format!("{} -> {} probe", replica.shown(), replica.datacenter),
            delay_ns: Some(delay_ns),
            warmup: WARMUP,
            pace: if what == "poll" {
                in_words(Pace::Closed {
                    pause_ns: nanoseconds(POLL_PAUSE),
                })
            } else {
                "keyspace events".to_owned()
            },
        };
        scene.series(heading, samples)?;
    }
    Ok(())
}

fn pace() -> Pace {
    Pace::Open {
        interval_ns: nanoseconds(INTERVAL),
    }
}

/// The near replica and the far one.
fn replicas<'a>(scene: &Scene<'a>) -> [&'a Part; 2] {
    let near = scene
        .cast
        .near
        .as_ref()
        .expect("the cast of this block has a near replica");
    [near, &scene.cast.far]
}
