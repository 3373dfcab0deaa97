//! The timed operations on a Redis or Valkey server, and the order of plain commands.

use super::{Connection, RedisError, Timed, accept, pack, reply, several};
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
            Operation::Messages { count, pause_ns } => {
                several::messages(&mut self.connection, *count, *pause_ns, self.limit)
            }
            Operation::Multi { key, sets, pipelined } => {
                several::transaction(&mut self.connection, key, *sets, *pipelined, self.limit)
            }
            Operation::Connect
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
mod tests;
