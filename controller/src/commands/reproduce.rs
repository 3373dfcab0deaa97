//! `reproduce`: a stored run once more: the same topology, releases (by digest where the image came from a registry), seed and
//! blocks; then both runs are compared. A run on a lab that was up before cannot be had again: nobody knows how it was made.

use super::run::Task;

use super::{compare, judge};
use crate::block::Block;
use crate::cli::{GithubArgs, Global, ReleaseArg, ReproduceArgs, Run};
use crate::error::{CommandError, ExitCode};
use crate::history::{BlockNumber, History, What};
use crate::manifest::{LabUsed, Manifest, ServerUsed};
use crate::names::{self, NodeName};
use crate::progress::Progress;
use crate::release::Catalogue;
use crate::stop::Stop;
use crate::store::{self, Stored};
use crate::topology::{self, Topology};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// Runs again, and compares.
pub(super) async fn run(global: &Global, args: ReproduceArgs) -> Result<ExitCode, CommandError> {
    if store::is_matrix(&args.run) {
        let text = format!("reproduce {}: it is a matrix", args.run.display());
        return Err(CommandError::new(ExitCode::Usage, text).hint("name one of its cells"));
    }
    let stored = judge::load(&args.run)?;
    let again = again(&args, &stored)?;
    let task = Task::of(global, again)?;
    let stop = Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?;
    let docker = super::connect(global).await?;
    let ran = task.measured(&docker, &stop, Progress::new(global.quiet)).await?;
    let directory = ran.path().to_owned();
    ran.completed()?;
    compare::show(global, [&args.run, &directory])
}

/// The command line of the same run.
fn again(args: &ReproduceArgs, stored: &Stored) -> Result<Run, CommandError> {
    let manifest = &stored.manifest;
    let refused = |why: &str, hint: &str| {
        let text = format!("reproduce {}: {why}", args.run.display());
        CommandError::new(ExitCode::Usage, text).hint(hint)
    };
    let blocks = blocks(&stored.history);
    if blocks.is_empty() || manifest.labs.is_empty() {
        return Err(refused(
            "it had no lab that was ready",
            "a run that failed before its first block is only typed again",
        ));
    }
    let file = match topologies(manifest, &blocks) {
        Topologies::BuiltIn => None,
        Topologies::File(file) => Some(args.run.join(file)),
        Topologies::Unknown => {
            return Err(refused(
                "it was measured on a lab that was up before",
                "make that lab again with `testbed up`, and measure on it with `testbed run -p`",
            ));
        }
    };
    Ok(Run {
        only: blocks,
        release: ReleaseArg {
            release: releases(&args.run, manifest),
        },
        file,
        lab: None,
        out: args.out.clone(),
        capture: manifest.command_line.iter().any(|word| word == "--capture"),
        keep: args.keep,
        method: said(manifest, "--method").unwrap_or_default(),
        github: GithubArgs::default(),
        cut_by: said(manifest, "--cut-by").unwrap_or_default(),
        seed: manifest.seed,
    })
}

/// Blocks that were to run.
fn blocks(history: &History) -> Vec<BlockNumber> {
    let started = history.events.iter().find_map(|event| match &event.what {
        What::RunStarted { blocks, .. } => Some(blocks.clone()),
        _ => None,
    });
    started.unwrap_or_default()
}

/// What the command line said, if it did.
fn said<T: ValueEnum>(manifest: &Manifest, option: &str) -> Option<T> {
    let words = &manifest.command_line;
    let after = words
        .iter()
        .position(|word| word == option)
        .and_then(|at| words.get(at + 1));
    let with = format!("{option}=");
    let given = after
        .map(String::as_str)
        .or_else(|| words.iter().find_map(|word| word.strip_prefix(&with)));
    given.and_then(|word| T::from_str(word, true).ok())
}

/// What the labs of a run were made from.
#[derive(Debug, PartialEq, Eq)]
enum Topologies {
    /// What comes with the program, as it is now.
    BuiltIn,
    /// One file, of which the run has a copy.
    File(PathBuf),
    /// Nobody knows.
    Unknown,
}

fn topologies(manifest: &Manifest, blocks: &[BlockNumber]) -> Topologies {
    let known: Vec<String> = blocks
        .iter()
        .filter_map(|block| Block::numbered(*block))
        .map(|block| topology::hash(block.topology().text))
        .collect();
    if manifest.labs.iter().all(|lab| known.contains(&lab.topology_sha256)) {
        return Topologies::BuiltIn;
    }
    let Some(LabUsed {
        topology_file: Some(first),
        ..
    }) = manifest.labs.first()
    else {
        return Topologies::Unknown;
    };
    match manifest
        .labs
        .iter()
        .all(|lab| lab.topology_file.as_ref() == Some(first))
    {
        true => Topologies::File(PathBuf::from(first)),
        false => Topologies::Unknown,
    }
}

/// A release per kind of server, as `--release` takes it. What the topology pins needs no saying.
fn releases(run: &Path, manifest: &Manifest) -> Vec<String> {
    let mut caches: Vec<String> = Vec::new();
    let mut databases: Vec<String> = Vec::new();
    for lab in &manifest.labs {
        let pins = lab.topology_file.as_ref().and_then(|file| topology_of(&run.join(file)));
        for server in &lab.servers {
            if is_pinned(pins.as_ref(), server) {
                continue;
            }
            let kind = if server.engine == "postgres" {
                &mut databases
            } else {
                &mut caches
            };
            let argument = argument(lab, server);
            if !kind.contains(&argument) {
                kind.push(argument);
            }
        }
    }
    // Unpinned nodes of one kind all ran the same.
    caches
        .into_iter()
        .take(1)
        .chain(databases.into_iter().take(1))
        .collect()
}

fn topology_of(file: &Path) -> Option<Topology> {
    let text = std::fs::read_to_string(file).ok()?;
    topology::parse(&file.display().to_string(), &text).ok()
}

fn is_pinned(topology: Option<&Topology>, server: &ServerUsed) -> bool {
    let name = NodeName::new(&server.node).ok();
    let mut nodes = topology.iter().flat_map(|topology| &topology.nodes);
    nodes.any(|node| Some(&node.name) == name.as_ref() && node.release.is_some())
}

/// The server's release by its digest, if its image came from a registry; else by its name.
fn argument(lab: &LabUsed, server: &ServerUsed) -> String {
    let digest = lab.images.get(&server.image).and_then(|image| image.digest.as_ref());
    let release = Catalogue::built_in().find(&server.release).ok();
    let reference = release.and_then(|release| match release.is_user_image() {
        true => Some(release.image),
        false => release.official,
    });
    match (digest, reference) {
        // A folder may hold another build by now: its image is the one that ran.
        _ if names::is_build(&server.image) => format!("{}={}", server.engine, server.image),
        (Some(digest), Some(reference)) => format!("{}={}@{digest}", server.engine, repository(&reference)),
        _ => server.release.clone(),
    }
}

/// An image reference without its tag or digest.
fn repository(reference: &str) -> &str {
    let reference = reference.split('@').next().unwrap_or(reference);
    match reference.rsplit_once(':') {
        // A colon before a slash is that of a port.
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => reference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Method;
    use crate::cli::Keep;
    use crate::commands::run::words::words as typed;

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/run")
    }

    fn args() -> ReproduceArgs {
        ReproduceArgs {
            run: golden(),
            out: None,
            keep: Keep::Never,
        }
    }

    /// The committed made-up run, on the topology that comes with the program.
    fn stored() -> Stored {
        let mut stored = store::load(&golden()).unwrap();
        for lab in &mut stored.manifest.labs {
            lab.topology_sha256 = topology::hash(crate::block::TWO_DC.text);
            lab.topology_file = None;
        }
        stored
    }

    #[test]
    fn the_same_blocks_seed_and_releases_are_run_again() {
        let mut stored = stored();
        stored.manifest.seed = 7;
        let again = again(&args(), &stored).unwrap();
        assert_eq!((again.only.as_slice(), again.seed), ([2, 7].as_slice(), 7));
        assert_eq!(again.release.release, ["redis-7.0.15", "postgres-15"]);
        assert_eq!(again.file, None);
        assert_eq!(
            typed(&again).join(" "),
            "testbed run --only 2,7 --release redis-7.0.15,postgres-15 --seed 7"
        );
    }

    #[test]
    fn the_halves_are_parted_as_they_were() {
        for (words, method) in [
            (["--method", "stop"].as_slice(), Method::Stop),
            (&["--method=stop"], Method::Stop),
            (&["--only", "4"], Method::Cut),
        ] {
            let mut stored = stored();
            stored.manifest.command_line = words.iter().map(|&word| word.to_owned()).collect();
            let again = again(&args(), &stored).unwrap();
            assert_eq!(again.method, method);
            assert_eq!(typed(&again).contains(&"stop".to_owned()), method == Method::Stop);
        }
    }

    #[test]
    fn an_image_of_a_registry_is_asked_for_by_its_digest() {
        let mut stored = stored();
        let lab = &mut stored.manifest.labs[0];
        for image in lab.images.values_mut() {
            image.digest = Some("sha256:ab".to_owned());
        }
        let again = again(&args(), &stored).unwrap();
        assert_eq!(again.release.release[0], "redis=redis@sha256:ab");
        for (reference, expected) in [
            ("redis:7", "redis"),
            ("reg:5000/redis", "reg:5000/redis"),
            ("reg:5000/redis:7@sha256:1", "reg:5000/redis"),
        ] {
            assert_eq!(repository(reference), expected);
        }
    }

    #[test]
    fn a_file_of_the_users_is_taken_from_the_run_and_a_lab_that_was_up_is_refused() {
        let mut stored = stored();
        stored.manifest.labs[0].topology_sha256 = "another".to_owned();
        let error = again(&args(), &stored).unwrap_err();
        assert!(
            error.text.contains("was up before") && error.hint.is_some(),
            "{}",
            error.text
        );
        stored.manifest.labs[0].topology_file = Some("topology.yaml".to_owned());
        let file = again(&args(), &stored).unwrap().file;
        assert_eq!(file, Some(golden().join("topology.yaml")));
        stored.manifest.labs.clear();
        assert!(again(&args(), &stored).unwrap_err().text.contains("no lab"));
    }
}
