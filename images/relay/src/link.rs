//! A directed link: which destinations it leads to, its conditions, and its verdict on an arriving packet.
//!
//! Pure: time is an argument, and of packets nothing is stored but when the last of them has passed the bottleneck. A
//! verdict depends on the conditions in force when the packet arrives, so a changed delay never touches what is
//! already in flight; a cut does, but destroying what is held is the lane's work, and so is keeping it while frozen. A cut of
//! ports is a state of its own beside that of the whole link; a heal ends both.

use crate::chance::Chance;
use crate::delay_line::Order;
use crate::packet::{Ipv4, Tcp};
use crate::rate::Bottleneck;
use std::net::Ipv4Addr;
use wire::{Conditions, CutKind, PortCut, RelayLinkConfig};

/// What becomes of an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Hold it, and let it go no earlier than this (CLOCK_MONOTONIC, nanoseconds).
    Hold {
        /// When it has passed the bottleneck, plus delay.
        due_ns: u64,
        /// Whether it keeps its place among the others.
        order: Order,
        /// Whether it is held back so that others overtake.
        held_back: bool,
    },
    /// Destroy it: the link is cut.
    Cut,
    /// Drop it: too much waits for its turn at the rate.
    Rate,
}

/// One outgoing link and its conditions.
#[derive(Debug, Clone)]
pub struct Link {
    to: String,
    network: u32,
    mask: u32,
    conditions: Conditions,
    bottleneck: Bottleneck,
    chance: Chance,
    per_packet: bool,
    frozen: bool,
    cut: Option<CutKind>,
    last_cut_ns: Option<u64>,
    last_heal_ns: Option<u64>,
    last_port_cut: Option<PortCut>,
    /// Whether that is in force: asked for every packet.
    cuts_ports: bool,
}

impl Link {
    /// A link that is up, as the configuration describes it; `seed` is that of everything random.
    pub fn new(config: &RelayLinkConfig, seed: u64) -> Self {
        let mask = mask(config.prefix_len);
        Self {
            to: config.to.clone(),
            network: u32::from(config.network) & mask,
            mask,
            conditions: config.conditions.clone(),
            bottleneck: Bottleneck::new(config.conditions.rate_bits_per_s, config.conditions.queue_bytes),
            chance: Chance::new(seed, &config.conditions),
            per_packet: config.conditions.per_packet(),
            frozen: false,
            cut: None,
            last_cut_ns: None,
            last_heal_ns: None,
            last_port_cut: None,
            cuts_ports: false,
        }
    }

    /// Far datacenter.
    pub fn to(&self) -> &str {
        &self.to
    }

    /// Conditions for packets that arrive now.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The cut in force.
    pub fn cut(&self) -> Option<CutKind> {
        self.cut
    }

    /// The last cut of ports, in force or ended.
    pub fn last_port_cut(&self) -> Option<&PortCut> {
        self.last_port_cut.as_ref()
    }

    /// The cut of ports in force.
    pub fn port_cut(&self) -> Option<&PortCut> {
        self.last_port_cut().filter(|_| self.cuts_ports)
    }

    /// Whether a cut of ports destroys this packet. Only TCP segments in one piece are: a later piece has no ports, and
    /// the kernel of the nodes makes no pieces of TCP.
    #[inline]
    pub fn cuts(&self, packet: &[u8]) -> bool {
        self.cuts_ports && self.cuts_port_of(packet)
    }

    #[cold]
    fn cuts_port_of(&self, packet: &[u8]) -> bool {
        let Some(cut) = self.port_cut() else { return false };
        let tcp = Ipv4::read(packet).and_then(|packet| Tcp::read(&packet));
        tcp.is_some_and(|tcp| cut.ports.contains(&tcp.source_port) || cut.ports.contains(&tcp.destination_port))
    }

    /// Whether nothing passes for now.
    pub fn frozen(&self) -> bool {
        self.frozen
    }

    /// When the last cut began.
    pub fn last_cut_ns(&self) -> Option<u64> {
        self.last_cut_ns
    }

    /// When the last cut ended; `None` while it lasts.
    pub fn last_heal_ns(&self) -> Option<u64> {
        self.last_heal_ns
    }

    /// Whether a packet to `destination` takes this link.
    pub fn leads_to(&self, destination: Ipv4Addr) -> bool {
        u32::from(destination) & self.mask == self.network
    }

    /// Whether the unit is the packet on the wire and not the offload's burst.
    pub fn per_packet(&self) -> bool {
        self.per_packet
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        self.chance.loses()
    }

    /// Whether the next packet arrives twice.
    pub fn duplicates(&mut self) -> bool {
        self.chance.duplicates(&self.conditions)
    }

    /// Which of `bits` bits of the next packet is flipped, if one is.
    pub fn corrupts(&mut self, bits: usize) -> Option<usize> {
        self.chance.corrupts(&self.conditions, bits)
    }

    /// What becomes of a packet of `bytes` that arrives at `now_ns`.
    pub fn judge(&mut self, now_ns: u64, bytes: u64) -> Verdict {
        if self.cut.is_some() {
            return Verdict::Cut;
        }
        let Ok(left_ns) = self.bottleneck.pass(now_ns, bytes) else {
            return Verdict::Rate;
        };
        let due_ns = left_ns.saturating_add(self.chance.delay_ns(&self.conditions));
        let back_ns = self.chance.holds_back(&self.conditions);
        let overtakes = self.conditions.jitter.as_ref().is_some_and(|jitter| jitter.reorder);
        Verdict::Hold {
            due_ns: due_ns.saturating_add(back_ns.unwrap_or(0)),
            order: if overtakes || back_ns.is_some() {
                Order::Free
            } else {
                Order::Kept
            },
            held_back: back_ns.is_some(),
        }
    }

    /// Conditions for packets that arrive after `now_ns`.
    pub fn set(&mut self, now_ns: u64, conditions: Conditions) {
        self.bottleneck
            .set(now_ns, conditions.rate_bits_per_s, conditions.queue_bytes);
        self.chance.set(&conditions);
        self.per_packet = conditions.per_packet();
        self.conditions = conditions;
    }

    /// Nothing waits for its turn any more: it was destroyed or hurried away.
    pub fn forget_waiting(&mut self) {
        self.bottleneck.clear();
    }

    /// Let nothing pass, or let it pass again.
    pub fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    /// Begin a cut at `now_ns`. A link that is already cut keeps the time at which its cut began.
    pub fn begin_cut(&mut self, kind: CutKind, now_ns: u64) {
        if self.cut.is_none() {
            self.last_cut_ns = Some(now_ns);
            self.last_heal_ns = None;
        }
        self.cut = Some(kind);
    }

    /// Cut these ports, and no others, from `now_ns` on; none: end a cut of ports. Ports that were cut already keep the time at
    /// which their cut began.
    pub fn cut_ports(&mut self, kind: CutKind, mut ports: Vec<u16>, now_ns: u64) {
        ports.sort_unstable();
        ports.dedup();
        if ports.is_empty() {
            return self.heal_ports(now_ns);
        }
        let same = self.port_cut().filter(|before| before.ports == ports);
        self.last_port_cut = Some(PortCut {
            kind,
            began_ns: same.map_or(now_ns, |before| before.began_ns),
            ports,
            ended_ns: None,
        });
        self.cuts_ports = true;
    }

    /// End the cut at `now_ns`, of the whole link and of ports. A link that is not cut stays as it is.
    pub fn heal(&mut self, now_ns: u64) {
        if self.cut.take().is_some() {
            self.last_heal_ns = Some(now_ns);
        }
        self.heal_ports(now_ns);
    }

    fn heal_ports(&mut self, now_ns: u64) {
        if let Some(cut) = self.last_port_cut.as_mut().filter(|_| self.cuts_ports) {
            cut.ended_ns = Some(now_ns);
        }
        self.cuts_ports = false;
    }
}

/// Network mask of a prefix length, which the configuration's check has bounded by 32.
fn mask(prefix_len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix_len.min(32))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Jitter, JitterShape, Reorder};

    fn link(delay_ns: u64) -> Link {
        let config = RelayLinkConfig {
            to: "dc2".into(),
            network: Ipv4Addr::new(198, 18, 1, 0),
            prefix_len: 24,
            via: Ipv4Addr::new(198, 18, 255, 3),
            conditions: delay(delay_ns),
        };
        Link::new(&config, 1)
    }

    fn due(due_ns: u64) -> Verdict {
        Verdict::Hold {
            due_ns,
            order: Order::Kept,
            held_back: false,
        }
    }

    fn delay(delay_ns: u64) -> Conditions {
        Conditions {
            rate_bits_per_s: None,
            ..Conditions::delay(delay_ns)
        }
    }

    #[test]
    fn a_packet_is_due_one_delay_after_its_arrival() {
        assert_eq!(link(20).judge(100, 100), due(120));
        assert_eq!(link(0).judge(100, 100), due(100));
    }

    #[test]
    fn a_cut_of_ports_meets_segments_of_them_from_either_side_and_nothing_else() {
        use crate::packet::flag;
        use crate::sample::{FAR_PORT, NEAR_PORT, tcp, udp};
        let mut link = link(20);
        let segment = tcp(1, 1, flag::ACK, b"");
        let mut piece = segment.clone();
        piece[6] = 0x20;
        let met = |link: &Link| [&segment, &piece, &udp(b"")].map(|packet| link.cuts(packet));
        for ports in [[FAR_PORT, 1], [2, NEAR_PORT]] {
            link.cut_ports(CutKind::Drop, ports.to_vec(), 7);
            assert_eq!(met(&link), [true, false, false], "{ports:?}");
            assert!(!link.cuts(&[]) && link.cut().is_none());
        }
        link.cut_ports(CutKind::Drop, vec![1, 2], 8);
        assert_eq!(met(&link), [false; 3]);
    }

    #[test]
    fn a_cut_of_ports_has_its_own_times_and_ends_with_a_heal() {
        let mut link = link(20);
        let shown = |link: &Link| {
            let cut = link.last_port_cut().unwrap();
            (cut.kind, cut.ports.clone(), cut.began_ns, cut.ended_ns)
        };
        assert_eq!(link.last_port_cut(), None);
        link.cut_ports(CutKind::Drop, vec![9, 7, 9], 10);
        assert_eq!(shown(&link), (CutKind::Drop, vec![7, 9], 10, None));
        link.cut_ports(CutKind::Reset, vec![7, 9], 20);
        assert_eq!(shown(&link), (CutKind::Reset, vec![7, 9], 10, None));
        link.cut_ports(CutKind::Drop, vec![8], 30);
        assert_eq!(shown(&link), (CutKind::Drop, vec![8], 30, None));
        assert_eq!((link.cut(), link.last_cut_ns()), (None, None));
        link.begin_cut(CutKind::Drop, 35);
        link.cut_ports(CutKind::Drop, Vec::new(), 40);
        assert_eq!(
            (link.cut().is_some(), link.port_cut(), shown(&link).3),
            (true, None, Some(40))
        );
        link.cut_ports(CutKind::Drop, vec![8], 50);
        link.heal(60);
        assert_eq!((link.last_heal_ns(), shown(&link).3), (Some(60), Some(60)));
        link.heal(70);
        assert_eq!((link.last_heal_ns(), shown(&link).3), (Some(60), Some(60)));
    }

    #[test]
    fn an_absurd_delay_saturates_instead_of_wrapping_into_the_past() {
        assert_eq!(link(u64::MAX).judge(100, 100), due(u64::MAX));
    }

    #[test]
    fn a_link_leads_to_its_network_and_nowhere_else() {
        let link = link(0);
        assert!(link.leads_to(Ipv4Addr::new(198, 18, 1, 0)));
        assert!(link.leads_to(Ipv4Addr::new(198, 18, 1, 255)));
        assert!(!link.leads_to(Ipv4Addr::new(198, 18, 0, 255)));
        assert!(!link.leads_to(Ipv4Addr::new(198, 18, 2, 0)));
    }

    #[test]
    fn masks_are_right_at_both_ends() {
        assert_eq!(mask(0), 0);
        assert_eq!(mask(1), 0x8000_0000);
        assert_eq!(mask(24), 0xffff_ff00);
        assert_eq!(mask(32), u32::MAX);
    }

    #[test]
    fn a_cut_link_destroys_and_a_healed_one_holds_again() {
        let mut link = link(20);
        link.begin_cut(CutKind::Drop, 50);
        assert_eq!(link.judge(60, 100), Verdict::Cut);
        link.heal(70);
        assert_eq!(link.judge(80, 100), due(100));
    }

    #[test]
    fn cut_and_heal_are_stamped_once_however_often_they_are_ordered() {
        let mut link = link(20);
        link.heal(10);
        assert_eq!((link.last_cut_ns(), link.last_heal_ns()), (None, None));
        link.begin_cut(CutKind::Drop, 50);
        link.begin_cut(CutKind::Drop, 55);
        assert_eq!((link.last_cut_ns(), link.last_heal_ns()), (Some(50), None));
        link.heal(70);
        link.heal(75);
        assert_eq!((link.last_cut_ns(), link.last_heal_ns()), (Some(50), Some(70)));
        link.begin_cut(CutKind::Drop, 90);
        assert_eq!((link.last_cut_ns(), link.last_heal_ns()), (Some(90), None));
    }

    #[test]
    fn a_delay_set_during_a_cut_holds_after_the_heal() {
        let mut link = link(20);
        link.begin_cut(CutKind::Drop, 50);
        link.set(55, delay(5));
        link.heal(60);
        assert_eq!(link.judge(70, 100), due(75));
    }

    #[test]
    fn the_delay_begins_when_the_last_bit_has_passed_the_bottleneck() {
        let mut link = link(20);
        link.set(
            0,
            Conditions {
                rate_bits_per_s: Some(8_000_000_000),
                queue_bytes: 150,
                ..delay(20)
            },
        );
        assert_eq!(link.judge(100, 100), due(220));
        assert_eq!(link.judge(100, 50), due(270));
        assert_eq!(link.judge(100, 1), Verdict::Rate);
        link.forget_waiting();
        assert_eq!(link.judge(100, 1), due(121));
    }

    #[test]
    fn a_packet_that_is_held_back_or_may_overtake_keeps_no_order() {
        let mut link = link(20);
        let hold = |due_ns, held_back| Verdict::Hold {
            due_ns,
            order: Order::Free,
            held_back,
        };
        let reorder = Some(Reorder {
            ppm: wire::MILLION,
            by_ns: 7,
        });
        link.set(0, Conditions { reorder, ..delay(20) });
        assert_eq!(link.judge(100, 100), hold(127, true));
        let jitter = |reorder| {
            let shape = JitterShape::Table { added_ns: vec![5] };
            Some(Jitter { shape, reorder })
        };
        link.set(
            0,
            Conditions {
                jitter: jitter(true),
                ..delay(20)
            },
        );
        assert_eq!(link.judge(100, 100), hold(125, false));
        link.set(
            0,
            Conditions {
                jitter: jitter(false),
                ..delay(20)
            },
        );
        assert_eq!(link.judge(100, 100), due(125));
    }
}
