//! Real servers on loopback: a primary with a replica, and a database.

use super::{PATIENCE, Probe};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::{Load, Operation, Pace, ProbeAnswer, ProbeOrder, Reply, Sample};

pub const S: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;

/// Tells why a test proves nothing here; past the capture of the test harness.
pub fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

fn free_address() -> SocketAddrV4 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port())
}

/// A server of this test, stopped with it.
pub struct Server {
    child: Child,
    pub target: SocketAddrV4,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Asked first: a database that is killed leaves shared memory behind.
        let _ = Command::new("sh")
            .args(["-c", &format!("kill -INT {}", self.child.id())])
            .status();
        let began = Instant::now();
        while began.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory of this test, removed with it.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("probe-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `None` if the program is not installed.
pub fn redis(directory: &Path, primary: Option<SocketAddrV4>) -> Option<Server> {
    let target = free_address();
    let mut command = Command::new("redis-server");
    command.args([
        "--bind",
        "127.0.0.1",
        "--port",
        &target.port().to_string(),
        "--save",
        "",
    ]);
    command.args(["--notify-keyspace-events", "K$", "--repl-diskless-sync-delay", "0"]);
    if let Some(primary) = primary {
        command.args(["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    }
    let child = command.current_dir(directory).stdout(Stdio::null()).spawn().ok()?;
    Some(Server { child, target })
}

/// Asks until `accepts` the answer.
pub fn until(probe: &mut Probe, order: &ProbeOrder, accepts: impl Fn(&ProbeAnswer) -> bool) {
    let began = Instant::now();
    loop {
        let answer = probe.ask(order.clone());
        if answer.as_ref().is_ok_and(&accepts) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "last answer: {answer:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn commands(target: SocketAddrV4, command: &[&str]) -> ProbeOrder {
    let commands = vec![command.iter().map(ToString::to_string).collect()];
    ProbeOrder::Redis {
        target,
        commands,
        timeout_ns: S,
    }
}

pub fn load(target: SocketAddrV4, operation: Operation, count: u32) -> Load {
    let pace = Pace::Closed { pause_ns: 0 };
    Load {
        target,
        operation,
        connections: 1,
        warmup: 0,
        count,
        for_ns: None,
        pace,
        timeout_ns: 5 * S,
    }
}

/// Samples of an answer without any failure.
pub fn samples(answer: Result<ProbeAnswer, String>) -> Vec<Sample> {
    match answer {
        Ok(ProbeAnswer::Samples {
            samples,
            failures,
            nodelay: Some(true),
        }) if failures.is_empty() => samples,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_primary_and_its_replica_are_measured() {
    let directory = Directory::new("redis");
    let Some(primary) = redis(&directory.0, None) else {
        return skipped("redis-server is not installed");
    };
    let replica = redis(&directory.0, Some(primary.target)).unwrap();
    let mut probe = Probe::start();
    let role = |answer: &ProbeAnswer| match answer {
        ProbeAnswer::Replies(replies) => {
            matches!(&replies[0], Reply::Array(role) if role.get(3) == Some(&Reply::Text("connected".into())))
        }
        _ => false,
    };
    until(&mut probe, &commands(replica.target, &["ROLE"]), role);

    let (key, keys, value_bytes) = ("w".to_owned(), 3, 10);
    let wait = Operation::SetWait {
        key,
        keys,
        value_bytes,
        replicas: 1,
        wait_timeout_ms: 5000,
    };
    let waited = samples(probe.ask(ProbeOrder::Load(load(primary.target, wait, 50))));
    assert!(waited.len() == 50 && waited.iter().all(|sample| sample.outcome == 1));

    let (target, prefix, timeout_ns) = (primary.target, "l".to_owned(), 5 * S);
    let pace = Pace::Open { interval_ns: MS / 10 };
    let ledger = ProbeOrder::Ledger {
        target,
        prefix,
        count: 300,
        value_bytes: 20,
        pace,
        timeout_ns,
    };
    let Ok(ProbeAnswer::Ledger {
        writes,
        error: None,
        nodelay: true,
    }) = probe.ask(ledger)
    else {
        panic!("no ledger")
    };
    assert!(writes.len() == 300 && writes.iter().all(|write| write.acknowledged_ns.is_some()));
    let audit = ProbeOrder::Audit {
        target: replica.target,
        prefix: "l".into(),
        count: 310,
        timeout_ns,
    };
    until(&mut probe, &audit, |answer| {
        *answer == ProbeAnswer::Present((0..300).collect())
    });

    visibility(&mut probe, primary.target, replica.target);
}

/// Poll and watch see the same numbers, and none before it was written.
fn visibility(probe: &mut Probe, primary: SocketAddrV4, replica: SocketAddrV4) {
    let (target, key, count, deadline_ns) = (replica, "n".to_owned(), 20, 20 * S);
    let poll = probe.send(ProbeOrder::Poll {
        target,
        key: key.clone(),
        count,
        pause_ns: 0,
        deadline_ns,
    });
    let watch = probe.send(ProbeOrder::Watch {
        target,
        key: key.clone(),
        count,
        deadline_ns,
    });
    assert_eq!(probe.answer(poll), Ok(ProbeAnswer::Watching));
    assert_eq!(probe.answer(watch), Ok(ProbeAnswer::Watching));
    let pace = Pace::Closed { pause_ns: 5 * MS };
    let numbers = Load {
        warmup: 3,
        pace,
        ..load(primary, Operation::SetNumber { key }, count)
    };
    let written = samples(probe.ask(ProbeOrder::Load(numbers)));
    let watched = samples(probe.answer(watch));
    assert_eq!(
        watched.iter().map(|sample| sample.outcome).collect::<Vec<_>>(),
        (1..=20).collect::<Vec<_>>()
    );
    for (event, write) in watched.iter().zip(&written) {
        assert!(event.ended_ns > write.started_ns);
    }
    // A busy machine may delay a poll beyond the next write; what it skipped it says.
    let Ok(ProbeAnswer::Samples {
        samples: polled,
        failures,
        ..
    }) = probe.answer(poll)
    else {
        panic!("no samples")
    };
    let skipped: u32 = failures.iter().map(|failure| failure.times).sum();
    assert_eq!(u32::try_from(polled.len()).unwrap() + skipped, 20, "{failures:?}");
    for sample in &polled {
        let write = &written[usize::try_from(sample.outcome).unwrap() - 1];
        assert!(sample.ended_ns > write.started_ns && sample.intended_ns <= sample.started_ns);
    }
}

/// Debian keeps the server's programs out of the path.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .find(|bin| bin.join("initdb").exists())
}

/// A program of Postgres, which refuses to run as root.
fn as_postgres(program: &Path) -> Command {
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|id| id.stdout == b"0\n");
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--clear-groups"])
        .arg(program);
    command
}

/// `None` if no database can be made here.
pub fn postgres(directory: &Path) -> Option<Server> {
    let programs = postgres_programs()?;
    let cluster = directory.join("cluster");
    let _ = Command::new("chown")
        .arg("postgres")
        .arg(directory)
        .stderr(Stdio::null())
        .status();
    let made = as_postgres(&programs.join("initdb"))
        .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
        .arg(&cluster)
        .current_dir(directory)
        .stdout(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return None;
    }
    // Roles of this name are asked for a password, all others are trusted.
    let rules = cluster.join("pg_hba.conf");
    let trust = std::fs::read_to_string(&rules).unwrap();
    std::fs::write(&rules, format!("host all scram all scram-sha-256\n{trust}")).unwrap();
    let target = free_address();
    let child = as_postgres(&programs.join("postgres"))
        .args([
            "-h",
            "127.0.0.1",
            "-p",
            &target.port().to_string(),
            "-c",
            "unix_socket_directories=",
            "-D",
        ])
        .arg(&cluster)
        .current_dir(directory)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    Some(Server { child, target })
}

#[test]
fn a_database_is_measured() {
    let directory = Directory::new("postgres");
    let Some(server) = postgres(&directory.0) else {
        return skipped("no Postgres server is installed, or initdb does not run here");
    };
    let (target, timeout_ns) = (server.target, 10 * S);
    let mut probe = Probe::start();
    let query = |sql: &str| ProbeOrder::PostgresQuery {
        target,
        sql: sql.into(),
        timeout_ns,
    };
    until(&mut probe, &query("select 'up'"), |answer| {
        *answer == ProbeAnswer::Text("up".into())
    });

    let sql = "create table kv (id int primary key, v text); \
               insert into kv select g, 'v' || g from generate_series(0, 9) g"
        .to_owned();
    assert_eq!(
        probe.ask(ProbeOrder::PostgresBatch {
            target,
            sql,
            timeout_ns
        }),
        Ok(ProbeAnswer::Done)
    );
    assert_eq!(
        probe.ask(query("select v from kv where id = 7")),
        Ok(ProbeAnswer::Text("v7".into()))
    );
    assert!(
        probe
            .ask(query("select v from kv where id = 70"))
            .unwrap_err()
            .ends_with("the query gave no row")
    );
    assert!(
        probe
            .ask(query("select nothing"))
            .unwrap_err()
            .contains("SQLSTATE 42703")
    );

    let read = |keys| Operation::PostgresRead {
        sql: "select v from kv where id = $1".into(),
        keys,
        stride: 3,
    };
    let load = |keys| Load {
        connections: 2,
        warmup: 2,
        ..load(target, read(keys), 40)
    };
    assert_eq!(samples(probe.ask(ProbeOrder::Load(load(10)))).len(), 40);
    // twice as many keys as rows: half of the reads find none
    let answer = probe.ask(ProbeOrder::Load(Load { warmup: 0, ..load(20) }));
    let Ok(ProbeAnswer::Samples { samples, failures, .. }) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (samples.len(), failures[0].cause.as_str(), failures[0].times),
        (20, "0 rows instead of one", 20)
    );

    late_query_is_cancelled(&mut probe, target);
}

/// A query beyond its limit fails in time, and the server does not go on with it.
fn late_query_is_cancelled(probe: &mut Probe, target: SocketAddrV4) {
    let sql = "select pg_sleep(3600)".to_owned();
    let error = probe
        .ask(ProbeOrder::PostgresQuery {
            target,
            sql,
            timeout_ns: 100 * MS,
        })
        .unwrap_err();
    assert!(error.ends_with("no reply within 100 ms"), "{error}");
    let sql = "select count(*) from pg_stat_activity where query like '%pg_sleep(3600)%' \
               and state = 'active' and pid <> pg_backend_pid()"
        .to_owned();
    let sleeping = ProbeOrder::PostgresQuery {
        target,
        sql,
        timeout_ns: 10 * S,
    };
    until(probe, &sleeping, |answer| *answer == ProbeAnswer::Text("0".into()));
}
