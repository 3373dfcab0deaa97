//! How the time until a cluster is usable grows with its size: from 6 to 30 nodes over two datacenters, a replica for each
//! master in the other one, raised by the binary under test. Usable: every node sees all others in their places, serves, and
//! every replica is linked. Two of those seconds no cluster can save: a master that has just started reports none to be ok.
//!
//! `cargo bench -p testbed --profile dev --bench cluster_forming -- [ROUNDS] [SIZES]`, sizes as `6,12,30`; `TESTBED_RELEASE`
//! chooses the server. Asserts nothing: figures depend on the machine.

use std::fmt::Write as _;
use std::process::{Command, ExitCode};
use testbed::cluster::Slots;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const SIZES: &str = "6,12,18,24,30";

fn main() -> ExitCode {
    // `cargo test --benches` calls it too; only `cargo bench` measures.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("skipped: measures only under `cargo bench`");
        return ExitCode::SUCCESS;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed to {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let rounds: usize = arguments.first().map_or(Ok(3), |rounds| rounds.parse())?;
    let sizes = arguments.get(1).map_or(SIZES, String::as_str);
    let sizes: Vec<usize> = sizes.split(',').map(str::parse).collect::<Result<_, _>>()?;
    println!("load before: {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    println!("NODES  ALL ANSWER  USABLE  AFTER THE LAST ANSWER   (s since `up` began; medians of {rounds})");
    for size in sizes {
        let mut times = Vec::new();
        for _ in 0..rounds {
            times.push(raise(size)?);
        }
        let median = |of: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = times.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (answer, usable) = (median(|time| time.0), median(|time| time.1));
        let after = median(|time| time.1 - time.0);
        println!("{size:>5}  {answer:>10.2}  {usable:>6.2}  {after:>21.2}");
    }
    Ok(())
}

/// A cluster of so many nodes; when all servers answered, and when it was usable, in seconds.
fn raise(size: usize) -> Outcome<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.yaml");
    std::fs::write(&file, topology(size / 2)?)?;
    let name = format!("bench-forming-{}", std::process::id());
    let up = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["up", &file.display().to_string(), "-p", &name])
        .output()?;
    let down = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["--quiet", "down", "-p", &name])
        .output()?;
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    if !up.status.success() || !down.status.success() {
        let left = String::from_utf8_lossy(&down.stderr);
        return Err(format!("raise and lower {size} nodes: {said}{left}").into());
    }
    // `[  4.16 s] 10 containers run, 6 servers answer`: since the command began; both lines count from the same instant.
    let at = |words: &str| -> Outcome<f64> {
        let line = said.lines().find(|line| line.contains(words));
        let stamp = line.and_then(|line| line.strip_prefix('[')?.split_once(" s]"));
        let (seconds, _) = stamp.ok_or_else(|| format!("find `{words}` in {said}"))?;
        Ok(seconds.trim().parse()?)
    };
    Ok((at("servers answer")?, at("nodes in their places")?))
}

fn topology(masters: usize) -> Outcome<String> {
    let mut text =
        "version: 1\ndatacenters:\n  dc1:\n  dc2:\nlinks:\n  dc1-dc2: { delay: 20ms }\ndefaults:\n  engine: redis\n  \
                    config: { cluster-node-timeout: 2000 }\nnodes:\n"
            .to_owned();
    for (number, slots) in Slots::even(masters).iter().enumerate() {
        let (here, there) = if number % 2 == 0 {
            ("dc1", "dc2")
        } else {
            ("dc2", "dc1")
        };
        writeln!(
            text,
            "  m{number}: {{ datacenter: {here}, cluster: bench, slots: \"{slots}\" }}\n  \
             r{number}: {{ datacenter: {there}, replica-of: m{number} }}"
        )?;
    }
    Ok(text)
}
