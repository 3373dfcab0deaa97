//! `PSYNC ? -1` until its first reply: what a replica's request for everything costs, without the replica's own timers.
//!
//! As a replica would, it says first, untimed, that it takes a data set from the socket (`capa eof`): to one that cannot, the
//! server saves to its disk, and the file stays. The server must not be told to wait for company
//! (`repl-diskless-sync-delay` 0), or that wait is what is timed. A server begins only one save at a time, so each
//! operation first waits, untimed, until none is under way, and closes, untimed, as soon as it was answered; the server
//! then drops the save.

use super::{Connection, RedisError, accept, pack};
use crate::anew::{Anew, Beginning};
use crate::clock;
use crate::load::Outcome;
use redis::Value;
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::Load;

/// Between two looks whether a save is under way: the server itself looks ten times a second.
const LOOK_NS: u64 = 10_000_000;

/// A load of such requests.
pub type PsyncClient = Anew<Psync>;

/// Asks and closes.
pub struct Psync;

impl Beginning for Psync {
    type Error = RedisError;

    fn of(_: &Load) -> Self {
        Self
    }

    fn perform(&self, target: SocketAddrV4, limit: Duration) -> Result<(Outcome, bool), RedisError> {
        let mut connection = Connection::open(target, limit)?;
        prepare(&mut connection, limit)?;
        let timed = connection.ask(&pack(&[b"PSYNC", b"?", b"-1"]), limit)?;
        match accept(timed.value)? {
            Value::SimpleString(text) if text.starts_with("FULLRESYNC ") => {
                let outcome = Outcome {
                    started_ns: timed.started_ns,
                    ended_ns: timed.ended_ns,
                    outcome: 0,
                };
                Ok((outcome, connection.nodelay()))
            }
            other => Err(RedisError::unexpected("PSYNC", &other)),
        }
    }

    fn breaks(error: &RedisError) -> bool {
        error.breaks()
    }
}

/// Says what a replica can take, and waits until no save is under way.
fn prepare(connection: &mut Connection, limit: Duration) -> Result<(), RedisError> {
    let deadline_ns = clock::now_ns().saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let look = pack(&[b"INFO", b"persistence"]);
    connection.send(&[pack(&[b"REPLCONF", b"capa", b"eof"]), look.clone()].concat())?;
    match accept(connection.receive(limit)?)? {
        Value::Okay => {}
        other => return Err(RedisError::unexpected("REPLCONF", &other)),
    }
    loop {
        match accept(connection.receive(limit)?)? {
            Value::BulkString(text) if !saves(&text) => return Ok(()),
            Value::BulkString(_) => {}
            other => return Err(RedisError::unexpected("INFO persistence", &other)),
        }
        if clock::until(deadline_ns).is_zero() {
            return Err(RedisError::Saving(limit.as_millis()));
        }
        clock::sleep_until(clock::now_ns() + LOOK_NS);
        connection.send(&look)?;
    }
}

/// Whether `INFO persistence` tells of a child that saves.
fn saves(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines();
    lines.any(|line| matches!(line, "rdb_bgsave_in_progress:1" | "aof_rewrite_in_progress:1"))
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Act, bulk, ok, serve};
    use super::*;
    use crate::load;
    use crate::running::Stop;
    use std::sync::mpsc::channel;
    use wire::{Failure, Operation, Pace, ProbeAnswer, Sample};

    fn run(target: SocketAddrV4, limit: Duration) -> (Vec<Sample>, Vec<Failure>) {
        let load = Load {
            target,
            operation: Operation::Psync,
            connections: 1,
            warmup: 0,
            count: 2,
            for_ns: None,
            pace: Pace::Closed { pause_ns: 0 },
            timeout_ns: u64::try_from(limit.as_nanos()).unwrap(),
        };
        match load::run::<PsyncClient>(&load, &Stop::default()) {
            Ok(ProbeAnswer::Samples {
                samples,
                failures,
                nodelay: Some(true),
            }) => (samples, failures),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_waits_for_the_save_before_it_and_only_the_answer_is_timed() {
        let (heard, hears) = channel();
        let mut looks = 0;
        let target = serve(move |command| {
            heard.send(command.join(" ")).unwrap();
            if command[0] == "PSYNC" {
                let id = "a".repeat(40);
                let reply = format!("+FULLRESYNC {id} 0\r\n$EOF:{id}\r\nREDIS0011");
                return Act::Late(Duration::from_millis(3), reply);
            }
            if command[0] == "REPLCONF" {
                return ok();
            }
            looks += 1;
            let saving = u8::from(looks == 2);
            let text = format!("# Persistence\r\nloading:0\r\nrdb_bgsave_in_progress:{saving}\r\n");
            Act::Say(bulk(&text))
        });
        let (samples, failures) = run(target, Duration::from_secs(5));
        assert_eq!((samples.len(), failures), (2, vec![]));
        let commands: Vec<String> = hears.try_iter().collect();
        let (able, info, psync) = ("REPLCONF capa eof", "INFO persistence", "PSYNC ? -1");
        assert_eq!(commands, [able, info, psync, able, info, info, psync]);
        for sample in samples {
            let took = sample.ended_ns - sample.started_ns;
            assert!(
                (3_000_000..13_000_000).contains(&took),
                "a look costs 10 ms, the answer 3: {took}"
            );
        }
    }

    #[test]
    fn a_save_without_end_and_a_refusal_are_failures() {
        let target = serve(|command| match command[0].as_str() {
            "REPLCONF" => ok(),
            _ => Act::Say(bulk("rdb_bgsave_in_progress:1")),
        });
        let (samples, failures) = run(target, Duration::from_millis(30));
        assert_eq!((samples.len(), failures[0].times), (0, 2));
        assert_eq!(failures[0].cause, "the server was still saving after 30 ms");
        let target = serve(|command| match command[0].as_str() {
            "PSYNC" => Act::Say("-NOMASTERLINK Can't SYNC\r\n".into()),
            "REPLCONF" => ok(),
            _ => Act::Say(bulk("rdb_bgsave_in_progress:0")),
        });
        let (_, failures) = run(target, Duration::from_secs(5));
        assert_eq!(
            (failures[0].cause.as_str(), failures[0].times),
            ("NOMASTERLINK Can't SYNC", 2)
        );
    }
}
