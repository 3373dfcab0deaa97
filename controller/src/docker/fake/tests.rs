//! The fake engine keeps the rules of a real one: each was seen in `tests/docker_engine.rs`.

use super::*;
use crate::docker::EngineHandle;
use crate::names::{Kind, LABEL_DATACENTER};
use crate::probe::ProbeClient;
use std::net::SocketAddrV4;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use wire::{
    Conditions, CutKind, FromProbe, FromRelay, ProbeAnswer, ProbeOrder, RelayAnswer, RelayConfig, RelayLinkConfig,
    RelayOrder, Reply, ToProbe, ToRelay,
};

fn labels(datacenter: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL_DATACENTER.to_owned(), datacenter.to_owned())])
}

fn network(number: u8) -> NetworkSpec {
    NetworkSpec {
        name: format!("net{number}"),
        kind: Kind::Datacenter,
        bridge: format!("br{number}"),
        subnet: format!("198.18.{number}.0/24").parse().unwrap(),
        gateway: Ipv4Addr::new(198, 18, number, 254),
        host_address: None,
        labels: labels(&format!("dc{number}")),
    }
}

fn container(name: &str, kind: Kind, number: u8, host: u8) -> ContainerSpec {
    ContainerSpec {
        name: name.to_owned(),
        kind,
        image: "testbed/redis:7.0.15".to_owned(),
        entrypoint: vec!["redis-server".to_owned()],
        command: vec![],
        env: vec![],
        user: None,
        endpoints: vec![(format!("net{number}"), Ipv4Addr::new(198, 18, number, host))],
        extra_hosts: vec![],
        cap_add: vec![],
        devices: vec![],
        sysctls: BTreeMap::new(),
        volumes: BTreeMap::new(),
        mounts: BTreeMap::new(),
        tmpfs: BTreeMap::new(),
        files: BTreeMap::new(),
        memory_bytes: 0,
        pids: 0,
        publish: BTreeMap::new(),
        open_stdin: true,
        labels: labels(&format!("dc{number}")),
    }
}

fn relay(number: u8, far: u8, delay_ns: u64) -> ContainerSpec {
    let at = |number, host| Ipv4Addr::new(198, 18, number, host);
    let config = RelayConfig {
        datacenter: format!("dc{number}"),
        inside: at(number, 2),
        gateway: at(number, 254),
        prefix_len: 24,
        outside: at(0, number),
        links: vec![RelayLinkConfig {
            to: format!("dc{far}"),
            network: at(far, 0),
            prefix_len: 24,
            via: at(0, far),
            conditions: Conditions::delay(delay_ns),
        }],
        queue_bytes: 1 << 20,
        ports: vec![6379],
        path: wire::Path::Tun,
        seed: 1,
    };
    ContainerSpec {
        command: vec![serde_json::to_string(&config).unwrap()],
        ..container(&format!("relay{number}"), Kind::Relay, number, 2)
    }
}

/// Two datacenters with relays, a primary in dc1, its replica and a probe in dc2.
async fn two_datacenters() -> Fake {
    let fake = Fake::new();
    let mut networks = BTreeMap::new();
    for number in [1, 2] {
        let made = fake.create_network(&network(number)).await.unwrap();
        networks.insert(made.name, made.id);
    }
    let mut replica = container("replica", Kind::Node, 2, 11);
    replica.command = ["--replicaof", "198.18.1.11", "6379"].map(str::to_owned).to_vec();
    for spec in [
        relay(1, 2, 20),
        relay(2, 1, 30),
        container("probe", Kind::Probe, 2, 3),
        container("primary", Kind::Node, 1, 11),
        replica,
    ] {
        let made = fake.create_container(&spec, &networks).await.unwrap();
        fake.start(&made.id).await.unwrap();
    }
    fake
}

async fn tell(fake: &Fake, container: &str, line: &str) -> String {
    let mut streams = fake.attach(container).await.unwrap();
    streams.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    BufReader::new(streams.stdout).read_line(&mut answer).await.unwrap();
    answer
}

async fn order(fake: &Fake, relay: &str, order: RelayOrder) -> FromRelay {
    let line = serde_json::to_string(&ToRelay { id: 7, order }).unwrap();
    serde_json::from_str(&tell(fake, relay, &line).await).unwrap()
}

fn status(answer: &FromRelay) -> wire::RelayStatus {
    match answer.result.as_ref().unwrap() {
        RelayAnswer::Status(status) => (**status).clone(),
        RelayAnswer::Captured(_) | RelayAnswer::Flows(_) => panic!("no status: {answer:?}"),
    }
}

fn set(to: String, delay_ns: u64) -> RelayOrder {
    RelayOrder::Set {
        to,
        conditions: Conditions::delay(delay_ns),
        flush: false,
    }
}

async fn ask(fake: &Fake, order: ProbeOrder) -> Result<ProbeAnswer, String> {
    let line = serde_json::to_string(&ToProbe { id: 8, order }).unwrap();
    let answer: FromProbe = serde_json::from_str(&tell(fake, "probe", &line).await).unwrap();
    answer.result
}

async fn redis(fake: &Fake, host: [u8; 4], command: &[&str]) -> Result<Reply, String> {
    let order = ProbeOrder::Redis {
        target: SocketAddrV4::new(host.into(), 6379),
        commands: vec![command.iter().map(|&word| word.to_owned()).collect()],
        timeout_ns: 1,
    };
    match ask(fake, order).await? {
        ProbeAnswer::Replies(mut replies) => Ok(replies.remove(0)),
        other => panic!("{other:?}"),
    }
}

fn refusal<T: fmt::Debug>(outcome: Result<T, EngineError>) -> Refusal {
    match outcome {
        Err(EngineError::Refused { refusal, .. }) => refusal,
        other => panic!("a refusal was expected: {other:?}"),
    }
}

#[tokio::test]
async fn networks_that_overlap_or_share_a_bridge_are_refused() {
    let fake = Fake::new();
    fake.create_network(&network(1)).await.unwrap();
    assert_eq!(refusal(fake.create_network(&network(1)).await), Refusal::Overlap);
    let mut bridge = network(2);
    bridge.bridge = "br1".to_owned();
    assert_eq!(refusal(fake.create_network(&bridge).await), Refusal::Taken);
    assert_eq!(fake.objects().len(), 1);
}

#[tokio::test]
async fn a_network_goes_after_the_containers_that_run_in_it() {
    let fake = two_datacenters().await;
    let (containers, networks): (Vec<_>, Vec<_>) = fake
        .objects()
        .into_iter()
        .partition(|object| object.sort == Sort::Container);
    assert_eq!(refusal(fake.remove(&networks[0]).await), Refusal::InUse);
    for object in containers.iter().chain(&networks).chain(&networks) {
        fake.remove(object).await.unwrap();
    }
    assert_eq!(fake.objects(), []);
}

#[tokio::test]
async fn what_is_absent_or_taken_is_refused() {
    let fake = two_datacenters().await;
    let networks: BTreeMap<_, _> = fake
        .objects()
        .into_iter()
        .filter(|object| object.sort == Sort::Network)
        .map(|object| (object.name, object.id))
        .collect();
    let create = async |spec: &ContainerSpec| fake.create_container(spec, &networks).await;
    let primary = container("primary", Kind::Node, 1, 12);
    assert_eq!(refusal(create(&primary).await), Refusal::Taken, "name");
    let second = create(&container("second", Kind::Node, 1, 11)).await.unwrap();
    assert_eq!(refusal(fake.start(&second.id).await), Refusal::Taken, "address");
    let mut stateful = container("stateful", Kind::Node, 1, 12);
    stateful.volumes.insert("state".to_owned(), "/data".to_owned());
    let stateful = create(&stateful).await.unwrap();
    assert_eq!(refusal(fake.start(&stateful.id).await), Refusal::NotFound, "volume");
    fake.lack_image("testbed/redis:7.0.15");
    let third = container("third", Kind::Node, 1, 13);
    assert_eq!(refusal(create(&third).await), Refusal::NotFound, "image");
}

#[tokio::test]
async fn the_nth_call_fails_as_asked() {
    let fake = Fake::new();
    fake.fail(1, Failure::Refused(Refusal::Other));
    fake.fail(2, Failure::Unreachable);
    fake.fail(3, Failure::AnswerLost);
    assert_eq!(refusal(fake.create_network(&network(1)).await), Refusal::Other);
    assert_eq!(fake.objects(), []);
    for left in [0, 1] {
        let failed = fake.create_network(&network(1)).await;
        assert!(matches!(failed, Err(EngineError::Unreachable { .. })));
        assert_eq!(fake.objects().len(), left, "a lost answer leaves what was made");
    }
    fake.fail(1, Failure::Silent);
    let silent = tokio::time::timeout(std::time::Duration::from_millis(20), fake.subnets()).await;
    assert!(silent.is_err());
    let calls: Vec<String> = fake.calls().iter().map(ToString::to_string).collect();
    assert_eq!(calls[0], "create network net1");
    assert_eq!(calls.len(), 4);
}

#[tokio::test]
async fn a_relay_keeps_the_state_of_its_links() {
    let fake = two_datacenters().await;
    let to = || "dc2".to_owned();
    let state = order(&fake, "relay1", set(to(), 50)).await;
    assert_eq!((state.id, status(&state).links[0].conditions.delay_ns), (7, 50));
    let kind = CutKind::Drop;
    let cut = status(&order(&fake, "relay1", RelayOrder::Cut { to: to(), kind }).await);
    assert_eq!(cut.links[0].cut, Some(CutKind::Drop));
    assert!(cut.links[0].last_cut_ns.is_some());
    let healed = status(&order(&fake, "relay1", RelayOrder::Heal { to: to() }).await);
    assert_eq!((healed.links[0].cut, healed.links[0].conditions.delay_ns), (None, 50));
    let nowhere = RelayOrder::Heal { to: "dc9".to_owned() };
    assert!(
        order(&fake, "relay1", nowhere)
            .await
            .result
            .unwrap_err()
            .contains("no link to dc9")
    );
}

#[tokio::test]
async fn a_probe_sees_round_trips_as_long_as_the_links_say() {
    let fake = two_datacenters().await;
    let echo = ProbeOrder::Echo {
        target: Ipv4Addr::new(198, 18, 1, 11),
        transport: wire::Transport::Udp,
        warmup: 0,
        count: 3,
        pause_ns: 0,
        timeout_ns: 1_000,
    };
    let Ok(ProbeAnswer::Samples { samples, .. }) = ask(&fake, echo.clone()).await else {
        panic!("no samples");
    };
    assert_eq!(samples.len(), 3);
    assert_eq!(samples[0].ended_ns - samples[0].started_ns, 50);
    let (to, kind) = ("dc2".to_owned(), CutKind::Drop);
    order(&fake, "relay1", RelayOrder::Cut { to, kind }).await;
    let Ok(ProbeAnswer::Samples { samples, failures, .. }) = ask(&fake, echo).await else {
        panic!("no samples");
    };
    assert_eq!((samples.len(), failures[0].times), (0, 3));
}

#[tokio::test]
async fn beacons_arrive_as_late_as_the_link_says_until_they_are_ended() {
    let fake = two_datacenters().await;
    let networks = {
        let world = fake.world();
        let networks = world.networks.iter().map(|(id, spec)| (spec.name.clone(), id.clone()));
        networks.collect::<BTreeMap<String, String>>()
    };
    let far = container("probe1", Kind::Probe, 1, 3);
    let made = fake.create_container(&far, &networks).await.unwrap();
    fake.start(&made.id).await.unwrap();
    let engine: EngineHandle = Arc::new(fake.clone());
    let client = async |name: &str| {
        let engine = Arc::clone(&engine);
        ProbeClient::attach(engine, name, Duration::from_secs(5)).await.unwrap()
    };
    let (near, far) = (client("probe").await, client("probe1").await);
    let beat = Duration::from_micros(100);
    let address = Ipv4Addr::new(198, 18, 2, 3);
    let listening = near.beacons(Vec::new(), beat).await.unwrap();
    // asked after it on the same line: it has begun
    near.cpu().await.unwrap();
    let sending = far.beacons(vec![address], beat).await.unwrap();
    far.cpu().await.unwrap();
    tokio::time::sleep(Duration::from_millis(2)).await;
    let sent = sending.stop(Duration::from_secs(5)).await.unwrap();
    assert!(sent.sent.len() >= 20 && sent.heard.is_empty(), "{}", sent.sent.len());
    assert!(sent.sent.iter().all(|(target, ..)| *target == address));
    let heard = listening.stop(Duration::from_secs(5)).await.unwrap();
    assert_eq!((heard.sent.len(), heard.heard.len()), (0, sent.sent.len()));
    for beacon in &heard.heard {
        assert_eq!(beacon.from, Ipv4Addr::new(198, 18, 1, 3));
        assert_eq!(beacon.received_ns - beacon.sent_ns, 20, "from dc1 to dc2");
    }
    // one that is dropped is ended too
    drop(near.beacons(vec![address], beat).await.unwrap());
    assert!(near.idle(Duration::from_secs(5)).await);
    let none = near.beacons(Vec::new(), Duration::ZERO).await.unwrap();
    let refused = none.stop(Duration::from_secs(5)).await.unwrap_err();
    assert!(refused.to_string().contains("interval of zero"), "{refused}");
}

#[tokio::test]
async fn replication_is_up_exactly_while_the_links_are() {
    let fake = two_datacenters().await;
    let replica = [198, 18, 2, 11];
    let info = async || match redis(&fake, replica, &["INFO", "replication"]).await {
        Ok(Reply::Text(text)) => crate::replication::Replication::parse(&text),
        other => panic!("{other:?}"),
    };
    let seen = info().await;
    assert_eq!((seen.role.as_str(), seen.link_up), ("slave", true));
    assert_eq!(seen.upstream, Some(Ipv4Addr::new(198, 18, 1, 11)));
    let primary = [198, 18, 1, 11];
    assert_eq!(
        redis(&fake, primary, &["SET", "k", "v"]).await,
        Ok(Reply::Text("OK".to_owned()))
    );
    assert_eq!(
        redis(&fake, replica, &["GET", "k"]).await,
        Ok(Reply::Text("v".to_owned()))
    );
    assert_eq!(
        redis(&fake, primary, &["WAIT", "1", "100"]).await,
        Ok(Reply::Integer(1))
    );
    let (to, kind) = ("dc1".to_owned(), CutKind::Drop);
    order(&fake, "relay2", RelayOrder::Cut { to, kind }).await;
    assert!(!info().await.link_up);
    assert!(
        redis(&fake, primary, &["PING"])
            .await
            .unwrap_err()
            .contains("timed out")
    );
}

#[tokio::test]
async fn streams_end_with_their_container_and_it_says_why() {
    let fake = two_datacenters().await;
    let mut streams = fake.attach("probe").await.unwrap();
    fake.end("probe", 3, "out of luck");
    let mut rest = String::new();
    streams.stdout.read_to_string(&mut rest).await.unwrap();
    let words = fake.post_mortem("probe").await.unwrap();
    assert!(
        words.contains("exit code 3") && words.contains("out of luck"),
        "{words}"
    );
}

#[tokio::test]
async fn an_order_before_the_start_is_answered_after_it() {
    let fake = Fake::new();
    let made = fake.create_network(&network(2)).await.unwrap();
    let networks = BTreeMap::from([(made.name, made.id)]);
    let probe = container("probe", Kind::Probe, 2, 3);
    let made = fake.create_container(&probe, &networks).await.unwrap();
    let (answer, ()) = tokio::join!(ask(&fake, ProbeOrder::Hello), async {
        fake.start(&made.id).await.unwrap();
    });
    assert!(matches!(answer, Ok(ProbeAnswer::Hello { .. })));
}
