//! Labs on the engine in memory: what is made is unmade whatever call fails, replicas start when what they need runs, waits
//! end with the last thing seen. The clock is the test's: waiting takes no time.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use testbed::cli::{Color, Format, ReleaseArg};
use testbed::commands::prepare;
use testbed::commands::source;
use testbed::conditions::Timetable;
use testbed::docker::fake::{Failure, Fake};
use testbed::docker::{Engine, EngineHandle, Refusal, Sort};
use testbed::lab::{self, Engines, Lab, LabError, Played};
use testbed::names::{DatacenterName, Kind, LabName};
use testbed::plan::{self, AWAKE_DEVICE, Images, Plan};
use testbed::progress::Progress;
use testbed::stop::{Signal, Stop};
use testbed::topology::Topology;
use wire::{Conditions, CutKind, Defect, Loss, Mirror, Path, StreamSettings, Transport};

const LIMIT: Duration = Duration::from_secs(60);

fn plan_of(lab: &str, taken: &[ipnet::Ipv4Net]) -> Plan {
    plan_where(lab, taken, |_| {})
}

/// The same with a changed topology.
fn plan_where(lab: &str, taken: &[ipnet::Ipv4Net], change: impl FnOnce(&mut Topology)) -> Plan {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies/two-dc.yaml");
    let mut source = source::read(&file, Format::Text, Color::Never).unwrap();
    change(&mut source.topology);
    let images = Images {
        relay: "testbed/relay:0".to_owned(),
        probe: "testbed/probe:0".to_owned(),
        releases: prepare::releases(&source.topology, &ReleaseArg { release: Vec::new() }).unwrap(),
    };
    let name = LabName::new(lab).unwrap();
    plan::plan(&source.topology, &source.hash, &name, None, &images, taken).unwrap()
}

fn engines(fake: &Fake) -> Engines {
    let engine: EngineHandle = Arc::new(fake.clone());
    engine.into()
}

async fn raise(fake: &Fake, plan: Plan) -> Result<Lab, LabError> {
    lab::raise(engines(fake), plan, &Progress::silent(), &Stop::never(), LIMIT).await
}

/// For one whose lab has to come up.
async fn raised(fake: &Fake, plan: Plan) -> Lab {
    raise(fake, plan).await.unwrap_or_else(|error| panic!("{error}"))
}

fn failed(outcome: Result<Lab, LabError>) -> LabError {
    outcome.err().expect("the lab does not come up")
}

fn names(fake: &Fake) -> Vec<String> {
    fake.objects().into_iter().map(|object| object.name).collect()
}

fn dc(name: &str) -> DatacenterName {
    DatacenterName::new(name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lab_comes_up_and_goes_without_a_trace() {
    let fake = Fake::new();
    let plan = plan_of("one", &[]);
    let wanted = plan.networks.len() + plan.volumes.len() + plan.containers.len();
    let lab = raised(&fake, plan).await;
    assert_eq!(fake.objects().len(), wanted);
    let servers = lab.servers().iter();
    let versions: Vec<_> = servers.map(|seen| (seen.node.as_str(), seen.engine.as_str())).collect();
    assert_eq!(versions[0], ("redis-primary", "redis"));
    assert_eq!(versions[3], ("postgres", "postgres"));
    assert_eq!(lab.lower().await.unwrap().removed, wanted);
    assert_eq!(names(&fake), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn everything_starts_after_what_it_needs() {
    let fake = Fake::new();
    let _lab = raised(&fake, plan_of("one", &[])).await;
    let calls: Vec<String> = fake.calls().iter().map(ToString::to_string).collect();
    let at = |call: &str| {
        calls
            .iter()
            .position(|made| made == call)
            .unwrap_or_else(|| panic!("{call}: {calls:#?}"))
    };
    let first_container = calls
        .iter()
        .position(|call| call.starts_with("create container"))
        .unwrap();
    assert!(
        calls[first_container..]
            .iter()
            .all(|call| !call.starts_with("create network"))
    );
    for replica in ["redis-near", "redis-far"] {
        let start = at(&format!("start container tb-one-{replica}"));
        for first in ["tb-one-redis-primary", "tb-one-relay.dc1", "tb-one-relay.dc2"] {
            assert!(
                at(&format!("start container {first}")) < start,
                "{first} before {replica}"
            );
        }
        assert!(
            at("attach to container tb-one-relay.dc2") < start,
            "the relay has answered before {replica}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_call_fails_nothing_is_left_and_the_error_names_its_object() {
    let whole = Fake::new();
    let _lab = raised(&whole, plan_of("one", &[])).await;
    let calls = whole.calls().len();
    assert!(calls > 25, "{calls}");
    for failure in [
        Failure::Refused(Refusal::Other),
        Failure::Unreachable,
        Failure::AnswerLost,
        Failure::Silent,
    ] {
        for nth in 1..=calls {
            let fake = Fake::new();
            fake.fail(nth, failure);
            let error = failed(raise(&fake, plan_of("one", &[])).await);
            let call = fake.calls()[nth - 1].clone();
            assert_eq!(names(&fake), [""; 0], "{failure:?} of call {nth}, {call}: {error}");
            if matches!(failure, Failure::Refused(_) | Failure::Silent) {
                assert!(error.to_string().contains(&call.object), "{call}: {error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_any_moment_removes_what_was_made() {
    let whole = Fake::new();
    let _lab = raised(&whole, plan_of("one", &[])).await;
    for calls in 0..whole.calls().len() {
        let fake = Fake::new();
        let (brake, stop) = Stop::by_hand();
        let progress = Progress::silent();
        let asking = async {
            while fake.calls().len() < calls {
                tokio::task::yield_now().await;
            }
            brake.ask(Signal::Interrupt);
        };
        let raising = lab::raise(engines(&fake), plan_of("one", &[]), &progress, &stop, LIMIT);
        let (outcome, ()) = tokio::join!(raising, asking);
        let error = failed(outcome);
        assert!(matches!(error, LabError::Stopped(Signal::Interrupt)), "{error}");
        assert_eq!(names(&fake), [""; 0], "stopped after {calls} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lab_of_the_same_name_is_never_touched() {
    let fake = Fake::new();
    let first = plan_of("one", &[]);
    let taken: Vec<_> = first.networks.iter().map(|network| network.subnet).collect();
    let _lab = raised(&fake, first).await;
    let before = names(&fake);
    let error = failed(raise(&fake, plan_of("one", &taken)).await);
    assert!(error.hint().unwrap().contains("testbed down"), "{error}");
    assert_eq!(names(&fake), before);
}

#[tokio::test(start_paused = true)]
async fn a_taken_subnet_is_told_from_other_failures() {
    let fake = Fake::new();
    let _lab = raised(&fake, plan_of("one", &[])).await;
    let mut second = plan_of("two", &[]);
    let taken = plan_of("one", &[]).networks[1].subnet;
    second.networks[1].subnet = taken;
    let error = failed(raise(&fake, second).await);
    assert!(error.is_overlap(), "{error}");
    assert!(names(&fake).iter().all(|name| name.starts_with("tb-one")));
}

#[tokio::test(start_paused = true)]
async fn a_subnet_taken_after_planning_is_planned_around() {
    let fake = Fake::new();
    let one = raised(&fake, plan_of("one", &[])).await;
    let mut asked: Vec<Vec<ipnet::Ipv4Net>> = Vec::new();
    // The first plan does not know what was taken meanwhile.
    let plan = |taken: &[ipnet::Ipv4Net]| {
        asked.push(taken.to_vec());
        let mut plan = plan_of("two", taken);
        if asked.len() == 1 {
            plan.networks[1].subnet = one.plan.networks[1].subnet;
        }
        Ok::<_, LabError>(plan)
    };
    let (progress, stop) = (Progress::silent(), Stop::never());
    let lab = lab::raise_on_free_subnets(&engines(&fake), plan, &progress, &stop, LIMIT).await;
    let lab = lab.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(asked.len(), 2);
    assert!(asked[1].len() > asked[0].len(), "what was refused counts as taken");
    assert_eq!(lab.plan.lab.as_str(), "two");
    let always = |_: &[ipnet::Ipv4Net]| {
        let mut plan = plan_of("three", &[]);
        plan.networks[1].subnet = one.plan.networks[1].subnet;
        Ok::<_, LabError>(plan)
    };
    let error = lab::raise_on_free_subnets(&engines(&fake), always, &progress, &stop, LIMIT).await;
    assert!(failed(error).is_overlap(), "it gives up");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_is_reported_with_its_last_words() {
    let fake = Fake::new();
    fake.doom("tb-one-redis-far", 1, "Bad directive or wrong number of arguments");
    let error = failed(raise(&fake, plan_of("one", &[])).await);
    let text = error.to_string();
    assert!(matches!(error, LabError::NodeEnded { .. }), "{text}");
    assert!(text.contains("redis-far") && text.contains("Bad directive"), "{text}");
    assert_eq!(names(&fake), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_ends_is_reported_with_its_last_words() {
    let fake = Fake::new();
    fake.doom("tb-one-relay.dc1", 2, "no /dev/net/tun");
    let text = failed(raise(&fake, plan_of("one", &[])).await).to_string();
    assert!(text.contains("relay.dc1") && text.contains("no /dev/net/tun"), "{text}");
    assert_eq!(names(&fake), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_keep_its_cores_awake_has_a_lab_nevertheless() {
    let fake = Fake::new();
    fake.lack_device(AWAKE_DEVICE);
    raise(&fake, plan_of("one", &[])).await.unwrap();
    assert_eq!(names(&fake).len(), {
        let whole = Fake::new();
        raise(&whole, plan_of("one", &[])).await.unwrap();
        names(&whole).len()
    });
    fake.lack_device("/dev/net/tun");
    let text = failed(raise(&fake, plan_of("two", &[])).await).to_string();
    assert!(text.contains("/dev/net/tun"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_server_of_another_version_is_an_error() {
    let fake = Fake::new();
    fake.report_version("tb-one-redis-near", "6.2.1");
    let error = failed(raise(&fake, plan_of("one", &[])).await);
    assert!(matches!(error, LabError::WrongServer { .. }), "{error}");
    assert!(error.to_string().contains("6.2.1"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_is_tried_again() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_of("one", &[])).await;
    for (nth, failure) in [
        (1, Failure::Unreachable),
        (3, Failure::Refused(Refusal::InUse)),
        (9, Failure::Silent),
        (14, Failure::AnswerLost),
        (17, Failure::Silent),
    ] {
        fake.fail(nth, failure);
    }
    lab.lower().await.unwrap();
    assert_eq!(names(&fake), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_removed_is_named() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_of("one", &[])).await;
    let objects = fake.objects();
    let containers = objects.iter().filter(|object| object.sort == Sort::Container).count();
    // Each round lists once and then tries every object.
    let round = 1 + objects.len();
    for nth in (1..=20 * round).filter(|nth| nth % round != 1) {
        fake.fail(nth, Failure::Refused(Refusal::Other));
    }
    let error = lab.lower().await.unwrap_err();
    let LabError::Left(left) = error else { panic!("{error}") };
    assert_eq!(left.len(), objects.len());
    assert!(left.iter().filter(|left| left.sort == Sort::Container).count() == containers);
    assert!(left[0].cause.contains("as the test asked"), "{}", left[0].cause);
}

#[tokio::test(start_paused = true)]
async fn a_lab_is_found_by_its_labels_alone() {
    let fake = Fake::new();
    let engines = engines(&fake);
    let find = async |name: Option<&str>| {
        let name = name.map(|name| LabName::new(name).unwrap());
        lab::find(&engines, name.as_ref())
            .await
            .map(|lab| lab.plan.lab.to_string())
    };
    assert!(matches!(find(None).await, Err(LabError::NoLab { .. })));
    let one = raised(&fake, plan_of("one", &[])).await;
    assert_eq!(find(None).await.unwrap(), "one");
    let taken: Vec<_> = one.plan.networks.iter().map(|network| network.subnet).collect();
    let _two = raised(&fake, plan_of("two", &taken)).await;
    let several = find(None).await.unwrap_err().to_string();
    assert!(several.contains("one, two"), "{several}");
    assert_eq!(find(Some("two")).await.unwrap(), "two");
    let absent = find(Some("three")).await.unwrap_err().to_string();
    assert!(absent.contains("`three`") && absent.contains("one, two"), "{absent}");
    fake.end("tb-one-probe.dc2", 137, "killed");
    let broken = find(Some("one")).await.unwrap_err().to_string();
    assert!(broken.contains("tb-one-probe.dc2 is exited"), "{broken}");
    one.lower().await.unwrap();
    assert_eq!(find(None).await.unwrap(), "two");
}

#[tokio::test(start_paused = true)]
async fn an_attached_lab_has_the_plan_and_the_links_of_the_one_that_was_raised() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_of("one", &[])).await;
    let mut again = lab::find(&engines(&fake), None).await.unwrap();
    assert_eq!(again.plan, lab.plan);
    lab.set_delay(&dc("dc1"), &dc("dc2"), 7).await.unwrap();
    assert_eq!(
        again
            .link(&dc("dc1"), &dc("dc2"))
            .await
            .unwrap()
            .status
            .conditions
            .delay_ns,
        7
    );
    let unchanged = again.link(&dc("dc2"), &dc("dc1")).await.unwrap();
    assert_eq!(unchanged.status.conditions.delay_ns, 20_000_000);
    assert!(matches!(
        again.link(&dc("dc1"), &dc("dc3")).await,
        Err(LabError::NoLink { .. })
    ));
    assert_eq!(again.servers(), []);
    again.wait_ready(LIMIT).await.unwrap();
    assert_eq!(again.servers(), lab.servers());
}

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

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_last_thing_seen() {
    let fake = Fake::new();
    let mut lab = raised(&fake, plan_of("one", &[])).await;
    lab.cut(&dc("dc1"), &dc("dc2"), CutKind::Drop).await.unwrap();
    let error = lab.wait_ready(Duration::from_secs(5)).await.unwrap_err().to_string();
    assert!(error.contains("redis-far") && error.contains("is down"), "{error}");
    lab.heal(&dc("dc1"), &dc("dc2")).await.unwrap();
    lab.wait_ready(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sweep_removes_what_carries_its_labels_and_nothing_else() {
    let fake = Fake::new();
    let one = raised(&fake, plan_of("one", &[])).await;
    let taken: Vec<_> = one.plan.networks.iter().map(|network| network.subnet).collect();
    let _two = raised(&fake, plan_of("two", &taken)).await;
    let labels = lab::labels_of(Some(&LabName::new("one").unwrap()));
    assert!(lab::sweep(&engines(&fake), &labels).await.unwrap().removed > 10);
    assert_eq!(lab::sweep(&engines(&fake), &labels).await.unwrap().removed, 0);
    assert!(names(&fake).iter().all(|name| name.starts_with("tb-two")));
    let kinds: BTreeMap<String, String> =
        BTreeMap::from([(testbed::names::LABEL_KIND.to_owned(), Kind::Wan.as_str().to_owned())]);
    assert_eq!(fake.list(&kinds).await.unwrap().len(), 1);
}
