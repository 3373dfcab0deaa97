//! Stream mode beside the other paths: what it leaves alone, how it begins and ends, and what it refuses.

use super::super::lab::{Lab, Relay, config, node, set};
use super::super::{MS, assert_silent, connect, pair, shortest_round_trip};
use super::{PORT, accept, connected, counters, dial, lab, listener, ping_pongs, shortest_flight, stream};
use relay::stream::socket::{self, Network};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;
use wire::{Conditions, CutKind, Jitter, JitterShape, Mirror, Nodelay, Path, RelayOrder, StreamOrder, StreamSettings};

fn refusal(relay: &mut Relay, order: &RelayOrder) -> String {
    let order = serde_json::to_string(order).unwrap();
    relay.say(&format!("{{\"id\":77,\"order\":{order}}}"));
    let answer = relay.hear();
    assert_eq!(answer.id, 77);
    answer.result.unwrap_err()
}

#[test]
fn everything_but_tcp_to_the_ports_still_goes_through_the_tun_device() {
    let Some(mut lab) = lab(10 * MS, 10 * MS, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    assert!(shortest_round_trip(&lab, 3) >= Duration::from_millis(20));
    for relay in &mut lab.relays {
        assert_eq!(relay.link().counters.arrived_packets, 3);
    }
    // Another port, also through a change of the path.
    let (mut near, mut far) = connect(&lab);
    ping_pongs(&mut near, &mut far, 1);
    for order in [
        RelayOrder::SetPath { path: Path::Tun },
        stream(StreamOrder::Pipelined, Nodelay::On),
    ] {
        lab.obey_both(|_| order.clone());
        ping_pongs(&mut near, &mut far, 1);
    }
    assert_eq!(counters(&mut lab, 0).accepted, 0);
    assert!(lab.relays[0].link().counters.arrived_packets > 4);
}

#[test]
fn the_path_changes_live_and_terminated_connections_end_with_it() {
    let Some(mut lab) = lab(2 * MS, 2 * MS, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let (mut near, mut far) = connected(&lab);
    ping_pongs(&mut near, &mut far, 2);
    // Other settings leave it alone.
    lab.obey_both(|_| stream(StreamOrder::Serialising, Nodelay::Off));
    ping_pongs(&mut near, &mut far, 2);
    for path in [Path::Tun, Path::Kernel] {
        lab.obey_both(|_| RelayOrder::SetPath { path });
        for end in [&mut near, &mut far] {
            let kind = end.read(&mut [0; 1]).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::ConnectionReset);
        }
        drop(far);
        // In packet mode a connection is end to end, and what stream mode finds there it does not know.
        (near, far) = connected(&lab);
        let accepted = counters(&mut lab, 0).accepted;
        ping_pongs(&mut near, &mut far, 2);
        assert_eq!(counters(&mut lab, 0).accepted, accepted);
        lab.obey_both(|_| stream(StreamOrder::Pipelined, Nodelay::On));
        if path == Path::Tun {
            // Without a word of it: the far one would otherwise wait for ever.
            assert_eq!(far.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        } else {
            near.write_all(b"?").unwrap();
        }
        let kind = near.read(&mut [0; 1]).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::ConnectionReset);
        drop(far);
        (near, far) = connected(&lab);
        ping_pongs(&mut near, &mut far, 2);
        let seen = counters(&mut lab, 0);
        assert_eq!((seen.accepted, seen.open), (accepted + 1, 1));
    }
}

#[test]
fn nothing_passes_when_a_relay_in_stream_mode_is_killed() {
    let Some(mut lab) = lab(0, 0, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let listener = listener(&lab);
    let mut near = dial(&lab);
    let mut far = accept(&listener);
    ping_pongs(&mut near, &mut far, 2);
    let opposite = lab.at_node(1, || TcpListener::bind((node(1), PORT)).unwrap());
    let (other, udp) = pair(&lab);
    lab.relays[0].signal("KILL");
    lab.relays[0].child.wait().unwrap();
    let _ = near.write_all(b"lost");
    far.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(!matches!(far.read(&mut [0; 4]), Ok(1..)), "bytes came through");
    other.send(b"lost").unwrap();
    assert_silent(&udp, Duration::from_millis(100));
    let again = || TcpStream::connect_timeout(&(node(2), PORT).into(), Duration::from_millis(300));
    let dialled = lab.at_node(1, again).map_err(|error| error.kind()).unwrap_err();
    assert_eq!(dialled, ErrorKind::TimedOut);
    // What the living relay terminates must not get through the dead one either.
    let mut near = lab.at_node(2, || TcpStream::connect((node(1), PORT)).unwrap());
    near.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(near.read(&mut [0; 1]).is_err());
    opposite.set_nonblocking(true).unwrap();
    assert!(opposite.accept().is_err(), "it was reached through the dead relay");
}

#[test]
fn a_new_relay_takes_over_the_namespace_of_one_killed_in_stream_mode_and_may_begin_in_it() {
    let Some(mut lab) = lab(0, 0, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    for path in [
        Path::Tun,
        Path::Stream(StreamSettings {
            order: StreamOrder::Pipelined,
            nodelay: Nodelay::FarLeg,
        }),
    ] {
        for relay in 0..2u8 {
            let old = &mut lab.relays[usize::from(relay)];
            old.signal("KILL");
            old.child.wait().unwrap();
            let space = lab.space(&format!("relay{}", relay + 1));
            let config = wire::RelayConfig {
                path,
                ..config(relay + 1, 5 * MS)
            };
            lab.relays[usize::from(relay)] = Relay::start(&space, &config);
            lab.relays[usize::from(relay)].obey(RelayOrder::Show);
        }
        let (mut near, mut far) = connected(&lab);
        assert!(shortest_flight(&mut near, &mut far, 3) >= Duration::from_millis(5));
        assert!(shortest_flight(&mut far, &mut near, 3) >= Duration::from_millis(5));
        let seen = lab.relays[0].obey(RelayOrder::Show);
        assert_eq!(seen.path, path);
        let stream = seen
            .stream
            .map(|stream| (stream.open, stream.nodelay_near, stream.nodelay_far));
        let expected = matches!(path, Path::Stream(_)).then_some((1, Some(false), Some(true)));
        assert_eq!(stream, expected);
    }
}

#[test]
fn the_relays_own_addresses_answer_nobody_in_stream_mode() {
    let Some(lab) = lab(0, 0, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    for place in [
        "198.18.1.1",
        "198.18.1.2",
        "198.18.2.1",
        "198.18.2.2",
        "198.18.250.1",
        "198.18.77.7",
    ] {
        let to: SocketAddr = format!("{place}:{PORT}").parse().unwrap();
        let dialled = lab.at_node(1, || TcpStream::connect_timeout(&to, Duration::from_millis(100)));
        let silent = match dialled {
            Err(error) => error.kind() == ErrorKind::TimedOut,
            // An address of the far network is dialled on, and nobody is there.
            Ok(near) => {
                near.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                place.starts_with("198.18.2.") && (&near).read(&mut [0; 1]).is_err()
            }
        };
        assert!(silent, "{place} answered");
    }
}

#[test]
fn what_stream_mode_cannot_do_is_refused_and_said_so() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let jittered = RelayOrder::Set {
        to: "dc2".into(),
        conditions: Conditions {
            jitter: Some(Jitter {
                shape: JitterShape::Uniform { spread_ns: 1 },
                reorder: false,
            }),
            ..Conditions::delay(MS)
        },
        flush: false,
    };
    let limited = RelayOrder::Set {
        to: "dc2".into(),
        conditions: Conditions {
            rate_bits_per_s: Some(1_000_000),
            ..Conditions::delay(MS)
        },
        flush: false,
    };
    let closed = RelayOrder::Cut {
        to: "dc2".into(),
        kind: CutKind::Close,
    };
    let mode = stream(StreamOrder::Pipelined, Nodelay::On);
    let relay = &mut lab.relays[0];
    assert!(refusal(relay, &closed).contains("needs stream mode"));
    relay.obey(limited.clone());
    let text = "in stream mode a link has a constant delay at the default rate and no other condition; \
                that to `dc2` would have one";
    assert_eq!(refusal(relay, &mode), text);
    assert_eq!(relay.obey(RelayOrder::Show).path, Path::Tun);
    relay.obey(set("dc2".into(), 0));
    relay.obey(mode);
    for order in [jittered, limited] {
        assert_eq!(refusal(relay, &order), text);
    }
    let stranger = RelayOrder::Mirror {
        to: "dc9".into(),
        mirror: Mirror::default(),
    };
    assert_eq!(
        refusal(relay, &stranger),
        "no link leads to `dc9`; the links lead to: dc2"
    );
    relay.obey(closed);
    let away = RelayOrder::SetPath { path: Path::Tun };
    assert!(refusal(relay, &away).contains("needs stream mode"));
    relay.obey(RelayOrder::Heal { to: "dc2".into() });
    relay.obey(away);
}

#[test]
fn one_node_dials_two_ports_from_one_of_its_own() {
    let Some(lab) = lab(0, 0, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let from = SocketAddr::from((node(1), 45_000));
    let listeners = [PORT, 7007].map(|port| lab.at_node(2, || TcpListener::bind((node(2), port)).unwrap()));
    let dialled = listeners.map(|listener| {
        let near = lab.at_node(1, || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_reuse_address(true).unwrap();
            socket.bind(&from.into()).unwrap();
            socket.connect(&listener.local_addr().unwrap().into()).unwrap();
            TcpStream::from(socket)
        });
        (near, accept(&listener))
    });
    for (mut near, mut far) in dialled {
        assert_eq!(far.peer_addr().unwrap(), from);
        ping_pongs(&mut near, &mut far, 1);
    }
}

#[test]
fn a_port_that_is_taken_is_replaced_and_a_listener_hears_only_the_networks_it_attends_to() {
    let Some(lab) = lab(0, 0, StreamOrder::Pipelined, Nodelay::On) else {
        return;
    };
    let local = |host: u8| Ipv4Addr::new(127, 0, 0, host);
    let one = |host| Network::new(local(host), 32);
    lab.at_node(1, || {
        let listener = socket::listen(7100, &[one(2), one(3)]).unwrap();
        let dial = |host| TcpStream::connect_timeout(&(local(host), 7100).into(), Duration::from_millis(100));
        assert!(dial(2).is_ok() && dial(3).is_ok());
        assert_eq!(dial(4).unwrap_err().kind(), ErrorKind::TimedOut);
        socket::attend_to(&listener, &[one(4)]).unwrap();
        assert!(dial(4).is_ok());
        assert_eq!(dial(2).unwrap_err().kind(), ErrorKind::TimedOut);

        let taken = TcpListener::bind((local(9), 0)).unwrap();
        let Ok(SocketAddr::V4(from)) = taken.local_addr() else {
            unreachable!()
        };
        let dialled = socket::dial(from, SocketAddrV4::new(local(4), 7100), false).unwrap();
        let seen = dialled.local_addr().unwrap().as_socket_ipv4().unwrap();
        assert_eq!(seen.ip(), from.ip());
        assert_ne!(seen.port(), from.port());
    });
}
