//! A bounded queue of packets, each with the time before which it must not leave.
//!
//! Pure: time is an argument. What must stay true: nothing leaves before its time; a packet that keeps its order never
//! overtakes another of that kind, because it is never due earlier than the one before it; the packets held never exceed
//! the byte limit. A packet that need not keep its order leaves at its own time and delays nobody.
//!
//! Where all keep their order, which is the usual case, the queue is first in, first out, and costs as much as a ring.
//! Buffers are sized exactly, since a ring that wraps through its capacity would end up touching all of it.
//! The limit counts packet bytes: the allocator and the queue add about 50 bytes to each packet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A packet in flight.
#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    /// When it is due (CLOCK_MONOTONIC, nanoseconds).
    pub due_ns: u64,
    /// The packet as it was read, device header included.
    pub frame: Box<[u8]>,
}

/// Whether a packet keeps its place among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It leaves no earlier than the one before it that keeps its order too.
    Kept,
    /// It leaves at its own time, whatever the others do.
    Free,
}

/// A packet that leaves at its own time. The earliest is the greatest, of those of one time the one that came first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Free {
    due_ns: Reverse<u64>,
    number: Reverse<u64>,
    frame: Box<[u8]>,
}

/// The line would hold more bytes than it may.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// Packets in flight on one link.
#[derive(Debug)]
pub struct DelayLine {
    queue: VecDeque<Held>,
    free: BinaryHeap<Free>,
    /// Packets that came without an order so far.
    numbered: u64,
    bytes: u64,
    limit_bytes: u64,
    header_len: usize,
}

impl DelayLine {
    /// An empty line that holds at most `limit_bytes`. The first `header_len` bytes of each frame belong to the
    /// device and are not counted.
    pub fn new(limit_bytes: u64, header_len: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            free: BinaryHeap::new(),
            numbered: 0,
            bytes: 0,
            limit_bytes,
            header_len,
        }
    }

    /// Whether a copy of `frame` may be held too.
    pub fn has_room(&self, frame: &[u8]) -> bool {
        self.bytes + self.size(frame) <= self.limit_bytes
    }

    /// Append a copy of `frame`, due at `due_ns`, or if it keeps its order with the one before it, whichever is later.
    pub fn push(&mut self, due_ns: u64, order: Order, frame: &[u8]) -> Result<(), Full> {
        if !self.has_room(frame) {
            return Err(Full);
        }
        match order {
            Order::Kept => {
                let previous = self.queue.back().map_or(0, |held| held.due_ns);
                self.queue.push_back(Held {
                    due_ns: due_ns.max(previous),
                    frame: frame.into(),
                });
            }
            Order::Free => {
                self.free.push(Free {
                    due_ns: Reverse(due_ns),
                    number: Reverse(self.numbered),
                    frame: frame.into(),
                });
                self.numbered += 1;
            }
        }
        self.bytes += self.size(frame);
        Ok(())
    }

    /// Take the first packet, if it is due at `now_ns`.
    pub fn pop(&mut self, now_ns: u64) -> Option<Held> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        let held = self.take_first()?;
        self.bytes -= self.size(&held.frame);
        Some(held)
    }

    /// When the first packet is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        let kept = self.queue.front().map(|held| held.due_ns);
        match self.free.peek() {
            None => kept,
            Some(free) => Some(kept.map_or(free.due_ns.0, |kept| kept.min(free.due_ns.0))),
        }
    }

    /// The first packet; of two that are due together the one that kept its order.
    fn take_first(&mut self) -> Option<Held> {
        let kept = self.queue.front().map(|held| held.due_ns);
        match self.free.peek() {
            Some(free) if kept.is_none_or(|kept| free.due_ns.0 < kept) => {
                let free = self.free.pop()?;
                Some(Held {
                    due_ns: free.due_ns.0,
                    frame: free.frame,
                })
            }
            _ => self.queue.pop_front(),
        }
    }

    /// Make everything due at `now_ns` that would be due later, in the order in which it would have left.
    pub fn hurry(&mut self, now_ns: u64) {
        let mut hurried = VecDeque::with_capacity(self.packets());
        while let Some(held) = self.take_first() {
            hurried.push_back(Held {
                due_ns: held.due_ns.min(now_ns),
                ..held
            });
        }
        self.queue = hurried;
    }

    /// Destroy everything in flight; returns the number of packets.
    pub fn clear(&mut self) -> usize {
        let packets = self.packets();
        self.queue.clear();
        self.free.clear();
        self.bytes = 0;
        packets
    }

    /// Destroy what is in flight and `doomed`; the others keep their times and their order. Returns the number of packets.
    pub fn destroy(&mut self, mut doomed: impl FnMut(&[u8]) -> bool) -> usize {
        let (packets, header_len) = (self.packets(), self.header_len);
        let mut bytes = 0;
        let mut stays = |frame: &[u8]| {
            let stays = !doomed(frame);
            if !stays {
                bytes += frame.len().saturating_sub(header_len) as u64;
            }
            stays
        };
        self.queue.retain(|held| stays(&held.frame));
        self.free.retain(|free| stays(&free.frame));
        self.bytes -= bytes;
        packets - self.packets()
    }

    /// Packets in flight.
    pub fn packets(&self) -> usize {
        self.queue.len() + self.free.len()
    }

    /// The packets in flight, those that keep their order first.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let kept = self.queue.iter().map(|held| &*held.frame);
        kept.chain(self.free.iter().map(|free| &*free.frame))
    }

    /// Their bytes, device headers not counted.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of a frame without the device's header.
    pub fn size(&self, frame: &[u8]) -> u64 {
        frame.len().saturating_sub(self.header_len) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Order::{Free, Kept};
    use super::*;

    fn frames(line: &mut DelayLine, now_ns: u64) -> Vec<u8> {
        std::iter::from_fn(|| line.pop(now_ns))
            .map(|held| held.frame[0])
            .collect()
    }

    #[test]
    fn nothing_leaves_before_it_is_due() {
        let mut line = DelayLine::new(1000, 0);
        line.push(100, Kept, &[1]).unwrap();
        assert_eq!(line.pop(99), None);
        assert_eq!(line.pop(100).map(|held| held.due_ns), Some(100));
        assert_eq!(line.pop(u64::MAX), None);
    }

    #[test]
    fn packets_of_one_instant_leave_in_the_order_of_their_arrival() {
        let mut line = DelayLine::new(1000, 0);
        for i in 0..50 {
            line.push(100, Kept, &[i]).unwrap();
        }
        assert_eq!(frames(&mut line, 100), (0..50).collect::<Vec<u8>>());
    }

    #[test]
    fn what_is_not_destroyed_keeps_its_time_its_order_and_its_bytes() {
        let mut line = DelayLine::new(1000, 1);
        for (i, order) in [(1, Kept), (2, Free), (3, Kept), (4, Free), (5, Kept)] {
            line.push(100 - u64::from(i), order, &[i, 0, 0]).unwrap();
        }
        assert_eq!(line.destroy(|frame| frame[0] == 3 || frame[0] == 4), 2);
        assert_eq!((line.packets(), line.bytes()), (3, 6));
        assert!(frames(&mut line, 97).is_empty());
        assert_eq!(frames(&mut line, 98), [2]);
        assert_eq!(frames(&mut line, 99), [1, 5]);
        assert_eq!(line.bytes(), 0);
    }

    #[test]
    fn a_packet_with_an_earlier_time_waits_for_the_one_before_it() {
        let mut line = DelayLine::new(1000, 0);
        line.push(100, Kept, &[1]).unwrap();
        line.push(30, Kept, &[2]).unwrap();
        line.push(110, Kept, &[3]).unwrap();
        assert!(frames(&mut line, 99).is_empty());
        assert_eq!(frames(&mut line, 100), [1, 2]);
        assert_eq!(frames(&mut line, 110), [3]);
    }

    #[test]
    fn a_packet_that_waited_for_another_is_due_with_it_and_not_late() {
        let mut line = DelayLine::new(1000, 0);
        line.push(100, Kept, &[1]).unwrap();
        line.push(30, Kept, &[2]).unwrap();
        let due = [line.pop(100), line.pop(100)].map(|held| held.unwrap().due_ns);
        assert_eq!(due, [100, 100]);
    }

    #[test]
    fn once_the_line_is_empty_the_past_delays_nobody() {
        let mut line = DelayLine::new(1000, 0);
        line.push(100, Kept, &[1]).unwrap();
        line.clear();
        line.push(30, Kept, &[2]).unwrap();
        assert_eq!(frames(&mut line, 30), [2]);
    }

    #[test]
    fn the_byte_limit_is_exact_and_space_comes_back() {
        let mut line = DelayLine::new(10, 0);
        line.push(1, Kept, &[0; 6]).unwrap();
        assert_eq!(line.push(1, Kept, &[0; 5]), Err(Full));
        line.push(1, Kept, &[0; 4]).unwrap();
        assert_eq!((line.packets(), line.bytes()), (2, 10));
        assert_eq!(line.push(1, Kept, &[0; 1]), Err(Full));
        line.pop(1).unwrap();
        assert_eq!((line.packets(), line.bytes()), (1, 4));
        line.push(1, Kept, &[0; 6]).unwrap();
        assert_eq!(line.clear(), 2);
        assert_eq!((line.packets(), line.bytes(), line.next_due_ns()), (0, 0, None));
    }

    #[test]
    fn device_headers_are_kept_and_not_counted() {
        let mut line = DelayLine::new(4, 10);
        line.push(1, Kept, &[7; 14]).unwrap();
        assert_eq!(line.bytes(), 4);
        assert_eq!(line.pop(1).unwrap().frame.len(), 14);
        assert_eq!(line.bytes(), 0);
    }

    #[test]
    fn a_refused_packet_leaves_no_trace_in_the_order() {
        let mut line = DelayLine::new(4, 0);
        line.push(10, Kept, &[1; 4]).unwrap();
        assert_eq!(line.push(500, Kept, &[2]), Err(Full));
        line.pop(10).unwrap();
        line.push(20, Kept, &[3]).unwrap();
        assert_eq!(line.next_due_ns(), Some(20));
    }

    #[test]
    fn what_is_hurried_is_due_at_once_and_delays_nobody_after_it() {
        let mut line = DelayLine::new(1000, 0);
        for (due_ns, i) in [(100, 1), (200, 2), (300, 3)] {
            line.push(due_ns, Kept, &[i]).unwrap();
        }
        line.hurry(150);
        line.push(160, Kept, &[4]).unwrap();
        let due: Vec<_> = std::iter::from_fn(|| line.pop(1000))
            .map(|held| (held.due_ns, held.frame[0]))
            .collect();
        assert_eq!(due, [(100, 1), (150, 2), (150, 3), (160, 4)]);
    }

    #[test]
    fn a_packet_without_an_order_overtakes_is_overtaken_and_delays_nobody() {
        let mut line = DelayLine::new(1000, 0);
        line.push(100, Kept, &[1]).unwrap();
        line.push(500, Free, &[2]).unwrap();
        line.push(50, Free, &[3]).unwrap();
        line.push(110, Kept, &[4]).unwrap();
        assert_eq!(line.next_due_ns(), Some(50));
        assert!(frames(&mut line, 49).is_empty());
        assert_eq!(frames(&mut line, 499), [3, 1, 4]);
        assert_eq!(line.next_due_ns(), Some(500));
        assert_eq!((line.packets(), line.bytes()), (1, 1));
        assert_eq!(frames(&mut line, 500), [2]);
        assert_eq!((line.packets(), line.bytes(), line.next_due_ns()), (0, 0, None));
    }

    #[test]
    fn packets_without_an_order_of_one_instant_leave_as_they_came() {
        let mut line = DelayLine::new(1000, 0);
        for i in 0..50 {
            line.push(100, if i % 2 == 0 { Free } else { Kept }, &[i]).unwrap();
        }
        let kept = (0..50).filter(|i| i % 2 == 1);
        let expected: Vec<u8> = kept.chain((0..50).filter(|i| i % 2 == 0)).collect();
        assert_eq!(frames(&mut line, 100), expected);
    }

    #[test]
    fn hurrying_and_destroying_know_both_kinds() {
        let mut line = DelayLine::new(1000, 0);
        for (due_ns, order) in [(300, Kept), (200, Free), (400, Free), (90, Free)] {
            line.push(due_ns, order, &[u8::try_from(due_ns / 10).unwrap()]).unwrap();
        }
        assert_eq!(line.frames().count(), 4);
        line.hurry(100);
        line.push(120, Kept, &[12]).unwrap();
        assert_eq!(frames(&mut line, 99), [9]);
        assert_eq!(frames(&mut line, 100), [20, 30, 40]);
        line.push(500, Free, &[1]).unwrap();
        assert_eq!(line.clear(), 2);
        assert_eq!((line.packets(), line.bytes(), line.next_due_ns()), (0, 0, None));
    }
}
