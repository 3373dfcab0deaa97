//! `matrix` and `compare` as a user calls them, without an engine: the plan of a matrix, what it refuses, block 15 over a directory
//! made from the committed made-up run, and that run compared with changed copies of itself. A difference to the committed table prints the command that accepts it.

#[path = "shared/program.rs"]
mod program;

use std::path::{Path, PathBuf};
use std::process::Output;

const RELEASES: &str = "redis-7.0.15,valkey-9.1";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn testbed(words: &[&str]) -> Output {
    let mut command = program::testbed();
    command
        .args(words)
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .env("NO_COLOR", "1");
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// A matrix directory: its plan as the program writes it, and the made-up run as the cells of this release.
fn directory(measured: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let words = [
        "matrix",
        "--dry-run",
        "--format",
        "json",
        "--only",
        "2,7",
        "--release",
        RELEASES,
    ];
    let plan = testbed(&words).stdout;
    std::fs::write(directory.path().join("matrix.json"), &plan).expect("the plan can be written");
    let plan: serde_json::Value = serde_json::from_slice(&plan).expect("the plan is JSON");
    for cell in plan["cells"].as_array().expect("there are cells") {
        let release = cell["release"].as_str().expect("a cell has a release");
        if !measured.contains(&release) {
            continue;
        }
        let to = directory
            .path()
            .join(cell["directory"].as_str().expect("a cell has a directory"));
        std::fs::create_dir(&to).expect("a cell's directory can be made");
        for name in ["history.jsonl", "manifest.json"] {
            let text = std::fs::read_to_string(golden("run").join(name)).expect("the golden run is whole");
            let text = match release {
                "redis-7.0.15" => text,
                // The far cache at 40 ms was not measured, and a default is another.
                _ => text
                    .replace("cache far, 40ms", "elsewhere")
                    .replace("redis-7.0.15", release)
                    .replace("\"maxmemory\": \"0\"", "\"maxmemory\": \"100mb\""),
            };
            std::fs::write(to.join(name), text).expect("a cell's files can be written");
        }
    }
    directory
}

#[test]
fn a_plan_needs_no_engine_and_says_what_comes_in_which_order() {
    let output = testbed(&[
        "matrix",
        "--dry-run",
        "--only",
        "1,4",
        "--repeat",
        "2",
        "--release",
        RELEASES,
    ]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut cells: Vec<&str> = stdout.lines().skip(1).collect();
    // 12 s of block 1 and 5 s for its lab on two releases, 20 s and 9 s for a cluster on two at once; twice.
    let last = cells.pop().expect("a line over all");
    assert_eq!(last, "8 to measure, about 2m 6s on two idle cores, images present");
    assert_eq!(cells.len(), 2 * 2 * 2, "{stdout}");
    for two in cells.chunks(2) {
        assert!(two.iter().any(|cell| cell.contains("redis-7.0.15")), "{stdout}");
        assert!(two.iter().any(|cell| cell.contains("valkey-9.1")), "{stdout}");
    }
}

#[test]
fn what_a_budget_has_no_room_for_is_told_beforehand_and_is_no_verdict() {
    let words = [
        "matrix",
        "--dry-run",
        "--only",
        "1,4",
        "--release",
        RELEASES,
        "--budget",
    ];
    let output = testbed(&[&words[..], &["60s"]].concat());
    let stdout = text(&output.stdout);
    let left_out = stdout.lines().filter(|line| line.ends_with("left out"));
    assert_eq!(left_out.count(), 2, "{stdout}");
    assert!(
        stdout.ends_with("2 to measure, about 34s on two idle cores, images present\n"),
        "{stdout}"
    );
    let output = testbed(&[&words[..], &["10s"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));

    let directory = directory(&["redis-7.0.15", "valkey-9.1"]);
    let path = directory.path().to_str().expect("a path is UTF-8");
    let file = directory.path().join("matrix.json");
    let plan = std::fs::read_to_string(&file).expect("the plan is there");
    std::fs::write(&file, plan.replace("planned", "left_out")).expect("the plan can be written");
    let output = testbed(&["matrix", "--format", "json", "--judge", path]);
    let versions: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(versions["left_out"].as_array().map(Vec::len), Some(2), "{versions}");
    assert_eq!(
        (&versions["claims"], &versions["incomplete"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
}

#[test]
fn what_makes_no_matrix_is_exit_code_2_with_a_hint() {
    for (words, told) in [
        (&["--release", "redis-8.0,redis-8.0"][..], "one column"),
        (&["--release", "redis-0.1"], "none of that name"),
        (&["--only", "99"], "find block 99"),
        (&["--only", "15"], "block 15 compares releases"),
        (&["--only", "1", "--release", "postgres-17"], "uses a database"),
        (&["--resume", "tests/no-such-matrix"], "no such directory"),
        (&["--judge", "tests/golden/run"], "no matrix.json"),
    ] {
        let output = testbed(&[&["matrix"], words].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(
            stderr.contains(told) && stderr.contains("hint: "),
            "{words:?}: {stderr}"
        );
    }
}

#[test]
fn another_matrix_is_not_gone_on_with_and_the_same_one_asks_for_the_engine() {
    let directory = directory(&[]);
    let path = directory.path().to_str().expect("a path is UTF-8");
    for (words, told) in [
        (["--seed", "2"], "seed 1 there, 2 here"),
        (["--repeat", "3"], "repeats 1 there, 3 here"),
        (["--only", "7"], "blocks 2,7 there, 7 here"),
        (
            ["--release", "redis-8.0"],
            "releases redis-7.0.15,valkey-9.1 there, redis-8.0 here",
        ),
    ] {
        let output = testbed(&[&["matrix", "--resume", path], &words[..]].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains(told), "{words:?}: {stderr}");
    }
    let file = directory.path().join("matrix.json");
    let same = testbed(&["matrix", "--resume", path, "--only", "2,7"]);
    assert_eq!(same.status.code(), Some(4), "{}", text(&same.stderr));
    let plan = std::fs::read_to_string(&file).expect("the plan is there");
    let other = plan.replacen(
        &format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION")),
        "\"version\": \"0.0.9\"",
        1,
    );
    assert_ne!(other, plan);
    std::fs::write(&file, other).expect("the plan can be written");
    let output = testbed(&["matrix", "--resume", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("version 0.0.9 there"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_table_is_the_committed_one() {
    let directory = directory(&["redis-7.0.15", "valkey-9.1"]);
    let path = directory.path().to_str().expect("a path is UTF-8");
    let output = testbed(&["matrix", "--judge", path]);
    assert_eq!(output.status.code(), Some(10), "a claim diverged");
    let made = text(&output.stdout);
    if std::env::var_os("TESTBED_ACCEPT").is_some() {
        std::fs::create_dir_all(golden("matrix")).expect("its place can be made");
        std::fs::write(golden("matrix/report.txt"), &made).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(golden("matrix/report.txt")).unwrap_or_default();
    assert!(
        expected == made,
        "matrix/report.txt differs; look at it, and accept it with `TESTBED_ACCEPT=1 cargo test -p testbed --test cli_matrix`\n--- made\n{made}"
    );
    for line in made.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let judge = testbed(&["judge", path]);
    assert_eq!(text(&judge.stdout), made, "`judge` knows a matrix directory");
}

#[test]
fn a_matrix_is_reported_in_every_format_and_a_files_name_says_which() {
    let directory = directory(&["redis-7.0.15"]);
    let path = directory.path().to_str().expect("a path is UTF-8");
    for (format, told) in [
        ("text", "Block 15"),
        ("json", "\"kind\": \"versions\""),
        ("markdown", "<details><summary>redis-7.0.15, two-dc: "),
        ("html", "<h1>testbed: matrix of 2 releases</h1>"),
        ("junit", "<testsuite name=\"redis-7.0.15, two-dc\" "),
        ("openmetrics", "cell=\"redis-7.0.15, two-dc\""),
        ("github", "::error title=testbed::valkey-9.1, two-dc was not measured: "),
    ] {
        let output = testbed(&["report", path, "--format", format]);
        assert_eq!(output.status.code(), Some(0), "{format}: {}", text(&output.stderr));
        let stdout = text(&output.stdout);
        assert!(stdout.contains(told), "{format}: {stdout}");
    }
    // A cell without a run is no success of anybody.
    let junit = text(&testbed(&["report", path, "--format", "junit"]).stdout);
    assert!(
        junit.contains("<error type=\"incomplete\" message=\"it was not measured\"/>"),
        "{junit}"
    );
    let file = directory.path().join("r.html");
    let output = testbed(&["report", path, "-o", file.to_str().expect("a path is UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(std::fs::read_to_string(&file).is_ok_and(|page| page.starts_with("<!DOCTYPE html>")));
}

#[test]
fn several_runs_are_reported_beside_each_other_and_are_no_json_document_and_no_matrix() {
    let (golden, other) = (golden("run"), run(str::to_owned));
    let [golden, other] = [&golden, other.path()].map(|path| path.to_str().expect("a path is UTF-8"));
    let junit = testbed(&["report", golden, other, "--format", "junit"]);
    assert_eq!(junit.status.code(), Some(0), "{}", text(&junit.stderr));
    let junit = text(&junit.stdout);
    assert_eq!(junit.matches("<testsuite name=").count(), 2, "{junit}");
    assert!(
        junit.contains("<testsuite name=\"run\""),
        "called by its directory: {junit}"
    );
    let page = text(&testbed(&["report", golden, other, "--format", "html"]).stdout);
    assert!(page.contains("<h1>testbed: 2 runs</h1>"));
    let matrix = directory(&["redis-7.0.15"]);
    let matrix = matrix.path().to_str().expect("a path is UTF-8");
    for (words, told) in [
        (["report", golden, other, "--format", "json"], "as one JSON document"),
        (["report", golden, matrix, "--format", "html"], "directory of a matrix"),
    ] {
        let output = testbed(&words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(told) && stderr.contains("hint"), "{stderr}");
    }
}

#[test]
fn a_cell_that_is_missing_is_not_completed_and_holds_nothing() {
    let directory = directory(&["redis-7.0.15"]);
    let path = directory.path().to_str().expect("a path is UTF-8");
    let output = testbed(&["matrix", "--format", "json", "--judge", path]);
    assert_eq!(output.status.code(), Some(5));
    let versions: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(versions["kind"], "versions");
    assert_eq!(versions["incomplete"][0]["reason"], "it was not measured");
    for claim in versions["claims"].as_array().expect("there are claims") {
        assert_eq!(claim["tried"][1]["standing"], "inconclusive", "{claim}");
    }
}

/// The made-up run as a run directory of its own, with another history.
fn run(change: impl Fn(&str) -> String) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for name in ["history.jsonl", "manifest.json"] {
        let text = std::fs::read_to_string(golden("run").join(name)).expect("the golden run is whole");
        let text = if name == "history.jsonl" { change(&text) } else { text };
        std::fs::write(directory.path().join(name), text).expect("the copy can be written");
    }
    directory
}

fn compared(words: [&Path; 2], flags: &[&str]) -> (Option<i32>, String, String) {
    let words = words.map(|path| path.to_str().expect("a path is UTF-8"));
    let output = testbed(&[&["compare"], &words[..], flags].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_run_compared_with_itself_has_the_same_verdicts_and_the_same_environment() {
    let (code, stdout, stderr) = compared([&golden("run"), &golden("run")], &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.ends_with("The verdicts are the same.\n"), "{stdout}");
    assert!(stdout.contains("redis servers"), "{stdout}");
    assert!(!stdout.lines().any(|line| line.starts_with('*')), "{stdout}");
}

#[test]
fn a_verdict_that_moved_is_exit_code_10_and_claims_come_before_numbers() {
    let other = run(|history| history.replace("cache far, 40ms", "elsewhere"));
    let (code, stdout, _) = compared([&golden("run"), other.path()], &[]);
    assert_eq!(code, Some(10), "{stdout}");
    assert!(stdout.contains("holds -> inconclusive"), "{stdout}");
    let place = |what: &str| stdout.find(what).unwrap_or_else(|| panic!("no {what} in {stdout}"));
    assert!(place("Claims of block 7") < place("Times that moved") && place("Times that moved") < place("ENVIRONMENT"));
    let (code, stdout, _) = compared([&golden("run"), other.path()], &["--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    assert_eq!((code, &document["moved"]), (Some(10), &4.into()), "{document}");
}

#[test]
fn a_matrix_is_compared_release_by_release_and_only_blocks_of_both_count() {
    let (both, one) = (directory(&["redis-7.0.15", "valkey-9.1"]), golden("run"));
    let (code, stdout, _) = compared([both.path(), both.path()], &["--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    assert_eq!(
        (code, document["compared"].as_array().map(Vec::len)),
        (Some(0), Some(2))
    );
    let (code, stdout, _) = compared([both.path(), &one], &[]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("Only in one of them: valkey-9.1"), "{stdout}");
    let nothing = run(|history| history.replace("\"block\":7", "\"block\":99"));
    let (code, _, stderr) = compared([&one, nothing.path()], &[]);
    assert_eq!(code, Some(2), "a block that only one has is no claim of both: {stderr}");
    assert!(stderr.contains("no release and block that both measured"), "{stderr}");
}

#[test]
fn what_cannot_be_reproduced_is_told_before_the_engine_is_asked() {
    let matrix = directory(&[]);
    let matrix = matrix.path().to_str().expect("a path is UTF-8");
    for (run, told) in [(matrix, "it is a matrix"), ("tests/no-such-run", "no such directory")] {
        let output = testbed(&["reproduce", run]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(told) && stderr.contains("hint: "), "{stderr}");
    }
}
