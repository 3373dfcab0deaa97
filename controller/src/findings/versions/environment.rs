//! What two runs were made of and on, beside each other: instrument, host, engine, servers, images.

use crate::manifest::Manifest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A fact of both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// On either side, several values joined; `-` if it is not known.
    pub values: [String; 2],
    /// Whether they differ.
    pub differs: bool,
}

/// By place in the list and name.
type Values = BTreeMap<(u8, String), BTreeSet<String>>;

/// The facts of both sides, in the order of the list below, images last.
#[must_use]
pub fn beside(sides: [Vec<&Manifest>; 2]) -> Vec<Fact> {
    let [first, second] = sides.map(|manifests| {
        let mut values = Values::new();
        for manifest in manifests {
            of_run(manifest, &mut values);
        }
        values
    });
    let names: BTreeSet<&(u8, String)> = first.keys().chain(second.keys()).collect();
    let fact = |name: &(u8, String)| {
        let shown = |values: &Values| match values.get(name) {
            Some(values) => values.iter().cloned().collect::<Vec<_>>().join(", "),
            None => "-".to_owned(),
        };
        let values = [shown(&first), shown(&second)];
        Fact {
            name: name.1.clone(),
            differs: values[0] != values[1],
            values,
        }
    };
    names.into_iter().map(fact).collect()
}

fn of_run(manifest: &Manifest, values: &mut Values) {
    let mut add = |place: u8, name: String, value: Option<String>| {
        if let Some(value) = value {
            values.entry((place, name)).or_default().insert(value);
        }
    };
    let instrument = &manifest.instrument;
    add(0, "testbed".to_owned(), Some(instrument.version.clone()));
    add(1, "relay".to_owned(), instrument.relay_sha256.as_deref().map(short));
    add(2, "probe".to_owned(), instrument.probe_sha256.as_deref().map(short));
    add(3, "seed".to_owned(), Some(manifest.seed.to_string()));
    let host = &manifest.host;
    add(10, "host kernel".to_owned(), host.kernel.clone());
    add(11, "host CPU".to_owned(), host.cpu_model.clone());
    add(12, "host CPUs".to_owned(), host.cpus.map(|cpus| cpus.to_string()));
    add(13, "host memory".to_owned(), host.memory_bytes.map(mib));
    if let Some(engine) = &manifest.engine {
        add(20, "engine".to_owned(), Some(engine.version.clone()));
        add(21, "engine kernel".to_owned(), Some(engine.kernel.clone()));
        add(22, "engine OS".to_owned(), Some(engine.os.clone()));
        add(23, "engine architecture".to_owned(), Some(engine.architecture.clone()));
        add(24, "engine storage".to_owned(), Some(engine.storage.clone()));
    }
    for lab in &manifest.labs {
        add(
            30,
            format!("topology {}", lab.topology),
            Some(short(&lab.topology_sha256)),
        );
        for server in &lab.servers {
            let version = server.version.clone().unwrap_or_else(|| "no answer".to_owned());
            add(31, format!("{} servers", server.engine), Some(version));
        }
        for (reference, image) in &lab.images {
            let digest = image.digest.as_ref().unwrap_or(&image.id);
            add(40, format!("image {reference}"), Some(short(digest)));
        }
    }
}

/// Twelve digits of a digest, as people compare them.
fn short(digest: &str) -> String {
    digest.trim_start_matches("sha256:").chars().take(12).collect()
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let text = include_str!("../../../tests/golden/run/manifest.json");
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn facts_stand_beside_each_other_and_what_differs_is_marked() {
        let first = manifest();
        let mut second = manifest();
        second.host.kernel = Some("6.12.0".to_owned());
        second.engine = None;
        let facts = beside([vec![&first], vec![&second]]);
        let of = |name: &str| facts.iter().find(|fact| fact.name == name).unwrap();
        assert_eq!(of("host kernel").values, ["6.1.0", "6.12.0"]);
        assert!(of("host kernel").differs && !of("testbed").differs);
        assert_eq!(of("engine").values, ["20.10.24", "-"]);
        assert!(facts[0].name == "testbed", "{facts:?}");
    }

    #[test]
    fn several_runs_of_a_side_are_one_value_where_they_agree() {
        let (one, mut other) = (manifest(), manifest());
        other.seed = 2;
        let facts = beside([vec![&one, &other], vec![&one]]);
        let seed = facts.iter().find(|fact| fact.name == "seed").unwrap();
        assert_eq!(seed.values, ["1, 2", "1"]);
        assert!(!facts.iter().find(|fact| fact.name == "redis servers").unwrap().differs);
    }
}
