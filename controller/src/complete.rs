//! What a shell is offered while a word is typed: names of labs, nodes and links that are up, asked of the engine.
//!
//! Never an error and never a wait: an engine that is absent, slow or hangs means that nothing is offered.

use crate::docker::{Docker, EngineHandle};
use crate::lab::{self, Engines, Found};
use crate::names::LabName;
use clap_complete::CompletionCandidate;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// Limit of asking: somebody has pressed a key.
const LIMIT: Duration = Duration::from_millis(300);

/// Names of labs.
#[must_use]
pub fn labs() -> Vec<CompletionCandidate> {
    offered(up().into_iter().map(|found| found.lab))
}

/// Nodes of the lab that the typed words mean.
#[must_use]
pub fn nodes() -> Vec<CompletionCandidate> {
    offered(plans().flat_map(|plan| plan.nodes.into_iter().map(|node| node.name.to_string())))
}

/// Links of the lab that the typed words mean: both directions together, then each.
#[must_use]
pub fn links() -> Vec<CompletionCandidate> {
    offered(plans().flat_map(|plan| {
        let ends = plan
            .links
            .iter()
            .map(|link| (link.from.to_string(), link.to.to_string()));
        spelled(&ends.collect::<Vec<_>>())
    }))
}

/// Directed links as a user can name them.
fn spelled(ends: &[(String, String)]) -> Vec<String> {
    let both = ends.iter().filter(|(from, to)| from < to);
    let both = both.map(|(from, to)| format!("{from}-{to}"));
    both.chain(ends.iter().map(|(from, to)| format!("{from}:{to}")))
        .collect()
}

fn offered(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    names.map(CompletionCandidate::new).collect()
}

/// Plans of the lab that is meant, or of all that are up.
fn plans() -> impl Iterator<Item = crate::plan::Plan> {
    let variable = std::env::var_os("TESTBED_LAB");
    let asked = lab_of(std::env::args_os()).or_else(|| LabName::new(variable?.to_str()?).ok());
    up().into_iter()
        .filter(move |found| asked.as_ref().is_none_or(|asked| found.lab == asked.as_str()))
        .filter_map(|found| found.plan().ok())
}

/// The lab that typed words name.
fn lab_of(words: impl Iterator<Item = OsString>) -> Option<LabName> {
    let words: Vec<String> = words.filter_map(|word| word.into_string().ok()).collect();
    let after = words.windows(2).find(|pair| matches!(pair[0].as_str(), "-p" | "--lab"));
    let joined = words.iter().find_map(|word| word.strip_prefix("--lab="));
    LabName::new(after.map(|pair| pair[1].as_str()).or(joined)?).ok()
}

fn up() -> Vec<Found> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let found = runtime.block_on(async { tokio::time::timeout(LIMIT, asked()).await });
    runtime.shutdown_background();
    found.ok().flatten().unwrap_or_default()
}

async fn asked() -> Option<Vec<Found>> {
    let host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
    let engine: EngineHandle = Arc::new(Docker::connect(host.as_deref()).await.ok()?);
    lab::labs(&Engines::from(engine)).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_the_one_that_the_words_name() {
        let lab = |line: &str| lab_of(line.split(' ').map(OsString::from)).map(|lab| lab.to_string());
        assert_eq!(lab("testbed -- testbed exec -p shop pri"), Some("shop".to_owned()));
        assert_eq!(lab("testbed -- testbed logs --lab=shop"), Some("shop".to_owned()));
        assert_eq!(lab("testbed -- testbed exec pri"), None);
    }

    #[test]
    fn a_link_is_offered_both_ways_and_each_way() {
        let ends = [("a", "b"), ("b", "a")].map(|(from, to)| (from.to_owned(), to.to_owned()));
        assert_eq!(spelled(&ends), ["a-b", "a:b", "b:a"]);
    }
}
