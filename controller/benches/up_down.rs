//! What `testbed up` and `testbed down` cost beside the same objects made and removed by bare concurrent engine calls:
//! both in one run, alternating, so that a slow minute of the host meets both. Prints medians and ratios; needs a Docker
//! engine. The bare side waits for nothing: `up` may take 1.3 times as long, and 1.5 s for the servers' own readiness.
//!
//! `cargo bench -p testbed --profile dev --bench up_down -- [ROUNDS] [TOPOLOGY]`

use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testbed::cli::{Color, Format, ReleaseArg};
use testbed::commands::prepare::{self, Ground};
use testbed::commands::source;
use testbed::docker::{Docker, Engine, Object, Sort};
use testbed::lab;
use testbed::names::LabName;
use testbed::plan::Plan;
use testbed::progress::Progress;

/// Bare calls under way at once.
const AT_ONCE: usize = 8;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let rounds: usize = arguments
        .first()
        .map_or(5, |rounds| rounds.parse().expect("a number of rounds"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let file = arguments.get(1).map_or(root.join("topologies/two-dc.yaml"), Into::into);
    let source = source::read(&file, Format::Text, Color::Never).expect("a topology");
    let releases = prepare::releases(&source.topology, &ReleaseArg { release: Vec::new() }).expect("releases");
    let docker = Docker::connect(None).await.expect("a Docker engine");
    let progress = Progress::new(false);
    let ground = Ground::prepare(docker, source, releases, &progress)
        .await
        .expect("images");
    let number = std::process::id();
    let (ours, bare) = (
        name(&format!("bench-up-{number}")),
        name(&format!("bench-bare-{number}")),
    );

    let (mut up, mut make, mut down, mut remove) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // The first of two has a colder engine: take turns.
        for side in [round % 2, 1 - round % 2] {
            if side == 0 {
                up.push(verb(&["up", &file.display().to_string(), "-p", ours.as_str()]));
                down.push(verb(&["down", "-p", ours.as_str()]));
            } else {
                let taken = ground.docker.subnets().await.expect("a list of subnets");
                let plan = ground.plan(&bare, None, &taken).expect("a plan");
                make.push(timed(make_all(&ground.docker, &plan)).await);
                remove.push(timed(remove_all(&ground.docker, &bare)).await);
            }
        }
        let last = |times: &[Duration]| times.last().map_or(0.0, Duration::as_secs_f64);
        println!(
            "round {}: up {:.2} s, bare {:.2} s; down {:.2} s, bare {:.2} s",
            round + 1,
            last(&up),
            last(&make),
            last(&down),
            last(&remove)
        );
    }
    let (up, make, down, remove) = (
        median(&mut up),
        median(&mut make),
        median(&mut down),
        median(&mut remove),
    );
    println!("medians of {rounds}: up {up:.2} s, bare {make:.2} s; down {down:.2} s, bare {remove:.2} s");
    let allowed = 1.3 * make + 1.5;
    println!(
        "up: {:.2} times bare; allowed 1.3 times + 1.5 s = {allowed:.2} s: {}",
        up / make,
        within(up, allowed)
    );
    let allowed = 1.3 * remove;
    println!(
        "down: {:.2} times bare; allowed 1.3 times = {allowed:.2} s: {}",
        down / remove,
        within(down, allowed)
    );
}

fn name(text: &str) -> LabName {
    LabName::new(text).expect("a lab name")
}

fn verb(arguments: &[&str]) -> Duration {
    let begun = Instant::now();
    let status = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(arguments)
        .arg("--quiet")
        .stdout(Stdio::null())
        .status()
        .expect("testbed runs");
    assert!(status.success(), "testbed {arguments:?} ended with {status}");
    begun.elapsed()
}

async fn timed(work: impl Future<Output = ()>) -> Duration {
    let begun = Instant::now();
    work.await;
    begun.elapsed()
}

async fn make_all(docker: &Docker, plan: &Plan) {
    let volumes = futures_util::stream::iter(&plan.volumes).for_each_concurrent(AT_ONCE, |spec| async move {
        docker.create_volume(spec).await.expect("a volume");
    });
    let networks = futures_util::stream::iter(&plan.networks)
        .map(|spec| async move {
            (
                spec.name.clone(),
                docker.create_network(spec).await.expect("a network").id,
            )
        })
        .buffer_unordered(AT_ONCE)
        .collect::<BTreeMap<String, String>>();
    let ((), networks) = tokio::join!(volumes, networks);
    let networks = &networks;
    let containers = futures_util::stream::iter(&plan.containers);
    containers
        .for_each_concurrent(AT_ONCE, |spec| async move {
            let made = docker.create_container(spec, networks).await.expect("a container");
            docker.start(&made.id).await.expect("it starts");
        })
        .await;
}

async fn remove_all(docker: &Docker, name: &LabName) {
    let objects = docker.list(&lab::labels_of(Some(name))).await.expect("a list");
    let (containers, others): (Vec<Object>, Vec<Object>) =
        objects.into_iter().partition(|object| object.sort == Sort::Container);
    for objects in [containers, others] {
        futures_util::stream::iter(objects)
            .for_each_concurrent(AT_ONCE, |object| async move {
                docker.remove(&object).await.expect("it goes");
            })
            .await;
    }
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn within(took: f64, allowed: f64) -> &'static str {
    if took <= allowed { "within" } else { "OVER" }
}
