//! Requests to the kernel over a synchronous routing socket: one at a time, each answered before the next.
//!
//! Refuses to interpret: it says what the kernel answered; which errors are harmless is the caller's knowledge.

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// A routing socket.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Open a socket in the network namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// All objects of the kind that `message` asks for.
    pub fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.exchange(message, NLM_F_DUMP)
    }

    /// Make, replace or delete an object.
    pub fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.exchange(message, NLM_F_ACK | flags).map(drop)
    }

    fn exchange(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let mut answers = Vec::new();
        loop {
            let (datagram, _sender) = self.socket.recv_from_full()?;
            if self.collect(&datagram, &mut answers)? {
                return Ok(answers);
            }
        }
    }

    /// Add the messages of one datagram to `answers`; returns whether the exchange is complete.
    fn collect(&self, datagram: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
        let mut rest = datagram;
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            let length = (message.header.length as usize).next_multiple_of(4).min(rest.len());
            rest = &rest[length..];
            if message.header.sequence_number != self.sequence {
                continue;
            }
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                _ => {}
            }
        }
        Ok(false)
    }
}
