//! `compare`: two run or matrix directories side by side: claims first, numbers second, environments beside each other. Only
//! blocks that both measured are compared; a matrix is compared release by release.

use super::screen;
use crate::cli::{CompareArgs, Format, Global};
use crate::commands::matrix::cells_of;
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::findings;
use crate::findings::versions::environment::{self, Fact};
use crate::findings::versions::{self, Measured, Moves, Read, Versions};
use crate::history::BlockNumber;
use crate::manifest::Manifest;
use crate::report;
use crate::store;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What `compare --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CompareDocument {
    /// The directories, as they were named.
    pub directories: [PathBuf; 2],
    /// Verdicts that are others in the second one.
    pub moved: usize,
    /// One comparison per release that both have; two runs are one comparison, whatever their releases.
    pub compared: Vec<Versions>,
    /// Releases that only one of them has.
    pub alone: Vec<String>,
    /// What both were made of and on.
    pub environment: Vec<Fact>,
}

/// Compares two directories.
pub(super) fn run(global: &Global, args: &CompareArgs) -> Result<ExitCode, CommandError> {
    show(global, [&args.first, &args.second])
}

/// Prints the comparison of two directories.
pub(super) fn show(global: &Global, directories: [&Path; 2]) -> Result<ExitCode, CommandError> {
    let shown = compare(directories)?;
    let text = match global.format {
        Format::Json => document("compare", &shown),
        Format::Text => rendered(&shown, global),
    };
    screen::print(&text)?;
    Ok(if shown.moved > 0 {
        ExitCode::Diverged
    } else {
        ExitCode::Success
    })
}

fn compare(paths: [&Path; 2]) -> Result<CompareDocument, CommandError> {
    let sides = [cells(paths[0])?, cells(paths[1])?];
    let releases = [releases(&sides[0]), releases(&sides[1])];
    let pairs: Vec<[&String; 2]> = match &releases {
        [first, second] if first.len() == 1 && second.len() == 1 => vec![[&first[0], &second[0]]],
        [first, second] => first
            .iter()
            .filter(|release| second.contains(release))
            .map(|release| [release, release])
            .collect(),
    };
    let compared: Vec<Versions> = pairs.iter().filter_map(|pair| of_pair(&sides, *pair)).collect();
    if compared.is_empty() {
        let text = format!(
            "compare {} with {}: there is no release and block that both measured",
            paths[0].display(),
            paths[1].display()
        );
        return Err(CommandError::new(ExitCode::Usage, text).hint("`testbed report` shows what each of them has"));
    }
    let alone = releases
        .concat()
        .into_iter()
        .filter(|release| !pairs.iter().any(|pair| pair.contains(&release)));
    Ok(CompareDocument {
        directories: paths.map(Path::to_owned),
        moved: compared
            .iter()
            .flat_map(|versions| &versions.moved)
            .filter(|moved| is_verdict(moved))
            .count(),
        alone: alone.collect(),
        environment: environment::beside([manifests(&sides[0]), manifests(&sides[1])]),
        compared,
    })
}

/// Whether a claim was judged on both sides.
fn is_verdict(moved: &Moves) -> bool {
    moved.from.verdict().is_some() && moved.to.verdict().is_some()
}

/// The cells of a matrix, or a run as the only cell that there is.
fn cells(path: &Path) -> Result<Vec<Measured>, CommandError> {
    if store::is_matrix(path) {
        return cells_of(path);
    }
    let stored = super::judge::load(path)?;
    let findings = findings::judge(&stored.history);
    Ok(vec![Measured {
        release: release_of(&stored.manifest),
        topology: stored.manifest.name.clone(),
        blocks: findings.blocks.iter().map(|block| block.block).collect(),
        repeat: 1,
        outcome: Ok(Box::new(Read {
            findings,
            history: stored.history,
            manifest: stored.manifest,
            plans: stored.plans,
        })),
    }])
}

/// The release of a run's caches, or of its only servers.
fn release_of(manifest: &Manifest) -> String {
    let servers = || manifest.labs.iter().flat_map(|lab| &lab.servers);
    let cache = servers().find(|server| server.engine != "postgres");
    let server = cache.or_else(|| servers().next());
    server.map_or_else(|| "no server".to_owned(), |server| server.release.clone())
}

fn releases(cells: &[Measured]) -> Vec<String> {
    let mut releases: Vec<String> = Vec::new();
    for cell in cells {
        if !releases.contains(&cell.release) {
            releases.push(cell.release.clone());
        }
    }
    releases
}

fn manifests(cells: &[Measured]) -> Vec<&Manifest> {
    let read = cells.iter().filter_map(|cell| cell.outcome.as_ref().ok());
    read.map(|read| &read.manifest).collect()
}

/// One release of each side as two columns, named by their places; `None` if they have no block with claims in common.
fn of_pair(sides: &[Vec<Measured>; 2], pair: [&String; 2]) -> Option<Versions> {
    let of = |side: usize| sides[side].iter().filter(move |cell| &cell.release == pair[side]);
    let blocks = |side: usize| -> BTreeSet<BlockNumber> { of(side).flat_map(|cell| cell.blocks.clone()).collect() };
    let both: BTreeSet<BlockNumber> = blocks(0).intersection(&blocks(1)).copied().collect();
    if both.is_empty() {
        return None;
    }
    let names = [0, 1].map(|side| format!("{}: {}", side + 1, pair[side]));
    let mut cells = Vec::new();
    for (side, name) in names.iter().enumerate() {
        for cell in of(side) {
            let mut cell = cell.clone();
            cell.release.clone_from(name);
            cell.blocks.retain(|block| both.contains(block));
            if let Ok(read) = &mut cell.outcome {
                read.findings.blocks.retain(|block| both.contains(&block.block));
            }
            // A cell of other blocks alone has nothing to compare.
            if !cell.blocks.is_empty() {
                cells.push(cell);
            }
        }
    }
    let versions = versions::compare(&names, &cells, 1);
    (!versions.claims.is_empty()).then_some(versions)
}

fn rendered(shown: &CompareDocument, global: &Global) -> String {
    let style = screen::style(global);
    let mut text = String::new();
    for (directory, number) in shown.directories.iter().zip(1..) {
        text.push_str(&format!("{number}: {}\n", directory.display()));
    }
    for versions in &shown.compared {
        text.push('\n');
        text.push_str(&report::versions(versions, style));
    }
    if !shown.alone.is_empty() {
        text.push_str(&format!("\nOnly in one of them: {}\n", shown.alone.join(", ")));
    }
    text.push('\n');
    let rows = shown.environment.iter().map(|fact| {
        let mark = if fact.differs { "*" } else { "" };
        [
            mark.to_owned(),
            fact.name.clone(),
            fact.values[0].clone(),
            fact.values[1].clone(),
        ]
    });
    text.push_str(&screen::plain_table(["", "ENVIRONMENT", "1", "2"], rows));
    text.push_str(&match shown.moved {
        0 => "\nThe verdicts are the same.\n".to_owned(),
        1 => "\n1 verdict moved.\n".to_owned(),
        moved => format!("\n{moved} verdicts moved.\n"),
    });
    text
}
