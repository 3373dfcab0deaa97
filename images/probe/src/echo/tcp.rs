//! Round trips on one connection. A round whose reply is late leaves the connection as it is, for TCP delivers late
//! and in order; one that broke it has the next round open a new one, untimed.

use super::{Asked, REPLY_BYTES, RoundError, Way, is_patience};
use crate::clock;
use crate::socket::{DialError, Dialled, dial};
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;
use wire::Sample;

/// The connection to the far responder, when there is one.
pub struct Tcp {
    target: SocketAddrV4,
    timeout: Duration,
    open: Option<Open>,
    nodelay: Option<bool>,
}

/// A connection and what has come of the next reply.
struct Open {
    stream: TcpStream,
    reply: [u8; REPLY_BYTES],
    come: usize,
}

impl Tcp {
    pub fn new(target: SocketAddrV4, timeout: Duration) -> Self {
        Self {
            target,
            timeout,
            open: None,
            nodelay: None,
        }
    }

    fn dial(&mut self) -> Result<Open, DialError> {
        let Dialled { stream, nodelay, .. } = dial(self.target, self.timeout)?;
        stream
            .set_write_timeout(Some(self.timeout))
            .map_err(DialError::Option)?;
        self.nodelay = Some(self.nodelay.unwrap_or(true) && nodelay);
        Ok(Open {
            stream,
            reply: [0; REPLY_BYTES],
            come: 0,
        })
    }
}

impl Way for Tcp {
    fn round_trip(&mut self, round: u64) -> Result<Sample, RoundError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.dial()?,
        };
        let result = open.ask(round, self.timeout);
        if matches!(result, Ok(_) | Err(RoundError::Lost(_))) {
            self.open = Some(open);
        }
        result
    }

    fn nodelay(&self) -> Option<bool> {
        self.nodelay
    }
}

impl Open {
    fn ask(&mut self, round: u64, timeout: Duration) -> Result<Sample, RoundError> {
        let asked = Asked::now(round, timeout);
        self.stream.write_all(&asked.request)?;
        loop {
            self.stream.set_read_timeout(Some(asked.left()?))?;
            match self.stream.read(&mut self.reply[self.come..]) {
                Ok(0) => return Err(RoundError::Closed),
                Ok(length) => self.come += length,
                Err(error) if is_patience(&error) => continue,
                Err(error) => return Err(error.into()),
            }
            let ended_ns = clock::now_ns();
            if self.come < REPLY_BYTES {
                continue;
            }
            self.come = 0;
            if let Some(sample) = asked.answered(&self.reply, ended_ns) {
                return Ok(sample);
            }
        }
    }
}
