//! Stream mode seen from the nodes, over sockets of the real kernel.
//!
//! As in packet mode a time is bounded from below by what was set. Where an instrument must *not* add something, the
//! shortest of several attempts is bounded, far below what it would add.

use super::lab::{Lab, node, set};
use super::{MS, digest, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use wire::{Conditions, Mirror, Nodelay, Path, RelayOrder, StreamOrder, StreamSettings, StreamStatus};

#[path = "stream/cuts.rs"]
mod cuts;
#[path = "stream/ways.rs"]
mod ways;

/// A port that stream mode terminates.
pub const PORT: u16 = 6379;

/// The way of stream mode.
pub fn stream(order: StreamOrder, nodelay: Nodelay) -> RelayOrder {
    RelayOrder::SetPath {
        path: Path::Stream(StreamSettings { order, nodelay }),
    }
}

/// A lab in stream mode with delays from datacenter 1 to 2 and back.
pub fn lab(out_ns: u64, back_ns: u64, order: StreamOrder, nodelay: Nodelay) -> Option<Lab> {
    let mut lab = Lab::build(0)?;
    set_delays(&mut lab, out_ns, back_ns);
    lab.obey_both(|_| stream(order, nodelay));
    Some(lab)
}

fn set_delays(lab: &mut Lab, out_ns: u64, back_ns: u64) {
    for (relay, to, own_ns, mirror_ns) in [(0, "dc2", out_ns, back_ns), (1, "dc1", back_ns, out_ns)] {
        lab.relays[relay].obey(set(to.into(), own_ns));
        mirror(
            lab,
            relay,
            Mirror {
                delay_ns: mirror_ns,
                ..Mirror::default()
            },
        );
    }
}

/// Tell a relay of the opposite direction.
pub fn mirror(lab: &mut Lab, relay: usize, mirror: Mirror) {
    let to = ["dc2", "dc1"][relay].to_owned();
    lab.relays[relay].obey(RelayOrder::Mirror { to, mirror });
}

/// Someone listens in datacenter 2.
pub fn listener(lab: &Lab) -> TcpListener {
    lab.at_node(2, || TcpListener::bind((node(2), PORT)).unwrap())
}

pub fn dial(lab: &Lab) -> TcpStream {
    let near = lab.at_node(1, || TcpStream::connect((node(2), PORT)).unwrap());
    near.set_nodelay(true).unwrap();
    near.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    near
}

pub fn accept(listener: &TcpListener) -> TcpStream {
    let (far, _) = listener.accept().unwrap();
    far.set_nodelay(true).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    far
}

/// Both ends of a connection that the relay of datacenter 1 terminates.
pub fn connected(lab: &Lab) -> (TcpStream, TcpStream) {
    let listener = listener(lab);
    let near = dial(lab);
    (near, accept(&listener))
}

pub fn counters(lab: &mut Lab, relay: usize) -> StreamStatus {
    lab.relays[relay].obey(RelayOrder::Show).stream.unwrap()
}

pub fn read_exactly(socket: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes).unwrap();
    bytes
}

/// From a write at one end to the last byte at the other, the shortest of `count`.
fn shortest_flight(from: &mut TcpStream, to: &mut TcpStream, count: u32) -> Duration {
    let flight = |_| {
        let begin = Instant::now();
        from.write_all(b"flight").unwrap();
        read_exactly(to, 6);
        begin.elapsed()
    };
    (0..count).map(flight).min().unwrap()
}

fn ping_pongs(near: &mut TcpStream, far: &mut TcpStream, count: u32) {
    for _ in 0..count {
        near.write_all(b"ping").unwrap();
        read_exactly(far, 4);
        far.write_all(b"pong").unwrap();
        read_exactly(near, 4);
    }
}

/// Bytes that do not repeat, each connection its own.
fn bulk(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_ne_bytes()
    };
    (0..length / 4).flat_map(step).collect()
}

#[test]
fn both_nodes_see_each_others_address_and_port() {
    let Some(mut lab) = lab(0, 0, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let (mut near, mut far) = connected(&lab);
    assert_eq!(near.peer_addr().unwrap(), SocketAddr::from((node(2), PORT)));
    assert_eq!(far.peer_addr().unwrap(), near.local_addr().unwrap());
    assert_eq!(far.local_addr().unwrap(), near.peer_addr().unwrap());
    ping_pongs(&mut near, &mut far, 3);
    let seen = counters(&mut lab, 0);
    assert_eq!((seen.accepted, seen.open, seen.failed, seen.portions), (1, 1, 0, 6));
    // Only the dialling side's relay terminates it, and nothing of it is a packet of a link.
    assert_eq!(counters(&mut lab, 1).accepted, 0);
    for relay in &mut lab.relays {
        assert_eq!(relay.link().counters.arrived_packets, 0);
    }
}

#[test]
fn each_direction_takes_its_own_delay_once_whichever_side_dialled() {
    let (out, back) = (10 * MS, 40 * MS);
    let Some(lab) = lab(out, back, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let begin = Instant::now();
    let (mut near, mut far) = connected(&lab);
    assert!(
        begin.elapsed() >= Duration::from_nanos(out),
        "the far end was dialled early"
    );
    let there = shortest_flight(&mut near, &mut far, 10);
    let here = shortest_flight(&mut far, &mut near, 10);
    let listener = lab.at_node(1, || TcpListener::bind((node(1), PORT)).unwrap());
    let mut near = lab.at_node(2, || TcpStream::connect((node(1), PORT)).unwrap());
    let mut far = accept(&listener);
    for (flight, delay) in [
        (there, out),
        (here, back),
        (shortest_flight(&mut near, &mut far, 10), back),
        (shortest_flight(&mut far, &mut near, 10), out),
    ] {
        let delay = Duration::from_nanos(delay);
        assert!(flight >= delay, "{flight:?} is less than {delay:?}");
        assert!(
            flight < delay + Duration::from_millis(8),
            "{flight:?} is more than {delay:?}"
        );
    }
}

#[test]
fn a_changed_delay_holds_for_what_arrives_after_it() {
    let Some(mut lab) = lab(300 * MS, 0, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let (mut near, mut far) = connected(&lab);
    let begin = Instant::now();
    near.write_all(b"slow").unwrap();
    thread::sleep(Duration::from_millis(20));
    lab.relays[0].obey(set("dc2".into(), 0));
    near.write_all(b"fast").unwrap();
    assert_eq!(read_exactly(&mut far, 8), b"slowfast");
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert!(shortest_flight(&mut near, &mut far, 10) < Duration::from_millis(100));
    // What is in flight can be hurried.
    lab.relays[0].obey(set("dc2".into(), 60_000 * MS));
    near.write_all(b"slow").unwrap();
    thread::sleep(Duration::from_millis(20));
    lab.relays[0].obey(RelayOrder::Set {
        to: "dc2".into(),
        conditions: Conditions::delay(0),
        flush: true,
    });
    assert_eq!(read_exactly(&mut far, 4), b"slow");
}

/// From the first of `count` messages, 200 us apart, to the arrival of the last.
fn row_of(near: &mut TcpStream, far: &mut TcpStream, count: usize) -> Duration {
    let begin = Instant::now();
    for _ in 0..count {
        near.write_all(b"m").unwrap();
        thread::sleep(Duration::from_micros(200));
    }
    read_exactly(far, count);
    begin.elapsed()
}

#[test]
fn k_messages_in_a_row_pay_one_delay_pipelined_and_k_serialising() {
    // So long that a busy machine does not add as much.
    let delay = 50 * MS;
    for order in [StreamOrder::Pipelined, StreamOrder::Serialising] {
        let Some(lab) = lab(delay, delay, order, Nodelay::On) else {
            return;
        };
        let (mut near, mut far) = connected(&lab);
        let shortest =
            |near: &mut TcpStream, far: &mut TcpStream, count| (0..12).map(|_| row_of(near, far, count)).min().unwrap();
        let (one, five) = (shortest(&mut near, &mut far, 1), shortest(&mut near, &mut far, 5));
        assert!(
            one >= Duration::from_nanos(delay) && one < Duration::from_nanos(2 * delay),
            "{one:?}"
        );
        match order {
            StreamOrder::Pipelined => assert!(five < Duration::from_nanos(2 * delay), "{five:?}"),
            StreamOrder::Serialising => assert!(five >= Duration::from_nanos(5 * delay), "{five:?}"),
        }
    }
}

#[test]
fn without_nodelay_the_second_of_two_small_messages_waits_for_a_delayed_acknowledgement() {
    // Linux delays an acknowledgement by at least 40 ms, its tick included by no less than 30.
    let bound = Duration::from_millis(30);
    for (nodelay, towards_far, towards_near) in [
        (Nodelay::On, false, false),
        (Nodelay::Off, true, true),
        (Nodelay::NearLeg, true, false),
        (Nodelay::FarLeg, false, true),
    ] {
        let Some(mut lab) = lab(0, 0, StreamOrder::Pipelined, nodelay) else {
            return;
        };
        let (mut near, mut far) = connected(&lab);
        let seen = counters(&mut lab, 0);
        assert_eq!(
            seen.nodelay_near,
            Some(matches!(nodelay, Nodelay::On | Nodelay::NearLeg))
        );
        assert_eq!(seen.nodelay_far, Some(matches!(nodelay, Nodelay::On | Nodelay::FarLeg)));
        // Only a receiver that answers delays its acknowledgements.
        ping_pongs(&mut near, &mut far, 40);
        for (from_near, waits) in [(true, towards_far), (false, towards_near)] {
            let (from, to) = if from_near {
                (&mut near, &mut far)
            } else {
                (&mut far, &mut near)
            };
            let mut shortest = |count| {
                let attempt = |_| {
                    let took = row_of(from, to, count);
                    // The receiver answers each row, or it would go back to acknowledging at once.
                    to.write_all(b"a").unwrap();
                    read_exactly(from, 1);
                    thread::sleep(Duration::from_millis(60));
                    took
                };
                (0..5).map(attempt).min().unwrap()
            };
            let (one, two) = (shortest(1), shortest(2));
            assert!(one < bound, "{nodelay:?}: a single message took {one:?}");
            assert_eq!(
                two >= bound,
                waits,
                "{nodelay:?}, from near {from_near}: two messages took {two:?}"
            );
        }
        assert_eq!(counters(&mut lab, 0).mismatched, 0);
    }
}

#[test]
fn a_half_closed_connection_still_gets_its_answer() {
    let Some(mut lab) = lab(5 * MS, 5 * MS, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let (mut near, mut far) = connected(&lab);
    near.write_all(b"question").unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    far.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"question");
    thread::sleep(Duration::from_millis(30));
    far.write_all(b"answer").unwrap();
    drop(far);
    heard.clear();
    near.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"answer");
    wait_until(|| counters(&mut lab, 0).open == 0);
}

#[test]
fn a_reset_of_either_end_reaches_the_other_behind_the_bytes() {
    let Some(mut lab) = lab(5 * MS, 5 * MS, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    for near_resets in [true, false] {
        let (near, far) = connected(&lab);
        let (mut from, mut to) = if near_resets { (near, far) } else { (far, near) };
        from.write_all(b"last words").unwrap();
        // Long enough for them to be read by the relay: a reset overtakes what is in a receiver's buffer.
        thread::sleep(Duration::from_millis(50));
        socket2::SockRef::from(&from).set_linger(Some(Duration::ZERO)).unwrap();
        drop(from);
        assert_eq!(read_exactly(&mut to, 10), b"last words");
        let end = to.read(&mut [0; 1]).unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
        wait_until(|| counters(&mut lab, 0).open == 0);
    }
}

#[test]
fn who_dials_where_nobody_listens_is_reset_after_both_delays_and_counted() {
    let Some(mut lab) = lab(20 * MS, 30 * MS, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let begin = Instant::now();
    let mut near = dial(&lab);
    let end = near.read(&mut [0; 1]).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    assert!(begin.elapsed() >= Duration::from_millis(50));
    let seen = counters(&mut lab, 0);
    assert_eq!((seen.accepted, seen.failed, seen.open), (1, 1, 0));
}

#[test]
fn fifty_connections_at_once_keep_every_byte_in_both_directions() {
    const COUNT: u32 = 50;
    const LENGTH: usize = 1 << 20;
    let Some(mut lab) = lab(5 * MS, 5 * MS, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let listener = listener(&lab);
    let server = thread::spawn(move || {
        let echo = |mut far: TcpStream| {
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                loop {
                    match far.read(&mut buffer).unwrap() {
                        0 => return,
                        length => far.write_all(&buffer[..length]).unwrap(),
                    }
                }
            })
        };
        let echoes: Vec<_> = (0..COUNT).map(|_| echo(accept(&listener))).collect();
        echoes.into_iter().for_each(|echo| echo.join().unwrap());
    });
    let exchange = |seed| {
        let near = dial(&lab);
        thread::spawn(move || {
            let sent = bulk(seed, LENGTH);
            let (mut writer, expected) = (near.try_clone().unwrap(), digest(0, &sent));
            let sender = thread::spawn(move || {
                writer.write_all(&sent).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let mut heard = Vec::new();
            (&near).read_to_end(&mut heard).unwrap();
            sender.join().unwrap();
            assert_eq!(
                (heard.len(), digest(0, &heard)),
                (LENGTH, expected),
                "connection {seed}"
            );
        })
    };
    let exchanges: Vec<_> = (0..COUNT).map(exchange).collect();
    exchanges.into_iter().for_each(|it| it.join().unwrap());
    server.join().unwrap();
    wait_until(|| counters(&mut lab, 0).open == 0);
    let seen = counters(&mut lab, 0);
    assert_eq!((seen.accepted, seen.failed), (u64::from(COUNT), 0));
}

#[test]
fn what_a_sender_may_pile_up_is_bounded_and_none_of_it_is_lost() {
    // 10 s of delay, so that nothing leaves meanwhile.
    let Some(mut lab) = lab(0, 0, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let (near, mut far) = connected(&lab);
    set_delays(&mut lab, 10_000 * MS, 0);
    near.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let bytes = bulk(1, 1 << 16);
    let mut sent = 0;
    while let Ok(length) = (&near).write(&bytes[sent % bytes.len()..]) {
        sent += length;
        assert!(sent < 64 << 20, "nothing holds the sender back");
    }
    assert!(sent > 4 << 20);
    lab.relays[0].obey(RelayOrder::Set {
        to: "dc2".into(),
        conditions: Conditions::delay(0),
        flush: true,
    });
    let heard = read_exactly(&mut far, sent);
    assert!(heard.chunks(bytes.len()).all(|chunk| *chunk == bytes[..chunk.len()]));
}
