//! Cuts and freezes of stream mode, seen at both ends.

use super::super::lab::Lab;
use super::super::{MS, wait_until};
use super::{
    PORT, accept, connected, counters, dial, lab, listener, mirror, node, ping_pongs, read_exactly, shortest_flight,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use wire::{CutKind, Defect, Mirror, Nodelay, RelayOrder, StreamOrder};

const DELAY: u64 = 20 * MS;

fn pipelined() -> Option<Lab> {
    lab(DELAY, DELAY, StreamOrder::Pipelined, Nodelay::On)
}

fn cut_out(lab: &mut Lab, kind: CutKind) {
    lab.relays[0].obey(RelayOrder::Cut { to: "dc2".into(), kind });
}

fn heal_out(lab: &mut Lab) {
    lab.relays[0].obey(RelayOrder::Heal { to: "dc2".into() });
}

/// The state of the direction from datacenter 2 to 1, as the relay of 1 is told.
fn back(lab: &mut Lab, cut: Option<CutKind>, frozen: bool) {
    let state = Mirror {
        delay_ns: DELAY,
        cut,
        frozen,
    };
    mirror(lab, 0, state);
}

fn end_of(socket: &mut TcpStream) -> Result<usize, ErrorKind> {
    socket.read(&mut [0; 64]).map_err(|error| error.kind())
}

fn hears_nothing(socket: &mut TcpStream, span_ms: u64) -> bool {
    socket.set_read_timeout(Some(Duration::from_millis(span_ms))).unwrap();
    let heard = end_of(socket);
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    heard == Err(ErrorKind::WouldBlock)
}

fn redial(lab: &Lab, limit_ms: u64) -> Result<TcpStream, ErrorKind> {
    let dial = || TcpStream::connect_timeout(&(node(2), PORT).into(), Duration::from_millis(limit_ms));
    lab.at_node(1, dial).map_err(|error| error.kind())
}

#[test]
fn a_close_or_reset_ends_both_legs_so_destroys_what_is_in_flight_and_refuses_who_dials() {
    for (kind, end) in [
        (CutKind::Close, Ok(0)),
        (CutKind::Reset, Err(ErrorKind::ConnectionReset)),
    ] {
        for by_mirror in [false, true] {
            let Some(mut lab) = pipelined() else { return };
            let (mut near, mut far) = connected(&lab);
            ping_pongs(&mut near, &mut far, 1);
            near.write_all(b"in flight").unwrap();
            far.write_all(b"in flight").unwrap();
            if by_mirror {
                back(&mut lab, Some(kind), false);
            } else {
                cut_out(&mut lab, kind);
            }
            assert_eq!((end_of(&mut near), end_of(&mut far)), (end, end), "{kind:?}");
            let seen = counters(&mut lab, 0);
            assert_eq!((seen.cut, seen.open), (1, 0));
            // The reset may come before or after the dial is said to have succeeded.
            let refused = redial(&lab, 1000).and_then(|mut near| end_of(&mut near));
            assert_eq!(refused, Err(ErrorKind::ConnectionReset));
            assert_eq!(counters(&mut lab, 0).cut, 2);
            if by_mirror {
                back(&mut lab, None, false);
            } else {
                heal_out(&mut lab);
            }
            drop(far);
            let (mut near, mut far) = connected(&lab);
            ping_pongs(&mut near, &mut far, 1);
        }
    }
}

#[test]
fn a_drop_is_silence_at_both_ends_until_the_heal_resets_the_connection() {
    let Some(mut lab) = pipelined() else { return };
    let (mut near, mut far) = connected(&lab);
    ping_pongs(&mut near, &mut far, 1);
    near.write_all(b"in flight").unwrap();
    far.write_all(b"in flight").unwrap();
    cut_out(&mut lab, CutKind::Drop);
    back(&mut lab, Some(CutKind::Drop), false);
    near.write_all(b"lost").unwrap();
    far.write_all(b"lost").unwrap();
    assert!(hears_nothing(&mut near, 100) && hears_nothing(&mut far, 100));
    assert_eq!(unacknowledged(&near), 1, "what is lost must not be acknowledged");
    assert_eq!(redial(&lab, 300).err(), Some(ErrorKind::TimedOut));
    assert_eq!(counters(&mut lab, 0).open, 1);
    heal_out(&mut lab);
    back(&mut lab, None, false);
    let reset = Err(ErrorKind::ConnectionReset);
    assert_eq!((end_of(&mut near), end_of(&mut far)), (reset, reset));
    assert_eq!((counters(&mut lab, 0).cut, counters(&mut lab, 0).open), (1, 0));
    drop(far);
    let (mut near, mut far) = connected(&lab);
    ping_pongs(&mut near, &mut far, 1);
}

/// Segments that the peer's kernel has not acknowledged.
fn unacknowledged(socket: &TcpStream) -> u32 {
    // `struct tcp_info` begins with 8 bytes, then 32-bit words, of which tcpi_unacked is the fifth.
    use std::os::fd::AsRawFd;
    let mut words = [0u32; 16];
    let mut length = u32::try_from(size_of_val(&words)).unwrap();
    // SAFETY: the kernel writes at most `length` bytes to `words`, and both live through the call.
    #[allow(unsafe_code, reason = "neither std nor socket2 knows TCP_INFO")]
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0);
    words[2 + 4]
}

#[test]
fn a_drop_of_one_direction_leaves_the_other_its_bytes() {
    let Some(mut lab) = pipelined() else { return };
    let (mut near, mut far) = connected(&lab);
    ping_pongs(&mut near, &mut far, 1);
    cut_out(&mut lab, CutKind::Drop);
    near.write_all(b"lost").unwrap();
    far.write_all(b"seen").unwrap();
    assert_eq!(read_exactly(&mut near, 4), b"seen");
    assert!(hears_nothing(&mut far, 100));
    heal_out(&mut lab);
    assert_eq!(end_of(&mut near), Err(ErrorKind::ConnectionReset));
    // The same the other way round, with a connection that is made while the cut lasts.
    drop(far);
    back(&mut lab, Some(CutKind::Drop), false);
    assert_eq!(redial(&lab, 300).err(), Some(ErrorKind::TimedOut));
}

#[test]
fn a_freeze_holds_everything_and_loses_nothing() {
    let Some(mut lab) = pipelined() else { return };
    for by_mirror in [false, true] {
        let (near, far) = connected(&lab);
        let (mut from, mut to) = if by_mirror { (far, near) } else { (near, far) };
        if by_mirror {
            back(&mut lab, None, true);
        } else {
            lab.relays[0].obey(RelayOrder::Freeze { to: "dc2".into() });
        }
        from.write_all(b"late").unwrap();
        assert!(hears_nothing(&mut to, 100));
        to.write_all(b"other way").unwrap();
        assert_eq!(read_exactly(&mut from, 9), b"other way");
        from.write_all(b" and in order").unwrap();
        drop(from);
        if by_mirror {
            back(&mut lab, None, false);
        } else {
            lab.relays[0].obey(RelayOrder::Thaw { to: "dc2".into() });
        }
        let mut heard = Vec::new();
        to.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"late and in order");
        drop(to);
        wait_until(|| counters(&mut lab, 0).open == 0);
        assert_eq!(counters(&mut lab, 0).cut, 0);
    }
}

#[test]
fn who_dials_into_a_freeze_is_put_through_at_the_thaw() {
    let Some(mut lab) = pipelined() else { return };
    let listener: TcpListener = listener(&lab);
    lab.relays[0].obey(RelayOrder::Freeze { to: "dc2".into() });
    let mut near = dial(&lab);
    near.write_all(b"hello").unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::sleep(Duration::from_millis(100));
    assert!(listener.accept().is_err());
    listener.set_nonblocking(false).unwrap();
    lab.relays[0].obey(RelayOrder::Thaw { to: "dc2".into() });
    assert_eq!(read_exactly(&mut accept(&listener), 5), b"hello");
}

#[test]
fn a_close_after_a_drop_ends_what_the_drop_had_left() {
    let Some(mut lab) = pipelined() else { return };
    let (mut near, mut far) = connected(&lab);
    cut_out(&mut lab, CutKind::Drop);
    let begin = Instant::now();
    cut_out(&mut lab, CutKind::Close);
    assert!(end_of(&mut near).is_err() || begin.elapsed() < Duration::from_secs(5));
    assert_ne!(end_of(&mut far), Err(ErrorKind::WouldBlock));
    assert_eq!(counters(&mut lab, 0).open, 0);
}

#[test]
fn a_defect_on_purpose_is_felt_and_not_shown() {
    let Some(mut lab) = pipelined() else { return };
    let (mut near, mut far) = connected(&lab);
    let mut spoil = |lab: &mut Lab, defect| {
        let to = "dc2".into();
        let link = lab.relays[0].obey(RelayOrder::Sabotage { to, defect }).links.remove(0);
        assert_eq!((link.conditions.delay_ns, link.cut), (DELAY, None));
        let flight = shortest_flight(&mut near, &mut far, 5);
        assert!(shortest_flight(&mut far, &mut near, 5) >= Duration::from_nanos(DELAY));
        flight
    };
    let extra = Defect::ExtraDelay { delay_ns: 30 * MS };
    assert!(spoil(&mut lab, Some(extra)) >= Duration::from_millis(50));
    assert!(spoil(&mut lab, Some(Defect::NoDelay)) < Duration::from_millis(20));
    assert!(spoil(&mut lab, None) >= Duration::from_millis(20));
    lab.relays[0].obey(RelayOrder::Sabotage {
        to: "dc2".into(),
        defect: Some(Defect::LeakyCut),
    });
    cut_out(&mut lab, CutKind::Drop);
    shortest_flight(&mut near, &mut far, 1);
}

#[test]
fn a_receiver_or_a_freeze_that_holds_bytes_up_makes_no_lateness() {
    let Some(mut lab) = pipelined() else { return };
    let (mut near, mut far) = connected(&lab);
    let to = || "dc2".to_owned();
    lab.relays[0].obey(RelayOrder::Freeze { to: to() });
    near.write_all(b"late").unwrap();
    thread::sleep(Duration::from_millis(300));
    lab.relays[0].obey(RelayOrder::Thaw { to: to() });
    read_exactly(&mut far, 4);
    // More than the receiver's buffers take while it does not read.
    let bytes = vec![7; 24 << 20];
    let sent = bytes.len();
    let sender = thread::spawn(move || near.write_all(&bytes).map(|()| near));
    thread::sleep(Duration::from_millis(500));
    read_exactly(&mut far, sent);
    sender.join().unwrap().unwrap();
    let seen = counters(&mut lab, 0);
    assert!(seen.lateness_max_ns < 200 * MS, "{seen:?}");
    assert!(seen.lateness_sum_ns > 0 && seen.late <= seen.portions, "{seen:?}");
}
