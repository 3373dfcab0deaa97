//! A half of a cluster, asked again and again: reads and writes of every slot range on every node, and what each node says of
//! the cluster. An open loop per node, range and kind of access, each with a thread and a connection of its own.
//!
//! Nothing is followed and nothing is repeated: a redirect, a refusal and a silence are outcomes, kept as runs in time. A
//! number is written once; one whose reply did not come may have been applied all the same, which the outcome says.
//! What should have begun while a reply was waited for is left out and counted, so that a silent node gets no burst when it
//! speaks again.

mod state;

use super::{Connection, RedisError, pack, reply};
use crate::clock;
use crate::running::Stop;
use redis::Value;
use std::net::SocketAddrV4;
use std::thread;
use std::time::Duration;
use wire::{Access, Answers, HalfSeen, HalfWatch, LookRun, NodeLooks, Outcome, OutcomeRun, Passing};

/// Most streams and looks of an order: each is a thread.
const MOST_THREADS: usize = 512;

/// Why a half cannot be watched.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HalfError {
    /// No nodes, no ranges, or a range without tags.
    #[error("nothing to ask: {0}")]
    Nothing(&'static str),
    /// An interval of nothing.
    #[error("an interval of zero was ordered")]
    NoInterval,
    /// More than threads should be made for.
    #[error("{0} nodes with {1} ranges are more than it asks at once")]
    TooMany(usize, usize),
    /// A thread could not be started.
    #[error("start a thread")]
    Thread,
}

/// Watches until the time is over or the order is ended; `ready` is called once all threads are there.
pub fn watch(order: &HalfWatch, stop: &Stop, ready: impl FnOnce()) -> Result<HalfSeen, HalfError> {
    check(order)?;
    let from_ns = clock::now_ns();
    let streams = streams(order, from_ns);
    // A thread that cannot be started ends the others.
    let broken = Stop::default();
    let ended = || stop.is_set() || broken.is_set();
    let seen = thread::scope(|scope| {
        let asking: Vec<_> = streams
            .iter()
            .map(|stream| thread::Builder::new().spawn_scoped(scope, || stream.ask(stop, &ended)))
            .collect();
        let looking: Vec<_> = order
            .nodes
            .iter()
            .map(|&node| thread::Builder::new().spawn_scoped(scope, move || look(order, node, from_ns, stop)))
            .collect();
        let all_there = asking.iter().all(Result::is_ok) && looking.iter().all(Result::is_ok);
        if all_there {
            ready();
        } else {
            broken.set();
            stop.set();
        }
        let answers = asking.into_iter().map(|thread| thread.ok()?.join().ok()).collect();
        let nodes = looking.into_iter().map(|thread| thread.ok()?.join().ok()).collect();
        Some((answers, nodes)).filter(|_| all_there)
    });
    match seen {
        Some((Some(answers), Some(nodes))) => Ok(HalfSeen {
            from_ns,
            to_ns: clock::now_ns(),
            answers,
            nodes,
        }),
        _ => Err(HalfError::Thread),
    }
}

fn check(order: &HalfWatch) -> Result<(), HalfError> {
    if order.nodes.is_empty() {
        return Err(HalfError::Nothing("no nodes"));
    }
    if order.ranges.is_empty() || order.ranges.iter().any(Vec::is_empty) {
        return Err(HalfError::Nothing("a range without tags, or none"));
    }
    if order.interval_ns == 0 || order.look_ns == 0 {
        return Err(HalfError::NoInterval);
    }
    let (nodes, ranges) = (order.nodes.len(), order.ranges.len());
    if nodes.saturating_mul(2 * ranges + 1) > MOST_THREADS {
        return Err(HalfError::TooMany(nodes, ranges));
    }
    Ok(())
}

/// Reads or writes of one range on one node.
struct Stream<'a> {
    order: &'a HalfWatch,
    node: usize,
    range: usize,
    access: Access,
    /// When its first operation begins: the streams do not all begin at once.
    start_ns: u64,
    end_ns: u64,
}

fn streams(order: &HalfWatch, from_ns: u64) -> Vec<Stream<'_>> {
    let all = order.nodes.len() * order.ranges.len() * 2;
    let mut streams = Vec::with_capacity(all);
    for node in 0..order.nodes.len() {
        for range in 0..order.ranges.len() {
            for access in [Access::Read, Access::Write] {
                let share = order.interval_ns / all as u64;
                streams.push(Stream {
                    order,
                    node,
                    range,
                    access,
                    start_ns: from_ns + share * streams.len() as u64,
                    end_ns: from_ns.saturating_add(order.for_ns),
                });
            }
        }
    }
    streams
}

impl Stream<'_> {
    fn ask(&self, stop: &Stop, ended: &impl Fn() -> bool) -> Answers {
        let mut beat = Beat::new(self.start_ns, self.order.interval_ns, self.end_ns);
        let mut line = Line::new(self.order, self.node);
        let mut runs = Vec::new();
        let mut number = 0;
        while beat.wait(stop) && !ended() {
            let from_ns = clock::now_ns();
            let outcome = line.ask(&self.packed(number), self.access);
            note(&mut runs, number, from_ns, clock::now_ns(), outcome);
            number += 1;
        }
        Answers {
            node: *self.order.nodes[self.node].ip(),
            range: u32::try_from(self.range).unwrap_or(u32::MAX),
            access: self.access,
            runs,
            missed: beat.missed,
        }
    }

    fn packed(&self, number: u32) -> Vec<u8> {
        let HalfWatch { prefix, ranges, .. } = self.order;
        let tags = &ranges[self.range];
        let tag = &tags[number as usize % tags.len()];
        match self.access {
            Access::Read => pack(&[b"GET", format!("{prefix}read{{{tag}}}").as_bytes()]),
            Access::Write => {
                let key = format!("{prefix}{}-{}-{number}{{{tag}}}", self.node, self.range);
                pack(&[b"SET", key.as_bytes(), number.to_string().as_bytes()])
            }
        }
    }
}

/// Adds an operation to the run that it continues, or begins another.
fn note(runs: &mut Vec<OutcomeRun>, number: u32, from_ns: u64, to_ns: u64, outcome: Outcome) {
    let took_ns = to_ns.saturating_sub(from_ns);
    match runs.last_mut() {
        Some(run) if run.outcome == outcome => {
            run.count += 1;
            run.to_ns = to_ns;
            run.longest_ns = run.longest_ns.max(took_ns);
        }
        _ => runs.push(OutcomeRun {
            first: number,
            count: 1,
            from_ns,
            to_ns,
            longest_ns: took_ns,
            outcome,
        }),
    }
}

/// The beat of an open loop that makes up for nothing.
struct Beat {
    start_ns: u64,
    interval_ns: u64,
    end_ns: u64,
    next: u64,
    missed: u32,
}

impl Beat {
    fn new(start_ns: u64, interval_ns: u64, end_ns: u64) -> Self {
        Self {
            start_ns,
            interval_ns,
            end_ns,
            next: 0,
            missed: 0,
        }
    }

    /// Sleeps until the next operation should begin; `false` at the end. One that is less than an interval late is done.
    fn wait(&mut self, stop: &Stop) -> bool {
        let passed = clock::now_ns().saturating_sub(self.start_ns) / self.interval_ns;
        if passed > self.next {
            let left_out = u32::try_from(passed - self.next).unwrap_or(u32::MAX);
            self.missed = self.missed.saturating_add(left_out);
            self.next = passed;
        }
        let at_ns = self.start_ns.saturating_add(self.next.saturating_mul(self.interval_ns));
        self.next += 1;
        at_ns < self.end_ns && stop.sleep_until(at_ns)
    }
}

/// A connection to a node, opened again after it broke.
struct Line {
    node: SocketAddrV4,
    limit: Duration,
    connection: Option<Connection>,
}

impl Line {
    fn new(order: &HalfWatch, node: usize) -> Self {
        Self {
            node: order.nodes[node],
            limit: Duration::from_nanos(order.timeout_ns),
            connection: None,
        }
    }

    fn ask(&mut self, packed: &[u8], access: Access) -> Outcome {
        match self.all(packed, 1) {
            Ok(replies) => replies.into_iter().next().map_or_else(
                || Outcome::Silent("no reply".to_owned()),
                |reply| outcome_of(reply, access),
            ),
            Err(error) => Outcome::Silent(error.to_string()),
        }
    }

    /// So many replies to what was written at once. After any failure the connection is given up.
    fn all(&mut self, packed: &[u8], replies: usize) -> Result<Vec<Value>, RedisError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.node, self.limit)?,
        };
        connection.send(packed)?;
        let values = (0..replies)
            .map(|_| connection.receive(self.limit))
            .collect::<Result<_, _>>()?;
        self.connection = Some(connection);
        Ok(values)
    }
}

fn outcome_of(reply: Value, access: Access) -> Outcome {
    match (access, reply) {
        (_, Value::ServerError(error)) => Outcome::of_error(&reply::error_text(&error)),
        (Access::Write, Value::Okay) | (Access::Read, Value::BulkString(_)) => Outcome::Served,
        (Access::Read, Value::Nil) => Outcome::Absent,
        (_, other) => Outcome::Refused(format!("unexpected {other:?}")),
    }
}

/// Looks at what one node says of the cluster.
fn look(order: &HalfWatch, node: SocketAddrV4, from_ns: u64, stop: &Stop) -> NodeLooks {
    let packed = [
        pack(&[b"CLUSTER", b"INFO"]),
        pack(&[b"CLUSTER", b"NODES"]),
        pack(&[b"INFO", b"replication"]),
    ]
    .concat();
    let mut beat = Beat::new(from_ns, order.look_ns, from_ns.saturating_add(order.for_ns));
    let mut line = Line {
        node,
        limit: Duration::from_nanos(order.timeout_ns),
        connection: None,
    };
    let mut runs: Vec<LookRun> = Vec::new();
    while beat.wait(stop) {
        let (seen, last) = match line.all(&packed, 3) {
            Ok(replies) => state::of(replies),
            Err(error) => (Err(error.to_string()), Passing::default()),
        };
        let to_ns = clock::now_ns();
        match runs.last_mut() {
            Some(run) if run.seen == seen => {
                run.count += 1;
                run.to_ns = to_ns;
                run.last = last;
            }
            _ => runs.push(LookRun {
                count: 1,
                from_ns: to_ns,
                to_ns,
                seen,
                last,
            }),
        }
    }
    NodeLooks { node: *node.ip(), runs }
}

#[cfg(test)]
mod tests;
