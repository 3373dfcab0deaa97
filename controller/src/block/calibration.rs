//! Block 14: the delay that the link was asked for against the one that it has. Echoes between the probes, no server; each
//! direction gets another delay, and the far stamp in each answer tells one from the other. First as packets, over UDP and TCP, then in
//! stream mode, where the relay of the dialling side applies both directions, so each side dials.

use super::BlockError;
use super::scene::{Heading, LOAD, REPLY, Scene, in_words};
use crate::findings::calibration::{EARLY, ECHO, GRID, PORTIONS, RELAYS, WAYS, Way, row_of};
use crate::findings::row;
use crate::names::DatacenterName;
use crate::probe::{Samples, nanoseconds};
use wire::{Nodelay, Pace, Path, ProbeOrder, RelayStatus, StreamOrder, StreamSettings};

/// Echoes at each step that do not count, and that do.
const WARMUP: u32 = 3;
const ECHOES: u32 = 50;
/// Between two of them, whatever the delay. Since what one direction waits less the other waits more, the processors sleep
/// about as long at every step.
const PAUSE_NS: u64 = 2_000_000;
const PACE: Pace = Pace::Closed { pause_ns: PAUSE_NS };

pub fn method() -> String {
    let steps: Vec<String> = GRID
        .iter()
        .map(|&[outward_ns, back_ns]| format!("{}/{}", row::time(outward_ns), row::time(back_ns)))
        .collect();
    format!(
        "Echoes between the probes, no server in between. Asked for, one way, outward/back: {}. At each step {ECHOES} echoes after \
         {WARMUP} that do not count, {}, at once over UDP from the probe beside the primary and over TCP from the other, as packets; then in stream mode \
         (pipelined, TCP_NODELAY on) over TCP from both, since only the dialling side's relay terminates a connection. Both \
         probes read one clock, and the far one stamps what it gets: each direction is measured by itself.",
        steps.join(", "),
        in_words(PACE),
    )
}

pub async fn measure(scene: &mut Scene<'_>) -> Result<(), BlockError> {
    let relays = scene.relays().await?;
    let early_ns = relays.iter().map(|relay| relay.early_ns).max();
    let early_ns = early_ns.and_then(|early_ns| i64::try_from(early_ns).ok());
    scene.fact(RELAYS, EARLY, early_ns.unwrap_or(i64::MAX))?;
    steps(scene, [WAYS[0], WAYS[1]]).await?;
    let replicas = scene.cast.replicas();
    let settings = StreamSettings {
        order: StreamOrder::Pipelined,
        nodelay: Nodelay::On,
    };
    scene.take_path(Path::Stream(settings), &replicas).await?;
    let before = portions(&scene.relays().await?);
    steps(scene, [WAYS[2], WAYS[3]]).await?;
    let passed = portions(&scene.relays().await?).saturating_sub(before);
    scene.fact(RELAYS, PORTIONS, i64::try_from(passed).unwrap_or(i64::MAX))
}

/// Portions of bytes that both relays delivered as streams.
fn portions(relays: &[RelayStatus; 2]) -> u64 {
    let of = |relay: &RelayStatus| relay.stream.map_or(0, |stream| stream.portions);
    relays.iter().map(of).sum()
}

/// The whole grid, in two ways at once.
async fn steps(scene: &mut Scene<'_>, ways: [Way; 2]) -> Result<(), BlockError> {
    for step in GRID {
        scene.set_delays(step).await?;
        let [outward_ns, back_ns] = step.map(row::time);
        let shown = format!(
            "{outward_ns} outward, {back_ns} back: {} and {}",
            ways[0].row, ways[1].row
        );
        scene.progress(&shown);
        let (one, other) = tokio::try_join!(echo(scene, ways[0]), echo(scene, ways[1]))?;
        record(scene, ways[0], step, one)?;
        record(scene, ways[1], step, other)?;
    }
    Ok(())
}

/// Who asks, and whom.
fn ends<'a>(scene: &Scene<'a>, way: Way) -> [&'a DatacenterName; 2] {
    let (home, away) = (&scene.cast.home, &scene.cast.away);
    if way.from_home { [home, away] } else { [away, home] }
}

async fn echo(scene: &Scene<'_>, way: Way) -> Result<Samples, BlockError> {
    let [from, to] = ends(scene, way);
    let order = ProbeOrder::Echo {
        target: scene.lab.datacenter(to).probe_address,
        transport: way.transport,
        warmup: WARMUP,
        count: ECHOES,
        pause_ns: PAUSE_NS,
        timeout_ns: nanoseconds(REPLY),
    };
    Ok(scene.lab.probe(from).samples(order, LOAD).await?)
}

fn record(scene: &mut Scene<'_>, way: Way, step: [u64; 2], measured: Samples) -> Result<(), BlockError> {
    let [from, to] = ends(scene, way);
    let heading = Heading {
        row: &row_of(way, step),
        what: ECHO,
        path: format!("{from} probe -> {to} probe"),
        delay_ns: None,
        warmup: WARMUP,
        pace: in_words(PACE),
    };
    scene.series(heading, measured)
}
