//! Links: from `dc1-dc2` (both directions) and `dc1:dc2` (one) to directed links with all their conditions.
//!
//! Refuses a link to itself, to nowhere, twice, with two delays or none, a pair of datacenters without one, and
//! conditions that contradict each other or the mode of the relays.

mod said;

use super::Link;
use super::check::declared;
use super::file::File;
use super::problem::{Code, Problems, quote};
use super::tree::{At, Place};
use crate::conditions::{Condition, Key, check, not_in_stream_mode};
use crate::names::DatacenterName;
use said::{Said, said};
use std::collections::BTreeMap;
use wire::{Conditions, JitterShape, Path, Schedule};

/// Ends of a directed link, by name.
type Ends<'f> = (&'f str, &'f str);

/// Most entries of the tables of all links from one datacenter: its relay is told them in one argument of 128 KiB.
const MOST_TABLES: usize = 8192;

/// Of the conditions that stream mode does not have.
const ONLY_DELAY: &str = "stream mode delays the bytes of connections and nothing else; take `mode: packet`";

/// What the file says of one direction.
struct Direction {
    /// The key that said it; `dc1:dc2` before `dc1-dc2`.
    place: Place,
    said: Said,
}

/// All directed links, in the order of the file's datacenters.
pub(super) fn links(file: &File, path: Path, problems: &mut Problems) -> Vec<Link> {
    let mut joined: BTreeMap<Ends, (Place, Said)> = BTreeMap::new();
    let mut directed: BTreeMap<Ends, (&At<String>, Said)> = BTreeMap::new();
    for (key, link) in &file.links {
        let ends = ends(key, file, problems);
        let said = said(key, link, problems);
        let Some((from, to, one_way)) = ends else {
            continue;
        };
        if one_way {
            directed.insert((from, to), (key, said));
            continue;
        }
        if let Some((first, _)) = joined.get(&(from, to)) {
            problems
                .add(
                    key.place,
                    Code::Duplicate,
                    format!("{from} and {to} are joined twice, first in line {}", first.line),
                )
                .hint(format!(
                    "`{from}-{to}` and `{to}-{from}` are the same link; `{from}:{to}` is one direction of it"
                ));
            continue;
        }
        without_delay(key, &said, problems);
        joined.insert((from, to), (key.place, said.clone()));
        joined.insert((to, from), (key.place, said));
    }
    let directions = directions(&joined, &directed, problems);
    missing(file, &directions, problems);
    ordered(file, path, &directions, problems)
}

/// What is said of each direction, all in all.
fn directions<'f>(
    joined: &BTreeMap<Ends<'f>, (Place, Said)>,
    directed: &BTreeMap<Ends<'f>, (&At<String>, Said)>,
    problems: &mut Problems,
) -> BTreeMap<Ends<'f>, Direction> {
    let mut directions = BTreeMap::new();
    for (&ends, (place, said)) in joined {
        let (place, said) = (*place, said.clone());
        directions.insert(ends, Direction { place, said });
    }
    for (&ends, (key, own)) in directed {
        let said = match joined.get(&ends) {
            Some((_, both)) => both.overridden(own),
            None => {
                without_delay(key, own, problems);
                own.clone()
            }
        };
        let place = key.place;
        directions.insert(ends, Direction { place, said });
    }
    directions
}

fn without_delay(key: &At<String>, said: &Said, problems: &mut Problems) {
    if !said.broken && said.place(Key::Delay).is_none() {
        problems
            .add(
                key.place,
                Code::Missing,
                format!("link {} has no delay", quote(&key.value)),
            )
            .hint("write `{ delay: 20ms }`; a delay is one way");
    }
}

/// The two datacenters of a link's name, and whether only one direction is meant.
fn ends<'f>(key: &'f At<String>, file: &File, problems: &mut Problems) -> Option<(&'f str, &'f str, bool)> {
    let mut parts = key.value.split(['-', ':']);
    let (Some(from), Some(to), None) = (parts.next(), parts.next(), parts.next()) else {
        problems
            .add(
                key.place,
                Code::BadLink,
                format!("{} is no name of a link", quote(&key.value)),
            )
            .hint("write `dc1-dc2` for both directions, `dc1:dc2` for the one from dc1 to dc2");
        return None;
    };
    let from_known = declared(from, key.place, file, problems);
    if from == to {
        if from_known {
            problems
                .add(
                    key.place,
                    Code::BadLink,
                    format!("a link leads from {} to itself", quote(from)),
                )
                .hint("inside a datacenter there is no link and no delay");
        }
        return None;
    }
    let to_known = declared(to, key.place, file, problems);
    (from_known && to_known).then_some((from, to, key.value.contains(':')))
}

/// Reports every datacenter that has no link at all, and else every pair and direction without one.
fn missing(file: &File, said: &BTreeMap<Ends, Direction>, problems: &mut Problems) {
    // A name that is not allowed cannot be part of a link either; that is one problem, not two.
    let names = file.datacenters.iter().map(|(key, _)| key);
    let names: Vec<&At<String>> = names.filter(|key| DatacenterName::new(&key.value).is_ok()).collect();
    if file.links.is_empty() {
        if let Some(second) = names.get(1).filter(|_| !file.links_broken) {
            let first = &names[0].value;
            problems
                .add(second.place, Code::NoLink, "there is no link between the datacenters")
                .hint(format!(
                    "add `links:` and below it `{first}-{}: {{ delay: 20ms }}`, a delay one way; every two datacenters need one",
                    second.value
                ));
        }
        return;
    }
    let linked = |name: &str| said.keys().any(|&(from, to)| from == name || to == name);
    let mut lonely: Vec<&str> = Vec::new();
    for (index, from) in names.iter().enumerate() {
        for to in &names[index + 1..] {
            let (from, to_name) = (from.value.as_str(), to.value.as_str());
            let there = said.get(&(from, to_name));
            let back = said.get(&(to_name, from));
            match (there, back) {
                (Some(_), Some(_)) => {}
                (Some(one), None) => one_way(from, to_name, one.place, problems),
                (None, Some(one)) => one_way(to_name, from, one.place, problems),
                (None, None) => {
                    let alone = if linked(to_name) { from } else { to_name };
                    if linked(alone) || !lonely.contains(&alone) {
                        let place = names
                            .iter()
                            .find(|key| key.value == alone)
                            .map_or(to.place, |key| key.place);
                        let message = if linked(alone) {
                            format!("datacenters {} and {} have no link", quote(from), quote(to_name))
                        } else {
                            format!("datacenter {} has no link to any other", quote(alone))
                        };
                        problems.add(place, Code::NoLink, message).hint(format!(
                            "add `{from}-{to_name}: {{ delay: 20ms }}` to `links`; every two datacenters need one"
                        ));
                        lonely.push(alone);
                    }
                }
            }
        }
    }
}

fn one_way(from: &str, to: &str, place: Place, problems: &mut Problems) {
    problems
        .add(
            place,
            Code::NoLink,
            format!("there is a link from {} to {} and none back", quote(from), quote(to)),
        )
        .hint(format!("add `{to}:{from}`, or write `{from}-{to}` for both directions"));
}

fn ordered(file: &File, path: Path, said: &BTreeMap<Ends, Direction>, problems: &mut Problems) -> Vec<Link> {
    let mut links = Vec::new();
    for (from, _) in &file.datacenters {
        let mut table = 0;
        for (to, _) in &file.datacenters {
            let Some(direction) = said.get(&(from.value.as_str(), to.value.as_str())) else {
                continue;
            };
            let Some((conditions, schedule)) = whole(direction, path, problems) else {
                continue;
            };
            if let Some(JitterShape::Table { added_ns }) = conditions.jitter.as_ref().map(|jitter| &jitter.shape) {
                table += added_ns.len();
                if table > MOST_TABLES {
                    let place = direction.said.place(Key::Jitter).unwrap_or(direction.place);
                    let message = format!("the tables of the links from {} have {table} times", quote(&from.value));
                    problems
                        .add(place, Code::TooLarge, message)
                        .hint(format!("{MOST_TABLES} together is the most; take a sample of yours"));
                }
            }
            if let (Ok(from), Ok(to)) = (DatacenterName::new(&from.value), DatacenterName::new(&to.value)) {
                links.push(Link {
                    from,
                    to,
                    conditions,
                    schedule,
                });
            }
        }
    }
    links
}

/// The conditions and the schedule of a direction, if nothing is wrong with it.
fn whole(direction: &Direction, path: Path, problems: &mut Problems) -> Option<(Conditions, Option<Schedule>)> {
    let said = &direction.said;
    if said.broken || said.place(Key::Delay).is_none() {
        return None;
    }
    let mut conditions = Conditions::delay(0);
    for (condition, _) in &said.conditions {
        condition.apply(&mut conditions);
    }
    let place = |key| said.place(key).unwrap_or(direction.place);
    if let Err((key, bad)) = check(&conditions) {
        let value = quote(&Condition::of(key, &conditions).value());
        problems
            .add(
                place(key),
                Code::BadCondition,
                format!("{} {value} {bad}", key.as_str()),
            )
            .hint(bad.hint);
        return None;
    }
    if let Path::Stream(_) = path {
        for key in not_in_stream_mode(&conditions) {
            problems
                .add(
                    place(key),
                    Code::BadCondition,
                    format!("`{}` cannot be had in stream mode", key.as_str()),
                )
                .hint(ONLY_DELAY);
        }
    }
    let schedule = match &said.schedule {
        Some(written) => schedule(written, &conditions, path, problems),
        None => None,
    };
    Some((conditions, schedule))
}

fn schedule(
    written: &said::WrittenSchedule,
    conditions: &Conditions,
    path: Path,
    problems: &mut Problems,
) -> Option<Schedule> {
    let timetable = written.timetable.as_ref()?;
    if let Path::Stream(_) = path {
        problems
            .add(
                written.text.place,
                Code::BadSchedule,
                "relays in stream mode carry out no schedule",
            )
            .hint("take `mode: packet`, or leave the schedule out and order each change by `testbed link`");
    }
    match timetable.on(conditions) {
        Ok(schedule) => Some(schedule),
        Err(bad) => {
            let place = problems.within(&written.text, bad.range);
            problems.add(place, Code::BadSchedule, bad.bad.what).hint(bad.bad.hint);
            None
        }
    }
}
