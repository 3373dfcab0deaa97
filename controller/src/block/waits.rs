//! SET, and SET followed by WAIT, from a probe beside the primary: what blocks 3, 10, 11 and 13 measure in different places.
//! Every series goes over one connection in a closed loop. Which replicas are attached is the block's own business, but
//! for [`far_only`].

use super::BlockError;
use super::found::AsFound;
use super::scene::{Heading, REPLY, Scene, in_words};
use crate::findings::row;
use crate::names::DatacenterName;
use crate::probe::{Samples, nanoseconds};
use futures_util::future::try_join_all;
use std::time::Duration;
use wire::{Load, Operation, Pace};

/// Key prefix, and number of keys.
const KEY: &str = "testbed:wait:";
const KEYS: u32 = 10;
/// Of each value.
pub const VALUE_BYTES: u32 = 32;
/// All of these series.
pub const PACE: Pace = Pace::Closed { pause_ns: 0 };
/// SETs before the counted ones, and counted.
pub const SETS: (u32, u32) = (50, 200);
/// SET + WAITs before the counted ones.
pub const WARMUP: u32 = 3;
/// WAIT's own limit where it is expected to succeed.
const LIMIT_MS: u64 = 5000;
/// Pause between the round trips of the link beside a series: about as many as its operations.
const BESIDE_PAUSE: Duration = Duration::from_millis(1);

/// A series of SET + WAIT.
pub struct Waits {
    /// Key prefix.
    pub key: &'static str,
    /// Replicas to wait for.
    pub replicas: u32,
    /// WAIT's own limit.
    pub limit_ms: u64,
    /// Operations before the counted ones.
    pub warmup: u32,
    /// Operations counted.
    pub count: u32,
    /// Whether it waits for a replica across a link that is up: then the link is measured beside it.
    pub crosses_link: bool,
}

impl Waits {
    /// For so many replicas, the far one among them.
    pub fn of(replicas: u32, count: u32) -> Self {
        Self {
            key: KEY,
            replicas,
            limit_ms: LIMIT_MS,
            warmup: WARMUP,
            count,
            crosses_link: true,
        }
    }

    /// For replicas beside the primary only.
    pub fn at_home(self) -> Self {
        Self {
            crosses_link: false,
            ..self
        }
    }

    /// SETs, each followed by WAIT after its reply and timed with it.
    pub async fn timed(self, scene: &mut Scene<'_>, row: &'static str, delay_ns: u64) -> Result<(), BlockError> {
        let beside = self.crosses_link.then_some(self.count);
        let series = self.series(scene, row);
        at_once(scene, delay_ns, vec![series], beside).await
    }

    /// The same as a series among others.
    pub fn series<'a>(self, scene: &Scene<'a>, row: &'static str) -> Series<'a> {
        Series {
            row,
            what: "set_wait",
            from: &scene.cast.home,
            operation: Operation::SetWait {
                key: self.key.to_owned(),
                keys: KEYS,
                value_bytes: VALUE_BYTES,
                replicas: self.replicas,
                wait_timeout_ms: self.limit_ms,
            },
            warmup: self.warmup,
            count: self.count,
        }
    }
}

/// The same operation on the primary again and again, over one connection.
pub struct Series<'a> {
    /// Row of the table, without the distance.
    pub row: &'static str,
    /// What is timed.
    pub what: &'static str,
    /// Whose probe.
    pub from: &'a DatacenterName,
    /// The operation.
    pub operation: Operation,
    /// Operations before the counted ones.
    pub warmup: u32,
    /// Operations counted.
    pub count: u32,
}

/// Every key that a series with this prefix writes.
pub fn keys_of(prefix: &str) -> impl Iterator<Item = String> {
    (0..KEYS).map(move |i| format!("{prefix}{i}"))
}

/// Every key that a series with the usual prefix writes.
pub fn keys() -> Vec<String> {
    keys_of(KEY).collect()
}

/// GET of what the SETs wrote.
pub fn read() -> Operation {
    Operation::Get {
        key: KEY.to_owned(),
        keys: KEYS,
        stride: 1,
    }
}

/// Leaves only the far replica attached, and sees that.
pub async fn far_only(scene: &mut Scene<'_>) -> Result<(), BlockError> {
    let cast = scene.cast;
    AsFound::set(scene, &cast.primary, "repl-diskless-sync-delay", "0").await?;
    for other in &cast.others {
        scene.promote(other).await?;
    }
    scene.in_sync(&[&cast.far]).await?;
    Ok(())
}

/// Plain SETs, and SETs with WAIT 1, with the link this long; the link's own round trips before, beside and after.
pub async fn at_distance(
    scene: &mut Scene<'_>,
    row: &'static str,
    delay_ns: u64,
    count: u32,
) -> Result<(), BlockError> {
    scene.set_delay(delay_ns).await?;
    scene.progress(&format!("WAIT at {} one way", row::time(delay_ns)));
    scene.round_trips(delay_ns).await?;
    sets(scene, row, delay_ns).await?;
    Waits::of(1, count).timed(scene, row, delay_ns).await?;
    scene.round_trips(delay_ns).await
}

/// Plain SETs.
pub async fn sets(scene: &mut Scene<'_>, row: &'static str, delay_ns: u64) -> Result<(), BlockError> {
    let (warmup, count) = SETS;
    let series = Series {
        row,
        what: "set",
        from: &scene.cast.home,
        operation: Operation::Set {
            key: KEY.to_owned(),
            keys: KEYS,
            value_bytes: VALUE_BYTES,
        },
        warmup,
        count,
    };
    at_once(scene, delay_ns, vec![series], None).await
}

/// Several series at once, and with `beside` so many round trips of the link itself beside them.
pub async fn at_once(
    scene: &mut Scene<'_>,
    delay_ns: u64,
    series: Vec<Series<'_>>,
    beside: Option<u32>,
) -> Result<(), BlockError> {
    let measured = match beside {
        Some(count) => {
            let beside = (count, BESIDE_PAUSE);
            scene
                .round_trips_beside(delay_ns, beside, async |scene| loads(scene, &series).await)
                .await?
        }
        None => loads(scene, &series).await?,
    };
    for (series, measured) in series.iter().zip(measured) {
        let heading = Heading {
            row: series.row,
            what: series.what,
            path: format!("{} probe -> {}", series.from, scene.cast.primary.shown()),
            delay_ns: Some(delay_ns),
            warmup: series.warmup,
            pace: in_words(PACE),
        };
        scene.series(heading, measured)?;
    }
    Ok(())
}

async fn loads(scene: &Scene<'_>, series: &[Series<'_>]) -> Result<Vec<Samples>, BlockError> {
    let loads = series.iter().map(|series| {
        let load = Load {
            target: scene.cast.primary.target,
            operation: series.operation.clone(),
            connections: 1,
            warmup: series.warmup,
            count: series.count,
            for_ns: None,
            pace: PACE,
            timeout_ns: nanoseconds(REPLY),
        };
        scene.load(series.from, load)
    });
    try_join_all(loads).await
}
