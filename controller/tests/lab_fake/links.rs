//! Links of a lab that is up: conditions, stream mode, schedules, sabotage.

use super::*;
use testbed::conditions::Timetable;
use testbed::lab::{Only, Played};
use wire::{Conditions, Defect, Loss, Mirror, Path, StreamSettings, Transport};

#[tokio::test(start_paused = true)]
async fn a_change_of_a_link_leaves_its_other_conditions_and_the_other_direction() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_of("one", &[])).await;
    let (one, other) = (dc("dc1"), dc("dc2"));
    let lossy = Conditions {
        loss: Some(Loss {
            ppm: 10_000,
            burst_milli: 1000,
        }),
        ..Conditions::delay(3)
    };
    lab.set(&one, &other, &lossy, false).await.unwrap();
    let changed = lab.set_delay(&one, &other, 5).await.unwrap().status.conditions;
    assert_eq!(changed, Conditions { delay_ns: 5, ..lossy });
    let back = lab.link(&other, &one).await.unwrap().status.conditions;
    assert_eq!(back, Conditions::delay(20_000_000));
    assert!(lab.freeze(&one, &other).await.unwrap().status.frozen);
    assert!(!lab.link(&other, &one).await.unwrap().status.frozen);
    let both = lab.freeze_both(&one, &other).await.unwrap();
    assert!(both.iter().all(|link| link.status.frozen));
    let both = lab.thaw_both(&one, &other).await.unwrap();
    assert!(both.iter().all(|link| !link.status.frozen));
    lab.set_path(Path::Kernel).await.unwrap();
    let links = lab.links().await.unwrap();
    assert!(links.iter().all(|link| link.path == Path::Kernel), "all relays take it");
}

#[test]
fn which_ports_are_meant_follows_from_the_nodes_and_what_nobody_has_is_an_error() {
    let ports = |topology: &str, only: &str| {
        let plan = plan_from(topology, "one", &[], |_| {});
        let only: Only = only.parse().unwrap();
        only.ports(&plan)
            .map_err(|error| format!("{error} / {}", error.hint().unwrap()))
    };
    assert_eq!(ports("cluster-c", "clients"), Ok(vec![6379]));
    assert_eq!(ports("cluster-c", "bus"), Ok(vec![16_379]));
    assert_eq!(ports("cluster-c", "16379,6379,6379"), Ok(vec![6379, 16_379]));
    assert_eq!(ports("two-dc", "clients"), Ok(vec![5432, 6379]));
    assert_eq!(ports("sentinel", "clients"), Ok(vec![6379, 26_379]));
    let refused = ports("two-dc", "bus").unwrap_err();
    assert!(refused.contains("no node of the lab is in a cluster"), "{refused}");
    let refused = ports("cluster-c", "6379,7000").unwrap_err();
    assert!(
        refused.contains("no node of the lab listens on 7000") && refused.contains("6379,16379"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cut_of_ports_stands_beside_one_of_the_link_and_ends_with_the_heal() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_of("one", &[])).await;
    let (one, other) = (dc("dc1"), dc("dc2"));
    let refused = lab.cut_ports_both(&one, &other, &Only::Bus).await.unwrap_err();
    assert!(matches!(refused, LabError::NoPort { .. }), "{refused}");
    let postgres = Only::Ports(vec![5432]);
    let cut = lab.cut_ports_both(&one, &other, &postgres).await.unwrap();
    for link in &cut {
        assert_eq!((link.status.cut, link.only.as_ref()), (None, Some(&postgres)));
    }
    let reset = lab
        .cut_ports(&one, &other, &Only::Clients, CutKind::Reset)
        .await
        .unwrap();
    let ports = reset.status.port_cut().unwrap();
    assert_eq!(
        (ports.kind, ports.ports.as_slice()),
        (CutKind::Reset, &[5432, 6379][..])
    );
    assert_eq!(reset.only, Some(Only::Clients));
    let whole = lab.cut(&one, &other, CutKind::Drop).await.unwrap();
    assert!(whole.status.cut.is_some() && whole.only.is_some());
    // What was there before is put back, and the cut of the link stays.
    let before = cut[0].status.port_cut();
    let restored = lab.restore_ports(&one, &other, before).await.unwrap();
    assert_eq!(
        (restored.only, restored.status.cut),
        (Some(postgres), Some(CutKind::Drop))
    );
    let healed = lab.heal_both(&one, &other).await.unwrap();
    assert!(
        healed
            .iter()
            .all(|link| link.only.is_none() && link.status.cut.is_none())
    );
    assert!(healed[1].status.last_port_cut.as_ref().unwrap().ended_ns.is_some());
}

#[tokio::test(start_paused = true)]
async fn ports_are_cut_in_packet_mode_only_and_it_is_not_left_under_such_a_cut() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_of("one", &[])).await;
    let (one, other) = (dc("dc1"), dc("dc2"));
    // One direction: neither relay may leave.
    lab.cut_ports(&other, &one, &Only::Clients, CutKind::Drop)
        .await
        .unwrap();
    for path in [Path::Kernel, Path::Stream(StreamSettings::default())] {
        let refused = lab.set_path(path).await.unwrap_err();
        assert!(
            refused.to_string().contains("ports of link dc2:dc1 are cut"),
            "{refused}"
        );
        assert!(lab.links().await.unwrap().iter().all(|link| link.path == Path::Tun));
    }
    lab.heal(&other, &one).await.unwrap();
    lab.set_path(Path::Kernel).await.unwrap();
    let refused = lab.cut_ports_both(&one, &other, &Only::Clients).await.unwrap_err();
    assert!(refused.to_string().contains("packet mode only"), "{refused}");
}

fn in_stream_mode(topology: &mut Topology) {
    topology.path = Path::Stream(StreamSettings::default());
    let mut links = topology.links.iter_mut();
    let back = links.find(|link| link.from == dc("dc2")).unwrap();
    back.conditions.delay_ns = 7;
}

#[tokio::test(start_paused = true)]
async fn in_stream_mode_each_relay_knows_the_direction_that_leads_to_it() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_where("one", &[], in_stream_mode)).await;
    let (one, other) = (dc("dc1"), dc("dc2"));
    let mirror = |of: &str, to: &str| fake.mirror(&format!("tb-one-relay.{of}"), to).unwrap();
    assert_eq!(mirror("dc1", "dc2").delay_ns, 7, "told before anything else");
    assert_eq!(mirror("dc2", "dc1").delay_ns, 20_000_000);
    lab.set_delay(&one, &other, 5).await.unwrap();
    lab.cut(&one, &other, CutKind::Close).await.unwrap();
    let told = Mirror {
        delay_ns: 5,
        cut: Some(CutKind::Close),
        frozen: false,
    };
    assert_eq!(mirror("dc2", "dc1"), told);
    assert_eq!(mirror("dc1", "dc2").cut, None, "the other direction is as it was");
    lab.heal(&one, &other).await.unwrap();
    lab.freeze_both(&one, &other).await.unwrap();
    assert!(mirror("dc1", "dc2").frozen && mirror("dc2", "dc1").frozen);
    assert_eq!(mirror("dc2", "dc1").cut, None);
}

#[tokio::test(start_paused = true)]
async fn stream_mode_begins_with_what_holds_and_not_with_what_it_cannot_do() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_of("one", &[])).await;
    let (one, other) = (dc("dc1"), dc("dc2"));
    let told = || fake.mirror("tb-one-relay.dc2", "dc1");
    lab.set_delay(&one, &other, 5).await.unwrap();
    assert_eq!(told(), None, "packet mode has no use for it");
    let path = Path::Stream(StreamSettings::default());
    lab.set_path(path).await.unwrap();
    assert_eq!(told().map(|mirror| mirror.delay_ns), Some(5));
    assert!(lab.relay_states().await.unwrap().iter().all(|relay| relay.path == path));
    lab.set_path(Path::Tun).await.unwrap();
    let small = Conditions {
        mtu: Some(1400),
        ..Conditions::delay(5)
    };
    lab.set(&other, &one, &small, false).await.unwrap();
    let refused = lab.set_path(path).await.unwrap_err();
    assert!(refused.to_string().contains("dc2:dc1 has `mtu`"), "{refused}");
    assert!(lab.links().await.unwrap().iter().all(|link| link.path == Path::Tun));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_begins_in_all_directions_at_one_instant_when_the_lab_is_ready() {
    let fake = Fake::new();
    let flapping = |topology: &mut Topology| {
        for link in &mut topology.links {
            let timetable = Timetable::parse("at 5s cut reset, at 8s heal").unwrap();
            link.schedule = Some(timetable.on(&link.conditions).unwrap());
        }
    };
    let lab = raised(&fake, plan_where("one", &[], flapping)).await;
    let seen = lab.links().await.unwrap();
    let starts: Vec<_> = seen.iter().map(|link| link.status.playing_since_ns.unwrap()).collect();
    assert_eq!(starts[0], starts[1]);
    assert!(starts[0] > seen[0].now_ns, "every relay has its order before it");
    tokio::time::sleep(Duration::from_secs(6)).await;
    let seen = lab.links().await.unwrap();
    assert!(
        seen.iter().all(|link| link.status.cut == Some(CutKind::Reset)),
        "{seen:?}"
    );
    assert_eq!(seen[0].status.last_cut_ns, Some(starts[0] + 5_000_000_000));
    assert_eq!(seen[0].status.last_cut_ns, seen[1].status.last_cut_ns);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let seen = lab.links().await.unwrap();
    assert!(
        seen.iter()
            .all(|link| link.status.cut.is_none() && link.status.playing_since_ns.is_none())
    );
}

#[tokio::test(start_paused = true)]
async fn a_schedule_ends_when_it_is_told_and_the_link_stays_as_it_is() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_of("one", &[])).await;
    let (one, other) = (dc("dc1"), dc("dc2"));
    let schedule = Timetable::parse("flap every 2s").unwrap();
    let schedule = schedule.on(&Conditions::delay(20_000_000)).unwrap();
    let played = Played {
        from: one.clone(),
        to: other.clone(),
        schedule,
    };
    lab.play(std::slice::from_ref(&played)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(lab.link(&one, &other).await.unwrap().status.cut.is_some());
    lab.stop_play_both(&one, &other).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let left = lab.link(&one, &other).await.unwrap().status;
    assert!(left.cut.is_some() && left.playing_since_ns.is_none(), "{left:?}");
    let nowhere = Played {
        to: dc("dc9"),
        ..played
    };
    assert!(matches!(lab.play(&[nowhere]).await, Err(LabError::NoLink { .. })));
}

#[tokio::test(start_paused = true)]
async fn sabotage_is_felt_and_not_told() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_of("one", &[])).await;
    let (one, other) = (dc("dc1"), dc("dc2"));
    let defect = Some(Defect::ExtraDelay { delay_ns: 3_000_000 });
    let before = lab.link(&one, &other).await.unwrap().status;
    assert_eq!(lab.sabotage(&one, &other, defect).await.unwrap().status, before);
    let target = lab.datacenter(&other).probe_address;
    let (probe, limit) = (lab.probe(&one), Duration::from_secs(1));
    let seen = probe
        .echo(target, Transport::Udp, 0, 1, Duration::ZERO, limit)
        .await
        .unwrap()
        .samples;
    assert_eq!(seen[0].ended_ns - seen[0].started_ns, 43_000_000);
}
