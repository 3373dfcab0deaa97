//! The far end of round trips and beacons. It runs in every probe for as long as it lives: one thread for
//! datagrams, one that accepts connections, one per connection. What is not one of ours is not answered; a
//! connection that says such a thing is closed.

use super::{MAGIC, REPLY_BYTES, REQUEST_BYTES};
use crate::beacon::Ears;
use crate::clock;
use crate::load::STACK_BYTES;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use wire::ECHO_PORT;

/// Connections at once; each is a thread. Further ones are closed.
const MOST_CONNECTIONS: usize = 64;

/// A connection that says nothing for so long is closed: its far end may have gone while the link was cut.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Pause after a connection could not be accepted, as when there are no more descriptors.
const RETRY_ACCEPT: Duration = Duration::from_millis(10);

/// Starts the responders of this probe. Beacons that come in are handed to `ears`.
pub fn serve(ears: &Ears) {
    let address = (Ipv4Addr::UNSPECIFIED, ECHO_PORT);
    let ears = ears.clone();
    let datagrams = UdpSocket::bind(address).and_then(|socket| spawn("echo", move || answer_datagrams(&socket, &ears)));
    let connections =
        TcpListener::bind(address).and_then(|listener| spawn("echo-tcp", move || answer_connections(&listener)));
    // The rest of the probe is of use without them; who asks them gets failures, and here is the reason.
    for (protocol, started) in [("UDP", datagrams), ("TCP", connections)] {
        if let Err(error) = started {
            eprintln!("probe: no echo responder on {protocol} port {ECHO_PORT}: {error}");
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK_BYTES)
        .spawn(work)
        .map(|_| ())
}

/// Answers datagrams for ever.
pub(super) fn answer_datagrams(socket: &UdpSocket, ears: &Ears) {
    let mut buffer = [0; REPLY_BYTES];
    loop {
        // Errors here are news about earlier replies that could not be delivered.
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let received_ns = clock::now_ns();
        if length == REQUEST_BYTES && buffer.starts_with(&MAGIC) {
            buffer[REQUEST_BYTES..].copy_from_slice(&received_ns.to_be_bytes());
            let _ = socket.send_to(&buffer, from);
        } else if let SocketAddr::V4(from) = from {
            ears.hear(&buffer[..length], *from.ip(), received_ns);
        }
    }
}

/// Accepts connections for ever.
pub(super) fn answer_connections(listener: &TcpListener) {
    // One count is held here, one more by each connection's thread.
    let held = Arc::new(());
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            thread::sleep(RETRY_ACCEPT);
            continue;
        };
        if Arc::strong_count(&held) > MOST_CONNECTIONS {
            continue;
        }
        let hold = Arc::clone(&held);
        // Without a thread the stream is dropped, which the far end sees.
        let _ = spawn("echo-peer", move || {
            let _ended = answer_stream(stream);
            drop(hold);
        });
    }
}

/// Answers requests until the far end closes, says something else, or is silent for too long.
fn answer_stream(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut buffer = [0; REPLY_BYTES];
    loop {
        stream.read_exact(&mut buffer[..REQUEST_BYTES])?;
        let received_ns = clock::now_ns();
        if !buffer.starts_with(&MAGIC) {
            return Ok(());
        }
        buffer[REQUEST_BYTES..].copy_from_slice(&received_ns.to_be_bytes());
        stream.write_all(&buffer)?;
    }
}
