//! Copies of packets as a controller is told of them: without the device's header, checksums completed, in base64.
//!
//! Pure. It runs on the thread that answers orders, so that the data path only copies. With offload the kernel leaves
//! the checksum of a packet to whoever sends it on; it is completed in a copy that holds the whole packet, since a
//! reader of the capture would take it for corrupted. Nothing else about a copy is changed.

use crate::checksum;
use crate::packet::Offload;
use crate::router::tun::HEADER_LEN;
use crate::tap::{Sighting, Taken};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wire::{Captured, CapturedPacket};

/// Copies as the controller is told of them.
pub fn told(taken: Taken) -> Captured {
    Captured {
        packets: taken.copies.into_iter().map(packet).collect(),
        lost: taken.lost,
        more: taken.more,
    }
}

fn packet(mut seen: Sighting) -> CapturedPacket {
    let bytes = match seen.frame.split_first_chunk_mut::<HEADER_LEN>() {
        Some((header, bytes)) => {
            if bytes.len() == seen.length as usize {
                checksum::complete(&Offload::read(header), bytes);
            }
            bytes
        }
        None => &mut [],
    };
    CapturedPacket {
        at_ns: seen.at_ns,
        fate: seen.fate,
        length: seen.length,
        bytes: STANDARD.encode(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Fate;

    fn sighting(frame: &[u8], length: usize) -> Sighting {
        Sighting {
            at_ns: 7,
            fate: Fate::Arrived,
            length: u32::try_from(length).unwrap(),
            frame: frame.into(),
        }
    }

    fn bytes(seen: Sighting) -> Vec<u8> {
        let taken = Taken {
            copies: vec![seen],
            lost: 3,
            more: true,
        };
        let told = told(taken);
        assert_eq!((told.lost, told.more, told.packets[0].at_ns), (3, true, 7));
        STANDARD.decode(&told.packets[0].bytes).unwrap()
    }

    /// A UDP packet of 198.18.0.2:7 to 198.18.1.2:9 with the text `abc`, as the kernel hands it over: at the place of the
    /// checksum stands the sum of the pseudo header. `0x...` figures were added up by hand.
    fn offloaded() -> Vec<u8> {
        let header = [
            &[1, 0][..],
            &0u16.to_ne_bytes(),
            &0u16.to_ne_bytes(),
            &20u16.to_ne_bytes(),
            &6u16.to_ne_bytes(),
        ];
        let ip = [0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 2, 198, 18, 1, 2];
        // 0xc612 + 0x0002 + 0xc612 + 0x0102 + 17 + 11 = 0x18d44, folded 0x8d45.
        let udp = [0, 7, 0, 9, 0, 11, 0x8d, 0x45, b'a', b'b', b'c'];
        [header.concat(), ip.to_vec(), udp.to_vec()].concat()
    }

    #[test]
    fn the_checksum_of_an_offloaded_packet_is_completed() {
        let frame = offloaded();
        let packet = bytes(sighting(&frame, frame.len() - HEADER_LEN));
        // 0x8d45 + 7 + 9 + 11 + 0x6162 + 0x6300 = 0x151c2, folded 0x51c3, inverted.
        assert_eq!(packet[26..28], [0xae, 0x3c]);
        assert_eq!(packet[..26], frame[HEADER_LEN..][..26]);
        assert_eq!(packet[28..], frame[HEADER_LEN..][28..]);
    }

    #[test]
    fn a_packet_cut_short_or_complete_already_is_left_as_it_is() {
        let frame = offloaded();
        let cut_short = &frame[..frame.len() - 1];
        assert_eq!(
            bytes(sighting(cut_short, frame.len() - HEADER_LEN)),
            cut_short[HEADER_LEN..]
        );
        let mut complete = frame;
        complete[0] = 0;
        assert_eq!(
            bytes(sighting(&complete, complete.len() - HEADER_LEN)),
            complete[HEADER_LEN..]
        );
    }

    #[test]
    fn a_header_that_points_beyond_the_packet_harms_nobody() {
        let mut frame = offloaded();
        frame[6..8].copy_from_slice(&u16::MAX.to_ne_bytes());
        assert_eq!(bytes(sighting(&frame, frame.len() - HEADER_LEN)), frame[HEADER_LEN..]);
        let mut frame = offloaded();
        frame[8..10].copy_from_slice(&u16::MAX.to_ne_bytes());
        assert_eq!(bytes(sighting(&frame, frame.len() - HEADER_LEN)), frame[HEADER_LEN..]);
    }

    #[test]
    fn less_than_a_header_is_a_packet_without_bytes() {
        assert!(bytes(sighting(&[1; 4], 0)).is_empty());
    }
}
