//! Block 9: what measures the window of loss? Three rates of writing over the same link, cut and promotion; what the far
//! replica lacked is read from the primary's own backlog, record by record.
//!
//! The cut comes half an interval after the last write, so that no rate has a write in flight for certain. A fourth round
//! puts traffic into the stream that is no write. Each begins with all replicas in sync and none of the keys there.

use super::found::AsFound;
use super::scene::{Numbered, REPLY, SETTLE, Scene};
use super::{BlockError, Cutting};
use crate::findings::offset_gap::{OTHER, PREFIX, RATES};
use crate::probe::nanoseconds;
use crate::replication::Replication;
use std::time::{Duration, Instant};
use wire::{Pace, ProbeAnswer, ProbeOrder, Reply};

/// Size of each value.
const VALUE_BYTES: u32 = 32;
/// One way, the record's: the same in every round, whatever the link's own.
const DELAY_NS: u64 = 20_000_000;
/// Between two looks whether the far replica still applies what it has.
const LOOK: Duration = Duration::from_millis(20);
/// A WAIT for more replicas than there are, so that it asks those that there are (`REPLCONF GETACK`), in ms.
const WAIT: [&str; 3] = ["WAIT", "99", "1"];
/// From that order to the cut: it is under way then, and has not arrived.
const BEFORE_CUT: Duration = Duration::from_millis(5);

/// A rate of writing.
#[derive(Debug, Clone, Copy)]
struct Round {
    row: &'static str,
    interval: Duration,
    writes: u32,
    /// Whether something that is no write is put into the stream right before the cut.
    other: bool,
}

const ROUNDS: [Round; 4] = [
    Round::of(RATES[0], Duration::from_micros(500), MOST_WRITES),
    Round::of(RATES[1], Duration::from_millis(10), 60),
    Round::of(RATES[2], Duration::from_millis(500), 4),
    Round {
        other: true,
        ..Round::of(OTHER, Duration::from_millis(500), 2)
    },
];

/// Writes of the longest ledger.
const MOST_WRITES: u32 = 800;

impl Round {
    const fn of(row: &'static str, interval: Duration, writes: u32) -> Self {
        Self {
            row,
            interval,
            writes,
            other: false,
        }
    }

    const fn keys(self) -> Numbered {
        Numbered {
            prefix: PREFIX,
            count: self.writes,
        }
    }

    fn pace(self) -> Pace {
        Pace::Open {
            interval_ns: nanoseconds(self.interval),
        }
    }
}

pub fn method() -> String {
    let counts: Vec<String> = ROUNDS.iter().map(|round| round.writes.to_string()).collect();
    format!(
        "Writes of {VALUE_BYTES} bytes, open loop, at {} in turn, the last once more ({} writes), acknowledged to a probe beside the \
         primary. The link has {} one way in each round, and its round trip is measured in each, before the writes and after the heal. Both directions are cut half an interval \
         after the last acknowledgement; in the last round a SELECT, a PUBLISH and the question of a WAIT (REPLCONF GETACK) are put into \
         the stream {} before. The far replica is promoted (REPLICAOF NO ONE) and every key is looked for on it. The gap is the \
         primary's offset after the cut less the offset at which the replica says that it was promoted, each read on the server itself; \
         its bytes are then read from the primary's backlog (PSYNC with the replica's own offset), record by record. Then the link is \
         healed, the replica attached again, the keys removed and all replicas seen in sync before the next round.",
        RATES.join(", "),
        counts.join(", "),
        humantime::format_duration(Duration::from_nanos(DELAY_NS)),
        humantime::format_duration(BEFORE_CUT),
    )
}

/// Every key that the block writes.
pub fn keys() -> Vec<String> {
    ROUNDS[0].keys().keys()
}

pub async fn measure(scene: &mut Scene<'_>, found: &AsFound) -> Result<(), BlockError> {
    // The replica that comes back is synchronised at once, and not after the server's usual 5 s.
    AsFound::set(scene, &scene.cast.primary, "repl-diskless-sync-delay", "0").await?;
    if found.delays_ns != [DELAY_NS; 2] {
        scene.set_delay(DELAY_NS).await?;
    }
    for round in ROUNDS {
        perform(scene, round).await?;
    }
    Ok(())
}

/// One ledger, cut, promotion and count, and the way back to where it began.
async fn perform(scene: &mut Scene<'_>, round: Round) -> Result<(), BlockError> {
    let row = round.row;
    scene.progress(&format!("{} writes, {row}, cut", round.writes));
    let replicas = scene.cast.replicas();
    scene.in_sync(&replicas).await?;
    scene.round_trips_of(row, DELAY_NS).await?;
    let before = scene.audit(&scene.cast.far, round.keys()).await?;
    scene.fact(row, "keys_before_count", signed(before.len()))?;
    scene.fact(row, "value_bytes", i64::from(VALUE_BYTES))?;

    let writes = scene.write_ledger(round.keys(), VALUE_BYTES, round.pace()).await?;
    // Half an interval is the experiment's own parameter, not a wait for a condition.
    tokio::time::sleep(round.interval / 2).await;
    cut(scene, round).await?;
    let primary = scene.replication(&scene.cast.primary).await?;
    if scene.means.cutting == Cutting::Freeze {
        // Nothing was destroyed: with the link thawed the replica gets what was on its way, late and whole.
        scene.heal(row).await?;
        scene.in_sync(&replicas).await?;
    }
    settled(scene).await?;
    scene.promote(&scene.cast.far).await?;
    let far = scene.replication(&scene.cast.far).await?;
    lacked(scene, row, &primary, &far).await?;
    let present = scene.audit(&scene.cast.far, round.keys()).await?;
    scene.ledger(row, writes, present)?;

    scene.heal(row).await?;
    scene.round_trips_of(row, DELAY_NS).await?;
    scene.attach(&scene.cast.far).await?;
    scene.in_sync(&replicas).await?;
    scene.remove_keys(&round.keys().keys()).await
}

/// The cut, and what is under way when it comes.
async fn cut(scene: &mut Scene<'_>, round: Round) -> Result<(), BlockError> {
    if !round.other {
        return scene.cut(round.row).await;
    }
    let (lab, cast) = (scene.lab, scene.cast);
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    // A PUBLISH in another database: the server has to select that for the replicas, and no key is written.
    let commands = vec![words(&["SELECT", "1"]), words(&["PUBLISH", PREFIX, "x"]), words(&WAIT)];
    let order = lab.probe(&cast.home).redis_all(cast.primary.target, commands, REPLY);
    let cut = async {
        tokio::time::sleep(BEFORE_CUT).await;
        scene.cut(round.row).await
    };
    // WAIT returns when the server next looks at its clients, later than a flight, so the cut cannot wait for it.
    let (replies, cut) = tokio::join!(order, cut);
    cut?;
    match replies?.into_iter().find(|reply| matches!(reply, Reply::Error(_))) {
        Some(Reply::Error(reply)) => Err(BlockError::Refused {
            server: cast.primary.shown(),
            command: "SELECT, PUBLISH, WAIT".to_owned(),
            reply,
        }),
        _ => Ok(()),
    }
}

/// Waits until the far replica has applied what had passed the link before the cut: its offset stands still.
async fn settled(scene: &Scene<'_>) -> Result<(), BlockError> {
    let began = Instant::now();
    let mut last = None;
    loop {
        let now = scene.replication(&scene.cast.far).await?.offset_bytes;
        if now.is_some() && now == last {
            return Ok(());
        }
        if began.elapsed() > SETTLE {
            return Err(BlockError::NotSeen {
                wanted: format!("the offset of {} at rest under the cut", scene.cast.far.shown()),
                limit: SETTLE,
                seen: format!("{now:?} after {last:?}"),
            });
        }
        last = now;
        tokio::time::sleep(LOOK).await;
    }
}

/// Both offsets, and what lies between them. What a server did not say stays out of the history.
async fn lacked(scene: &mut Scene<'_>, row: &str, primary: &Replication, far: &Replication) -> Result<(), BlockError> {
    scene.fact(row, "far_is_primary_count", i64::from(far.role == "master"))?;
    let (Some(stream), Some(written)) = (&primary.stream, primary.offset_bytes) else {
        return Ok(());
    };
    scene.fact(row, "primary_offset_at_cut_bytes", signed(written))?;
    let Some((_, applied)) = far.followed.as_ref().filter(|(followed, _)| followed == stream) else {
        return scene.note(format!(
            "{} does not say how far it had followed the primary's stream.",
            scene.cast.far.shown()
        ));
    };
    scene.fact(row, "far_offset_at_promotion_bytes", signed(*applied))?;
    let order = ProbeOrder::Backlog {
        target: scene.cast.primary.target,
        stream: stream.clone(),
        first_byte: applied + 1,
        bytes: written.saturating_sub(*applied),
        timeout_ns: nanoseconds(REPLY),
    };
    match scene.lab.probe(&scene.cast.home).order(order, REPLY * 2).await? {
        ProbeAnswer::Records(records) => scene.lacked(row, applied + 1, records),
        _ => Err(BlockError::OtherAnswer { order: "backlog" }),
    }
}

/// A fact holds signed numbers; none of these comes near the limit.
fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
