//! The writes of both halves, key by key: the keys that are read are put there before, those that were acknowledged are looked
//! for afterwards on the owners of their slots, and all are removed in the end.

use super::keys::{self, Range};
use crate::block::scene::{Scene, other_reply};
use crate::block::{BlockError, Member};
use crate::history::Kept;
use crate::names::DatacenterName;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::{Access, HalfSeen, Outcome, Reply};

/// Keys of one command.
const MOST_KEYS: usize = 500;
/// Limit of replicas to have a write, below that of a reply.
const WAIT: Duration = Duration::from_secs(4);
/// Pages of a SCAN.
const PAGE: &str = "1000";

/// Puts the keys there that are read, on the masters and their replicas.
pub async fn prepare(scene: &Scene<'_>, members: &[Member], ranges: &[Range], row: &str) -> Result<(), BlockError> {
    let prefixes = [&scene.cast.home, &scene.cast.away].map(|datacenter| keys::prefix(row, datacenter));
    for range in ranges {
        let tags = range.tags.iter();
        let names = tags.flat_map(|tag| prefixes.iter().map(move |prefix| keys::read(prefix, tag)));
        write(scene, members, master_of(members, range), &names.collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Writes keys to their master, and waits until its replicas have them.
pub async fn write(scene: &Scene<'_>, members: &[Member], master: &Member, names: &[String]) -> Result<(), BlockError> {
    let replicas = members
        .iter()
        .filter(|member| member.master.as_ref() == Some(&master.part.node));
    let (wanted, limit_ms) = (replicas.count(), WAIT.as_millis().to_string());
    let count = wanted.to_string();
    // On one connection: WAIT is about what its own has written.
    let mut commands: Vec<&[&str]> = Vec::new();
    let sets: Vec<[&str; 3]> = names.iter().map(|name| ["SET", name.as_str(), "0"]).collect();
    commands.extend(sets.iter().map(|set| &set[..]));
    let wait = ["WAIT", count.as_str(), limit_ms.as_str()];
    commands.push(&wait);
    match scene.commands(&master.part, &commands).await?.last() {
        Some(Reply::Integer(seen)) if usize::try_from(*seen).is_ok_and(|seen| seen >= wanted) => Ok(()),
        seen => Err(BlockError::NotSeen {
            wanted: format!("{wanted} replicas of {} with the keys", master.part.shown()),
            limit: WAIT,
            seen: format!("{seen:?}"),
        }),
    }
}

fn master_of<'m>(members: &'m [Member], range: &Range) -> &'m Member {
    let master = members.iter().find(|member| member.part.node == range.master);
    master.expect("every range is that of a master")
}

/// Looks for every write that was acknowledged, on those that own the slots now.
pub async fn look_for(
    scene: &mut Scene<'_>,
    members: &[Member],
    ranges: &[Range],
    row: &str,
    datacenter: &DatacenterName,
    seen: &HalfSeen,
) -> Result<(), BlockError> {
    let prefix = keys::prefix(row, datacenter);
    let nodes: Vec<&Member> = keys::nodes_of(members, datacenter).collect();
    for answers in seen.answers.iter().filter(|all| all.access == Access::Write) {
        let Some(node) = nodes.iter().position(|member| *member.part.target.ip() == answers.node) else {
            continue;
        };
        let index = answers.range as usize;
        let tags = &ranges[index].tags;
        let served = answers.runs.iter().filter(|run| run.outcome == Outcome::Served);
        let numbers: Vec<u32> = served.flat_map(|run| run.first..run.first + run.count).collect();
        let mut by_tag: BTreeMap<&String, Vec<u32>> = BTreeMap::new();
        for &number in &numbers {
            by_tag
                .entry(&tags[number as usize % tags.len()])
                .or_default()
                .push(number);
        }
        let owner = owner_now(scene, members, &ranges[index]).await?;
        let mut found = Vec::new();
        for some in by_tag.values().flat_map(|numbers| numbers.chunks(MOST_KEYS)) {
            let name = |number: &u32| keys::written(&prefix, node, index, *number, tags);
            let names: Vec<String> = some.iter().map(name).collect();
            found.extend(present(scene, owner, &names, some).await?);
        }
        found.sort_unstable();
        scene.kept(Kept {
            block: scene.block_number(),
            row: row.to_owned(),
            datacenter: datacenter.to_string(),
            node: nodes[node].part.node.to_string(),
            range: answers.range,
            looked_for: u32::try_from(numbers.len()).unwrap_or(u32::MAX),
            found: Kept::stretches(found),
        })?;
    }
    Ok(())
}

/// Numbers whose keys hold what was written. The keys have one slot.
async fn present(scene: &Scene<'_>, owner: &Member, names: &[String], numbers: &[u32]) -> Result<Vec<u32>, BlockError> {
    let words: Vec<&str> = std::iter::once("MGET")
        .chain(names.iter().map(String::as_str))
        .collect();
    match scene.command(&owner.part, &words).await? {
        Reply::Array(values) => Ok(numbers
            .iter()
            .zip(values)
            .filter(|(number, value)| matches!(value, Reply::Text(text) if *text == number.to_string()))
            .map(|(number, _)| *number)
            .collect()),
        reply => Err(other_reply(&owner.part, "MGET", &reply)),
    }
}

/// Who owns the slots of a range now: a promotion may have moved them.
async fn owner_now<'m>(scene: &Scene<'_>, members: &'m [Member], range: &Range) -> Result<&'m Member, BlockError> {
    let view = scene.view(&members[0].part).await?;
    let line = view.members.iter().find(|line| line.slots == range.slots);
    let owner = members
        .iter()
        .find(|member| line.is_some_and(|line| line.address == Some(*member.part.target.ip())));
    owner.ok_or_else(|| BlockError::NotSeen {
        wanted: format!("one owner of slots {}", range.slots),
        limit: Duration::ZERO,
        seen: format!("{:?}", view.members),
    })
}

/// Removes every key of these blocks from the masters.
pub async fn remove_keys(scene: &Scene<'_>, members: &[Member]) -> Result<(), BlockError> {
    for master in members.iter().filter(|member| member.is_master()) {
        // One by one, since a cluster takes keys of one slot only in one command.
        let found = keys_on(scene, master).await?.into_iter();
        let commands: Vec<Vec<String>> = found.map(|key| vec!["UNLINK".to_owned(), key]).collect();
        for some in commands.chunks(MOST_KEYS) {
            scene.replies(&master.part, some.to_vec()).await?;
        }
    }
    Ok(())
}

/// How many keys of these blocks the masters have.
pub async fn keys_left(scene: &Scene<'_>, members: &[Member]) -> Result<usize, BlockError> {
    let mut left = 0;
    for master in members.iter().filter(|member| member.is_master()) {
        left += keys_on(scene, master).await?.len();
    }
    Ok(left)
}

/// Keys of these blocks on a master.
async fn keys_on(scene: &Scene<'_>, master: &Member) -> Result<BTreeSet<String>, BlockError> {
    let pattern = format!("{}*", keys::PREFIX);
    let mut all = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let words = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", PAGE];
        let reply = scene.command(&master.part, &words).await?;
        let Reply::Array(page) = &reply else {
            return Err(other_reply(&master.part, "SCAN", &reply));
        };
        let [Reply::Text(next), Reply::Array(found)] = page.as_slice() else {
            return Err(other_reply(&master.part, "SCAN", &reply));
        };
        all.extend(found.iter().filter_map(|key| match key {
            Reply::Text(key) => Some(key.clone()),
            _ => None,
        }));
        if next == "0" {
            return Ok(all);
        }
        cursor.clone_from(next);
    }
}
