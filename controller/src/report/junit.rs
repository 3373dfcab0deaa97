//! Runs as JUnit XML, as CI servers read it: a suite per run, a case per claim. Diverged is a failure, inconclusive and not
//! applicable are skipped with their reason, what could not be completed is an error.

use super::{Cell, Missing};
use crate::claim::{Finding, Verdict};
use crate::findings::{BlockFindings, Trust};
use std::fmt::Write as _;

/// What became of a case, with a message.
enum Became {
    Passed,
    Failed(String),
    Skipped(String),
    Broken(String),
}

struct Case {
    class: String,
    name: String,
    became: Became,
    /// What was measured.
    told: String,
}

pub(super) fn render(cells: &[Cell<'_>], missing: &[Missing]) -> String {
    let suites: Vec<Vec<Case>> = cells.iter().map(cases).collect();
    let without: Vec<Case> = missing.iter().map(case_of_missing).collect();
    let all = || suites.iter().flatten().chain(&without);
    let took: f64 = cells.iter().map(Cell::took_s).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"testbed\" {} time=\"{took:.3}\">\n",
        counts(all())
    );
    for (cell, cases) in cells.iter().zip(&suites) {
        add_suite(&mut text, cell, cases);
    }
    for (missing, case) in missing.iter().zip(&without) {
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" {} time=\"0.000\">",
            escaped(&missing.name),
            counts(std::iter::once(case))
        );
        add_case(&mut text, case);
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn case_of_missing(missing: &Missing) -> Case {
    let reason = missing.reason.clone();
    Case {
        class: "run".to_owned(),
        name: "the cell is measured".to_owned(),
        became: match missing.left_out {
            true => Became::Skipped(format!("left out: {reason}")),
            false => Became::Broken(reason),
        },
        told: String::new(),
    }
}

fn add_suite(text: &mut String, cell: &Cell<'_>, cases: &[Case]) {
    let manifest = cell.manifest;
    // Writing to a text cannot fail.
    let _ = writeln!(
        text,
        "  <testsuite name=\"{}\" {} time=\"{:.3}\" timestamp=\"{}\">",
        escaped(cell.name),
        counts(cases.iter()),
        cell.took_s(),
        escaped(manifest.started_utc.trim_end_matches('Z'))
    );
    let versions = manifest.versions().join(", ");
    let properties = [
        ("run", manifest.run.as_str()),
        ("testbed", &manifest.instrument.version),
        ("servers", &versions),
        ("command", &manifest.command()),
    ]
    .map(|(name, value)| format!("      <property name=\"{name}\" value=\"{}\"/>\n", escaped(value)));
    let _ = writeln!(text, "    <properties>\n{}    </properties>", properties.concat());
    for case in cases {
        add_case(text, case);
    }
    text.push_str("  </testsuite>\n");
}

fn add_case(text: &mut String, case: &Case) {
    let _ = writeln!(
        text,
        "    <testcase classname=\"{}\" name=\"{}\">",
        escaped(&case.class),
        escaped(&case.name)
    );
    let told = escaped(&case.told);
    match &case.became {
        Became::Passed => {}
        Became::Failed(message) => {
            let message = escaped(message);
            let _ = writeln!(
                text,
                "      <failure type=\"diverged\" message=\"{message}\">{told}</failure>"
            );
        }
        Became::Skipped(message) => {
            let _ = writeln!(text, "      <skipped message=\"{}\"/>", escaped(message));
        }
        Became::Broken(message) => {
            let _ = writeln!(
                text,
                "      <error type=\"incomplete\" message=\"{}\"/>",
                escaped(message)
            );
        }
    }
    if !told.is_empty() {
        let _ = writeln!(text, "      <system-out>{told}</system-out>");
    }
    text.push_str("    </testcase>\n");
}

fn counts<'a>(cases: impl Iterator<Item = &'a Case>) -> String {
    let (mut tests, mut failures, mut errors, mut skipped) = (0, 0, 0, 0);
    for case in cases {
        tests += 1;
        match case.became {
            Became::Passed => {}
            Became::Failed(_) => failures += 1,
            Became::Skipped(_) => skipped += 1,
            Became::Broken(_) => errors += 1,
        }
    }
    format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"")
}

fn cases(cell: &Cell<'_>) -> Vec<Case> {
    let mut cases: Vec<Case> = cell.findings.blocks.iter().flat_map(cases_of).collect();
    // What a block could not do is told by the block.
    let told = cell.findings.blocks.iter().any(|block| block.error.is_some());
    if let Some(error) = cell.findings.error.as_ref().filter(|_| !told) {
        cases.push(Case {
            class: "run".to_owned(),
            name: "the run is completed".to_owned(),
            became: Became::Broken(error.clone()),
            told: String::new(),
        });
    }
    cases
}

fn cases_of(block: &BlockFindings) -> Vec<Case> {
    let class = format!("block {}: {}", block.block, block.title);
    if let Some(reason) = &block.skipped {
        return vec![Case {
            class,
            name: format!("{}: {}", block.block, block.title),
            became: Became::Skipped(format!("not applicable: {reason}")),
            told: String::new(),
        }];
    }
    let mut cases: Vec<Case> = block
        .findings
        .iter()
        .map(|finding| case_of(&class, finding, &block.trust))
        .collect();
    if let Some(error) = &block.error {
        cases.push(Case {
            class,
            name: format!("{}: the block is completed", block.block),
            became: Became::Broken(error.clone()),
            told: String::new(),
        });
    }
    cases
}

fn case_of(class: &str, finding: &Finding, trust: &Trust) -> Case {
    let reason = finding.reason.clone().unwrap_or_default();
    let mut told = format!("{}\n{}", finding.text, finding.measured);
    if let Trust::Suspect(reasons) | Trust::Void(reasons) = trust {
        told.push_str(&format!(
            "\nthe numbers of this block are in doubt: {}",
            reasons.join("; ")
        ));
    }
    Case {
        class: class.to_owned(),
        name: finding.claim.clone(),
        became: match finding.verdict {
            Verdict::Holds => Became::Passed,
            Verdict::Diverged => Became::Failed(format!("{}: {reason}", finding.measured)),
            Verdict::Inconclusive => Became::Skipped(format!("inconclusive: {reason}")),
        },
        told,
    }
}

/// For attributes and texts. XML has no other control characters than these three, not even as references.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\r' => escaped.push_str("&#13;"),
            '\t' => escaped.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other if other < ' ' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Cause, Claim};
    use crate::report::samples::Made;

    #[test]
    fn each_verdict_has_its_element_and_is_counted() {
        let made = Made::default();
        let text = render(&[made.cell("a"), made.cell("b")], &[]);
        assert!(
            text.contains("<testsuites name=\"testbed\" tests=\"10\" failures=\"2\" errors=\"2\" skipped=\"4\""),
            "{text}"
        );
        assert_eq!(text.matches("<testsuite name=").count(), 2);
        for element in ["<failure ", "<skipped ", "<error "] {
            assert!(text.contains(element), "{element} in {text}");
        }
        assert!(
            text.contains("message=\"not applicable: it needs a Postgres\""),
            "{text}"
        );
    }

    #[test]
    fn a_cell_without_a_run_is_an_error_and_one_that_was_left_out_is_skipped() {
        let missing = |name: &str, left_out| Missing {
            name: name.to_owned(),
            reason: "raise <the lab>".to_owned(),
            left_out,
        };
        let text = render(&[], &[missing("a", false), missing("b", true)]);
        let head = "<testsuites name=\"testbed\" tests=\"2\" failures=\"0\" errors=\"1\" skipped=\"1\"";
        assert!(text.contains(head), "{text}");
        assert!(text.contains("<error type=\"incomplete\" message=\"raise &lt;the lab&gt;\"/>"));
        assert!(text.contains("<skipped message=\"left out: raise &lt;the lab&gt;\"/>"));
    }

    #[test]
    fn a_text_cannot_leave_its_attribute_or_element() {
        let text = escaped("a<b>&\"c\"]]>\u{1}\u{1b}[31m\n\u{ffff}");
        assert_eq!(
            text,
            "a&lt;b&gt;&amp;&quot;c&quot;]]&gt;\u{fffd}\u{fffd}[31m&#10;\u{fffd}"
        );
    }

    #[test]
    fn doubts_about_the_numbers_stand_beside_every_claim_on_them() {
        let held = Claim::new("1.x", "x").holds("1");
        let trust = Trust::Void(vec!["the clock stood still".to_owned()]);
        let case = case_of("block 1", &held.voided("clock", Cause::Instrument), &trust);
        assert!(matches!(case.became, Became::Skipped(_)));
        assert!(case.told.contains("the clock stood still"));
    }
}
