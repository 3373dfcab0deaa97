//! UDP round trips between probes: the link measured without any server.
//!
//! The responder runs in every probe for as long as it lives, on a thread of its own. It sends back what it got
//! and the time at which it got it, so that the asker knows both one-way times. A datagram that
//! is not one of ours is not answered.

use crate::clock;
use crate::failures::Failures;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;
use wire::{ECHO_PORT, ProbeAnswer, Sample};

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
    /// Round trips before the counted ones.
    pub warmup: u32,
    /// Round trips counted.
    pub count: u32,
    /// Between a reply and the next request.
    pub pause_ns: u64,
    /// A reply that took longer is lost.
    pub timeout: Duration,
}

/// Starts the responder of this probe.
pub fn serve() {
    let started = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, ECHO_PORT)).and_then(|socket| {
        std::thread::Builder::new()
            .name("echo".into())
            .spawn(move || respond(&socket))
    });
    // The rest of the probe is of use without it; who asks it gets failures, and here is the reason.
    if let Err(error) = started {
        eprintln!("probe: no echo responder on UDP port {ECHO_PORT}: {error}");
    }
}

/// Answers requests for ever.
fn respond(socket: &UdpSocket) {
    let mut buffer = [0; REPLY_BYTES];
    loop {
        // Errors here are news about earlier replies that could not be delivered.
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let received_ns = clock::now_ns();
        if length != REQUEST_BYTES || !buffer.starts_with(&MAGIC) {
            continue;
        }
        buffer[REQUEST_BYTES..].copy_from_slice(&received_ns.to_be_bytes());
        let _ = socket.send_to(&buffer, from);
    }
}

impl Echo {
    /// Does the round trips; a lost one is counted, and its late reply is never taken for another's.
    pub fn run(&self) -> Result<ProbeAnswer, EchoError> {
        if self.timeout.is_zero() {
            return Err(EchoError::NoTime);
        }
        clock::sharpen();
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(EchoError::Open)?;
        socket.connect(self.target).map_err(EchoError::Open)?;
        let mut samples = Vec::new();
        let mut failures = Failures::default();
        for round in 0..u64::from(self.warmup) + u64::from(self.count) {
            let counted = round >= u64::from(self.warmup);
            match self.round_trip(&socket, round) {
                Ok(sample) if counted => samples.push(sample),
                Ok(_) => {}
                Err(cause) if counted => failures.add(cause),
                Err(cause) => failures.add(format_args!("warm-up: {cause}")),
            }
            if self.pause_ns > 0 {
                clock::sleep_until(clock::now_ns().saturating_add(self.pause_ns));
            }
        }
        Ok(ProbeAnswer::Samples {
            samples,
            failures: failures.into_wire(),
            nodelay: None,
        })
    }

    fn round_trip(&self, socket: &UdpSocket, round: u64) -> Result<Sample, RoundError> {
        let started_ns = clock::now_ns();
        let request = request(round, started_ns);
        socket.send(&request)?;
        let deadline_ns = started_ns.saturating_add(u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX));
        let mut buffer = [0; REPLY_BYTES];
        loop {
            let left = clock::until(deadline_ns);
            if left.is_zero() {
                return Err(RoundError::Lost(self.timeout.as_millis()));
            }
            socket.set_read_timeout(Some(left))?;
            let length = match socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let ended_ns = clock::now_ns();
            if let Some(far_ns) = far_stamp(&request, &buffer[..length]) {
                return Ok(Sample {
                    intended_ns: started_ns,
                    started_ns,
                    ended_ns,
                    outcome: far_ns,
                });
            }
        }
    }
}

/// Why one round trip gave no sample.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error("lost: no reply within {0} ms")]
    Lost(u128),
    #[error("{0}")]
    Socket(#[from] io::Error),
}

fn request(round: u64, started_ns: u64) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    request[..4].copy_from_slice(&MAGIC);
    request[4..12].copy_from_slice(&round.to_be_bytes());
    request[12..].copy_from_slice(&started_ns.to_be_bytes());
    request
}

/// The responder's stamp, if `reply` belongs to `request`.
fn far_stamp(request: &[u8; REQUEST_BYTES], reply: &[u8]) -> Option<i64> {
    let stamp = reply.strip_prefix(request)?;
    i64::try_from(u64::from_be_bytes(stamp.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn bound() -> (UdpSocket, SocketAddrV4) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(address) = socket.local_addr().unwrap() else {
            unreachable!("bound to a v4 address")
        };
        (socket, address)
    }

    fn echo(target: SocketAddrV4) -> Echo {
        Echo {
            target,
            warmup: 2,
            count: 5,
            pause_ns: 0,
            timeout: Duration::from_millis(500),
        }
    }

    fn samples(answer: ProbeAnswer) -> (Vec<Sample>, Vec<wire::Failure>) {
        let ProbeAnswer::Samples {
            samples,
            failures,
            nodelay,
        } = answer
        else {
            panic!("{answer:?}")
        };
        assert_eq!(nodelay, None);
        (samples, failures)
    }

    #[test]
    fn the_far_stamp_lies_between_sending_and_receiving() {
        let (socket, target) = bound();
        std::thread::spawn(move || respond(&socket));
        let (samples, failures) = samples(echo(target).run().unwrap());
        assert_eq!(failures, []);
        assert_eq!(samples.len(), 5);
        for sample in samples {
            let far = u64::try_from(sample.outcome).unwrap();
            assert!(sample.started_ns <= far && far <= sample.ended_ns, "{sample:?}");
        }
    }

    #[test]
    fn a_silent_far_end_is_loss_and_not_a_hang() {
        let (_silent, target) = bound();
        let order = Echo {
            warmup: 0,
            count: 2,
            timeout: Duration::from_millis(5),
            ..echo(target)
        };
        let (samples, failures) = samples(order.run().unwrap());
        assert_eq!(samples, []);
        assert_eq!(
            failures,
            [wire::Failure {
                cause: "lost: no reply within 5 ms".into(),
                times: 2
            }]
        );
    }

    #[test]
    fn a_late_reply_is_not_taken_for_the_next_one() {
        let (socket, target) = bound();
        std::thread::spawn(move || {
            let mut buffer = [0; REPLY_BYTES];
            let mut late = None;
            while let Ok((_, from)) = socket.recv_from(&mut buffer) {
                buffer[REQUEST_BYTES..].copy_from_slice(&clock::now_ns().to_be_bytes());
                // the first reply comes only after the second request, before its own
                let Some(first) = late.replace(buffer) else {
                    continue;
                };
                if first != buffer {
                    let _ = socket.send_to(&first, from);
                }
                let _ = socket.send_to(&buffer, from);
            }
        });
        let order = Echo {
            warmup: 0,
            count: 2,
            timeout: Duration::from_millis(30),
            ..echo(target)
        };
        let (samples, failures) = samples(order.run().unwrap());
        assert_eq!(failures.iter().map(|failure| failure.times).sum::<u32>(), 1);
        assert_eq!(samples.len(), 1);
        assert!(u64::try_from(samples[0].outcome).unwrap() >= samples[0].started_ns);
    }

    #[test]
    fn strangers_are_not_answered() {
        let (socket, target) = bound();
        std::thread::spawn(move || respond(&socket));
        let (stranger, _) = bound();
        stranger.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        stranger.send_to(b"hello", target).unwrap();
        stranger.send_to(&[0; REQUEST_BYTES], target).unwrap();
        assert!(stranger.recv(&mut [0; 64]).is_err());
    }
}
