//! Sockets of a terminating relay: listening for every address of the links' networks, dialling in a node's name, and
//! ending in the ways in which a connection can end.
//!
//! What must stay true: TCP_NODELAY of every socket is set as asked, read back, and a difference is an error; a socket
//! listens for the networks of links and for nothing else, so that the relay's own addresses answer nobody.

use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io::{self, Read};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4};
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// A network behind a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: u32,
    mask: u32,
}

impl Network {
    /// The network that `address` is in.
    pub fn new(address: Ipv4Addr, prefix_len: u8) -> Self {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len.min(32))).unwrap_or(0);
        Self {
            address: u32::from(address) & mask,
            mask,
        }
    }

    /// Whether `address` is in it.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & self.mask == self.address
    }
}

/// TCP_NODELAY is not as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum NodelayError {
    /// The kernel said so.
    #[error(transparent)]
    Refused(#[from] io::Error),
    /// It was set, and read back otherwise.
    #[error("TCP_NODELAY was set to {0} and is not")]
    Differs(bool),
}

/// Listen on `port` of every address of `networks`.
pub fn listen(port: u16, networks: &[Network]) -> io::Result<Socket> {
    let socket = fresh()?;
    attend_to(&socket, networks)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// From now on a listening socket hears only who dials into one of `networks`; to others it is not there.
pub fn attend_to(listener: &Socket, networks: &[Network]) -> io::Result<()> {
    /// Where the destination is, counted from the IP header (SKF_NET_OFF).
    const DESTINATION: u32 = 0xfff0_0000 + 16;
    const LOAD_WORD: u16 = 0x20;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    let mut program = Vec::with_capacity(networks.len() * 4 + 1);
    for network in networks {
        program.push(SockFilter::new(LOAD_WORD, 0, 0, DESTINATION));
        program.push(SockFilter::new(AND, 0, 0, network.mask));
        program.push(SockFilter::new(JUMP_IF_EQUAL, 0, 1, network.address));
        program.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
    }
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    listener.attach_filter(&program)
}

/// Opcode of a socket filter: the packet's bytes to keep; none drops it.
const RETURN: u16 = 0x06;

/// The next connection that waits, with who dialled and whom.
pub fn accept(listener: &Socket) -> io::Result<(Socket, SocketAddrV4, SocketAddrV4)> {
    let (socket, from) = listener.accept()?;
    socket.set_nonblocking(true)?;
    let to = socket.local_addr()?;
    let (Some(from), Some(to)) = (from.as_socket_ipv4(), to.as_socket_ipv4()) else {
        return Err(io::ErrorKind::ConnectionAborted.into());
    };
    // It has the filter of its listener, of which it is in no more need.
    socket.detach_filter()?;
    Ok((socket, from, to))
}

/// Begin to dial `to` as if `from` did, from the same port if that can be had; `deaf`ened before the first packet.
pub fn dial(from: SocketAddrV4, to: SocketAddrV4, deaf: bool) -> io::Result<Socket> {
    let attempt = |port| {
        let socket = fresh()?;
        if deaf {
            deafen(&socket)?;
        }
        socket.bind(&SocketAddrV4::new(*from.ip(), port).into())?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    };
    match attempt(from.port()) {
        // Taken, or not yet forgotten by the kernel.
        Err(error) if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) => attempt(0),
        result => result,
    }
}

fn fresh() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // Addresses of others, in both roles.
    socket.set_ip_transparent_v4(true)?;
    // One node may dial two others from one port.
    socket.set_reuse_address(true)?;
    Ok(socket)
}

/// Set TCP_NODELAY; what was read back.
pub fn set_nodelay(socket: &Socket, on: bool) -> Result<bool, NodelayError> {
    socket.set_tcp_nodelay(on)?;
    let found = socket.tcp_nodelay()?;
    if found == on {
        Ok(found)
    } else {
        Err(NodelayError::Differs(on))
    }
}

/// Let the kernel drop whatever comes for this socket, unacknowledged: to its peer the way here is dead.
pub fn deafen(socket: &Socket) -> io::Result<()> {
    socket.attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)])
}

/// End with a reset.
pub fn reset(socket: Socket) {
    // A socket that cannot be told so is closed anyhow.
    let _ = socket.set_linger(Some(Duration::ZERO));
    drop(socket);
}

/// End in order. What the peer has sent by now is read away, since closing over it would make a reset of the end; of a
/// peer that never stops it is read for a while.
pub fn close(mut socket: Socket) {
    let _ = socket.shutdown(Shutdown::Write);
    let mut bytes = [0; 16_384];
    for _ in 0..1000 {
        if !matches!(socket.read(&mut bytes), Ok(length) if length > 0) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_own_and_nothing_beside() {
        let network = Network::new(Ipv4Addr::new(198, 18, 2, 7), 24);
        assert!(network.contains(Ipv4Addr::new(198, 18, 2, 0)));
        assert!(network.contains(Ipv4Addr::new(198, 18, 2, 255)));
        assert!(!network.contains(Ipv4Addr::new(198, 18, 3, 0)));
        assert!(Network::new(Ipv4Addr::UNSPECIFIED, 0).contains(Ipv4Addr::LOCALHOST));
        let one = Network::new(Ipv4Addr::new(198, 18, 2, 7), 32);
        assert!(one.contains(Ipv4Addr::new(198, 18, 2, 7)) && !one.contains(Ipv4Addr::new(198, 18, 2, 6)));
    }

    #[test]
    fn nodelay_is_read_back_as_it_was_set() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        for on in [true, false] {
            assert_eq!(set_nodelay(&socket, on).unwrap(), on);
            assert_eq!(socket.tcp_nodelay().unwrap(), on);
        }
    }
}
