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
mod tests {
    use super::super::elf::tests::program;
    use super::*;

    fn file(bytes: Vec<u8>) -> Entry {
        Entry::File {
            bytes: bytes.into(),
            mode: 0o755,
            owner: 0,
        }
    }

    fn archive(members: &[(&str, Entry)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, entry) in members {
            append(&mut tar, path, entry).expect("memory");
        }
        tar.into_inner().expect("memory")
    }

    fn server() -> Tree {
        let mut tree = Tree::default();
        tree.put("/lib64/ld.so", file(program(None, &[])));
        tree.put("usr/bin/check", file(program(Some("/lib64/ld.so"), &["libdeep.so.1"])));
        tree.put_link("usr/bin/server", "check");
        tree.put(
            "lib/x86_64-linux-gnu/libdeep.so.1.2",
            file(program(None, &["libc.so.6"])),
        );
        tree.put_link("usr/lib/x86_64-linux-gnu/libdeep.so.1", "libdeep.so.1.2");
        tree.put("lib/x86_64-linux-gnu/libc.so.6", file(program(None, &[])));
        tree.put("usr/lib/x86_64-linux-gnu/libother.so", file(program(None, &[])));
        tree
    }

    #[test]
    fn reducing_keeps_programs_with_their_links_loader_and_deep_libraries() {
        let mut tree = server();
        tree.reduce_to(["/usr/bin/server".to_owned()]).expect("complete");
        let kept: Vec<&str> = tree.paths().collect();
        assert_eq!(
            kept,
            [
                "usr/bin/check",
                "usr/bin/server",
                "usr/lib/x86_64-linux-gnu/libc.so.6",
                "usr/lib/x86_64-linux-gnu/libdeep.so.1",
                "usr/lib/x86_64-linux-gnu/libdeep.so.1.2",
                "usr/lib64/ld.so",
            ]
        );
    }

    #[test]
    fn a_library_that_nothing_supplies_is_named_with_who_needs_it() {
        let mut tree = server();
        tree.put("usr/bin/check", file(program(None, &["libgone.so.3"])));
        let error = tree.reduce_to(["usr/bin/server".to_owned()]).expect_err("incomplete");
        assert_eq!(
            error.to_string(),
            "find the libraries libgone.so.3 (needed by /usr/bin/check) in the packages"
        );
    }

    #[test]
    fn a_program_that_is_absent_or_a_link_in_a_circle_is_an_error() {
        let mut tree = server();
        tree.put_link("usr/bin/a", "b");
        tree.put_link("usr/bin/b", "/bin/a");
        for path in ["usr/bin/a", "usr/bin/nothing"] {
            assert!(
                matches!(tree.reduce_to([path.to_owned()]), Err(TreeError::Absent { .. })),
                "{path}"
            );
        }
    }

    #[test]
    fn an_archive_fills_the_tree_through_the_merged_folders_without_set_uid() {
        let tar = archive(&[
            (
                "./bin/ping",
                Entry::File {
                    bytes: Bytes::from_static(b"x"),
                    mode: 0o4755,
                    owner: 7,
                },
            ),
            ("./usr/share/doc/ping/copyright", file(b"c".to_vec())),
        ]);
        let mut tree = Tree::default();
        tree.add_archive("a.deb", tar.as_slice(), &|path| !path.starts_with("usr/share/doc/"))
            .expect("legal");
        tree.merge_usr();
        assert_eq!(
            tree.at("usr/bin/ping"),
            Some(&Entry::File {
                bytes: Bytes::from_static(b"x"),
                mode: 0o755,
                owner: 0
            })
        );
        assert_eq!(tree.paths().collect::<Vec<_>>(), ["bin", "usr/bin/ping"]);
    }

    #[test]
    fn a_path_out_of_the_root_is_refused() {
        assert!(inside("a.deb", b"./usr/../../etc/passwd").is_err());
        assert_eq!(inside("a.deb", b"./usr/../etc/passwd").expect("inside"), "etc/passwd");
        assert_eq!(beside("usr/bin/a", "../../../x"), None);
    }

    #[test]
    fn a_damaged_archive_is_an_error() {
        let mut tar = archive(&[("a", file(vec![1; 2000]))]);
        tar.truncate(1000);
        let error = Tree::default()
            .add_archive("a.deb", tar.as_slice(), &|_| true)
            .expect_err("damaged");
        assert_eq!(error.to_string(), "read a.deb");
    }

    #[test]
    fn a_layer_has_parents_first_no_time_and_is_always_the_same() {
        let mut tree = server();
        tree.put_folder("data", 0o700, 999);
        let layer = tree.layer();
        assert_eq!(layer, server_with_data_put_first().layer());
        let mut seen = BTreeSet::from([String::new()]);
        for member in tar::Archive::new(layer.as_slice()).entries().expect("a tar") {
            let member = member.expect("whole");
            let path = member
                .path()
                .expect("text")
                .to_string_lossy()
                .trim_end_matches('/')
                .to_owned();
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
            assert!(seen.contains(&parent), "{path} before its folder");
            assert_eq!(member.header().mtime().expect("a number"), 0);
            let owner = if path == "data" { 999 } else { 0 };
            assert_eq!(member.header().uid().expect("a number"), owner, "{path}");
            seen.insert(path);
        }
        assert!(seen.contains("usr/lib/x86_64-linux-gnu"));
    }

    fn server_with_data_put_first() -> Tree {
        let mut tree = Tree::default();
        tree.put_folder("data", 0o700, 999);
        tree.entries.extend(server().entries);
        tree
    }

    #[test]
    fn state_keeps_its_modes_and_gets_its_owner() {
        let tar = archive(&[
            ("data/", Entry::Folder { mode: 0o700, owner: 5 }),
            (
                "data/PG_VERSION",
                Entry::File {
                    bytes: Bytes::from_static(b"15\n"),
                    mode: 0o600,
                    owner: 5,
                },
            ),
        ]);
        let mut tree = Tree::default();
        tree.add_state("var/lib/postgresql", &tar, 999).expect("legal");
        assert_eq!(
            tree.at("var/lib/postgresql/data"),
            Some(&Entry::Folder {
                mode: 0o700,
                owner: 999
            })
        );
        assert!(matches!(
            tree.at("/var/lib/postgresql/data/PG_VERSION"),
            Some(Entry::File {
                mode: 0o600,
                owner: 999,
                ..
            })
        ));
    }
}
