//! Round trips on loopback, with far ends that answer, are silent, late, strange or gone.

use super::*;
use crate::beacon::Ears;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

fn v4(address: SocketAddr) -> SocketAddrV4 {
    let SocketAddr::V4(address) = address else {
        unreachable!("bound to a v4 address")
    };
    address
}

fn bound() -> (UdpSocket, SocketAddrV4) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = v4(socket.local_addr().unwrap());
    (socket, address)
}

fn listening() -> (TcpListener, SocketAddrV4) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = v4(listener.local_addr().unwrap());
    (listener, address)
}

/// Far ends of both kinds, as every probe has them.
fn responder(transport: Transport) -> SocketAddrV4 {
    match transport {
        Transport::Udp => {
            let (socket, target) = bound();
            thread::spawn(move || responder::answer_datagrams(&socket, &Ears::default()));
            target
        }
        Transport::Tcp => {
            let (listener, target) = listening();
            thread::spawn(move || responder::answer_connections(&listener));
            target
        }
    }
}

fn echo(target: SocketAddrV4, transport: Transport) -> Echo {
    Echo {
        target,
        transport,
        warmup: 2,
        count: 5,
        pause_ns: 0,
        timeout: Duration::from_millis(500),
    }
}

fn run(order: Echo) -> (Vec<Sample>, Vec<wire::Failure>, Option<bool>) {
    match order.run(&Stop::default()) {
        Ok(ProbeAnswer::Samples {
            samples,
            failures,
            nodelay,
        }) => (samples, failures, nodelay),
        other => panic!("{other:?}"),
    }
}

fn times(failures: &[wire::Failure]) -> u32 {
    failures.iter().map(|failure| failure.times).sum()
}

#[test]
fn the_far_stamp_lies_between_sending_and_receiving() {
    for (transport, nodelay) in [(Transport::Udp, None), (Transport::Tcp, Some(true))] {
        let (samples, failures, seen) = run(echo(responder(transport), transport));
        assert_eq!((failures, seen), (vec![], nodelay));
        assert_eq!(samples.len(), 5);
        for sample in samples {
            let far = u64::try_from(sample.outcome).unwrap();
            assert!(sample.started_ns <= far && far <= sample.ended_ns, "{sample:?}");
        }
    }
}

#[test]
fn a_silent_far_end_is_loss_and_not_a_hang() {
    let (_silent, datagrams) = bound();
    // its kernel accepts, nobody answers
    let (_listener, connections) = listening();
    for (target, transport) in [(datagrams, Transport::Udp), (connections, Transport::Tcp)] {
        let (samples, failures, _) = run(Echo {
            warmup: 0,
            count: 2,
            timeout: Duration::from_millis(5),
            ..echo(target, transport)
        });
        assert_eq!(samples, []);
        assert_eq!(
            failures,
            [wire::Failure {
                cause: "lost: no reply within 5 ms".into(),
                times: 2
            }]
        );
    }
}

#[test]
fn a_late_reply_is_not_taken_for_the_next_one() {
    let (socket, target) = bound();
    thread::spawn(move || {
        let mut buffer = [0; REPLY_BYTES];
        let mut late = None;
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            buffer[REQUEST_BYTES..].copy_from_slice(&clock::now_ns().to_be_bytes());
            // the first reply comes only after the second request, before its own
            let Some(first) = late.replace(buffer) else {
                continue;
            };
            if first != buffer {
                let _ = socket.send_to(&first, from);
            }
            let _ = socket.send_to(&buffer, from);
        }
    });
    late_then_good(target, Transport::Udp);
}

#[test]
fn a_late_reply_on_a_connection_is_skipped_and_the_connection_kept() {
    let (listener, target) = listening();
    thread::spawn(move || {
        let mut accepted = 0;
        for stream in listener.incoming() {
            accepted += 1;
            assert_eq!(accepted, 1, "a late reply breaks nothing");
            let mut stream = stream.unwrap();
            let mut requests = [[0; REPLY_BYTES]; 2];
            for request in &mut requests {
                stream.read_exact(&mut request[..REQUEST_BYTES]).unwrap();
                request[REQUEST_BYTES..].copy_from_slice(&clock::now_ns().to_be_bytes());
            }
            // in pieces, as TCP may deliver
            let both = requests.concat();
            stream.write_all(&both[..30]).unwrap();
            thread::sleep(Duration::from_millis(2));
            stream.write_all(&both[30..]).unwrap();
        }
    });
    late_then_good(target, Transport::Tcp);
}

fn late_then_good(target: SocketAddrV4, transport: Transport) {
    let (samples, failures, _) = run(Echo {
        warmup: 0,
        count: 2,
        // The second reply must be in time on a busy machine too.
        timeout: Duration::from_millis(500),
        ..echo(target, transport)
    });
    assert_eq!(times(&failures), 1);
    assert_eq!(samples.len(), 1);
    assert!(u64::try_from(samples[0].outcome).unwrap() >= samples[0].started_ns);
}

#[test]
fn a_broken_connection_costs_its_round_and_the_next_opens_another() {
    let (listener, target) = listening();
    thread::spawn(move || {
        drop(listener.accept().unwrap());
        responder::answer_connections(&listener);
    });
    let (samples, failures, nodelay) = run(Echo {
        warmup: 0,
        ..echo(target, Transport::Tcp)
    });
    assert_eq!(
        (samples.len(), times(&failures), nodelay),
        (4, 1, Some(true)),
        "{failures:?}"
    );
}

#[test]
fn nobody_there_is_said_for_each_round() {
    let (listener, target) = listening();
    drop(listener);
    let (samples, failures, nodelay) = run(Echo {
        warmup: 0,
        ..echo(target, Transport::Tcp)
    });
    assert_eq!((samples.len(), times(&failures), nodelay), (0, 5, None));
    assert!(failures[0].cause.contains("refused"), "{failures:?}");
}

#[test]
fn strangers_are_not_answered() {
    let target = responder(Transport::Udp);
    let (stranger, _) = bound();
    stranger.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stranger.send_to(b"hello", target).unwrap();
    stranger.send_to(&[0; REQUEST_BYTES], target).unwrap();
    assert!(stranger.recv(&mut [0; 64]).is_err());
    let mut stranger = TcpStream::connect(responder(Transport::Tcp)).unwrap();
    stranger.write_all(&[0; REQUEST_BYTES]).unwrap();
    assert_eq!(stranger.read(&mut [0; 64]).unwrap(), 0, "closed without a word");
}

#[test]
fn more_connections_than_allowed_are_closed() {
    let target = responder(Transport::Tcp);
    let mut streams: Vec<TcpStream> = (0..=64).map(|_| TcpStream::connect(target).unwrap()).collect();
    assert_eq!(streams.pop().unwrap().read(&mut [0; 64]).unwrap(), 0);
    drop(streams);
    // places become free as the far end notices; each round tries again
    let (samples, ..) = run(Echo {
        warmup: 0,
        count: 100,
        pause_ns: 10_000_000,
        ..echo(target, Transport::Tcp)
    });
    assert!(!samples.is_empty());
}

#[test]
fn an_ended_order_says_what_it_left_out() {
    let stop = Stop::default();
    stop.set();
    let order = echo(responder(Transport::Udp), Transport::Udp);
    let Ok(ProbeAnswer::Samples { samples, failures, .. }) = order.run(&stop) else {
        panic!("no samples")
    };
    assert_eq!((samples.len(), times(&failures)), (0, 5));
}
