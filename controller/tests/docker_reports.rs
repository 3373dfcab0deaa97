//! What a run leaves on a real engine for people: the page of block 8 shows the course of the cut as both halves saw it, with the
//! moments at which the setting was changed.
//!
//! `cargo test -p testbed --test docker_reports -- --ignored`

use std::process::Command;

#[test]
#[ignore = "needs a Docker engine"]
fn block_8_shows_its_course_with_the_changes_of_the_setting() {
    let parent = tempfile::tempdir().expect("a temporary directory can be made");
    let run = parent.path().join("run");
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["run", "--only", "8", "--out"])
        .arg(&run)
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .expect("testbed runs");
    // On a busy machine a claim may be undecided; that the halves were watched is what counts here.
    assert!(
        matches!(output.status.code(), Some(0 | 11)),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let page = std::fs::read_to_string(run.join("report.html")).expect("the page is written");
    for part in [
        "Course of the parting: cut",
        "dc1: 2 of 3 masters",
        "cluster-allow-reads-when-down is set",
        "text-anchor=\"middle\">yes</text>",
    ] {
        assert!(page.contains(part), "{part}");
    }
}
