//! Real relays between network namespaces: what is promised of a link, seen from the nodes.
//!
//! Needs root, `ip` of iproute2 and /dev/net/tun, and says `skipped` with the reason where they are missing.
//! Times are only bounded from below by what was set: a busy machine can add to a delay, never take from it.

#![allow(
    clippy::unwrap_used,
    reason = "clippy sees tests only where they carry the attribute, not what they call"
)]

#[path = "namespaces/capture.rs"]
mod capture;
#[path = "namespaces/conditions.rs"]
mod conditions;
#[path = "namespaces/cuts.rs"]
mod cuts;
#[path = "namespaces/lab.rs"]
mod lab;
#[path = "namespaces/packets.rs"]
mod packets;
#[path = "namespaces/schedules.rs"]
mod schedules;
#[path = "namespaces/segments.rs"]
mod segments;
#[path = "namespaces/stream.rs"]
mod stream;

use lab::{Lab, Relay, config, node, outside, set};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};
use wire::{CutKind, Path, RelayOrder};

const MS: u64 = 1_000_000;
const PORT: u16 = 7100;

fn udp(lab: &Lab, datacenter: u8) -> UdpSocket {
    let socket = lab.at_node(datacenter, || UdpSocket::bind((node(datacenter), 0)).unwrap());
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// Both ends of a UDP conversation, connected to each other.
fn pair(lab: &Lab) -> (UdpSocket, UdpSocket) {
    let (one, two) = (udp(lab, 1), udp(lab, 2));
    one.connect(two.local_addr().unwrap()).unwrap();
    two.connect(one.local_addr().unwrap()).unwrap();
    (one, two)
}

/// The shortest of `count` round trips; every one must be answered.
fn shortest_round_trip(lab: &Lab, count: u32) -> Duration {
    let (near, far) = pair(lab);
    let mut shortest = Duration::MAX;
    let mut buffer = [0; 16];
    for i in 0..count {
        let begin = Instant::now();
        near.send(&i.to_ne_bytes()).unwrap();
        let length = far.recv(&mut buffer).expect("the request arrives");
        far.send(&buffer[..length]).unwrap();
        near.recv(&mut buffer).expect("the reply arrives");
        assert_eq!(buffer[..4], i.to_ne_bytes());
        shortest = shortest.min(begin.elapsed());
    }
    shortest
}

/// Ask until it is so, for ten seconds at most.
fn wait_until(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it never came true");
    }
}

/// Nothing comes to `socket` for `span`.
fn assert_silent(socket: &UdpSocket, span: Duration) {
    socket.set_read_timeout(Some(span)).unwrap();
    let heard = socket.recv(&mut [0; 16]).map_err(|error| error.kind());
    assert_eq!(heard, Err(ErrorKind::WouldBlock));
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
}

/// A TCP connection from datacenter 1 to 2: the dialling end, then the accepting one.
fn connect(lab: &Lab) -> (TcpStream, TcpStream) {
    let listener = lab.at_node(2, || TcpListener::bind((node(2), PORT)).unwrap());
    let near = lab.at_node(1, || TcpStream::connect((node(2), PORT)).unwrap());
    let (far, _) = listener.accept().unwrap();
    far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (near, far)
}

/// FNV-1a: any byte changed, lost or moved changes it.
fn digest(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

const DIGEST_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Bytes that do not repeat, so that a segment in the wrong place is seen.
fn chunk(seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_ne_bytes()
    };
    (0..16_384).flat_map(step).collect()
}

/// Send `chunks` through a new connection while `meanwhile` runs; both ends must agree on what was sent.
fn assert_bulk_arrives_whole(lab: &mut Lab, chunks: u32, meanwhile: impl FnOnce(&mut Lab)) {
    let (mut near, mut far) = connect(lab);
    let sender = thread::spawn(move || {
        let mut hash = DIGEST_START;
        for i in 0..chunks {
            let bytes = chunk(i);
            hash = digest(hash, &bytes);
            near.write_all(&bytes).unwrap();
        }
        hash
    });
    let receiver = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        let (mut hash, mut total) = (DIGEST_START, 0);
        loop {
            match far.read(&mut buffer).expect("bulk data arrives") {
                0 => return (hash, total),
                length => {
                    hash = digest(hash, &buffer[..length]);
                    total += length;
                }
            }
        }
    });
    meanwhile(lab);
    let sent = sender.join().unwrap();
    let (received, total) = receiver.join().unwrap();
    assert_eq!(total, chunks as usize * 65_536);
    assert_eq!(received, sent);
}

#[test]
fn a_round_trip_takes_both_delays_and_a_changed_delay_takes_effect() {
    let Some(mut lab) = Lab::build(5 * MS) else { return };
    assert!(shortest_round_trip(&lab, 50) >= Duration::from_millis(10));
    lab.obey_both(|to| set(to, MS));
    let shortest = shortest_round_trip(&lab, 50);
    assert!(shortest >= Duration::from_millis(2));
    assert!(
        shortest < Duration::from_millis(10),
        "the old delay still holds: {shortest:?}"
    );
    let counters = lab.relays[0].link().counters;
    assert_eq!((counters.arrived_packets, counters.forwarded_packets), (100, 100));
}

#[test]
fn bulk_data_arrives_whole_with_and_without_delay() {
    let Some(mut lab) = Lab::build(0) else { return };
    for delay_ns in [0, 5 * MS] {
        lab.obey_both(|to| set(to, delay_ns));
        assert_bulk_arrives_whole(&mut lab, 500, |_| {});
    }
    // The last acknowledgement may still be on its way when both ends have closed.
    wait_until(|| lab.relays[0].link().counters.held_packets == 0);
    let status = lab.relays[0].obey(RelayOrder::Show);
    let counters = status.links[0].counters;
    assert_eq!(counters.arrived_packets, counters.forwarded_packets, "{counters:?}");
    let mean = counters.arrived_bytes / counters.arrived_packets;
    assert!(
        !status.offload || mean > 3000,
        "offload is on, yet a packet has {mean} bytes"
    );
}

#[test]
fn a_smaller_mtu_on_the_wan_is_found_by_the_nodes() {
    let Some(mut lab) = Lab::build(MS) else { return };
    lab.set_wan_mtu(1400);
    assert_bulk_arrives_whole(&mut lab, 100, |_| {});
}

#[test]
fn what_a_frozen_relay_cannot_read_is_counted() {
    let Some(mut lab) = Lab::build(0) else { return };
    shortest_round_trip(&lab, 1);
    let (near, _far) = pair(&lab);
    lab.relays[0].signal("STOP");
    for i in 0..6000u32 {
        near.send(&i.to_ne_bytes()).unwrap();
        if i % 100 == 0 {
            // The interfaces before the relay have queues too, and theirs are shorter.
            thread::sleep(Duration::from_millis(1));
        }
    }
    lab.relays[0].signal("CONT");
    // The device takes 5000 at once, a few of which are the kernel's own.
    let arrived = |relay: &mut Relay| relay.link().counters.arrived_packets;
    wait_until(|| arrived(&mut lab.relays[0]) >= 4900);
    let dropped = lab.relays[0].obey(RelayOrder::Show).dropped_unread;
    assert!((1..1100).contains(&dropped), "{dropped}");
}

#[test]
fn a_cut_stops_both_directions_destroys_what_is_in_flight_and_heals() {
    let Some(mut lab) = Lab::build(200 * MS) else { return };
    let (near, far) = pair(&lab);
    for i in 0..10u8 {
        near.send(&[i]).unwrap();
    }
    wait_until(|| lab.relays[0].link().counters.held_packets == 10);
    lab.obey_both(|to| RelayOrder::Cut {
        to,
        kind: CutKind::Drop,
    });
    near.send(b"cut").unwrap();
    far.send(b"cut").unwrap();
    for relay in &mut lab.relays {
        wait_until(|| relay.link().counters.dropped_cut % 10 == 1);
    }
    lab.obey_both(|to| RelayOrder::Heal { to });
    assert_silent(&far, Duration::from_millis(300));
    assert_silent(&near, Duration::from_millis(10));
    let link = lab.relays[0].link();
    assert_eq!(link.counters.dropped_cut, 11);
    assert!(link.last_cut_ns.unwrap() < link.last_heal_ns.unwrap());
    near.send(b"healed").unwrap();
    let mut buffer = [0; 16];
    let length = far.recv(&mut buffer).expect("the healed link carries");
    assert_eq!(&buffer[..length], b"healed");
}

#[test]
fn a_cut_of_one_direction_leaves_the_other_alone() {
    let Some(mut lab) = Lab::build(0) else { return };
    let (near, far) = pair(&lab);
    lab.relays[0].obey(RelayOrder::Cut {
        to: "dc2".into(),
        kind: CutKind::Drop,
    });
    near.send(b"lost").unwrap();
    far.send(b"seen").unwrap();
    near.recv(&mut [0; 16]).expect("the other direction carries");
    assert_silent(&far, Duration::from_millis(100));
}

#[test]
fn no_packet_overtakes_another_while_the_delay_is_changed_live() {
    let Some(mut lab) = Lab::build(20 * MS) else { return };
    let (near, far) = pair(&lab);
    // So few and so slow that what a falling delay releases at once fits into the receiver's buffer.
    let count = 500u32;
    let sender = thread::spawn(move || {
        for i in 0..count {
            near.send(&i.to_ne_bytes()).unwrap();
            thread::sleep(Duration::from_micros(400));
        }
    });
    let receiver = thread::spawn(move || {
        for i in 0..count {
            let mut buffer = [0; 4];
            far.recv(&mut buffer).expect("every packet arrives");
            assert_eq!(u32::from_ne_bytes(buffer), i);
        }
    });
    for delay_ns in [0, 30 * MS, MS, 10 * MS, 0].into_iter().cycle().take(40) {
        lab.relays[0].obey(set("dc2".into(), delay_ns));
        thread::sleep(Duration::from_millis(4));
    }
    sender.join().unwrap();
    receiver.join().unwrap();
}

#[test]
fn the_kernel_path_ignores_the_delay_and_a_connection_survives_the_switch() {
    let Some(mut lab) = Lab::build(50 * MS) else { return };
    lab.obey_both(|_| RelayOrder::SetPath { path: Path::Kernel });
    let arrived = lab.relays[0].link().counters.arrived_packets;
    assert!(shortest_round_trip(&lab, 20) < Duration::from_millis(50));
    assert_eq!(lab.relays[0].link().counters.arrived_packets, arrived);
    lab.obey_both(|_| RelayOrder::SetPath { path: Path::Tun });
    assert!(shortest_round_trip(&lab, 5) >= Duration::from_millis(100));
    lab.obey_both(|to| set(to, MS));
    assert_bulk_arrives_whole(&mut lab, 1000, |lab| {
        for path in [Path::Kernel, Path::Tun, Path::Kernel, Path::Tun] {
            lab.obey_both(|_| RelayOrder::SetPath { path });
            thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn nothing_passes_when_the_relay_is_killed() {
    let Some(mut lab) = Lab::build(0) else { return };
    shortest_round_trip(&lab, 1);
    let (near, far) = pair(&lab);
    lab.relays[0].signal("KILL");
    lab.relays[0].child.wait().unwrap();
    near.send(b"lost").unwrap();
    assert_silent(&far, Duration::from_millis(200));
}

#[test]
fn a_new_relay_takes_over_the_namespace_of_one_killed_on_the_kernel_path() {
    let Some(mut lab) = Lab::build(0) else { return };
    lab.relays[0].obey(RelayOrder::SetPath { path: Path::Kernel });
    shortest_round_trip(&lab, 1);
    let (near, far) = pair(&lab);
    lab.relays[0].signal("KILL");
    lab.relays[0].child.wait().unwrap();
    near.send(b"lost").unwrap();
    assert_silent(&far, Duration::from_millis(200));
    let space = lab.space("relay1");
    lab.relays[0] = Relay::start(&space, &config(1, 20 * MS));
    lab.relays[0].obey(RelayOrder::Show);
    assert!(shortest_round_trip(&lab, 5) >= Duration::from_millis(20));
}

#[test]
fn addresses_of_relays_and_unknown_networks_answer_nobody() {
    let Some(mut lab) = Lab::build(0) else { return };
    shortest_round_trip(&lab, 1);
    let inside = |datacenter, host| Ipv4Addr::new(198, 18, datacenter, host);
    let places = [
        outside(1),
        outside(2),
        inside(1, 1),
        inside(2, 1),
        inside(2, 2),
        Ipv4Addr::new(198, 18, 77, 7),
        Ipv4Addr::new(192, 0, 2, 1),
    ];
    for place in places {
        let to = SocketAddrV4::new(place, PORT).into();
        let result = lab.at_node(1, || TcpStream::connect_timeout(&to, Duration::from_millis(100)));
        assert_eq!(
            result.err().map(|error| error.kind()),
            Some(ErrorKind::TimedOut),
            "{place} answered"
        );
    }
    assert!(lab.relays[0].obey(RelayOrder::Show).dropped_no_link > 0);
    // By UDP an answer would be an ICMP error. The own gateway may give one: it is not across any link.
    for place in places.into_iter().filter(|place| *place != inside(1, 1)) {
        let socket = udp(&lab, 1);
        socket.connect((place, PORT)).unwrap();
        socket.send(b"anyone?").unwrap();
        assert_silent(&socket, Duration::from_millis(50));
    }
}

#[test]
fn the_relay_outlives_its_orders_and_ends_at_once_on_a_signal() {
    let Some(mut lab) = Lab::build(0) else { return };
    lab.relays[0].say("not an order");
    let refusal = lab.relays[0].hear();
    assert_eq!(refusal.id, 0);
    assert!(refusal.result.is_err());
    // Nobody reads the answers of the second relay until its output is full.
    for _ in 0..500 {
        lab.relays[1].say("{\"id\":1,\"order\":\"show\"}");
    }
    lab.relays[0].orders = None;
    lab.relays[1].orders = None;
    shortest_round_trip(&lab, 20);
    for (relay, signal) in lab.relays.iter_mut().zip(["TERM", "INT"]) {
        relay.signal(signal);
        assert!(relay.child.wait().unwrap().success());
    }
}

#[test]
fn a_step_that_fails_is_named_in_one_line() {
    let Some(lab) = Lab::build(0) else { return };
    let mut wrong = config(1, 0);
    wrong.inside = Ipv4Addr::new(198, 18, 1, 77);
    let mut relay = Relay::start(&lab.space("node1"), &wrong);
    let mut text = String::new();
    relay.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(
        text,
        "relay: failed to find the inside interface: none has address 198.18.1.77\n"
    );
    assert_eq!(relay.child.wait().unwrap().code(), Some(1));
}
