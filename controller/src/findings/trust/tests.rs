//! Every rule of the trust fires on its defect, and none on an intact instrument.

use super::scenery::{Asked, CLAIM, EVERY_MS, Scenery, cut, eventful, frozen, up};
use super::*;
use crate::claim::Verdict;
use crate::findings::synthetic::{MS, Story};
use crate::history::{Calibrated, NodeLost, ProbeSeen, RelayLost, What};
use wire::{CutKind, Jitter, JitterShape, LinkCounters, Loss, Path, RelayStatus};

/// Breaks a state.
type Break<T> = fn(&mut T);

#[test]
fn an_intact_instrument_on_a_quiet_machine_is_sound_whatever_the_block_does() {
    Scenery::still().assert_sound();
    Scenery::of(&eventful()).assert_sound();
    Scenery::of(&[up(0, 0), up(1000, 300), cut(2000, 300), up(2150, 300)]).assert_sound();
    let evidence = Scenery::of(&eventful()).judged().evidence.join("\n");
    for word in [
        "calibration dc1 to dc2 20ms asked, 20.1",
        "0 lost, 0 early",
        "30 packets destroyed",
        "deadline",
    ] {
        assert!(evidence.contains(word), "{evidence}");
    }
}

#[test]
fn changes_stamped_late_by_the_relay_raise_no_alarm() {
    let mut scenery = Scenery::of(&eventful());
    scenery.stamped_late_ns = 1_500_000;
    scenery.assert_sound();
}

#[test]
fn a_hidden_delay_of_3_ms_is_void_by_calibration_and_by_beacons() {
    let mut calibrated = Scenery::still();
    calibrated.calibrated = |_| 3_100_000;
    calibrated.assert_void(
        Cause::Instrument,
        "calibration: the link from dc1 to dc2 was 23.09 ms instead of 20ms",
    );
    let longer = Scenery::still().fate(|_, ideal| Some(ideal? + 3 * MS));
    longer.assert_void(
        Cause::Instrument,
        "the link from dc1 to dc2 is 3.20 ms (median; the fastest tenth 3.20 ms) longer than asked (20ms",
    );
}

#[test]
fn a_link_that_is_long_at_one_of_its_distances_only_is_void_too() {
    let scenery = Scenery::of(&eventful()).fate(|sent_ns, ideal| {
        let at_5_ms = (1000 * MS..2000 * MS).contains(&sent_ns);
        Some(ideal? + if at_5_ms { 3 * MS } else { 0 })
    });
    scenery.assert_void(Cause::Instrument, "longer than asked (5ms");
}

#[test]
fn a_millisecond_too_much_is_suspect_and_four_tenths_of_one_are_nothing() {
    let by = |ns: u64| Scenery::still().fate(move |_, ideal| Some(ideal? + ns));
    by(800_000).assert_suspect("1.00 ms (median; the fastest tenth 1.00 ms) longer");
    by(200_000).assert_sound();
}

#[test]
fn a_link_that_a_busy_host_makes_long_is_noise_and_one_that_is_long_for_the_fastest_is_not() {
    let mut held_up = Scenery::still().fate(|sent_ns, ideal| {
        let spared = sent_ns / (EVERY_MS * MS) % 4 == 1;
        Some(ideal? + if spared { 0 } else { 3 * MS })
    });
    held_up.assert_void(Cause::Instrument, "longer than asked");
    held_up.sent_late = |_| 4 * MS;
    held_up.assert_void(Cause::Noise, "longer than asked");
    let mut long = Scenery::still().fate(|_, ideal| Some(ideal? + 3 * MS));
    long.sent_late = |_| 4 * MS;
    long.assert_void(Cause::Instrument, "longer than asked");
}

#[test]
fn one_packet_that_left_early_is_enough() {
    let early = Scenery::still().fate(|sent_ns, ideal| {
        let once = (500 * MS..520 * MS).contains(&sent_ns);
        Some(ideal? - if once { 400_000 } else { 0 })
    });
    early.assert_void(Cause::Instrument, "left early (1 of");
    let calibrated = Scenery::still().fate(|_, ideal| Some(ideal? - 220_000));
    calibrated.assert_sound();
}

#[test]
fn a_relay_that_stops_delaying_is_void() {
    let scenery = Scenery::of(&[up(0, 20), up(2000, 5)]).fate(|sent_ns, ideal| {
        if sent_ns > 1500 * MS {
            Some(sent_ns + 200_000)
        } else {
            ideal
        }
    });
    scenery.assert_void(Cause::Instrument, "packets from dc1 to dc2 left early");
}

#[test]
fn a_calibration_that_is_too_short_is_void() {
    let mut story = Scenery::still().story();
    story = story.event(What::Calibrated(Calibrated {
        block: 7,
        from: "dc1".to_owned(),
        to: "dc2".to_owned(),
        asked_ns: 20 * MS,
        one_way_ns: vec![19 * MS; 20],
        lost: 0,
    }));
    let judged = story.judged();
    assert!(matches!(&judged.trust, Trust::Void(why) if why[0].contains("shorter than asked")));
}

#[test]
fn a_calibration_without_answers_is_void() {
    let story = Scenery::still().story().event(What::Calibrated(Calibrated {
        block: 7,
        from: "dc1".to_owned(),
        to: "dc2".to_owned(),
        asked_ns: 20 * MS,
        one_way_ns: Vec::new(),
        lost: 20,
    }));
    assert!(matches!(&story.judged().trust, Trust::Void(why) if why[0].contains("only 0 came back")));
}

#[test]
fn a_leak_of_one_direction_of_a_cut_is_void() {
    let asked = [up(0, 20), cut(1000, 20), up(1500, 20)];
    let leaky = Scenery::of(&asked).fate(|sent_ns, _| Some(sent_ns + 20_200_000));
    leaky.assert_void(Cause::Instrument, "the cut leaks");
    let spared = Scenery::of(&asked).fate(|sent_ns, ideal| {
        let in_flight = (985 * MS..1000 * MS).contains(&sent_ns);
        if in_flight { Some(sent_ns + 20_200_000) } else { ideal }
    });
    spared.assert_void(Cause::Instrument, "the cut leaks: 1 packets");
}

#[test]
fn a_cut_that_destroyed_nothing_did_not_take_place() {
    let asked = [up(0, 20), cut(1000, 20), up(1500, 20)];
    let scenery = Scenery::of(&asked).counters(|counters| counters.dropped_cut = 0);
    scenery.assert_void(Cause::Instrument, "no cut took place from dc1 to dc2");
}

#[test]
fn a_cut_that_is_too_short_for_the_watch_is_suspect() {
    let asked = [up(0, 0), cut(1010, 0), up(1020, 0)];
    let scenery = Scenery::of(&asked).counters(|counters| counters.dropped_cut = 0);
    scenery.assert_suspect("whether 1 of the cuts from dc1 to dc2 cut is not known");
    assert!(scenery.judged().evidence.join(" ").contains("nothing was in flight"));
}

#[test]
fn a_block_that_cuts_and_was_only_frozen_says_that_no_cut_took_place() {
    let mut scenery = Scenery::of(&[up(0, 20), frozen(1000, 20), up(1500, 20)]);
    scenery.block = 2;
    scenery.assert_void(Cause::Instrument, "no cut took place: the link was frozen");
    let mut cut = Scenery::of(&[up(0, 20), cut(1000, 20), up(1500, 20)]);
    cut.block = 2;
    assert_eq!(cut.judged().trust, Trust::Sound);
}

#[test]
fn a_heal_that_did_not_heal_is_void() {
    let asked = [up(0, 20), cut(1000, 20), up(1500, 20)];
    let scenery = Scenery::of(&asked).fate(|sent_ns, ideal| ideal.filter(|_| sent_ns < 1000 * MS));
    scenery.assert_void(Cause::Instrument, "the heal did not heal: none of");
}

#[test]
fn a_link_that_closes_by_itself_is_void() {
    let asked = [up(0, 20), up(1000, 5)];
    let scenery = Scenery::of(&asked).fate(|sent_ns, ideal| ideal.filter(|_| sent_ns < 1000 * MS));
    scenery.assert_void(Cause::Instrument, "closed though nobody asked");
}

#[test]
fn a_lost_packet_is_suspect_and_many_are_void() {
    let losing = |one_in: u64| {
        Scenery::of(&[up(0, 20), up(4000, 5)])
            .fate(move |sent_ns, ideal| ideal.filter(|_| sent_ns / (EVERY_MS * MS) % one_in != 1))
    };
    losing(200).assert_suspect("were lost though the link was up");
    losing(10).assert_void(Cause::Instrument, "were lost though the link was up");
}

/// The one doubt is that the link does what it was asked for.
fn only_asked_for(scenery: &Scenery, condition: &str) {
    let text = format!(
        "the link from dc1 to dc2 and dc2 to dc1 was asked for {condition}: a cost in round trips means something on a link that only delays"
    );
    assert_eq!(scenery.judged().trust, Trust::Suspect(vec![text]));
}

#[test]
fn packets_that_are_to_be_lost_raise_no_other_doubt_than_that_they_are() {
    let mut scenery = Scenery::of(&[up(0, 20), up(4000, 5)])
        .fate(|sent_ns, ideal| ideal.filter(|_| sent_ns / (EVERY_MS * MS) % 10 != 1))
        .counters(|counters| counters.dropped_loss = 20);
    scenery.conditions.loss = Some(Loss {
        ppm: 100_000,
        burst_milli: 1000,
    });
    scenery.last.links[0].conditions = scenery.conditions.clone();
    only_asked_for(&scenery, "loss=10%");
}

#[test]
fn a_link_with_jitter_is_not_judged_packet_by_packet() {
    let mut scenery = Scenery::still().fate(|sent_ns, ideal| {
        let swing = sent_ns / (EVERY_MS * MS) % 5 * 2 * MS;
        Some(ideal? + swing - 4 * MS)
    });
    scenery.assert_void(Cause::Instrument, "left early");
    scenery.conditions.jitter = Some(Jitter {
        shape: JitterShape::Uniform { spread_ns: 5 * MS },
        reorder: false,
    });
    scenery.last.links[0].conditions = scenery.conditions.clone();
    only_asked_for(&scenery, "jitter=uniform:5ms");
}

#[test]
fn a_tail_of_late_packets_is_suspect_and_a_long_one_void() {
    let late = |one_in: u64| {
        Scenery::still().fate(move |sent_ns, ideal| {
            let late = sent_ns / (EVERY_MS * MS) % one_in == 1;
            Some(ideal? + if late { 6 * MS } else { 0 })
        })
    };
    late(40).assert_sound();
    late(10).assert_suspect("came more than 2.00 ms late");
    late(3).assert_void(Cause::Instrument, "came more than 2.00 ms late");
}

#[test]
fn a_relay_that_died_or_was_restarted_is_void() {
    let died = Scenery::still().story().event(What::RelayLost(RelayLost {
        block: 7,
        datacenter: "dc1".to_owned(),
        cause: "hear from tb-x-relay.dc1: it ended".to_owned(),
    }));
    let judged = died.judged();
    assert!(matches!(&judged.trust, Trust::Void(why) if why[0].contains("the relay of dc1 stopped answering")));
    assert_eq!(judged.claim(CLAIM).cause, Some(Cause::Instrument));
    let restarted = Scenery::still().last(|last| last.since_ns = 2);
    restarted.assert_void(Cause::Instrument, "restarted");
}

#[test]
fn a_node_that_ended_is_void_and_named() {
    let ended = Scenery::still().story().event(What::NodeLost(NodeLost {
        block: 7,
        node: "redis-far".to_owned(),
        cause: "exited, exit code 137, killed for lack of memory".to_owned(),
    }));
    let judged = ended.judged();
    assert!(
        matches!(&judged.trust, Trust::Void(why) if why[0].contains("redis-far") && why[0].contains("lack of memory"))
    );
    assert_eq!(judged.claim(CLAIM).cause, Some(Cause::Incomplete));
}

#[test]
fn what_a_relay_dropped_unasked_is_void_for_each_reason() {
    let drops: [(Break<LinkCounters>, Cause, &str); 6] = [
        (
            |counters| counters.dropped_queue = 1,
            Cause::Noise,
            "its queue was full",
        ),
        (|counters| counters.dropped_write = 1, Cause::Noise, "the kernel"),
        (
            |counters| counters.dropped_frozen = 1,
            Cause::Instrument,
            "frozen link held",
        ),
        (|counters| counters.dropped_rate = 1, Cause::Instrument, "its turn"),
        (|counters| counters.dropped_loss = 1, Cause::Instrument, "by chance"),
        (|counters| counters.dropped_mtu = 1, Cause::Instrument, "MTU"),
    ];
    for (drop, cause, why) in drops {
        Scenery::still().counters(drop).assert_void(cause, why);
    }
    Scenery::still()
        .last(|last| last.dropped_unread = 4)
        .assert_void(Cause::Noise, "too slow to read 4 packets");
}

#[test]
fn an_overloaded_relay_is_suspect() {
    let overloaded = |tenths: u64| {
        let story = Scenery::still().counters(move |counters| counters.overloaded_tenths = tenths);
        let mut history = story.story().history();
        for event in &mut history.events {
            if let What::BlockEnded { took_ms, .. } = &mut event.what {
                *took_ms = 10_000;
            }
        }
        crate::findings::judge(&history).blocks.pop().unwrap().trust
    };
    assert_eq!(overloaded(4), Trust::Sound);
    assert!(matches!(overloaded(8), Trust::Suspect(why) if why[0].contains("overloaded for 0.8 of 10.0 s")));
}

#[test]
fn a_relay_that_wrote_late_is_suspect_or_void() {
    // Classes up to 20 us, up to 1 ms, up to 2 ms, and beyond the last bound.
    let late = |packets: u64| {
        Scenery::still().counters(move |counters| {
            counters.lateness[1] = 900 - packets;
            counters.lateness[7] = 100;
            counters.lateness[8] = packets - 1;
            counters.lateness[13] = 1;
        })
    };
    late(20).assert_sound();
    late(100).assert_suspect("wrote 100 of 1000 packets to dc2 more than 1ms too late");
    late(300).assert_void(Cause::Noise, "wrote 300 of 1000 packets");
}

#[test]
fn relays_that_are_scheduled_differently_are_suspect() {
    Scenery::still()
        .last(|last| last.scheduling = "nice -20".to_owned())
        .assert_suspect("nice -20 in dc1, deadline in dc2");
}

#[test]
fn a_link_that_somebody_else_changes_is_void() {
    let changes: [(Break<RelayStatus>, &str); 6] = [
        (|last| last.links[0].conditions.delay_ns = 7 * MS, "7ms instead of 20ms"),
        (
            |last| last.links[0].cut = Some(CutKind::Drop),
            "20ms, cut instead of 20ms",
        ),
        (|last| last.links[0].frozen = true, "20ms, frozen instead of 20ms"),
        (|last| last.path = Path::Kernel, "the way Kernel instead of Tun"),
        (
            |last| last.links[0].conditions.mtu = Some(900),
            "conditions other than its delay",
        ),
        (|last| last.links[0].playing_since_ns = Some(1), "a schedule"),
    ];
    for (change, why) in changes {
        Scenery::still().last(change).assert_void(Cause::Instrument, why);
    }
}

/// A cut of ports from 1 s to 2 s.
fn ports_cut() -> Scenery {
    let cut = Asked {
        ports: &[6379],
        ..up(1000, 20)
    };
    Scenery::of(&[up(0, 20), cut, up(2000, 20)])
}

fn port_cut(ports: &[u16], ended_ns: Option<u64>) -> wire::PortCut {
    wire::PortCut {
        kind: CutKind::Drop,
        ports: ports.to_vec(),
        began_ns: 1000 * MS,
        ended_ns,
    }
}

#[test]
fn a_cut_of_ports_that_was_asked_for_lets_the_beacons_pass_and_is_told() {
    let scenery = ports_cut().destroyed_by_port(12);
    scenery.assert_sound();
    let evidence = scenery.judged().evidence.join(" ");
    assert!(
        evidence.contains("dc1 to dc2: ports 6379, 12 packets destroyed"),
        "{evidence}"
    );
    ports_cut()
        .destroyed_by_port(0)
        .assert_suspect("whether the cut of ports 6379 from dc1 to dc2 cut is not known");
}

#[test]
fn a_cut_of_ports_is_the_blocks_own_only_if_it_began_with_a_change_of_the_block() {
    let found = |began_ms| Asked {
        ports: &[6379],
        ports_began_ms: Some(began_ms),
        ..up(1000, 5)
    };
    let void = |asked: &[Asked]| {
        let scenery = Scenery::of(asked).destroyed_by_port(12);
        scenery.assert_void(Cause::Instrument, "in the middle of the block: 6379");
    };
    // The block changes the delay, and finds that somebody has cut ports; it ends before anybody looks.
    void(&[up(0, 20), found(990), up(1300, 5)]);
    // The same where the block had cut them itself before.
    let own = Asked {
        ports: &[6379],
        ..up(500, 20)
    };
    Scenery::of(&[up(0, 20), own, found(500), up(2000, 5)])
        .destroyed_by_port(12)
        .assert_sound();
    void(&[up(0, 20), own, up(700, 20), found(990), up(2000, 5)]);
}

#[test]
fn a_cut_of_ports_that_nobody_asked_for_shows_by_its_state_or_by_what_it_destroyed() {
    let in_force = |ports: &[u16]| Some(port_cut(ports, None));
    Scenery::still()
        .last(|last| last.links[0].last_port_cut = in_force(&[6379]))
        .assert_void(Cause::Instrument, "the ports cut were 6379 instead of none");
    Scenery::still()
        .last(|last| last.links[0].last_port_cut = Some(port_cut(&[6379], Some(1500 * MS))))
        .assert_sound();
    Scenery::still()
        .counters(|counters| counters.dropped_ports = 3)
        .assert_void(Cause::Instrument, "somebody else cut ports");
    ports_cut()
        .destroyed_by_port(12)
        .last(|last| last.links[0].last_port_cut = in_force(&[6379]))
        .assert_void(Cause::Instrument, "instead of none");
    let mut other = ports_cut().destroyed_by_port(12);
    other.asked.pop();
    other.until_ms = 2000;
    other
        .last(|last| last.links[0].last_port_cut = in_force(&[16_379]))
        .assert_void(Cause::Instrument, "the ports cut were 16379 instead of 6379");
}

#[test]
fn a_busy_host_is_suspect_with_its_figures() {
    let mut asleep = Scenery::still();
    asleep.overslept_ns = (0..50).map(|i| if i % 10 == 0 { 5 * MS } else { 30_000 }).collect();
    asleep.assert_suspect("sleeps of 1ms took 0.03 ms too long (median), 5.00 ms (p95)");
    let mut late = Scenery::still();
    late.sent_late = |at_ns| {
        if at_ns / (EVERY_MS * MS) % 10 == 1 {
            4 * MS
        } else {
            30_000
        }
    };
    late.assert_suspect("sent 4.00 ms late");
    let mut busy = Scenery::still();
    busy.busy_before = 97;
    busy.assert_suspect("97 % of 2 cores before the block began");
    let mut stolen = Scenery::still();
    stolen.stolen = 200;
    stolen.assert_suspect("the hypervisor took");
}

#[test]
fn a_probe_that_could_not_send_in_time_is_suspect() {
    let mut history = Scenery::still().story().history();
    for event in &mut history.events {
        if let What::Watched(watched) = &mut event.what {
            watched.beacons.truncate(20);
        }
    }
    let trust = crate::findings::judge(&history).blocks.pop().unwrap().trust;
    assert!(
        matches!(&trust, Trust::Suspect(why) if why[0].contains("sent 20 packets instead of 50")),
        "{trust:?}"
    );
}

#[test]
fn a_slow_probe_is_suspect() {
    let story = Scenery::still().story().event(What::ProbeSeen(ProbeSeen {
        block: 7,
        datacenter: "dc1".to_owned(),
        echo_ns: vec![900_000; 5],
        sleep_ns: MS,
        overslept_ns: Vec::new(),
    }));
    assert!(matches!(story.judged().trust, Trust::Suspect(why) if why[0].contains("with itself takes 0.90 ms")));
}

#[test]
fn what_nobody_watched_is_suspect_and_says_why() {
    let story = || {
        Story::of(7)
            .round_trips(20)
            .took("cache far", "get", Some(20), 40.2, 40, 0)
    };
    let unwatched = story().event(What::Unwatched {
        block: 7,
        reason: "two engines, two clocks".to_owned(),
    });
    assert!(matches!(unwatched.judged().trust, Trust::Suspect(why) if why[0].contains("two clocks")));
    assert!(matches!(story().judged().trust, Trust::Suspect(why) if why[0].contains("no beacons")));
}

#[test]
fn a_socket_without_nodelay_and_a_link_that_is_too_short_are_void() {
    let judged = Scenery::still()
        .story()
        .took("cache far", "get", Some(20), 40.2, 40, 0)
        .without_nodelay()
        .judged();
    assert!(matches!(&judged.trust, Trust::Void(why) if why[0].contains("TCP_NODELAY of the probe was off")));
    assert_eq!(judged.verdict(CLAIM), Verdict::Inconclusive);
    assert_eq!(judged.claim(CLAIM).cause, Some(Cause::Instrument));
    let ledger = Scenery::still().story().event(What::Ledger {
        block: 7,
        row: "a".to_owned(),
        writes: Vec::new(),
        present: Vec::new(),
        nodelay: Some(false),
    });
    assert!(matches!(ledger.judged().trust, Trust::Void(why) if why[0].contains("for the ledger of")));
    let short = Story::of(7).took("link", "rtt", Some(20), 39.0, 30, 0).judged();
    assert!(matches!(short.trust, Trust::Void(_)));
}

#[test]
fn a_link_that_is_too_long_and_lost_round_trips_are_suspect_and_decide_all_the_same() {
    let long = Scenery::still()
        .story()
        .took("link", "rtt", Some(20), 50.0, 300, 0)
        .judged();
    assert!(matches!(long.trust, Trust::Suspect(_)));
    let lost = Scenery::still()
        .story()
        .took("link", "rtt", Some(20), 40.1, 30, 0)
        .failed(10)
        .judged();
    assert!(matches!(lost.trust, Trust::Suspect(_)));
}

#[test]
fn what_no_quieter_host_would_cure_is_the_reason_that_claims_give() {
    let scenery = Scenery::still()
        .counters(|counters| counters.dropped_queue = 1)
        .last(|last| last.since_ns = 2);
    scenery.assert_void(Cause::Instrument, "restarted");
    let Trust::Void(reasons) = scenery.judged().trust else {
        panic!()
    };
    assert_eq!(reasons.len(), 2);
}

#[test]
fn only_the_last_time_counts_of_a_block_that_ran_twice() {
    let mut history = Scenery::still().last(|last| last.since_ns = 2).story().history();
    history.events.extend(Scenery::still().story().history().events);
    assert_eq!(
        crate::findings::judge(&history).blocks.pop().unwrap().trust,
        Trust::Sound
    );
}
