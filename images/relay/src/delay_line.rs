//! A bounded first-in first-out queue of packets, each with the time before which it must not leave.
//!
//! Pure: time is an argument. What must stay true: nothing leaves before its time; nothing overtakes, because
//! a packet is never due earlier than the one before it; the packets held never exceed the byte limit.
//! Buffers are sized exactly, since a ring that wraps through its capacity would end up touching all of it.
//! The limit counts packet bytes: the allocator and the queue add about 50 bytes to each packet.

use std::collections::VecDeque;

/// A packet in flight.
#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    /// When it is due (CLOCK_MONOTONIC, nanoseconds).
    pub due_ns: u64,
    /// The packet as it was read, device header included.
    pub frame: Box<[u8]>,
}

/// The line would hold more bytes than it may.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// Packets in flight on one link.
#[derive(Debug)]
pub struct DelayLine {
    queue: VecDeque<Held>,
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
            bytes: 0,
            limit_bytes,
            header_len,
        }
    }

    /// Whether a copy of `frame` may be held too.
    pub fn has_room(&self, frame: &[u8]) -> bool {
        self.bytes + self.size(frame) <= self.limit_bytes
    }

    /// Append a copy of `frame`, due at `due_ns` or with the packet before it, whichever is later.
    pub fn push(&mut self, due_ns: u64, frame: &[u8]) -> Result<(), Full> {
        if !self.has_room(frame) {
            return Err(Full);
        }
        let previous = self.queue.back().map_or(0, |held| held.due_ns);
        self.queue.push_back(Held {
            due_ns: due_ns.max(previous),
            frame: frame.into(),
        });
        self.bytes += self.size(frame);
        Ok(())
    }

    /// Take the first packet, if it is due at `now_ns`.
    pub fn pop(&mut self, now_ns: u64) -> Option<Held> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        let held = self.queue.pop_front()?;
        self.bytes -= self.size(&held.frame);
        Some(held)
    }

    /// When the first packet is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.queue.front().map(|held| held.due_ns)
    }

    /// Make everything due at `now_ns` that would be due later, its order kept.
    pub fn hurry(&mut self, now_ns: u64) {
        for held in &mut self.queue {
            held.due_ns = held.due_ns.min(now_ns);
        }
    }

    /// Destroy everything in flight; returns the number of packets.
    pub fn clear(&mut self) -> usize {
        let packets = self.queue.len();
        self.queue.clear();
        self.bytes = 0;
        packets
    }

    /// Everything in flight, the next first.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.iter().map(|held| &*held.frame)
    }

    /// Packets in flight.
    pub fn packets(&self) -> usize {
        self.queue.len()
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
    use super::*;

    fn frames(line: &mut DelayLine, now_ns: u64) -> Vec<u8> {
        std::iter::from_fn(|| line.pop(now_ns))
            .map(|held| held.frame[0])
            .collect()
    }

    #[test]
    fn nothing_leaves_before_it_is_due() {
        let mut line = DelayLine::new(1000, 0);
        line.push(100, &[1]).unwrap();
        assert_eq!(line.pop(99), None);
        assert_eq!(line.pop(100).map(|held| held.due_ns), Some(100));
        assert_eq!(line.pop(u64::MAX), None);
    }

    #[test]
    fn packets_of_one_instant_leave_in_the_order_of_their_arrival() {
        let mut line = DelayLine::new(1000, 0);
        for i in 0..50 {
            line.push(100, &[i]).unwrap();
        }
        assert_eq!(frames(&mut line, 100), (0..50).collect::<Vec<u8>>());
    }

    #[test]
    fn a_packet_with_an_earlier_time_waits_for_the_one_before_it() {
        let mut line = DelayLine::new(1000, 0);
        line.push(100, &[1]).unwrap();
        line.push(30, &[2]).unwrap();
        line.push(110, &[3]).unwrap();
        assert!(frames(&mut line, 99).is_empty());
        assert_eq!(frames(&mut line, 100), [1, 2]);
        assert_eq!(frames(&mut line, 110), [3]);
    }

    #[test]
    fn a_packet_that_waited_for_another_is_due_with_it_and_not_late() {
        let mut line = DelayLine::new(1000, 0);
        line.push(100, &[1]).unwrap();
        line.push(30, &[2]).unwrap();
        let due = [line.pop(100), line.pop(100)].map(|held| held.unwrap().due_ns);
        assert_eq!(due, [100, 100]);
    }

    #[test]
    fn once_the_line_is_empty_the_past_delays_nobody() {
        let mut line = DelayLine::new(1000, 0);
        line.push(100, &[1]).unwrap();
        line.clear();
        line.push(30, &[2]).unwrap();
        assert_eq!(frames(&mut line, 30), [2]);
    }

    #[test]
    fn the_byte_limit_is_exact_and_space_comes_back() {
        let mut line = DelayLine::new(10, 0);
        line.push(1, &[0; 6]).unwrap();
        assert_eq!(line.push(1, &[0; 5]), Err(Full));
        line.push(1, &[0; 4]).unwrap();
        assert_eq!((line.packets(), line.bytes()), (2, 10));
        assert_eq!(line.push(1, &[0; 1]), Err(Full));
        line.pop(1).unwrap();
        assert_eq!((line.packets(), line.bytes()), (1, 4));
        line.push(1, &[0; 6]).unwrap();
        assert_eq!(line.clear(), 2);
        assert_eq!((line.packets(), line.bytes(), line.next_due_ns()), (0, 0, None));
    }

    #[test]
    fn device_headers_are_kept_and_not_counted() {
        let mut line = DelayLine::new(4, 10);
        line.push(1, &[7; 14]).unwrap();
        assert_eq!(line.bytes(), 4);
        assert_eq!(line.pop(1).unwrap().frame.len(), 14);
        assert_eq!(line.bytes(), 0);
    }

    #[test]
    fn a_refused_packet_leaves_no_trace_in_the_order() {
        let mut line = DelayLine::new(4, 0);
        line.push(10, &[1; 4]).unwrap();
        assert_eq!(line.push(500, &[2]), Err(Full));
        line.pop(10).unwrap();
        line.push(20, &[3]).unwrap();
        assert_eq!(line.next_due_ns(), Some(20));
    }

    #[test]
    fn what_is_hurried_is_due_at_once_and_delays_nobody_after_it() {
        let mut line = DelayLine::new(1000, 0);
        for (due_ns, i) in [(100, 1), (200, 2), (300, 3)] {
            line.push(due_ns, &[i]).unwrap();
        }
        line.hurry(150);
        line.push(160, &[4]).unwrap();
        let due: Vec<_> = std::iter::from_fn(|| line.pop(1000))
            .map(|held| (held.due_ns, held.frame[0]))
            .collect();
        assert_eq!(due, [(100, 1), (150, 2), (150, 3), (160, 4)]);
    }
}
