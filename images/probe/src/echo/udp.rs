//! Round trips by datagrams.

use super::{Asked, EchoError, REPLY_BYTES, RoundError, Way, is_patience};
use crate::clock;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;
use wire::Sample;

/// A socket connected to the far responder.
pub struct Udp {
    socket: UdpSocket,
    timeout: Duration,
}

impl Udp {
    pub fn open(target: SocketAddrV4, timeout: Duration) -> Result<Self, EchoError> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(EchoError::Open)?;
        socket.connect(target).map_err(EchoError::Open)?;
        Ok(Self { socket, timeout })
    }
}

impl Way for Udp {
    fn round_trip(&mut self, round: u64) -> Result<Sample, RoundError> {
        let asked = Asked::now(round, self.timeout);
        self.socket.send(&asked.request)?;
        let mut buffer = [0; REPLY_BYTES];
        loop {
            self.socket.set_read_timeout(Some(asked.left()?))?;
            let length = match self.socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if is_patience(&error) => continue,
                Err(error) => return Err(error.into()),
            };
            let ended_ns = clock::now_ns();
            if let Some(sample) = asked.answered(&buffer[..length], ended_ns) {
                return Ok(sample);
            }
        }
    }

    fn nodelay(&self) -> Option<bool> {
        None
    }
}
