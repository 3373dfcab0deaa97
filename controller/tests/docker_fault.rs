//! Faults of nodes on a real engine, as a user does them: paused, killed, stopped, started; a relay that is named; what is done
//! for a time is taken back after it and at an interruption; nothing of another lab, and nothing that is not a lab's, is met.
//!
//! `cargo test -p testbed --test docker_fault -- --ignored`

#![allow(clippy::unwrap_used)]

#[path = "shared/program.rs"]
mod program;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Far above what a step takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A lab that is removed whatever happens to the test.
struct Lab(String);

impl Lab {
    fn up() -> Self {
        // Several tests have one at the same time.
        static UP: AtomicU32 = AtomicU32::new(0);
        let number = UP.fetch_add(1, Ordering::Relaxed);
        let lab = Self(format!("test-fault-{}-{number}", std::process::id()));
        lab.ends(0, &["up", "topologies/two-dc.yaml", "-p", &lab.0]);
        lab
    }

    fn testbed(words: &[&str]) -> Command {
        let mut command = program::testbed();
        command
            .args(words)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
        command
    }

    #[track_caller]
    fn ends(&self, code: i32, words: &[&str]) -> (String, String) {
        let Output { status, stdout, stderr } = Self::testbed(words).output().unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(status.code(), Some(code), "{words:?}: {stderr}");
        (stdout, stderr)
    }

    /// A verb of `fault`: what it prints.
    #[track_caller]
    fn fault(&self, words: &[&str]) -> String {
        let words = [&["fault"], words, &["-p", &self.0]].concat();
        self.ends(0, &words).0
    }

    /// Health of a node, as `ps` shows it.
    #[track_caller]
    fn health(&self, node: &str) -> String {
        let (shown, _) = self.ends(0, &["ps", "--format", "json", "-p", &self.0]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let nodes = shown["nodes"].as_array().unwrap();
        let found = nodes.iter().find(|row| row["node"] == node).unwrap();
        found["health"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn becomes(&self, node: &str, health: &str) {
        let since = Instant::now();
        loop {
            let seen = self.health(node);
            if seen == health {
                return;
            }
            assert!(since.elapsed() < LIMIT, "{node} is {seen} and not {health}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = Self::testbed(&["down", "-y", "-p", &self.0]).output();
    }
}

#[test]
#[ignore = "needs a Docker engine"]
fn nodes_and_a_relay_are_paused_killed_stopped_and_come_back() {
    let lab = Lab::up();
    let shown = lab.fault(&["pause", "redis-near", "postgres"]);
    assert_eq!(shown.matches("paused").count(), 2, "{shown}");
    assert_eq!(lab.health("redis-near"), "paused");
    assert_eq!(lab.health("redis-far"), "ready");
    let (_, error) = lab.ends(5, &["fault", "kill", "redis-near", "redis-far", "-p", &lab.0]);
    assert!(
        error.contains("redis-near is paused") && error.contains("fault resume"),
        "{error}"
    );
    assert_eq!(
        lab.health("redis-far"),
        "ready",
        "nothing is done where something is wrong"
    );
    lab.fault(&["resume", "redis-near", "postgres"]);
    lab.becomes("redis-near", "ready");
    lab.becomes("postgres", "ready");

    assert!(lab.fault(&["kill", "redis-far"]).contains("exited"));
    assert_eq!(lab.health("redis-far"), "exited");
    assert!(lab.fault(&["start", "redis-far"]).contains("running"));
    lab.becomes("redis-far", "ready");
    assert!(lab.fault(&["stop", "postgres", "--grace", "5s"]).contains("exited"));
    lab.fault(&["start", "postgres"]);
    lab.becomes("postgres", "ready");

    let (_, error) = lab.ends(2, &["fault", "kill", "probe.dc1", "nobody", "-p", &lab.0]);
    assert!(
        error.contains("instrument") && error.contains("nobody") && error.contains("relay.dc1"),
        "{error}"
    );
    assert!(lab.fault(&["kill", "relay.dc2"]).contains("exited"));
    let (half, error) = lab.ends(5, &["ps", "-p", &lab.0]);
    assert!(
        half.contains("not asked") && error.contains("relay.dc2 is exited"),
        "{error}"
    );
    lab.fault(&["start", "relay.dc2"]);
    lab.becomes("redis-far", "ready");
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_fault_for_a_time_ends_after_it_and_with_an_interruption() {
    let lab = Lab::up();
    let began = Instant::now();
    let (shown, told) = lab.ends(0, &["fault", "pause", "redis-near", "--for", "1s", "-p", &lab.0]);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!(
        told.contains("paused; resume in 1s") && shown.contains("running"),
        "{told}{shown}"
    );
    let mut running = Lab::testbed(&["fault", "kill", "redis-far", "--for", "1h", "-p", &lab.0])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    lab.becomes("redis-far", "exited");
    let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(killed.unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    lab.becomes("redis-far", "ready");
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_lab_is_drawn_as_it_is() {
    let lab = Lab::up();
    lab.fault(&["pause", "redis-far"]);
    lab.ends(0, &["link", "cut", "dc1:dc2", "-p", &lab.0]);
    let (text, _) = lab.ends(0, &["graph", "-p", &lab.0]);
    assert!(
        text.contains("! paused") && text.contains("dc1 ─── X ──> dc2  delay=20ms  cut (drop)"),
        "{text}"
    );
    assert!(
        text.contains("redis-near     redis 7.0.15 replica  <- redis-primary"),
        "{text}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.svg");
    lab.ends(0, &["graph", "-o", &file.to_string_lossy(), "-p", &lab.0]);
    let svg = std::fs::read_to_string(file).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("cut (drop)") && svg.contains("paused"));
}
