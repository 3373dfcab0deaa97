//! The timed operations on a Redis or Valkey server, and the order of plain commands.

use super::{Connection, RedisError, Timed, accept, pack, reply};
use crate::load::{Client, Outcome, strided};
use redis::Value;
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::{Load, Operation, Reply};

/// Commands one after the other on one connection. Error replies are replies; a connection that breaks
/// ends the order.
pub fn run_commands(target: SocketAddrV4, commands: &[Vec<String>], limit: Duration) -> Result<Vec<Reply>, RedisError> {
    let mut connection = Connection::open(target, limit)?;
    let mut replies = Vec::with_capacity(commands.len());
    for command in commands {
        let arguments: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
        let timed = connection.ask(&pack(&arguments), limit)?;
        replies.push(reply::to_wire(timed.value));
    }
    Ok(replies)
}

/// One connection of a load.
pub struct RedisClient {
    connection: Connection,
    operation: Operation,
    limit: Duration,
    /// Value of the SETs, made once.
    value: Vec<u8>,
}

impl Client for RedisClient {
    type Error = RedisError;

    fn open(load: &Load) -> Result<Self, RedisError> {
        let limit = Duration::from_nanos(load.timeout_ns);
        let value = match &load.operation {
            Operation::Set { value_bytes, .. } | Operation::SetWait { value_bytes, .. } => {
                vec![b'x'; *value_bytes as usize]
            }
            _ => Vec::new(),
        };
        Ok(Self {
            connection: Connection::open(load.target, limit)?,
            operation: load.operation.clone(),
            limit,
            value,
        })
    }

    fn nodelay(&self) -> bool {
        self.connection.nodelay()
    }

    fn warm(&mut self, i: u32) -> Result<(), RedisError> {
        if let Operation::SetNumber { key } = &self.operation {
            // Not the key itself: somebody may be watching it.
            let packed = pack(&[b"SET", format!("{key}:warmup").as_bytes(), i.to_string().as_bytes()]);
            return self.set(&packed).map(|_| ());
        }
        self.perform(i).map(|_| ())
    }

    fn perform(&mut self, i: u32) -> Result<Outcome, RedisError> {
        match &self.operation {
            Operation::Ping => {
                let timed = self.ask(&pack(&[b"PING"]))?;
                match timed.value {
                    Value::SimpleString(_) => Ok(outcome(&timed, 0)),
                    other => Err(RedisError::unexpected("PING", &other)),
                }
            }
            Operation::Get { key, keys, stride } => {
                let packed = pack(&[b"GET", numbered(key, strided(i, *stride, *keys)).as_bytes()]);
                let timed = self.ask(&packed)?;
                match timed.value {
                    Value::BulkString(_) => Ok(outcome(&timed, 0)),
                    Value::Nil => Err(RedisError::Absent),
                    other => Err(RedisError::unexpected("GET", &other)),
                }
            }
            Operation::Set { key, keys, .. } => {
                let packed = pack(&[b"SET", numbered(key, strided(i, 1, *keys)).as_bytes(), &self.value]);
                self.set(&packed)
            }
            Operation::SetNumber { key } => {
                let number = u64::from(i) + 1;
                let packed = pack(&[b"SET", key.as_bytes(), number.to_string().as_bytes()]);
                self.set(&packed)
            }
            Operation::SetWait {
                key,
                keys,
                replicas,
                wait_timeout_ms,
                ..
            } => {
                let set = pack(&[b"SET", numbered(key, strided(i, 1, *keys)).as_bytes(), &self.value]);
                let wait = pack(&[
                    b"WAIT",
                    replicas.to_string().as_bytes(),
                    wait_timeout_ms.to_string().as_bytes(),
                ]);
                // The server may use all of its own limit before it answers; ours begins after that.
                let limit = self.limit.saturating_add(Duration::from_millis(*wait_timeout_ms));
                self.set_and_wait(&set, &wait, limit)
            }
            Operation::Connect
            | Operation::Messages { .. }
            | Operation::Multi { .. }
            | Operation::Psync
            | Operation::PostgresConnect { .. }
            | Operation::PostgresRead { .. } => {
                unreachable!("a load is given to the client of its operation")
            }
        }
    }

    fn breaks(error: &RedisError) -> bool {
        error.breaks()
    }
}

impl RedisClient {
    /// One command; an error reply is an error.
    fn ask(&mut self, packed: &[u8]) -> Result<Timed<Value>, RedisError> {
        let Timed {
            started_ns,
            ended_ns,
            value,
        } = self.connection.ask(packed, self.limit)?;
        Ok(Timed {
            started_ns,
            ended_ns,
            value: accept(value)?,
        })
    }

    fn set(&mut self, packed: &[u8]) -> Result<Outcome, RedisError> {
        let timed = self.ask(packed)?;
        match timed.value {
            Value::Okay => Ok(outcome(&timed, 0)),
            other => Err(RedisError::unexpected("SET", &other)),
        }
    }

    fn set_and_wait(&mut self, set: &[u8], wait: &[u8], limit: Duration) -> Result<Outcome, RedisError> {
        let set = self.set(set)?;
        let waited = self.connection.ask(wait, limit)?;
        match accept(waited.value)? {
            Value::Int(replicas) => Ok(Outcome {
                started_ns: set.started_ns,
                ended_ns: waited.ended_ns,
                outcome: replicas,
            }),
            other => Err(RedisError::unexpected("WAIT", &other)),
        }
    }
}

fn outcome<T>(timed: &Timed<T>, outcome: i64) -> Outcome {
    Outcome {
        started_ns: timed.started_ns,
        ended_ns: timed.ended_ns,
        outcome,
    }
}

fn numbered(key: &str, number: u64) -> String {
    format!("{key}{number}")
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Act, bulk, ok, serve};
    use super::*;
    use crate::load;
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
        match load::run::<RedisClient>(load) {
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
        let error = load::run::<RedisClient>(&order).unwrap_err();
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
            load::run::<RedisClient>(&none),
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
}
