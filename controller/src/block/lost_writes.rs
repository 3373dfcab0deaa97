//! Block 2: how many acknowledged writes are lost when the far replica is promoted? A ledger of writes acknowledged beside
//! the primary, a cut of both directions, a real promotion, and a count key by key against the ledger.
//!
//! The cut destroys what is in flight. (a) is cut when the last acknowledgement is known, (b) a second later, with the
//! offsets seen equal; each begins with all replicas in sync and none of the keys there.

use super::found::AsFound;
use super::scene::{Numbered, Scene, in_words};
use super::{BlockError, Cutting};
use std::time::{Duration, Instant};
use wire::Pace;

/// Writes of a ledger.
const WRITES: u32 = 200;
/// Its keys.
const KEYS: Numbered = Numbered {
    prefix: "testbed:lost:",
    count: WRITES,
};
/// Size of each value.
const VALUE_BYTES: u32 = 32;
/// Without the pause the ledger would be shorter than a flight on a fast machine, and all of it would be lost. (It is the
/// record's own pace: 200 writes of 0.24 ms there.)
const PACE: Pace = Pace::Closed { pause_ns: 200_000 };
/// From the last acknowledgement to the cut in (b).
const LATER: Duration = Duration::from_secs(1);
/// One way; a shorter link of the lab's own is made as long as the record's, or nothing would be in flight.
const SHORTEST_NS: u64 = 20_000_000;

pub fn method() -> String {
    format!(
        "{WRITES} writes of {VALUE_BYTES} bytes, {}, acknowledged to a probe beside the primary. Both directions of the link are cut, \
         (a) the moment the last acknowledgement is known, (b) {} later, with the offsets of primary and far replica seen equal. \
         The far replica is promoted (REPLICAOF NO ONE) and every key of the ledger is looked for on it. Then the link is healed, the \
         replica attached again, the keys removed and all replicas seen in sync before the next round. The delay is the link's own, or \
         20ms one way if that is longer.",
        in_words(PACE),
        humantime::format_duration(LATER),
    )
}

pub async fn measure(scene: &mut Scene<'_>, found: &AsFound) -> Result<(), BlockError> {
    // The replica that comes back is synchronised at once, and not after the server's usual 5 s.
    AsFound::set(scene, &scene.cast.primary, "repl-diskless-sync-delay", "0").await?;
    let delay_ns = found.delay_ns().max(SHORTEST_NS);
    if found.delays_ns != [delay_ns; 2] {
        scene.set_delay(delay_ns).await?;
    }
    scene.round_trips(delay_ns).await?;
    for (row, later) in [("a", None), ("b", Some(LATER))] {
        round(scene, row, later).await?;
    }
    Ok(())
}

/// Every key that the block writes.
pub fn keys() -> Vec<String> {
    KEYS.keys()
}

/// One ledger, cut, promotion and count, and the way back to where it began.
async fn round(scene: &mut Scene<'_>, row: &str, later: Option<Duration>) -> Result<(), BlockError> {
    scene.progress(&match later {
        None => format!("{WRITES} writes, cut right after the last"),
        Some(later) => format!("{WRITES} writes, cut {} later", humantime::format_duration(later)),
    });
    let began = Instant::now();
    let replicas = scene.cast.replicas();
    let offset = scene.in_sync(&replicas).await?;
    scene.fact(row, "primary_offset_before_bytes", signed(offset))?;
    let before = scene.audit(&scene.cast.far, KEYS).await?;
    scene.fact(row, "keys_before_count", signed(before.len()))?;
    syncs(scene, row, "before").await?;

    let writes = scene.write_ledger(KEYS, VALUE_BYTES, PACE).await?;
    if let Some(later) = later {
        let acknowledged = Instant::now();
        scene.in_sync(&replicas).await?;
        // The second is the experiment's own parameter, not a wait for a condition: that was seen above.
        tokio::time::sleep(later.saturating_sub(acknowledged.elapsed())).await;
        equal_offsets(scene, row).await?;
    }
    scene.cut(row).await?;
    offsets(scene, row, "at_cut").await?;
    if scene.means.cutting == Cutting::Freeze {
        // Nothing was destroyed: with the link thawed the replica gets what was on its way, late and whole.
        scene.heal(row).await?;
        scene.in_sync(&replicas).await?;
    }
    promote(scene, row).await?;
    let present = scene.audit(&scene.cast.far, KEYS).await?;
    let kept = scene.audit(&scene.cast.primary, KEYS).await?;
    scene.fact(row, "present_on_primary_count", signed(kept.len()))?;
    scene.ledger(row, writes, present)?;
    scene.fact(row, "until_promotion_ms", signed(began.elapsed().as_millis()))?;
    scene.fact(row, "value_bytes", i64::from(VALUE_BYTES))?;
    scene.fact(row, "key_prefix_bytes", signed(KEYS.prefix.len()))?;

    scene.heal(row).await?;
    scene.attach(&scene.cast.far).await?;
    scene.in_sync(&replicas).await?;
    syncs(scene, row, "after").await?;
    scene.remove_keys(&keys()).await
}

/// Both offsets while the link still works and nothing is being written.
async fn equal_offsets(scene: &mut Scene<'_>, row: &str) -> Result<(), BlockError> {
    scene.in_sync(&scene.cast.replicas()).await?;
    offsets(scene, row, "before_cut").await
}

/// Offset of the primary, and the one that the far replica has applied, each asked from its own side.
async fn offsets(scene: &mut Scene<'_>, row: &str, when: &str) -> Result<(), BlockError> {
    let cast = scene.cast;
    let (primary, far) = tokio::try_join!(scene.replication(&cast.primary), scene.replication(&cast.far))?;
    for (server, seen) in [("primary", primary), ("far", far)] {
        if let Some(offset) = seen.offset_bytes {
            scene.fact(row, &format!("{server}_offset_{when}_bytes"), signed(offset))?;
        }
    }
    Ok(())
}

async fn promote(scene: &mut Scene<'_>, row: &str) -> Result<(), BlockError> {
    scene.promote(&scene.cast.far).await?;
    let seen = scene.replication(&scene.cast.far).await?;
    scene.fact(row, "far_is_primary_count", i64::from(seen.role == "master"))
}

/// How often the primary has synchronised a replica, wholly and partially.
async fn syncs(scene: &mut Scene<'_>, row: &str, when: &str) -> Result<(), BlockError> {
    let counters = scene.synchronisations().await?;
    for (name, value) in [("sync_full", counters.full), ("sync_partial_ok", counters.partial_ok)] {
        scene.fact(row, &format!("{name}_{when}_count"), signed(value))?;
    }
    Ok(())
}

/// A fact holds signed numbers; none of these comes near the limit.
fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
