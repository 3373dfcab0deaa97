//! What link and delay line cost per packet, without any network: small and large packets, with and without
//! packets in flight.
//!
//! Prints nanoseconds per packet; it asserts nothing, since a shared machine would make any bound a lie.

use relay::lane::Lane;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;
use wire::RelayLinkConfig;

const PACKETS: u64 = 200_000;

fn main() {
    println!("{:>8} {:>10} {:>12}", "bytes", "in flight", "ns / packet");
    for bytes in [64, 1500, 65_536] {
        for in_flight in [1u64, 1000] {
            println!("{bytes:>8} {in_flight:>10} {:>12.0}", cost_ns(bytes, in_flight));
        }
    }
}

/// Nanoseconds to take and release one packet of `bytes` while `in_flight` are held. The clock of the lane
/// ticks once per packet, so that the delay is a number of packets.
#[expect(
    clippy::cast_precision_loss,
    reason = "a few seconds in nanoseconds fit into 53 bits"
)]
fn cost_ns(bytes: usize, in_flight: u64) -> f64 {
    let config = RelayLinkConfig {
        to: "dc2".into(),
        network: Ipv4Addr::new(198, 18, 1, 0),
        prefix_len: 24,
        via: Ipv4Addr::new(198, 18, 255, 3),
        conditions: wire::Conditions {
            rate_bits_per_s: None,
            ..wire::Conditions::delay(in_flight)
        },
    };
    let mut lane = Lane::new(&config, u64::MAX, 10, 1);
    let frame = segment(bytes);
    let begin = Instant::now();
    for now_ns in 0..PACKETS {
        lane.arrive(now_ns, black_box(&frame));
        lane.release(now_ns, |frame| black_box(frame).len() == bytes);
    }
    begin.elapsed().as_nanos() as f64 / PACKETS as f64
}

/// A TCP segment behind a device header, both as far as a lane looks at them.
fn segment(bytes: usize) -> Vec<u8> {
    let mut frame = vec![7; bytes];
    frame[..10].fill(0);
    let packet = &mut frame[10..];
    packet[0] = 0x45;
    packet[6..8].fill(0);
    packet[9] = 6;
    packet[32] = 0x50;
    packet[33] = 0x10;
    frame
}
