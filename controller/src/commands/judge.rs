//! `judge`: a stored run judged anew, from its history alone.

use super::screen;
use crate::claim::Verdict;
use crate::cli::{Format, Global, Judge};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::findings::{self, Findings};
use crate::progress::say;
use crate::report::{self, JudgeDocument};
use crate::store::{self, Stored};
use std::collections::BTreeMap;
use std::path::Path;

/// Judges a run directory and prints its claims.
///
/// # Errors
/// The directory is none of a run, or is damaged.
pub fn run(global: &Global, args: &Judge) -> Result<ExitCode, CommandError> {
    if store::is_matrix(&args.run) {
        return super::matrix::judge(global, &args.run);
    }
    let stored = load(&args.run)?;
    let findings = findings::judge(&stored.history);
    let changed = store::stored_verdicts(&args.run).map(|before| changed(&before, &findings));
    let text = match global.format {
        Format::Json => document("judge", &JudgeDocument::of(&stored.manifest.run, &findings, changed)),
        Format::Text => {
            let mut text = report::verdicts(&findings, screen::style(global));
            if let Some(changed) = changed {
                text.push_str(&told(&changed));
            }
            text
        }
    };
    screen::print(&text)?;
    Ok(ExitCode::of(&findings))
}

/// Reads a run directory, and tells on stderr what had to be left out.
pub(super) fn load(run: &Path) -> Result<Stored, CommandError> {
    let stored = store::load(run)?;
    if let Some(left_out) = &stored.left_out {
        say(format_args!("warning: {left_out}"));
    }
    Ok(stored)
}

/// Claims whose verdict differs, each as `name: before -> now`.
fn changed(before: &BTreeMap<String, Verdict>, findings: &Findings) -> Vec<String> {
    let now: BTreeMap<&str, Verdict> = findings
        .blocks
        .iter()
        .flat_map(|block| &block.findings)
        .map(|finding| (finding.claim.as_str(), finding.verdict))
        .collect();
    let mut names: Vec<&str> = before.keys().map(String::as_str).chain(now.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let word = |verdict: Option<Verdict>| verdict.map_or("not judged", Verdict::word);
    names
        .into_iter()
        .map(|name| (name, before.get(name).copied(), now.get(name).copied()))
        .filter(|(_, before, now)| before != now)
        .map(|(name, before, now)| format!("{name}: {} -> {}", word(before), word(now)))
        .collect()
}

fn told(changed: &[String]) -> String {
    if changed.is_empty() {
        return "The verdicts are those of the stored report.\n".to_owned();
    }
    let mut text = "Verdicts that differ from the stored report:\n".to_owned();
    for line in changed {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;

    #[test]
    fn a_changed_a_new_and_a_lost_verdict_are_told_and_an_equal_one_is_not() {
        let before = BTreeMap::from([
            ("a".to_owned(), Verdict::Holds),
            ("b".to_owned(), Verdict::Holds),
            ("c".to_owned(), Verdict::Diverged),
        ]);
        let block = crate::findings::BlockFindings {
            block: 7,
            title: String::new(),
            question: String::new(),
            method: String::new(),
            does_not_show: String::new(),
            table: crate::findings::Table::default(),
            findings: vec![
                Claim::new("a", "").holds(""),
                Claim::new("b", "").noisy("", ""),
                Claim::new("d", "").holds(""),
            ],
            trust: crate::findings::Trust::Sound,
            evidence: Vec::new(),
            notes: Vec::new(),
            error: None,
            skipped: None,
        };
        let findings = Findings {
            blocks: vec![block],
            verdict: None,
            error: None,
        };
        assert_eq!(
            changed(&before, &findings),
            [
                "b: holds -> inconclusive",
                "c: diverged -> not judged",
                "d: not judged -> holds"
            ]
        );
    }
}
