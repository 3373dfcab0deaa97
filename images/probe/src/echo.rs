//! Round trips between probes: the link measured without any server.
//!
//! The far end sends back what it got and the time at which it got it (`responder`), so that the asker knows both
//! one-way times. Over UDP each message is a datagram, over TCP all share one connection with TCP_NODELAY; the words are
//! the same. A lost round trip is counted, and its late reply is never taken for another's.

pub mod responder;
mod tcp;
mod udp;

use crate::clock;
use crate::failures::Failures;
use crate::running::{ENDED, Stop};
use crate::socket::DialError;
use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::{ProbeAnswer, Sample, Transport};

/// First bytes of every request.
const MAGIC: [u8; 4] = *b"TBe1";
/// Magic, round, and the asker's send stamp, which makes rounds of concurrent or earlier orders distinct.
const REQUEST_BYTES: usize = 20;
/// A request and the responder's receive stamp.
const REPLY_BYTES: usize = REQUEST_BYTES + 8;

/// Why round trips could not be tried at all.
#[derive(Debug, thiserror::Error)]
pub enum EchoError {
    /// No socket.
    #[error("open UDP socket: {0}")]
    Open(#[source] io::Error),
    /// The order allows no time.
    #[error("echo: a limit of zero was ordered")]
    NoTime,
}

/// Round trips to order.
#[derive(Debug, Clone, Copy)]
pub struct Echo {
    /// The far responder.
    pub target: SocketAddrV4,
    /// What carries the messages.
    pub transport: Transport,
    /// Round trips before the counted ones.
    pub warmup: u32,
    /// Round trips counted.
    pub count: u32,
    /// Between a reply and the next request.
    pub pause_ns: u64,
    /// A reply that took longer is lost.
    pub timeout: Duration,
}

/// A way to ask the far end.
trait Way {
    /// One round trip.
    fn round_trip(&mut self, round: u64) -> Result<Sample, RoundError>;
    /// TCP_NODELAY as read back, of all connections so far (`None`: there was none).
    fn nodelay(&self) -> Option<bool>;
}

impl Echo {
    /// Does the round trips.
    pub fn run(&self, stop: &Stop) -> Result<ProbeAnswer, EchoError> {
        if self.timeout.is_zero() {
            return Err(EchoError::NoTime);
        }
        clock::sharpen();
        match self.transport {
            Transport::Udp => Ok(self.ask(udp::Udp::open(self.target, self.timeout)?, stop)),
            Transport::Tcp => Ok(self.ask(tcp::Tcp::new(self.target, self.timeout), stop)),
        }
    }

    fn ask(&self, mut way: impl Way, stop: &Stop) -> ProbeAnswer {
        let mut samples = Vec::new();
        let mut failures = Failures::default();
        let mut next_ns = 0;
        for round in 0..u64::from(self.warmup) + u64::from(self.count) {
            if !stop.sleep_until(next_ns) {
                let counted = u32::try_from(round.saturating_sub(u64::from(self.warmup))).unwrap_or(u32::MAX);
                failures.add_times(ENDED, self.count - counted);
                break;
            }
            let counted = round >= u64::from(self.warmup);
            match way.round_trip(round) {
                Ok(sample) if counted => samples.push(sample),
                Ok(_) => {}
                Err(cause) if counted => failures.add(cause),
                Err(cause) => failures.add(format_args!("warm-up: {cause}")),
            }
            next_ns = clock::now_ns().saturating_add(self.pause_ns);
        }
        ProbeAnswer::Samples {
            samples,
            failures: failures.into_wire(),
            nodelay: way.nodelay(),
        }
    }
}

/// Why one round trip gave no sample.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error("lost: no reply within {0} ms")]
    Lost(u128),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("connection closed by the far end")]
    Closed,
    #[error("{0}")]
    Socket(#[from] io::Error),
}

/// A request on its way, and until when its reply is waited for.
struct Asked {
    request: [u8; REQUEST_BYTES],
    started_ns: u64,
    deadline_ns: u64,
    timeout: Duration,
}

impl Asked {
    /// Stamps the request; send it directly after.
    fn now(round: u64, timeout: Duration) -> Self {
        let started_ns = clock::now_ns();
        let mut request = [0; REQUEST_BYTES];
        request[..4].copy_from_slice(&MAGIC);
        request[4..12].copy_from_slice(&round.to_be_bytes());
        request[12..].copy_from_slice(&started_ns.to_be_bytes());
        Self {
            request,
            started_ns,
            deadline_ns: started_ns.saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)),
            timeout,
        }
    }

    /// Time left for the reply.
    fn left(&self) -> Result<Duration, RoundError> {
        let left = clock::until(self.deadline_ns);
        if left.is_zero() {
            return Err(RoundError::Lost(self.timeout.as_millis()));
        }
        Ok(left)
    }

    /// The sample, if `reply` belongs to this request; its outcome is the responder's stamp.
    fn answered(&self, reply: &[u8], ended_ns: u64) -> Option<Sample> {
        let stamp = reply.strip_prefix(&self.request)?;
        Some(Sample {
            intended_ns: self.started_ns,
            started_ns: self.started_ns,
            ended_ns,
            outcome: i64::try_from(u64::from_be_bytes(stamp.try_into().ok()?)).ok()?,
        })
    }
}

/// Whether a read that failed so may simply be tried again; the deadline decides how long.
fn is_patience(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests;
