//! Where bulk traffic ends: everything that comes is counted and thrown away.
//!
//! It listens only while it is ordered to, on a port of its own. What is still on its way when the order ends is not
//! counted.

use super::{BulkError, both};
use crate::clock;
use crate::load::STACK_BYTES;
use crate::running::Stop;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;
use wire::{Carried, SINK_PORT};

/// How long a read waits before it looks whether the order was ended.
const LOOK: Duration = Duration::from_millis(20);
const BUFFER_BYTES: usize = 256 * 1024;
/// Wished room for datagrams; the kernel grants what its own limit allows.
const DATAGRAM_ROOM: usize = 4 << 20;

/// Takes in until the time is over or the order is ended; `ready` is called when it listens.
pub fn take_in(for_ns: u64, stop: &Stop, ready: impl FnOnce()) -> Result<Carried, BulkError> {
    let end = End {
        deadline_ns: clock::now_ns().saturating_add(for_ns),
        stop,
    };
    let address = (Ipv4Addr::UNSPECIFIED, SINK_PORT);
    let listener = TcpListener::bind(address).map_err(BulkError::Listen)?;
    listener.set_nonblocking(true).map_err(BulkError::Listen)?;
    let datagrams = UdpSocket::bind(address).map_err(BulkError::Listen)?;
    datagrams.set_read_timeout(Some(LOOK)).map_err(BulkError::Listen)?;
    // The default holds 2 ms of 100 000 datagrams a second, less than a busy host lets this thread wait.
    let _ = set_socket_recv_buffer_size(&datagrams, DATAGRAM_ROOM);
    ready();
    thread::scope(|scope| {
        let spawn = |take: Box<dyn FnOnce() -> Carried + Send>| {
            let named = thread::Builder::new().name("sink".into()).stack_size(STACK_BYTES);
            named.spawn_scoped(scope, take)
        };
        let counting = spawn(Box::new(|| {
            count(|buffer| datagrams.recv(buffer), Kind::Datagrams, end)
        }));
        let mut threads = vec![counting.map_err(BulkError::Thread)?];
        while !end.has_come() {
            match listener.accept() {
                Ok((stream, _)) => {
                    let thread = spawn(Box::new(move || count_stream(stream, end)));
                    threads.push(thread.map_err(BulkError::Thread)?);
                }
                Err(_) => clock::sleep_until(clock::now_ns() + 1_000_000),
            }
        }
        let taken = threads
            .into_iter()
            .map(|thread| thread.join().expect("a sink does not panic"));
        Ok(taken.fold(Carried::default(), both))
    })
}

fn count_stream(mut stream: TcpStream, end: End<'_>) -> Carried {
    // The listener's mode is not inherited on Linux; asked for all the same.
    if stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(LOOK)))
        .is_err()
    {
        return Carried::default();
    }
    count(|buffer| stream.read(buffer), Kind::Bytes, end)
}

/// When to end.
#[derive(Clone, Copy)]
struct End<'a> {
    deadline_ns: u64,
    stop: &'a Stop,
}

impl End<'_> {
    fn has_come(self) -> bool {
        self.stop.is_set() || clock::now_ns() >= self.deadline_ns
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bytes,
    Datagrams,
}

/// Reads until the end of the stream or of the order.
fn count(mut read: impl FnMut(&mut [u8]) -> io::Result<usize>, kind: Kind, end: End<'_>) -> Carried {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut taken = Carried::default();
    while !end.has_come() {
        match read(&mut buffer) {
            Ok(0) if kind == Kind::Bytes => break,
            Ok(length) => {
                taken.bytes += length as u64;
                taken.messages += u64::from(kind == Kind::Datagrams);
                taken.last_ns = clock::now_ns();
                if taken.first_ns == 0 {
                    taken.first_ns = taken.last_ns;
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(_) if kind == Kind::Bytes => break,
            // News about something else; the next datagram may come.
            Err(_) => {}
        }
    }
    taken
}
