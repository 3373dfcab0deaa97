//! Settings whose effective values differ between releases: node by node, from the manifests. What a topology sets is the same
//! on all, so what differs is a default, or a setting that only one of them has.

use super::{Measured, Versions, of};
use crate::manifest::ServerUsed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// In the order of the releases: its values, of several nodes each once (none: the release has no such setting).
    pub values: Vec<Vec<String>>,
}

/// The settings that differ, as somebody reads them before an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sorted<'a> {
    /// Those that at least two releases have, with different values: what an upgrade changes without being asked.
    pub changed: Vec<&'a Setting>,
    /// Those that only some releases have, by who has them.
    pub partial: Vec<Partial<'a>>,
}

/// Settings that the same releases have, and the others do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial<'a> {
    /// Who has them.
    pub having: Vec<&'a str>,
    /// Who has not.
    pub lacking: Vec<&'a str>,
    /// In the order of their names.
    pub settings: Vec<&'a Setting>,
}

impl Versions {
    /// See [`Sorted`]. A release of which nothing is known neither has a setting nor lacks it.
    #[must_use]
    pub fn sorted_settings(&self) -> Sorted<'_> {
        let known: Vec<usize> = (0..self.releases.len())
            .filter(|&at| self.settings.iter().any(|setting| setting.is_on(at)))
            .collect();
        let mut sorted = Sorted {
            changed: Vec::new(),
            partial: Vec::new(),
        };
        for setting in &self.settings {
            let (having, lacking): (Vec<usize>, Vec<usize>) = known.iter().partition(|&&at| setting.is_on(at));
            let mut values: Vec<&Vec<String>> = having.iter().map(|&at| &setting.values[at]).collect();
            values.dedup();
            if lacking.is_empty() || values.len() > 1 {
                sorted.changed.push(setting);
                continue;
            }
            let names = |places: Vec<usize>| places.into_iter().map(|at| self.releases[at].name.as_str()).collect();
            let having: Vec<&str> = names(having);
            match sorted.partial.iter_mut().find(|partial| partial.having == having) {
                Some(partial) => partial.settings.push(setting),
                None => sorted.partial.push(Partial {
                    having,
                    lacking: names(lacking),
                    settings: vec![setting],
                }),
            }
        }
        sorted
            .partial
            .sort_by_key(|partial| std::cmp::Reverse(partial.settings.len()));
        sorted
    }
}

impl Setting {
    fn is_on(&self, release: usize) -> bool {
        self.values.get(release).is_some_and(|values| !values.is_empty())
    }
}

impl Partial<'_> {
    /// `only on valkey-9.1: 34`, `not on redis-7.0.15: 51`, whichever names fewer.
    #[must_use]
    pub fn title(&self) -> String {
        let count = self.settings.len();
        if self.lacking.len() < self.having.len() {
            format!("not on {}: {count}", self.lacking.join(", "))
        } else {
            format!("only on {}: {count}", self.having.join(", "))
        }
    }
}

/// Node and setting, and the value there.
type Values = BTreeMap<(String, String), String>;

pub(super) fn different(releases: &[String], cells: &[Measured]) -> Vec<Setting> {
    let known: Vec<Values> = releases.iter().map(|release| values(release, cells)).collect();
    // A release of which nothing is known has no settings, which is no difference.
    let some: Vec<&Values> = known.iter().filter(|values| !values.is_empty()).collect();
    let keys: BTreeSet<&(String, String)> = some.iter().flat_map(|values| values.keys()).collect();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for key in keys {
        let here = some.iter().filter(|values| has_node(values, &key.0));
        let distinct: BTreeSet<Option<&String>> = here.map(|values| values.get(key)).collect();
        if distinct.len() > 1 {
            names.insert(&key.1);
        }
    }
    let setting = |name: &str| Setting {
        name: name.to_owned(),
        values: known.iter().map(|values| of_setting(values, name)).collect(),
    };
    names.into_iter().map(setting).collect()
}

fn has_node(values: &Values, node: &str) -> bool {
    values.keys().any(|(of, _)| of == node)
}

fn of_setting(values: &Values, name: &str) -> Vec<String> {
    let of_it = values.iter().filter(|((_, of), _)| of == name);
    let distinct: BTreeSet<&String> = of_it.map(|(_, value)| value).collect();
    distinct.into_iter().cloned().collect()
}

/// Of the first completed cell of each topology: a node has the same name in all labs of one.
fn values(release: &str, cells: &[Measured]) -> Values {
    let mut values = Values::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for cell in of(release, cells) {
        let Some(lab) = cell.read().and_then(|read| read.manifest.labs.first()) else {
            continue;
        };
        if !seen.insert(&cell.topology) {
            continue;
        }
        for server in &lab.servers {
            add(&mut values, &cell.topology, server);
        }
    }
    values
}

fn add(values: &mut Values, topology: &str, server: &ServerUsed) {
    for (name, value) in &server.configuration {
        let node = format!("{topology}/{}", server.node);
        values.insert((node, name.clone()), without_addresses(value));
    }
}

/// A lab's addresses are drawn by the planner and are no default of anybody.
fn without_addresses(value: &str) -> String {
    let words = value.split(' ').map(|word| match word.parse::<Ipv4Addr>() {
        Ok(address) if !address.is_unspecified() && !address.is_loopback() => "(address)",
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}
