//! What the relay itself costs: GET through the TUN and the delay line at zero delay, beside the same path with the two
//! relays forwarding in the kernel. One lab, both paths in turn, so that a slow minute of the host meets both.
//!
//! `cargo bench -p testbed --bench relay_cost`. Needs a Docker engine; makes one lab and removes it. Prints medians over
//! the rounds and the ratio; the only thing asserted is that both paths answered.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use testbed::docker::{Docker, EngineHandle};
use testbed::lab::{self, Engines, Lab};
use testbed::names::{DatacenterName, LabName, NodeName};
use testbed::stats::Summary;
use wire::{Load, Operation, Pace, Path, ProbeOrder, RelayOrder, Reply};

const LAB: &str = "bench-relay-cost";
const ROUNDS: usize = 7;
const GETS: u32 = 2000;
const LIMIT: Duration = Duration::from_secs(5);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    // `cargo test --benches` calls it too; only `cargo bench` measures.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("skipped: measures only under `cargo bench`");
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a tokio runtime can be made");
    let outcome = testbed(&["up", &topology(), "-p", LAB]).and_then(|_| runtime.block_on(measure()));
    let lowered = testbed(&["down", "-p", LAB]);
    match outcome.and(lowered) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed to {error}");
            ExitCode::FAILURE
        }
    }
}

fn topology() -> String {
    format!("{}/../topologies/two-dc.yaml", env!("CARGO_MANIFEST_DIR"))
}

fn testbed(arguments: &[&str]) -> Outcome<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .arg("--quiet")
        .args(arguments)
        .output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("run testbed {}: {said}", arguments.join(" ")).into())
}

/// One round on one path.
struct Round {
    get_us: Summary,
    pipelined_per_s: f64,
}

async fn measure() -> Outcome<()> {
    let engine: EngineHandle = Arc::new(Docker::connect(None).await?);
    let lab = lab::find(&Engines::from(engine), Some(&LabName::new(LAB)?)).await?;
    let [dc1, dc2] = [DatacenterName::new("dc1")?, DatacenterName::new("dc2")?];
    lab.set_delay_both(&dc1, &dc2, 0).await?;
    let primary = lab.target(&NodeName::new("redis-primary")?);
    let set = lab
        .probe(&dc1)
        .redis(primary, &["SET", "get:0", &"x".repeat(64)], LIMIT)
        .await?;
    if set != Reply::Text("OK".into()) {
        return Err(format!("SET a key: {set:?}").into());
    }
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        // The order alternates, so that neither path always has the warmer machine.
        let mut order = [(0, Path::Tun), (1, Path::Kernel)];
        if round % 2 == 1 {
            order.reverse();
        }
        for (slot, path) in order {
            rounds[slot].push(one(&lab, path).await?);
        }
    }
    for datacenter in [&dc1, &dc2] {
        lab.relay(datacenter)
            .order(RelayOrder::SetPath { path: Path::Tun })
            .await?;
    }
    print(&rounds);
    Ok(())
}

/// From the probe of dc2 to the primary in dc1: each request and each reply meets both relays.
async fn one(lab: &Lab, path: Path) -> Outcome<Round> {
    let [dc1, dc2] = [DatacenterName::new("dc1")?, DatacenterName::new("dc2")?];
    for datacenter in [&dc1, &dc2] {
        lab.relay(datacenter).order(RelayOrder::SetPath { path }).await?;
    }
    let load = Load {
        target: lab.target(&NodeName::new("redis-primary")?),
        operation: Operation::Get {
            key: "get:".into(),
            keys: 1,
            stride: 1,
        },
        connections: 1,
        warmup: 200,
        count: GETS,
        for_ns: None,
        pace: Pace::Closed { pause_ns: 0 },
        timeout_ns: 5_000_000_000,
    };
    let measured = lab.probe(&dc2).samples(ProbeOrder::Load(load), 2 * LIMIT).await?;
    if !measured.failures.is_empty() {
        return Err(format!("GET: {:?}", measured.failures).into());
    }
    let us: Vec<f64> = measured
        .samples
        .iter()
        .map(|sample| (sample.ended_ns - sample.started_ns) as f64 / 1e3)
        .collect();
    Ok(Round {
        get_us: Summary::of(&us).ok_or("summarise GETs: none was measured")?,
        pipelined_per_s: pipelined(lab)?,
    })
}

/// redis-benchmark, unmodified, from the far replica's container: 50 connections, 16 requests in flight on each.
fn pipelined(lab: &Lab) -> Outcome<f64> {
    let target = lab.target(&NodeName::new("redis-primary")?);
    let (host, port) = (target.ip().to_string(), target.port().to_string());
    let words = [
        "exec",
        "-p",
        LAB,
        "redis-far",
        "redis-benchmark",
        "-h",
        &host,
        "-p",
        &port,
        "-c",
        "50",
        "-P",
        "16",
        "-n",
        "300000",
        "-d",
        "64",
        "-t",
        "get",
        "--csv",
    ];
    let text = testbed(&words)?;
    let line = text.lines().find(|line| line.starts_with("\"GET\""));
    let rate = line
        .and_then(|line| line.split(',').nth(1))
        .map(|cell| cell.trim_matches('"'));
    Ok(rate
        .ok_or_else(|| format!("read redis-benchmark's answer: {text}"))?
        .parse()?)
}

fn print(rounds: &[Vec<Round>; 2]) {
    let middle = |slot: usize, of: fn(&Round) -> f64| {
        let values: Vec<f64> = rounds[slot].iter().map(of).collect();
        testbed::stats::median(&values).expect("every round was measured")
    };
    println!(
        "{ROUNDS} rounds, both paths in each; n = {GETS} GETs and 300000 pipelined GETs a round; medians over rounds"
    );
    println!(
        "{:34} {:>10} {:>10} {:>22}",
        "", "relay", "kernel", "relay against kernel"
    );
    let line = |what: &str, of: fn(&Round) -> f64, digits: usize| {
        let (relay, kernel) = (middle(0, of), middle(1, of));
        println!(
            "{what:34} {relay:>10.digits$} {kernel:>10.digits$} {:>12.2} ({:+.digits$})",
            relay / kernel,
            relay - kernel
        );
    };
    line("GET, 1 connection, median, us", |round| round.get_us.median, 1);
    line("GET, 1 connection, p95, us", |round| round.get_us.p95, 1);
    line("GET, 50 connections x 16, per s", |round| round.pipelined_per_s, 0);
}
