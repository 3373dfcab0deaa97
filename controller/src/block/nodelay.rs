//! Block 11: what does a relay that terminates TCP cost at zero delay, and does TCP_NODELAY on its own sockets matter? SET + WAIT 1
//! beside the primary, whose replication connection crosses the relay, and a GET from the other datacenter as control. The
//! replica dials, so the relay of its datacenter terminates the connection: the near leg is that to the replica. Then the same
//! at three distances with the option on and off: the picture that was once taken for two round trips.

use super::BlockError;
use super::scene::{Scene, in_words};
use super::waits::{self, PACE, Series, VALUE_BYTES, Waits};
use crate::findings::nodelay::{FAR_LEG, KERNEL, LEGS, NEAR_LEG, OFF, ON};
use crate::findings::row::{self, DISTANCES_NS};
use wire::{Nodelay, Path, StreamOrder, StreamSettings};

/// Operations of each kind in each row that do not count, and that do. A young connection acknowledges at once; after these it no
/// longer does.
const WARMUP: u32 = 8;
const COUNT: u32 = 20;

pub fn method() -> String {
    let distances: Vec<String> = DISTANCES_NS.iter().map(|&delay_ns| row::time(delay_ns)).collect();
    format!(
        "Zero delay and only the far replica attached. Forwarded by the kernel, then through a relay that terminates TCP (pipelined) with TCP_NODELAY \
         of its own sockets on, on the leg to the replica only, on the leg to the primary only, and off; with it on and off at {} one way as well. \
         After each change the replica dials anew, and the options are read back from the relay's sockets. In each row, at once, {COUNT} times after {WARMUP} \
         that do not count, one connection each, {}: SET of {VALUE_BYTES} bytes followed by WAIT 1 after its reply, from a probe beside the primary, and GET \
         from the probe of the other datacenter, which the same relay terminates. Round trip: datagrams between the probes beside them.",
        distances.join(", "),
        in_words(PACE),
    )
}

pub async fn measure(scene: &mut Scene<'_>) -> Result<(), BlockError> {
    waits::far_only(scene).await?;
    scene.set_delay(0).await?;
    // What the GETs read.
    waits::sets(scene, KERNEL, 0).await?;
    let far = &scene.cast.far;
    scene.take_path(Path::Kernel, &[far]).await?;
    at_once(scene, KERNEL, 0, None).await?;
    for (row, nodelay) in [
        (NEAR_LEG, Nodelay::NearLeg),
        (FAR_LEG, Nodelay::FarLeg),
        (ON, Nodelay::On),
        (OFF, Nodelay::Off),
    ] {
        relayed(scene, row, nodelay).await?;
    }
    Ok(())
}

async fn relayed(scene: &mut Scene<'_>, row: &'static str, nodelay: Nodelay) -> Result<(), BlockError> {
    scene.progress(&format!("a relay with TCP_NODELAY {row}"));
    let settings = StreamSettings {
        order: StreamOrder::Pipelined,
        nodelay,
    };
    let far = &scene.cast.far;
    scene.set_delay(0).await?;
    scene.take_path(Path::Stream(settings), &[far]).await?;
    let varied = matches!(nodelay, Nodelay::On | Nodelay::Off);
    at_once(scene, row, 0, varied.then_some(COUNT)).await?;
    options(scene, row, nodelay).await?;
    if varied {
        for delay_ns in DISTANCES_NS {
            scene.set_delay(delay_ns).await?;
            at_once(scene, row, delay_ns, Some(COUNT)).await?;
        }
    }
    Ok(())
}

async fn at_once(
    scene: &mut Scene<'_>,
    row: &'static str,
    delay_ns: u64,
    beside: Option<u32>,
) -> Result<(), BlockError> {
    let waits = Waits {
        warmup: WARMUP,
        ..Waits::of(1, COUNT)
    };
    let waits = waits.series(scene, row);
    let gets = Series {
        row,
        what: "get",
        from: &scene.cast.away,
        operation: waits::read(),
        warmup: WARMUP,
        count: COUNT,
    };
    waits::at_once(scene, delay_ns, vec![waits, gets], beside).await
}

/// TCP_NODELAY of both legs, as asked for and as the relay of the dialling side read it back.
async fn options(scene: &mut Scene<'_>, row: &'static str, nodelay: Nodelay) -> Result<(), BlockError> {
    let asked = match nodelay {
        Nodelay::On => [true, true],
        Nodelay::Off => [false, false],
        Nodelay::NearLeg => [true, false],
        Nodelay::FarLeg => [false, true],
    };
    let [_, away] = scene.relays().await?;
    let read = away.stream.map(|stream| [stream.nodelay_near, stream.nodelay_far]);
    for ((leg, asked), read) in LEGS.into_iter().zip(asked).zip(read.unwrap_or_default()) {
        scene.fact(row, leg.asked, i64::from(asked))?;
        if let Some(read) = read {
            scene.fact(row, leg.read, i64::from(read))?;
        }
    }
    Ok(())
}
