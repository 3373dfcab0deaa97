//! Operations of more than one command whose form on the wire is what is measured: messages in a row, and transactions.
//!
//! Every reply is read even after one that refused, so that the next operation gets its own; the first refusal is then
//! the error.

use super::{Connection, RedisError, accept, pack};
use crate::clock;
use crate::load::Outcome;
use redis::Value;
use std::time::Duration;

/// PINGs, each in a write of its own and so in a packet of its own, a pause between two; timed from the first write
/// to the last reply.
pub fn messages(
    connection: &mut Connection,
    count: u32,
    pause_ns: u64,
    limit: Duration,
) -> Result<Outcome, RedisError> {
    if count == 0 {
        return Err(RedisError::NoMessages);
    }
    let ping = pack(&[b"PING"]);
    let started_ns = clock::now_ns();
    let mut next_ns = started_ns;
    for _ in 0..count {
        clock::sleep_until(next_ns);
        next_ns = clock::now_ns().saturating_add(pause_ns);
        connection.send(&ping)?;
    }
    let mut replies = Replies::default();
    for _ in 0..count {
        replies.take("PING", connection.receive(limit)?, |value| {
            matches!(value, Value::SimpleString(_))
        });
    }
    replies.outcome(started_ns)
}

/// MULTI, SETs of `<key>0`..., EXEC; written at once, or each after the reply to the one before.
pub fn transaction(
    connection: &mut Connection,
    key: &str,
    sets: u32,
    pipelined: bool,
    limit: Duration,
) -> Result<Outcome, RedisError> {
    let mut commands = vec![pack(&[b"MULTI"])];
    commands.extend((0..sets).map(|i| pack(&[b"SET", format!("{key}{i}").as_bytes(), b"x"])));
    commands.push(pack(&[b"EXEC"]));
    let last = commands.len() - 1;
    let at_once = commands.concat();
    let mut replies = Replies::default();
    let started_ns = clock::now_ns();
    if pipelined {
        connection.send(&at_once)?;
    }
    for (i, command) in commands.iter().enumerate() {
        if !pipelined {
            connection.send(command)?;
        }
        let reply = connection.receive(limit)?;
        match i {
            0 => replies.take("MULTI", reply, |value| *value == Value::Okay),
            _ if i < last => replies.take(
                "SET in MULTI",
                reply,
                |value| matches!(value, Value::SimpleString(text) if text == "QUEUED"),
            ),
            _ => replies.take("EXEC", reply, |value| all_done(value, sets)),
        }
    }
    replies.outcome(started_ns)
}

fn all_done(exec: &Value, sets: u32) -> bool {
    let Value::Array(done) = exec else { return false };
    done.len() == sets as usize && done.iter().all(|value| *value == Value::Okay)
}

/// What came of the replies so far.
#[derive(Default)]
struct Replies {
    refused: Option<RedisError>,
}

impl Replies {
    fn take(&mut self, command: &'static str, reply: Value, expected: impl FnOnce(&Value) -> bool) {
        let error = match accept(reply) {
            Ok(value) if expected(&value) => return,
            Ok(value) => RedisError::unexpected(command, &value),
            Err(error) => error,
        };
        self.refused.get_or_insert(error);
    }

    fn outcome(self, started_ns: u64) -> Result<Outcome, RedisError> {
        let ended_ns = clock::now_ns();
        match self.refused {
            Some(error) => Err(error),
            None => Ok(Outcome {
                started_ns,
                ended_ns,
                outcome: 0,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Act, ok, serve};
    use super::*;
    use std::net::SocketAddrV4;
    use std::sync::mpsc::channel;

    const LIMIT: Duration = Duration::from_secs(5);

    fn open(target: SocketAddrV4) -> Connection {
        Connection::open(target, LIMIT).unwrap()
    }

    /// Replies of a server to a transaction of two SETs, and the commands that it got.
    fn transact(pipelined: bool, refuse: &'static str) -> (Result<Outcome, RedisError>, Vec<String>) {
        let (heard, hears) = channel();
        let target = serve(move |command| {
            heard.send(command.join(" ")).unwrap();
            if command.last().is_some_and(|word| word == refuse) || command[1..].first().is_some_and(|k| k == refuse) {
                return Act::Say("-READONLY no writes here\r\n".into());
            }
            match command[0].as_str() {
                "MULTI" => ok(),
                "SET" => Act::Say("+QUEUED\r\n".into()),
                "EXEC" if refuse.is_empty() => Act::Say("*2\r\n+OK\r\n+OK\r\n".into()),
                "EXEC" => Act::Say("-EXECABORT discarded\r\n".into()),
                _ => Act::Say("+PONG\r\n".into()),
            }
        });
        let mut connection = open(target);
        let outcome = transaction(&mut connection, "k", 2, pipelined, LIMIT);
        // whatever came of it, the next command gets its own reply
        messages(&mut connection, 1, 0, LIMIT).unwrap();
        (outcome, hears.try_iter().collect())
    }

    #[test]
    fn a_transaction_is_the_same_commands_in_both_forms() {
        for pipelined in [false, true] {
            let (outcome, commands) = transact(pipelined, "");
            let outcome = outcome.unwrap();
            assert!(outcome.started_ns < outcome.ended_ns);
            assert_eq!(commands, ["MULTI", "SET k0 x", "SET k1 x", "EXEC", "PING"]);
        }
    }

    #[test]
    fn the_first_refusal_of_a_transaction_is_its_error() {
        for pipelined in [false, true] {
            let (outcome, _) = transact(pipelined, "k1");
            let error = outcome.unwrap_err();
            assert_eq!(error.to_string(), "READONLY no writes here");
            assert!(!error.breaks());
        }
    }

    #[test]
    fn unpipelined_each_command_waits_for_the_reply_before() {
        let slow = Duration::from_millis(10);
        let target = serve(move |command| {
            let reply = match command[0].as_str() {
                "MULTI" => "+OK\r\n",
                "SET" => "+QUEUED\r\n",
                _ => "*2\r\n+OK\r\n+OK\r\n",
            };
            Act::Late(slow, reply.into())
        });
        let took = transaction(&mut open(target), "k", 2, false, LIMIT).unwrap();
        assert!(took.ended_ns - took.started_ns >= 40_000_000);
    }

    #[test]
    fn messages_are_written_apart_and_end_with_the_last_reply() {
        let (heard, hears) = channel();
        let target = serve(move |_| {
            heard.send(clock::now_ns()).unwrap();
            Act::Late(Duration::from_millis(5), "+PONG\r\n".into())
        });
        let mut connection = open(target);
        let outcome = messages(&mut connection, 3, 20_000_000, LIMIT).unwrap();
        let came: Vec<u64> = hears.try_iter().collect();
        assert_eq!(came.len(), 3);
        assert!(came[0] >= outcome.started_ns && came[2] - outcome.started_ns >= 40_000_000);
        assert!(outcome.ended_ns >= came[2] + 5_000_000);
        let none = messages(&mut connection, 0, 0, LIMIT).unwrap_err();
        assert!(matches!(none, RedisError::NoMessages) && !none.breaks());
    }
}
