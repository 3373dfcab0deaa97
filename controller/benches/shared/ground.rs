//! What the benches of the relay stand on: a lab of two datacenters with a server each, raised and lowered by the binary
//! under test, and both directions of its one link changed together.
//!
//! Asserts nothing but that things answer: figures depend on the machine, and whoever reads them has to see how busy it
//! was, which is printed too.

// Each bench uses its own part of it.
#![allow(dead_code)]

use std::future::Future;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testbed::docker::{Docker, EngineHandle};
use testbed::lab::{self, Engines, Lab};
use testbed::names::{DatacenterName, LabName, NodeName};
use testbed::probe::{Beaconing, ProbeClient, Samples, nanoseconds};
use wire::{Bulk, Conditions, Load, Operation, Pace, Path, ProbeOrder, RelayOrder, RelayStatus, Transport};

pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

pub const LIMIT: Duration = Duration::from_secs(5);
pub const MS: u64 = 1_000_000;

const TOPOLOGY: &str = "\
version: 1
datacenters:
  dc1:
  dc2:
links:
  dc1-dc2: { delay: 0ms }
defaults:
  engine: redis
nodes:
  near: { datacenter: dc1 }
  far: { datacenter: dc2 }
";

/// The lab of a bench.
pub struct Ground {
    pub lab: Lab,
    dc1: DatacenterName,
    dc2: DatacenterName,
}

/// Raise a lab, measure in it, and lower it again whatever happened.
pub fn bench<F: Future<Output = Outcome<()>>>(name: &str, measure: impl FnOnce(Ground) -> F) -> ExitCode {
    // `cargo test --benches` calls it too; only `cargo bench` measures.
    if !has("--bench") {
        println!("skipped: measures only under `cargo bench`");
        return ExitCode::SUCCESS;
    }
    // Relays keep the cores awake while they hold packets, kernel forwarding does not: with this word both find them awake.
    let _awake = has("--awake").then(|| keep_awake().expect("the device of wake-ups can be written"));
    let runtime = tokio::runtime::Runtime::new().expect("a tokio runtime can be made");
    let outcome = raise(name).and_then(|()| {
        runtime.block_on(async {
            let ground = Ground::find(name).await?;
            ground.tell_foreign_load().await?;
            measure(ground).await
        })
    });
    let lowered = testbed(&["down", "-p", name]);
    match outcome.and(lowered.map(drop)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed to {error}");
            ExitCode::FAILURE
        }
    }
}

/// The kernel's wish list for wake-ups: as long as the file is open, no core falls asleep.
fn keep_awake() -> std::io::Result<std::fs::File> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().write(true).open(wire::AWAKE_DEVICE)?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok(file)
}

/// Whether this word is among the arguments.
pub fn has(word: &str) -> bool {
    std::env::args().any(|argument| argument == word)
}

fn raise(name: &str) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.yaml");
    std::fs::write(&file, TOPOLOGY)?;
    testbed(&["up", &file.display().to_string(), "-p", name]).map(drop)
}

/// Run the binary under test; its standard output.
pub fn testbed(arguments: &[&str]) -> Outcome<String> {
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

impl Ground {
    async fn find(name: &str) -> Outcome<Self> {
        let engine: EngineHandle = Arc::new(Docker::connect(None).await?);
        Ok(Self {
            lab: lab::find(&Engines::from(engine), Some(&LabName::new(name)?)).await?,
            dc1: DatacenterName::new("dc1")?,
            dc2: DatacenterName::new("dc2")?,
        })
    }

    /// Probe of the datacenter that the load comes from.
    pub fn probe(&self) -> &ProbeClient {
        self.lab.probe(&self.dc2)
    }

    /// Probe of the other one.
    pub fn far_probe(&self) -> &ProbeClient {
        self.lab.probe(&self.dc1)
    }

    /// The server in the other datacenter.
    pub fn target(&self) -> std::net::SocketAddrV4 {
        self.lab
            .target(&NodeName::new("near").expect("the topology has a valid name"))
    }

    /// Send packets so in both relays.
    pub async fn set_path(&self, path: Path) -> Outcome<()> {
        for datacenter in [&self.dc1, &self.dc2] {
            self.lab.relay(datacenter).order(RelayOrder::SetPath { path }).await?;
        }
        Ok(())
    }

    /// Conditions of both directions.
    pub async fn set(&self, conditions: &Conditions) -> Outcome<()> {
        self.lab.set(&self.dc1, &self.dc2, conditions, false).await?;
        self.lab.set(&self.dc2, &self.dc1, conditions, false).await?;
        Ok(())
    }

    /// A delay without limit of the rate.
    pub async fn set_delay(&self, delay_ns: u64) -> Outcome<()> {
        let rate_bits_per_s = None;
        let conditions = Conditions {
            rate_bits_per_s,
            ..Conditions::delay(delay_ns)
        };
        self.set(&conditions).await
    }

    /// State of both relays: that on the way there, that on the way back.
    pub async fn relays(&self) -> Outcome<[RelayStatus; 2]> {
        Ok([
            self.lab.relay(&self.dc2).order(RelayOrder::Show).await?,
            self.lab.relay(&self.dc1).order(RelayOrder::Show).await?,
        ])
    }

    /// Round trips of one operation on one connection, in microseconds.
    pub async fn round_trips(&self, operation: Operation, count: u32, pause_ns: u64) -> Outcome<Vec<f64>> {
        let load = Load {
            target: self.target(),
            operation,
            connections: 1,
            warmup: 20,
            count,
            for_ns: None,
            pace: Pace::Closed { pause_ns },
            timeout_ns: nanoseconds(LIMIT),
        };
        let limit = Duration::from_nanos(u64::from(count) * (pause_ns + 200 * MS)) + LIMIT;
        let measured = self.probe().samples(ProbeOrder::Load(load), limit).await?;
        if !measured.failures.is_empty() {
            return Err(format!("measure: {:?}", measured.failures).into());
        }
        Ok(microseconds(&measured))
    }

    /// Beacons in both directions, as a block's watch sends them.
    pub async fn beacons(&self, interval: Duration) -> Outcome<[Beaconing; 2]> {
        let [here, there] = [&self.dc1, &self.dc2].map(|name| self.lab.datacenter(name).probe_address);
        Ok([
            self.probe().beacons(vec![here], interval).await?,
            self.far_probe().beacons(vec![there], interval).await?,
        ])
    }

    /// Bulk traffic for so long.
    pub fn bulk(
        &self,
        transport: Transport,
        sockets: u32,
        message_bytes: u32,
        per_s: Option<u32>,
        span: Duration,
    ) -> Bulk {
        Bulk {
            target: self.lab.datacenter(&self.dc1).probe_address,
            transport,
            sockets,
            message_bytes,
            per_s,
            for_ns: nanoseconds(span),
        }
    }

    /// Busy time of all cores together since the host started: what they were not idle. Ticks that are counted as used
    /// miss what runs by a deadline; idle time is measured.
    pub async fn busy_s(&self) -> Outcome<f64> {
        let seen = self.probe().cpu().await?;
        let since_start = self.probe().order(ProbeOrder::Hello, LIMIT).await?;
        let wire::ProbeAnswer::Hello { now_ns, .. } = since_start else {
            return Err("read the clock of the probe".into());
        };
        Ok(now_ns as f64 / 1e9 * f64::from(seen.cores) - seen.idle_ticks as f64 / 100.0)
    }

    async fn tell_foreign_load(&self) -> Outcome<()> {
        let (before, began) = (self.busy_s().await?, Instant::now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let busy = (self.busy_s().await? - before) / began.elapsed().as_secs_f64();
        println!("before the measurement the host was busy with {busy:.2} cores of other work");
        for status in self.relays().await? {
            println!("relay of {}: scheduling {}", status.datacenter, status.scheduling);
        }
        Ok(())
    }
}

fn microseconds(measured: &Samples) -> Vec<f64> {
    let spans = measured
        .samples
        .iter()
        .map(|sample| sample.ended_ns - sample.started_ns);
    spans.map(|span_ns| span_ns as f64 / 1e3).collect()
}

/// The value below which such a share of a sample lies.
pub fn quantile(sample: &[f64], share: f64) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let below = sorted.len() as f64 * share;
    let place = (0..sorted.len()).take_while(|&place| (place as f64) < below).count();
    let last = sorted.len().saturating_sub(1);
    sorted.get(place.min(last)).copied().unwrap_or(f64::NAN)
}
