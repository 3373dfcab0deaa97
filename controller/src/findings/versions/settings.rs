//! Settings whose effective values differ between releases: node by node, from the manifests. What a topology sets is the same
//! on all, so what differs is a default, or a setting that only one of them has.

use super::{Measured, of};
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
