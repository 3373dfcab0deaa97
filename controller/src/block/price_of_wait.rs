//! Block 3: what does WAIT 1 cost? SET, and SET followed by WAIT 1, from a probe beside the primary, with only the far
//! replica attached; then what WAIT says under a cut; then with the near replica attached too, which answers WAIT 1 for
//! nothing. That last row is the trap that users fall into, so it is measured with the link cut as well.

use super::found::AsFound;
use super::scene::{Distance, Scene, in_words};
use super::waits::{self, PACE, SETS, VALUE_BYTES, WARMUP, Waits};
use super::{BlockError, Part};
use std::time::Instant;

/// Prefix of the keys that are written under the cut.
const CUT_KEY: &str = "testbed:wait:cut:";
/// SET + WAITs at the link's own distance, and at the others (20 in the record).
const WAITS: (u32, u32) = (80, 50);
/// SET + WAITs that the near replica answers.
const NEAR_WAITS: u32 = 40;
/// WAIT's own limit under the cut, and how often it is tried.
const CUT_LIMIT_MS: u64 = 300;
const CUT_WAITS: u32 = 3;

pub fn method() -> String {
    format!(
        "A probe beside the primary, one connection, {}, values of {VALUE_BYTES} bytes: {} SETs after {} that do not count, and SET followed by \
         WAIT 1 after its reply, timed together, {} times at the link's own delay, {} at the other distances (for a second where they are shorter), after {WARMUP} that do not \
         count. Only the far replica is attached: the others are detached (REPLICAOF NO ONE) and the primary is seen to have one. Then \
         the link is cut and {CUT_WAITS} writes wait {CUT_LIMIT_MS}ms each. Then the near replica is attached again, and WAIT 1 is \
         measured with the link still cut and, once it is healed, with both attached; WAIT for all of them too. Round trip: datagrams between \
         the probes, both ways, before, beside and after.",
        in_words(PACE),
        SETS.1,
        SETS.0,
        WAITS.0,
        WAITS.1,
    )
}

pub async fn measure(scene: &mut Scene<'_>, found: &AsFound) -> Result<(), BlockError> {
    waits::far_only(scene).await?;
    scene.fact("far only", "attached_count", 1)?;
    let distances = Distance::all(found.delay_ns());
    let own = *distances
        .iter()
        .find(|distance| distance.full)
        .expect("one distance gets the full number of samples");
    for distance in distances {
        let count = distance.trips(WAITS.0, WAITS.1);
        waits::at_distance(scene, "far only", distance.delay_ns, count).await?;
    }
    scene.set_delay(own.delay_ns).await?;
    under_cut(scene, own.delay_ns).await?;
    both_attached(scene, own.delay_ns).await
}

/// Every key that the block writes.
pub fn keys() -> Vec<String> {
    let mut keys = waits::keys();
    keys.extend(waits::keys_of(CUT_KEY));
    keys
}

/// WAIT with only the far replica attached and the link cut, and with the near one attached again.
async fn under_cut(scene: &mut Scene<'_>, delay_ns: u64) -> Result<(), BlockError> {
    scene.progress("WAIT under a cut");
    let cast = scene.cast;
    scene.cut("cut").await?;
    let under_cut = Waits {
        key: CUT_KEY,
        limit_ms: CUT_LIMIT_MS,
        warmup: 0,
        crosses_link: false,
        ..Waits::of(1, CUT_WAITS)
    };
    under_cut.timed(scene, "far only, cut", delay_ns).await?;
    let limit_ms = i64::try_from(CUT_LIMIT_MS).unwrap_or(i64::MAX);
    scene.fact("far only, cut", "wait_limit_ms", limit_ms)?;
    for (server, name) in [
        (&cast.primary, "keys_on_primary_count"),
        (&cast.far, "keys_on_far_count"),
    ] {
        let kept = cut_keys(scene, server).await?;
        scene.fact("far only, cut", name, kept)?;
    }
    let near = near(scene);
    scene.attach(near).await?;
    scene.caught_up(&[near]).await?;
    let blind = Waits::of(1, NEAR_WAITS).at_home();
    blind.timed(scene, "near and far, cut", delay_ns).await?;
    heal(scene).await
}

/// How the far replica comes back: only it can have been synchronised since the moment before the heal.
async fn heal(scene: &mut Scene<'_>) -> Result<(), BlockError> {
    let cast = scene.cast;
    let before = scene.synchronisations().await?;
    scene.heal("heal").await?;
    let healed = Instant::now();
    scene.in_sync(&[&cast.far, near(scene)]).await?;
    let took_ms = i64::try_from(healed.elapsed().as_millis()).unwrap_or(i64::MAX);
    scene.fact("heal", "in_sync_after_ms", took_ms)?;
    let after = scene.synchronisations().await?;
    for (name, before, after) in [
        ("far_full_syncs_count", before.full, after.full),
        ("far_partial_syncs_count", before.partial_ok, after.partial_ok),
    ] {
        let syncs = i64::try_from(after.saturating_sub(before)).unwrap_or(i64::MAX);
        scene.fact("heal", name, syncs)?;
    }
    let kept = cut_keys(scene, &cast.far).await?;
    scene.fact("heal", "far_keys_after_heal_count", kept)
}

async fn both_attached(scene: &mut Scene<'_>, delay_ns: u64) -> Result<(), BlockError> {
    scene.progress("WAIT with a near replica attached");
    scene.round_trips(delay_ns).await?;
    waits::sets(scene, "near and far", delay_ns).await?;
    let answered_near = Waits::of(1, NEAR_WAITS).at_home();
    answered_near.timed(scene, "near and far", delay_ns).await?;
    Waits::of(2, WAITS.1).timed(scene, "near and far, all", delay_ns).await
}

/// The one replica that is attached beside the far one. Further ones stay detached: WAIT for one in a third datacenter
/// would be held against the round trip of another link.
fn near<'a>(scene: &Scene<'a>) -> &'a Part {
    let near = scene.cast.near.as_ref();
    near.expect("the cast of this block has a near replica")
}

/// How many of the keys that were written under the cut a server has.
async fn cut_keys(scene: &Scene<'_>, server: &Part) -> Result<i64, BlockError> {
    let keys: Vec<String> = (0..CUT_WAITS).map(|i| format!("{CUT_KEY}{i}")).collect();
    scene.existing_keys(server, &keys).await
}
