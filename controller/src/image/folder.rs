//! An image from a folder with a server that the user built: `redis-server` and `redis-cli` (or Valkey's), in the folder
//! itself, in `bin` or in `src`, as `make` leaves them. The libraries that they need come from the folder's `lib`, else from
//! this machine, and nothing else of it goes into the image. A `server.conf` in the folder holds settings that every server of the build
//! starts with; those of a topology override them.
//!
//! The image is named by what it holds, so that a build that was made anew is another image, and none is used under a name that
//! it had before. All that is wrong with a folder is said at once.

use super::archive::{self, Layer};
use super::contents;
use super::elf;
use super::tree::{Entry, Tree};
use crate::names::{self, LABEL_OWNER, LABEL_RECIPE, LABEL_RELEASE, OWNER};
use crate::release::{Release, SETTINGS};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where programs are looked for, below the folder.
const PROGRAMS: [&str; 3] = ["", "bin", "src"];
/// Where libraries are looked for, below the folder.
const LIBRARIES: [&str; 2] = ["lib", "lib64"];
/// File with settings.
const CONF: &str = "server.conf";
/// Longest file with settings, bytes.
const MOST_SETTINGS: u64 = 64 << 10;
/// Largest program or library, bytes; a server with all its debug information has some 100 MiB.
const LARGEST: u64 = 1 << 30;
/// Loaders look here without being told.
const SYSTEM: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Why a folder is no build.
#[derive(Debug, thiserror::Error)]
#[error("use {} as a build of {engine}: {}", .folder.display(), .problems.join("; "))]
pub struct FolderError {
    folder: PathBuf,
    engine: &'static str,
    problems: Vec<String>,
}

impl FolderError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        format!(
            "it needs {0}-server and {0}-cli, built for Linux, in itself, in bin or in src; libraries come from its lib, else from this \
             machine; server.conf, if there is one, has one setting per line",
            self.engine
        )
    }
}

/// What a folder holds, as the root of a server.
struct Built {
    tree: Tree,
    architecture: &'static str,
    image: String,
    digest: String,
}

/// Names the image of a release that is a folder, by what the folder holds now. Leaves all others alone.
///
/// # Errors
/// Everything that is wrong with the folder.
pub fn settle(release: &mut Release) -> Result<(), FolderError> {
    if release.folder.is_some() {
        release.image = read(release)?.image;
    }
    Ok(())
}

/// The archive of a settled release's image, for an engine of this architecture.
///
/// # Errors
/// The folder is no build any more, is another one, or is one for another machine.
pub(super) fn image(release: &Release, architecture: &str) -> Result<Bytes, FolderError> {
    let built = read(release)?;
    let wrong = |problem: String| Err(refused(release, vec![problem]));
    if built.image != release.image {
        return wrong("it has changed since this command began".to_owned());
    }
    if built.architecture != architecture {
        let theirs = built.architecture;
        return wrong(format!("its server is for {theirs}, the engine for {architecture}"));
    }
    let labels = BTreeMap::from([
        (LABEL_OWNER.to_owned(), OWNER.to_owned()),
        (LABEL_RECIPE.to_owned(), built.digest),
        (LABEL_RELEASE.to_owned(), release.name.clone()),
    ]);
    let config = contents::config(release.engine, &release.image, architecture, labels);
    Ok(archive::archive(&config, &[Layer::new(built.tree.layer())]))
}

fn refused(release: &Release, problems: Vec<String>) -> FolderError {
    FolderError {
        folder: release.folder.clone().unwrap_or_default(),
        engine: release.engine.as_str(),
        problems,
    }
}

fn read(release: &Release) -> Result<Built, FolderError> {
    let folder = release.folder.clone().unwrap_or_default();
    if !folder.is_dir() {
        let problem = match folder.exists() {
            true => "it is no folder",
            false => "there is no such folder",
        };
        return Err(refused(release, vec![problem.to_owned()]));
    }
    let mut reader = Reader {
        folder: &folder,
        tree: Tree::default(),
        architecture: None,
        problems: Vec::new(),
    };
    let mut roots = Vec::new();
    for program in contents::CACHE_PROGRAMS {
        let name = format!("{}-{program}", release.engine.as_str());
        let place = contents::cache_program(release.engine, program);
        if reader.program(&name, &place, program == "benchmark") {
            roots.push(place);
        }
    }
    let has_settings = reader.settings();
    let Reader {
        mut tree,
        architecture,
        problems,
        ..
    } = reader;
    let (Some(architecture), true) = (architecture, problems.is_empty()) else {
        return Err(refused(release, problems));
    };
    if has_settings {
        roots.push(SETTINGS.trim_start_matches('/').to_owned());
    }
    contents::furnish_with(release.engine, &mut tree, roots)
        .map_err(|error| refused(release, vec![format!("failed to {error}")]))?;
    let digest = archive::sha256(&tree.layer());
    Ok(Built {
        image: names::build_image(release.engine.as_str(), &digest, has_settings),
        tree,
        architecture,
        digest,
    })
}

/// Collects files, and what is wrong with them.
struct Reader<'a> {
    folder: &'a Path,
    tree: Tree,
    /// That of the first program.
    architecture: Option<&'static str>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// Puts a program and its libraries in; whether it is there.
    fn program(&mut self, name: &str, place: &str, optional: bool) -> bool {
        let places = PROGRAMS.map(|below| self.folder.join(below).join(name));
        let Some(path) = places.iter().find(|path| path.exists()) else {
            if !optional {
                self.problems.push(format!("it has no {name}"));
            }
            return false;
        };
        match self.server_file(path) {
            Ok(bytes) => {
                self.needs(&bytes, name);
                self.put(place, bytes, 0o755);
                true
            }
            Err(problem) => {
                self.problems.push(format!("{name} {problem}"));
                false
            }
        }
    }

    /// A program of the folder.
    fn server_file(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        let bytes = bytes_of(path)?;
        let mode = fs::metadata(path).map_err(|error| format!("cannot be looked at: {error}"))?;
        if mode.permissions().mode() & 0o111 == 0 {
            return Err("is not executable".to_owned());
        }
        if bytes.starts_with(b"#!") {
            return Err("is a script, whose interpreter the image would not have".to_owned());
        }
        let Some(architecture) = elf::architecture(&bytes) else {
            return Err("is no program for Linux on amd64 or arm64".to_owned());
        };
        match *self.architecture.get_or_insert(architecture) {
            first if first == architecture => Ok(bytes),
            first => Err(format!("is for {architecture}, what was found before it for {first}")),
        }
    }

    /// Puts in what a program or library asks for, however deep.
    fn needs(&mut self, bytes: &[u8], who: &str) {
        let mut seen = BTreeSet::new();
        let mut todo = vec![(bytes.to_vec(), who.to_owned())];
        while let Some((bytes, who)) = todo.pop() {
            let needs = match elf::needs(&bytes) {
                Ok(needs) => needs,
                Err(error) => {
                    self.problems.push(format!("{who} is {error}"));
                    continue;
                }
            };
            if let Some(loader) = needs.interpreter {
                match bytes_of(Path::new(&loader)) {
                    Ok(bytes) => self.put(&loader, bytes, 0o755),
                    Err(problem) => self
                        .problems
                        .push(format!("{who} is started by {loader}, which {problem}")),
                }
            }
            for library in needs.libraries {
                if !seen.insert(library.clone()) {
                    continue;
                }
                match self.library(&library) {
                    Some(bytes) => {
                        self.put(&self.library_place(&library), bytes.clone(), 0o755);
                        todo.push((bytes, library));
                    }
                    None => self.problems.push(format!(
                        "{who} needs {library}, which neither the folder's lib nor this machine has"
                    )),
                }
            }
        }
    }

    fn library(&self, name: &str) -> Option<Vec<u8>> {
        let own = LIBRARIES.iter().map(|below| self.folder.join(below));
        let mut folders: Vec<PathBuf> = own.collect();
        folders.extend(SYSTEM.map(PathBuf::from));
        folders.extend(configured_folders(Path::new("/etc/ld.so.conf.d")));
        let paths = folders.iter().map(|folder| folder.join(name));
        let mut found = paths.filter_map(|path| bytes_of(&path).ok());
        found.find(|bytes| elf::architecture(bytes) == self.architecture)
    }

    /// All libraries go where this machine's loader looks by itself: an image has no list of other places.
    fn library_place(&self, name: &str) -> String {
        let by_itself = SYSTEM.iter().find(|folder| {
            let libc = Path::new(folder).join("libc.so.6");
            bytes_of(&libc).is_ok_and(|bytes| elf::architecture(&bytes) == self.architecture)
        });
        format!("{}/{name}", by_itself.unwrap_or(&"/usr/lib"))
    }

    /// Puts the settings in; whether there are any.
    fn settings(&mut self) -> bool {
        let path = self.folder.join(CONF);
        if !path.exists() {
            return false;
        }
        let text = match fs::metadata(&path) {
            Ok(file) if file.len() > MOST_SETTINGS => Err(format!("{CONF} has more than {MOST_SETTINGS} bytes")),
            _ => fs::read_to_string(&path).map_err(|error| format!("{CONF} cannot be read: {error}")),
        };
        match text {
            Ok(text) => {
                self.problems.extend(wrong_settings(&text));
                self.tree.put_text(SETTINGS, &text);
                true
            }
            Err(problem) => {
                self.problems.push(problem);
                false
            }
        }
    }

    fn put(&mut self, path: &str, bytes: Vec<u8>, mode: u32) {
        let entry = Entry::File {
            bytes: bytes.into(),
            mode,
            owner: 0,
        };
        self.tree.put(path, entry);
    }
}

/// Lines that are no setting: what a server would refuse with the first of them is said of all, before anything is started.
fn wrong_settings(text: &str) -> Vec<String> {
    let lines = text.lines().zip(1..);
    let wrong = lines.filter_map(|(line, number): (&str, u32)| {
        let line = line.trim();
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (None, _) => None,
            (Some(word), _) if word.starts_with('#') => None,
            (Some("include" | "loadmodule"), _) => Some(format!(
                "{CONF} line {number} names a file, which the image would not have"
            )),
            (Some(_), Some(_)) => None,
            (Some(word), None) => Some(format!("{CONF} line {number}: `{word}` has no value")),
        }
    });
    wrong.collect()
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let told = |error: std::io::Error| format!("cannot be read: {error}");
    let file = fs::metadata(path).map_err(told)?;
    if !file.is_file() {
        return Err("is no file".to_owned());
    }
    if file.len() > LARGEST {
        return Err(format!("has more than {LARGEST} bytes"));
    }
    fs::read(path).map_err(told)
}

/// Folders that this machine's administrator added to the loader's own.
fn configured_folders(lists: &Path) -> Vec<PathBuf> {
    let lists = fs::read_dir(lists).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = lists.map(|entry| entry.path()).collect();
    paths.sort();
    let texts = paths.iter().filter_map(|path| fs::read_to_string(path).ok());
    let folders = texts.flat_map(|text| {
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with('/'));
        lines.map(PathBuf::from).collect::<Vec<_>>()
    });
    folders.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::Catalogue;

    /// A program of this machine with libraries, under a server's names.
    fn build(folder: &Path, names: &[&str]) -> Release {
        for name in names {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            fs::copy("/proc/self/exe", folder.join(name)).unwrap();
        }
        Catalogue::built_in()
            .find(&format!("redis={}", folder.display()))
            .unwrap()
    }

    fn told(release: &Release) -> String {
        let mut release = release.clone();
        settle(&mut release).unwrap_err().to_string()
    }

    #[test]
    fn a_build_is_named_by_what_it_holds_and_brings_its_libraries() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("mine");
        let mut release = build(&folder, &["src/redis-server", "src/redis-cli"]);
        settle(&mut release).unwrap();
        assert!(release.image.starts_with("testbed/redis:build-"), "{}", release.image);
        let built = read(&release).unwrap();
        let paths: Vec<&str> = built.tree.paths().collect();
        assert!(paths.contains(&"usr/bin/redis-server"), "{paths:?}");
        assert!(!paths.contains(&"usr/bin/redis-benchmark"), "{paths:?}");
        assert!(paths.iter().any(|path| path.ends_with("/libc.so.6")), "{paths:?}");
        assert!(paths.iter().any(|path| path.contains("/ld-linux")), "{paths:?}");
        assert!(image(&release, built.architecture).is_ok());
        let other = if built.architecture == "amd64" {
            "arm64"
        } else {
            "amd64"
        };
        assert!(image(&release, other).unwrap_err().to_string().contains(other));

        fs::write(folder.join(CONF), "# ours\nrepl-backlog-size 4mb\n\n").unwrap();
        let before = release.clone();
        assert!(
            image(&before, built.architecture)
                .unwrap_err()
                .to_string()
                .contains("changed")
        );
        settle(&mut release).unwrap();
        assert_ne!(release.image, before.image);
        assert_eq!(release.start().entrypoint, ["redis-server", SETTINGS]);
    }

    #[test]
    fn all_that_is_wrong_with_a_folder_is_said_at_once() {
        let parent = tempfile::tempdir().unwrap();
        let release = build(&parent.path().join("none"), &[]);
        assert!(told(&release).contains("no such folder"), "{}", told(&release));
        let folder = parent.path().join("bad");
        let release = build(&folder, &["redis-benchmark"]);
        fs::write(folder.join("redis-server"), "#!/bin/sh\n").unwrap();
        fs::write(
            folder.join(CONF),
            "appendonly\nloadmodule x.so\ninclude /etc/passwd\nport 1\n",
        )
        .unwrap();
        let text = told(&release);
        for part in [
            "redis-server is not executable",
            "no redis-cli",
            "line 1: `appendonly`",
            "line 2",
            "line 3",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        fs::set_permissions(folder.join("redis-server"), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(told(&release).contains("is a script"), "{}", told(&release));
        fs::write(folder.join("redis-cli"), b"\x7fELF\x01\x01").unwrap();
        fs::set_permissions(folder.join("redis-cli"), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(told(&release).contains("no program for Linux"), "{}", told(&release));
    }

    #[test]
    fn libraries_that_nobody_has_are_named() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("lacking");
        let release = build(&folder, &["redis-cli"]);
        let mut program = elf::tests::program(None, &["libnobody.so.9"]);
        program[18] = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
        fs::write(folder.join("redis-server"), program).unwrap();
        fs::set_permissions(folder.join("redis-server"), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(
            told(&release).contains("redis-server needs libnobody.so.9"),
            "{}",
            told(&release)
        );
    }
}
