//! Conditions per packet of a real link, seen by the sockets of the nodes: loss, doubling, corruption, reordering, MTU.

use super::lab::Lab;
use super::{MS, assert_bulk_arrives_whole, pair, wait_until};
use std::fs;
use std::net::UdpSocket;
use std::time::Duration;
use wire::{Conditions, Jitter, JitterShape, LinkCounters, Loss, RelayOrder, Reorder};

/// One in a hundred.
const PERCENT: u32 = 10_000;

fn set(lab: &mut Lab, conditions: Conditions) {
    let to = "dc2".into();
    lab.relays[0].obey(RelayOrder::Set {
        to,
        conditions,
        flush: false,
    });
}

fn counters(lab: &mut Lab) -> LinkCounters {
    lab.relays[0].link().counters
}

/// TCP segments with a wrong checksum that the node of datacenter 2 received.
fn wrong_checksums(lab: &Lab) -> u64 {
    let text = lab.at_node(2, || fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let column = names.split(' ').position(|name| name == "InCsumErrors").unwrap();
    values.split(' ').nth(column).unwrap().parse().unwrap()
}

/// Everything that arrived is accounted for; the transfer is over, yet an acknowledgement may still be held.
fn assert_conserved(counters: &LinkCounters) {
    let dropped = counters.dropped_loss + counters.dropped_mtu + counters.dropped_rate + counters.dropped_write;
    assert_eq!(
        counters.arrived_packets + counters.duplicated,
        counters.forwarded_packets + counters.held_packets + dropped,
        "{counters:?}"
    );
}

#[test]
fn packets_split_by_the_relay_are_taken_by_tcp_as_if_the_kernel_had_split_them() {
    let Some(mut lab) = Lab::build(MS) else { return };
    // Wide enough for all: the unit is the packet and nothing else changes.
    let mtu = Some(1500);
    set(
        &mut lab,
        Conditions {
            mtu,
            ..Conditions::delay(MS)
        },
    );
    assert_bulk_arrives_whole(&mut lab, 200, |_| {});
    let counters = counters(&mut lab);
    assert_conserved(&counters);
    assert_eq!((counters.dropped_mtu, wrong_checksums(&lab)), (0, 0));
    // 13 MB in packets of at most 1500 bytes.
    assert!(counters.arrived_packets > 8_700, "{counters:?}");
}

#[test]
fn datagrams_sent_as_a_burst_arrive_one_by_one() {
    let Some(mut lab) = Lab::build(0) else { return };
    let mtu = Some(1500);
    set(
        &mut lab,
        Conditions {
            mtu,
            ..Conditions::delay(0)
        },
    );
    let (near, far) = pair(&lab);
    send_burst(&near, &[7; 2500], 1000);
    for expected in [1000, 1000, 500] {
        assert_eq!(far.recv(&mut [0; 4000]).unwrap(), expected);
    }
    assert_eq!(counters(&mut lab).arrived_packets, 3);
}

/// One call that hands the kernel several datagrams of `size` bytes.
fn send_burst(socket: &UdpSocket, bytes: &[u8], size: u32) {
    use std::os::fd::AsRawFd;
    const UDP_SEGMENT: libc::c_int = 103;
    // SAFETY: the kernel reads four bytes of `size`, which lives through the call; the descriptor is open.
    #[allow(unsafe_code, reason = "std has no such option")]
    let result = unsafe {
        let value = (&raw const size).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, UDP_SEGMENT, value, 4)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    socket.send(bytes).unwrap();
}

#[test]
fn tcp_repairs_what_is_lost_doubled_corrupted_and_overtaken() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let before = wrong_checksums(&lab);
    set(
        &mut lab,
        Conditions {
            loss: Some(Loss {
                ppm: PERCENT / 2,
                burst_milli: 2000,
            }),
            duplicate_ppm: PERCENT,
            corrupt_ppm: PERCENT / 2,
            reorder: Some(Reorder {
                ppm: PERCENT,
                by_ns: MS / 2,
            }),
            ..Conditions::delay(MS)
        },
    );
    assert_bulk_arrives_whole(&mut lab, 100, |_| {});
    let counters = counters(&mut lab);
    assert_conserved(&counters);
    let seen = [
        counters.dropped_loss,
        counters.duplicated,
        counters.corrupted,
        counters.reordered,
    ];
    assert!(seen.iter().all(|count| *count > 0), "{counters:?}");
    let wrong = wrong_checksums(&lab) - before;
    assert!(wrong > 0, "{} corrupted, none noticed", counters.corrupted);
    // A flipped bit of a header can send a packet elsewhere, but none is noticed twice, but for doubles.
    assert!(wrong <= counters.corrupted, "{wrong} of {}", counters.corrupted);
}

#[test]
fn the_loss_of_datagrams_is_that_of_the_counters() {
    let Some(mut lab) = Lab::build(0) else { return };
    let loss = Some(Loss {
        ppm: 20 * PERCENT,
        burst_milli: 1000,
    });
    set(
        &mut lab,
        Conditions {
            loss,
            ..Conditions::delay(0)
        },
    );
    let (near, far) = pair(&lab);
    far.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut heard = 0;
    for _ in 0..20 {
        for i in 0..100u32 {
            near.send(&i.to_ne_bytes()).unwrap();
        }
        while far.recv(&mut [0; 4]).is_ok() {
            heard += 1;
            if heard % 100 == 0 {
                break;
            }
        }
    }
    while far.recv(&mut [0; 4]).is_ok() {
        heard += 1;
    }
    let counters = counters(&mut lab);
    assert_eq!(counters.arrived_packets, 2000);
    assert_eq!(heard, 2000 - counters.dropped_loss);
    // Five deviations of 17.9 around 400.
    assert!((310..=490).contains(&counters.dropped_loss), "{counters:?}");
}

/// Numbers of `count` datagrams in the order of their arrival, sent a little apart.
fn order_of_arrival(lab: &Lab, count: u32) -> Vec<u32> {
    let (near, far) = pair(lab);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..count {
                near.send(&i.to_ne_bytes()).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let next = |_| {
            let mut buffer = [0; 4];
            far.recv(&mut buffer).expect("every packet arrives");
            u32::from_ne_bytes(buffer)
        };
        (0..count).map(next).collect()
    })
}

#[test]
fn jitter_keeps_the_order_unless_it_may_not() {
    let Some(mut lab) = Lab::build(0) else { return };
    let jitter = |reorder| Conditions {
        jitter: Some(Jitter {
            shape: JitterShape::Normal { deviation_ns: 2 * MS },
            reorder,
        }),
        ..Conditions::delay(10 * MS)
    };
    set(&mut lab, jitter(false));
    let kept = order_of_arrival(&lab, 500);
    assert!(kept.is_sorted());
    set(&mut lab, jitter(true));
    let mut free = order_of_arrival(&lab, 500);
    assert!(!free.is_sorted());
    free.sort_unstable();
    assert_eq!(free, (0..500).collect::<Vec<_>>());
    assert_eq!(counters(&mut lab).reordered, 0, "nothing was held back");
}

#[test]
fn a_packet_that_is_held_back_is_overtaken_and_no_other() {
    let Some(mut lab) = Lab::build(0) else { return };
    let reorder = Some(Reorder {
        ppm: 10 * PERCENT,
        by_ns: 5 * MS,
    });
    set(
        &mut lab,
        Conditions {
            reorder,
            ..Conditions::delay(MS)
        },
    );
    let seen = order_of_arrival(&lab, 500);
    let held_back = counters(&mut lab).reordered;
    assert!(held_back > 10, "{held_back}");
    // Without those that were overtaken the rest is in order.
    let mut latest = None;
    let late = seen.iter().filter(|number| {
        let overtaken = latest > Some(**number);
        latest = latest.max(Some(**number));
        overtaken
    });
    let late = late.count() as u64;
    assert!((1..=held_back).contains(&late), "{late} of {held_back} held back");
}

#[test]
fn a_small_mtu_is_found_by_tcp_and_by_datagrams() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let mtu = Some(1300);
    set(
        &mut lab,
        Conditions {
            mtu,
            ..Conditions::delay(MS)
        },
    );
    assert_bulk_arrives_whole(&mut lab, 100, |_| {});
    let after_tcp = counters(&mut lab);
    assert_conserved(&after_tcp);
    assert!(after_tcp.dropped_mtu > 0, "{after_tcp:?}");
    // The sender was told early: what was too large is a small part.
    assert!(after_tcp.dropped_mtu < after_tcp.arrived_packets / 10, "{after_tcp:?}");
    // The node knows by now, for all its sockets: it breaks the datagram up before sending it.
    let (near, far) = pair(&lab);
    near.send(&[7; 1400]).unwrap();
    assert_eq!(far.recv(&mut [0; 2000]).unwrap(), 1400);
    assert_eq!(counters(&mut lab).dropped_mtu, after_tcp.dropped_mtu);
}

#[test]
fn the_first_datagram_above_the_mtu_is_lost_and_its_sender_told() {
    let Some(mut lab) = Lab::build(0) else { return };
    let mtu = Some(1300);
    set(
        &mut lab,
        Conditions {
            mtu,
            ..Conditions::delay(0)
        },
    );
    let (near, far) = pair(&lab);
    near.send(&[7; 1400]).unwrap();
    wait_until(|| counters(&mut lab).dropped_mtu == 1);
    // The word comes back as an error of the socket, or the kernel breaks up what follows before anybody asked for it.
    far.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut sent = 1;
    wait_until(|| {
        sent += 1;
        match near.send(&[8; 1400]) {
            Ok(_) => far.recv(&mut [0; 2000]).is_ok_and(|length| length == 1400),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
                false
            }
        }
    });
    assert!(sent < 20, "{sent} datagrams until the sender knew");
}
