//! Requests to the kernel over a synchronous routing socket: one at a time, each answered before the next.
//!
//! Refuses to interpret: it says what the kernel answered; which errors are harmless is the caller's knowledge.

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable, Parseable,
};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// The few messages that a relay needs. The crate's own enum of all of them would bring half a megabyte of
/// code for traffic control and kinds of links into the binary.
#[derive(Debug)]
pub enum Message {
    /// List addresses.
    GetAddress(AddressMessage),
    /// An address: to be added, or listed.
    NewAddress(AddressMessage),
    /// Change an interface.
    SetLink(InterfaceChange),
    /// Add a route.
    NewRoute(RouteMessage),
    /// Delete a route.
    DelRoute(RouteMessage),
    /// Add a rule.
    NewRule(RuleMessage),
    /// Delete a rule.
    DelRule(RuleMessage),
    /// Something that nobody asked for.
    Other(u16),
}

impl Message {
    fn body(&self) -> Option<&dyn Emitable> {
        Some(match self {
            Self::GetAddress(message) | Self::NewAddress(message) => message,
            Self::SetLink(message) => message,
            Self::NewRoute(message) | Self::DelRoute(message) => message,
            Self::NewRule(message) | Self::DelRule(message) => message,
            Self::Other(_) => return None,
        })
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        match self {
            Self::GetAddress(_) => libc::RTM_GETADDR,
            Self::NewAddress(_) => libc::RTM_NEWADDR,
            Self::SetLink(_) => libc::RTM_SETLINK,
            Self::NewRoute(_) => libc::RTM_NEWROUTE,
            Self::DelRoute(_) => libc::RTM_DELROUTE,
            Self::NewRule(_) => libc::RTM_NEWRULE,
            Self::DelRule(_) => libc::RTM_DELRULE,
            Self::Other(kind) => *kind,
        }
    }

    fn buffer_len(&self) -> usize {
        self.body().map_or(0, Emitable::buffer_len)
    }

    fn serialize(&self, buffer: &mut [u8]) {
        if let Some(body) = self.body() {
            body.emit(buffer);
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        match header.message_type {
            libc::RTM_NEWADDR => AddressMessage::parse(payload).map(Self::NewAddress),
            kind => Ok(Self::Other(kind)),
        }
    }
}

/// A change of an interface's settings (`struct ifinfomsg` with its attributes).
#[derive(Debug)]
pub struct InterfaceChange {
    /// Interface number.
    pub index: u32,
    /// Whether to raise it; it is never lowered.
    pub raise: bool,
    /// What to set.
    pub attributes: Vec<DefaultNla>,
}

impl InterfaceChange {
    const HEADER_LEN: usize = 16;
}

impl Emitable for InterfaceChange {
    fn buffer_len(&self) -> usize {
        Self::HEADER_LEN + self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        let (header, attributes) = buffer.split_at_mut(Self::HEADER_LEN);
        header.fill(0);
        header[4..8].copy_from_slice(&self.index.to_ne_bytes());
        if self.raise {
            // Flags, and which of them to change.
            let up = libc::IFF_UP.to_ne_bytes();
            header[8..12].copy_from_slice(&up);
            header[12..16].copy_from_slice(&up);
        }
        self.attributes.as_slice().emit(attributes);
    }
}

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
    pub fn dump(&mut self, message: Message) -> io::Result<Vec<Message>> {
        self.exchange(message, NLM_F_DUMP)
    }

    /// Make, replace or delete an object.
    pub fn change(&mut self, message: Message, flags: u16) -> io::Result<()> {
        self.exchange(message, NLM_F_ACK | flags).map(drop)
    }

    fn exchange(&mut self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
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
    fn collect(&self, datagram: &[u8], answers: &mut Vec<Message>) -> io::Result<bool> {
        let mut rest = datagram;
        while !rest.is_empty() {
            let message = NetlinkMessage::<Message>::deserialize(rest)
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
