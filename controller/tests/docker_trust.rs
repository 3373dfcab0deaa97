//! Negative controls on a real engine: the instrument is broken on purpose, a block is run, and its table must be suspect or
//! void for the right reason, with no verdict that the defect made. What is broken is one thing each time.
//!
//! The block runs as a user runs it, the defect comes from here, by an attachment of its own to the same lab.
//!
//! `cargo test -p testbed --test docker_trust -- --ignored --test-threads=1`

#![allow(clippy::unwrap_used)]

#[path = "shared/lab.rs"]
mod ours;

use ours::{Ours, dc};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testbed::lab::{Lab, Only};
use wire::{CutKind, Defect, ProbeOrder};

const MS: u64 = 1_000_000;
/// Limit of a step of a block, for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// `testbed run` of one block on a lab that is up.
struct Run {
    child: Child,
    directory: tempfile::TempDir,
}

impl Run {
    fn start(lab: &Lab, block: u8, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_testbed"))
            .args(["run", "-q", "-p", lab.name().as_str(), "--only", &block.to_string()])
            .arg("--out")
            .arg(directory.path().join("run"))
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self { child, directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join("run").join(name)
    }

    /// Waits until the history tells of something.
    async fn reaches(&self, event: &str) {
        let began = Instant::now();
        loop {
            let history = std::fs::read_to_string(self.file("history.jsonl")).unwrap_or_default();
            if history.contains(event) {
                return;
            }
            assert!(began.elapsed() < LIMIT, "no {event} in {history}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for its end: the report of its only block.
    async fn ends(mut self) -> Block {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < 2 * LIMIT, "the run goes on and on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let report = std::fs::read_to_string(self.file("report.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        Block(report["blocks"][0].clone())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Fails if it has ended, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A block's part of a report.
struct Block(Value);

impl Block {
    fn reasons(&self, trust: &str) -> Vec<&str> {
        let reasons = self.0["trust"][trust].as_array();
        reasons.map_or_else(Vec::new, |reasons| reasons.iter().filter_map(Value::as_str).collect())
    }

    /// The line of evidence that begins so.
    #[track_caller]
    fn evidence(&self, begin: &str) -> &str {
        let lines = self.0["evidence"].as_array().unwrap();
        let line = lines
            .iter()
            .filter_map(Value::as_str)
            .find(|line| line.starts_with(begin));
        line.unwrap_or_else(|| panic!("no {begin} in {lines:?}"))
    }

    fn verdicts(&self) -> Vec<&str> {
        let findings = self.0["findings"].as_array().unwrap();
        findings
            .iter()
            .filter_map(|finding| finding["verdict"].as_str())
            .collect()
    }

    /// Void for this reason among others, and nothing decided in either direction.
    #[track_caller]
    fn assert_void(&self, why: &str) {
        let reasons = self.reasons("void");
        assert!(
            reasons.iter().any(|reason| reason.contains(why)),
            "no `{why}` in {:#}",
            self.0["trust"]
        );
        let verdicts = self.verdicts();
        assert!(!verdicts.is_empty());
        assert!(
            verdicts.iter().all(|verdict| *verdict == "inconclusive"),
            "{verdicts:?}"
        );
    }

    /// Suspect or void for one of these reasons, and nothing diverged.
    #[track_caller]
    fn assert_doubted(&self, why: &[&str]) {
        let reasons = [self.reasons("void"), self.reasons("suspect")].concat();
        assert!(
            reasons.iter().any(|reason| why.iter().any(|why| reason.contains(why))),
            "none of {why:?} in {:#}",
            self.0["trust"]
        );
        let verdicts = self.verdicts();
        assert!(!verdicts.contains(&"diverged"), "{:#}", self.0["findings"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_relay_that_hides_3_ms_is_found_before_the_block() {
    let lab = Ours::raise("trust-hidden").await;
    let defect = Defect::ExtraDelay { delay_ns: 3 * MS };
    lab.sabotage(&dc("dc1"), &dc("dc2"), Some(defect)).await.unwrap();
    let block = Run::start(&lab, 2, &[]).ends().await;
    block.assert_void("calibration: the link from dc1 to dc2 was");
    block.assert_void("the link from dc1 to dc2 is");
    let findings = block.0["findings"].as_array().unwrap();
    let told = findings.iter().any(|finding| finding["cause"] == "instrument");
    assert!(told, "a hidden error is never excused by a busy host: {findings:#?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_relay_that_stops_delaying_in_mid_block_and_a_freeze_in_place_of_a_cut_are_void() {
    let lab = Ours::raise("trust-short").await;
    let run = Run::start(&lab, 2, &[]);
    run.reaches("\"sync_full_before_count\"").await;
    let (from, to) = (dc("dc2"), dc("dc1"));
    lab.sabotage(&from, &to, Some(Defect::NoDelay)).await.unwrap();
    run.ends().await.assert_void("packets from dc2 to dc1 left early");
    lab.sabotage(&from, &to, None).await.unwrap();

    let frozen = Run::start(&lab, 2, &["--cut-by", "freeze"]).ends().await;
    frozen.assert_void("no cut took place: the link was frozen");
    for round in frozen.0["table"]["rows"].as_array().unwrap() {
        assert_eq!(
            (&round[3], &round[4]),
            (&"200".into(), &"0".into()),
            "late is not lost: {round}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_cut_that_leaks_in_one_direction_is_void() {
    let lab = Ours::raise("trust-leak").await;
    lab.sabotage(&dc("dc1"), &dc("dc2"), Some(Defect::LeakyCut))
        .await
        .unwrap();
    let block = Run::start(&lab, 2, &[]).ends().await;
    block.assert_void("the cut leaks");
    let leaks = block.reasons("void");
    let leaks: Vec<&&str> = leaks.iter().filter(|reason| reason.contains("leaks")).collect();
    assert!(
        leaks.iter().all(|reason| reason.contains("from dc1 to dc2")),
        "{leaks:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_cut_of_ports_keeps_a_block_from_beginning_and_one_in_its_middle_is_void_and_healed_in_the_end() {
    let lab = Ours::raise("trust-ports").await;
    let (one, other) = (dc("dc1"), dc("dc2"));
    let postgres = Only::Ports(vec![5432]);
    lab.cut_ports(&one, &other, &postgres, CutKind::Drop).await.unwrap();
    let refused = Run::start(&lab, 10, &[]).ends().await;
    let error = refused.0["error"].as_str().unwrap();
    assert!(error.contains("the link from dc1 to dc2 is cut (5432)"), "{error}");
    lab.heal(&one, &other).await.unwrap();

    let run = Run::start(&lab, 10, &[]);
    run.reaches("\"rtt\"").await;
    // The block does not use the database: what it measures is as it was.
    lab.cut_ports(&one, &other, &postgres, CutKind::Drop).await.unwrap();
    run.ends().await.assert_void("the ports cut were 5432 instead of none");
    let left = lab.link(&one, &other).await.unwrap();
    assert!(left.status.port_cut().is_none(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_probe_without_nodelay_is_void() {
    let lab = Ours::raise("trust-nagle").await;
    let order = ProbeOrder::Sabotage { no_nodelay: true };
    lab.probe(&dc("dc1")).order(order, LIMIT).await.unwrap();
    Run::start(&lab, 2, &[])
        .ends()
        .await
        .assert_void("TCP_NODELAY of the probe was off");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_relay_killed_in_mid_block_is_void_and_ends_it_at_once() {
    let lab = Ours::raise("trust-killed").await;
    let run = Run::start(&lab, 10, &[]);
    run.reaches("\"rtt\"").await;
    let killed = Command::new("docker")
        .args(["kill", &lab.datacenter(&dc("dc2")).relay])
        .stdout(Stdio::null())
        .status();
    assert!(killed.unwrap().success());
    let since = Instant::now();
    let block = run.ends().await;
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    block.assert_void("the relay of dc2 stopped answering in the middle of the block");
    assert!(block.0["error"].is_string());
}

/// Threads that do nothing as fast as they can, until dropped, and never for more than a minute.
struct Thieves(Arc<AtomicBool>);

impl Thieves {
    fn begin() -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().unwrap().get();
        for _ in 0..2 * cores {
            let done = Arc::clone(&done);
            std::thread::spawn(move || {
                let began = Instant::now();
                while !done.load(Ordering::Relaxed) && began.elapsed() < LIMIT {
                    std::hint::spin_loop();
                }
            });
        }
        Self(done)
    }
}

impl Drop for Thieves {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn a_host_whose_cores_are_stolen_is_told_and_nothing_diverges() {
    let lab = Ours::raise("trust-stolen").await;
    let thieves = Thieves::begin();
    let block = Run::start(&lab, 10, &[]).ends().await;
    drop(thieves);
    block.assert_doubted(&["the host is busy", "is busy: "]);
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn a_node_that_stands_in_two_datacenters_voids_and_a_usual_lab_has_every_connection_in_its_relay() {
    let lab = Ours::raise("bypass").await;
    let block = Run::start(&lab, 2, &[]).ends().await;
    let told = block.evidence("peers");
    assert!(told.contains("servers asked 3, kernel tables read 4)"), "{told}");
    assert!(!told.starts_with("peers 0 "), "{told}");
    assert!(block.reasons("void").is_empty(), "{:?}", block.reasons("void"));

    let network = format!("tb-{}.dc1", lab.name());
    let far = format!("tb-{}-redis-far", lab.name());
    let docker = |words: &[&str]| {
        let done = Command::new("docker").args(words).status().unwrap();
        assert!(done.success(), "{words:?}");
    };
    docker(&["network", "connect", &network, &far]);
    let block = Run::start(&lab, 2, &[]).ends().await;
    docker(&["network", "disconnect", &network, &far]);
    let reasons = block.reasons("void").join("; ");
    assert!(
        reasons.contains("redis-far (dc2) stands in the network of dc1 too"),
        "{reasons}"
    );
    assert!(
        block.verdicts().iter().all(|verdict| *verdict == "inconclusive"),
        "{reasons}"
    );
}
