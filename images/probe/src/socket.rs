//! The TCP socket under every client: dialled with a limit, TCP_NODELAY set and read back.
//!
//! Client libraries open their own sockets and leave Nagle's algorithm on or off as they please; together
//! with delayed acknowledgements that fabricates 40 ms. So the probe dials itself and hands the stream over.

use std::io;
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

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
}

/// Connects within `limit`.
pub fn dial(target: SocketAddrV4, limit: Duration) -> Result<Dialled, DialError> {
    if limit.is_zero() {
        return Err(DialError::NoTime);
    }
    let stream = TcpStream::connect_timeout(&target.into(), limit).map_err(DialError::Connect)?;
    stream.set_nodelay(true).map_err(DialError::Option)?;
    let nodelay = stream.nodelay().map_err(DialError::Option)?;
    Ok(Dialled { stream, nodelay })
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
        assert!(dialled.nodelay);
        dialled.stream.set_nodelay(false).unwrap();
        assert!(!dialled.stream.nodelay().unwrap(), "the read-back follows the socket");
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
