//! Where a relay ends: processor time while nothing happens, memory and truth of the delay at the default rate limit, bulk
//! over a long link with the windows that TCP has by default, and whether an overloaded relay says so.
//!
//! `cargo bench -p testbed --profile dev --bench relay_limits`. Needs a Docker engine on this machine; makes one lab and
//! removes it. Asserts only that traffic arrived.

#[path = "shared/ground.rs"]
mod ground;

use ground::{Ground, LIMIT, MS, Outcome, bench, quantile};
use std::process::{Command, ExitCode};
use std::time::Duration;
use wire::{Conditions, LinkCounters, Operation, ProbeOrder, Transport};

const LAB: &str = "bench-relay-limits";
const SPAN: Duration = Duration::from_secs(4);
const IDLE: Duration = Duration::from_secs(10);
const MESSAGE: u32 = 1 << 17;
/// Between two beacons of a block's watch.
const BEACONS: Duration = Duration::from_millis(20);
const ROUNDS: u32 = 4;
const PINGS: u32 = 100;

fn main() -> ExitCode {
    bench(LAB, measure)
}

async fn measure(ground: Ground) -> Outcome<()> {
    idle(&ground).await?;
    watched(&ground).await?;
    println!(
        "\n{:34} {:>8} {:>9} {:>9} {:>9} {:>11} {:>9}",
        "bulk for 4 s", "Gbit/s", "held MiB", "RSS MiB", "late p99", "overloaded", "dropped"
    );
    let default = Conditions::delay(20 * MS);
    let most = default.rate_bits_per_s.map_or(0, |rate| 2 * rate / 8 / 50) / (1 << 20) + 16;
    bulk(
        &ground,
        "20 ms, default rate, 8 streams",
        &default,
        8,
        &format!("RSS below {most}"),
    )
    .await?;
    let unlimited = |delay_ms: u64| Conditions {
        rate_bits_per_s: None,
        ..Conditions::delay(delay_ms * MS)
    };
    bulk(
        &ground,
        "20 ms, no limit, 1 stream",
        &unlimited(20),
        1,
        "by TCP: nothing dropped, not late",
    )
    .await?;
    bulk(
        &ground,
        "5 ms, no limit, 16 streams",
        &unlimited(5),
        16,
        "says that it is overloaded",
    )
    .await
}

/// Processor time of the relays over a while without traffic but what an idle replica sends.
async fn idle(ground: &Ground) -> Outcome<()> {
    let before = relays()?;
    tokio::time::sleep(IDLE).await;
    for (before, after) in before.iter().zip(relays()?) {
        let share = (after.cpu_ticks - before.cpu_ticks) as f64 / 100.0 / IDLE.as_secs_f64();
        println!(
            "{}: {:.2} % of a core while idle, {} KiB",
            after.name,
            share * 100.0,
            after.rss_kib
        );
    }
    ground.relays().await.map(drop)
}

/// Round trips over 20 ms without and with the watch of a block: a beacon every 20 ms in each direction.
async fn watched(ground: &Ground) -> Outcome<()> {
    ground.set_delay(20 * MS).await?;
    let mut round_trips = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (watched, sample) in round_trips.iter_mut().enumerate() {
            let beacons = if watched == 1 {
                Some(ground.beacons(BEACONS).await?)
            } else {
                None
            };
            sample.extend(ground.round_trips(Operation::Ping, PINGS, 3 * MS).await?);
            if let Some(beacons) = beacons {
                futures_util::future::try_join_all(beacons.map(|beacons| beacons.stop(LIMIT))).await?;
            }
        }
    }
    for (sample, name) in round_trips.iter().zip(["without the watch", "with the watch"]) {
        let [median, p99] = [0.5, 0.99].map(|share| quantile(sample, share) - 40_000.0);
        println!(
            "PING over 40 ms {name}: {median:.0} us more in the median, {p99:.0} at p99 (n={})",
            sample.len()
        );
    }
    Ok(())
}

async fn bulk(ground: &Ground, name: &str, conditions: &Conditions, streams: u32, goal: &str) -> Outcome<()> {
    ground.set(conditions).await?;
    let before = ground.relays().await?[0].links[0].counters;
    let bulk = ground.bulk(Transport::Tcp, streams, MESSAGE, None, SPAN);
    // What is queued when the sender ends has its time too.
    let for_ns = bulk.for_ns + 2000 * MS;
    let sink = ground
        .far_probe()
        .watch(ProbeOrder::Sink { for_ns }, LIMIT + 2 * SPAN)
        .await?;
    ground.probe().bulk(bulk).await?;
    let carried = sink.carried().await?;
    if carried.bytes == 0 {
        return Err(format!("carry bulk over {name}: nothing arrived").into());
    }
    let after = ground.relays().await?[0].links[0].counters;
    let rss = relays()?.iter().map(|relay| relay.rss_kib).max().unwrap_or_default();
    println!(
        "{name:34} {:>8.2} {:>9.1} {:>9.1} {:>9} {:>11} {:>9}  {goal}",
        carried.bytes as f64 * 8.0 / (carried.last_ns - carried.first_ns) as f64,
        after.held_bytes_max as f64 / f64::from(1 << 20),
        rss as f64 / 1024.0,
        lateness_p99(&before, &after),
        format!("{} x 0.1 s", after.overloaded_tenths - before.overloaded_tenths),
        (after.dropped_queue + after.dropped_rate) - (before.dropped_queue + before.dropped_rate),
    );
    Ok(())
}

/// Class of the lateness below which 99 in 100 were.
fn lateness_p99(before: &LinkCounters, after: &LinkCounters) -> String {
    let classes = after
        .lateness
        .iter()
        .zip(&before.lateness)
        .map(|(after, before)| after - before);
    let classes: Vec<u64> = classes.collect();
    let all: u64 = classes.iter().sum();
    let mut sum = 0;
    let class = classes.iter().position(|n| {
        sum += n;
        sum * 100 >= all * 99
    });
    match class.and_then(|class| wire::LATENESS_BOUNDS_NS.get(class)) {
        Some(bound_ns) => format!("<={}us", bound_ns / 1000),
        None => "more".to_owned(),
    }
}

/// A relay's process, as the kernel counts it.
struct Process {
    name: String,
    cpu_ticks: u64,
    rss_kib: u64,
}

fn relays() -> Outcome<Vec<Process>> {
    ["dc1", "dc2"].into_iter().map(process).collect()
}

fn process(datacenter: &str) -> Outcome<Process> {
    let name = format!("tb-{LAB}-relay.{datacenter}");
    let output = Command::new("docker")
        .args(["inspect", "-f", "{{.State.Pid}}", &name])
        .output()?;
    let pid: u32 = String::from_utf8(output.stdout)?.trim().parse()?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name in brackets: state is the third column, user and system time the 14th and 15th.
    let columns = stat
        .rsplit_once(')')
        .ok_or("read /proc: no name")?
        .1
        .split_ascii_whitespace();
    let cpu_ticks = columns
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let rss = rss
        .and_then(|text| text.trim().strip_suffix(" kB"))
        .ok_or("read /proc: no VmHWM")?;
    Ok(Process {
        name,
        cpu_ticks,
        rss_kib: rss.trim().parse()?,
    })
}
