//! One link with what is in flight on it and what has been counted: everything that happens to a packet
//! between the read and the write.
//!
//! Pure: time and the act of writing are arguments. What must stay true: never early, never reordered, and
//! `arrived = forwarded + held + dropped`, the last summed over all reasons, after every call.
//!
//! What the relay makes itself, the resets of a cut, has not arrived and is counted as `resets` alone. During a cut that
//! resets, a segment is answered and its far end told in its place, so that a connection ends that was not known when the
//! cut began, and so that an end that doubts a reset is set right. A defect on purpose changes what happens and nothing
//! that is counted.
//!
//! Where conditions are per packet, a burst is split when it arrives, and all that is counted is packets on the wire. One
//! packet after another is measured against the MTU, lost, doubled and corrupted, and only then waits for its turn at the
//! rate: what is lost takes no room there.
//!
//! A schedule is carried out by the lane itself, at the precision of its packets: what arrives after a step meets with what
//! the step has made of the link. A step that was carried out late is stamped with the time at which it was.
//!
//! A frozen lane keeps what arrives, up to its limit, and writes nothing; a cut of it destroys, and a heal leaves it
//! frozen. What is thawed or hurried away is not late: its lateness begins with the order.

mod cut;
mod packets;

use crate::counters::Counters;
use crate::delay_line::DelayLine;
use crate::flows::Flows;
use crate::link::{Link, Verdict};
use crate::packet::wire_bytes;
use crate::schedule::Player;
use crate::tap::{Taken, Tap};
use std::net::{Ipv4Addr, SocketAddrV4};
use wire::{Conditions, CutKind, Defect, Fate, LinkStatus, RelayLinkConfig, Schedule};

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
    /// Cut these ports and no others; none: end such a cut.
    CutPorts {
        /// How.
        kind: CutKind,
        /// Of either end.
        ports: Vec<u16>,
    },
    /// End a cut, of the whole link and of ports.
    Heal,
    /// Let nothing pass and keep what arrives.
    Freeze,
    /// End a freeze.
    Thaw,
    /// End the known connections with one of these ports at an end; the link stays as it is.
    Reset {
        /// Of either end.
        ports: Vec<u16>,
    },
    /// Carry out a schedule; one that is going on is replaced.
    Play {
        /// The schedule.
        schedule: Box<Schedule>,
        /// Its start.
        start_ns: u64,
    },
    /// Forget the schedule; the link stays as it is.
    StopPlay,
    /// Be wrong on purpose, or right again.
    Sabotage {
        /// How.
        defect: Option<Defect>,
    },
}

/// An outgoing link at work.
#[derive(Debug)]
pub struct Lane {
    link: Link,
    /// WAN address of the far relay.
    via: Ipv4Addr,
    line: DelayLine,
    counters: Counters,
    tap: Tap,
    /// When it was thawed last: what was due before could not leave.
    thawed_ns: u64,
    flows: Flows,
    /// What passes without having arrived: made by the relay itself, or leaked by a defect.
    aside: DelayLine,
    defect: Option<Defect>,
    player: Option<Player>,
    /// When the next step of the schedule is due; the end of time if there is none.
    next_step_ns: u64,
    /// Room for one packet of a burst.
    one: Vec<u8>,
    header_len: usize,
}

impl Lane {
    /// An empty lane that holds at most `limit_bytes`; the first `header_len` bytes of each frame belong to the
    /// device, and `seed` is that of everything random.
    pub fn new(config: &RelayLinkConfig, limit_bytes: u64, header_len: usize, seed: u64) -> Self {
        Self {
            link: Link::new(config, seed),
            via: config.via,
            line: DelayLine::new(limit_bytes, header_len),
            counters: Counters::default(),
            tap: Tap::new(header_len),
            thawed_ns: 0,
            flows: Flows::default(),
            aside: DelayLine::new(limit_bytes, header_len),
            defect: None,
            player: None,
            next_step_ns: u64::MAX,
            one: Vec::new(),
            header_len,
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
        if now_ns >= self.next_step_ns {
            self.play(now_ns);
        }
        if self.link.per_packet() {
            return self.split(now_ns, frame);
        }
        self.note_arrival(now_ns, frame);
        if let Some(fate) = self.cut_of(frame) {
            return self.destroy(now_ns, fate, frame);
        }
        self.hold(now_ns, frame);
    }

    fn note_arrival(&mut self, now_ns: u64, frame: &[u8]) {
        self.counters.arrived(self.line.size(frame));
        self.tap.see(now_ns, Fate::Arrived, frame);
    }

    fn hold(&mut self, now_ns: u64, frame: &[u8]) {
        if !self.line.has_room(frame) {
            let fate = if self.link.frozen() { Fate::Frozen } else { Fate::Queue };
            return self.drop(now_ns, fate, frame);
        }
        let (header, packet) = frame.split_at(self.header_len.min(frame.len()));
        match self.link.judge(now_ns, wire_bytes(header, packet)) {
            Verdict::Cut => self.destroy(now_ns, Fate::Cut, frame),
            Verdict::Rate => self.drop(now_ns, Fate::Rate, frame),
            Verdict::Hold {
                due_ns,
                order,
                held_back,
            } => {
                let due_ns = self.spoilt(now_ns, due_ns);
                self.line.push(due_ns, order, frame).expect("it was asked for room");
                self.counters.held(self.line.bytes());
                self.counters.reordered(held_back);
            }
        }
    }

    /// Write the first packet if it is due at `now_ns`; returns whether there was one. `write` says whether
    /// the kernel took it.
    pub fn release(&mut self, now_ns: u64, write: impl FnOnce(&[u8]) -> bool) -> bool {
        if now_ns >= self.next_step_ns {
            self.play(now_ns);
        }
        if let Some(aside) = self.aside.pop(now_ns) {
            write(&aside.frame);
            return true;
        }
        if self.link.frozen() {
            return false;
        }
        let Some(held) = self.line.pop(now_ns) else {
            return false;
        };
        if write(&held.frame) {
            self.flows.note_released(now_ns, behind(self.header_len, &held.frame));
            let lateness_ns = now_ns.saturating_sub(held.due_ns.max(self.thawed_ns));
            self.counters
                .forwarded(now_ns, self.line.size(&held.frame), lateness_ns);
            self.tap.see(now_ns, Fate::Departed, &held.frame);
        } else {
            self.drop(now_ns, Fate::Write, &held.frame);
        }
        true
    }

    /// Whether a packet may be held for a time, or something is planned for one.
    pub fn keeps_time(&self) -> bool {
        let conditions = self.link.conditions();
        let delays = conditions.delay_ns > 0 || conditions.jitter.is_some() || conditions.reorder.is_some();
        delays || self.player.is_some() || self.defect.is_some()
    }

    /// When there is something to write next, or a step of a schedule to be carried out.
    pub fn next_due_ns(&self) -> Option<u64> {
        let step = self.player.as_ref().map(|_| self.next_step_ns);
        self.next_packet_ns().into_iter().chain(step).min()
    }

    /// When there is something to write next, if anything is held that will leave by itself.
    pub fn next_packet_ns(&self) -> Option<u64> {
        let held = if self.link.frozen() {
            None
        } else {
            self.line.next_due_ns()
        };
        held.into_iter().chain(self.aside.next_due_ns()).min()
    }

    /// Carry out a change, after what a schedule has planned to come before it.
    pub fn change(&mut self, now_ns: u64, change: Change) {
        if now_ns >= self.next_step_ns {
            self.play(now_ns);
        }
        self.carry_out(now_ns, change);
    }

    /// Carry out the steps of the schedule that are due. They come between two packets, as orders do.
    #[cold]
    fn play(&mut self, now_ns: u64) {
        while let Some(change) = self.player.as_mut().and_then(|player| player.next(now_ns)) {
            self.carry_out(now_ns, change);
        }
        self.look_ahead();
    }

    /// Find the next step of the schedule; one without a next step is over.
    fn look_ahead(&mut self) {
        let next_ns = self.player.as_ref().and_then(Player::next_ns);
        self.next_step_ns = next_ns.unwrap_or(u64::MAX);
        if next_ns.is_none() {
            self.player = None;
        }
    }

    fn carry_out(&mut self, now_ns: u64, change: Change) {
        match change {
            Change::Set { conditions, flush } => {
                self.link.set(now_ns, *conditions);
                if flush {
                    self.line.hurry(now_ns);
                    self.link.forget_waiting();
                }
            }
            Change::Cut { kind } => self.begin_cut(now_ns, kind),
            Change::CutPorts { kind, ports } => self.cut_ports(now_ns, kind, ports),
            Change::Heal => self.link.heal(now_ns),
            Change::Freeze => self.link.freeze(true),
            Change::Thaw if self.link.frozen() => {
                self.link.freeze(false);
                self.thawed_ns = now_ns;
            }
            Change::Thaw => {}
            Change::Reset { ports } => {
                for reset in self.flows.reset_ports(now_ns, &ports) {
                    self.send_reset(now_ns, &reset);
                }
            }
            Change::Play { schedule, start_ns } => {
                self.player = Some(Player::new(*schedule, start_ns));
                self.play(now_ns);
            }
            Change::StopPlay => {
                self.player = None;
                self.look_ahead();
            }
            Change::Sabotage { defect } => self.defect = defect,
        }
    }

    /// When a packet leaves that is due at `due_ns`: then, but for a defect.
    fn spoilt(&self, now_ns: u64, due_ns: u64) -> u64 {
        match self.defect {
            None | Some(Defect::LeakyCut) => due_ns,
            Some(Defect::ExtraDelay { delay_ns }) => due_ns.saturating_add(delay_ns),
            Some(Defect::NoDelay) => now_ns,
        }
    }

    fn drop(&mut self, now_ns: u64, fate: Fate, frame: &[u8]) {
        self.counters.dropped(fate, 1);
        self.tap.see(now_ns, fate, frame);
    }

    /// Connections of which packets arrived, the near end first.
    pub fn flows(&self, now_ns: u64) -> Vec<(SocketAddrV4, SocketAddrV4)> {
        self.flows.known(now_ns)
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
            last_port_cut: self.link.last_port_cut().cloned(),
            capturing: self.tap.is_open(),
            frozen: self.link.frozen(),
            playing_since_ns: self.player.as_ref().map(Player::start_ns),
            next_step: self.player.as_ref().and_then(Player::next_step),
            counters: self
                .counters
                .snapshot(now_ns, self.line.packets() as u64, self.line.bytes()),
            ..LinkStatus::up(self.link.to(), self.link.conditions().clone())
        }
    }
}

/// The packet behind the device's header.
fn behind(header_len: usize, frame: &[u8]) -> &[u8] {
    frame.get(header_len..).unwrap_or_default()
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
