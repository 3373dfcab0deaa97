//! `judge` and `report` as a user calls them, on the committed made-up run and on damaged copies of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/run")
}

fn testbed(verb: &str, run: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    for variable in ["TESTBED_FORMAT", "TESTBED_COLOR", "TESTBED_QUIET"] {
        command.env_remove(variable);
    }
    command.arg(verb).arg(run).args(flags);
    command.output().expect("the program starts")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// A copy of the run, with another history.
fn copy(change: impl Fn(&str) -> String) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for name in ["history.jsonl", "manifest.json", "report.json"] {
        let text = std::fs::read_to_string(golden().join(name)).expect("the golden run is whole");
        let text = if name == "history.jsonl" { change(&text) } else { text };
        std::fs::write(directory.path().join(name), text).expect("the copy can be written");
    }
    directory
}

#[test]
fn judging_again_gives_the_verdicts_of_the_stored_report() {
    let output = testbed("judge", &golden(), &[]);
    assert_eq!(code(&output), Some(10), "a claim diverged");
    let stdout = text(&output.stdout);
    assert!(
        stdout.ends_with("The verdicts are those of the stored report.\n"),
        "{stdout}"
    );
    assert!(stdout.contains("9 passed, 3 failed, 0 skipped"), "{stdout}");
    assert!(!stdout.contains('\u{1b}'), "no colour into a pipe");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_verdict_that_differs_from_the_stored_report_is_told() {
    let fewer = copy(|history| {
        history
            .replacen("\"seed\":1", "\"seed\":2", 1)
            .replace("cache far, 40ms", "elsewhere")
    });
    let output = testbed("judge", fewer.path(), &[]);
    assert_eq!(code(&output), Some(11), "nothing diverged, something is missing");
    let told = "  7.far-costs-one-round-trip@40ms: diverged -> inconclusive\n";
    assert!(text(&output.stdout).contains(told), "{}", text(&output.stdout));
}

#[test]
fn a_killed_run_is_judged_as_far_as_it_came_and_is_not_complete() {
    let cut = copy(|history| history[..history.len() - 40].to_owned());
    let output = testbed("judge", cut.path(), &[]);
    assert_eq!(code(&output), Some(5));
    let stderr = text(&output.stderr);
    assert!(
        stderr.starts_with("warning: line ") && stderr.contains("cut short"),
        "{stderr}"
    );
    assert!(text(&output.stdout).contains("The run could not be completed: "));
}

#[test]
fn a_damaged_history_is_not_judged() {
    let damaged = copy(|history| history.replacen("\"series\"", "\"serious\"", 1));
    let output = testbed("judge", damaged.path(), &[]);
    assert_eq!((code(&output), text(&output.stdout)), (Some(5), String::new()));
    assert!(
        text(&output.stderr).contains("history.jsonl, line "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_wrong_directory_is_a_matter_of_the_command_line() {
    let empty = tempfile::tempdir().expect("a temporary directory can be made");
    for verb in ["judge", "report"] {
        let output = testbed(verb, empty.path(), &[]);
        assert_eq!(code(&output), Some(2));
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("it has no history.jsonl") && stderr.contains("hint: "),
            "{stderr}"
        );
    }
}

#[test]
fn a_report_is_printed_in_the_format_that_was_asked_for() {
    let expected = |name: &str| std::fs::read_to_string(golden().join(name)).expect("the golden run is whole");
    let json = testbed("report", &golden(), &["--format", "json"]);
    assert_eq!((code(&json), text(&json.stdout)), (Some(0), expected("report.json")));
    for (format, start) in [
        ("markdown", "# testbed: two-dc\n"),
        ("html", "<!DOCTYPE html>"),
        ("junit", "<?xml version=\"1.0\""),
        ("openmetrics", "# TYPE testbed_run info\n"),
        ("github", "::error title="),
    ] {
        let printed = testbed("report", &golden(), &["--format", format]);
        assert!(text(&printed.stdout).starts_with(start), "{format}");
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let file = directory.path().join("report.xml");
    let written = testbed("report", &golden(), &["-o", file.to_str().expect("the path is UTF-8")]);
    assert_eq!((code(&written), text(&written.stdout)), (Some(0), String::new()));
    assert!(std::fs::read_to_string(&file).is_ok_and(|text| text.starts_with("<?xml")));
    let coloured = testbed("report", &golden(), &["--color", "always"]);
    assert!(text(&coloured.stdout).contains('\u{1b}'));
    let plain = text(&testbed("report", &golden(), &[]).stdout);
    let until = |text: &str| text.split("Run directory:").next().map(str::to_owned);
    assert_eq!(until(&plain), until(&expected("report.txt")));
}
