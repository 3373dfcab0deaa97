//! The verbs that need no engine, from the outside: what goes to stdout and stderr, and the exit codes.
//!
//! The engine is one that does not exist. What a wrong topology prints is tested in `golden`.

#[path = "shared/program.rs"]
mod program;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TWO_DC: &str = "topologies/two-dc.yaml";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn command(words: &[&str]) -> Command {
    let mut command = program::testbed();
    command
        .args(words)
        .current_dir(root())
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .env("NO_COLOR", "1");
    command
}

fn testbed(words: &[&str]) -> (Option<i32>, String, String) {
    seen(&command(words).output().expect("testbed runs"))
}

fn seen(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("testbed writes UTF-8");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn with_stdin(words: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut child = command(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("testbed runs");
    // A reader that stopped early is no failure of the test: it may refuse what is too long.
    let _ = child.stdin.take().expect("stdin is a pipe").write_all(input);
    seen(&child.wait_with_output().expect("testbed ends"))
}

#[test]
fn help_and_version_are_results_and_no_errors() {
    for word in ["--help", "--version"] {
        let (code, stdout, stderr) = testbed(&[word]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{word}");
        assert!(stdout.contains("testbed"), "{word}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for words in [
        &["raise"][..],
        &["plan"],
        &["validate"],
        &["plan", "--lab", "Not A Name", TWO_DC],
        &["plan", TWO_DC, "--release", "redis-0.0.1"],
        &["plan", TWO_DC, "--release", "redis-7.0.15,valkey-9.1"],
    ] {
        let (code, stdout, stderr) = testbed(words);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{words:?}: {stderr}");
        assert!(!stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn stopped_halves_need_a_block_that_parts_them_and_a_lab_of_the_runs_own() {
    for (words, text, hint) in [
        (&["--only", "1,8"][..], "no block of these does it", "--only 4,5,6"),
        (
            &["-p", "mine"],
            "what is in it would be lost",
            "leave out -p: the run makes labs of its own",
        ),
    ] {
        let (code, stdout, stderr) = testbed(&[&["run", "--method", "stop"], words].concat());
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{words:?}: {stderr}");
        let flat = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(text) && flat.contains(hint), "{words:?}: {stderr}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_exit_code_2_with_the_reason() {
    for (path, reason) in [
        ("topologies/absent.yaml", "No such file"),
        ("topologies", "Is a directory"),
    ] {
        for verb in ["validate", "plan"] {
            let (code, stdout, stderr) = testbed(&[verb, path]);
            assert_eq!((code, stdout.as_str()), (Some(2), ""), "{verb} {path}: {stderr}");
            assert!(
                stderr.contains(path) && stderr.contains(reason),
                "{verb} {path}: {stderr}"
            );
            assert!(stderr.contains("hint:"), "{verb} {path}: {stderr}");
        }
    }
}

#[test]
fn a_dash_reads_stdin() {
    let text = std::fs::read(root().join(TWO_DC)).expect("the topology is there");
    let (code, stdout, _) = with_stdin(&["validate", "-"], &text);
    assert_eq!(code, Some(0));
    assert_eq!(stdout, "<stdin>: ok (2 datacenters, 4 nodes)\n");
    let (code, stdout, _) = with_stdin(&["plan", "-", "-p", "mine"], &text);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("tb-mine-redis-primary"), "{stdout}");
    let (code, _, stderr) = with_stdin(&["validate", "-"], b"");
    assert_eq!(code, Some(3));
    assert!(stderr.contains("<stdin>:1:1: the file is empty"), "{stderr}");
}

#[test]
fn what_is_no_text_or_too_long_is_exit_code_3() {
    let long = vec![b'#'; 3 << 20];
    let cut = "ä".repeat(1 << 20);
    for (input, reason) in [
        (&b"version: 1\nname: \xff\xfe\n"[..], "line 2 is not UTF-8"),
        (&long, "of any topology"),
        (cut.as_bytes(), "of any topology"),
    ] {
        for verb in ["validate", "plan"] {
            let (code, stdout, stderr) = with_stdin(&[verb, "-"], input);
            assert_eq!((code, stdout.as_str()), (Some(3), ""), "{verb}");
            assert!(stderr.contains(reason) && stderr.len() < 1000, "{verb}: {stderr}");
        }
    }
}

#[test]
fn several_files_are_all_checked_and_one_wrong_one_is_exit_code_3() {
    let bad = "controller/tests/golden/bad/no-link.yaml";
    let (code, stdout, stderr) = testbed(&["validate", bad, TWO_DC, bad]);
    assert_eq!(code, Some(3));
    assert_eq!(stdout, format!("{TWO_DC}: ok (2 datacenters, 4 nodes)\n"));
    assert_eq!(stderr.matches(&format!("{bad}: 1 problem")).count(), 2, "{stderr}");
}

#[test]
fn json_is_one_document_with_every_file() {
    let bad = "controller/tests/golden/bad/no-link.yaml";
    let (code, stdout, stderr) = testbed(&["--format", "json", "validate", TWO_DC, bad]);
    assert_eq!((code, stderr.as_str()), (Some(3), ""));
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    assert_eq!(document["schema"], "testbed/v1");
    assert_eq!(document["kind"], "validate");
    assert_eq!(document["files"][0]["valid"], true);
    assert_eq!(document["files"][0]["lab"], "two-dc");
    let problem = &document["files"][1]["problems"][0];
    assert_eq!(problem["code"], "no-link");
    assert_eq!((&problem["line"], &problem["column"]), (&4.into(), &3.into()));
    assert_eq!(problem["snippet"], "  dc2:");
}

#[test]
fn plan_needs_no_engine_and_with_exit_code_it_does() {
    let (code, stdout, stderr) = testbed(&["plan", TWO_DC]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(
        stdout.contains("lab two-dc: 3 networks, 4 volumes, 8 containers"),
        "{stdout}"
    );
    let (code, stdout, stderr) = testbed(&["plan", "--exit-code", TWO_DC]);
    assert_eq!((code, stdout.as_str()), (Some(4), ""));
    assert!(
        stderr.contains("/nonexistent/docker.sock") && stderr.contains("hint:"),
        "{stderr}"
    );
}

#[test]
fn a_release_of_the_command_line_holds_for_its_kind_of_server() {
    let (code, stdout, _) = testbed(&["plan", TWO_DC, "--release", "valkey-9.1,postgres=pg:mine"]);
    assert_eq!(code, Some(0));
    let image = |container: &str| {
        let line = stdout
            .lines()
            .find(|line| line.starts_with(container))
            .expect("a line of it");
        line.split_whitespace().last().expect("an image").to_owned()
    };
    assert_eq!(image("tb-two-dc-redis-far "), "testbed/valkey:9.1");
    assert_eq!(image("tb-two-dc-postgres "), "pg:mine");
}

#[test]
fn what_link_cannot_mean_is_told_before_the_engine_is_asked() {
    for (words, told) in [
        (
            &["set", "dc1-dc2", "speed=1"][..],
            "known conditions: delay, jitter, loss",
        ),
        (&["set", "dc1-dc2", "loss=1"], "write `1%`"),
        (&["set", "dc1-dc2", "jitter=gamma:2ms"], "normal:1ms"),
        (&["set", "dc1-dc2", "delay=5ms", "delay=6ms"], "twice"),
        (&["set", "dc1", "delay=5ms"], "dc1:dc2 the one"),
        (&["set", "dc1-dc2"], "KEY=VALUE"),
        (&["cut", "dc1-dc2", "--kind", "hard"], "drop, reset, close"),
        (
            &["cut", "dc1-dc2", "--only", "buss"],
            "neither `clients` nor `bus` nor a port",
        ),
        (&["cut", "dc1-dc2", "--only", "6379,0"], "`0` is neither"),
        (
            &["cut", "dc1-dc2", "--only", "bus", "--kind", "close"],
            "--kind drop or reset",
        ),
        (&["play", "dc1-dc2", "cut at 5s"], "write `at 5s cut`"),
        (&["play", "dc1-dc2", "at 8s cut, at 5s heal"], "order of their times"),
        (&["mode", "proxy"], "packet, stream"),
        (&["mode", "stream", "--order", "random"], "pipelined, serialising"),
        (&["sabotage", "dc1:dc2", "leak"], "leaky-cut"),
    ] {
        let (code, stdout, stderr) = testbed(&[&["link"], words].concat());
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{words:?}: {stderr}");
        assert!(stderr.contains(told), "{words:?}: {stderr}");
    }
    let (code, _, stderr) = testbed(&["link", "set", "dc1-dc2", "delay=5ms", "loss=1%:burst:4", "--flush"]);
    assert_eq!(code, Some(4), "{stderr}");
}

#[test]
fn link_help_shows_every_condition_and_not_the_sabotage() {
    let (code, stdout, _) = testbed(&["link", "set", "--help"]);
    assert_eq!(code, Some(0));
    for key in testbed::conditions::Key::ALL {
        let example = stdout
            .lines()
            .any(|line| line.trim_start().starts_with(&format!("{}=", key.as_str())));
        assert!(example, "{}: {stdout}", key.as_str());
    }
    let (_, stdout, _) = testbed(&["link", "--help"]);
    assert!(stdout.contains("freeze") && !stdout.contains("sabotage"), "{stdout}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = command(&["schema"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("testbed runs");
    drop(child.stdout.take());
    let (code, _, stderr) = seen(&child.wait_with_output().expect("testbed ends"));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

/// A lab that is removed whatever happens to the test.
struct Lab(String);

impl Lab {
    /// Runs a verb for this lab on the real engine.
    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = command(words);
        command.args(["-p", &self.0]).env_remove("DOCKER_HOST");
        seen(&command.output().expect("testbed runs"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.run(&["down"]);
    }
}

#[test]
#[ignore = "needs a Docker engine"]
fn plan_knows_what_is_up_and_what_a_changed_topology_would_change() {
    let lab = Lab(format!("pending{}", std::process::id()));
    let pending = |text: &str| {
        let mut file = tempfile::NamedTempFile::new().expect("a file can be made");
        file.write_all(text.as_bytes()).expect("it can be written");
        let path = file.path().to_string_lossy().into_owned();
        lab.run(&["plan", "--exit-code", &path])
    };
    let two_dc = std::fs::read_to_string(root().join(TWO_DC)).expect("the topology is there");
    let named = format!("name: any\n{two_dc}");
    let (code, stdout, stderr) = pending(&named);
    assert_eq!(code, Some(20), "{stdout}{stderr}");
    assert!(
        stdout.contains(&format!("make   node tb-{}-redis-far", lab.0)),
        "{stdout}"
    );
    let (code, _, stderr) = lab.run(&["up", TWO_DC]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stdout, stderr) = pending(&named);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.ends_with("nothing is pending\n"), "{stdout}");
    let (code, stdout, _) = pending(&named.replace("20ms", "30ms"));
    assert_eq!(code, Some(20));
    let pending: Vec<&str> = stdout.lines().skip_while(|line| *line != "pending").skip(1).collect();
    assert_eq!(pending, ["  set    dc1:dc2 delay=30ms", "  set    dc2:dc1 delay=30ms"]);
}
