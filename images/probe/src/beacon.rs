//! Beacons: small stamped datagrams at fixed intended times, by which each direction of a link is watched by itself
//! while something else is measured.
//!
//! They leave from a socket of the order and come in on the echo responder's port, which hands them to every order
//! that listens; where none does they are dropped. What comes in after the end of an order is not in its answer. An
//! order ends without being told, after [`LONGEST_NS`] or when a list is full: nobody may be there any more to tell it.

use crate::clock;
use crate::pace::{Course, Lane, Step};
use crate::running::Stop;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::{Beacon, Pace, ProbeAnswer};

/// First bytes of every beacon.
const MAGIC: [u8; 4] = *b"TBb1";
/// Magic, intended stamp, send stamp.
const BEACON_BYTES: usize = 20;
/// Longest time that an order sends for.
const LONGEST_NS: u64 = 15 * 60 * 1_000_000_000;
/// Longest list of an answer, sent or heard: a quarter of an hour of 100 a second, and some megabytes of JSON.
const MOST: usize = 100_000;

/// Why beacons could not be sent at all.
#[derive(Debug, thiserror::Error)]
pub enum BeaconError {
    /// No socket.
    #[error("open UDP socket: {0}")]
    Open(#[source] io::Error),
    /// The order makes no sense.
    #[error("an interval of zero was ordered")]
    NoInterval,
}

/// Who listens for beacons on this probe.
#[derive(Debug, Clone, Default)]
pub struct Ears(Arc<Mutex<Vec<Listener>>>);

#[derive(Debug)]
struct Listener {
    number: u64,
    heard: Vec<Beacon>,
}

impl Ears {
    /// Takes a datagram that came in; `false` if it is no beacon.
    pub fn hear(&self, datagram: &[u8], from: Ipv4Addr, received_ns: u64) -> bool {
        let Some((intended_ns, sent_ns)) = read(datagram) else {
            return false;
        };
        for listener in self.lock().iter_mut().filter(|listener| listener.heard.len() < MOST) {
            listener.heard.push(Beacon {
                from,
                intended_ns,
                sent_ns,
                received_ns,
            });
        }
        true
    }

    fn listen(&self) -> Listening<'_> {
        let mut listeners = self.lock();
        let number = listeners.last().map_or(0, |last| last.number + 1);
        listeners.push(Listener {
            number,
            heard: Vec::new(),
        });
        Listening { ears: self, number }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One order's place among those who listen, left when dropped.
struct Listening<'a> {
    ears: &'a Ears,
    number: u64,
}

impl Listening<'_> {
    fn is_full(&self) -> bool {
        let listeners = self.ears.lock();
        listeners
            .iter()
            .any(|listener| listener.number == self.number && listener.heard.len() >= MOST)
    }

    fn take(&self) -> Vec<Beacon> {
        let mut listeners = self.ears.lock();
        let own = listeners.iter_mut().find(|listener| listener.number == self.number);
        std::mem::take(&mut own.expect("it leaves only when it is dropped").heard)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.ears.lock().retain(|listener| listener.number != self.number);
    }
}

/// Beacons to send.
#[derive(Debug, Clone)]
pub struct Beacons {
    /// Far probes; none: only listen.
    pub targets: Vec<SocketAddrV4>,
    /// Between two to the same target.
    pub interval_ns: u64,
}

impl Beacons {
    /// Sends and listens until the order is ended. One that comes late keeps its intended time; one that the kernel
    /// refuses (no route: it never left) is not among those sent.
    pub fn run(&self, stop: &Stop, ears: &Ears) -> Result<ProbeAnswer, BeaconError> {
        if self.interval_ns == 0 {
            return Err(BeaconError::NoInterval);
        }
        clock::sharpen();
        // Not connected: news of an earlier one that could not be delivered must not refuse the next.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(BeaconError::Open)?;
        let listening = ears.listen();
        let mut sent = Vec::new();
        let mut lane = self.lane(clock::now_ns());
        while let Step::Start { intended_ns, .. } = lane.step(clock::now_ns()) {
            if !stop.sleep_until(intended_ns) || listening.is_full() {
                break;
            }
            for target in &self.targets {
                let sent_ns = clock::now_ns();
                if socket.send_to(&written(intended_ns, sent_ns), target).is_ok() {
                    sent.push((*target.ip(), intended_ns, sent_ns));
                }
            }
        }
        let heard = listening.take();
        Ok(ProbeAnswer::Beacons { sent, heard })
    }

    fn lane(&self, start_ns: u64) -> Lane {
        let beats = MOST / self.targets.len().max(1);
        let course = Course {
            pace: Pace::Open {
                interval_ns: self.interval_ns,
            },
            count: u32::try_from(beats).expect("no more than the longest list"),
            lanes: 1,
            start_ns,
            end_ns: Some(start_ns.saturating_add(LONGEST_NS)),
        };
        Lane::new(course, 0)
    }
}

fn written(intended_ns: u64, sent_ns: u64) -> [u8; BEACON_BYTES] {
    let mut beacon = [0; BEACON_BYTES];
    beacon[..4].copy_from_slice(&MAGIC);
    beacon[4..12].copy_from_slice(&intended_ns.to_be_bytes());
    beacon[12..].copy_from_slice(&sent_ns.to_be_bytes());
    beacon
}

/// Intended and send stamp.
fn read(datagram: &[u8]) -> Option<(u64, u64)> {
    let stamps = datagram.strip_prefix(&MAGIC)?;
    let (intended, sent) = stamps.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*intended), u64::from_be_bytes(sent.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::thread;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn run(order: &Beacons, stop: &Stop, ears: &Ears) -> (Vec<(Ipv4Addr, u64, u64)>, Vec<Beacon>) {
        match order.run(stop, ears) {
            Ok(ProbeAnswer::Beacons { sent, heard }) => (sent, heard),
            other => panic!("{other:?}"),
        }
    }

    /// Hands what comes in on a port of its own to `ears`, as the responder does, and ends `stop` after `last`.
    fn receiver(ears: &Ears, stop: &Stop, last: usize) -> SocketAddrV4 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(address) = socket.local_addr().unwrap() else {
            unreachable!("bound to a v4 address")
        };
        let (ears, stop) = (ears.clone(), stop.clone());
        thread::spawn(move || {
            let mut buffer = [0; 64];
            for _ in 0..last {
                let (length, from) = socket.recv_from(&mut buffer).unwrap();
                let SocketAddr::V4(from) = from else { unreachable!() };
                assert!(ears.hear(&buffer[..length], *from.ip(), clock::now_ns()));
            }
            stop.set();
        });
        address
    }

    #[test]
    fn each_beacon_tells_when_it_was_meant_when_it_left_and_when_it_came() {
        let (ears, stop) = (Ears::default(), Stop::default());
        let order = Beacons {
            targets: vec![receiver(&ears, &stop, 10)],
            interval_ns: 2 * MS,
        };
        let (sent, heard) = run(&order, &stop, &ears);
        assert!(sent.len() >= 10 && heard.len() == 10, "{} {}", sent.len(), heard.len());
        for (beacon, (target, intended_ns, sent_ns)) in heard.iter().zip(&sent) {
            assert_eq!((beacon.from, *target), (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST));
            assert_eq!((beacon.intended_ns, beacon.sent_ns), (*intended_ns, *sent_ns));
            assert!(intended_ns <= sent_ns && *sent_ns <= beacon.received_ns);
        }
        assert!(sent.windows(2).all(|pair| pair[1].1 - pair[0].1 == 2 * MS));
        assert!(ears.lock().is_empty(), "nobody listens after the end");
    }

    #[test]
    fn without_targets_it_listens_and_two_orders_hear_the_same() {
        let (ears, stop) = (Ears::default(), Stop::default());
        let order = Beacons {
            targets: Vec::new(),
            interval_ns: MS,
        };
        let heard = thread::scope(|scope| {
            let threads = [0, 1].map(|_| scope.spawn(|| run(&order, &stop, &ears)));
            while ears.lock().len() < 2 {
                thread::sleep(Duration::from_millis(1));
            }
            assert!(ears.hear(&written(1, 2), Ipv4Addr::LOCALHOST, 3));
            assert!(!ears.hear(b"TBe1 is no beacon...", Ipv4Addr::LOCALHOST, 3));
            stop.set();
            threads.map(|thread| thread.join().unwrap())
        });
        let beacon = Beacon {
            from: Ipv4Addr::LOCALHOST,
            intended_ns: 1,
            sent_ns: 2,
            received_ns: 3,
        };
        assert_eq!(heard, [(vec![], vec![beacon]), (vec![], vec![beacon])]);
    }

    #[test]
    fn a_full_list_ends_an_order_that_nobody_ends() {
        let (ears, never) = (Ears::default(), Stop::default());
        // a port that nobody reads: what is sent there is lost, and the next leaves all the same
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(target) = silent.local_addr().unwrap() else {
            unreachable!("bound to a v4 address")
        };
        drop(silent);
        let order = Beacons {
            targets: vec![target],
            interval_ns: 1,
        };
        let (sent, _) = run(&order, &never, &ears);
        assert_eq!(sent.len(), MOST);
        let listening = ears.listen();
        for _ in 0..=MOST {
            ears.hear(&written(1, 2), Ipv4Addr::LOCALHOST, 3);
        }
        assert!(listening.is_full());
        assert_eq!(listening.take().len(), MOST);
    }

    #[test]
    fn a_controller_that_is_gone_leaves_no_endless_beacons() {
        let order = Beacons {
            targets: Vec::new(),
            interval_ns: 1000 * MS,
        };
        let mut lane = order.lane(5);
        let last = 5 + LONGEST_NS;
        assert!(matches!(lane.step(last - 1), Step::Start { .. }));
        assert!(matches!(lane.step(last), Step::End { .. }));
    }

    #[test]
    fn no_interval_is_refused() {
        let order = Beacons {
            targets: Vec::new(),
            interval_ns: 0,
        };
        let error = order.run(&Stop::default(), &Ears::default()).unwrap_err();
        assert!(matches!(error, BeaconError::NoInterval));
    }
}
