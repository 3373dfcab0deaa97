//! Bulk traffic to the sink of another probe: the link under load, without any server.
//!
//! What is sent has no meaning and is counted alone. A pace is kept in the mean and in small bursts: a sleep for every
//! message would load the host more than the messages do. A datagram that the kernel has no room for is not sent again.

pub mod sink;

use crate::clock;
use crate::load::STACK_BYTES;
use crate::running::Stop;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;
use wire::{Bulk, Carried, SINK_PORT, Transport};

const NS_PER_S: u64 = 1_000_000_000;
/// Shortest pause of a paced sender: at 100 000 messages a second it sends twenty at a time.
const BURST_NS: u64 = 200_000;
/// Limit of a connection's handshake and of a write that makes no progress.
const PATIENCE: Duration = Duration::from_secs(10);
/// A datagram's header must fit too.
const DATAGRAM_MOST: u32 = 65_507;

/// Why bulk traffic was not sent or taken in.
#[derive(Debug, thiserror::Error)]
pub enum BulkError {
    /// The order has no meaning.
    #[error("bulk: {0} sockets with messages of {1} bytes were ordered")]
    Order(u32, u32),
    /// No socket to send on.
    #[error("bulk: open a socket to {0}: {1}")]
    Open(SocketAddrV4, #[source] io::Error),
    /// Sending failed.
    #[error("bulk: send to {0}: {1}")]
    Send(SocketAddrV4, #[source] io::Error),
    /// No socket to take in on.
    #[error("sink: listen on port {SINK_PORT}: {0}")]
    Listen(#[source] io::Error),
    /// No thread.
    #[error("bulk: start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Sends until the time is over or the order is ended; what the kernel took.
pub fn send(bulk: &Bulk, stop: &Stop) -> Result<Carried, BulkError> {
    let most = match bulk.transport {
        Transport::Udp => DATAGRAM_MOST,
        Transport::Tcp => 16 << 20,
    };
    if bulk.sockets == 0 || !(1..=most).contains(&bulk.message_bytes) {
        return Err(BulkError::Order(bulk.sockets, bulk.message_bytes));
    }
    let target = SocketAddrV4::new(bulk.target, SINK_PORT);
    // All are open before the first sends, so that they end together too.
    let sockets = (0..bulk.sockets)
        .map(|_| Socket::open(bulk.transport, target).map_err(|error| BulkError::Open(target, error)))
        .collect::<Result<Vec<_>, _>>()?;
    let deadline_ns = clock::now_ns().saturating_add(bulk.for_ns);
    thread::scope(|scope| {
        let started: Vec<_> = sockets
            .into_iter()
            .map(|socket| {
                let pace = Pace::new(bulk);
                let run = move || pace.send(socket, bulk.message_bytes, deadline_ns, stop);
                thread::Builder::new()
                    .name("bulk".into())
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, run)
            })
            .collect();
        let mut all = Carried::default();
        for thread in started {
            let thread = thread.map_err(BulkError::Thread)?;
            let sent = thread.join().expect("a sender does not panic");
            all = both(all, sent.map_err(|error| BulkError::Send(target, error))?);
        }
        Ok(all)
    })
}

/// Both together.
fn both(one: Carried, two: Carried) -> Carried {
    Carried {
        bytes: one.bytes + two.bytes,
        messages: one.messages + two.messages,
        first_ns: match (one.first_ns, two.first_ns) {
            (0, first_ns) | (first_ns, 0) => first_ns,
            (one, two) => one.min(two),
        },
        last_ns: one.last_ns.max(two.last_ns),
    }
}

/// A socket to the sink.
enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Socket {
    fn open(transport: Transport, target: SocketAddrV4) -> io::Result<Self> {
        match transport {
            Transport::Tcp => {
                let stream = TcpStream::connect_timeout(&target.into(), PATIENCE)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Self::Tcp(stream))
            }
            Transport::Udp => {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                socket.connect(target)?;
                Ok(Self::Udp(socket))
            }
        }
    }

    /// Whether the kernel took the message.
    fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        match self {
            Self::Tcp(stream) => stream.write_all(message).map(|()| true),
            Self::Udp(socket) => match socket.send(message) {
                Ok(_) => Ok(true),
                // No room in a queue on the way out: lost, as a router would lose it.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => Ok(false),
                Err(error) => Err(error),
            },
        }
    }
}

/// When a socket sends.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Between two messages (0: none).
    interval_ns: u64,
}

impl Pace {
    fn new(bulk: &Bulk) -> Self {
        let interval_ns = bulk
            .per_s
            .map_or(0, |per_s| NS_PER_S * u64::from(bulk.sockets) / u64::from(per_s.max(1)));
        Self { interval_ns }
    }

    /// How many messages should have been sent so long after the begin.
    fn due(self, passed_ns: u64) -> u64 {
        passed_ns
            .checked_div(self.interval_ns)
            .map_or(u64::MAX, |whole| whole + 1)
    }

    fn send(self, mut socket: Socket, message_bytes: u32, deadline_ns: u64, stop: &Stop) -> io::Result<Carried> {
        clock::sharpen();
        let message = vec![0x5a; message_bytes as usize];
        let began_ns = clock::now_ns();
        let (mut sent, mut tried, mut now_ns) = (Carried::default(), 0, began_ns);
        while now_ns < deadline_ns && !stop.is_set() {
            if tried < self.due(now_ns - began_ns) {
                tried += 1;
                if socket.send(&message)? {
                    sent.bytes += message.len() as u64;
                    sent.messages += 1;
                }
            } else {
                let next_ns = began_ns + tried * self.interval_ns;
                clock::sleep_until(next_ns.max(now_ns + BURST_NS).min(deadline_ns));
            }
            now_ns = clock::now_ns();
        }
        if sent.messages > 0 {
            (sent.first_ns, sent.last_ns) = (began_ns, now_ns);
        }
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// One at a time: they share a port.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn bulk(transport: Transport) -> Bulk {
        Bulk {
            target: Ipv4Addr::LOCALHOST,
            transport,
            sockets: 2,
            message_bytes: 1000,
            per_s: Some(2000),
            for_ns: 300_000_000,
        }
    }

    /// What was sent, and what the sink took in.
    fn carry(bulk: &Bulk) -> (Carried, Carried) {
        let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let stop = Stop::default();
        let (ready, is_ready) = channel();
        let ends = stop.clone();
        let taker = thread::spawn(move || sink::take_in(u64::MAX, &ends, || ready.send(()).unwrap()));
        is_ready.recv().unwrap();
        let sent = send(bulk, &Stop::default()).unwrap();
        // What is in a buffer of loopback is taken in before a sink ends that sees nothing come.
        thread::sleep(Duration::from_millis(100));
        stop.set();
        (sent, taker.join().unwrap().unwrap())
    }

    #[test]
    fn a_sink_takes_in_every_byte_of_connections() {
        let (sent, taken) = carry(&bulk(Transport::Tcp));
        assert_eq!(sent.bytes, taken.bytes);
        assert!(
            sent.first_ns <= taken.first_ns && taken.first_ns <= taken.last_ns,
            "{sent:?} {taken:?}"
        );
    }

    #[test]
    fn datagrams_are_counted_one_by_one() {
        let (sent, taken) = carry(&bulk(Transport::Udp));
        assert_eq!((sent.messages, sent.bytes), (taken.messages, taken.bytes));
    }

    #[test]
    fn a_pace_is_never_exceeded() {
        let (sent, _) = carry(&bulk(Transport::Tcp));
        // Each socket sends its first message at once.
        assert!((1..=602).contains(&sent.messages), "{sent:?}");
    }

    #[test]
    fn without_a_pace_everything_is_due() {
        let pace = Pace::new(&Bulk {
            per_s: None,
            ..bulk(Transport::Tcp)
        });
        assert_eq!(pace.due(0), u64::MAX);
        let pace = Pace::new(&bulk(Transport::Tcp));
        assert_eq!((pace.due(0), pace.due(999_999), pace.due(1_000_000)), (1, 1, 2));
    }

    #[test]
    fn a_sink_ends_by_itself() {
        let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let taken = sink::take_in(30_000_000, &Stop::default(), || ()).unwrap();
        assert_eq!(taken, Carried::default());
    }

    #[test]
    fn senseless_orders_are_refused() {
        for (sockets, message_bytes) in [(0, 1), (1, 0), (1, 70_000)] {
            let order = Bulk {
                sockets,
                message_bytes,
                ..bulk(Transport::Udp)
            };
            assert!(matches!(send(&order, &Stop::default()), Err(BulkError::Order(..))));
        }
    }
}
