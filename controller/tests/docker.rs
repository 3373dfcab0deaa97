//! Labs on a real engine: raised, measured, changed, cut, healed and lowered. Times are bounds, never "about": a round trip
//! cannot be shorter than its two delays, and the upper bounds leave a busy machine a multiple.
//!
//! `cargo test -p testbed --test docker -- --ignored --test-threads=1`

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testbed::cli::{Color, Format, ReleaseArg};
use testbed::commands::prepare::{self, Ground};
use testbed::commands::source;
use testbed::docker::{Docker, Engine};
use testbed::lab::{self, Lab, ServerState};
use testbed::names::{DatacenterName, LabName, NodeName};
use testbed::probe::Samples;
use testbed::progress::Progress;
use testbed::replication::{Survival, SyncCounters};
use testbed::stop::Stop;
use wire::{CutKind, Load, Operation, Pace, ProbeAnswer, ProbeOrder, Reply, Sample, Transport};

const MS: u64 = 1_000_000;
/// One-way delay of topologies/two-dc.yaml.
const DELAY: u64 = 20 * MS;
/// What a busy machine may add to a median round trip.
const SLACK: u64 = 15 * MS;

fn topology() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies/two-dc.yaml")
}

fn lab_name(text: &str) -> LabName {
    LabName::new(&format!("test-{text}-{}", std::process::id())).unwrap()
}

fn dc(name: &str) -> DatacenterName {
    DatacenterName::new(name).unwrap()
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

async fn ground() -> Ground {
    let source = source::read(&topology(), Format::Text, Color::Never).unwrap();
    let releases = prepare::releases(&source.topology, &ReleaseArg { release: Vec::new() }).unwrap();
    let docker = Docker::connect(None).await.unwrap();
    Ground::prepare(docker, source, releases, &Progress::silent())
        .await
        .unwrap()
}

async fn raise(ground: &Ground, name: &LabName) -> Lab {
    let limit = Duration::from_secs(60);
    let raised = ground
        .raise(name, None, &Progress::silent(), &Stop::never(), limit)
        .await;
    raised.unwrap_or_else(|error| panic!("{error:?}"))
}

async fn left(docker: &Docker, name: &LabName) -> Vec<String> {
    let objects = docker.list(&lab::labels_of(Some(name))).await.unwrap();
    objects.into_iter().map(|object| object.name).collect()
}

/// Round trips between the probes, over UDP: the links without any server.
async fn echo(lab: &Lab, from: &str, to: &str, count: u32) -> Samples {
    let target = lab.datacenter(&dc(to)).probe_address;
    let probe = lab.probe(&dc(from));
    let timeout = Duration::from_millis(500);
    probe
        .echo(target, Transport::Udp, 1, count, Duration::ZERO, timeout)
        .await
        .unwrap()
}

fn took(samples: &[Sample]) -> Vec<u64> {
    let mut took: Vec<u64> = samples
        .iter()
        .map(|sample| sample.ended_ns - sample.started_ns)
        .collect();
    took.sort_unstable();
    took
}

#[track_caller]
fn assert_round_trips(samples: &Samples, delay_ns: u64) {
    assert_eq!(samples.failures, [], "{:?}", took(&samples.samples));
    let took = took(&samples.samples);
    assert!(
        took[0] >= 2 * delay_ns,
        "a round trip shorter than two delays: {took:?}"
    );
    let median = took[took.len() / 2];
    assert!(median < 2 * delay_ns + SLACK, "median {median} ns of {took:?}");
}

/// PINGs on one connection, 5 ms apart.
fn pings(lab: &Lab, target: &str, count: u32, timeout: Duration) -> ProbeOrder {
    ProbeOrder::Load(Load {
        target: lab.target(&node(target)),
        operation: Operation::Ping,
        connections: 1,
        warmup: 1,
        count,
        for_ns: None,
        pace: Pace::Closed { pause_ns: 5 * MS },
        timeout_ns: u64::try_from(timeout.as_nanos()).unwrap(),
    })
}

async fn state(lab: &Lab, name: &str) -> ServerState {
    let seen = lab.look().await;
    let seen = seen.into_iter().find(|seen| seen.node == node(name)).unwrap();
    seen.state.unwrap()
}

async fn present(lab: &Lab, count: u32) -> usize {
    let order = ProbeOrder::Audit {
        target: lab.target(&node("redis-far")),
        prefix: "cut:".to_owned(),
        count,
        timeout_ns: 2000 * MS,
    };
    match lab
        .probe(&dc("dc2"))
        .order(order, Duration::from_secs(10))
        .await
        .unwrap()
    {
        ProbeAnswer::Present(present) => present.len(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn two_labs_of_one_topology_live_side_by_side_and_leave_nothing() {
    let ground = ground().await;
    let (one, other) = (lab_name("one"), lab_name("other"));
    let (lab, beside) = tokio::join!(raise(&ground, &one), raise(&ground, &other));
    let versions: BTreeMap<&str, &str> = lab
        .servers()
        .iter()
        .map(|seen| (seen.node.as_str(), seen.version.as_str()))
        .collect();
    assert_eq!(versions.len(), 4, "{versions:?}");
    for lab in [&lab, &beside] {
        assert_round_trips(&echo(lab, "dc1", "dc2", 9).await, DELAY);
        assert_round_trips(&echo(lab, "dc2", "dc1", 9).await, DELAY);
    }

    a_changed_delay_holds_at_once(&lab).await;
    assert_round_trips(&echo(&beside, "dc1", "dc2", 9).await, DELAY);
    a_cut_stops_everything_and_a_heal_loses_nothing(&lab, &beside).await;

    let again = lab::find(&ground.engines(), Some(&one)).await.unwrap();
    assert_eq!(again.plan, lab.plan, "the plan survives its label");
    let Err(refused) = lab::find(&ground.engines(), Some(&lab_name("absent"))).await else {
        panic!("an absent lab was found");
    };
    assert!(refused.to_string().contains(one.as_str()), "{refused}");

    let (lowered, beside) = tokio::join!(lab.lower(), beside.lower());
    assert_eq!(lowered.unwrap().removed, beside.unwrap().removed);
    for name in [&one, &other] {
        assert_eq!(left(&ground.docker, name).await, [""; 0]);
    }
}

/// For packets of an open connection and for new ones.
async fn a_changed_delay_holds_at_once(lab: &Lab) {
    let open = pings(lab, "redis-far", 20, Duration::from_secs(2));
    let probe = lab.probe(&dc("dc1"));
    let (samples, changed) = tokio::join!(probe.samples(open, Duration::from_secs(20)), async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        lab.set_delay_both(&dc("dc1"), &dc("dc2"), 60 * MS).await.unwrap()
    });
    let samples = samples.unwrap().samples;
    // Stamps of the relay and of the probe are of one clock.
    let at = changed.iter().map(|link| link.now_ns).max().unwrap();
    let (before, after): (Vec<Sample>, Vec<Sample>) = samples.iter().partition(|sample| sample.started_ns < at);
    assert!(
        before.len() > 2 && after.len() > 2,
        "{} and {}",
        before.len(),
        after.len()
    );
    assert!(took(&before)[0] < 60 * MS, "{:?}", took(&before));
    assert!(took(&after)[0] >= 120 * MS, "{:?}", took(&after));
    let new = pings(lab, "redis-far", 3, Duration::from_secs(2));
    let new = probe.samples(new, Duration::from_secs(10)).await.unwrap();
    assert!(took(&new.samples)[0] >= 120 * MS);
    assert_round_trips(&echo(lab, "dc2", "dc1", 5).await, 60 * MS);
    lab.set_delay_both(&dc("dc1"), &dc("dc2"), DELAY).await.unwrap();
    assert_round_trips(&echo(lab, "dc1", "dc2", 5).await, DELAY);
}

async fn a_cut_stops_everything_and_a_heal_loses_nothing(lab: &Lab, beside: &Lab) {
    const KEYS: u32 = 200;
    let before = state(lab, "redis-primary").await.counters.unwrap();
    let cut = lab.cut_both(&dc("dc1"), &dc("dc2"), CutKind::Drop).await.unwrap();
    assert!(cut.iter().all(|link| link.status.cut == Some(CutKind::Drop)));
    for (from, to) in [("dc1", "dc2"), ("dc2", "dc1")] {
        let lost = echo(lab, from, to, 2).await;
        assert_eq!(lost.samples, [], "{from} to {to}");
    }
    let far = pings(lab, "redis-far", 1, Duration::from_millis(500));
    let outcome = lab.probe(&dc("dc1")).samples(far, Duration::from_secs(10)).await;
    assert!(
        outcome.is_err() || outcome.is_ok_and(|seen| seen.samples.is_empty()),
        "no way across"
    );
    for (from, target) in [("dc1", "redis-near"), ("dc2", "redis-far")] {
        let near = pings(lab, target, 3, Duration::from_secs(1));
        let near = lab
            .probe(&dc(from))
            .samples(near, Duration::from_secs(10))
            .await
            .unwrap();
        assert_eq!(
            (near.samples.len(), near.failures.len()),
            (3, 0),
            "{target} from {from}"
        );
    }
    assert_round_trips(&echo(beside, "dc1", "dc2", 5).await, DELAY);

    let ledger = ProbeOrder::Ledger {
        target: lab.target(&node("redis-primary")),
        prefix: "cut:".to_owned(),
        count: KEYS,
        value_bytes: 64,
        pace: Pace::Closed { pause_ns: 0 },
        timeout_ns: 1000 * MS,
    };
    let written = lab
        .probe(&dc("dc1"))
        .order(ledger, Duration::from_secs(10))
        .await
        .unwrap();
    let ProbeAnswer::Ledger { writes, .. } = written else {
        panic!("{written:?}");
    };
    assert!(writes.iter().all(|write| write.acknowledged_ns.is_some()));
    assert_eq!(present(lab, KEYS).await, 0, "nothing crosses a cut");

    let healed = lab.heal_both(&dc("dc1"), &dc("dc2")).await.unwrap();
    assert!(healed.iter().all(|link| link.status.cut.is_none()));
    let since = Instant::now();
    // TCP's own backoff can take as long as the cut lasted; the connection is acknowledged once a second.
    let survived = loop {
        let (nodes, links) = tokio::join!(lab.look(), lab.links());
        let seen = lab
            .replica_seen(&node("redis-far"), &nodes, &links.unwrap(), Some(before))
            .unwrap();
        if present(lab, KEYS).await == 200 && seen.survival != Survival::Silent {
            break seen;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{seen:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(survived.survival, Survival::Resumed, "{survived:?}");
    assert_eq!(survived.counters, Some(before), "nothing was synchronised again");
    a_connection_made_anew_is_told_from_one_that_resumed(lab, before).await;
}

async fn a_connection_made_anew_is_told_from_one_that_resumed(lab: &Lab, before: SyncCounters) {
    let kill = ["CLIENT", "KILL", "TYPE", "replica"];
    let primary = lab.target(&node("redis-primary"));
    let killed = lab
        .probe(&dc("dc1"))
        .redis(primary, &kill, Duration::from_secs(2))
        .await;
    assert_eq!(killed.unwrap(), Reply::Integer(2));
    let since = Instant::now();
    // Ages of connections are rounded to a second: until one is clearly younger than the heal, the answer is `Unclear`.
    let survived = loop {
        let (nodes, links) = tokio::join!(lab.look(), lab.links());
        let seen = lab
            .replica_seen(&node("redis-far"), &nodes, &links.unwrap(), Some(before))
            .unwrap();
        if seen.survival == Survival::Partial || since.elapsed() > Duration::from_secs(15) {
            break seen;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(survived.survival, Survival::Partial, "{survived:?}");
    assert_eq!(survived.counters.unwrap().full, before.full);
}

fn testbed(arguments: &[&str]) -> Output {
    let command = Command::new(env!("CARGO_BIN_EXE_testbed")).args(arguments).output();
    command.expect("testbed runs")
}

#[track_caller]
fn ends(arguments: &[&str], code: i32) -> String {
    let output = testbed(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn the_verbs_raise_show_change_and_remove_a_lab() {
    let docker = Docker::connect(None).await.unwrap();
    let name = lab_name("verbs");
    let file = topology();
    let file = file.to_str().unwrap();
    let lab = ["-p", name.as_str()];
    let with = |words: &[&'static str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        words.chain(lab.map(str::to_owned)).collect()
    };
    let run = |words: &[&'static str], code: i32| {
        let words = with(words);
        ends(&words.iter().map(String::as_str).collect::<Vec<_>>(), code)
    };
    an_up_that_nobody_listens_to_makes_a_whole_lab(file, &name);
    assert!(ends(&["up", file, "-p", name.as_str()], 0).contains("is up already"));
    let other = ends(
        &["up", file, "-p", name.as_str(), "--release", "redis=other/image:1"],
        5,
    );
    assert!(other.contains("testbed down -p"), "{other}");

    let shown = run(&["ps", "--format", "json", "-q"], 0);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["schema"], "testbed/v1");
    assert_eq!(shown["nodes"][2]["replication"]["connection"], "never_cut");
    assert_eq!(shown["nodes"][2]["health"], "ready");
    assert!(run(&["link", "set", "dc1:dc2", "delay=35ms"], 0).contains("35ms"));
    let both = run(&["link", "show", "--format", "json"], 0);
    let both: serde_json::Value = serde_json::from_str(&both).unwrap();
    assert_eq!(
        (&both["links"][0]["delay_us"], &both["links"][1]["delay_us"]),
        (&35000.into(), &20000.into())
    );
    assert!(run(&["link", "cut", "dc1-dc2", "--for", "200ms"], 0).contains("restored"));
    let healed = run(&["link", "show", "dc1-dc2"], 0);
    assert!(!healed.contains("cut (drop)") && healed.contains("healed"), "{healed}");
    a_change_for_a_time_ends_with_an_interruption(&name);
    let healed = run(&["link", "show", "--format", "json"], 0);
    let healed: serde_json::Value = serde_json::from_str(&healed).unwrap();
    assert_eq!(
        (&healed["links"][0]["cut"], &healed["links"][1]["delay_us"]),
        (&serde_json::Value::Null, &20000.into())
    );
    assert!(run(&["link", "cut", "dc1-dc9"], 2).contains("dc1:dc2"));
    run(&["down"], 0);
    run(&["down"], 0);
    run(&["ps"], 5);
    assert_eq!(left(&docker, &name).await, [""; 0]);
}

/// Progress on a closed stderr must not end it half-way.
fn an_up_that_nobody_listens_to_makes_a_whole_lab(file: &str, name: &LabName) {
    let mut up = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["up", file, "-p", name.as_str()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(up.stderr.take());
    assert_eq!(up.wait().unwrap().code(), Some(0));
}

fn a_change_for_a_time_ends_with_an_interruption(name: &LabName) {
    let mut cut = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["link", "cut", "dc1-dc2", "--for", "10min", "-p", name.as_str()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The table is printed once the link is cut.
    let mut table = [0; 1];
    std::io::Read::read_exact(cut.stdout.as_mut().unwrap(), &mut table).unwrap();
    interrupt(&cut);
    assert_eq!(cut.wait().unwrap().code(), Some(130));
}

fn interrupt(running: &std::process::Child) {
    let signalled = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(signalled.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn what_cannot_start_is_reported_at_once_with_its_last_words() {
    let ground = ground().await;
    let name = lab_name("bad");
    let taken = ground.docker.subnets().await.unwrap();
    let plan = ground.plan(&name, None, &taken).unwrap();
    for (part, argument, words) in [
        ("relay.dc1", "{}", "relay"),
        ("redis-far", "--no-such-directive", "no-such-directive"),
    ] {
        let mut plan = plan.clone();
        let spec = plan
            .containers
            .iter_mut()
            .find(|spec| spec.name.ends_with(part))
            .unwrap();
        spec.command = vec![argument.to_owned()];
        let since = Instant::now();
        let (progress, stop) = (Progress::silent(), Stop::never());
        let limit = Duration::from_secs(60);
        let raised = lab::raise(ground.engines(), plan, &progress, &stop, limit).await;
        let error = raised.err().expect("it cannot start").to_string();
        assert!(
            error.contains(part) && error.contains("exit code 1") || error.contains("exit code 2"),
            "{error}"
        );
        assert!(error.contains(words), "{error}");
        assert!(since.elapsed() < limit / 2, "{error}");
        assert_eq!(left(&ground.docker, &name).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn an_interrupted_up_leaves_nothing_and_says_so() {
    // The images, so that the signal meets a lab that is being made.
    let docker = ground().await.docker;
    let name = lab_name("stop");
    let file = topology();
    let up = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["up", file.to_str().unwrap(), "-p", name.as_str()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let since = Instant::now();
    // Some containers are there, so that there is something to remove.
    let mut there = 0;
    while there < 10 && since.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        there = left(&docker, &name).await.len();
    }
    interrupt(&up);
    let output = up.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(130),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(left(&docker, &name).await, [""; 0]);
    assert!(there >= 10, "only {there} objects were there when it was stopped");
}
