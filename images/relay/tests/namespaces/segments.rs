//! The relay's way to split a burst beside the kernel's own: the same bytes.
//!
//! A burst is written into one TUN device and routed to another that can do nothing, so that the kernel splits it.

use super::lab::Lab;
use relay::checksum;
use relay::packet::{Offload, TCP, UDP};
use relay::segment::Split;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::Command;

const DEVICE_HEADER_LEN: usize = 10;
const TTL: u8 = 64;

/// A TUN device in the namespace of the calling thread, without any offload.
fn tun(name: &str, flags: libc::c_int) -> File {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: ifreq is plain old data; the kernel reads and writes one, which `request` is; the descriptor is open.
    #[allow(unsafe_code, reason = "std cannot make a TUN device")]
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_TUN | libc::IFF_NO_PI | flags).unwrap();
        libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    file
}

/// A burst from 198.18.66.9 to 198.18.77.9 with all that goes before it, the sum of the pseudo header in place.
fn burst(protocol: u8, transport: &[u8], checksum_at: usize, kind: u8, segment: u16, ttl: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0xff, 0xf0, 0x40, 0, ttl, protocol, 0, 0];
    packet.extend([198, 18, 66, 9, 198, 18, 77, 9]);
    let length = u16::try_from(packet.len() + transport.len()).unwrap();
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let sum = !checksum::folded(checksum::sum(&packet));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let pseudo = checksum::folded(checksum::pseudo(&packet[12..20], protocol, transport.len()));
    packet.extend(transport);
    packet[20 + checksum_at..][..2].copy_from_slice(&pseudo.to_be_bytes());
    let start = 20u16.to_ne_bytes();
    let offset = u16::try_from(checksum_at).unwrap().to_ne_bytes();
    let header = [
        &[1, kind][..],
        &40u16.to_ne_bytes(),
        &segment.to_ne_bytes(),
        &start,
        &offset,
    ]
    .concat();
    [header, packet].concat()
}

fn tcp(flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![
        0x9c, 0x40, 0x18, 0xeb, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 77, 0x80, flags, 2, 0, 0, 0, 0, 0,
    ];
    // Two times nothing and a timestamp.
    segment.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    segment.extend(payload);
    segment
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap().to_be_bytes();
    [&[0x9c, 0x40, 0x18, 0xeb][..], &length, &[0, 0], payload].concat()
}

/// As the kernel splits it.
fn split_by_kernel(into: &File, out: &File, frame: &[u8], count: usize) -> Vec<Vec<u8>> {
    { into }.write_all(frame).unwrap();
    let mut packets = Vec::new();
    while packets.len() < count {
        let mut packet = vec![0; 70_000];
        let length = { out }.read(&mut packet).unwrap();
        packet.truncate(length);
        // The kernel's own chatter on the device is IPv6.
        if packet[0] >> 4 == 4 {
            packets.push(packet);
        }
    }
    packets
}

fn split_by_relay(frame: &[u8]) -> Vec<Vec<u8>> {
    let (header, packet) = frame.split_at(DEVICE_HEADER_LEN);
    let mut split = Split::of(&Offload::read(header), packet).expect("it is a burst");
    let mut packets = Vec::new();
    loop {
        let mut packet = Vec::new();
        if !split.next(&mut packet) {
            return packets;
        }
        packets.push(packet);
    }
}

#[test]
fn the_relay_splits_a_burst_into_the_bytes_that_the_kernel_makes_of_it() {
    let Some(lab) = Lab::build(0) else { return };
    let payload: Vec<u8> = (0..60_000u32).map(|i| u8::try_from(i * i / 7 % 251).unwrap()).collect();
    lab.at_node(1, || {
        let (into, out) = (tun("ta", libc::IFF_VNET_HDR), tun("tb", 0));
        let ip = |line: &str| {
            let output = Command::new("ip").args(line.split(' ')).output().unwrap();
            assert!(output.status.success(), "ip {line}: {output:?}");
        };
        for name in ["all", "default", "ta"] {
            fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0").unwrap();
        }
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        ip("addr add 198.18.66.1/24 dev ta");
        ip("link set ta up");
        ip("link set tb up");
        ip("route add 198.18.77.0/24 dev tb");
        // FIN, PSH, ACK, URG, ECE and CWR in all meanings; the last data short, whole and alone.
        for flags in [0x10, 0x18, 0x19, 0xd9, 0x90, 0x50] {
            for (length, segment) in [(60_000, 1448), (2896, 1448), (2897, 1448), (999, 333), (3000, 7)] {
                let kind = if flags & 0x80 == 0 { 1 } else { 0x81 };
                let frame = |ttl| burst(TCP, &tcp(flags, &payload[..length]), 16, kind, segment, ttl);
                // Forwarding takes one hop away.
                let ours = split_by_relay(&frame(TTL - 1));
                let theirs = split_by_kernel(&into, &out, &frame(TTL), ours.len());
                assert_eq!(
                    ours, theirs,
                    "flags {flags:#x}, {length} bytes in segments of {segment}"
                );
            }
        }
        for (length, segment) in [(60_000, 1472), (2000, 1000), (1001, 1000), (640, 10)] {
            let frame = |ttl| burst(UDP, &udp(&payload[..length]), 6, 5, segment, ttl);
            let ours = split_by_relay(&frame(TTL - 1));
            let theirs = split_by_kernel(&into, &out, &frame(TTL), ours.len());
            assert_eq!(ours, theirs, "{length} bytes in datagrams of {segment}");
        }
    });
}
