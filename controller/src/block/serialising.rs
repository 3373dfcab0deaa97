//! Block 13: a link that delays one portion after the other against a pipelined one, with TCP_NODELAY on and off. Messages in a row
//! on one connection, and SET + WAIT, which sends two of its own accord. Both cross the relay of the replica's datacenter: the
//! probe there dials the primary as the replica does.

use super::BlockError;
use super::scene::{Scene, in_words};
use super::waits::{self, PACE, Series, VALUE_BYTES, Waits};
use crate::findings::row;
use crate::findings::serialising::{DELAYS_NS, MESSAGES, SERIAL, SERIAL_OFF, SPACING_NS, WIRE, WIRE_OFF, messages};
use wire::{Nodelay, Operation, Path, StreamOrder, StreamSettings};

/// Operations of each kind that do not count, and that do. A young connection acknowledges at once; after these it no longer
/// does.
const WARMUP: u32 = 4;
const COUNT: u32 = 20;

pub fn method() -> String {
    let counts: Vec<String> = MESSAGES.iter().map(ToString::to_string).collect();
    let delays: Vec<String> = DELAYS_NS.iter().map(|&delay_ns| row::time(delay_ns)).collect();
    format!(
        "Only the far replica is attached, and the relays terminate TCP: pipelined and serialising, each with TCP_NODELAY of their own sockets on and off. \
         After each change the replica dials anew. At {} one way, at once, {COUNT} times after {WARMUP} that do not count, one connection each, {}: from the \
         probe beside the replica to the primary, {} PINGs written {} apart without waiting, until the last reply; and from the probe beside the primary, SET of \
         {VALUE_BYTES} bytes followed by WAIT 1 after its reply. Round trip: datagrams between the probes beside them.",
        delays.join(" and "),
        in_words(PACE),
        counts.join(", "),
        row::time(SPACING_NS),
    )
}

pub async fn measure(scene: &mut Scene<'_>) -> Result<(), BlockError> {
    waits::far_only(scene).await?;
    for (row, order, nodelay) in [
        (WIRE, StreamOrder::Pipelined, Nodelay::On),
        (SERIAL, StreamOrder::Serialising, Nodelay::On),
        (WIRE_OFF, StreamOrder::Pipelined, Nodelay::Off),
        (SERIAL_OFF, StreamOrder::Serialising, Nodelay::Off),
    ] {
        scene.progress(&format!("a relay that is {row}"));
        scene.set_delay(0).await?;
        let far = &scene.cast.far;
        let settings = StreamSettings { order, nodelay };
        scene.take_path(Path::Stream(settings), &[far]).await?;
        for delay_ns in DELAYS_NS {
            scene.set_delay(delay_ns).await?;
            at_once(scene, row, delay_ns).await?;
        }
    }
    Ok(())
}

async fn at_once(scene: &mut Scene<'_>, row: &'static str, delay_ns: u64) -> Result<(), BlockError> {
    let in_a_row = |count: u32| Series {
        row,
        what: messages(count),
        from: &scene.cast.away,
        operation: Operation::Messages {
            count,
            pause_ns: SPACING_NS,
        },
        warmup: WARMUP,
        count: COUNT,
    };
    let mut series: Vec<Series<'_>> = MESSAGES.into_iter().map(in_a_row).collect();
    let waits = Waits {
        warmup: WARMUP,
        ..Waits::of(1, COUNT)
    };
    series.push(waits.series(scene, row));
    waits::at_once(scene, delay_ns, series, Some(COUNT)).await
}
