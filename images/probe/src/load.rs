//! The same operation again and again on several connections, each on its own thread.
//!
//! All connections are open and warm before the first counted operation of any. An operation that fails is
//! counted by cause; after one that broke the connection the next operation opens a new one, because a late
//! reply must not be taken for the answer to another command. A load that nobody answers ends: by its time if
//! it has one, else after [`GIVE_UP`] failures in a row. One that is ended from outside stops before its next operation.

use crate::clock;
use crate::failures::Failures;
use crate::pace::{Course, Lane, Step};
use crate::running::{ENDED, Stop};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use wire::{Load, Pace, ProbeAnswer, Sample};

/// Broken operations in a row after which a connection of a load without end time tries no more: with a
/// dead server each costs a whole time limit.
const GIVE_UP: u32 = 10;

/// Pause after a connection could not be opened, so that a closed loop does not storm a dead server.
const REOPEN_PAUSE_NS: u64 = 10_000_000;

/// Threads cost memory and each is a line in the container's pids limit.
const MAX_CONNECTIONS: u32 = 1024;

/// A measuring thread needs little stack.
pub const STACK_BYTES: usize = 256 * 1024;

/// What one operation gave.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Directly before the first write.
    pub started_ns: u64,
    /// Directly after the last reply was decoded.
    pub ended_ns: u64,
    /// The operation's own result, 0 where it has none.
    pub outcome: i64,
}

/// A connection that performs the operation of a load.
pub trait Client: Sized {
    /// Why an operation failed.
    type Error: std::error::Error + Send + 'static;
    /// Connects and prepares.
    fn open(load: &Load) -> Result<Self, Self::Error>;
    /// TCP_NODELAY as read back from the socket.
    fn nodelay(&self) -> bool;
    /// An operation that is not counted.
    fn warm(&mut self, i: u32) -> Result<(), Self::Error>;
    /// Operation number `i`.
    fn perform(&mut self, i: u32) -> Result<Outcome, Self::Error>;
    /// Whether the connection is of no use after this error.
    fn breaks(error: &Self::Error) -> bool;
}

/// Why a load did not even begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError<E: std::error::Error> {
    /// The order makes no sense.
    #[error("a load needs 1 to {MAX_CONNECTIONS} connections, not {0}")]
    Connections(u32),
    /// The kernel gave no thread.
    #[error("start thread of connection {lane}: {source}")]
    Thread {
        /// Connection, from 0.
        lane: u32,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// A connection could not be opened or broke while it was warmed.
    #[error("connection {lane}: {cause}")]
    Start {
        /// Connection, from 0.
        lane: u32,
        /// The client's reason.
        cause: E,
    },
}

/// `(i * stride) mod keys`; 0 keys count as one.
pub fn strided(i: u32, stride: u32, keys: u32) -> u64 {
    u64::from(i) * u64::from(stride) % u64::from(keys.max(1))
}

/// What one connection measured.
struct Record {
    samples: Vec<Sample>,
    failures: Failures,
    nodelay: bool,
}

/// Where the connections of a load meet before its first counted operation.
struct Gate<E: std::error::Error> {
    meeting: Mutex<Meeting<E>>,
    changed: Condvar,
}

struct Meeting<E: std::error::Error> {
    missing: u32,
    start_ns: u64,
    /// First reason why this load cannot begin: then nobody starts.
    refused: Option<LoadError<E>>,
}

impl<E: std::error::Error> Gate<E> {
    fn new(lanes: u32) -> Self {
        Self {
            meeting: Mutex::new(Meeting {
                missing: lanes,
                start_ns: 0,
                refused: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// This load cannot begin.
    fn refuse(&self, error: LoadError<E>) {
        self.lock().refused.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Waits for the other lanes and gives the start of the load, the same to all; `None` if it cannot begin.
    fn pass(&self) -> Option<u64> {
        let mut meeting = self.lock();
        meeting.missing -= 1;
        if meeting.missing == 0 {
            meeting.start_ns = clock::now_ns();
            self.changed.notify_all();
        }
        let meeting = self
            .changed
            .wait_while(meeting, |meeting| meeting.missing > 0 && meeting.refused.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        meeting.refused.is_none().then_some(meeting.start_ns)
    }

    fn lock(&self) -> MutexGuard<'_, Meeting<E>> {
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the whole load and returns when its last operation has ended.
pub fn run<C: Client>(load: &Load, stop: &Stop) -> Result<ProbeAnswer, LoadError<C::Error>> {
    if load.connections == 0 || load.connections > MAX_CONNECTIONS {
        return Err(LoadError::Connections(load.connections));
    }
    let gate = Gate::new(load.connections);
    let records: Vec<Record> = thread::scope(|scope| {
        let gate = &gate;
        let mut threads = Vec::new();
        // All but the first connection get a thread each; the first stays on the order's own.
        for lane in 1..load.connections {
            let spawned = thread::Builder::new()
                .name(format!("lane-{lane}"))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || drive::<C>(load, lane, gate, stop));
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    gate.refuse(LoadError::Thread { lane, source });
                    break;
                }
            }
        }
        let first = drive::<C>(load, 0, gate, stop);
        let others = threads
            .into_iter()
            .map(|thread| thread.join().expect("a lane does not panic"));
        std::iter::once(first).chain(others).flatten().collect()
    });
    let meeting = gate.meeting.into_inner().unwrap_or_else(PoisonError::into_inner);
    match meeting.refused {
        Some(error) => Err(error),
        None => Ok(merge(records)),
    }
}

/// One connection from its opening to its last operation; `None` if the load could not begin.
fn drive<C: Client>(load: &Load, lane: u32, gate: &Gate<C::Error>, stop: &Stop) -> Option<Record> {
    clock::sharpen();
    let mut failures = Failures::default();
    let client = match warmed::<C>(load, lane, stop, &mut failures) {
        Ok(client) => client,
        Err(cause) => {
            gate.refuse(LoadError::Start { lane, cause });
            return None;
        }
    };
    let start_ns = gate.pass()?;
    let course = Course {
        pace: load.pace,
        count: load.count,
        lanes: load.connections,
        start_ns,
        end_ns: load.for_ns.map(|length| start_ns.saturating_add(length)),
    };
    let mut record = Record {
        samples: Vec::new(),
        failures,
        nodelay: client.nodelay(),
    };
    measure(client, load, Lane::new(course, lane), stop, &mut record);
    Some(record)
}

/// An open connection after its warm-up. Operations that the server refused are counted, for the counted ones
/// will not fare better; a connection that broke is an error.
fn warmed<C: Client>(load: &Load, lane: u32, stop: &Stop, failures: &mut Failures) -> Result<C, C::Error> {
    let mut client = C::open(load)?;
    for round in 0..load.warmup {
        if stop.is_set() {
            break;
        }
        // The numbers that the lane will use, so that the same keys are warm.
        let i = u64::from(round) * u64::from(load.connections) + u64::from(lane);
        match client.warm(u32::try_from(i).unwrap_or(u32::MAX)) {
            Ok(()) => {}
            Err(error) if C::breaks(&error) => return Err(error),
            Err(error) => failures.add(format_args!("warm-up: {error}")),
        }
    }
    Ok(client)
}

/// The counted operations of one lane.
fn measure<C: Client>(client: C, load: &Load, mut lane: Lane, stop: &Stop, record: &mut Record) {
    let mut client = Some(client);
    let mut in_a_row = 0;
    loop {
        let (i, intended_ns) = match lane.step(clock::now_ns()) {
            Step::Start { i, intended_ns } => (i, intended_ns),
            Step::End { missed } => {
                record
                    .failures
                    .add_times("not started before the end of the load", missed);
                return;
            }
        };
        if !stop.sleep_until(intended_ns) {
            return record.failures.add_times(ENDED, left_out(load, lane, intended_ns));
        }
        match attempt(&mut client, load, i) {
            Ok((
                Outcome {
                    started_ns,
                    ended_ns,
                    outcome,
                },
                nodelay,
            )) => {
                in_a_row = 0;
                record.nodelay &= nodelay;
                // A closed loop intends what it does.
                let intended_ns = if matches!(load.pace, Pace::Open { .. }) {
                    intended_ns
                } else {
                    started_ns
                };
                record.samples.push(Sample {
                    intended_ns,
                    started_ns,
                    ended_ns,
                    outcome,
                });
            }
            Err(error) => {
                in_a_row = if client.is_none() { in_a_row + 1 } else { 0 };
                record.failures.add(error);
            }
        }
        if in_a_row >= GIVE_UP && load.for_ns.is_none() {
            let cause = format_args!("not tried after {GIVE_UP} broken connections in a row");
            record.failures.add_times(cause, lane.left());
            return;
        }
    }
}

/// Operations of a lane that an ended load still owed: all that were ordered, or, where a time bounds the load, those of
/// an open loop whose time had come.
fn left_out(load: &Load, mut lane: Lane, intended_ns: u64) -> u32 {
    if load.for_ns.is_none() {
        return lane.left().saturating_add(1);
    }
    let now_ns = clock::now_ns();
    lane.end_at(now_ns);
    let this = u32::from(matches!(load.pace, Pace::Open { .. }) && intended_ns < now_ns);
    match lane.step(now_ns) {
        Step::End { missed } => missed.saturating_add(this),
        Step::Start { .. } => unreachable!("the lane ends now"),
    }
}

/// One operation and whether its socket has TCP_NODELAY; on a new connection if there is none, and without
/// one afterwards if it broke.
fn attempt<C: Client>(client: &mut Option<C>, load: &Load, i: u32) -> Result<(Outcome, bool), C::Error> {
    let mut open = match client.take() {
        Some(open) => open,
        None => C::open(load).inspect_err(|_| clock::sleep_until(clock::now_ns() + REOPEN_PAUSE_NS))?,
    };
    let outcome = open.perform(i);
    let nodelay = open.nodelay();
    if !outcome.as_ref().is_err_and(C::breaks) {
        *client = Some(open);
    }
    Ok((outcome?, nodelay))
}

/// One answer from what the lanes measured.
fn merge(records: Vec<Record>) -> ProbeAnswer {
    let mut samples = Vec::with_capacity(records.iter().map(|record| record.samples.len()).sum());
    let mut failures = Failures::default();
    let mut nodelay = true;
    for record in records {
        samples.extend(record.samples);
        failures.merge(record.failures);
        nodelay &= record.nodelay;
    }
    samples.sort_by_key(|sample| sample.started_ns);
    ProbeAnswer::Samples {
        samples,
        failures: failures.into_wire(),
        nodelay: Some(nodelay),
    }
}
