//! What a cut does to a lane: what is in flight and what arrives is destroyed, and with a reset both ends are told. A cut of
//! ports does so to the segments of these ports, and leaves everything else alone.
//!
//! Pure, as all of the lane.

use super::{Lane, behind};
use crate::delay_line::Order;
use crate::packet::{Ipv4, Tcp};
use crate::reset::Reset;
use wire::{CutKind, Defect, Fate};

impl Lane {
    /// Destroy what is in flight, and with a reset both ends of every connection that is known.
    pub(super) fn begin_cut(&mut self, now_ns: u64, kind: CutKind) {
        self.link.begin_cut(kind, now_ns);
        self.link.forget_waiting();
        self.tap.see_all(now_ns, Fate::Cut, self.line.frames());
        if kind == CutKind::Reset {
            for frame in self.line.frames() {
                self.flows.note_destroyed(now_ns, behind(self.header_len, frame));
            }
            for reset in self.flows.reset(now_ns) {
                self.send_reset(now_ns, &reset);
            }
        }
        self.counters.dropped(Fate::Cut, self.line.clear() as u64);
    }

    /// Cut these ports and no others: destroy what is in flight of theirs, and with a reset tell both ends of every connection
    /// that is known. What had its turn at the rate has had it, so that the others keep their times.
    pub(super) fn cut_ports(&mut self, now_ns: u64, kind: CutKind, ports: Vec<u16>) {
        self.link.cut_ports(kind, ports, now_ns);
        let Self {
            link,
            line,
            tap,
            flows,
            header_len,
            ..
        } = self;
        let Some(ports) = link.port_cut().map(|cut| cut.ports.clone()) else {
            return;
        };
        let destroyed = line.destroy(|frame| {
            let packet = behind(*header_len, frame);
            let doomed = link.cuts(packet);
            if doomed {
                tap.see(now_ns, Fate::Ports, frame);
                if kind == CutKind::Reset {
                    flows.note_destroyed(now_ns, packet);
                }
            }
            doomed
        });
        self.counters.dropped(Fate::Ports, destroyed as u64);
        if kind == CutKind::Reset {
            for reset in self.flows.reset_ports(now_ns, &ports) {
                self.send_reset(now_ns, &reset);
            }
        }
    }

    /// How a cut ends this packet, if one does.
    #[inline]
    pub(super) fn cut_of(&self, frame: &[u8]) -> Option<Fate> {
        if self.link.cut().is_some() {
            return Some(Fate::Cut);
        }
        self.link.cuts(behind(self.header_len, frame)).then_some(Fate::Ports)
    }

    /// A packet arrives at a cut.
    pub(super) fn destroy(&mut self, now_ns: u64, fate: Fate, frame: &[u8]) {
        self.drop(now_ns, fate, frame);
        if self.defect == Some(Defect::LeakyCut) {
            let due_ns = now_ns.saturating_add(self.link.conditions().delay_ns);
            // Counted as destroyed, so that only who looks behind the cut can see it.
            let _ = self.aside.push(due_ns, Order::Kept, frame);
            return;
        }
        let kind = match fate {
            Fate::Ports => self.link.port_cut().map(|cut| cut.kind),
            _ => self.link.cut(),
        };
        if kind != Some(CutKind::Reset) {
            return;
        }
        if let Some(packet) = Ipv4::read(behind(self.header_len, frame))
            && let Some(tcp) = Tcp::read(&packet)
        {
            let resets = [Reset::answer(&packet, &tcp), Reset::in_place_of(&packet, &tcp)];
            for reset in resets.into_iter().flatten() {
                self.send_reset(now_ns, &reset);
            }
        }
    }

    pub(super) fn send_reset(&mut self, now_ns: u64, reset: &Reset) {
        if self.make(now_ns, &reset.packet()) {
            self.counters.reset();
        }
    }

    /// Send a packet of the relay's own; returns whether there was room for it.
    pub(super) fn make(&mut self, now_ns: u64, packet: &[u8]) -> bool {
        let mut frame = vec![0; self.header_len + packet.len()];
        frame[self.header_len..].copy_from_slice(packet);
        let made = self.aside.push(now_ns, Order::Kept, &frame).is_ok();
        if made {
            self.tap.see(now_ns, Fate::Made, &frame);
        }
        made
    }
}
