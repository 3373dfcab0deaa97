//! Copies of what a link sees, for a packet capture: each packet's arrival, departure or end, with its first bytes.
//!
//! Pure: time is an argument. While nobody captures, a call costs one branch. What must stay true: copies never take
//! more room than [`ROOM_BYTES`]; the oldest are kept, and those that find no room are counted; a capture that nobody
//! takes from ends by itself, so that a controller that was killed leaves nothing behind.

use std::collections::VecDeque;
use wire::Fate;

/// Most room that the copies of one link take.
pub const ROOM_BYTES: usize = 8 << 20;
/// Room that a copy takes beside its bytes: its place in the queue and the allocator's share.
const SIGHTING_BYTES: usize = size_of::<Sighting>() + 16;
/// A capture from which nobody took for so long has been forgotten.
const FORGOTTEN_NS: u64 = 10_000_000_000;

/// A packet at one moment of its way.
#[derive(Debug, PartialEq, Eq)]
pub struct Sighting {
    /// When (CLOCK_MONOTONIC, nanoseconds).
    pub at_ns: u64,
    /// What became of it.
    pub fate: Fate,
    /// Bytes of the whole packet, the device's header not counted.
    pub length: u32,
    /// The device's header and the packet's first bytes.
    pub frame: Box<[u8]>,
}

/// Copies taken away.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// In the order in which they were made.
    pub copies: Vec<Sighting>,
    /// Copies that found no room since the last time.
    pub lost: u64,
    /// Whether some are left.
    pub more: bool,
}

/// Where a link is tapped.
#[derive(Debug)]
pub struct Tap {
    header_len: usize,
    ring: Option<Box<Ring>>,
}

/// A capture that is going on.
#[derive(Debug)]
struct Ring {
    copies: VecDeque<Sighting>,
    room_bytes: usize,
    snap_bytes: usize,
    lost: u64,
    taken_ns: u64,
}

impl Tap {
    /// A tap at which nobody listens; the first `header_len` bytes of each frame belong to the device.
    pub fn new(header_len: usize) -> Self {
        Self { header_len, ring: None }
    }

    /// Whether copies are kept.
    pub fn is_open(&self) -> bool {
        self.ring.is_some()
    }

    /// Begin to keep copies of the first `snap_bytes` of each packet. What was kept until now is gone.
    pub fn open(&mut self, now_ns: u64, snap_bytes: u32) {
        self.ring = Some(Box::new(Ring {
            copies: VecDeque::new(),
            room_bytes: ROOM_BYTES,
            snap_bytes: snap_bytes as usize,
            lost: 0,
            taken_ns: now_ns,
        }));
    }

    /// End the capture; what was not taken is gone.
    pub fn close(&mut self) {
        self.ring = None;
    }

    /// End the capture if nobody took from it for ten seconds.
    pub fn close_if_forgotten(&mut self, now_ns: u64) {
        let forgotten = |ring: &Ring| now_ns.saturating_sub(ring.taken_ns) > FORGOTTEN_NS;
        if self.ring.as_deref().is_some_and(forgotten) {
            self.close();
        }
    }

    /// Keep a copy of a packet, if anybody captures.
    #[inline]
    pub fn see(&mut self, now_ns: u64, fate: Fate, frame: &[u8]) {
        if self.ring.is_some() {
            self.keep(now_ns, fate, frame);
        }
    }

    /// Keep a copy of each of several packets, if anybody captures.
    #[inline]
    pub fn see_all<'a>(&mut self, now_ns: u64, fate: Fate, frames: impl Iterator<Item = &'a [u8]>) {
        if self.ring.is_some() {
            frames.for_each(|frame| self.keep(now_ns, fate, frame));
        }
    }

    /// Take away the oldest copies, of at most `most_bytes` of packets together, but at least one. Nothing where
    /// nobody captures.
    pub fn take(&mut self, now_ns: u64, most_bytes: u32) -> Taken {
        self.ring
            .as_deref_mut()
            .map(|ring| ring.take(now_ns, most_bytes as usize))
            .unwrap_or_default()
    }

    #[cold]
    fn keep(&mut self, now_ns: u64, fate: Fate, frame: &[u8]) {
        self.close_if_forgotten(now_ns);
        let header_len = self.header_len;
        if let Some(ring) = &mut self.ring {
            ring.keep(now_ns, fate, frame, header_len);
        }
    }
}

impl Ring {
    fn keep(&mut self, at_ns: u64, fate: Fate, frame: &[u8], header_len: usize) {
        let kept = frame.len().min(header_len.saturating_add(self.snap_bytes));
        let room = kept + SIGHTING_BYTES;
        if room > self.room_bytes {
            self.lost += 1;
            return;
        }
        self.room_bytes -= room;
        let length = frame.len().saturating_sub(header_len);
        self.copies.push_back(Sighting {
            at_ns,
            fate,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            frame: frame[..kept].into(),
        });
    }

    fn take(&mut self, now_ns: u64, most_bytes: usize) -> Taken {
        self.taken_ns = now_ns;
        let mut copies = Vec::new();
        let mut bytes = 0;
        while let Some(first) = self.copies.front() {
            bytes += first.frame.len();
            if bytes > most_bytes && !copies.is_empty() {
                break;
            }
            self.room_bytes += first.frame.len() + SIGHTING_BYTES;
            copies.extend(self.copies.pop_front());
        }
        let more = !self.copies.is_empty();
        Taken {
            copies,
            lost: std::mem::take(&mut self.lost),
            more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 1 << 20;

    fn open(header_len: usize, snap_bytes: u32) -> Tap {
        let mut tap = Tap::new(header_len);
        tap.open(0, snap_bytes);
        tap
    }

    #[test]
    fn while_nobody_captures_nothing_is_kept() {
        let mut tap = Tap::new(0);
        tap.see(1, Fate::Arrived, &[1; 100]);
        assert!(!tap.is_open());
        assert_eq!(tap.take(2, MOST), Taken::default());
    }

    #[test]
    fn a_copy_has_the_time_the_fate_the_whole_length_and_the_first_bytes() {
        let mut tap = open(2, 3);
        tap.see(7, Fate::Cut, &[9, 9, 1, 2, 3, 4, 5]);
        tap.see(8, Fate::Departed, &[9, 9, 1]);
        let taken = tap.take(9, MOST);
        let copies = [
            (7, Fate::Cut, 5, vec![9, 9, 1, 2, 3]),
            (8, Fate::Departed, 1, vec![9, 9, 1]),
        ];
        let copies = copies.map(|(at_ns, fate, length, frame)| Sighting {
            at_ns,
            fate,
            length,
            frame: frame.into(),
        });
        assert_eq!((taken.copies, taken.lost, taken.more), (Vec::from(copies), 0, false));
    }

    #[test]
    fn the_oldest_are_kept_and_newcomers_without_room_are_counted_once() {
        let mut tap = open(0, u32::MAX);
        let packet = vec![0; 65_536];
        let fit = ROOM_BYTES / (packet.len() + SIGHTING_BYTES);
        for at_ns in 0..fit as u64 + 5 {
            tap.see(at_ns, Fate::Arrived, &packet);
        }
        let taken = tap.take(1000, u32::MAX);
        assert_eq!((taken.copies.len(), taken.lost), (fit, 5));
        assert_eq!(taken.copies[0].at_ns, 0);
        tap.see(2000, Fate::Arrived, &packet);
        let taken = tap.take(2001, MOST);
        assert_eq!((taken.copies.len(), taken.lost), (1, 0));
    }

    #[test]
    fn empty_packets_cannot_fill_the_memory() {
        let mut tap = open(0, 0);
        let fit = (ROOM_BYTES / SIGHTING_BYTES) as u64;
        for at_ns in 0..fit + 1 {
            tap.see(at_ns, Fate::Arrived, &[1; 60]);
        }
        assert_eq!(tap.take(fit, MOST).lost, 1);
    }

    #[test]
    fn portions_are_bounded_and_the_rest_stays_in_order() {
        let mut tap = open(0, 100);
        for at_ns in 0..5 {
            tap.see(at_ns, Fate::Arrived, &[1; 40]);
        }
        let portions: Vec<_> = (0..4).map(|_| tap.take(9, 90)).collect();
        let seen: Vec<Vec<u64>> = portions
            .iter()
            .map(|taken| taken.copies.iter().map(|copy| copy.at_ns).collect())
            .collect();
        assert_eq!(seen, [vec![0, 1], vec![2, 3], vec![4], vec![]]);
        assert_eq!(
            portions.iter().map(|taken| taken.more).collect::<Vec<_>>(),
            [true, true, false, false]
        );
    }

    #[test]
    fn a_packet_above_the_portion_is_taken_alone() {
        let mut tap = open(0, u32::MAX);
        tap.see(1, Fate::Arrived, &[1; 50]);
        tap.see(2, Fate::Arrived, &[1; 50]);
        assert_eq!(tap.take(3, 10).copies.len(), 1);
        assert_eq!(tap.take(3, 10).copies.len(), 1);
    }

    #[test]
    fn a_capture_from_which_nobody_takes_ends_and_frees_its_copies() {
        let mut tap = open(0, 100);
        tap.see(1, Fate::Arrived, &[1; 40]);
        tap.take(FORGOTTEN_NS, MOST);
        tap.see(2 * FORGOTTEN_NS, Fate::Arrived, &[1; 40]);
        assert!(tap.is_open());
        tap.see(2 * FORGOTTEN_NS + 1, Fate::Arrived, &[1; 40]);
        assert!(!tap.is_open());
        tap.open(3 * FORGOTTEN_NS, 100);
        tap.close_if_forgotten(4 * FORGOTTEN_NS);
        assert!(tap.is_open());
        tap.close_if_forgotten(4 * FORGOTTEN_NS + 1);
        assert!(!tap.is_open());
    }

    #[test]
    fn a_capture_begun_anew_forgets_the_old_one() {
        let mut tap = open(0, 100);
        tap.see(1, Fate::Arrived, &[1; 40]);
        tap.open(2, 100);
        assert_eq!(tap.take(3, MOST), Taken::default());
    }
}
