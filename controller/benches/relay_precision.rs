//! How exact a delay is: round trips of PING minus twice the delay, minus the median round trip of the same path at zero
//! delay with the same pause between two. On an idle machine, beside bulk traffic, and with every core busy; and the same
//! error of a relay of byte streams that sleeps with tokio, on loopback, in the same run.
//!
//! `cargo bench -p testbed --bench relay_precision [-- --long --awake]`. Needs a Docker engine; makes one lab and removes it.
//! Rounds go over all delays in turn. The only thing asserted is that everything answered.

#[path = "shared/ground.rs"]
mod ground;
#[path = "shared/tokio_relay.rs"]
mod tokio_relay;

use ground::{Ground, LIMIT, MS, Outcome, bench, has, quantile};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};
use std::time::Duration;
use wire::{Bulk, LATENESS_BOUNDS_NS, Operation, Path, ProbeOrder, Transport};

const LAB: &str = "bench-relay-precision";
/// Between a reply and the next request.
const PAUSE_NS: u64 = 10 * MS;
/// Delays in milliseconds, with the goals for median and 99th percentile of the error in microseconds.
const DELAYS: [(u64, f64, f64); 4] = [
    (1, 50.0, 300.0),
    (5, 50.0, 300.0),
    (20, 100.0, 300.0),
    (40, 100.0, 300.0),
];
const BULK_BYTES: u32 = 1 << 16;
/// 2 Gbit/s.
const BULK_PER_S: u32 = 2_000_000_000 / 8 / BULK_BYTES;

fn main() -> ExitCode {
    bench(LAB, measure)
}

async fn measure(ground: Ground) -> Outcome<()> {
    let (rounds, count) = if has("--long") { (10, 100) } else { (5, 40) };
    let told = |n: u32| println!("{n} round trips a row, {} ms apart, in {rounds} rounds", PAUSE_NS / MS);
    told(rounds * count);
    let errors = idle(&ground, rounds, count).await?;
    beside_bulk(&ground, rounds * count).await?;
    beside_busy_cores(&ground, rounds * count).await?;
    beside_tokio(&errors, rounds * count).await
}

fn print_head(title: &str) {
    println!(
        "\n{title:44} {:>8} {:>8} {:>8} {:>8} {:>8}  goal",
        "min", "median", "p95", "p99", "max"
    );
}

fn print_row(name: &str, sample: &[f64], goal: &str) {
    let [min, median, p95, p99, max] = [0.0, 0.5, 0.95, 0.99, 1.0].map(|share| quantile(sample, share));
    println!("{name:44} {min:>8.0} {median:>8.0} {p95:>8.0} {p99:>8.0} {max:>8.0}  {goal}");
}

/// Round trips minus twice the delay, microseconds.
async fn excess(ground: &Ground, delay_ms: u64, count: u32) -> Outcome<Vec<f64>> {
    ground.set_delay(delay_ms * MS).await?;
    let round_trips = ground.round_trips(Operation::Ping, count, PAUSE_NS).await?;
    let own = delay_ms as f64 * 2000.0;
    Ok(round_trips.into_iter().map(|us| us - own).collect())
}

/// Errors at each delay on the machine as it is.
async fn idle(ground: &Ground, rounds: u32, count: u32) -> Outcome<Vec<Vec<f64>>> {
    let mut forwarded = Vec::new();
    let mut zero = Vec::new();
    let mut rows = vec![Vec::new(); DELAYS.len()];
    for _ in 0..rounds {
        ground.set_path(Path::Kernel).await?;
        forwarded.extend(excess(ground, 0, count).await?);
        ground.set_path(Path::Tun).await?;
        zero.extend(excess(ground, 0, count).await?);
        for (row, (delay_ms, ..)) in rows.iter_mut().zip(DELAYS) {
            row.extend(excess(ground, delay_ms, count).await?);
        }
    }
    let path_us = quantile(&zero, 0.5);
    print_head("round trip at zero delay, us");
    print_row("relay", &zero, "");
    print_row("kernel forwarding: the machine's own spread", &forwarded, "");
    print_head("error on an idle machine, us");
    for (row, (delay_ms, median, p99)) in rows.iter_mut().zip(DELAYS) {
        row.iter_mut().for_each(|us| *us -= path_us);
        let goal = format!("median within {median:.0}, p99 within {p99:.0}");
        print_row(&format!("{delay_ms} ms"), row, &goal);
    }
    for status in ground.relays().await? {
        println!(
            "relay of {}: at most {} us early by intention",
            status.datacenter,
            status.early_ns / 1000
        );
    }
    Ok(rows)
}

/// Two directions of lateness, as the relays themselves count it.
async fn print_lateness(ground: &Ground, before: [[u64; LATENESS_BOUNDS_NS.len() + 1]; 2]) -> Outcome<()> {
    let after = lateness(ground).await?;
    for (way, (before, after)) in ["there", "back"].iter().zip(before.iter().zip(after)) {
        let classes: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        let all: u64 = classes.iter().sum();
        let bound = |share: f64| {
            let mut sum = 0;
            let class = classes.iter().position(|n| {
                sum += n;
                sum as f64 >= share * all as f64
            });
            class
                .and_then(|class| LATENESS_BOUNDS_NS.get(class))
                .map_or("more".to_owned(), |ns| (ns / 1000).to_string())
        };
        println!(
            "  lateness that the relay counted on the way {way}, us: median <= {}, p99 <= {}, p99.9 <= {} (n = {all})",
            bound(0.5),
            bound(0.99),
            bound(0.999)
        );
    }
    Ok(())
}

async fn lateness(ground: &Ground) -> Outcome<[[u64; LATENESS_BOUNDS_NS.len() + 1]; 2]> {
    Ok(ground.relays().await?.map(|status| status.links[0].counters.lateness))
}

async fn beside_bulk(ground: &Ground, count: u32) -> Outcome<()> {
    let bulk = Bulk {
        target: ground.bulk(Transport::Tcp, 1, BULK_BYTES, None, Duration::ZERO).target,
        ..ground.bulk(
            Transport::Tcp,
            1,
            BULK_BYTES,
            Some(BULK_PER_S),
            Duration::from_secs(3600),
        )
    };
    print_head("error beside 2 Gbit/s of bulk, us");
    for delay_ms in [5, 20] {
        ground.set_delay(delay_ms * MS).await?;
        let span_ns = u64::from(count) * (2 * delay_ms * MS + PAUSE_NS + 2 * MS) + 1000 * MS;
        let bulk = Bulk {
            for_ns: span_ns,
            ..bulk
        };
        let for_ns = span_ns + 200 * MS;
        let limit = LIMIT + Duration::from_nanos(for_ns);
        let sink = ground.far_probe().watch(ProbeOrder::Sink { for_ns }, limit).await?;
        let before = lateness(ground).await?;
        let (sent, errors) = tokio::join!(ground.probe().bulk(bulk), async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            excess(ground, delay_ms, count).await
        });
        let carried = sink.carried().await?;
        let (_, errors) = (sent?, errors?);
        let goal = if delay_ms == 5 { "p99 within 800" } else { "" };
        print_row(&format!("{delay_ms} ms"), &errors, goal);
        let rate = carried.bytes as f64 * 8.0 / (carried.last_ns - carried.first_ns) as f64;
        println!("  bulk arrived at {rate:.2} Gbit/s");
        print_lateness(ground, before).await?;
    }
    Ok(())
}

async fn beside_busy_cores(ground: &Ground, count: u32) -> Outcome<()> {
    let end = Arc::new(AtomicBool::new(false));
    let burners: Vec<_> = (0..available_parallelism()?.get())
        .map(|_| {
            let end = Arc::clone(&end);
            thread::spawn(move || while !end.load(Ordering::Relaxed) {})
        })
        .collect();
    print_head("error with every core busy, us");
    let before = lateness(ground).await?;
    let errors = excess(ground, 5, count).await;
    end.store(true, Ordering::Relaxed);
    for burner in burners {
        burner.join().expect("a burner does not panic");
    }
    print_row("5 ms", &errors?, "");
    print_lateness(ground, before).await
}

async fn beside_tokio(ours: &[Vec<f64>], count: u32) -> Outcome<()> {
    print_head("error of a stream relay with tokio's sleep, us");
    for (ours, (delay_ms, ..)) in ours.iter().zip(DELAYS) {
        let pause = Duration::from_nanos(PAUSE_NS);
        let errors = tokio_relay::errors(Duration::from_millis(delay_ms), count, pause).await?;
        print_row(&format!("{delay_ms} ms"), &errors, "");
        let (theirs, ours) = (quantile(&errors, 0.5), quantile(ours, 0.5));
        println!(
            "  its median is {:.1} times ours; goal: at least 10",
            theirs / ours.abs()
        );
    }
    Ok(())
}
