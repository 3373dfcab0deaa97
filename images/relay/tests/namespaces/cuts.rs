//! Cuts of a real link, seen by the sockets of the nodes: what TCP prescribes for silence and for resets.

use super::lab::{Lab, node, set};
use super::{MS, PORT, connect, pair, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use wire::{CutKind, Defect, Path, RelayOrder, StreamSettings};

const SOON: Duration = Duration::from_secs(5);

fn cut(kind: CutKind) -> impl Fn(String) -> RelayOrder {
    move |to| RelayOrder::Cut { to, kind }
}

fn heal(to: String) -> RelayOrder {
    RelayOrder::Heal { to }
}

/// The next read of `stream` ends with a reset, and soon.
fn assert_reset(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut buffer = [0; 65_536];
    let error = loop {
        match stream.read(&mut buffer) {
            Ok(0) => panic!("the connection was closed in order"),
            Ok(_) => {}
            Err(error) => break error.kind(),
        }
    };
    assert_eq!(error, ErrorKind::ConnectionReset);
}

/// What comes of dialling from one datacenter to the other.
fn dial(lab: &Lab, from: u8) -> Result<TcpStream, ErrorKind> {
    let to = SocketAddrV4::new(node(3 - from), PORT).into();
    lab.at_node(from, || TcpStream::connect_timeout(&to, SOON))
        .map_err(|error| error.kind())
}

#[test]
fn a_reset_cut_resets_both_ends_refuses_new_connections_and_heals() {
    let Some(mut lab) = Lab::build(5 * MS) else { return };
    let (mut near, mut far) = connect(&lab);
    near.write_all(b"ping").unwrap();
    far.read_exact(&mut [0; 4]).unwrap();
    far.write_all(b"pong").unwrap();
    near.read_exact(&mut [0; 4]).unwrap();
    lab.obey_both(cut(CutKind::Reset));
    assert_reset(&mut near);
    assert_reset(&mut far);
    let begin = Instant::now();
    assert_eq!(dial(&lab, 1).err(), Some(ErrorKind::ConnectionRefused));
    assert_eq!(dial(&lab, 2).err(), Some(ErrorKind::ConnectionRefused));
    assert!(begin.elapsed() < Duration::from_secs(1), "refused, but not at once");
    for relay in &mut lab.relays {
        assert!(relay.link().counters.resets > 0);
    }
    lab.obey_both(heal);
    let (mut near, mut far) = connect(&lab);
    near.write_all(b"ping").unwrap();
    far.read_exact(&mut [0; 4]).unwrap();
}

#[test]
fn an_idle_connection_is_reset_without_a_packet_of_its_own() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let (mut near, mut far) = connect(&lab);
    // Nothing but the handshake crossed the link, and its last packet has arrived.
    wait_until(|| lab.relays[0].link().counters.forwarded_packets == 2);
    lab.relays[0].obey(cut(CutKind::Reset)("dc2".into()));
    assert_reset(&mut near);
    assert_reset(&mut far);
    assert_eq!(lab.relays[0].link().counters.resets, 2);
}

#[test]
fn one_direction_is_enough_to_reset_connections_and_to_refuse_them_from_both_sides() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let (mut near, mut far) = connect(&lab);
    let listener = lab.at_node(1, || std::net::TcpListener::bind((node(1), PORT)).unwrap());
    lab.relays[0].obey(cut(CutKind::Reset)("dc2".into()));
    assert_reset(&mut near);
    assert_reset(&mut far);
    assert_eq!(dial(&lab, 1).err(), Some(ErrorKind::ConnectionRefused));
    // The first segment arrives, its answer does not: the relay refuses in its place.
    assert_eq!(dial(&lab, 2).err(), Some(ErrorKind::ConnectionRefused));
    drop(listener);
}

#[test]
fn bulk_data_in_both_directions_is_reset_in_mid_flight() {
    let Some(mut lab) = Lab::build(10 * MS) else { return };
    for _ in 0..5 {
        let (near, far) = connect(&lab);
        let ends = [near, far].map(|stream| thread::spawn(move || busy_until_reset(&stream)));
        let before = lab.relays[0].link().counters.forwarded_bytes;
        wait_until(|| lab.relays[0].link().counters.forwarded_bytes > before + (4 << 20));
        lab.obey_both(cut(CutKind::Reset));
        for end in ends {
            wait_until(|| end.is_finished());
            assert!(end.join().unwrap(), "it ended without a reset");
        }
        lab.obey_both(heal);
    }
}

/// Read and write as much as possible until both fail; returns whether a reset was the reason. The kernel tells it once, to
/// whoever asks first.
fn busy_until_reset(stream: &TcpStream) -> bool {
    let reset = |error: std::io::Error| error.kind() == ErrorKind::ConnectionReset;
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            loop {
                if let Err(error) = { stream }.write_all(&[7; 65_536]) {
                    return reset(error);
                }
            }
        });
        let mut buffer = [0; 65_536];
        let read = loop {
            match { stream }.read(&mut buffer) {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => break reset(error),
            }
        };
        writer.join().unwrap() || read
    })
}

#[test]
fn a_silent_cut_is_bridged_by_retransmission_after_the_heal() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let (mut near, mut far) = connect(&lab);
    lab.obey_both(cut(CutKind::Drop));
    near.write_all(b"late but complete").unwrap();
    wait_until(|| lab.relays[0].link().counters.dropped_cut >= 2);
    far.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert_eq!(far.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    lab.obey_both(heal);
    let mut buffer = [0; 17];
    far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    far.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"late but complete");
    assert_eq!(lab.relays[0].link().counters.resets, 0);
}

#[test]
fn a_cut_of_a_port_silences_its_connections_and_nothing_else_and_needs_packet_mode() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let ports = |kind, ports: &[u16]| RelayOrder::CutPorts {
        to: "dc2".into(),
        kind,
        ports: ports.to_vec(),
    };
    let (mut near, mut far) = connect(&lab);
    let (here, there) = pair(&lab);
    lab.relays[0].obey(ports(CutKind::Drop, &[PORT]));
    near.write_all(b"late but complete").unwrap();
    wait_until(|| lab.relays[0].link().counters.dropped_ports >= 2);
    here.send(b"a datagram").unwrap();
    there.recv(&mut [0; 16]).expect("it is of no connection");
    for path in [Path::Kernel, Path::Stream(StreamSettings::default())] {
        let refusal = lab.relays[0].ask(RelayOrder::SetPath { path }).unwrap_err();
        assert!(refusal.contains("in packet mode only"), "{refusal}");
    }
    lab.relays[0].obey(heal("dc2".into()));
    far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut buffer = [0; 17];
    far.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"late but complete");
    let link = lab.relays[0].link();
    assert_eq!((link.counters.dropped_cut, link.counters.resets), (0, 0));
    // Both ends are told, and only by a reset.
    lab.relays[0].obey(ports(CutKind::Reset, &[PORT]));
    assert_reset(&mut near);
    assert_reset(&mut far);
    assert_eq!(dial(&lab, 1).err(), Some(ErrorKind::ConnectionRefused));
    let refusal = lab.relays[0].ask(ports(CutKind::Close, &[PORT])).unwrap_err();
    assert!(refusal.contains("`drop` or `reset`"), "{refusal}");
    lab.relays[0].obey(heal("dc2".into()));
    lab.relays[0].obey(RelayOrder::SetPath { path: Path::Kernel });
    let refusal = lab.relays[0].ask(ports(CutKind::Drop, &[PORT])).unwrap_err();
    assert!(refusal.contains("in packet mode only"), "{refusal}");
}

#[test]
fn who_dials_into_a_silent_cut_gets_no_answer() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let (_near, _far) = connect(&lab);
    lab.relays[0].obey(cut(CutKind::Drop)("dc2".into()));
    let to = SocketAddrV4::new(node(2), PORT).into();
    let result = lab.at_node(1, || TcpStream::connect_timeout(&to, Duration::from_millis(300)));
    assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::TimedOut));
}

#[test]
fn an_orderly_end_is_refused_where_connections_are_not_terminated() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let refusal = lab.relays[0].ask(cut(CutKind::Close)("dc2".into())).unwrap_err();
    assert!(refusal.contains("needs stream mode"), "{refusal}");
    assert_eq!(lab.relays[0].link().cut, None);
}

#[test]
fn a_leaky_cut_lets_pass_what_its_counters_say_is_destroyed() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let (near, far) = pair(&lab);
    let sabotage = |defect| RelayOrder::Sabotage {
        to: "dc2".into(),
        defect,
    };
    lab.relays[0].obey(sabotage(Some(Defect::LeakyCut)));
    lab.obey_both(cut(CutKind::Drop));
    near.send(b"leaks").unwrap();
    far.recv(&mut [0; 16]).expect("it leaks");
    let link = lab.relays[0].link();
    assert_eq!((link.cut, link.counters.dropped_cut), (Some(CutKind::Drop), 1));
    assert_eq!(link.counters.forwarded_packets, 0);
}

#[test]
fn a_hidden_delay_is_felt_and_not_said() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let (near, far) = pair(&lab);
    let delay_ns = 100 * MS;
    let sabotage = |defect| RelayOrder::Sabotage {
        to: "dc2".into(),
        defect,
    };
    let trip = |lab: &mut Lab, defect| {
        lab.relays[0].obey(sabotage(defect));
        let begin = Instant::now();
        near.send(b"?").unwrap();
        far.recv(&mut [0; 16]).expect("it arrives");
        begin.elapsed()
    };
    assert!(trip(&mut lab, Some(Defect::ExtraDelay { delay_ns })) >= Duration::from_millis(101));
    let link = lab.relays[0].link();
    assert_eq!(link.conditions.delay_ns, MS);
    assert!(link.counters.lateness_max_ns < 100 * MS, "the state gives it away");
    lab.relays[0].obey(set("dc2".into(), 10_000 * MS));
    assert!(trip(&mut lab, Some(Defect::NoDelay)) < Duration::from_secs(5));
}
