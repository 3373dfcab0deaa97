//! What the relay itself costs at zero delay: small requests, pipelined requests, bulk and datagrams, through the TUN and
//! the delay line, beside the same path with the two relays forwarding in the kernel. One lab, both paths in turn, so that
//! a slow minute of the host meets both.
//!
//! `cargo bench -p testbed --bench relay_cost [-- --long --awake]`. Needs a Docker engine; makes one lab and removes it. Prints
//! medians over the rounds beside the goals; the only thing asserted is that both paths answered.

#[path = "shared/ground.rs"]
mod ground;

use ground::{Ground, LIMIT, Outcome, bench, has, quantile, testbed};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use testbed::stats::median;
use wire::{Bulk, Carried, Operation, Path, ProbeOrder, Reply, Transport};

const LAB: &str = "bench-relay-cost";
const GETS: u32 = 2000;
const PIPELINED: &str = "200000";
const SPAN: Duration = Duration::from_secs(2);
const OFFERED_PER_S: u32 = 100_000;

fn main() -> ExitCode {
    bench(LAB, measure)
}

/// One round on one path.
struct Round {
    get_us: f64,
    get_p99_us: f64,
    pipelined_per_s: f64,
    bulk_gbit_per_s: f64,
    bulk_cpu_s_per_gb: f64,
    datagrams_per_s: f64,
}

async fn measure(ground: Ground) -> Outcome<()> {
    let rounds_wanted = if has("--long") { 11 } else { 5 };
    ground.set_delay(0).await?;
    let key = ["SET", "get:0", &"x".repeat(64)];
    let set = ground.probe().redis(ground.target(), &key, LIMIT).await?;
    if set != Reply::Text("OK".into()) {
        return Err(format!("SET a key: {set:?}").into());
    }
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..rounds_wanted {
        // The order alternates, so that neither path always has the warmer machine.
        let mut order = [(0, Path::Tun), (1, Path::Kernel)];
        if round % 2 == 1 {
            order.reverse();
        }
        for (slot, path) in order {
            ground.set_path(path).await?;
            rounds[slot].push(one(&ground).await?);
        }
    }
    ground.set_path(Path::Tun).await?;
    print(&rounds);
    Ok(())
}

/// From dc2 to dc1: what goes there and what comes back meets both relays.
async fn one(ground: &Ground) -> Outcome<Round> {
    let get = Operation::Get {
        key: "get:".into(),
        keys: 1,
        stride: 1,
    };
    let gets = ground.round_trips(get, GETS, 0).await?;
    let pipelined_per_s = pipelined(ground)?;
    let (busy_s, began) = (ground.busy_s().await?, Instant::now());
    let (_, carried) = carry(ground, ground.bulk(Transport::Tcp, 1, 1 << 17, None, SPAN)).await?;
    let spent_s = ground.busy_s().await? - busy_s;
    if began.elapsed() > 3 * SPAN {
        return Err("measure bulk: it took far too long".into());
    }
    let (sent, taken) = carry(ground, ground.bulk(Transport::Udp, 1, 64, Some(OFFERED_PER_S), SPAN)).await?;
    Ok(Round {
        get_us: quantile(&gets, 0.5),
        get_p99_us: quantile(&gets, 0.99),
        pipelined_per_s,
        bulk_gbit_per_s: carried.bytes as f64 * 8.0 / (carried.last_ns - carried.first_ns) as f64,
        bulk_cpu_s_per_gb: spent_s / (carried.bytes as f64 / 1e9),
        datagrams_per_s: taken.messages as f64 * 1e9 / (sent.last_ns - sent.first_ns) as f64,
    })
}

/// What was sent and what arrived.
async fn carry(ground: &Ground, bulk: Bulk) -> Outcome<(Carried, Carried)> {
    // It listens a little longer than is sent, for what is on its way.
    let for_ns = bulk.for_ns + 200 * ground::MS;
    let sink = ground
        .far_probe()
        .watch(ProbeOrder::Sink { for_ns }, LIMIT + 2 * SPAN)
        .await?;
    let sent = ground.probe().bulk(bulk).await?;
    let taken = sink.carried().await?;
    if taken.bytes == 0 {
        return Err(format!("carry {bulk:?}: nothing arrived").into());
    }
    Ok((sent, taken))
}

/// redis-benchmark, unmodified, from the far server's container: 50 connections, 16 requests in flight on each.
fn pipelined(ground: &Ground) -> Outcome<f64> {
    let (host, port) = (ground.target().ip().to_string(), ground.target().port().to_string());
    let command = ["exec", "-p", LAB, "far", "redis-benchmark", "-h", &host, "-p", &port];
    let load = [
        "-c", "50", "-P", "16", "-n", PIPELINED, "-d", "64", "-t", "get", "--csv",
    ];
    let text = testbed(&[&command[..], &load[..]].concat())?;
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
        median(&values).expect("every round was measured")
    };
    println!(
        "{} rounds, both paths in each; medians over rounds; a round: {GETS} GETs, {PIPELINED} pipelined, {} s of bulk, {} s of datagrams",
        rounds[0].len(),
        SPAN.as_secs(),
        SPAN.as_secs()
    );
    println!(
        "{:38} {:>10} {:>10} {:>8} {:>10}  goal",
        "", "relay", "kernel", "ratio", "difference"
    );
    let line = |what: &str, of: fn(&Round) -> f64, digits: usize, goal: &str| {
        let (relay, kernel) = (middle(0, of), middle(1, of));
        println!(
            "{what:38} {relay:>10.digits$} {kernel:>10.digits$} {:>8.3} {:>+10.digits$}  {goal}",
            relay / kernel,
            relay - kernel
        );
    };
    line("GET, 1 connection, median, us", |round| round.get_us, 1, "at most +15");
    line("GET, 1 connection, p99, us", |round| round.get_p99_us, 1, "");
    let pipelined = "GET, 50 connections x 16, per s";
    line(pipelined, |round| round.pipelined_per_s, 0, "at least 0.65");
    let bulk = "bulk, 1 connection, Gbit/s";
    line(bulk, |round| round.bulk_gbit_per_s, 2, "at least 0.8");
    let cpu = "bulk, CPU seconds of the host per GB";
    line(cpu, |round| round.bulk_cpu_s_per_gb, 2, "at most 1.25");
    let datagrams = "datagrams arrived of 100000/s";
    line(datagrams, |round| round.datagrams_per_s, 0, "over 0.995");
}
