//! The TCP socket under every client: dialled with a limit, TCP_NODELAY set and read back.
//!
//! Client libraries open their own sockets and leave Nagle's algorithm on or off as they please; together
//! with delayed acknowledgements that fabricates 40 ms. So the probe dials itself and hands the stream over.
//! Told to sabotage itself it leaves the option out, and says so: what is told is always what the kernel says.

use crate::clock;
use rustix::net::sockopt::set_socket_linger;
use std::io;
use std::net::{SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether TCP_NODELAY is left out, by order of a negative control.
static NO_NODELAY: AtomicBool = AtomicBool::new(false);

/// Opens connections without TCP_NODELAY from now on, or with it again.
pub fn sabotage(no_nodelay: bool) {
    NO_NODELAY.store(no_nodelay, Ordering::Relaxed);
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The order allows no time at all.
    #[error("connect: a limit of zero was ordered")]
    NoTime,
    /// Refused, unreachable or not answered in time.
    #[error("connect: {0}")]
    Connect(#[source] io::Error),
    /// The socket did not take or tell an option.
    #[error("set socket option: {0}")]
    Option(#[source] io::Error),
}

/// A connected, blocking stream.
#[derive(Debug)]
pub struct Dialled {
    /// The connection.
    pub stream: TcpStream,
    /// TCP_NODELAY as the kernel told it after it was set.
    pub nodelay: bool,
    /// Directly before the first packet.
    pub began_ns: u64,
    /// Directly after the kernel said that the connection is there.
    pub connected_ns: u64,
}

/// Connects within `limit`.
pub fn dial(target: SocketAddrV4, limit: Duration) -> Result<Dialled, DialError> {
    if limit.is_zero() {
        return Err(DialError::NoTime);
    }
    let began_ns = clock::now_ns();
    let stream = TcpStream::connect_timeout(&target.into(), limit).map_err(DialError::Connect)?;
    let connected_ns = clock::now_ns();
    if !NO_NODELAY.load(Ordering::Relaxed) {
        stream.set_nodelay(true).map_err(DialError::Option)?;
    }
    let nodelay = stream.nodelay().map_err(DialError::Option)?;
    Ok(Dialled {
        stream,
        nodelay,
        began_ns,
        connected_ns,
    })
}

/// Closes with a reset, so that neither end keeps the pair of ports waiting for a minute.
pub fn reset(stream: TcpStream) {
    // Refused it would be an ordinary close, which is as good for everything but a very long load.
    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
    drop(stream);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn port_of(listener: &TcpListener) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port())
    }

    #[test]
    fn nodelay_is_read_back_from_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialled = dial(port_of(&listener), Duration::from_secs(1)).unwrap();
        assert!(dialled.nodelay && dialled.began_ns <= dialled.connected_ns);
        dialled.stream.set_nodelay(false).unwrap();
        assert!(!dialled.stream.nodelay().unwrap(), "the read-back follows the socket");
    }

    #[test]
    fn a_reset_is_what_the_far_end_sees() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialled = dial(port_of(&listener), Duration::from_secs(1)).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        reset(dialled.stream);
        let error = std::io::Read::read(&mut far, &mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_refused_connection_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = port_of(&listener);
        drop(listener);
        let error = dial(target, Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    }

    #[test]
    fn no_time_is_no_panic() {
        let target = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        assert!(matches!(dial(target, Duration::ZERO), Err(DialError::NoTime)));
    }
}
