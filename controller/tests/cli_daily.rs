//! Verbs of daily use that need no engine, from the outside: `init`, `man`, completion, help.

#[path = "shared/program.rs"]
mod program;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn command(directory: &Path, words: &[&str]) -> Command {
    let mut command = program::testbed();
    command
        .args(words)
        .current_dir(directory)
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .env("NO_COLOR", "1");
    command
}

fn testbed(directory: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    seen(&command(directory, words).output().expect("testbed runs"))
}

fn seen(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("testbed writes UTF-8");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What a shell is offered for the last of these words.
fn completed(host: &str, words: &[&str]) -> String {
    let output = command(Path::new("."), &[&["--", "testbed"], words].concat())
        .env("DOCKER_HOST", host)
        .env("TESTBED_COMPLETE", "fish")
        .output()
        .expect("testbed runs");
    seen(&output).1
}

#[test]
fn every_template_is_a_valid_topology_with_a_comment_under_any_name() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let names: Vec<&str> = testbed::commands::init::templates().collect();
    assert!(names.len() >= 6, "{names:?}");
    for name in names {
        let (code, stdout, stderr) = testbed(directory.path(), &["init", &format!("my-{name}"), "-t", name]);
        assert_eq!(code, Some(0), "{name}: {stderr}");
        let file = format!("my-{name}.yaml");
        assert!(stdout.contains(&format!("next: testbed up {file}")), "{stdout}");
        let (code, stdout, stderr) = testbed(directory.path(), &["validate", &file]);
        assert_eq!(code, Some(0), "{name}: {stdout}{stderr}");
        let text = std::fs::read_to_string(directory.path().join(&file)).expect("it was written");
        assert!(text.starts_with("# "), "{name} opens with a comment");
    }
}

#[test]
fn init_writes_over_nothing_and_names_the_templates_there_are() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(directory.path().join("two-dc.yaml"), "mine").expect("it can be written");
    let (code, stdout, stderr) = testbed(directory.path(), &["init"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("write two-dc.yaml: it is there already"), "{stderr}");
    let kept = std::fs::read_to_string(directory.path().join("two-dc.yaml")).expect("it is there");
    assert_eq!(kept, "mine");
    let (code, _, stderr) = testbed(directory.path(), &["init", "x", "-t", "absent"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("hint: there are two-dc, three-dc, cluster"), "{stderr}");
    let (code, stdout, _) = testbed(directory.path(), &["init", "--list"]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("\nsentinel "), "{stdout}");
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let (code, stdout, stderr) = testbed(directory.path(), &["man", "--out", "pages"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("pages: "), "{stdout}");
    for verb in testbed::cli::command()
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
    {
        let page = directory.path().join(format!("pages/testbed-{}.1", verb.get_name()));
        assert!(page.exists(), "{}", page.display());
    }
    let (code, stdout, _) = testbed(directory.path(), &["man"]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains(".TH testbed 1"), "{stdout}");
}

#[test]
fn completion_scripts_ask_the_program_and_verbs_are_offered() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, stdout, _) = testbed(Path::new("."), &["completions", shell]);
        assert_eq!(code, Some(0), "{shell}");
        assert!(stdout.contains("TESTBED_COMPLETE"), "{shell}: {stdout}");
    }
    let offered = completed("unix:///nonexistent/docker.sock", &["val"]);
    assert!(offered.starts_with("validate"), "{offered}");
}

#[test]
fn an_engine_that_hangs_offers_no_lab_and_costs_no_second() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let socket = directory.path().join("mute.sock");
    // Connections are accepted by the kernel and never answered.
    let _mute = std::os::unix::net::UnixListener::bind(&socket).expect("a socket can be made");
    let begun = Instant::now();
    let offered = completed(&format!("unix://{}", socket.display()), &["ps", "-p", ""]);
    let took = begun.elapsed();
    assert_eq!(offered.trim(), "");
    // 300 ms are the limit; the rest is for a busy machine, far below the client's own limit of minutes.
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(took >= Duration::from_millis(250), "the engine was asked: {took:?}");
}

#[test]
fn the_help_has_verbs_in_groups_and_a_misspelt_verb_a_suggestion() {
    let (code, stdout, _) = testbed(Path::new("."), &["--help"]);
    assert_eq!(code, Some(0));
    for title in [
        "Labs:",
        "Links and faults:",
        "Measuring:",
        "Files:",
        "Machine:",
        "Options:",
    ] {
        assert!(stdout.contains(&format!("\n{title}\n")), "{stdout}");
    }
    let (code, _, stderr) = testbed(Path::new("."), &["valdate"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("'validate'"), "{stderr}");
    let (_, stdout, _) = testbed(Path::new("."), &["up", "--help"]);
    assert!(stdout.contains("Examples:\n"), "{stdout}");
}
