//! What a Redis replica and a psql session see of a link that is cut, reset and frozen, shown by captures of a real lab that
//! tshark reads: silence and retransmission; a reset and, for the replica, a partial resynchronisation after the heal;
//! everything, late.
//!
//! `cargo test -p testbed --test docker_capture -- --ignored --test-threads=1`; needs root and tshark, and says `skipped`
//! where they are missing. Times are of one clock: the relays stamp packets and orders alike.

#![allow(clippy::unwrap_used)]

#[path = "shared/lab.rs"]
mod ours;
#[path = "docker_capture/trace.rs"]
mod trace;

use ours::{Ours, dc};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testbed::lab::{Lab, LinkSeen};
use testbed::names::NodeName;
use testbed::replication::SyncCounters;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use trace::Trace;
use wire::{CutKind, Reply};

const MS: u64 = 1_000_000;
/// One-way delay of topologies/two-dc.yaml; a packet may leave earlier by the calibration error.
const DELAY: u64 = 20 * MS;
const EARLY: u64 = MS;
/// How long a link is cut or frozen: TCP sends again after 0.2 to 0.3 s, and then twice as long after that.
const WHILE: Duration = Duration::from_millis(1500);
/// After a heal TCP may wait as long again as the cut lasted, and a replica a second more.
const SOON: Duration = Duration::from_secs(15);

/// Why this cannot be shown here, if so.
fn obstacle() -> Option<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status
        .lines()
        .any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"));
    if !root {
        return Some("entering a node's network namespace needs root");
    }
    let tshark = std::process::Command::new("tshark").arg("--version").output();
    (!tshark.is_ok_and(|output| output.status.success())).then_some("needs tshark")
}

/// Address and port of a server.
fn server(lab: &Lab, name: &str) -> (Ipv4Addr, u16) {
    let target = lab.target(&NodeName::new(name).unwrap());
    (*target.ip(), target.port())
}

async fn redis(lab: &Lab, datacenter: &str, node: &str, command: &[&str]) -> Reply {
    let target = lab.target(&NodeName::new(node).unwrap());
    let probe = lab.probe(&dc(datacenter));
    probe.redis(target, command, Duration::from_secs(2)).await.unwrap()
}

/// A write that the primary acknowledges.
async fn write(lab: &Lab, key: &str) {
    assert_eq!(
        redis(lab, "dc1", "redis-primary", &["SET", key, "1"]).await,
        Reply::Text("OK".to_owned())
    );
}

async fn has(lab: &Lab, key: &str) -> bool {
    redis(lab, "dc2", "redis-far", &["EXISTS", key]).await == Reply::Integer(1)
}

/// Waits until the far replica has a key.
async fn wait_for(lab: &Lab, key: &str) {
    let since = Instant::now();
    while !has(lab, key).await {
        assert!(since.elapsed() < SOON, "`{key}` never came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn counters(lab: &Lab) -> SyncCounters {
    let primary = lab
        .look()
        .await
        .into_iter()
        .find(|seen| seen.node.as_str() == "redis-primary");
    primary.unwrap().state.unwrap().counters.unwrap()
}

fn latest(seen: &[LinkSeen], of: fn(&LinkSeen) -> u64) -> u64 {
    seen.iter().map(of).max().unwrap()
}

fn earliest(seen: &[LinkSeen], of: fn(&LinkSeen) -> u64) -> u64 {
    seen.iter().map(of).min().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn captures_show_what_tcp_does_on_a_link_that_is_cut_reset_and_frozen() {
    if let Some(reason) = obstacle() {
        // Past the test harness, which would swallow it.
        writeln!(std::io::stderr(), "skipped: {reason}").unwrap();
        return;
    }
    let lab = Ours::raise("capture").await;
    a_replica_sees_a_drop_as_silence_and_its_primary_sends_again(&lab).await;
    a_cut_of_one_direction_lets_the_other_speak(&lab).await;
    a_replica_sees_a_freeze_as_lateness(&lab).await;
    a_replica_sees_a_reset_and_resumes_with_a_partial_resynchronisation(&lab).await;
    a_psql_session_sees_the_same(&lab).await;
}

async fn a_replica_sees_a_drop_as_silence_and_its_primary_sends_again(lab: &Lab) {
    let (one, other) = (dc("dc1"), dc("dc2"));
    let primary = server(lab, "redis-primary");
    let act = async {
        let cut = lab.cut_both(&one, &other, CutKind::Drop).await.unwrap();
        write(lab, "drop").await;
        tokio::time::sleep(WHILE).await;
        let found = has(lab, "drop").await;
        let healed = lab.heal_both(&one, &other).await.unwrap();
        wait_for(lab, "drop").await;
        (cut, found, healed)
    };
    let (trace, (cut, found, healed)) = Trace::of(lab, primary, act).await;
    assert!(!found, "nothing crosses a cut");
    let healed_ns = earliest(&healed, |link| link.status.last_heal_ns.unwrap());
    trace.assert_silent("", latest(&cut, |link| link.status.last_cut_ns.unwrap()), healed_ns);
    assert!(
        trace
            .of_class("drop", "")
            .all(|packet| packet.comment == "dropped: cut")
    );
    let portions = trace.dropped_portions("dc1:dc2");
    let (seq, times) = portions.iter().max_by_key(|(_, times)| times.len()).unwrap();
    assert!(times.len() >= 3, "sent again and again: {portions:?}");
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.last() > gaps.first(), "less and less often: {gaps:?}");
    let mut left = trace.of_class("departure", "dc1:dc2");
    assert!(
        left.any(|packet| packet.at_ns >= healed_ns && packet.seq == *seq),
        "it comes at last"
    );
    trace.assert_unbroken();
}

async fn a_cut_of_one_direction_lets_the_other_speak(lab: &Lab) {
    let (one, other) = (dc("dc1"), dc("dc2"));
    let act = async {
        let cut = lab.cut(&one, &other, CutKind::Drop).await.unwrap();
        write(lab, "one-way").await;
        tokio::time::sleep(WHILE).await;
        let healed = lab.heal(&one, &other).await.unwrap();
        wait_for(lab, "one-way").await;
        (cut.status.last_cut_ns.unwrap(), healed.status.last_heal_ns.unwrap())
    };
    let (trace, (cut_ns, healed_ns)) = Trace::of(lab, server(lab, "redis-primary"), act).await;
    trace.assert_silent("dc1:dc2", cut_ns, healed_ns);
    assert!(trace.dropped_portions("dc1:dc2").values().any(|times| times.len() >= 2));
    // The replica acknowledges once a second, and is heard.
    let mut heard = trace.of_class("departure", "dc2:dc1");
    assert!(heard.any(|packet| (cut_ns..healed_ns).contains(&packet.at_ns) && packet.length > 0));
    assert_eq!(trace.of_class("drop", "dc2:dc1").next(), None);
    trace.assert_unbroken();
}

async fn a_replica_sees_a_freeze_as_lateness(lab: &Lab) {
    let (one, other) = (dc("dc1"), dc("dc2"));
    let act = async {
        let frozen = lab.freeze_both(&one, &other).await.unwrap();
        write(lab, "freeze").await;
        tokio::time::sleep(WHILE).await;
        let found = has(lab, "freeze").await;
        let thawed = lab.thaw_both(&one, &other).await.unwrap();
        wait_for(lab, "freeze").await;
        // For what arrived right after the thaw, to leave.
        tokio::time::sleep(Duration::from_millis(100)).await;
        (frozen, found, thawed)
    };
    let (trace, (frozen, found, thawed)) = Trace::of(lab, server(lab, "redis-primary"), act).await;
    assert!(!found, "nothing passes while it is frozen");
    let (frozen_ns, thawed_ns) = (
        latest(&frozen, |link| link.now_ns),
        earliest(&thawed, |link| link.now_ns),
    );
    trace.assert_silent("", frozen_ns, thawed_ns);
    let held = trace.assert_complete(thawed_ns, DELAY - EARLY);
    let during = held
        .iter()
        .filter(|(arrival, _)| (frozen_ns..thawed_ns).contains(&arrival.at_ns));
    let latest = during.map(|(_, held)| *held).max().unwrap();
    assert!(latest > 500 * MS, "late: {latest} ns");
    trace.assert_unbroken();
}

async fn a_replica_sees_a_reset_and_resumes_with_a_partial_resynchronisation(lab: &Lab) {
    let (one, other) = (dc("dc1"), dc("dc2"));
    let (primary, far) = (server(lab, "redis-primary"), server(lab, "redis-far"));
    let before = counters(lab).await;
    let act = async {
        let cut = lab.cut_both(&one, &other, CutKind::Reset).await.unwrap();
        write(lab, "reset").await;
        tokio::time::sleep(WHILE).await;
        let healed = lab.heal_both(&one, &other).await.unwrap();
        wait_for(lab, "reset").await;
        (cut, healed)
    };
    let (trace, (cut, healed)) = Trace::of(lab, primary, act).await;
    let (cut_ns, healed_ns) = (
        earliest(&cut, |link| link.status.last_cut_ns.unwrap()),
        earliest(&healed, |link| link.status.last_heal_ns.unwrap()),
    );
    let first = trace.connections(primary.1);
    for end in [primary.0, far.0] {
        let reset = trace
            .of_class("made", "")
            .find(|packet| packet.reset && packet.to.0 == end);
        let reset = reset.unwrap_or_else(|| panic!("{end} is told nothing: {:?}", trace.packets));
        assert!((cut_ns..healed_ns).contains(&reset.at_ns), "{reset:?}");
    }
    let mut tried = trace.of_class("arrival", "dc2:dc1").filter(|packet| packet.syn);
    assert!(
        tried.any(|packet| packet.at_ns >= cut_ns),
        "the replica tries again: {first:?}"
    );
    let mut made = trace.of_class("departure", "dc2:dc1").filter(|packet| packet.syn);
    assert!(
        made.all(|packet| packet.at_ns >= healed_ns),
        "and gets through after the heal only"
    );
    let after = counters(lab).await;
    assert_eq!((after.full, after.partial_ok), (before.full, before.partial_ok + 1));
}

/// A psql beside the primary, connected to the database beyond the link.
struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn open(lab: &Lab) -> Self {
        let pid = |node: &str| {
            let name = format!("tb-{}-{node}", lab.name());
            let asked = std::process::Command::new("docker")
                .args(["inspect", "-f", "{{.State.Pid}}", &name])
                .output();
            String::from_utf8(asked.unwrap().stdout).unwrap().trim().to_owned()
        };
        let network = format!("--net=/proc/{}/ns/net", pid("redis-primary"));
        let (database, address) = (pid("postgres"), server(lab, "postgres").0.to_string());
        let versions = std::fs::read_dir(format!("/proc/{database}/root/usr/lib/postgresql")).unwrap();
        let version = versions
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .max();
        let psql = format!("/usr/lib/postgresql/{}/bin/psql", version.unwrap());
        let mut child = Command::new("nsenter")
            .args(["--target", &database, "--mount", &network, &psql])
            .args(["-h", &address, "-U", "postgres", "-XAt"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    async fn ask(&mut self, word: &str) {
        self.input
            .write_all(format!("select '{word}';\n").as_bytes())
            .await
            .unwrap();
    }

    /// The next line, if one comes in time.
    async fn hear(&mut self, limit: Duration) -> Option<String> {
        let mut line = String::new();
        match tokio::time::timeout(limit, self.output.read_line(&mut line)).await {
            Ok(read) => read.unwrap(),
            Err(_) => return None,
        };
        Some(line.trim().to_owned())
    }
}

async fn a_psql_session_sees_the_same(lab: &Lab) {
    let (one, other) = (dc("dc1"), dc("dc2"));
    let database = server(lab, "postgres");
    let mut session = Session::open(lab);
    session.ask("before").await;
    assert_eq!(session.hear(SOON).await.as_deref(), Some("before"));

    let act = async {
        lab.cut_both(&one, &other, CutKind::Drop).await.unwrap();
        session.ask("drop").await;
        let silence = session.hear(WHILE).await;
        lab.heal_both(&one, &other).await.unwrap();
        (silence, session.hear(SOON).await)
    };
    let (trace, (silence, answer)) = Trace::of(lab, database, act).await;
    assert_eq!(
        (silence, answer.as_deref()),
        (None, Some("drop")),
        "silence, then the answer"
    );
    let portions = trace.dropped_portions("dc1:dc2");
    assert!(
        portions.values().any(|times| times.len() >= 3),
        "sent again: {portions:?}"
    );
    trace.assert_unbroken();

    let act = async {
        lab.freeze_both(&one, &other).await.unwrap();
        session.ask("freeze").await;
        let silence = session.hear(WHILE).await;
        let thawed = lab.thaw_both(&one, &other).await.unwrap();
        let answer = session.hear(SOON).await;
        (silence, answer, earliest(&thawed, |link| link.now_ns))
    };
    let (trace, (silence, answer, thawed_ns)) = Trace::of(lab, database, act).await;
    assert_eq!(
        (silence, answer.as_deref()),
        (None, Some("freeze")),
        "silence, then the answer"
    );
    trace.assert_complete(thawed_ns, DELAY - EARLY);
    trace.assert_unbroken();

    let act = async {
        lab.cut_both(&one, &other, CutKind::Reset).await.unwrap();
        session.ask("reset").await;
        let ended = tokio::time::timeout(SOON, session.child.wait()).await;
        lab.heal_both(&one, &other).await.unwrap();
        ended.expect("psql ends").unwrap()
    };
    let (trace, ended) = Trace::of(lab, database, act).await;
    assert!(!ended.success());
    let mut words = String::new();
    session
        .child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut words)
        .await
        .unwrap();
    assert!(words.contains("connection"), "{words}");
    for (end, port) in [(server(lab, "redis-primary").0, None), (database.0, Some(database.1))] {
        let told =
            |packet: &&trace::Packet| packet.reset && packet.to.0 == end && port.is_none_or(|port| packet.to.1 == port);
        assert!(
            trace.of_class("made", "").any(|packet| told(&packet)),
            "{end} is told nothing: {:?}",
            trace.packets
        );
    }
}
