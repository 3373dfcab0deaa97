//! A matrix on a real engine, killed and gone on with: what is complete stays as it is, what is half is measured anew, and
//! nothing of either is left. One release under two names, so that one image is enough.
//!
//! `cargo test -p testbed --test docker_matrix -- --ignored --test-threads=1`

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const RELEASES: &str = "redis-7.0.15,redis=testbed/redis:7.0.15";
/// Limit of one step, for a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

fn testbed(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < LIMIT, "{what} is not seen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn cells(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut cells: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    cells.sort();
    cells
}

/// Id of the run of a cell.
fn run_of(cell: &Path) -> Option<String> {
    let text = std::fs::read_to_string(cell.join("manifest.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_str(&text).ok()?;
    manifest["run"].as_str().map(str::to_owned)
}

fn left(run: &str) -> String {
    let label = format!("label=testbed.run={run}");
    let mut names = String::new();
    for kind in [&["ps", "-a"][..], &["network", "ls"], &["volume", "ls"]] {
        let output = Command::new("docker")
            .args(kind)
            .args(["-q", "--filter", &label])
            .output();
        names += &String::from_utf8_lossy(&output.expect("docker can be run").stdout);
    }
    names
}

/// Killed if the test ends before it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ended(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_matrix_that_was_killed_goes_on_and_measures_no_complete_cell_again() {
    let parent = tempfile::tempdir().expect("a temporary directory can be made");
    let path = parent.path().join("m");
    let place = path.to_str().expect("a path is UTF-8");
    let words = ["matrix", "--only", "10", "--release", RELEASES, "--out", place];
    let mut first = Killed(testbed(&words).spawn().expect("testbed runs"));
    // In the second cell, with its lab up.
    let (complete, half) = wait_for("the second lab", || {
        let cells = cells(&path);
        let history = std::fs::read_to_string(cells.get(1)?.join("history.jsonl")).ok()?;
        history
            .contains("block_started")
            .then(|| (run_of(&cells[0]), run_of(&cells[1])))
    });
    first.0.kill().expect("it can be killed");
    first.0.wait().expect("it ends");
    let (complete, half) = (complete.expect("it has an id"), half.expect("it has an id"));
    assert_ne!(left(&half), "", "a killed run leaves its lab");

    let output = testbed(&["matrix", "--resume", place]).output().expect("testbed runs");
    let stdout = ended(&output);
    // On a busy machine a claim may be undecided; that everything was measured is what counts here.
    assert!(
        matches!(output.status.code(), Some(0 | 10 | 11)),
        "{:?}: {stdout}",
        output.status
    );
    assert!(
        stdout.contains("Claims of block 10") && stdout.contains("0 not applicable"),
        "{stdout}"
    );
    let cells = cells(&path);
    assert_eq!(cells.len(), 2, "{cells:?}");
    assert_eq!(run_of(&cells[0]), Some(complete.clone()), "it is not measured again");
    let anew = run_of(&cells[1]).expect("it has an id");
    assert_ne!(anew, half, "it is measured anew");
    for run in [complete, half, anew] {
        assert_eq!(left(&run), "", "nothing is left of {run}");
    }
}
