//! The checksum of the internet protocols: the complement of the sum of all 16-bit words, in ones' complement.
//!
//! Pure. With offload the kernel leaves the checksum of a packet to whoever sends it on, and marks it in the device's
//! header; who looks at such a packet, splits it or flips a bit of it has to complete it first.

use crate::packet::Offload;

/// Sum of `bytes` as 16-bit words, not yet folded; an odd last byte is the upper half of its word.
pub fn sum(bytes: &[u8]) -> u64 {
    let (quads, rest) = bytes.as_chunks::<4>();
    // Two words at once: folding adds the halves.
    let quads: u64 = quads.iter().map(|quad| u64::from(u32::from_be_bytes(*quad))).sum();
    let rest = rest.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u64::from(u16::from_be_bytes([pair[0], low]))
    });
    quads + rest.sum::<u64>()
}

/// The sum in 16 bits, what was carried out of them added again.
pub fn folded(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("it was folded until it fits")
}

/// What of the IP header is covered by the checksum of the transport: the addresses, which are `addresses` as they stand
/// there, the protocol, and the length of the transport's part.
pub fn pseudo(addresses: &[u8], protocol: u8, transport_len: usize) -> u64 {
    sum(addresses) + u64::from(protocol) + transport_len as u64
}

/// The checksum of what was summed. Zero means "none" in UDP, where the other zero of this arithmetic stands for it; all
/// others take both.
pub fn of(sum: u64) -> u16 {
    match !folded(sum) {
        0 => u16::MAX,
        checksum => checksum,
    }
}

/// Add up what the kernel has left to add up; returns whether there was anything. At the place of the checksum the sum
/// of the pseudo header stands already.
pub fn complete(offload: &Offload, packet: &mut [u8]) -> bool {
    let Some(left) = offload.checksum else {
        return false;
    };
    let (start, place) = (
        usize::from(left.start),
        usize::from(left.start) + usize::from(left.offset),
    );
    let Some(checksum) = packet.get(start..).map(|covered| of(sum(covered))) else {
        return false;
    };
    match packet.get_mut(place..place + 2) {
        Some(field) => field.copy_from_slice(&checksum.to_be_bytes()),
        None => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_that_of_words_whatever_the_length() {
        // The example of RFC 1071.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(folded(sum(&bytes)), 0xddf2);
        assert_eq!(of(sum(&bytes)), 0x220d);
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[1]), 0x100);
        assert_eq!(sum(&[1, 2, 3]), 0x102 + 0x300);
        let long: Vec<u8> = (0..=255).cycle().take(65_535).collect();
        let slow: u64 = long
            .chunks(2)
            .map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)))
            .sum();
        assert_eq!(folded(sum(&long)), folded(slow));
    }

    #[test]
    fn a_checksum_is_never_zero() {
        assert_eq!(of(0xffff), 0xffff);
        assert_eq!(of(0), 0xffff);
        assert_eq!(of(1), 0xfffe);
    }

    #[test]
    fn what_the_kernel_left_is_completed_only_where_it_fits() {
        let mut header = [1, 0, 0, 0, 0, 0, 2, 0, 2, 0];
        let mut packet = [9, 9, 0, 1, 0, 2, 0, 3];
        assert!(complete(&Offload::read(&header), &mut packet));
        assert_eq!(packet, [9, 9, 0, 1, 0xff, 0xf9, 0, 3]);
        header[8] = 5;
        assert!(!complete(&Offload::read(&header), &mut packet));
        header[6] = 9;
        assert!(!complete(&Offload::read(&header), &mut packet));
        header[0] = 0;
        assert!(!complete(&Offload::read(&header), &mut packet));
        assert_eq!(packet, [9, 9, 0, 1, 0xff, 0xf9, 0, 3]);
    }
}
