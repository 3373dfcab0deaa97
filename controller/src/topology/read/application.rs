//! Applications of the file: shape and types.

use super::Reader;
use crate::topology::file::{APPLICATION_KEYS, ApplicationFile};
use crate::topology::problem::{Code, nearest, quote};
use crate::topology::tree::{At, Tree};

impl Reader<'_, '_> {
    pub(super) fn application(&mut self, name: &At<String>, tree: &At<Tree>) -> ApplicationFile {
        let mut application = ApplicationFile::default();
        let what = format!("application {}", quote(&name.value));
        let Some(fields) = self.section(tree, &what, APPLICATION_KEYS, false) else {
            application.broken = APPLICATION_KEYS.to_vec();
            return application;
        };
        if let Tree::Map(all) = &tree.value {
            // A misspelt key is one problem, not two.
            let unknown = all.iter().filter_map(|(key, _)| match &key.value {
                Tree::Text(text) if !APPLICATION_KEYS.contains(&text.as_str()) => Some(text.as_str()),
                _ => None,
            });
            application.broken = unknown
                .filter_map(|key| nearest(key, APPLICATION_KEYS.iter().copied()))
                .filter_map(|meant| APPLICATION_KEYS.iter().copied().find(|&key| key == meant))
                .collect();
        }
        for (key, value) in fields {
            let known = APPLICATION_KEYS.iter().copied().find(|&known| known == key.value);
            let slot = match key.value.as_str() {
                "entrypoint" => {
                    application.entrypoint = self.texts(value, "entrypoint");
                    continue;
                }
                "command" => {
                    application.command = self.texts(value, "command");
                    continue;
                }
                "mounts" => {
                    application.mounts = self.texts(value, "mounts");
                    continue;
                }
                "tmpfs" => {
                    application.tmpfs = self.texts(value, "tmpfs");
                    continue;
                }
                "environment" => {
                    application.environment = self.settings(value, "environment", "variable");
                    continue;
                }
                "user" => {
                    let hint = "write a name or a number of the image, or \"1000:1000\"";
                    application.user = self.text_or_number(value, "`user` is a user of the image", hint);
                    continue;
                }
                "ready" => {
                    let hint = "write the port on which it listens when it is ready: 8080";
                    application.ready = self.text_or_number(value, "`ready` is a TCP port", hint);
                    continue;
                }
                "datacenter" => &mut application.datacenter,
                _ => &mut application.image,
            };
            *slot = self.text(value, &key.value);
            if slot.is_none() {
                application.broken.extend(known);
            }
        }
        application
    }

    /// A list of words; numbers and truth values are taken as written.
    fn texts(&mut self, tree: &At<Tree>, key: &str) -> Vec<At<String>> {
        let Tree::List(items) = &tree.value else {
            self.problems
                .add(
                    tree.place,
                    Code::WrongType,
                    format!("`{key}` is a list, not {}", tree.value.sort()),
                )
                .hint(format!("write `{key}: [one, two]`"));
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items {
            match &item.value {
                Tree::Text(text) | Tree::Number(text) | Tree::Truth(text) => texts.push(At {
                    value: text.clone(),
                    place: item.place,
                }),
                other => {
                    self.problems.add(
                        item.place,
                        Code::WrongType,
                        format!("an entry of `{key}` is text, not {}", other.sort()),
                    );
                }
            }
        }
        texts
    }
}
