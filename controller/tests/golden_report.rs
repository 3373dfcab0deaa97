//! Reports against the committed ones, format by format. A difference prints the command that accepts it.
//!
//! `golden/report` starts from findings that show every case that a report can meet; `golden/run` is a run directory with a small
//! made-up history, judged anew. In it the far cache costs two round trips at 40 ms one way, and block 2 was not run.

use std::path::{Path, PathBuf};
use testbed::exit::ExitCode;
use testbed::findings::{self, Findings};
use testbed::manifest::Manifest;
use testbed::report::{self, Style};
use testbed::store;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(golden(name)).unwrap_or_default()
}

fn made_up() -> (Findings, Manifest) {
    let findings = serde_json::from_str(&read("report/findings.json")).expect("findings.json is what it is called");
    let manifest = serde_json::from_str(&read("report/manifest.json")).expect("manifest.json is what it is called");
    (findings, manifest)
}

fn compare(name: &str, made: &str) {
    if std::env::var_os("TESTBED_ACCEPT").is_some() {
        std::fs::write(golden(name), made).expect("the golden file can be written");
    }
    let expected = read(name);
    let accept = "TESTBED_ACCEPT=1 cargo test -p testbed --test golden_report";
    assert!(
        expected == made,
        "{name} differs; look at it, and accept it with `{accept}`\n--- made\n{made}"
    );
}

#[test]
fn text_is_the_committed_one() {
    let (findings, manifest) = made_up();
    let made = report::terminal(&findings, &manifest, Some("testbed-runs/x"), Style::default());
    compare("report/report.txt", &made);
}

#[test]
fn the_verdicts_are_the_committed_ones() {
    compare("report/judge.txt", &report::verdicts(&made_up().0, Style::default()));
}

#[test]
fn markdown_is_the_committed_one() {
    let (findings, manifest) = made_up();
    compare("report/report.md", &report::markdown(&findings, &manifest));
}

#[test]
fn json_is_the_committed_one() {
    let (findings, manifest) = made_up();
    compare("report/report.json", &report::json(&findings, &manifest));
}

#[test]
fn a_stored_run_is_judged_and_reported_as_before() {
    let stored = store::load(&golden("run")).expect("golden/run is a run directory");
    let findings = findings::judge(&stored.history);
    let place = Some("golden/run");
    let made = report::terminal(&findings, &stored.manifest, place, Style::default());
    compare("run/report.txt", &made);
    compare("run/report.json", &report::json(&findings, &stored.manifest));
    let cells = [stored.cell(&findings)];
    compare("run/report.html", &report::html(&cells));
    compare("run/report.xml", &report::junit(&cells));
    compare("run/metrics.prom", &report::openmetrics(&cells));
    compare("run/annotations.txt", &report::annotations(&cells));
    assert_eq!(ExitCode::of(&findings), ExitCode::Diverged);
}

#[test]
fn no_line_is_wider_than_the_page() {
    let (findings, manifest) = made_up();
    for (width, limit) in [(200, 100), (100, 100), (72, 72)] {
        let text = report::terminal(&findings, &manifest, Some("x"), Style { width, colour: false });
        for line in text.lines() {
            assert!(line.chars().count() <= limit, "{limit}: {line}");
        }
    }
}

#[test]
fn colour_changes_no_word() {
    let (findings, manifest) = made_up();
    let render = |colour| report::terminal(&findings, &manifest, None, Style { width: 100, colour });
    let (plain, coloured) = (render(false), render(true));
    assert!(!plain.contains('\u{1b}') && coloured.contains('\u{1b}'));
    let mut stripped = String::new();
    for part in coloured.split('\u{1b}') {
        let code = part.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        stripped.push_str(code.map_or(part, |(_, text)| text));
    }
    assert_eq!(stripped, plain);
}
