//! Block 10: how does the price of WAIT grow with distance? The probe stands beside the primary, so the link lies between
//! primary and replica only; nothing but the far replica is attached. The record's 20 writes at each distance are the
//! fewest here: one distance, or one burst of work on the host, decides nothing.

use super::BlockError;
use super::found::AsFound;
use super::scene::{Distance, Scene, in_words};
use super::waits::{self, PACE, SETS, VALUE_BYTES, WARMUP};

/// SET + WAITs at each distance; over a short link as many as fill a second.
const WAITS: u32 = 30;

pub fn method() -> String {
    format!(
        "A probe beside the primary, so that the link lies between primary and replica only; one connection, {}, values of {VALUE_BYTES} \
         bytes. Only the far replica is attached: the others are detached (REPLICAOF NO ONE) and the primary is seen to have \
         one. At each distance {} SETs after {} that do not count, then SET followed by WAIT 1 after its reply, timed together, {WAITS} times (for a \
         second where the link is shorter) after {WARMUP} that do not count. Round trip: datagrams between the probes, both ways, \
         before, beside and after.",
        in_words(PACE),
        SETS.1,
        SETS.0,
    )
}

pub async fn measure(scene: &mut Scene<'_>, found: &AsFound) -> Result<(), BlockError> {
    waits::far_only(scene).await?;
    for distance in Distance::all(found.delay_ns()) {
        waits::at_distance(scene, "far only", distance.delay_ns, distance.trips(WAITS, WAITS)).await?;
    }
    Ok(())
}
