//! What the program makes of an engine that fails: each call refused, cut, hanging, late, or done with its answer lost; and of
//! nodes that end in the middle of a block. Never a hang, never something left after `down`, never a wrong verdict, and an
//! error that names an object and the next step.
//!
//! `cargo test -p testbed --test docker_proxy -- --ignored` spoils a sample of calls that begins elsewhere each time. Every call
//! in every way: `controller/tests/tools/every-call.sh`, which sets EVERY_CALL and SHARD.

#![allow(clippy::unwrap_used)]

#[path = "shared/program.rs"]
mod program;
#[path = "docker_proxy/proxy.rs"]
mod proxy;

use proxy::{Proxy, Spoil};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What the program is told of the longest time of a call where one hangs; everywhere else it keeps its own limit, so that a
/// busy engine is no failure.
const CALL: &str = "4s";
/// Longest time of a command one of whose calls is spoilt: some calls in a row that hang, on a busy machine.
const LONGEST: Duration = Duration::from_secs(90);
/// The same of a block.
const LONGEST_RUN: Duration = Duration::from_secs(180);
/// The same where nothing is spoilt yet: the program may have to compile its own images first.
const LONGEST_FIRST: Duration = Duration::from_secs(400);
/// From a node's end to that of the program, its lab removed.
const TOLD: Duration = Duration::from_secs(20);

/// A set of two, named after the test; whatever is left of its labs is removed at its end.
struct Ground {
    name: String,
    folder: tempfile::TempDir,
}

impl Ground {
    fn new(word: &str) -> Self {
        let name = format!("proxy-{word}-{}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "version: 1\nname: {name}\ndatacenters:\n  dc1:\n  dc2:\nlinks:\n  dc1-dc2: {{ delay: 5ms }}\nnodes:\n  \
             one: {{ datacenter: dc1, engine: redis }}\n  far: {{ datacenter: dc2, replica-of: one, engine: redis }}\n"
        );
        std::fs::write(folder.path().join("set.yaml"), text).unwrap();
        Self { name, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("set.yaml")
    }

    /// Names of everything on the engine that is of a lab of this ground.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for words in [
            ["ps", "-a", "--format", "{{.Names}}"].as_slice(),
            ["network", "ls", "--format", "{{.Name}}"].as_slice(),
            ["volume", "ls", "--format", "{{.Name}}"].as_slice(),
        ] {
            let Output { stdout, status, .. } = Command::new("docker").args(words).output().unwrap();
            assert!(status.success(), "docker {words:?}");
            let names = String::from_utf8(stdout).unwrap();
            left.extend(
                names
                    .lines()
                    .filter(|name| name.contains(&self.name))
                    .map(str::to_owned),
            );
        }
        left
    }

    /// Labs of this ground: `run` gives each a name of its own.
    fn labs(&self) -> Vec<String> {
        let Output { stdout, .. } = Command::new("docker")
            .args(["ps", "-a", "--filter", "label=testbed.owner=testbed"])
            .args(["--format", r#"{{.Label "testbed.lab"}}"#])
            .output()
            .unwrap();
        let mut labs: Vec<String> = String::from_utf8(stdout).unwrap().lines().map(str::to_owned).collect();
        labs.retain(|lab| lab.starts_with(&self.name));
        labs.push(self.name.clone());
        labs.sort();
        labs.dedup();
        labs
    }

    /// Removes every lab of this ground, past the proxy; fails if one does not go.
    #[track_caller]
    fn down(&self) {
        for lab in self.labs() {
            let Output { status, stderr, .. } = program::testbed().args(["down", "-q", "-p", &lab]).output().unwrap();
            assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        }
        assert_eq!(self.left(), Vec::<String>::new(), "left after `down`");
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for lab in self.labs() {
            let _ = program::testbed().args(["down", "-q", "-p", &lab]).output();
        }
    }
}

/// The engine's socket, if it is one.
fn engine() -> Option<PathBuf> {
    let url = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    url.strip_prefix("unix://").map(PathBuf::from)
}

/// A command of the program that meets the spoilt call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Up,
    Run,
    Down,
}

impl Verb {
    fn words(self, ground: &Ground) -> Vec<String> {
        let file = ground.file().display().to_string();
        let out = ground.folder.path().join("run").display().to_string();
        let words: Vec<&str> = match self {
            Self::Up => vec!["up", &file],
            Self::Run => vec!["run", "-f", &file, "--only", "9", "--out", &out],
            Self::Down => vec!["down", "-p", &ground.name],
        };
        words.into_iter().map(str::to_owned).collect()
    }
}

/// How a command ended whose call was spoilt.
struct Outcome {
    code: Option<i32>,
    took: Duration,
    calls: Vec<String>,
    stderr: String,
}

/// Runs a command behind a proxy; kills it at the limit, which is a failure.
#[track_caller]
fn spoilt(ground: &Ground, engine: &Path, verb: Verb, spoil: Option<(usize, Spoil)>) -> Outcome {
    if verb == Verb::Down {
        let up = program::testbed()
            .args(["up", "-q"])
            .arg(ground.file())
            .output()
            .unwrap();
        assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    }
    let run = ground.folder.path().join("run");
    if run.exists() {
        std::fs::remove_dir_all(run).unwrap();
    }
    let proxy = Proxy::before(engine, spoil);
    let log = ground.folder.path().join("stderr");
    let began = Instant::now();
    let hangs = spoil.is_some_and(|(_, spoil)| spoil == Spoil::Hang);
    let mut child = program::testbed()
        .args(verb.words(ground))
        .args(["--host", &proxy.url()])
        .args(["--engine-timeout", if hangs { CALL } else { "60s" }])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let limit = match (spoil, verb) {
        (None, _) => LONGEST_FIRST,
        (Some(_), Verb::Run) => LONGEST_RUN,
        (Some(_), Verb::Up | Verb::Down) => LONGEST,
    };
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if began.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Outcome {
        code,
        took: began.elapsed(),
        calls: proxy.calls(),
        stderr: std::fs::read_to_string(log).unwrap(),
    }
}

/// What is wrong with an outcome; nothing is the wish.
fn faults(verb: Verb, outcome: &Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    let allowed: &[i32] = if verb == Verb::Run { &[0, 4, 5, 11] } else { &[0, 4, 5] };
    match outcome.code {
        None => wrong.push("it hangs".to_owned()),
        Some(code) if !allowed.contains(&code) => wrong.push(format!("exit code {code}")),
        Some(0 | 11) => {}
        Some(_) => {
            if !outcome.stderr.contains("failed to ") {
                wrong.push("no error".to_owned());
            }
            if !(outcome.stderr.contains("hint: ") || verb == Verb::Run) {
                wrong.push("no next step".to_owned());
            }
        }
    }
    wrong
}

/// One case: what came of it, as a line of the table, and whether it is as it should be.
fn case(ground: &Ground, engine: &Path, verb: Verb, nth: usize, spoil: Spoil) -> bool {
    let outcome = spoilt(ground, engine, verb, Some((nth, spoil)));
    let mut wrong = faults(verb, &outcome);
    let before_down = ground.left().len();
    if outcome.code == Some(0) && verb != Verb::Up && before_down > 0 {
        wrong.push(format!("it says success and leaves {before_down} objects"));
    }
    ground.down();
    let call = outcome.calls.get(nth).map_or("(not reached)", String::as_str);
    let call: String = call.chars().take(70).collect();
    println!(
        "{verb:?}\t{nth}\t{spoil:?}\texit {}\t{:.1} s\tleft before down {before_down}\t{call}",
        outcome.code.map_or("none".to_owned(), |code| code.to_string()),
        outcome.took.as_secs_f64(),
    );
    if !wrong.is_empty() {
        println!("  WRONG: {}\n{}", wrong.join(", "), outcome.stderr);
    }
    wrong.is_empty()
}

#[test]
#[ignore = "needs a Docker engine"]
fn calls_that_are_spoilt_neither_hang_nor_leave_nor_lie() {
    let Some(engine) = engine() else {
        println!("skipped: the engine is not behind a socket of this machine");
        return;
    };
    let ground = Ground::new("call");
    let all = std::env::var_os("EVERY_CALL").is_some();
    let verbs: &[Verb] = if all {
        &[Verb::Up, Verb::Down, Verb::Run]
    } else {
        &[Verb::Up, Verb::Down]
    };
    let (shard, shards) = std::env::var("SHARD").ok().map_or((0, 1), |said| {
        let (shard, shards) = said.split_once('/').expect("SHARD is like 0/4");
        (shard.parse::<usize>().unwrap(), shards.parse::<usize>().unwrap())
    });
    let only = std::env::var("VERB").ok().filter(|verb| !verb.is_empty());
    let mut bad = 0;
    let mut number = 0;
    for &verb in verbs {
        if only
            .as_ref()
            .is_some_and(|only| !format!("{verb:?}").eq_ignore_ascii_case(only))
        {
            continue;
        }
        let whole = spoilt(&ground, &engine, verb, None);
        let calls = whole.calls.len();
        println!(
            "{verb:?}: {calls} calls, exit {:?}, {:.1} s",
            whole.code,
            whole.took.as_secs_f64()
        );
        assert!(matches!(whole.code, Some(0 | 11)), "{}", whole.stderr);
        ground.down();
        // A sample begins at another call each time, and takes each of its ways at a place of its own.
        let seed = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let offset = usize::try_from(seed.as_millis() % 1_000_000).unwrap();
        let turn = Spoil::ALL[offset % Spoil::ALL.len()];
        let ways = match verb {
            _ if all => Spoil::ALL.to_vec(),
            Verb::Up => vec![Spoil::LoseAnswer, Spoil::Hang],
            Verb::Down | Verb::Run => vec![turn],
        };
        let cases = ways.into_iter().enumerate().flat_map(|(i, spoil)| {
            let sampled = (offset + i * 7) % calls;
            let nths = if all { 0..calls } else { sampled..sampled + 1 };
            nths.map(move |nth| (nth, spoil))
        });
        for (nth, spoil) in cases {
            number += 1;
            if number % shards == shard && !case(&ground, &engine, verb, nth, spoil) {
                bad += 1;
            }
        }
    }
    assert_eq!(bad, 0, "cases are wrong, see above");
}

/// Runs a block, ends a node in the middle of it; exit code, what was printed, and the time from the end to that of the program.
fn ended_in_mid_block(ground: &Ground, end: impl FnOnce(&str)) -> (Option<i32>, String, Duration) {
    let history = ground.folder.path().join("run/history.jsonl");
    let mut child = program::testbed()
        .args(Verb::Run.words(ground))
        .stdout(std::fs::File::create(ground.folder.path().join("stdout")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let begun = || std::fs::read_to_string(&history).is_ok_and(|text| text.contains("peers_seen"));
    while !begun() {
        if began.elapsed() > LONGEST_FIRST {
            // Its lab is removed with the ground: nothing may go on making another.
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("no block began in {LONGEST_FIRST:?}");
        }
        assert_eq!(child.try_wait().unwrap(), None, "it ended before its block began");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let left = ground.left();
    let node = left.iter().find(|name| name.ends_with("-far")).unwrap();
    end(node);
    let ended = Instant::now();
    let status = child.wait().unwrap();
    let took = ended.elapsed();
    let printed = std::fs::read_to_string(ground.folder.path().join("stdout")).unwrap();
    (status.code(), printed, took)
}

fn docker(words: &[&str]) {
    // A command in a container that ends under it fails, as is wanted here.
    let _ = Command::new("docker").args(words).output().unwrap();
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_node_killed_in_mid_block_is_named_within_seconds() {
    let ground = Ground::new("kill");
    let (code, printed, took) = ended_in_mid_block(&ground, |node| docker(&["kill", node]));
    println!("killed: exit {code:?} after {:.1} s", took.as_secs_f64());
    assert_eq!(code, Some(5), "{printed}");
    assert!(
        printed.contains("node far") && printed.contains("exit code 137"),
        "{printed}"
    );
    assert!(printed.contains("void") && !printed.contains("✗"), "{printed}");
    assert!(took < TOLD, "{took:?}");
    assert_eq!(ground.left(), Vec::<String>::new());
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_node_out_of_memory_in_mid_block_is_named_with_its_reason() {
    let ground = Ground::new("oom");
    let (code, printed, took) = ended_in_mid_block(&ground, |node| {
        docker(&["exec", node, "redis-cli", "config", "set", "replica-read-only", "no"]);
        // In pieces: a server that is busy for seconds with one command would be a silent one, not one that ended.
        for piece in 0..64 {
            let key = format!("filled{piece}");
            docker(&["exec", node, "redis-cli", "setrange", &key, "67108863", "x"]);
            let Output { stdout, .. } = Command::new("docker")
                .args(["inspect", "--format", "{{.State.Running}}", node])
                .output()
                .unwrap();
            if stdout != b"true\n" {
                break;
            }
        }
    });
    println!("out of memory: exit {code:?} after {:.1} s", took.as_secs_f64());
    assert_eq!(code, Some(5), "{printed}");
    assert!(
        printed.contains("node far") && printed.contains("lack of memory"),
        "{printed}"
    );
    assert!(printed.contains("void") && !printed.contains("✗"), "{printed}");
    assert!(took < TOLD, "{took:?}");
    assert_eq!(ground.left(), Vec::<String>::new());
}
