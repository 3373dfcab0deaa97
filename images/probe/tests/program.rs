//! The probe as a program: its streams, its signals, and its measurements of real servers.
//!
//! Servers are started on loopback by the tests and stopped by their handles; where a server's program is not
//! installed the test says `skipped:` and why.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is a test, which clippy only sees in #[test] functions"
)]

#[path = "program/instrument.rs"]
mod instrument;
#[path = "program/operations.rs"]
mod operations;
#[path = "program/servers.rs"]
mod servers;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use wire::{FromProbe, Id, ProbeAnswer, ProbeOrder, ToProbe};

/// Far more than any order here takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running probe, killed when the test ends.
struct Probe {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Receiver<FromProbe>,
    /// Answers to other orders that came first.
    early: HashMap<Id, Vec<FromProbe>>,
    next_id: Id,
}

impl Probe {
    fn start() -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_probe")))
    }

    fn start_by(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let answers = read_answers(child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            answers,
            early: HashMap::new(),
            next_id: 1,
        }
    }

    fn send(&mut self, order: ProbeOrder) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        let line = serde_json::to_string(&ToProbe { id, order }).unwrap();
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        id
    }

    /// Next answer to `id`.
    fn answer(&mut self, id: Id) -> Result<ProbeAnswer, String> {
        if let Some(early) = self.early.get_mut(&id).filter(|answers| !answers.is_empty()) {
            return early.remove(0).result;
        }
        loop {
            let answer = self.answers.recv_timeout(PATIENCE).expect("an answer in time");
            if answer.id == id {
                return answer.result;
            }
            self.early.entry(answer.id).or_default().push(answer);
        }
    }

    fn ask(&mut self, order: ProbeOrder) -> Result<ProbeAnswer, String> {
        let id = self.send(order);
        self.answer(id)
    }

    fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the probe goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_answers(stdout: ChildStdout) -> Receiver<FromProbe> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let answer = serde_json::from_str(&line).expect("stdout carries answers and nothing else");
            if sender.send(answer).is_err() {
                return;
            }
        }
    });
    receiver
}

/// An address that accepts connections and never answers.
fn silent_server() -> (std::net::TcpListener, std::net::SocketAddrV4) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (
        listener,
        std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port),
    )
}

#[test]
fn a_signal_ends_it_at_once_also_while_an_order_runs() {
    for name in ["TERM", "INT"] {
        let (_listener, target) = silent_server();
        let mut probe = Probe::start();
        let timeout_ns = 600_000_000_000;
        probe.send(ProbeOrder::Redis {
            target,
            commands: vec![vec!["PING".into()]],
            timeout_ns,
        });
        assert!(probe.ask(ProbeOrder::Hello).is_ok());
        let began = Instant::now();
        probe.signal(name);
        assert_eq!(probe.wait().code(), Some(0), "SIG{name}");
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "the order would have taken ten minutes"
        );
    }
}

#[test]
fn the_end_of_its_input_does_not_end_it() {
    let mut probe = Probe::start();
    assert!(probe.ask(ProbeOrder::Hello).is_ok());
    drop(probe.stdin.take());
    // three times as long as it takes to look again
    std::thread::sleep(Duration::from_millis(300));
    assert!(probe.child.try_wait().unwrap().is_none(), "it ended");
    probe.signal("TERM");
    assert_eq!(probe.wait().code(), Some(0));
}

#[test]
fn a_controller_that_writes_without_reading_is_not_held_up() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_probe"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The answers, about 60 bytes each, fill a pipe of 64 KiB several times over before the first is read.
    let orders = 20_000;
    let (done, finished) = channel();
    std::thread::spawn(move || {
        for id in 0..orders {
            writeln!(stdin, r#"{{"id":{id},"order":"hello"}}"#).unwrap();
        }
        done.send(stdin).unwrap();
    });
    let written = finished.recv_timeout(PATIENCE);
    let answers = read_answers(child.stdout.take().unwrap());
    let read = (0..orders).filter(|_| answers.recv_timeout(PATIENCE).is_ok()).count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(written.is_ok(), "the writer was held up");
    assert_eq!(read, orders);
}

#[test]
fn arguments_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_probe"))
        .arg("--help")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty(), "stdout is for the protocol only");
    assert!(String::from_utf8_lossy(&output.stderr).contains("stdin"));
}
