//! Block 7: is a cache in the other datacenter faster than the database at home? The probe beside the far replica reads the
//! same rows from the replica at home, from the database at home, and from the primary across the link.
//!
//! One connection each, closed loop, the record's table, keys and numbers; whether the rows are the same is checked.

use super::found::AsFound;
use super::scene::{Distance, Heading, REPLY, Scene, in_words, other_reply};
use super::{BlockError, Part};
use crate::findings::row;
use crate::probe::{Samples, nanoseconds};
use std::time::Duration;
use wire::{Load, Operation, Pace, Reply};

/// The table, named so that it is in nobody's way.
const TABLE: &str = "testbed_far_cache";
/// Key prefix of the rows.
const KEY: &str = "row:";
const ROWS: u32 = 5000;
/// Read number i is of row (i * 7) mod 5000.
const STRIDE: u32 = 7;
const PADDING: usize = 180;
/// Reads before the counted ones, and counted: everything at home, and the far cache at the link's own distance.
const READS: (u32, u32) = (50, 200);
/// The same for the far cache at the other distances.
const FEW_READS: (u32, u32) = (10, 50);
const PACE: Pace = Pace::Closed { pause_ns: 0 };
/// Round trips of the link beside the reads, from each end, at its own distance and at the others, with their pause.
const BESIDE: (u32, Duration) = (60, Duration::from_millis(100));
const FEW_BESIDE: (u32, Duration) = (40, Duration::from_millis(17));
/// Keys of one MSET.
const CHUNK: u32 = 250;
/// Limit of making the table.
const MAKE: Duration = Duration::from_secs(20);
/// Rows that are compared between table and cache.
const COMPARED: [u32; 5] = [0, 7, 1393, 2500, 4999];

pub fn method() -> String {
    format!(
        "A table of {ROWS} rows, integer primary key, text payload `payload-<i>-` and {PADDING} characters, analysed; the same payloads as \
         keys `{KEY}<i>`. The probe beside the far replica and the database reads row (i * {STRIDE}) mod {ROWS}, one connection each, {}: {} \
         reads after {} that do not count from the replica at home, from the database at home (prepared statement), and from \
         the primary across the link; {} after {} at the other distances, and for a second where they are shorter. Round trip: datagrams between the probes, both ways, before, beside and after.",
        in_words(PACE),
        READS.1,
        READS.0,
        FEW_READS.1,
        FEW_READS.0,
    )
}

pub async fn measure(scene: &mut Scene<'_>, found: &AsFound) -> Result<(), BlockError> {
    scene.progress("filling table and cache");
    let (table, cache) = tokio::join!(fill_table(scene), fill_cache(scene));
    table?;
    cache?;
    scene.in_sync(&scene.cast.replicas()).await?;
    check_rows(scene).await?;
    scene.progress("cache and database at home");
    let cast = scene.cast;
    home_reads(scene, ("cache at home", "get"), &cast.far).await?;
    home_reads(scene, ("database at home", "postgres_read"), scene.database()).await?;
    for distance in Distance::all(found.delay_ns()) {
        far_reads(scene, distance).await?;
    }
    Ok(())
}

/// Every key that the block writes.
pub fn keys() -> Vec<String> {
    (0..ROWS).map(|i| format!("{KEY}{i}")).collect()
}

/// Removes the table.
pub async fn drop_table(scene: &Scene<'_>) -> Result<(), BlockError> {
    let sql = format!("DROP TABLE IF EXISTS {TABLE}");
    scene.sql(scene.database(), sql, MAKE).await
}

async fn far_reads(scene: &mut Scene<'_>, distance: Distance) -> Result<(), BlockError> {
    let delay_ns = distance.delay_ns;
    scene.set_delay(delay_ns).await?;
    scene.progress(&format!("far cache at {} one way", row::time(delay_ns)));
    scene.round_trips(delay_ns).await?;
    let beside = if distance.full { BESIDE } else { FEW_BESIDE };
    let warmup = distance.samples(READS.0, FEW_READS.0);
    let reads = (warmup, distance.trips(READS.1, FEW_READS.1));
    let from = &scene.cast.primary;
    let measured = scene
        .round_trips_beside(delay_ns, beside, async |scene| {
            reads_of(scene, "get", from, reads).await
        })
        .await?;
    record(scene, ("cache far", "get"), from, Some(delay_ns), reads.0, measured)?;
    scene.round_trips(delay_ns).await
}

async fn home_reads(
    scene: &mut Scene<'_>,
    (row, what): (&'static str, &'static str),
    from: &Part,
) -> Result<(), BlockError> {
    let measured = reads_of(scene, what, from, READS).await?;
    record(scene, (row, what), from, None, READS.0, measured)
}

async fn reads_of(
    scene: &Scene<'_>,
    what: &str,
    from: &Part,
    (warmup, count): (u32, u32),
) -> Result<Samples, BlockError> {
    let operation = if what == "get" {
        Operation::Get {
            key: KEY.to_owned(),
            keys: ROWS,
            stride: STRIDE,
        }
    } else {
        Operation::PostgresRead {
            sql: format!("SELECT payload FROM {TABLE} WHERE id = $1"),
            keys: ROWS,
            stride: STRIDE,
        }
    };
    let load = Load {
        target: from.target,
        operation,
        connections: 1,
        warmup,
        count,
        for_ns: None,
        pace: PACE,
        timeout_ns: nanoseconds(REPLY),
    };
    scene.load(&scene.cast.away, load).await
}

fn record(
    scene: &mut Scene<'_>,
    (row, what): (&'static str, &'static str),
    from: &Part,
    delay_ns: Option<u64>,
    warmup: u32,
    measured: Samples,
) -> Result<(), BlockError> {
    let heading = Heading {
        row,
        what,
        path: format!("{} probe -> {}", scene.cast.away, from.shown()),
        delay_ns,
        warmup,
        pace: in_words(PACE),
    };
    scene.series(heading, measured)
}

async fn fill_table(scene: &Scene<'_>) -> Result<(), BlockError> {
    let sql = format!(
        "DROP TABLE IF EXISTS {TABLE}; CREATE TABLE {TABLE} (id integer PRIMARY KEY, payload text NOT NULL); \
         INSERT INTO {TABLE} SELECT i, 'payload-' || i || '-' || repeat('x', {PADDING}) FROM generate_series(0, {ROWS} - 1) AS i; \
         ANALYZE {TABLE}"
    );
    scene.sql(scene.database(), sql, MAKE).await
}

async fn fill_cache(scene: &Scene<'_>) -> Result<(), BlockError> {
    for first in (0..ROWS).step_by(CHUNK as usize) {
        let pairs = (first..ROWS.min(first + CHUNK)).flat_map(|i| [format!("{KEY}{i}"), payload(i)]);
        let words: Vec<String> = std::iter::once("MSET".to_owned()).chain(pairs).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        scene.command(&scene.cast.primary, &words).await?;
    }
    Ok(())
}

/// Whether table and cache hold the same, and whether the cache writes to disk.
async fn check_rows(scene: &mut Scene<'_>) -> Result<(), BlockError> {
    let cast = scene.cast;
    let rows = scene
        .query(scene.database(), &format!("SELECT count(*)::text FROM {TABLE}"))
        .await?;
    scene.fact("rows", "table_rows_count", rows.parse().unwrap_or(-1))?;
    let mut same = 0;
    for i in COMPARED {
        let row = scene
            .query(scene.database(), &format!("SELECT payload FROM {TABLE} WHERE id = {i}"))
            .await?;
        let key = format!("{KEY}{i}");
        let near_and_far = [&cast.primary, &cast.far];
        for cache in near_and_far {
            match scene.command(cache, &["GET", &key]).await? {
                Reply::Text(value) => same += i64::from(value == row),
                Reply::Nil => {}
                reply => return Err(other_reply(cache, "GET", &reply)),
            }
        }
    }
    scene.fact("rows", "same_count", same)?;
    scene.fact(
        "rows",
        "compared_count",
        2 * i64::try_from(COMPARED.len()).unwrap_or(i64::MAX),
    )?;
    let saves = scene.setting(&cast.primary, "save").await?;
    let appends = scene.setting(&cast.primary, "appendonly").await?;
    let save_points = saves.map_or(0, |saves| saves.split_whitespace().count() / 2);
    scene.fact(
        "rows",
        "save_points_count",
        i64::try_from(save_points).unwrap_or(i64::MAX),
    )?;
    scene.fact("rows", "appendonly_count", i64::from(appends.as_deref() == Some("yes")))
}

fn payload(i: u32) -> String {
    format!("payload-{i}-{}", "x".repeat(PADDING))
}
