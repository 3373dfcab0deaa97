//! From the tree to the file's types: shape, keys and types are checked here, meaning is not.
//!
//! Goes on after every problem, so that the meaning of what could be read is checked as well.

mod application;
mod link;

use super::file::{DATACENTER_KEYS, DEFAULTS_KEYS, DatacenterFile, DefaultsFile, FILE_KEYS, File, NODE_KEYS, NodeFile};
use super::problem::{Code, Problems, nearest, quote};
use super::tree::{At, Place, Tree};
use crate::conditions::BadDelay;

/// Entries of a map whose keys are text.
type Entries<'t> = Vec<(At<String>, &'t At<Tree>)>;

/// The file, as far as it could be read; `None` if it is no map at all.
pub(super) fn read(tree: &At<Tree>, problems: &mut Problems) -> Option<File> {
    let mut reader = Reader { problems };
    let fields = reader.section(tree, "a topology", FILE_KEYS, true)?;
    let mut file = File {
        version: None,
        name: None,
        datacenters: Vec::new(),
        links: Vec::new(),
        links_broken: false,
        mode: None,
        seed: None,
        defaults: DefaultsFile::default(),
        nodes: Vec::new(),
        applications: Vec::new(),
        datacenters_place: Place {
            length: 0,
            ..tree.place
        },
    };
    let mut seen_datacenters = false;
    for (key, value) in fields {
        match key.value.as_str() {
            "version" => file.version = Some(reader.version(value)),
            "name" => file.name = reader.text(value, "name"),
            "datacenters" => {
                seen_datacenters = true;
                file.datacenters_place = key.place;
                file.datacenters
                    .extend(reader.each(value, "datacenters", Reader::datacenter));
                if matches!(&value.value, Tree::Map(entries) if entries.is_empty()) {
                    reader.no_datacenters(key.place);
                }
            }
            "links" => {
                file.links_broken = !matches!(value.value, Tree::Map(_));
                file.links.extend(reader.each(value, "links", Reader::link));
            }
            "mode" => file.mode = reader.mode(value),
            "seed" => file.seed = reader.scalar(value, "seed"),
            "defaults" => file.defaults = reader.defaults(value),
            "nodes" => file.nodes.extend(reader.each(value, "nodes", Reader::node)),
            "applications" => {
                let applications = reader.each(value, "applications", Reader::application);
                file.applications.extend(applications);
            }
            _ => {}
        }
    }
    if !seen_datacenters {
        reader.no_datacenters(file.datacenters_place);
    }
    Some(file)
}

struct Reader<'r, 'p> {
    problems: &'r mut Problems<'p>,
}

impl Reader<'_, '_> {
    /// A map with known keys.
    fn section<'t>(
        &mut self,
        tree: &'t At<Tree>,
        what: &str,
        keys: &'static [&'static str],
        extensions: bool,
    ) -> Option<Entries<'t>> {
        let entries = self.entries(tree, what, extensions)?;
        let known = |key: &str| keys.contains(&key) || (extensions && key.starts_with("x-"));
        for (key, _) in entries.iter().filter(|(key, _)| !known(&key.value)) {
            let added = self.problems.add(
                key.place,
                Code::UnknownKey,
                format!("{what} has no key {}", quote(&key.value)),
            );
            added.hint(match nearest(&key.value, keys.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None if keys.len() == 1 => format!("its only key is {}", keys[0]),
                None => format!("its keys are {}", keys.join(", ")),
            });
        }
        Some(entries.into_iter().filter(|(key, _)| known(&key.value)).collect())
    }

    /// A map with any keys, each once; or `repeated`, so that what stands in a second section is checked as well.
    fn entries<'t>(&mut self, tree: &'t At<Tree>, what: &str, repeated: bool) -> Option<Entries<'t>> {
        if tree.value == Tree::Null {
            self.problems
                .add(tree.place, Code::Missing, format!("{what} has nothing in it"))
                .hint("write its `key: value` lines below it, indented by two spaces");
            return None;
        }
        let Tree::Map(map) = &tree.value else {
            let added = self.problems.add(
                tree.place,
                Code::WrongType,
                format!("{what} is a map of `key: value` lines, not {}", tree.value.sort()),
            );
            if let Tree::List(_) = tree.value {
                added.hint("write `NAME:` on each line instead of `- NAME`");
            } else if repeated {
                added.hint("begin with `version: 1` and `datacenters:`; topologies/two-dc.yaml is an example");
            }
            return None;
        };
        let mut entries: Entries<'t> = Vec::new();
        let mut seen = std::collections::BTreeMap::new();
        for (key, value) in map {
            let text = match &key.value {
                Tree::Text(text) | Tree::Number(text) | Tree::Truth(text) => text.clone(),
                other => {
                    self.problems.add(
                        key.place,
                        Code::WrongType,
                        format!("a key in {what} is text, not {}", other.sort()),
                    );
                    continue;
                }
            };
            if let Some(line) = seen.insert(text.clone(), key.place.line) {
                self.problems.add(
                    key.place,
                    Code::Duplicate,
                    format!("{} stands twice in {what}, first in line {line}", quote(&text)),
                );
                seen.insert(text.clone(), line);
                if !repeated {
                    continue;
                }
            }
            entries.push((
                At {
                    value: text,
                    place: key.place,
                },
                value,
            ));
        }
        Some(entries)
    }

    /// A map from names to sections of one sort.
    fn each<T>(
        &mut self,
        tree: &At<Tree>,
        what: &str,
        section: fn(&mut Self, &At<String>, &At<Tree>) -> T,
    ) -> Vec<(At<String>, T)> {
        self.entries(tree, &format!("`{what}`"), false)
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| {
                let section = section(self, &key, value);
                (key, section)
            })
            .collect()
    }

    fn no_datacenters(&mut self, place: Place) {
        self.problems
            .add(place, Code::Missing, "a topology needs at least one datacenter")
            .hint("write `datacenters:` and below it, indented, a name and a colon for each");
    }

    fn version(&mut self, tree: &At<Tree>) -> At<String> {
        let value = match &tree.value {
            Tree::Number(text) => text.clone(),
            // What is no number is no version either; the check says so.
            Tree::Text(text) => format!("\"{text}\""),
            other => other.sort().to_owned(),
        };
        At {
            value,
            place: tree.place,
        }
    }

    fn datacenter(&mut self, name: &At<String>, tree: &At<Tree>) -> DatacenterFile {
        let mut datacenter = DatacenterFile::default();
        if tree.value == Tree::Null {
            return datacenter;
        }
        let what = format!("datacenter {}", quote(&name.value));
        for (key, value) in self.section(tree, &what, DATACENTER_KEYS, false).unwrap_or_default() {
            if key.value == "subnet" {
                datacenter.subnet = self.text(value, "subnet");
            }
        }
        datacenter
    }

    fn defaults(&mut self, tree: &At<Tree>) -> DefaultsFile {
        let mut defaults = DefaultsFile::default();
        let Some(fields) = self.section(tree, "`defaults`", DEFAULTS_KEYS, false) else {
            defaults.broken = true;
            return defaults;
        };
        defaults.broken = matches!(&tree.value, Tree::Map(all) if all.len() > fields.len());
        for (key, value) in fields {
            match key.value.as_str() {
                "engine" => {
                    defaults.engine = self.text(value, "engine");
                    defaults.broken |= defaults.engine.is_none();
                }
                "release" => defaults.release = self.text(value, "release"),
                _ => defaults.config = self.config(value),
            }
        }
        defaults
    }

    fn node(&mut self, name: &At<String>, tree: &At<Tree>) -> NodeFile {
        let mut node = NodeFile::default();
        let what = format!("node {}", quote(&name.value));
        let Some(fields) = self.section(tree, &what, NODE_KEYS, false) else {
            node.broken = NODE_KEYS.to_vec();
            return node;
        };
        if let Tree::Map(all) = &tree.value {
            // A misspelt key is one problem, not two.
            let text = all.iter().filter_map(|(key, _)| match &key.value {
                Tree::Text(text) if !NODE_KEYS.contains(&text.as_str()) => Some(text.as_str()),
                _ => None,
            });
            node.broken = text
                .filter_map(|key| nearest(key, NODE_KEYS.iter().copied()))
                .filter_map(|meant| NODE_KEYS.iter().copied().find(|&key| key == meant))
                .collect();
        }
        for (key, value) in fields {
            let known = NODE_KEYS.iter().copied().find(|&known| known == key.value);
            let slot = match key.value.as_str() {
                "engine" => &mut node.engine,
                "datacenter" => &mut node.datacenter,
                "role" => &mut node.role,
                "replica-of" => &mut node.replica_of,
                "monitors" => &mut node.monitors,
                "cluster" => &mut node.cluster,
                "release" => &mut node.release,
                "slots" => {
                    let hint = "write 0-5460, or several ranges with commas between";
                    node.slots = self.text_or_number(value, "`slots` are ranges of hash slots", hint);
                    if node.slots.is_none() {
                        node.broken.extend(known);
                    }
                    continue;
                }
                "config" => {
                    node.config = self.config(value);
                    continue;
                }
                _ => {
                    let hint = "write 6380, or \"0.0.0.0:6380\" for all interfaces of the host";
                    node.publish = self.text_or_number(value, "`publish` is a port of the host", hint);
                    continue;
                }
            };
            *slot = self.text(value, &key.value);
            if slot.is_none() {
                node.broken.extend(known);
            }
        }
        node
    }

    fn config(&mut self, tree: &At<Tree>) -> Vec<(At<String>, At<String>)> {
        self.settings(tree, "config", "setting")
    }

    /// A map from names to single values, taken as written.
    fn settings(&mut self, tree: &At<Tree>, section: &str, one: &str) -> Vec<(At<String>, At<String>)> {
        let mut settings = Vec::new();
        let entries = self.entries(tree, &format!("`{section}`"), false);
        for (key, value) in entries.unwrap_or_default() {
            match &value.value {
                Tree::Text(text) | Tree::Number(text) | Tree::Truth(text) => settings.push((
                    key,
                    At {
                        value: text.clone(),
                        place: value.place,
                    },
                )),
                other => {
                    let place = if value.place.length == 0 {
                        key.place
                    } else {
                        value.place
                    };
                    self.problems
                        .add(
                            place,
                            Code::WrongType,
                            format!("{one} {} is text, not {}", quote(&key.value), other.sort()),
                        )
                        .hint("write the value as in the server's configuration file; \"\" is the empty one");
                }
            }
        }
        settings
    }

    fn text_or_number(&mut self, tree: &At<Tree>, what: &str, hint: &str) -> Option<At<String>> {
        match &tree.value {
            Tree::Text(text) | Tree::Number(text) => Some(At {
                value: text.clone(),
                place: tree.place,
            }),
            other => {
                self.problems
                    .add(tree.place, Code::WrongType, format!("{what}, not {}", other.sort()))
                    .hint(hint);
                None
            }
        }
    }

    fn text(&mut self, tree: &At<Tree>, key: &str) -> Option<At<String>> {
        match &tree.value {
            Tree::Text(text) => {
                return Some(At {
                    value: text.clone(),
                    place: tree.place,
                });
            }
            Tree::Null => {
                self.problems
                    .add(tree.place, Code::Missing, format!("`{key}` has no value"))
                    .hint("write a value, or leave the key out");
            }
            Tree::Number(written) | Tree::Truth(written) => {
                self.problems
                    .add(
                        tree.place,
                        Code::WrongType,
                        format!("`{key}` is text, not {}", tree.value.sort()),
                    )
                    .hint(format!("put it in quotes: \"{written}\""));
            }
            Tree::List(_) | Tree::Map(_) => {
                self.problems.add(
                    tree.place,
                    Code::WrongType,
                    format!("`{key}` is text, not {}", tree.value.sort()),
                );
            }
        }
        None
    }

    /// Text with a unit; a bare number gets a hint of its own.
    fn quantity(&mut self, tree: &At<Tree>, key: &str) -> Option<At<String>> {
        if let Tree::Number(written) = &tree.value {
            self.problems
                .add(
                    tree.place,
                    Code::NoUnit,
                    format!("`{key}: {}` has no unit", written.chars().take(40).collect::<String>()),
                )
                .hint(BadDelay::NoUnit.hint(written));
            return None;
        }
        if let Tree::Truth(_) = &tree.value {
            self.problems
                .add(tree.place, Code::WrongType, format!("`{key}` is no truth value"))
                .hint(BadDelay::Unreadable.hint(""));
            return None;
        }
        self.text(tree, key)
    }
}
