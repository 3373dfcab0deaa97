//! Links on a real engine, over the command line: what a Redis replica and a psql session see of cuts, freezes, schedules and
//! modes is what TCP prescribes.
//!
//! `cargo test -p testbed --test docker_links -- --ignored --test-threads=1`

#![allow(clippy::unwrap_used)]

#[path = "shared/program.rs"]
mod program;

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest wait for what TCP does by itself: its backoff can take as long again as a cut lasted.
const LONG: Duration = Duration::from_secs(20);
/// Long enough to see that nothing comes over a link of 20 ms, several retransmissions included.
const SILENCE: Duration = Duration::from_millis(1500);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A lab that is removed whatever happens to the test.
struct Lab(String);

impl Lab {
    /// From a topology, by its text.
    fn up(name: &str, topology: &str) -> Self {
        let lab = Self(format!("test-{name}-{}", std::process::id()));
        let mut file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        file.write_all(format!("name: any\n{topology}").as_bytes()).unwrap();
        lab.ends(0, &["up", &file.path().to_string_lossy()]);
        lab
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = program::testbed();
        // Behind the verb, since `exec` takes everything to its end.
        let (verb, rest) = words.split_first().unwrap();
        command.arg(verb).args(["-p", &self.0]).args(rest).current_dir(root());
        command
    }

    /// What a verb prints on stdout; it ends with this code.
    #[track_caller]
    fn ends(&self, code: i32, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A verb of `link`; `-p` belongs behind it.
    #[track_caller]
    fn link(&self, words: &[&str]) -> Value {
        let mut all = vec!["--format", "json", "link"];
        all.extend(words);
        all.extend(["-p", &self.0]);
        let output = Command::new(env!("CARGO_BIN_EXE_testbed")).args(&all).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[track_caller]
    fn redis(&self, node: &str, words: &[&str]) -> String {
        let words = [&["exec", node, "redis-cli"], words].concat();
        self.ends(0, &words).trim_end().to_owned()
    }

    /// A counter of `INFO`.
    #[track_caller]
    fn counter(&self, node: &str, name: &str) -> u64 {
        let info = self.redis(node, &["INFO"]);
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap_or_else(|| panic!("{name}")).trim().parse().unwrap()
    }

    /// Full and partial synchronisations that the primary has done.
    fn synchronisations(&self) -> (u64, u64) {
        let count = |name| self.counter("redis-primary", name);
        (count("sync_full"), count("sync_partial_ok"))
    }

    /// What became of the far replica's connection at the last cut, as `ps` says.
    fn connection(&self) -> String {
        let shown = self.ends(0, &["ps", "--format", "json"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let nodes = shown["nodes"].as_array().unwrap();
        let far = nodes.iter().find(|node| node["node"] == "redis-far").unwrap();
        far["replication"]["connection"].as_str().unwrap().to_owned()
    }

    /// Packets that both directions have dropped, all reasons together.
    fn dropped(&self) -> u64 {
        let shown = self.link(&["show"]);
        let links = shown["links"].as_array().unwrap();
        let dropped = links
            .iter()
            .flat_map(|link| link["dropped"].as_object().unwrap().values());
        dropped.map(|count| count.as_u64().unwrap()).sum()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.command(&["down"]).output();
    }
}

#[track_caller]
fn until(what: &str, limit: Duration, mut look: impl FnMut() -> bool) -> Duration {
    let since = Instant::now();
    while !look() {
        assert!(since.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    since.elapsed()
}

const CACHE: &str = "
version: 1
datacenters: { dc1: , dc2: }
links:
  dc1-dc2: { delay: 20ms }
defaults: { engine: redis }
nodes:
  redis-primary: { datacenter: dc1 }
  redis-near: { datacenter: dc1, replica-of: redis-primary }
  redis-far: { datacenter: dc2, replica-of: redis-primary }
";

#[test]
#[ignore = "needs a Docker engine"]
fn a_replica_resumes_after_a_drop_and_a_freeze_and_synchronises_partly_after_a_reset() {
    let lab = Lab::up("replica", CACHE);
    let before = lab.synchronisations();
    let far = |key: &str| lab.redis("redis-far", &["GET", key]);

    // Silence, and retransmission after the heal: the same connection goes on.
    lab.link(&["cut", "dc1-dc2"]);
    assert_eq!(lab.redis("redis-primary", &["SET", "drop", "v"]), "OK");
    std::thread::sleep(SILENCE);
    assert_eq!(far("drop"), "");
    assert_eq!(lab.counter("redis-primary", "connected_slaves"), 2, "nobody was told");
    lab.link(&["heal", "dc1-dc2"]);
    until("the write crosses after the heal", LONG, || far("drop") == "v");
    until("ps sees that it resumed", LONG, || lab.connection() == "resumed");
    assert_eq!(lab.synchronisations(), before);

    // A reset at both ends, and what is tried meanwhile is refused: a partial resynchronisation after the heal.
    lab.link(&["cut", "dc1-dc2", "--kind", "reset"]);
    let told = until("the primary is told", LONG, || {
        lab.counter("redis-primary", "connected_slaves") == 1
    });
    assert!(told < Duration::from_secs(5), "a reset is no timeout: {told:?}");
    until("the replica is told", LONG, || {
        lab.redis("redis-far", &["INFO", "replication"])
            .contains("master_link_status:down")
    });
    assert_eq!(lab.redis("redis-primary", &["SET", "reset", "v"]), "OK");
    std::thread::sleep(SILENCE);
    assert_eq!((far("reset").as_str(), lab.synchronisations()), ("", before));
    lab.link(&["heal", "dc1-dc2"]);
    until("the write crosses after the heal", LONG, || far("reset") == "v");
    let after = lab.synchronisations();
    assert_eq!(after.0, before.0, "no full synchronisation");
    assert!(after.1 > before.1, "{after:?} after {before:?}");

    // Late and complete: nothing is lost, and nobody is told.
    let dropped = lab.dropped();
    let frozen = lab.link(&["freeze", "dc1-dc2"]);
    assert_eq!(
        (&frozen["links"][0]["frozen"], &frozen["links"][1]["frozen"]),
        (&true.into(), &true.into())
    );
    assert_eq!(lab.redis("redis-primary", &["SET", "freeze", "v"]), "OK");
    std::thread::sleep(SILENCE);
    assert_eq!(far("freeze"), "");
    lab.link(&["thaw", "dc1-dc2"]);
    let late = until("the write crosses after the thaw", LONG, || far("freeze") == "v");
    assert!(
        late < Duration::from_secs(2),
        "what was kept needs no retransmission: {late:?}"
    );
    assert_eq!(lab.synchronisations(), after, "the same connection");
    assert_eq!(lab.dropped(), dropped, "late is not lost");
}

const DATABASES: &str = "
version: 1
datacenters: { dc1: , dc2: }
links:
  dc1-dc2: { delay: 20ms }
defaults: { engine: postgres }
nodes:
  near: { datacenter: dc1 }
  far: { datacenter: dc2 }
";

/// A psql session of the near node with the far server.
struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<String>,
}

impl Session {
    fn open(lab: &Lab) -> Self {
        let psql = ["exec", "-i", "near", "psql", "-h", "far", "-U", "postgres", "-AtX"];
        let mut child = lab
            .command(&psql)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, said) = channel();
        let outputs: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for output in outputs {
            let say = say.clone();
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines();
                lines.map_while(Result::ok).try_for_each(|line| say.send(line))
            });
        }
        let stdin = child.stdin.take();
        let mut session = Self { child, stdin, said };
        session.ask("SELECT 1");
        assert_eq!(session.hear(LONG).as_deref(), Some("1"));
        session
    }

    fn ask(&mut self, query: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{query};").unwrap();
        stdin.flush().unwrap();
    }

    /// The next line that it prints, if there is one in time.
    fn hear(&self, limit: Duration) -> Option<String> {
        self.said.recv_timeout(limit).ok()
    }

    /// Everything that it says until it ends.
    fn rest(mut self) -> String {
        drop(self.stdin.take());
        let mut rest = String::new();
        while let Some(line) = self.hear(LONG) {
            rest += &line;
            rest.push('\n');
        }
        rest
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_database_session_survives_a_drop_and_a_freeze_and_is_told_of_a_reset() {
    let lab = Lab::up("session", DATABASES);
    let mut session = Session::open(&lab);

    lab.link(&["cut", "dc1-dc2", "--kind", "drop"]);
    session.ask("SELECT 2");
    assert_eq!(session.hear(SILENCE), None, "silence");
    lab.link(&["heal", "dc1-dc2"]);
    assert_eq!(session.hear(LONG).as_deref(), Some("2"), "retransmitted");

    // One way: the question arrives, the answer does not.
    lab.link(&["cut", "dc2:dc1"]);
    session.ask("CREATE TABLE t AS SELECT 3 AS n");
    assert_eq!(session.hear(SILENCE), None);
    let there = ["exec", "far", "psql", "-U", "postgres", "-AtXc", "SELECT n FROM t"];
    assert_eq!(lab.ends(0, &there), "3\n", "it was carried out");
    lab.link(&["heal", "dc2:dc1"]);
    assert_eq!(session.hear(LONG).as_deref(), Some("SELECT 1"));

    lab.link(&["freeze", "dc1-dc2"]);
    session.ask("SELECT 4");
    assert_eq!(session.hear(SILENCE), None);
    let thawed = Instant::now();
    lab.link(&["thaw", "dc1-dc2"]);
    assert_eq!(session.hear(LONG).as_deref(), Some("4"));
    assert!(
        thawed.elapsed() < Duration::from_secs(2),
        "late, without retransmission: {:?}",
        thawed.elapsed()
    );

    lab.link(&["cut", "dc1-dc2", "--kind", "reset"]);
    session.ask("SELECT 5");
    let end = session.rest();
    assert!(
        end.contains("reset by peer") || end.contains("closed the connection"),
        "{end}"
    );
    assert!(!end.contains("\n5\n"), "{end}");
    let again = [
        "exec", "near", "psql", "-h", "far", "-U", "postgres", "-AtXc", "SELECT 6",
    ];
    let since = Instant::now();
    lab.ends(2, &again);
    assert!(
        since.elapsed() < Duration::from_secs(5),
        "who connects is refused at once: {:?}",
        since.elapsed()
    );
    lab.link(&["heal", "dc1-dc2"]);
    assert_eq!(lab.ends(0, &again), "6\n");
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_schedule_is_carried_out_by_the_relays_in_both_directions() {
    let planned = CACHE.replace("20ms }", "20ms, schedule: \"at 1s cut, at 2500ms heal\" }");
    let lab = Lab::up("schedule", &planned);
    let cut = |shown: &Value| [0, 1].map(|at| shown["links"][at]["cut"].as_str().map(str::to_owned));
    let drop = Some("drop".to_owned());
    until("the planned cut", LONG, || {
        cut(&lab.link(&["show"])) == [drop.clone(), drop.clone()]
    });
    until("the planned heal", LONG, || cut(&lab.link(&["show"])) == [None, None]);
    let shown = lab.link(&["show"]);
    assert_eq!(
        shown["links"][0]["playing_for_ms"],
        Value::Null,
        "it has come to its end"
    );

    let since = Instant::now();
    let playing = lab.link(&[
        "play",
        "dc1-dc2",
        "at 1s cut reset, at 2s heal, flap every 500ms until 4s",
    ]);
    assert!(
        since.elapsed() < Duration::from_millis(900),
        "it returns at once: {:?}",
        since.elapsed()
    );
    assert_eq!(cut(&playing), [None, None]);
    assert!(playing["links"][1]["playing_for_ms"].is_u64());
    let reset = Some("reset".to_owned());
    until("the cut", LONG, || {
        cut(&lab.link(&["show"])) == [reset.clone(), reset.clone()]
    });
    until("the end", LONG, || {
        lab.link(&["show"])["links"][0]["playing_for_ms"].is_null()
    });
    assert_eq!(cut(&lab.link(&["show"])), [None, None], "flapping ends healed");

    lab.link(&["play", "dc1:dc2", "at 500ms set delay=1ms, flap every 100ms"]);
    until("the new delay", LONG, || {
        lab.link(&["show"])["links"][0]["delay_us"] == 1000
    });
    until("the flapping", LONG, || cut(&lab.link(&["show"]))[0].is_some());
    lab.link(&["stop", "dc1-dc2"]);
    let left = cut(&lab.link(&["show"]));
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(cut(&lab.link(&["show"])), left, "the link stays as it is");
    assert_eq!(left[1], None, "the other direction was not told to flap");
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_lossy_lab_comes_up_and_loses_what_its_file_says() {
    let text = std::fs::read_to_string(root().join("topologies/lossy.yaml")).unwrap();
    let lab = Lab::up("lossy", &text);
    let bench = [
        "exec",
        "redis-primary",
        "redis-benchmark",
        "-h",
        "redis-far",
        "-c",
        "50",
        "-n",
        "5000",
        "-t",
        "get",
        "-q",
    ];
    lab.ends(0, &bench);
    let shown = lab.link(&["show"]);
    let count = |at: usize, name: &str| shown["links"][at][name].as_u64().unwrap();
    let lost = |at: usize| shown["links"][at]["dropped"]["loss_packets"].as_u64().unwrap();
    assert!(lost(0) > 0 && lost(0) > lost(1), "{shown}");
    assert!(count(0, "duplicated_packets") > 0, "{shown}");
    assert_eq!(shown["links"][0]["conditions"]["mtu"], 1400);
    let plain = lab.link(&[
        "set",
        "dc1-dc2",
        "jitter=none",
        "loss=none",
        "duplicate=none",
        "rate=default",
        "mtu=none",
    ]);
    assert_eq!(plain["links"][0]["conditions"]["loss"], Value::Null);
    lab.link(&["set", "dc1-dc2", "planned"]);
    let again = lab.link(&["show"]);
    assert_eq!(again["links"][0]["conditions"], shown["links"][0]["conditions"]);
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_lab_in_stream_mode_terminates_its_connections_and_closes_them_at_a_cut() {
    let text = std::fs::read_to_string(root().join("topologies/stream.yaml")).unwrap();
    let lab = Lab::up("stream", &text);
    let before = lab.synchronisations();
    let ping = || {
        let since = Instant::now();
        assert_eq!(lab.redis("redis-primary", &["-h", "redis-far", "PING"]), "PONG");
        since.elapsed()
    };
    assert!(ping() >= Duration::from_millis(40), "two delays");
    let shown = lab.link(&["show"]);
    assert_eq!(shown["links"][0]["mode"], "stream order=pipelined nodelay=on");
    let relays = shown["relays"].as_array().unwrap();
    let stream = |name: &str| -> Vec<Value> { relays.iter().map(|relay| relay["stream"][name].clone()).collect() };
    let accepted: u64 = stream("accepted").iter().map(|count| count.as_u64().unwrap()).sum();
    assert!(accepted >= 2, "the replica's connection and the ping's: {shown}");
    assert!(stream("nodelay_near").contains(&true.into()), "{shown}");

    lab.link(&["cut", "dc1-dc2", "--kind", "close"]);
    until("the primary is told", LONG, || {
        lab.counter("redis-primary", "connected_slaves") == 1
    });
    lab.link(&["heal", "dc1-dc2"]);
    until("the replica is back", LONG, || {
        lab.counter("redis-primary", "connected_slaves") == 2
    });
    until("it has synchronised partly", LONG, || {
        lab.synchronisations().1 > before.1
    });
    assert_eq!(lab.synchronisations().0, before.0);

    // The opposite direction is told too: the relay of the dialling side applies both.
    lab.link(&["set", "dc2:dc1", "delay=150ms"]);
    assert!(ping() >= Duration::from_millis(170), "{:?}", ping());
    let packet = lab.link(&["mode", "packet"]);
    assert_eq!(packet["links"][0]["mode"], "packet");
    assert!(ping() >= Duration::from_millis(170));
}
