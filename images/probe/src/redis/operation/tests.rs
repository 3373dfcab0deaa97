//! Loads against a server of the tests that is late, silent, wrong or gone on request.

use super::super::fake::{Act, bulk, ok, serve};
use super::*;
use crate::load;
use crate::running::Stop;
use wire::{Failure, Pace, ProbeAnswer, Sample};

const MS: u64 = 1_000_000;

fn load(target: SocketAddrV4, operation: Operation) -> Load {
    Load {
        target,
        operation,
        connections: 1,
        warmup: 0,
        count: 6,
        for_ns: None,
        pace: Pace::Closed { pause_ns: 0 },
        timeout_ns: 5000 * MS,
    }
}

fn set() -> Operation {
    Operation::Set {
        key: "k".into(),
        keys: 4,
        value_bytes: 3,
    }
}

fn run(load: &Load) -> (Vec<Sample>, Vec<Failure>) {
    match load::run::<RedisClient>(load, &Stop::default()) {
        Ok(ProbeAnswer::Samples {
            samples,
            failures,
            nodelay: Some(true),
        }) => (samples, failures),
        other => panic!("{other:?}"),
    }
}

fn failed(failures: &[Failure]) -> u32 {
    failures.iter().map(|failure| failure.times).sum()
}

#[test]
fn commands_get_one_reply_each_and_errors_are_replies() {
    let target = serve(|command| match command[0].as_str() {
        "PING" => Act::Say("+PONG\r\n".into()),
        _ => Act::Say("-ERR no such thing\r\n".into()),
    });
    let commands = [vec!["DANCE".to_owned()], vec!["PING".to_owned()]];
    let replies = run_commands(target, &commands, Duration::from_secs(5)).unwrap();
    assert_eq!(
        replies,
        [Reply::Error("ERR no such thing".into()), Reply::Text("PONG".into())]
    );
}

#[test]
fn keys_go_round_and_values_have_their_size() {
    let (heard, hears) = std::sync::mpsc::channel();
    let target = serve(move |command| {
        heard.send(command.join(" ")).unwrap();
        ok()
    });
    let (samples, failures) = run(&Load {
        warmup: 1,
        ..load(target, set())
    });
    assert_eq!((samples.len(), failed(&failures)), (6, 0));
    let commands: Vec<_> = hears.try_iter().collect();
    assert_eq!(
        commands,
        [
            "SET k0 xxx",
            "SET k0 xxx",
            "SET k1 xxx",
            "SET k2 xxx",
            "SET k3 xxx",
            "SET k0 xxx",
            "SET k1 xxx"
        ]
    );
}

#[test]
fn the_warm_up_of_numbers_leaves_the_watched_key_alone() {
    let (heard, hears) = std::sync::mpsc::channel();
    let target = serve(move |command| {
        heard.send(command[1..].join("=")).unwrap();
        ok()
    });
    run(&Load {
        warmup: 1,
        count: 2,
        ..load(target, Operation::SetNumber { key: "n".into() })
    });
    assert_eq!(hears.try_iter().collect::<Vec<_>>(), ["n:warmup=0", "n=1", "n=2"]);
}

#[test]
fn absent_keys_and_refusals_are_counted_by_cause() {
    let target = serve(|command| match command[1].as_str() {
        "k0" => Act::Say("$-1\r\n".into()),
        "k2" => Act::Say("-CLUSTERDOWN down\r\n".into()),
        _ => Act::Say(bulk("v")),
    });
    let operation = Operation::Get {
        key: "k".into(),
        keys: 4,
        stride: 1,
    };
    let (samples, failures) = run(&load(target, operation));
    assert_eq!(samples.len(), 3);
    let expected = [("CLUSTERDOWN down", 1), ("key is absent", 2)];
    assert_eq!(
        failures.iter().map(|f| (f.cause.as_str(), f.times)).collect::<Vec<_>>(),
        expected
    );
}

fn wait(timeout_ms: u64) -> Operation {
    let (key, keys, value_bytes) = ("k".to_owned(), 1, 1);
    Operation::SetWait {
        key,
        keys,
        value_bytes,
        replicas: 1,
        wait_timeout_ms: timeout_ms,
    }
}

#[test]
fn a_wait_may_take_its_own_limit_beyond_that_of_a_reply() {
    let target = serve(|command| match command[0].as_str() {
        "SET" => ok(),
        _ => Act::Late(Duration::from_millis(200), ":1\r\n".into()),
    });
    let (samples, failures) = run(&Load {
        count: 1,
        timeout_ns: 100 * MS,
        ..load(target, wait(20_000))
    });
    assert_eq!(failures, []);
    assert_eq!(samples[0].outcome, 1);
    assert!(samples[0].ended_ns - samples[0].started_ns >= 200 * MS);
    let (samples, failures) = run(&Load {
        count: 1,
        timeout_ns: 100 * MS,
        ..load(target, wait(0))
    });
    assert_eq!((samples.len(), failed(&failures)), (0, 1));
}

#[test]
fn an_open_loop_keeps_its_intended_starts_through_a_stall() {
    let mut commands = 0;
    let target = serve(move |_| {
        commands += 1;
        if commands == 2 {
            Act::Late(Duration::from_millis(60), "+OK\r\n".into())
        } else {
            ok()
        }
    });
    let (samples, failures) = run(&Load {
        pace: Pace::Open { interval_ns: 10 * MS },
        ..load(target, set())
    });
    assert_eq!(failures, []);
    let apart: Vec<_> = samples
        .windows(2)
        .map(|pair| pair[1].intended_ns - pair[0].intended_ns)
        .collect();
    assert_eq!(apart, [10 * MS; 5]);
    assert!(samples.iter().all(|sample| sample.started_ns >= sample.intended_ns));
    // operation 2 was intended 10 ms after operation 1, whose answer took 60
    assert!(samples[2].started_ns - samples[2].intended_ns >= 50 * MS, "{samples:?}");
}

#[test]
fn after_a_lost_reply_the_next_command_gets_its_own() {
    let mut commands = 0;
    // WAIT's number tells which command a reply belongs to; the first reply comes too late
    let target = serve(move |command| {
        if command[0] == "SET" {
            return ok();
        }
        commands += 1;
        let after = if commands == 1 { 400 } else { 0 };
        Act::Late(Duration::from_millis(after), format!(":{commands}\r\n"))
    });
    let (samples, failures) = run(&Load {
        count: 3,
        timeout_ns: 200 * MS,
        ..load(target, wait(1))
    });
    assert_eq!(samples.iter().map(|sample| sample.outcome).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(
        failures,
        [Failure {
            cause: "no reply within 201 ms".into(),
            times: 1
        }]
    );
}

#[test]
fn a_dead_server_ends_a_load_and_every_operation_is_accounted_for() {
    let target = serve(|_| Act::Silence);
    let order = Load {
        count: 100_000,
        connections: 2,
        timeout_ns: 5 * MS,
        ..load(target, set())
    };
    let (samples, failures) = run(&order);
    assert_eq!((samples.len(), failed(&failures)), (0, 100_000));
    let timed = Load {
        for_ns: Some(100 * MS),
        ..order
    };
    let (samples, failures) = run(&timed);
    assert_eq!(samples, []);
    assert!((1..=40).contains(&failed(&failures)), "{failures:?}");
}

#[test]
fn an_open_loop_that_runs_out_of_time_says_what_it_left_out() {
    let mut commands = 0;
    let target = serve(move |_| {
        commands += 1;
        if commands == 3 {
            Act::Late(Duration::from_millis(300), "+OK\r\n".into())
        } else {
            ok()
        }
    });
    let pace = Pace::Open { interval_ns: 10 * MS };
    let order = Load {
        count: 100_000,
        for_ns: Some(100 * MS),
        pace,
        ..load(target, set())
    };
    let (samples, failures) = run(&order);
    assert_eq!(samples.len() + failed(&failures) as usize, 10);
    assert!(
        failed(&failures) >= 7,
        "the third operation outlived the load: {failures:?}"
    );
}

#[test]
fn a_load_that_cannot_begin_is_an_error_of_the_order() {
    // the second connection is closed in its warm-up
    let mut commands = 0;
    let target = serve(move |_| {
        commands += 1;
        if commands == 2 { Act::Close } else { ok() }
    });
    let order = Load {
        connections: 8,
        warmup: 1,
        ..load(target, set())
    };
    let error = load::run::<RedisClient>(&order, &Stop::default()).unwrap_err();
    assert!(
        matches!(
            error,
            load::LoadError::Start {
                cause: RedisError::Closed,
                ..
            }
        ),
        "{error}"
    );
    let none = Load {
        connections: 0,
        ..order
    };
    assert!(matches!(
        load::run::<RedisClient>(&none, &Stop::default()),
        Err(load::LoadError::Connections(0))
    ));
}

#[test]
fn connections_share_the_operations() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let sees = std::sync::Arc::clone(&seen);
    let target = serve(move |command| {
        sees.lock().unwrap().push(command[2].clone());
        ok()
    });
    let order = Load {
        connections: 3,
        count: 100,
        ..load(target, Operation::SetNumber { key: "n".into() })
    };
    let (samples, failures) = run(&order);
    assert_eq!((samples.len(), failed(&failures)), (100, 0));
    assert!(samples.is_sorted_by_key(|sample| sample.started_ns));
    let mut numbers: Vec<u32> = seen
        .lock()
        .unwrap()
        .iter()
        .map(|number| number.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
}

#[test]
fn an_ended_load_counts_what_it_owed() {
    let (target, order) = {
        let target = serve(|_| ok());
        (target, load(target, set()))
    };
    let ended = |order: &Load, after_ms: u64| {
        let stop = Stop::default();
        let answer = std::thread::scope(|scope| {
            let running = scope.spawn(|| load::run::<RedisClient>(order, &stop));
            std::thread::sleep(Duration::from_millis(after_ms));
            stop.set();
            running.join().unwrap()
        });
        match answer {
            Ok(ProbeAnswer::Samples { samples, failures, .. }) => (samples, failures),
            other => panic!("{other:?}"),
        }
    };
    // counted: what was not done is owed
    let pace = Pace::Closed { pause_ns: MS };
    let counted = Load {
        count: 100_000,
        connections: 2,
        pace,
        ..order
    };
    let (samples, failures) = ended(&counted, 50);
    assert!(!samples.is_empty());
    assert_eq!(samples.len() + failed(&failures) as usize, 100_000);
    assert_eq!(failures[0].cause, "not tried: the order was ended");
    // bounded by time: nothing is
    let timed = Load {
        for_ns: Some(600_000 * MS),
        ..counted
    };
    let (samples, failures) = ended(&timed, 50);
    assert!(!samples.is_empty() && failures.is_empty(), "{failures:?}");
    // an open loop owes those whose time had come
    let mut commands = 0;
    let slow = serve(move |_| {
        commands += 1;
        Act::Late(
            Duration::from_millis(if commands == 2 { 200 } else { 0 }),
            "+OK\r\n".into(),
        )
    });
    let open = Load {
        target: slow,
        connections: 1,
        pace: Pace::Open { interval_ns: 10 * MS },
        ..timed
    };
    let (samples, failures) = ended(&open, 50);
    // the second operation, intended at 10 ms, ends at 210: those intended at 20 to 200 had come due
    assert_eq!(samples.len(), 2);
    assert!(failed(&failures) >= 19, "{failures:?}");
    let _ = target;
}
