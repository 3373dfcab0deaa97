//! Block 8: who decides about reads when a cluster is down? Layout B after a cut, both halves down: every node, masters and
//! replicas, is asked for the same keys with and without READONLY, for reads and for writes, with the setting no and yes.

use super::formed::Formed;
use super::halves::{self, keys};
use super::scene::{Scene, other_reply};
use super::{BlockError, Member};
use crate::cluster::slot_of;
use crate::findings::reads_when_down::{COURSE, VALUES, set_at};
use crate::history::{KeyAsked, KeysAsked, Parting};
use crate::replication::text_of;
use std::time::{Duration, Instant};
use wire::{Outcome, Reply};

/// Keys that are asked for, without hash tags: their slots are as they come.
const KEYS: u32 = 20;
/// Limit of both halves to be down.
const DOWN: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// Both halves are watched for so long before they are parted, after every node was asked, and after all nodes agree again.
const AROUND: Duration = Duration::from_secs(1);
/// The setting.
const SETTING: &str = "cluster-allow-reads-when-down";

pub fn method() -> String {
    format!(
        "{KEYS} keys without hash tags are written to the owners of their slots and seen on the replicas; the link is cut in both directions until \
         cluster_state is fail on every node of both halves, which are watched from before the cut until after all nodes agree again, as in blocks 4 to 6: \
         the course of it is shown and not judged. Then every node is asked by the probe of its own datacenter, once with and once \
         without READONLY, for a GET and a SET of each key, with {SETTING} no and with yes. The expected split is computed per node from the slots \
         of the keys (CRC16) and from whom a replica copies. Then the link is healed, the setting put back, the keys removed."
    )
}

fn names() -> Vec<String> {
    (0..KEYS).map(|i| format!("{}down:{i}", keys::PREFIX)).collect()
}

pub async fn measure(scene: &mut Scene<'_>, formed: &Formed) -> Result<(), BlockError> {
    let members = scene.members();
    let names = names();
    scene.progress(&format!("{KEYS} keys on {} nodes, then a cut", members.len()));
    for master in members.iter().filter(|member| member.is_master()) {
        let own = |name: &&String| master.slots.contains(slot_of(name.as_bytes()));
        let own: Vec<String> = names.iter().filter(own).cloned().collect();
        halves::write(scene, &members, master, &own).await?;
    }
    let ranges = keys::ranges(&members);
    halves::record_placement(scene, formed, &members, &ranges, COURSE, Parting::Cut).await?;
    halves::prepare(scene, &members, &ranges, COURSE).await?;
    let watches = halves::watch_both(scene, &members, &ranges, COURSE).await?;
    // The time before the parting is shown, nothing is waited for.
    tokio::time::sleep(AROUND).await;
    halves::begin(scene, COURSE, Parting::Cut).await?;
    all_down(scene, &members).await?;
    for value in VALUES {
        scene.progress(&format!("{SETTING} {value}: every node is asked"));
        formed.set(scene, SETTING, value).await?;
        let at_ns = i64::try_from(scene.now_ns().await?).unwrap_or(i64::MAX);
        scene.fact(COURSE, &set_at(value), at_ns)?;
        halves::record_placement(scene, formed, &members, &ranges, value, Parting::Cut).await?;
        for member in &members {
            for readonly in [false, true] {
                let asked = ask(scene, member, &names, readonly).await?;
                scene.keys_asked(KeysAsked {
                    row: value.to_owned(),
                    ..asked
                })?;
            }
        }
        // The watch shows what the setting does to all operations of a half; asking alone takes a tenth of a second.
        tokio::time::sleep(AROUND).await;
    }
    halves::end(scene, COURSE, Parting::Cut).await?;
    scene.agreed(&members).await?;
    tokio::time::sleep(AROUND).await;
    for (datacenter, watch) in watches {
        let seen = watch.stop(halves::END).await?;
        scene.half_watched(COURSE, &datacenter, seen)?;
    }
    formed.put_settings_back(scene, &members).await
}

/// Waits until no node serves.
async fn all_down(scene: &Scene<'_>, members: &[Member]) -> Result<(), BlockError> {
    let began = Instant::now();
    loop {
        let views = scene.views(members).await?;
        let up: Vec<String> = members
            .iter()
            .zip(&views)
            .filter(|(_, view)| view.cluster.ok)
            .map(|(member, _)| member.part.shown())
            .collect();
        if up.is_empty() {
            return Ok(());
        }
        if began.elapsed() > DOWN {
            return Err(BlockError::NotSeen {
                wanted: "cluster_state fail on every node".to_owned(),
                limit: DOWN,
                seen: format!("ok on {}", up.join(", ")),
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn ask(scene: &Scene<'_>, member: &Member, names: &[String], readonly: bool) -> Result<KeysAsked, BlockError> {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let mut commands = vec![words(&["CLUSTER", "INFO"])];
    if readonly {
        commands.push(words(&["READONLY"]));
    }
    let before = commands.len();
    for name in names {
        commands.push(words(&["GET", name]));
        commands.push(words(&["SET", name, "1"]));
    }
    let replies = scene.replies(&member.part, commands).await?;
    if let Some(Reply::Error(_)) = replies[..before].last() {
        return Err(other_reply(&member.part, "READONLY", &replies[before - 1]));
    }
    let info = text_of(&replies[0]);
    let state = crate::replication::field(&info, "cluster_state").unwrap_or_default();
    let answered = names.iter().zip(replies[before..].chunks(2));
    Ok(KeysAsked {
        block: scene.block_number(),
        row: String::new(),
        node: member.part.node.to_string(),
        readonly,
        cluster_state: state.to_owned(),
        keys: answered
            .map(|(name, pair)| KeyAsked {
                key: name.clone(),
                slot: slot_of(name.as_bytes()),
                read: outcome(&pair[0]),
                write: outcome(&pair[1]),
            })
            .collect(),
    })
}

fn outcome(reply: &Reply) -> Outcome {
    match reply {
        Reply::Error(text) => Outcome::of_error(text),
        Reply::Nil => Outcome::Absent,
        _ => Outcome::Served,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_lie_in_all_three_ranges_of_a_cluster_of_six() {
        let mut counts = [0; 3];
        for name in names() {
            counts[usize::from(slot_of(name.as_bytes())) * 3 / 16384] += 1;
        }
        assert!(counts.iter().all(|&count| count >= 3), "{counts:?}");
    }
}
