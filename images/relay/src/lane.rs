//! One link with what is in flight on it and what has been counted: everything that happens to a packet
//! between the read and the write.
//!
//! Pure: time and the act of writing are arguments. What must stay true: never early, never reordered, and
//! `arrived = forwarded + held + dropped`, the last summed over all reasons, after every call.
//!
//! A frozen lane keeps what arrives, up to its limit, and writes nothing; a cut of it destroys, and a heal leaves it
//! frozen. What is thawed or hurried away is not late: its lateness begins with the order.

use crate::counters::Counters;
use crate::delay_line::DelayLine;
use crate::link::{Link, Verdict};
use crate::tap::{Taken, Tap};
use std::net::Ipv4Addr;
use wire::{Conditions, CutKind, Fate, LinkStatus, RelayLinkConfig};

/// A change of a link, as ordered or planned beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Conditions for packets that arrive from now on.
    Set {
        /// All of them.
        conditions: Box<Conditions>,
        /// Whether what is in flight leaves at once instead of keeping its deadline.
        flush: bool,
    },
    /// Begin a cut.
    Cut {
        /// How.
        kind: CutKind,
    },
    /// End a cut.
    Heal,
    /// Let nothing pass and keep what arrives.
    Freeze,
    /// End a freeze.
    Thaw,
}

/// An outgoing link at work.
#[derive(Debug)]
pub struct Lane {
    link: Link,
    line: DelayLine,
    counters: Counters,
    tap: Tap,
    /// When it was thawed last: what was due before could not leave.
    thawed_ns: u64,
}

impl Lane {
    /// An empty lane that holds at most `limit_bytes`; the first `header_len` bytes of each frame belong to the
    /// device.
    pub fn new(config: &RelayLinkConfig, limit_bytes: u64, header_len: usize) -> Self {
        Self {
            link: Link::new(config),
            line: DelayLine::new(limit_bytes, header_len),
            counters: Counters::default(),
            tap: Tap::new(header_len),
            thawed_ns: 0,
        }
    }

    /// Far datacenter.
    pub fn to(&self) -> &str {
        self.link.to()
    }

    /// Whether a packet to `destination` takes this lane.
    pub fn leads_to(&self, destination: Ipv4Addr) -> bool {
        self.link.leads_to(destination)
    }

    /// Take a packet that arrives at `now_ns`.
    pub fn arrive(&mut self, now_ns: u64, frame: &[u8]) {
        let bytes = self.line.size(frame);
        self.counters.arrived(bytes);
        self.tap.see(now_ns, Fate::Arrived, frame);
        if self.link.cut().is_none() && !self.line.has_room(frame) {
            let fate = if self.link.frozen() { Fate::Frozen } else { Fate::Queue };
            return self.drop(now_ns, fate, frame);
        }
        match self.link.judge(now_ns, bytes) {
            Verdict::Cut => self.drop(now_ns, Fate::Cut, frame),
            Verdict::Rate => self.drop(now_ns, Fate::Rate, frame),
            Verdict::Hold { due_ns } => {
                self.line.push(due_ns, frame).expect("it was asked for room");
                self.counters.held(self.line.bytes());
            }
        }
    }

    /// Write the first packet if it is due at `now_ns`; returns whether there was one. `write` says whether
    /// the kernel took it.
    pub fn release(&mut self, now_ns: u64, write: impl FnOnce(&[u8]) -> bool) -> bool {
        if self.link.frozen() {
            return false;
        }
        let Some(held) = self.line.pop(now_ns) else {
            return false;
        };
        if write(&held.frame) {
            let lateness_ns = now_ns.saturating_sub(held.due_ns.max(self.thawed_ns));
            self.counters
                .forwarded(now_ns, self.line.size(&held.frame), lateness_ns);
            self.tap.see(now_ns, Fate::Departed, &held.frame);
        } else {
            self.drop(now_ns, Fate::Write, &held.frame);
        }
        true
    }

    /// When there is something to write next.
    pub fn next_due_ns(&self) -> Option<u64> {
        if self.link.frozen() {
            return None;
        }
        self.line.next_due_ns()
    }

    /// Carry out a change.
    pub fn change(&mut self, now_ns: u64, change: Change) {
        match change {
            Change::Set { conditions, flush } => {
                self.link.set(now_ns, *conditions);
                if flush {
                    self.line.hurry(now_ns);
                    self.link.forget_waiting();
                }
            }
            Change::Cut { kind } => self.begin_cut(now_ns, kind),
            Change::Heal => self.link.heal(now_ns),
            Change::Freeze => self.link.freeze(true),
            Change::Thaw if self.link.frozen() => {
                self.link.freeze(false);
                self.thawed_ns = now_ns;
            }
            Change::Thaw => {}
        }
    }

    fn begin_cut(&mut self, now_ns: u64, kind: CutKind) {
        self.link.begin_cut(kind, now_ns);
        self.link.forget_waiting();
        self.tap.see_all(now_ns, Fate::Cut, self.line.frames());
        self.counters.dropped(Fate::Cut, self.line.clear() as u64);
    }

    fn drop(&mut self, now_ns: u64, fate: Fate, frame: &[u8]) {
        self.counters.dropped(fate, 1);
        self.tap.see(now_ns, fate, frame);
    }

    /// Begin to keep copies of the first `snap_bytes` of each packet, or end it.
    pub fn capture(&mut self, now_ns: u64, snap_bytes: Option<u32>) {
        match snap_bytes {
            Some(snap_bytes) => self.tap.open(now_ns, snap_bytes),
            None => self.tap.close(),
        }
    }

    /// Take away copies, of at most `most_bytes` of packets together.
    pub fn take_captured(&mut self, now_ns: u64, most_bytes: u32) -> Taken {
        self.tap.take(now_ns, most_bytes)
    }

    /// End a capture from which nobody takes any more.
    pub fn forget_capture(&mut self, now_ns: u64) {
        self.tap.close_if_forgotten(now_ns);
    }

    /// The state at `now_ns` for a report.
    pub fn status(&self, now_ns: u64) -> LinkStatus {
        LinkStatus {
            cut: self.link.cut(),
            last_cut_ns: self.link.last_cut_ns(),
            last_heal_ns: self.link.last_heal_ns(),
            capturing: self.tap.is_open(),
            frozen: self.link.frozen(),
            counters: self
                .counters
                .snapshot(now_ns, self.line.packets() as u64, self.line.bytes()),
            ..LinkStatus::up(self.link.to(), self.link.conditions().clone())
        }
    }
}

#[cfg(test)]
mod tests;
