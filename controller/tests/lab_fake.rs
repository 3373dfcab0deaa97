//! Labs on the engine in memory: what is made is unmade whatever call fails, replicas start when what they need runs, waits
//! end with the last thing seen. The clock is the test's: waiting takes no time.

#![allow(clippy::unwrap_used)]

#[path = "lab_fake/links.rs"]
mod links;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use testbed::cli::{Color, Format, ReleaseArg};
use testbed::commands::prepare;
use testbed::commands::source;
use testbed::docker::fake::{Failure, Fake};
use testbed::docker::{Engine, EngineHandle, Refusal, Sort};
use testbed::lab::{self, Engines, Lab, LabError};
use testbed::names::{DatacenterName, Kind, LabName};
use testbed::plan::{self, Images, Plan};
use testbed::progress::Progress;
use testbed::stop::{Signal, Stop};
use testbed::topology::Topology;
use wire::{AWAKE_DEVICE, CutKind};

const LIMIT: Duration = Duration::from_secs(60);

fn plan_of(lab: &str, taken: &[ipnet::Ipv4Net]) -> Plan {
    plan_where(lab, taken, |_| {})
}

/// The same with a changed topology.
fn plan_where(lab: &str, taken: &[ipnet::Ipv4Net], change: impl FnOnce(&mut Topology)) -> Plan {
    plan_from("two-dc", lab, taken, change)
}

/// A plan of a topology that comes along.
fn plan_from(topology: &str, lab: &str, taken: &[ipnet::Ipv4Net], change: impl FnOnce(&mut Topology)) -> Plan {
    let file = format!("../topologies/{topology}.yaml");
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
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
    // And the volume that is the lab's name.
    let wanted = plan.networks.len() + plan.volumes.len() + plan.containers.len() + 1;
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
    let holder = format!("in the hands of process {}", std::process::id());
    assert!(error.to_string().contains(&holder) && error.hint().is_some(), "{error}");
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

#[tokio::test(start_paused = true)]
async fn a_cluster_is_formed_and_everybody_sits_in_their_place() {
    for layout in ["cluster-a", "cluster-b", "cluster-c"] {
        let fake = Fake::new();
        let lab = raised(&fake, plan_from(layout, "one", &[], |_| {})).await;
        for seen in lab.look().await {
            let state = seen.state.unwrap();
            let view = state.cluster.unwrap().unwrap();
            let cluster = lab.plan.clusters()[0];
            assert_eq!(
                testbed::cluster::misplaced(&view.members, &lab.plan.seats(cluster)),
                None
            );
        }
        lab.lower().await.unwrap();
        assert_eq!(names(&fake), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fresh_cluster_has_the_same_placement_and_nothing_in_it() {
    let fake = Fake::new();
    let lab = raised(&fake, plan_from("cluster-c", "one", &[], |_| {})).await;
    let cluster = lab.plan.clusters()[0].clone();
    let master = lab.plan.nodes[0].clone();
    let ask = |words: &[&str]| {
        let words = vec![words.iter().map(|&word| word.to_owned()).collect()];
        lab.probe(&master.datacenter)
            .redis_all(testbed::lab::target(&master), words, LIMIT)
    };
    let text = |text: &str| vec![wire::Reply::Text(text.to_owned())];
    assert_eq!(ask(&["SET", "k", "v"]).await.unwrap(), text("OK"));
    assert!(matches!(
        ask(&["CLUSTER", "RESET", "HARD"]).await.unwrap()[0],
        wire::Reply::Error(_)
    ));
    lab.form_again(&cluster, LIMIT).await.unwrap();
    assert_eq!(ask(&["GET", "k"]).await.unwrap(), [wire::Reply::Nil]);
    for seen in lab.look().await {
        let view = seen.state.unwrap().cluster.unwrap().unwrap();
        assert_eq!(
            testbed::cluster::misplaced(&view.members, &lab.plan.seats(&cluster)),
            None
        );
    }
    // One half cannot meet the other.
    let [one, other] = ["dc1", "dc2"].map(dc);
    lab.cut_both(&one, &other, CutKind::Drop).await.unwrap();
    let error = lab.form_again(&cluster, LIMIT).await.unwrap_err().to_string();
    assert!(error.contains("ready within"), "{error}");
    lab.lower().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_as_its_file_says_is_no_lab() {
    let fake = Fake::new();
    fake.mislead("tb-one-node-6", "tb-one-node-1");
    let error = failed(raise(&fake, plan_from("cluster-c", "one", &[], |_| {})).await).to_string();
    assert!(
        error.contains("`node-6` (dc1) is a replica of `node-1` (dc1) and should be of `node-3` (dc2)"),
        "{error}"
    );
    assert_eq!(names(&fake), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_halves_cannot_hear_each_other_is_no_lab() {
    let fake = Fake::new();
    let mut plan = plan_from("cluster-b", "one", &[], |_| {});
    plan.links.clear();
    for datacenter in &mut plan.datacenters {
        datacenter.relay_config.links.clear();
    }
    // The relays of the fake take their links from the command line of their containers.
    for container in &mut plan.containers {
        if container.kind == Kind::Relay {
            let mut config: serde_json::Value = serde_json::from_str(&container.command[0]).unwrap();
            config["links"] = serde_json::Value::Array(Vec::new());
            container.command[0] = config.to_string();
        }
    }
    let error = failed(raise(&fake, plan).await).to_string();
    assert!(
        error.contains("Unknown node") || error.contains("does not know"),
        "{error}"
    );
    assert_eq!(names(&fake), [""; 0]);
}

/// An application that is ready when it listens.
fn with_an_application(topology: &mut Topology) {
    topology.applications.push(testbed::topology::Application {
        name: testbed::names::NodeName::new("app").unwrap(),
        datacenter: DatacenterName::new("dc2").unwrap(),
        image: "registry.example/app:1".to_owned(),
        entrypoint: Vec::new(),
        command: vec!["serve".to_owned()],
        environment: BTreeMap::new(),
        user: None,
        mounts: Vec::new(),
        tmpfs: Vec::new(),
        ready: Some(8080),
    });
}

#[tokio::test(start_paused = true)]
async fn an_application_starts_when_all_servers_answer_and_goes_with_its_lab() {
    let fake = Fake::new();
    let plan = plan_where("one", &[], with_an_application);
    let lab = raise(&fake, plan).await.unwrap();
    let calls: Vec<String> = fake.calls().iter().map(ToString::to_string).collect();
    let starts: Vec<&String> = calls.iter().filter(|call| call.starts_with("start")).collect();
    assert_eq!(starts.len(), 9, "{starts:?}");
    assert_eq!(lab.servers().len(), 4, "it is no server");
    assert!(names(&fake).contains(&"tb-one-app".to_owned()));
    lab::sweep(&engines(&fake), &lab::labels_of(None)).await.unwrap();
    assert_eq!(names(&fake), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_application_that_ends_is_reported_with_its_last_words() {
    let fake = Fake::new();
    fake.doom("tb-one-app", 127, "no such file");
    let plan = plan_where("one", &[], with_an_application);
    let error = failed(raise(&fake, plan).await);
    let text = error.to_string();
    assert!(matches!(error, LabError::NodeEnded { .. }), "{text}");
    assert!(text.contains("node app") && text.contains("no such file"), "{text}");
    assert_eq!(names(&fake), [""; 0]);
}
