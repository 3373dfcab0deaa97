//! Faults of nodes on the engine in memory: who is met, what is refused before anything is done, and that what is done for a
//! time is taken back whatever happens.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;
use testbed::cli::{Color, Format, ReleaseArg};
use testbed::commands::{prepare, source};
use testbed::docker::fake::{Failure, Fake};
use testbed::docker::{EngineHandle, Refusal};
use testbed::lab::{self, Engines, Fault, FaultError, Found, Target};
use testbed::names::LabName;
use testbed::plan::{self, Images};
use testbed::progress::Progress;
use testbed::stop::{Signal, Stop};

const GRACE: Fault = Fault::Stop {
    grace: Duration::from_secs(10),
};

fn engines(fake: &Fake) -> Engines {
    let engine: EngineHandle = Arc::new(fake.clone());
    engine.into()
}

async fn raised(fake: &Fake, name: &str) -> lab::Lab {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies/two-dc.yaml");
    let source = source::read(&file, Format::Text, Color::Never).unwrap();
    let images = Images {
        relay: "testbed/relay:0".to_owned(),
        probe: "testbed/probe:0".to_owned(),
        releases: prepare::releases(&source.topology, &ReleaseArg { release: Vec::new() }).unwrap(),
    };
    let taken: Vec<_> = testbed::docker::Engine::subnets(fake).await.unwrap();
    let plan = plan::plan(
        &source.topology,
        &source.hash,
        &LabName::new(name).unwrap(),
        None,
        &images,
        &taken,
    );
    let limit = Duration::from_secs(60);
    let lab = lab::raise(engines(fake), plan.unwrap(), &Progress::silent(), &Stop::never(), limit).await;
    lab.unwrap_or_else(|error| panic!("{error}"))
}

async fn found(fake: &Fake, lab: &str) -> Found {
    lab::choose(&engines(fake), Some(&LabName::new(lab).unwrap()))
        .await
        .unwrap()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

async fn targets(fake: &Fake, fault: Fault, asked: &[&str]) -> Result<Vec<Target>, FaultError> {
    found(fake, "one").await.targets(fault, &names(asked))
}

async fn inflict(fake: &Fake, fault: Fault, asked: &[&str]) {
    let targets = targets(fake, fault, asked).await.unwrap();
    lab::inflict(fake, fault, &targets).await.unwrap();
}

async fn state(fake: &Fake, lab: &str, node: &str) -> String {
    let found = found(fake, lab).await;
    found.state(&format!("tb-{lab}-{node}")).unwrap().to_owned()
}

/// Calls since then that did something.
fn faults(fake: &Fake) -> Vec<String> {
    let calls = fake.calls().into_iter().map(|call| call.to_string());
    let faults = ["pause", "resume", "kill", "stop"];
    calls
        .filter(|call| faults.iter().any(|verb| call.starts_with(verb)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn nodes_are_paused_killed_stopped_and_come_back() {
    let fake = Fake::new();
    let (one, two) = (raised(&fake, "one").await, raised(&fake, "two").await);
    for (fault, then, back) in [
        (Fault::Pause, "paused", Fault::Resume),
        (Fault::Kill, "exited", Fault::Start),
        (GRACE, "exited", Fault::Start),
    ] {
        inflict(&fake, fault, &["redis-near", "relay.dc1", "redis-near"]).await;
        assert_eq!(state(&fake, "one", "redis-near").await, then);
        assert_eq!(state(&fake, "one", "relay.dc1").await, then);
        assert_eq!(state(&fake, "one", "redis-far").await, "running");
        assert_eq!(state(&fake, "two", "redis-near").await, "running");
        inflict(&fake, back, &["redis-near", "relay.dc1"]).await;
        assert_eq!(state(&fake, "one", "redis-near").await, "running");
    }
    assert_eq!(fault_of(&fake, "tb-one-redis-near"), 4, "named twice is done once");
    one.lower().await.unwrap();
    two.lower().await.unwrap();
}

fn fault_of(fake: &Fake, container: &str) -> usize {
    faults(fake).iter().filter(|call| call.ends_with(container)).count()
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_wrong_is_said_and_nothing_is_done() {
    let fake = Fake::new();
    let one = raised(&fake, "one").await;
    inflict(&fake, Fault::Pause, &["redis-far"]).await;
    let before = faults(&fake);
    let error = targets(
        &fake,
        Fault::Kill,
        &["redis-near", "redis-faar", "probe.dc1", "redis-far"],
    )
    .await;
    let FaultError::Unknown { problems, known, .. } = error.unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(
        problems,
        [
            "redis-faar: there is no such node",
            "probe.dc1: a probe is the instrument, and no part of what is tried",
            "redis-far is paused",
        ]
    );
    assert!(known.contains(&"relay.dc1".to_owned()) && !known.iter().any(|name| name.starts_with("probe")));
    for (fault, node, hint) in [
        (Fault::Kill, "redis-far", "resume"),
        (GRACE, "redis-far", "resume"),
        (Fault::Start, "redis-far", "resume"),
        (Fault::Start, "redis-near", "ps"),
        (Fault::Resume, "redis-near", "ps"),
    ] {
        let error = targets(&fake, fault, &[node, "postgres"]).await.unwrap_err();
        let FaultError::State { hint: next, .. } = &error else {
            panic!("{error}");
        };
        assert!(next.contains(hint), "{error}: {next}");
    }
    assert_eq!(faults(&fake), before);
    one.lower().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_done_for_a_time_is_taken_back_after_it_and_at_a_signal() {
    let fake = Fake::new();
    let one = raised(&fake, "one").await;
    let time = Duration::from_secs(10);
    let began = tokio::time::Instant::now();
    let wanted = targets(&fake, Fault::Pause, &["redis-far", "redis-near"])
        .await
        .unwrap();
    let mut told = false;
    let asked = lab::hold(&fake, Fault::Pause, &wanted, time, &Stop::never(), || told = true).await;
    assert_eq!((asked.unwrap(), told), (None, true));
    assert!(began.elapsed() >= time);
    let (brake, stop) = Stop::by_hand();
    brake.ask(Signal::Interrupt);
    let asked = lab::hold(&fake, Fault::Kill, &wanted, Duration::from_secs(3600), &stop, || ()).await;
    assert_eq!(asked.unwrap(), Some(Signal::Interrupt));
    for node in ["redis-far", "redis-near"] {
        assert_eq!(state(&fake, "one", node).await, "running");
    }
    one.lower().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_takes_back_what_the_others_have_and_is_told() {
    for (failure, left) in [
        (Failure::Refused(Refusal::Other), "running"),
        (Failure::AnswerLost, "running"),
    ] {
        let fake = Fake::new();
        let one = raised(&fake, "one").await;
        let wanted = targets(&fake, Fault::Pause, &["redis-near", "redis-far"])
            .await
            .unwrap();
        fake.fail(2, failure);
        let time = Duration::from_secs(3600);
        let error = lab::hold(&fake, Fault::Pause, &wanted, time, &Stop::never(), || {
            panic!("not done")
        })
        .await;
        let text = error.unwrap_err().to_string();
        assert!(text.contains("as the test asked"), "{text}");
        for node in ["redis-near", "redis-far"] {
            assert_eq!(state(&fake, "one", node).await, left);
        }
        one.lower().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_back_is_told() {
    let fake = Fake::new();
    let one = raised(&fake, "one").await;
    let wanted = targets(&fake, Fault::Pause, &["redis-near"]).await.unwrap();
    fake.fail(2, Failure::Refused(Refusal::Other));
    let time = Duration::from_secs(1);
    let error = lab::hold(&fake, Fault::Pause, &wanted, time, &Stop::never(), || ())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "put back what was done: resume container redis-near: as the test asked"
    );
    assert_eq!(state(&fake, "one", "redis-near").await, "paused");
    one.lower().await.unwrap();
}
