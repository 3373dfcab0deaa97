//! Reads links and the mode of the relays.

use super::{Entries, Reader};
use crate::topology::file::{
    JITTER_KEYS, JitterFile, LINK_KEYS, LOSS_KEYS, LinkFile, LossFile, MODE_KEYS, ModeFile, REORDER_KEYS, ReorderFile,
    STREAM_KEYS, StreamFile, Written,
};
use crate::topology::problem::{Code, quote};
use crate::topology::tree::{At, Tree};

impl Reader<'_, '_> {
    pub(super) fn link(&mut self, name: &At<String>, tree: &At<Tree>) -> LinkFile {
        let what = format!("link {}", quote(&name.value));
        let mut link = LinkFile::default();
        if let Tree::Null | Tree::Text(_) | Tree::Number(_) = &tree.value {
            self.problems
                .add(
                    tree.place,
                    Code::WrongType,
                    format!("{what} is a map, not {}", tree.value.sort()),
                )
                .hint("write `{ delay: 20ms }`; a delay is one way");
            link.broken = true;
            return link;
        }
        let Some((fields, misspelt)) = self.fields(tree, &what, LINK_KEYS) else {
            link.broken = true;
            return link;
        };
        // A misspelt `delay` is one problem, not two.
        link.broken = misspelt;
        for (key, value) in fields {
            let slot = match key.value.as_str() {
                "delay" | "rtt" => {
                    let read = self.quantity(value, &key.value);
                    link.broken |= read.is_none();
                    *(if key.value == "delay" {
                        &mut link.delay
                    } else {
                        &mut link.rtt
                    }) = read;
                    continue;
                }
                "jitter" => {
                    link.jitter = self.written(value, "jitter", Self::jitter);
                    continue;
                }
                "loss" => {
                    link.loss = self.written(value, "loss", Self::loss);
                    continue;
                }
                "reorder" => {
                    link.reorder = self.written(value, "reorder", Self::reorder);
                    continue;
                }
                "duplicate" => &mut link.duplicate,
                "corrupt" => &mut link.corrupt,
                "rate" => &mut link.rate,
                "queue" => &mut link.queue,
                "mtu" => &mut link.mtu,
                _ => &mut link.schedule,
            };
            *slot = self.scalar(value, &key.value);
        }
        link
    }

    /// The mode of the relays.
    pub(super) fn mode(&mut self, tree: &At<Tree>) -> Option<ModeFile> {
        if !matches!(tree.value, Tree::Map(_)) {
            return self.scalar(tree, "mode").map(ModeFile::Short);
        }
        let (fields, misspelt) = self.fields(tree, "`mode`", MODE_KEYS)?;
        let Some((_, stream)) = fields.first() else {
            if !misspelt {
                let hint = "write `mode: packet`, `mode: stream` or `mode: { stream: { nodelay: off } }`";
                self.problems
                    .add(tree.place, Code::Missing, "`mode` says nothing")
                    .hint(hint);
            }
            return None;
        };
        let mut mode = StreamFile::default();
        if stream.value == Tree::Null {
            return Some(ModeFile::Stream(mode));
        }
        for (key, value) in self.fields(stream, "stream mode", STREAM_KEYS)?.0 {
            let slot = if key.value == "order" {
                &mut mode.order
            } else {
                &mut mode.nodelay
            };
            *slot = match &value.value {
                // What is no word of ours is told together with the words that are.
                Tree::Truth(text) => Some(At {
                    value: text.clone(),
                    place: value.place,
                }),
                _ => self.scalar(value, &key.value),
            };
        }
        Some(ModeFile::Stream(mode))
    }

    /// Fields of a section, and whether some were no fields of it.
    fn fields<'t>(
        &mut self,
        tree: &'t At<Tree>,
        what: &str,
        keys: &'static [&'static str],
    ) -> Option<(Entries<'t>, bool)> {
        let fields = self.section(tree, what, keys, false)?;
        let misspelt = matches!(&tree.value, Tree::Map(all) if all.len() > fields.len());
        Some((fields, misspelt))
    }

    /// One word, or a map.
    fn written<T>(
        &mut self,
        tree: &At<Tree>,
        key: &str,
        long: fn(&mut Self, &At<Tree>) -> Option<T>,
    ) -> Option<Written<T>> {
        if let Tree::Map(_) = tree.value {
            let place = tree.place;
            return long(self, tree).map(|value| Written::Long(At { value, place }));
        }
        self.scalar(tree, key).map(Written::Short)
    }

    fn jitter(&mut self, tree: &At<Tree>) -> Option<JitterFile> {
        let (fields, misspelt) = self.fields(tree, "`jitter`", JITTER_KEYS)?;
        let mut jitter = JitterFile {
            broken: misspelt,
            ..JitterFile::default()
        };
        for (key, value) in fields {
            let slot = match key.value.as_str() {
                "uniform" => &mut jitter.uniform,
                "normal" => &mut jitter.normal,
                "pareto" => &mut jitter.pareto,
                "table" => {
                    jitter.table = self.times(value);
                    jitter.broken |= jitter.table.is_none();
                    continue;
                }
                _ => {
                    jitter.reorder = self.truth(value, "reorder");
                    continue;
                }
            };
            *slot = self.quantity(value, &key.value);
            jitter.broken |= slot.is_none();
        }
        Some(jitter)
    }

    fn times(&mut self, tree: &At<Tree>) -> Option<At<Vec<At<String>>>> {
        let Tree::List(items) = &tree.value else {
            self.problems
                .add(
                    tree.place,
                    Code::WrongType,
                    format!("`table` is a list, not {}", tree.value.sort()),
                )
                .hint("write the measured excesses: [0ms, 1ms, 12ms]");
            return None;
        };
        let read: Vec<Option<At<String>>> = items.iter().map(|item| self.quantity(item, "table")).collect();
        let value = read.into_iter().collect::<Option<Vec<_>>>()?;
        Some(At {
            value,
            place: tree.place,
        })
    }

    fn loss(&mut self, tree: &At<Tree>) -> Option<LossFile> {
        let (fields, misspelt) = self.fields(tree, "`loss`", LOSS_KEYS)?;
        let mut loss = LossFile {
            broken: misspelt,
            ..LossFile::default()
        };
        for (key, value) in fields {
            let read = self.scalar(value, &key.value);
            loss.broken |= read.is_none();
            *(if key.value == "share" {
                &mut loss.share
            } else {
                &mut loss.burst
            }) = read;
        }
        Some(loss)
    }

    fn reorder(&mut self, tree: &At<Tree>) -> Option<ReorderFile> {
        let (fields, misspelt) = self.fields(tree, "`reorder`", REORDER_KEYS)?;
        let mut reorder = ReorderFile {
            broken: misspelt,
            ..ReorderFile::default()
        };
        for (key, value) in fields {
            let read = self.scalar(value, &key.value);
            reorder.broken |= read.is_none();
            *(if key.value == "share" {
                &mut reorder.share
            } else {
                &mut reorder.by
            }) = read;
        }
        Some(reorder)
    }

    fn truth(&mut self, tree: &At<Tree>, key: &str) -> bool {
        match &tree.value {
            Tree::Truth(written) => written.eq_ignore_ascii_case("true"),
            other => {
                self.problems
                    .add(
                        tree.place,
                        Code::WrongType,
                        format!("`{key}` is true or false, not {}", other.sort()),
                    )
                    .hint("write `true` or `false`");
                false
            }
        }
    }

    /// Text or a number as written; whether it has its unit is checked later.
    pub(super) fn scalar(&mut self, tree: &At<Tree>, key: &str) -> Option<At<String>> {
        match &tree.value {
            Tree::Text(text) | Tree::Number(text) => Some(At {
                value: text.clone(),
                place: tree.place,
            }),
            Tree::Truth(_) => {
                self.problems
                    .add(tree.place, Code::WrongType, format!("`{key}` is no truth value"));
                None
            }
            _ => self.text(tree, key),
        }
    }
}
