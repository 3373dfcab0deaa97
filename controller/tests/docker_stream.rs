//! Stream mode on a real lab: replication and a Postgres query cross it with the delays of both directions, and the record's
//! two defects show in the price of WAIT: TCP_NODELAY off, and portions that are delayed one after the other.
//!
//! `cargo test -p testbed --test docker_stream -- --ignored`. Times are bounds: from below what was set, from above half of
//! what a defect would add.

#![allow(clippy::unwrap_used)]

#[path = "shared/lab.rs"]
mod ours;

use ours::{Ours, dc};
use std::time::{Duration, Instant};
use testbed::lab::Lab;
use testbed::names::NodeName;
use testbed::probe::Samples;
use wire::{
    CutKind, Load, Nodelay, Operation, Pace, Path, ProbeOrder, RelayOrder, Reply, StreamOrder, StreamSettings,
    StreamStatus, Transport,
};

const MS: u64 = 1_000_000;
const DELAY: u64 = 20 * MS;
const SOON: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(2);

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

async fn primary(lab: &Lab, command: &[&str]) -> Reply {
    let target = lab.target(&node("redis-primary"));
    lab.probe(&dc("dc1")).redis(target, command, LIMIT).await.unwrap()
}

/// Both replicas acknowledge a write.
async fn replicas_follow(lab: &Lab) {
    let since = Instant::now();
    loop {
        primary(lab, &["SET", "marker", "x"]).await;
        if primary(lab, &["WAIT", "2", "0"]).await == Reply::Integer(2) {
            return;
        }
        assert!(since.elapsed() < SOON, "a replica does not come back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Stream mode as given, and replicas that have dialled under it.
async fn set(lab: &Lab, delay_ns: u64, order: StreamOrder, nodelay: Nodelay) {
    lab.set_delay_both(&dc("dc1"), &dc("dc2"), delay_ns).await.unwrap();
    let path = Path::Stream(StreamSettings { order, nodelay });
    lab.set_path(path).await.unwrap();
    primary(lab, &["CLIENT", "KILL", "TYPE", "replica"]).await;
    replicas_follow(lab).await;
}

async fn stream(lab: &Lab, datacenter: &str) -> StreamStatus {
    let status = lab.relay(&dc(datacenter)).order(RelayOrder::Show).await.unwrap();
    status.stream.unwrap()
}

async fn samples(lab: &Lab, from: &str, target: &str, operation: Operation) -> Samples {
    let order = ProbeOrder::Load(Load {
        target: lab.target(&node(target)),
        operation,
        connections: 1,
        warmup: 3,
        count: 20,
        for_ns: None,
        pace: Pace::Closed { pause_ns: 5 * MS },
        timeout_ns: 2000 * MS,
    });
    let seen = lab.probe(&dc(from)).samples(order, Duration::from_secs(20)).await;
    seen.unwrap()
}

fn median(samples: &Samples) -> u64 {
    assert_eq!(samples.failures, []);
    let took = samples.samples.iter().map(|sample| sample.ended_ns - sample.started_ns);
    let mut took: Vec<u64> = took.collect();
    took.sort_unstable();
    took[took.len() / 2]
}

async fn wait_costs(lab: &Lab) -> u64 {
    let operation = Operation::SetWait {
        key: "wait:".to_owned(),
        keys: 10,
        value_bytes: 10,
        replicas: 2,
        wait_timeout_ms: 1000,
    };
    median(&samples(lab, "dc1", "redis-primary", operation).await)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn replication_crosses_stream_mode_and_pays_for_its_defects() {
    let lab = Ours::raise("test-stream").await;
    set(&lab, DELAY, StreamOrder::Pipelined, Nodelay::On).await;
    a_round_trip_takes_both_delays(&lab).await;
    the_defects_show_in_the_price_of_wait(&lab).await;
    a_close_ends_replication_until_the_heal(&lab).await;
    lab.set_path(Path::Tun).await.unwrap();
    replicas_follow(&lab).await;
}

async fn a_round_trip_takes_both_delays(lab: &Lab) {
    let far = lab.datacenter(&dc("dc2")).probe_address;
    for transport in [Transport::Tcp, Transport::Udp] {
        let probe = lab.probe(&dc("dc1"));
        let echo = probe.echo(far, transport, 2, 9, Duration::from_millis(5), LIMIT).await;
        assert!(median(&echo.unwrap()) >= 2 * DELAY, "{transport:?}");
    }
    assert!(median(&samples(lab, "dc1", "redis-far", Operation::Ping).await) >= 2 * DELAY);
    let postgres = lab.target(&node("postgres"));
    let asked = lab
        .probe(&dc("dc1"))
        .postgres(postgres, "select host(inet_client_addr())", LIMIT);
    // The far server sees who dialled.
    let own = lab.datacenter(&dc("dc1")).probe_address;
    assert_eq!(asked.await.unwrap(), own.to_string());
    let (near, far) = (stream(lab, "dc1").await, stream(lab, "dc2").await);
    // Echo, PING and Postgres were dialled in dc1, replication in dc2.
    assert!(near.accepted >= 3 && far.accepted >= 1, "{near:?} {far:?}");
    assert_eq!((near.failed, near.mismatched), (0, 0));
    assert_eq!((far.nodelay_near, far.nodelay_far), (Some(true), Some(true)));
}

async fn the_defects_show_in_the_price_of_wait(lab: &Lab) {
    let sound = wait_costs(lab).await;
    assert!((2 * DELAY..3 * DELAY).contains(&sound), "{sound}");
    set(lab, DELAY, StreamOrder::Serialising, Nodelay::On).await;
    let serialising = wait_costs(lab).await;
    // SET and the request for an acknowledgement follow each other: one flight more.
    assert!(serialising >= sound + DELAY / 2, "{serialising} after {sound}");
    for (nodelay, pays) in [
        (Nodelay::On, false),
        (Nodelay::Off, true),
        // The near leg is that to the replica, which dialled, and both messages go there.
        (Nodelay::NearLeg, false),
        (Nodelay::FarLeg, true),
    ] {
        set(lab, 0, StreamOrder::Pipelined, nodelay).await;
        let costs = wait_costs(lab).await;
        // A delayed acknowledgement takes 40 ms.
        assert_eq!(costs >= 20 * MS, pays, "{nodelay:?} {costs}");
    }
}

async fn a_close_ends_replication_until_the_heal(lab: &Lab) {
    set(lab, DELAY, StreamOrder::Pipelined, Nodelay::On).await;
    let cut = lab.cut_both(&dc("dc1"), &dc("dc2"), CutKind::Close).await.unwrap();
    assert!(cut.iter().all(|link| link.status.cut == Some(CutKind::Close)));
    let far = lab.target(&node("redis-far"));
    let dialled = lab.probe(&dc("dc1")).redis(far, &["PING"], LIMIT).await;
    assert!(dialled.is_err(), "{dialled:?}");
    primary(lab, &["SET", "marker", "y"]).await;
    assert_eq!(primary(lab, &["WAIT", "2", "300"]).await, Reply::Integer(1));
    for datacenter in ["dc1", "dc2"] {
        let seen = stream(lab, datacenter).await;
        assert!(seen.cut >= 1 && seen.open == 0, "{datacenter}: {seen:?}");
    }
    lab.heal_both(&dc("dc1"), &dc("dc2")).await.unwrap();
    replicas_follow(lab).await;
}
