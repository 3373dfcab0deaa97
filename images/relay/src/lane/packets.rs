//! What happens to single packets on the wire: bursts are split, and each packet is measured, lost, doubled, corrupted.
//!
//! Pure, as all of the lane. What must stay true: a packet is corrupted only after its checksum was completed, so that its
//! receiver can tell; a burst that cannot be split is never corrupted, since the kernel would add up what is wrong.

use super::{Lane, behind};
use crate::checksum;
use crate::icmp;
use crate::packet::{Ipv4, Offload};
use crate::segment::Split;
use wire::Fate;

impl Lane {
    /// Take what arrives at `now_ns`, packet by packet.
    pub(super) fn split(&mut self, now_ns: u64, frame: &[u8]) {
        let (header, packet) = frame.split_at(self.header_len.min(frame.len()));
        let offload = Offload::read(header);
        // Of a burst only the first packet that is too large is answered: they have one sender.
        let mut told = false;
        let Some(mut burst) = Split::of(&offload, packet) else {
            return self.take(now_ns, frame, &offload, &mut told);
        };
        let mut one = std::mem::take(&mut self.one);
        loop {
            one.clear();
            one.resize(self.header_len, 0);
            if !burst.next(&mut one) {
                break;
            }
            self.take(now_ns, &one, &Offload::default(), &mut told);
        }
        self.one = one;
    }

    fn take(&mut self, now_ns: u64, frame: &[u8], offload: &Offload, told: &mut bool) {
        self.note_arrival(now_ns, frame);
        if let Some(fate) = self.cut_of(frame) {
            return self.destroy(now_ns, fate, frame);
        }
        let packet = Ipv4::read(behind(self.header_len, frame));
        let mtu = self.link.conditions().mtu;
        if let Some(mtu) = mtu.filter(|mtu| self.line.size(frame) > u64::from(*mtu)) {
            self.drop(now_ns, Fate::Mtu, frame);
            let answer = packet.and_then(|packet| icmp::too_large(self.via, mtu, &packet));
            if let Some(answer) = answer.filter(|_| !*told) {
                *told = self.make(now_ns, &answer);
            }
            return;
        }
        if self.link.loses() {
            return self.drop(now_ns, Fate::Loss, frame);
        }
        self.pass(now_ns, frame, offload);
        if self.link.duplicates() {
            self.counters.duplicated();
            self.pass(now_ns, frame, offload);
        }
    }

    /// Hold a packet, perhaps with a wrong bit behind its IP header.
    fn pass(&mut self, now_ns: u64, frame: &[u8], offload: &Offload) {
        let carries = Ipv4::read(behind(self.header_len, frame)).filter(|_| offload.burst.is_none());
        let bits = carries.map_or(0, |packet| packet.payload().len() * 8);
        let Some(bit) = self.link.corrupts(bits) else {
            return self.hold(now_ns, frame);
        };
        let mut wrong = frame.to_vec();
        let begin = wrong.len() - bits / 8;
        let (header, packet) = wrong.split_at_mut(self.header_len);
        if checksum::complete(offload, packet) {
            header.fill(0);
        }
        wrong[begin + bit / 8] ^= 1 << (bit % 8);
        self.counters.corrupted();
        self.hold(now_ns, &wrong);
    }
}
