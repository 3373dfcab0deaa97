//! Links: from `dc1-dc2` (both directions) and `dc1:dc2` (one) to directed links with a delay each.
//!
//! Refuses a link to itself, to nowhere, twice, with two delays or none, and a pair of datacenters without one.

use super::Link;
use super::check::declared;
use super::file::{File, LinkFile};
use super::problem::{Code, Problems, quote};
use super::tree::{At, Place};
use crate::conditions::{BadDelay, parse_delay};
use crate::names::DatacenterName;
use std::collections::BTreeMap;
use wire::Conditions;

/// Ends of a directed link, by name.
type Ends<'f> = (&'f str, &'f str);

/// What the file says of one direction.
struct Said {
    /// The key that said it.
    place: Place,
    /// `dc1:dc2`, which wins over `dc1-dc2`.
    directed: bool,
    /// `None`: said, but wrong.
    delay_ns: Option<u64>,
}

/// All directed links, in the order of the file's datacenters.
pub(super) fn links(file: &File, problems: &mut Problems) -> Vec<Link> {
    let mut said: BTreeMap<Ends, Said> = BTreeMap::new();
    let mut joined: BTreeMap<Ends, usize> = BTreeMap::new();
    for (key, link) in &file.links {
        let ends = ends(key, file, problems);
        let delay_ns = conditions(key, link, key.value.contains(':'), problems);
        let Some((from, to, directed)) = ends else {
            continue;
        };
        if !directed {
            let pair = if from < to { (from, to) } else { (to, from) };
            if let Some(line) = joined.insert(pair, key.place.line) {
                problems
                    .add(
                        key.place,
                        Code::Duplicate,
                        format!("{from} and {to} are joined twice, first in line {line}"),
                    )
                    .hint(format!(
                        "`{from}-{to}` and `{to}-{from}` are the same link; `{from}:{to}` is one direction of it"
                    ));
                continue;
            }
        }
        let directions: &[Ends] = if directed {
            &[(from, to)]
        } else {
            &[(from, to), (to, from)]
        };
        for &ends in directions {
            let wins = said.get(&ends).is_none_or(|other| directed && !other.directed);
            if wins {
                let place = key.place;
                said.insert(
                    ends,
                    Said {
                        place,
                        directed,
                        delay_ns,
                    },
                );
            }
        }
    }
    missing(file, &said, problems);
    ordered(file, &said)
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

/// The delay of one direction, nanoseconds.
fn conditions(key: &At<String>, link: &LinkFile, directed: bool, problems: &mut Problems) -> Option<u64> {
    let what = || format!("link {}", quote(&key.value));
    match (&link.delay, &link.rtt) {
        (Some(delay), Some(rtt)) => {
            let later = if delay.place.offset > rtt.place.offset {
                delay
            } else {
                rtt
            };
            problems
                .add(
                    later.place,
                    Code::BadLink,
                    format!("{} has both `delay` and `rtt`", what()),
                )
                .hint("`delay` is one way, `rtt` both ways together: write one of them");
            read("delay", delay, problems);
            read("rtt", rtt, problems);
            None
        }
        (Some(delay), None) => read("delay", delay, problems),
        (None, Some(rtt)) if directed => {
            problems
                .add(
                    rtt.place,
                    Code::BadLink,
                    format!("{} is one direction and has no `rtt`", what()),
                )
                .hint("write `delay`, which is one way");
            None
        }
        (None, Some(rtt)) => read("rtt", rtt, problems).map(|round_trip| round_trip / 2),
        (None, None) => {
            if !link.broken {
                problems
                    .add(key.place, Code::Missing, format!("{} has no delay", what()))
                    .hint("write `{ delay: 20ms }`; a delay is one way");
            }
            None
        }
    }
}

fn read(key: &str, text: &At<String>, problems: &mut Problems) -> Option<u64> {
    match parse_delay(&text.value) {
        Ok(delay_ns) => Some(delay_ns),
        Err(bad) => {
            let code = if bad == BadDelay::NoUnit {
                Code::NoUnit
            } else {
                Code::BadDelay
            };
            problems
                .add(text.place, code, format!("{} {} {bad}", key, quote(&text.value)))
                .hint(bad.hint(&text.value));
            None
        }
    }
}

/// Reports every datacenter that has no link at all, and else every pair and direction without one.
fn missing(file: &File, said: &BTreeMap<Ends, Said>, problems: &mut Problems) {
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

fn ordered(file: &File, said: &BTreeMap<Ends, Said>) -> Vec<Link> {
    let mut links = Vec::new();
    for (from, _) in &file.datacenters {
        for (to, _) in &file.datacenters {
            let Some(delay_ns) = said
                .get(&(from.value.as_str(), to.value.as_str()))
                .and_then(|said| said.delay_ns)
            else {
                continue;
            };
            if let (Ok(from), Ok(to)) = (DatacenterName::new(&from.value), DatacenterName::new(&to.value)) {
                links.push(Link {
                    from,
                    to,
                    conditions: Conditions::delay(delay_ns),
                    schedule: None,
                });
            }
        }
    }
    links
}
