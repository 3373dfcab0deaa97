//! Operations that open what they time, or consist of several commands, on real servers on loopback.

use super::Probe;
use super::servers::{Directory, MS, S, commands, load, postgres, redis, samples, skipped, until};
use std::net::SocketAddrV4;
use wire::{Operation, ProbeAnswer, ProbeOrder, Reply};

fn texts(probe: &mut Probe, target: SocketAddrV4, command: &[&str]) -> Reply {
    match probe.ask(commands(target, command)) {
        Ok(ProbeAnswer::Replies(mut replies)) => replies.pop().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cache_is_asked_in_every_form() {
    let directory = Directory::new("forms");
    let Some(primary) = redis(&directory.0, None) else {
        return skipped("redis-server is not installed");
    };
    let target = primary.target;
    let mut probe = Probe::start();
    let pong = |answer: &ProbeAnswer| *answer == ProbeAnswer::Replies(vec![Reply::Text("PONG".into())]);
    until(&mut probe, &commands(target, &["PING"]), pong);

    assert_eq!(
        samples(probe.ask(ProbeOrder::Load(load(target, Operation::Connect, 20)))).len(),
        20
    );
    let (count, pause_ns) = (3, 5 * MS);
    let messages = samples(probe.ask(ProbeOrder::Load(load(
        target,
        Operation::Messages { count, pause_ns },
        5,
    ))));
    assert_eq!(messages.len(), 5);
    assert!(
        messages
            .iter()
            .all(|sample| sample.ended_ns - sample.started_ns >= 10 * MS)
    );

    for pipelined in [false, true] {
        let key = format!("m{pipelined}:");
        let multi = Operation::Multi {
            key: key.clone(),
            sets: 2,
            pipelined,
        };
        assert_eq!(samples(probe.ask(ProbeOrder::Load(load(target, multi, 10)))).len(), 10);
        let (first, second) = (format!("{key}0"), format!("{key}1"));
        assert_eq!(
            texts(&mut probe, target, &["EXISTS", &first, &second]),
            Reply::Integer(2)
        );
    }

    let full = samples(probe.ask(ProbeOrder::Load(load(target, Operation::Psync, 3))));
    assert_eq!(full.len(), 3);
    assert!(full.iter().all(|sample| sample.ended_ns - sample.started_ns < S));
    let Reply::Text(stats) = texts(&mut probe, target, &["INFO", "stats"]) else {
        panic!("no text")
    };
    assert!(stats.contains("sync_full:3\r\n"), "{stats}");
    assert!(
        !directory.0.join("dump.rdb").exists(),
        "a request leaves no file behind"
    );
}

#[test]
fn a_session_is_opened_with_and_without_a_password() {
    let directory = Directory::new("login");
    let Some(server) = postgres(&directory.0) else {
        return skipped("no Postgres server is installed, or initdb does not run here");
    };
    let (target, timeout_ns) = (server.target, 10 * S);
    let mut probe = Probe::start();
    let sql = "CREATE ROLE scram LOGIN PASSWORD 'from a test'".to_owned();
    let role = ProbeOrder::PostgresBatch {
        target,
        sql,
        timeout_ns,
    };
    until(&mut probe, &role, |answer| *answer == ProbeAnswer::Done);
    let login = |user: &str, password: Option<&str>| {
        let operation = Operation::PostgresConnect {
            user: user.into(),
            password: password.map(Into::into),
            database: "postgres".into(),
        };
        ProbeOrder::Load(load(target, operation, 5))
    };
    assert_eq!(samples(probe.ask(login("postgres", None))).len(), 5);
    assert_eq!(samples(probe.ask(login("scram", Some("from a test")))).len(), 5);
    for (password, cause) in [(Some("another"), "password authentication failed"), (None, "password")] {
        let Ok(ProbeAnswer::Samples { samples, failures, .. }) = probe.ask(login("scram", password)) else {
            panic!("no samples")
        };
        assert_eq!((samples.len(), failures[0].times), (0, 5));
        assert!(failures[0].cause.contains(cause), "{failures:?}");
    }
}
