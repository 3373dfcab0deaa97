//! One direction of a terminated connection: portions of bytes in their order, each with the time before which it
//! must not leave, and the end of the stream in its place among them.
//!
//! Pure: time is an argument. What must stay true: nothing leaves before its time, nothing overtakes, no byte is lost
//! or made up between `push` and `sent`. The bound is no hard limit: it says when to stop reading, as a full socket
//! buffer does, and what has been read by then is kept.

use std::collections::VecDeque;
use wire::StreamOrder;

/// What is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parcel {
    /// A portion: what one read gave.
    Bytes(Box<[u8]>),
    /// The sender will send no more (FIN).
    End,
    /// The connection is gone (RST).
    Reset,
}

#[derive(Debug)]
struct Held {
    arrived_ns: u64,
    delay_ns: u64,
    parcel: Parcel,
}

/// One direction.
#[derive(Debug)]
pub struct Flow {
    order: StreamOrder,
    limit_bytes: usize,
    held: VecDeque<Held>,
    bytes: usize,
    /// Bytes of the first portion that have left already.
    sent: usize,
    /// When the last parcel left.
    released_ns: u64,
}

impl Flow {
    /// An empty direction that has room until it holds `limit_bytes`.
    pub fn new(order: StreamOrder, limit_bytes: usize) -> Self {
        Self {
            order,
            limit_bytes,
            held: VecDeque::new(),
            bytes: 0,
            sent: 0,
            released_ns: 0,
        }
    }

    /// Take what arrives at `now_ns` under a delay of `delay_ns`.
    pub fn push(&mut self, now_ns: u64, delay_ns: u64, parcel: Parcel) {
        // A delay lowered live lets nothing overtake; where one portion waits for the other, none can.
        let behind = match self.held.back() {
            Some(last) if self.order == StreamOrder::Pipelined => {
                (last.arrived_ns.saturating_add(last.delay_ns)).saturating_sub(now_ns)
            }
            _ => 0,
        };
        if let Parcel::Bytes(bytes) = &parcel {
            self.bytes += bytes.len();
        }
        self.held.push_back(Held {
            arrived_ns: now_ns,
            delay_ns: delay_ns.max(behind),
            parcel,
        });
    }

    /// When the first parcel is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        let first = self.held.front()?;
        let begin_ns = match self.order {
            StreamOrder::Pipelined => first.arrived_ns,
            StreamOrder::Serialising => first.arrived_ns.max(self.released_ns),
        };
        Some(begin_ns.saturating_add(first.delay_ns))
    }

    /// The first parcel, if it is due at `now_ns`, and since when; of a portion only what has not left yet.
    pub fn due(&self, now_ns: u64) -> Option<(Due<'_>, u64)> {
        let due_ns = self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        let due = match &self.held.front()?.parcel {
            Parcel::Bytes(bytes) => Due::Bytes(&bytes[self.sent..]),
            Parcel::End => Due::End,
            Parcel::Reset => Due::Reset,
        };
        Some((due, due_ns))
    }

    /// So many bytes of the first parcel have left at `now_ns`; returns whether it has left whole. What is no portion
    /// leaves with 0 bytes.
    pub fn sent(&mut self, bytes: usize, now_ns: u64) -> bool {
        self.sent += bytes;
        self.bytes -= bytes;
        let whole = match self.held.front().map(|held| &held.parcel) {
            Some(Parcel::Bytes(portion)) => self.sent == portion.len(),
            Some(Parcel::End | Parcel::Reset) => true,
            None => false,
        };
        if whole {
            self.held.pop_front();
            self.sent = 0;
            self.released_ns = now_ns;
        }
        whole
    }

    /// Let all that is held be due at once, in its order.
    pub fn hurry(&mut self) {
        for held in &mut self.held {
            held.delay_ns = 0;
        }
    }

    /// Destroy all that is held.
    pub fn clear(&mut self) {
        self.held.clear();
        self.bytes = 0;
        self.sent = 0;
    }

    /// Whether more may be read.
    pub fn has_room(&self) -> bool {
        self.bytes < self.limit_bytes
    }
}

/// A parcel that may leave.
#[derive(Debug, PartialEq, Eq)]
pub enum Due<'a> {
    /// Bytes of a portion.
    Bytes(&'a [u8]),
    /// The end of the stream.
    End,
    /// A reset.
    Reset,
}

#[cfg(test)]
mod tests;
