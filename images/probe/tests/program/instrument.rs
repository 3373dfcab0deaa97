//! What the probe tells of links, of its host and of itself.

use super::Probe;
use super::servers::{MS, S, load, skipped};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};
use std::time::Duration;
use wire::{Operation, ProbeAnswer, ProbeOrder, Transport};

/// A probe in a network namespace of its own: echoes and beacons need their port, which another test's probe may have.
/// `None` where that is not allowed.
fn alone() -> Option<Probe> {
    let wrapped = |program: &str| {
        let mut command = Command::new("unshare");
        let script = format!("ip link set lo up && exec {program}");
        command.args(["--map-root-user", "--net", "sh", "-c", &script]);
        command
    };
    let allowed = wrapped("true").stderr(Stdio::null()).status();
    allowed
        .is_ok_and(|status| status.success())
        .then(|| Probe::start_by(wrapped(env!("CARGO_BIN_EXE_probe"))))
}

#[test]
fn it_answers_echoes_of_both_kinds_and_hears_its_own_beacons() {
    let Some(mut probe) = alone() else {
        return skipped("no network namespace can be made here");
    };
    let target = Ipv4Addr::LOCALHOST;
    for (transport, expected) in [(Transport::Udp, None), (Transport::Tcp, Some(true))] {
        let answer = probe.ask(ProbeOrder::Echo {
            target,
            transport,
            warmup: 1,
            count: 20,
            pause_ns: 0,
            timeout_ns: 5 * S,
        });
        let Ok(ProbeAnswer::Samples {
            samples,
            failures,
            nodelay,
        }) = answer
        else {
            panic!("{answer:?}")
        };
        assert_eq!((samples.len(), failures, nodelay), (20, vec![], expected));
    }
    let order = probe.send(ProbeOrder::Beacons {
        targets: vec![target],
        interval_ns: MS,
    });
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(probe.ask(ProbeOrder::Stop { order }), Ok(ProbeAnswer::Done));
    let Ok(ProbeAnswer::Beacons { sent, heard }) = probe.answer(order) else {
        panic!("no beacons")
    };
    assert!(heard.len() >= 10, "{} of {}", heard.len(), sent.len());
    // one may still be on its way when the order ends
    assert!(sent.len() - heard.len() <= 1, "{} of {}", heard.len(), sent.len());
    for beacon in heard {
        assert!(sent.contains(&(target, beacon.intended_ns, beacon.sent_ns)));
        assert!(beacon.from == target && beacon.sent_ns <= beacon.received_ns);
    }
}

#[test]
fn sabotage_shows_in_what_it_reads_back() {
    let mut probe = Probe::start();
    // a server that takes connections and answers nothing: the option is read all the same
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
    for no_nodelay in [true, false] {
        assert_eq!(probe.ask(ProbeOrder::Sabotage { no_nodelay }), Ok(ProbeAnswer::Done));
        let answer = probe.ask(ProbeOrder::Load(load(target, Operation::Connect, 3)));
        let Ok(ProbeAnswer::Samples { samples, nodelay, .. }) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!((samples.len(), nodelay), (3, Some(!no_nodelay)));
    }
}

#[test]
fn it_tells_what_its_host_does() {
    let mut probe = Probe::start();
    let Ok(ProbeAnswer::Cpu(before)) = probe.ask(ProbeOrder::Cpu) else {
        panic!("no ticks")
    };
    let (sleep_ns, count) = (2 * MS, 50);
    let Ok(ProbeAnswer::Samples { samples, failures, .. }) = probe.ask(ProbeOrder::Sleeps { sleep_ns, count }) else {
        panic!("no samples")
    };
    assert_eq!((samples.len(), failures), (50, vec![]));
    assert!(
        samples
            .iter()
            .all(|sample| sample.ended_ns - sample.started_ns >= sleep_ns)
    );
    let Ok(ProbeAnswer::Cpu(after)) = probe.ask(ProbeOrder::Cpu) else {
        panic!("no ticks")
    };
    // 100 ms of sleep are 10 ticks of each core, of which the kernel may have counted some before
    let ticks = |seen: wire::CpuSeen| seen.busy_ticks + seen.idle_ticks + seen.steal_ticks;
    assert!(ticks(after) - ticks(before) >= 5, "{before:?} {after:?}");
    assert!(before.cores >= 1);
}
