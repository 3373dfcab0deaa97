//! Word to the sender of a packet that was too large for the next hop, as a router gives it.
//!
//! Pure. It is sent in the name of the far relay's WAN address, where the narrow hop begins; a packet with an address of
//! this relay would be taken for forged by its own kernel. Refuses to answer what a router must not answer: errors,
//! later pieces of a packet, and packets that may be broken up.

use crate::checksum;
use crate::packet::{ICMP, IPV4_HEADER_LEN, Ipv4};
use std::net::Ipv4Addr;

const ICMP_HEADER_LEN: usize = 8;
/// All of the answer: as much of the packet as fits into what everybody must take.
const ANSWER_MAX: usize = 576;
const TTL: u8 = 64;
/// Types that ask or answer questions; all others report errors.
const QUESTIONS: [u8; 6] = [0, 8, 13, 14, 17, 18];

/// The answer to `packet`, if it may be answered: type 3, code 4, with the `mtu` of the next hop.
pub fn too_large(via: Ipv4Addr, mtu: u16, packet: &Ipv4) -> Option<Vec<u8>> {
    let is_error = packet.protocol() == ICMP && packet.payload().first().is_none_or(|kind| !QUESTIONS.contains(kind));
    if !packet.dont_fragment() || packet.is_later_fragment() || is_error {
        return None;
    }
    let quoted = packet.bytes();
    let quoted = &quoted[..quoted.len().min(ANSWER_MAX - IPV4_HEADER_LEN - ICMP_HEADER_LEN)];
    let mut bytes = vec![0; IPV4_HEADER_LEN + ICMP_HEADER_LEN];
    bytes.extend_from_slice(quoted);
    let length = u16::try_from(bytes.len()).expect("576 fits");
    let (ip, icmp) = bytes.split_at_mut(IPV4_HEADER_LEN);
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[8] = TTL;
    ip[9] = ICMP;
    ip[12..16].copy_from_slice(&via.octets());
    ip[16..20].copy_from_slice(&packet.source().octets());
    let sum = !checksum::folded(checksum::sum(ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    icmp[0] = 3;
    icmp[1] = 4;
    icmp[6..8].copy_from_slice(&mtu.to_be_bytes());
    let sum = !checksum::folded(checksum::sum(icmp));
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{NEAR, tcp, udp};

    const VIA: Ipv4Addr = Ipv4Addr::new(198, 18, 255, 3);

    fn answer(packet: &[u8]) -> Option<Vec<u8>> {
        too_large(VIA, 1300, &Ipv4::read(packet).unwrap())
    }

    #[test]
    fn the_sender_learns_the_mtu_and_which_packet_it_was() {
        let packet = tcp(7, 9, 16, &[5; 1400]);
        let bytes = answer(&packet).unwrap();
        let ip = Ipv4::read(&bytes).unwrap();
        assert_eq!((ip.source(), ip.destination(), ip.protocol()), (VIA, NEAR, ICMP));
        assert_eq!(bytes.len(), ANSWER_MAX);
        assert_eq!(bytes[2..4], [2, 64]);
        let icmp = ip.payload();
        assert_eq!((icmp[0], icmp[1], u16::from_be_bytes([icmp[6], icmp[7]])), (3, 4, 1300));
        assert_eq!(icmp[8..], packet[..548]);
        for covered in [&bytes[..20], icmp] {
            assert_eq!(checksum::folded(checksum::sum(covered)), u16::MAX);
        }
    }

    #[test]
    fn a_short_packet_is_quoted_whole() {
        let packet = udp(b"short");
        assert_eq!(answer(&packet).unwrap()[28..], packet);
    }

    #[test]
    fn what_no_router_answers_is_not_answered() {
        let mut may_be_broken_up = udp(b"datagram");
        may_be_broken_up[6] = 0;
        assert_eq!(answer(&may_be_broken_up), None);
        let mut later_piece = udp(b"datagram");
        later_piece[7] = 1;
        assert_eq!(answer(&later_piece), None);
        let mut ping = udp(b"datagram");
        ping[9] = ICMP;
        ping[20] = 8;
        assert!(answer(&ping).is_some());
        ping[20] = 3;
        assert_eq!(answer(&ping), None);
        assert_eq!(answer(&ping[..20]), None);
    }
}
