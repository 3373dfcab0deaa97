//! A root filesystem as a value: filled from package archives, reduced to what its programs need, written as a layer.
//!
//! Nothing is unpacked to disk, so neither root nor a shell is needed and owners are what we say. Paths are without a
//! leading `/`; `/bin`, `/lib`, ... are the links into `/usr` of a merged system, whatever the package says, since
//! packages of newer suites rely on that. A library that a program needs and nothing supplies is an error, never a
//! surprise at start.

use super::elf;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// Top folders that are links into `usr`.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// More links than this in a row are a loop.
const MOST_LINKS: usize = 16;

/// One thing in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Folder.
    Folder {
        /// Permission bits.
        mode: u32,
        /// User and group id.
        owner: u32,
    },
    /// File.
    File {
        /// Content.
        bytes: Bytes,
        /// Permission bits.
        mode: u32,
        /// User and group id.
        owner: u32,
    },
    /// Symbolic link.
    Link {
        /// Where it leads.
        target: String,
    },
}

/// A root filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

/// Why a tree cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// An archive is damaged.
    #[error("read {archive}")]
    Archive {
        /// Which one.
        archive: String,
        /// Why.
        source: std::io::Error,
    },
    /// A path that leaves the root, or is no text.
    #[error("use `{path}` of {archive}: it is no path inside a root")]
    Path {
        /// Which archive.
        archive: String,
        /// The path.
        path: String,
    },
    /// A file that must be there is not.
    #[error("find `{path}` in the packages")]
    Absent {
        /// The path.
        path: String,
    },
    /// A program that cannot be read.
    #[error("read the libraries of `{path}`")]
    Program {
        /// The path.
        path: String,
        /// Why.
        source: elf::Unreadable,
    },
    /// Libraries that no package supplies.
    #[error("find the libraries {} in the packages", .missing.join(", "))]
    Libraries {
        /// `name (needed by path)`.
        missing: Vec<String>,
    },
}

impl Tree {
    /// Puts something in, over what was there.
    pub fn put(&mut self, path: &str, entry: Entry) {
        self.entries.insert(merged(path), entry);
    }

    /// Puts a text file in that everybody can read.
    pub fn put_text(&mut self, path: &str, text: &str) {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        self.put(
            path,
            Entry::File {
                bytes,
                mode: 0o644,
                owner: 0,
            },
        );
    }

    /// Puts a link in.
    pub fn put_link(&mut self, path: &str, target: &str) {
        self.put(
            path,
            Entry::Link {
                target: target.to_owned(),
            },
        );
    }

    /// Puts a folder in.
    pub fn put_folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.put(path, Entry::Folder { mode, owner });
    }

    /// What lies at a path, links not followed.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Entry> {
        self.entries.get(&merged(path))
    }

    /// Takes out what another tree has too.
    pub fn subtract(&mut self, other: &Self) {
        self.entries.retain(|path, _| !other.entries.contains_key(path));
    }

    /// Puts lines at the end of a text file.
    ///
    /// # Errors
    /// There is no such file.
    pub fn append_text(&mut self, path: &str, lines: &str) -> Result<(), TreeError> {
        match self.entries.get_mut(&merged(path)) {
            Some(Entry::File { bytes, .. }) => {
                *bytes = [bytes.as_ref(), lines.as_bytes()].concat().into();
                Ok(())
            }
            _ => Err(TreeError::Absent { path: path.to_owned() }),
        }
    }

    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Adds the files and links of a tar whose path is wanted; folders come by themselves when the tree is written.
    /// Everything belongs to root, and set-uid bits are dropped: nothing of ours may change its user.
    ///
    /// # Errors
    /// The archive is damaged or has a path outside its root.
    pub fn add_archive(
        &mut self,
        archive: &str,
        reader: impl Read,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<(), TreeError> {
        let broken = |source| TreeError::Archive {
            archive: archive.to_owned(),
            source,
        };
        let mut tar = tar::Archive::new(reader);
        let mut hard_links = Vec::new();
        for member in tar.entries().map_err(broken)? {
            let mut member = member.map_err(broken)?;
            let path = inside(archive, &member.path_bytes())?;
            if !wanted(&path) {
                continue;
            }
            let sort = member.header().entry_type();
            let target = member
                .link_name_bytes()
                .map(|target| String::from_utf8_lossy(&target).into_owned());
            match (sort, target) {
                (tar::EntryType::Symlink, Some(target)) => self.put_link(&path, &target),
                (tar::EntryType::Link, Some(target)) => {
                    hard_links.push((path, inside(archive, target.as_bytes())?));
                }
                (tar::EntryType::Regular | tar::EntryType::GNUSparse, _) => {
                    let file = file_of(&mut member, 0).map_err(broken)?;
                    self.put(&path, file);
                }
                _ => {}
            }
        }
        for (path, target) in hard_links {
            let entry = self.at(&target).cloned().ok_or(TreeError::Absent { path: target })?;
            self.put(&path, entry);
        }
        Ok(())
    }

    /// Adds a tar as it is, below a folder, with its modes, all owned by `owner`.
    ///
    /// # Errors
    /// The archive is damaged or has a path outside its root.
    pub fn add_state(&mut self, below: &str, archive: &[u8], owner: u32) -> Result<(), TreeError> {
        let name = "the initialised state";
        let broken = |source| TreeError::Archive {
            archive: name.to_owned(),
            source,
        };
        let mut tar = tar::Archive::new(archive);
        for member in tar.entries().map_err(broken)? {
            let mut member = member.map_err(broken)?;
            let path = format!("{below}/{}", inside(name, &member.path_bytes())?);
            let mode = member.header().mode().map_err(broken)? & 0o777;
            match member.header().entry_type() {
                tar::EntryType::Directory => self.put_folder(path.trim_end_matches('/'), mode, owner),
                tar::EntryType::Regular => {
                    let file = file_of(&mut member, owner).map_err(broken)?;
                    self.put(&path, file);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Keeps only these paths, the links on the way to them, and every library that they need, however deep.
    ///
    /// # Errors
    /// A path, a loader or a library is not there.
    pub fn reduce_to(&mut self, roots: impl IntoIterator<Item = String>) -> Result<(), TreeError> {
        let libraries = self.libraries();
        let mut kept = BTreeSet::new();
        let mut missing = BTreeSet::new();
        let mut todo: Vec<String> = roots.into_iter().collect();
        while let Some(path) = todo.pop() {
            let steps = self
                .follow(&path)
                .ok_or_else(|| TreeError::Absent { path: path.clone() })?;
            let file = steps.last().cloned().unwrap_or_default();
            if kept.contains(&file) {
                kept.extend(steps);
                continue;
            }
            kept.extend(steps);
            let Some(Entry::File { bytes, .. }) = self.entries.get(&file) else {
                continue;
            };
            let needs = elf::needs(bytes).map_err(|source| TreeError::Program {
                path: file.clone(),
                source,
            })?;
            todo.extend(needs.interpreter);
            for library in needs.libraries {
                match libraries.get(&library) {
                    Some(path) => todo.push(path.clone()),
                    None => {
                        missing.insert(format!("{library} (needed by /{file})"));
                    }
                }
            }
        }
        if !missing.is_empty() {
            return Err(TreeError::Libraries {
                missing: missing.into_iter().collect(),
            });
        }
        self.entries.retain(|path, _| kept.contains(path));
        Ok(())
    }

    /// The tree as an uncompressed layer: sorted, time 0, parents before children; the same tree, the same bytes.
    ///
    /// # Panics
    /// Never: writing to memory does not fail.
    #[must_use]
    pub fn layer(&self) -> Vec<u8> {
        let mut all = self.entries.clone();
        for path in self.entries.keys() {
            for (end, _) in path.match_indices('/') {
                all.entry(path[..end].to_owned())
                    .or_insert(Entry::Folder { mode: 0o755, owner: 0 });
            }
        }
        let mut tar = tar::Builder::new(Vec::new());
        for (path, entry) in &all {
            append(&mut tar, path, entry).expect("writing to memory does not fail");
        }
        tar.into_inner().expect("writing to memory does not fail")
    }

    /// Makes the links of a merged system for every top folder that is in use.
    pub fn merge_usr(&mut self) {
        for top in MERGED {
            let folder = format!("usr/{top}/");
            if self
                .entries
                .range(folder.clone()..)
                .next()
                .is_some_and(|(path, _)| path.starts_with(&folder))
            {
                self.entries.insert(
                    top.to_owned(),
                    Entry::Link {
                        target: format!("usr/{top}"),
                    },
                );
            }
        }
    }

    /// Where the loader finds a library, by its name.
    fn libraries(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for path in self.entries.keys() {
            let parts: Vec<&str> = path.split('/').collect();
            if let ["usr", "lib" | "lib64", name] | ["usr", "lib", _, name] = parts[..] {
                found.entry(name.to_owned()).or_insert_with(|| path.clone());
            }
        }
        found
    }

    /// The links from a path to what is there, and that itself last; `None` if it leads nowhere.
    fn follow(&self, path: &str) -> Option<Vec<String>> {
        let mut steps = vec![merged(path)];
        while let Entry::Link { target } = self.entries.get(steps.last()?)? {
            if steps.len() > MOST_LINKS {
                return None;
            }
            steps.push(beside(steps.last()?, target)?);
        }
        Some(steps)
    }
}

fn append(tar: &mut tar::Builder<Vec<u8>>, path: &str, entry: &Entry) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    let (mode, owner) = match entry {
        Entry::Folder { mode, owner } | Entry::File { mode, owner, .. } => (*mode, *owner),
        Entry::Link { .. } => (0o777, 0),
    };
    header.set_mode(mode);
    header.set_uid(owner.into());
    header.set_gid(owner.into());
    header.set_mtime(0);
    header.set_size(0);
    match entry {
        Entry::Folder { .. } => {
            header.set_entry_type(tar::EntryType::Directory);
            tar.append_data(&mut header, format!("{path}/"), std::io::empty())
        }
        Entry::File { bytes, .. } => {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, path, bytes.as_ref())
        }
        Entry::Link { target } => {
            header.set_entry_type(tar::EntryType::Symlink);
            tar.append_link(&mut header, path, target)
        }
    }
}

/// A path of an archive as a path of a tree.
fn inside(archive: &str, raw: &[u8]) -> Result<String, TreeError> {
    let text = String::from_utf8_lossy(raw);
    beside("", &format!("/{text}"))
        .map(|path| merged(&path))
        .ok_or_else(|| TreeError::Path {
            archive: archive.to_owned(),
            path: text.into_owned(),
        })
}

/// Where a link at `path` leads, `None` if out of the root.
fn beside(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        path.rsplit_once('/')
            .map_or(Vec::new(), |(folder, _)| folder.split('/').collect())
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(merged(&parts.join("/")))
}

/// A path with its top folder below `usr` where that is merged.
fn merged(path: &str) -> String {
    let path = path.trim_matches('/');
    match path.split_once('/') {
        Some((top, _)) if MERGED.contains(&top) => format!("usr/{path}"),
        _ => path.to_owned(),
    }
}

/// A regular file of a tar, with its permission bits.
fn file_of(member: &mut tar::Entry<'_, impl Read>, owner: u32) -> std::io::Result<Entry> {
    let mode = member.header().mode()? & 0o777;
    let mut bytes = Vec::with_capacity(usize::try_from(member.size()).unwrap_or(0));
    member.read_to_end(&mut bytes)?;
    Ok(Entry::File {
        bytes: bytes.into(),
        mode,
        owner,
    })
}

#[cfg(test)]
mod tests;
