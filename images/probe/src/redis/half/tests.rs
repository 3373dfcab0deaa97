//! The watch of a half against scripted servers.

use super::super::fake::{Act, bulk, ok, serve};
use super::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const MS: u64 = 1_000_000;

fn order(nodes: Vec<SocketAddrV4>) -> HalfWatch {
    HalfWatch {
        nodes,
        ranges: vec![vec!["a".into(), "b".into()], vec!["c".into()]],
        prefix: "p:".into(),
        interval_ns: 10 * MS,
        look_ns: 20 * MS,
        for_ns: 400 * MS,
        timeout_ns: 60 * MS,
    }
}

fn looks(command: &[String]) -> Option<Act> {
    match (command[0].as_str(), command.get(1).map(String::as_str)) {
        ("CLUSTER", Some("INFO")) => Some(Act::Say(bulk("cluster_state:ok\r\ncluster_current_epoch:3\r\n"))),
        ("CLUSTER", _) => Some(Act::Say(bulk(
            "aa 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383\n",
        ))),
        ("INFO", _) => Some(Act::Say(bulk("role:master\r\nmaster_repl_offset:5\r\n"))),
        _ => None,
    }
}

fn outcomes(answers: &Answers) -> Vec<Outcome> {
    answers.runs.iter().map(|run| run.outcome.clone()).collect()
}

fn of(seen: &HalfSeen, range: u32, access: Access) -> &Answers {
    let wanted = |answers: &&Answers| answers.range == range && answers.access == access;
    seen.answers.iter().find(wanted).unwrap()
}

#[test]
fn every_range_is_read_and_written_with_its_tags_and_each_key_is_written_once() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let node = serve(move |command| {
        looks(command).unwrap_or_else(|| {
            hears.lock().unwrap().push(command.join(" "));
            match command[0].as_str() {
                "SET" if command[1].contains("{c}") => Act::Say("-MOVED 7365 198.18.2.3:6379\r\n".into()),
                "SET" => ok(),
                _ if command[1].contains("{c}") => Act::Say("$-1\r\n".into()),
                _ => Act::Say(bulk("seen")),
            }
        })
    });
    let mut ready = false;
    let seen = watch(&order(vec![node]), &Stop::default(), || ready = true).unwrap();
    assert!(ready);
    assert_eq!(seen.answers.len(), 4);
    assert_eq!(outcomes(of(&seen, 0, Access::Write)), [Outcome::Served]);
    assert_eq!(outcomes(of(&seen, 0, Access::Read)), [Outcome::Served]);
    assert_eq!(outcomes(of(&seen, 1, Access::Read)), [Outcome::Absent]);
    let moved = of(&seen, 1, Access::Write);
    assert_eq!(outcomes(moved), [Outcome::Moved("198.18.2.3:6379".into())]);
    let run = &moved.runs[0];
    assert!(run.first == 0 && run.count > 10 && run.from_ns < run.to_ns && run.longest_ns > 0);
    assert!(u64::from(run.count + moved.missed) <= 40, "one every 10 ms in 400 ms");

    let heard = heard.lock().unwrap();
    assert!(heard.contains(&"SET p:0-0-0{a} 0".to_owned()) && heard.contains(&"SET p:0-0-1{b} 1".to_owned()));
    assert!(heard.contains(&"GET p:read{a}".to_owned()) && heard.contains(&"GET p:read{c}".to_owned()));
    let mut written = BTreeMap::new();
    for set in heard.iter().filter(|command| command.starts_with("SET")) {
        *written.entry(set).or_insert(0) += 1;
    }
    assert!(written.values().all(|&times| times == 1));
    assert_eq!(seen.nodes[0].runs.len(), 1, "nothing changed");
    let look = &seen.nodes[0].runs[0];
    assert_eq!(look.seen.as_ref().unwrap().cluster_state, "ok");
    assert_eq!(look.last.offset_bytes, Some(5));
    assert!(look.count > 5);
}

#[test]
fn a_change_begins_a_new_run_and_numbers_go_on() {
    let began = Instant::now();
    let node = serve(move |command| {
        looks(command).unwrap_or_else(|| match began.elapsed() > Duration::from_millis(150) {
            true => Act::Say("-CLUSTERDOWN The cluster is down\r\n".into()),
            false if command[0] == "SET" => ok(),
            false => Act::Say(bulk("seen")),
        })
    });
    let seen = watch(&order(vec![node]), &Stop::default(), || ()).unwrap();
    for answers in &seen.answers {
        let [before, after] = answers.runs.as_slice() else {
            panic!("{answers:?}")
        };
        assert_eq!(before.outcome, Outcome::Served);
        assert_eq!(
            after.outcome,
            Outcome::Refused("CLUSTERDOWN The cluster is down".into())
        );
        assert_eq!(after.first, before.count);
        assert!(before.to_ns <= after.from_ns);
    }
}

#[test]
fn a_silent_node_holds_up_no_other_and_gets_no_burst_when_it_speaks_again() {
    let silent = serve(|_| Act::Silence);
    let loud = serve(|command| looks(command).unwrap_or_else(ok));
    let seen = watch(&order(vec![silent, loud]), &Stop::default(), || ()).unwrap();
    let (first, second) = seen.answers.split_at(4);
    for answers in first {
        assert_eq!(outcomes(answers), [Outcome::Silent("no reply within 60 ms".into())]);
        // five of every six were left out while one was waited for
        assert!(answers.missed > 3 * answers.runs[0].count, "{answers:?}");
    }
    for answers in second.iter().filter(|answers| answers.access == Access::Write) {
        assert_eq!(outcomes(answers), [Outcome::Served]);
        assert!(answers.runs[0].count > 10);
    }
    assert_eq!(
        seen.nodes[0].runs[0].seen,
        Err("no reply within 60 ms".into()),
        "what it would have said is not known"
    );
    assert!(seen.nodes[1].runs[0].seen.is_ok());
}

#[test]
fn a_connection_that_was_closed_is_opened_again() {
    let mut commands = 0;
    let node = serve(move |command| {
        commands += 1;
        match looks(command) {
            Some(look) => look,
            None if commands % 7 == 0 => Act::Close,
            None => ok(),
        }
    });
    let seen = watch(&order(vec![node]), &Stop::default(), || ()).unwrap();
    let writes: Vec<&Answers> = seen.answers.iter().filter(|a| a.access == Access::Write).collect();
    let all: Vec<Outcome> = writes.iter().flat_map(|answers| outcomes(answers)).collect();
    assert!(all.contains(&Outcome::Silent("connection closed by the server".into())));
    assert!(
        all.iter().filter(|outcome| **outcome == Outcome::Served).count() > 1,
        "{all:?}"
    );
}

#[test]
fn it_ends_when_it_is_told_to() {
    let node = serve(|command| looks(command).unwrap_or_else(ok));
    let stop = Stop::default();
    let ends = stop.clone();
    let mut long = order(vec![node]);
    long.for_ns = 600_000 * MS;
    let began = Instant::now();
    let seen = watch(&long, &stop, move || {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            ends.set();
        });
    });
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "the order is for ten minutes"
    );
    assert!(seen.unwrap().answers.iter().all(|answers| !answers.runs.is_empty()));
}

#[test]
fn an_order_that_asks_nothing_or_too_much_is_refused() {
    let node = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1);
    let refused = |change: fn(&mut HalfWatch)| {
        let mut bad = order(vec![node]);
        change(&mut bad);
        watch(&bad, &Stop::default(), || panic!("it is not ready")).unwrap_err()
    };
    assert!(matches!(refused(|bad| bad.nodes.clear()), HalfError::Nothing(_)));
    assert!(matches!(refused(|bad| bad.ranges.clear()), HalfError::Nothing(_)));
    assert!(matches!(refused(|bad| bad.ranges[0].clear()), HalfError::Nothing(_)));
    assert_eq!(refused(|bad| bad.interval_ns = 0), HalfError::NoInterval);
    let many = refused(|bad| bad.nodes = vec![bad.nodes[0]; 200]);
    assert_eq!(many, HalfError::TooMany(200, 2));
}
