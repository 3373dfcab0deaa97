//! What apt says, read: versions of a package, the set that it would install together, and which of that set a server
//! truly needs. Pure.
//!
//! A Debian server depends on much that serves installing and administration (perl, adduser, init scripts). Needed here
//! are the packages of the recipe and the libraries below them; whether that was enough is decided by the programs
//! themselves (`tree`), never by these names.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A package at a version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Name.
    pub name: String,
    /// Debian version.
    pub version: String,
}

impl Package {
    /// As apt takes it.
    #[must_use]
    pub fn pinned(&self) -> String {
        format!("{}={}", self.name, self.version)
    }
}

/// Versions of a package in the words of `apt-cache madison`, newest first.
#[must_use]
pub fn versions(madison: &str, package: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in madison.lines() {
        let mut columns = line.split('|').map(str::trim);
        if columns.next() != Some(package) {
            continue;
        }
        if let Some(version) = columns
            .next()
            .filter(|version| !found.iter().any(|found| found == version))
        {
            found.push(version.to_owned());
        }
    }
    found
}

/// What `apt-get --simulate install` would install: lines `Inst name (version origin [arch])`.
#[must_use]
pub fn planned(simulated: &str) -> Vec<Package> {
    simulated
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
            let version = rest.split_once('(')?.1.split_whitespace().next()?;
            let name = name.split(':').next().unwrap_or(name);
            Some(Package {
                name: name.to_owned(),
                version: version.to_owned(),
            })
        })
        .collect()
}

/// Of the planned packages: the roots and the libraries that they depend on, however deep.
#[must_use]
pub fn needed(roots: &[&str], planned: &[Package], described: &str) -> Vec<Package> {
    let depends = dependencies(described);
    let mut found = BTreeSet::new();
    let mut todo: Vec<&str> = roots.to_vec();
    while let Some(name) = todo.pop() {
        if found.insert(name) {
            let below = depends.get(name).into_iter().flatten();
            todo.extend(below.map(String::as_str).filter(|name| is_library(name)));
        }
    }
    let mut needed: Vec<Package> = planned
        .iter()
        .filter(|package| found.contains(package.name.as_str()))
        .cloned()
        .collect();
    needed.sort();
    needed
}

/// How long ago a release file has expired, in apt's words, if nothing else is wrong.
#[must_use]
pub fn expired(complaints: &str) -> Option<String> {
    let mut age = None;
    for line in complaints.lines() {
        let (_, rest) = line.split_once(" is expired (")?;
        age = Some(rest.split(')').next().unwrap_or(rest).to_owned());
    }
    age
}

/// The errors among what apt wrote, without its warnings if there are errors.
#[must_use]
pub fn complaints(stderr: &str) -> String {
    let errors: Vec<&str> = stderr.lines().filter_map(|line| line.strip_prefix("E: ")).collect();
    if errors.is_empty() {
        stderr.trim().to_owned()
    } else {
        errors.join("\n")
    }
}

/// Libraries by name. LLVM is only for the database's just-in-time compiler, which is left out.
fn is_library(name: &str) -> bool {
    let library = name.starts_with("lib") || name == "zlib1g";
    library && !name.starts_with("libllvm") && !name.starts_with("libperl") && !name.ends_with("-perl")
}

/// Package -> what it depends on, alternatives included, in the words of `apt-cache show`.
fn dependencies(described: &str) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let mut package = String::new();
    for line in described.lines() {
        let Some((key, value)) = line.split_once(": ") else {
            continue;
        };
        match key {
            "Package" => value.clone_into(&mut package),
            "Depends" | "Pre-Depends" => {
                let names = value.split([',', '|']).filter_map(|one| one.split_whitespace().next());
                let names = names.map(|name| name.split(':').next().unwrap_or(name).to_owned());
                all.entry(package.clone()).or_insert_with(Vec::new).extend(names);
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_for_the_package_itself_only() {
        let madison = "\
redis-server |  5:8.6.3-1 | http://m.example/debian experimental/main amd64 Packages
redis-server |  5:8.0.6-3 | http://m.example/debian forky/main amd64 Packages
redis-server |  5:8.0.6-3 | http://m.example/debian forky/main Sources
redis | 5:8.0.6-3 | http://m.example/debian forky/main amd64 Packages
";
        assert_eq!(versions(madison, "redis-server"), ["5:8.6.3-1", "5:8.0.6-3"]);
        assert!(versions("", "redis-server").is_empty());
    }

    #[test]
    fn the_simulated_installation_gives_names_and_versions() {
        let text = "\
NOTE: This is only a simulation!
Inst libc6 (2.36-9+deb12u14 Debian:12.15/oldstable [amd64]) []
Inst perl:any (5.36.0-7 Debian:12.15/oldstable [amd64])
Conf libc6 (2.36-9+deb12u14 Debian:12.15/oldstable [amd64])
";
        let found: Vec<String> = planned(text).iter().map(Package::pinned).collect();
        assert_eq!(found, ["libc6=2.36-9+deb12u14", "perl=5.36.0-7"]);
    }

    #[test]
    fn only_the_recipe_and_libraries_below_it_are_needed() {
        let described = "\
Package: server
Pre-Depends: init-system-helpers (>= 1.54~)
Depends: adduser, libdeep1 (>= 3) | libother1, zlib1g:any, libllvm14, libjson-perl

Package: libdeep1
Depends: libc6, perl

Package: adduser
Depends: libhidden1

Package: perl
Depends: libperl5.36
";
        let names = [
            "adduser",
            "libc6",
            "libdeep1",
            "libhidden1",
            "libjson-perl",
            "libllvm14",
            "perl",
            "server",
            "zlib1g",
        ];
        let planned: Vec<Package> = names
            .iter()
            .map(|name| Package {
                name: (*name).to_owned(),
                version: "1".to_owned(),
            })
            .collect();
        let found: Vec<String> = needed(&["server"], &planned, described)
            .into_iter()
            .map(|p| p.name)
            .collect();
        assert_eq!(found, ["libc6", "libdeep1", "server", "zlib1g"]);
    }

    #[test]
    fn only_expiry_alone_counts_as_expired() {
        let expired_line = "Release file for http://m.example/debian/dists/forky/InRelease is expired \
            (invalid since 24d 5h 18min 21s). Updates for this repository will not be applied.";
        assert_eq!(expired(expired_line).as_deref(), Some("invalid since 24d 5h 18min 21s"));
        assert_eq!(expired(&format!("{expired_line}\nThe repository is not signed.")), None);
        assert_eq!(expired(""), None);
    }

    #[test]
    fn errors_are_shown_without_warnings() {
        assert_eq!(complaints("W: old\nE: first\nE: second\n"), "first\nsecond");
        assert_eq!(complaints("W: old\n"), "W: old");
    }
}
