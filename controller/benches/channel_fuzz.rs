//! Fuzzes the controller's end of the lines to relays and probes: whatever comes over them, every order ends with its own
//! answer, a refusal to read it, or its deadline; nothing panics, and nothing is kept without bound.
//!
//! `cargo bench -p testbed --profile fuzz --bench channel_fuzz -- [--seconds 60] [--seed N]`; a failure prints the seed of its round,
//! `--round SEED` runs that one again. Time is the runtime's own, so that a deadline costs nothing.

#[path = "../../images/relay/benches/shared/fuzzing.rs"]
mod fuzzing;

use fastrand::Rng;
use fuzzing::{Asked, Memory};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant as Wall};
use testbed::channel::{Channel, ChannelError};
use testbed::docker::Attached;
use testbed::docker::fake::Fake;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use wire::{FromProbe, FromRelay};

/// Limit of an order.
const SOON: Duration = Duration::from_secs(2);
/// Most memory that a run may grow by after its first thousand rounds, KiB.
const MOST_GROWTH_KIB: u64 = 128 << 10;
/// Longest error, bytes: it repeats what was heard, shortened.
const LONGEST_ERROR: usize = 20_000;
/// What every long run has to see.
const MUST: [&str; 5] = [
    "answered",
    "answer of a relay or probe",
    "deadline",
    "ended",
    "no answer in it",
];

type Reached = BTreeMap<&'static str, u64>;

fn main() -> ExitCode {
    let Some(asked) = Asked::on_the_command_line() else {
        return ExitCode::from(2);
    };
    match asked.round {
        Some(round) if holds(round, &mut Reached::new()) => {
            println!("round {round}: no failure");
            ExitCode::SUCCESS
        }
        Some(_) => ExitCode::FAILURE,
        None => fuzz(asked.seed, asked.span),
    }
}

fn fuzz(seed: u64, span: Duration) -> ExitCode {
    let (mut seeds, mut reached, begun) = (Rng::with_seed(seed), Reached::new(), Wall::now());
    let (mut executions, mut memory) = (0_u64, Memory::new(MOST_GROWTH_KIB));
    while begun.elapsed() < span {
        if !holds(seeds.u64(..), &mut reached) {
            return ExitCode::FAILURE;
        }
        executions += 1;
        memory.after(executions);
    }
    println!(
        "seed {seed}: {executions} executions in {} s, no failure",
        span.as_secs()
    );
    for (what, count) in &reached {
        println!("{count:>12}  {what}");
    }
    let mut well = memory.holds();
    let missed: Vec<_> = MUST.iter().filter(|what| !reached.contains_key(**what)).collect();
    if executions >= 10_000 && !missed.is_empty() {
        println!("never reached: {missed:?}");
        well = false;
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn holds(seed: u64, reached: &mut Reached) -> bool {
    let round = catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(round(&mut Rng::with_seed(seed), reached));
    }));
    if round.is_err() {
        println!("FAILED in round {seed}: run it again with --round {seed}");
    }
    round.is_ok()
}

/// A few orders on one line, and what a program that has lost its mind says meanwhile.
async fn round(rng: &mut Rng, reached: &mut Reached) {
    let (near, mut far) = tokio::io::duplex(1 << rng.u8(6..18));
    let (stdout, stdin) = tokio::io::split(near);
    let streams = Attached {
        stdin: Box::pin(stdin),
        stdout: Box::pin(stdout),
    };
    let channel = Channel::over(Arc::new(Fake::new()), "tb-x-relay.dc1", streams);
    let deadline = Instant::now() + SOON;
    let mut waiting = Vec::new();
    for id in 1..=rng.u64(1..4) {
        let json = format!("{{\"id\":{id}}}");
        match channel.send(id, "Show".to_owned(), json, deadline).await {
            Ok(pending) => waiting.push(pending),
            Err(error) => told(&error, reached),
        }
    }
    let mut said = Vec::new();
    for _ in 0..rng.usize(..12) {
        said.extend(line(rng));
        if rng.u8(..12) > 0 {
            said.push(b'\n');
        }
    }
    let ends = rng.bool();
    let speaking = tokio::spawn(async move {
        // A reader that went away is none of this program's business.
        let _ = far.write_all(&said).await;
        if !ends {
            tokio::time::sleep(2 * SOON).await;
        }
    });
    for mut pending in waiting {
        for _ in 0..rng.usize(1..3) {
            match pending.next(deadline).await {
                Ok(answer) => {
                    *reached.entry("answered").or_insert(0) += 1;
                    let head: serde_json::Value = serde_json::from_str(&answer).expect("what has an id is JSON");
                    assert_eq!(head["id"].as_u64(), Some(pending.id()), "somebody else's answer");
                    let known = serde_json::from_str::<FromRelay>(&answer).is_ok()
                        || serde_json::from_str::<FromProbe>(&answer).is_ok();
                    let what = if known {
                        "answer of a relay or probe"
                    } else {
                        "no answer in it"
                    };
                    *reached.entry(what).or_insert(0) += 1;
                    told(&pending.strange(&answer), reached);
                }
                Err(error) => told(&error, reached),
            }
        }
    }
    let _ = channel.idle(deadline).await;
    speaking.abort();
}

/// An error names its container and is no longer than a reader can bear.
fn told(error: &ChannelError, reached: &mut Reached) {
    let what = match error {
        ChannelError::Deadline { .. } => "deadline",
        ChannelError::Ended { .. } => "ended",
        ChannelError::Strange { .. } => "strange",
        ChannelError::Refused { .. } => "refused",
        ChannelError::Attach(_) => "attach",
    };
    *reached.entry(what).or_insert(0) += 1;
    let text = error.to_string();
    assert!(
        text.contains("tb-x-relay.dc1") && text.len() < LONGEST_ERROR,
        "{} bytes",
        text.len()
    );
}

/// What may come on one line.
fn line(rng: &mut Rng) -> Vec<u8> {
    let id = rng.u64(..5);
    let answer = format!("{{\"id\":{id},\"result\":{{\"Err\":\"no link leads to `dc9`\"}}}}");
    match rng.u8(..10) {
        0..3 => answer.into_bytes(),
        3 => format!("{{\"id\":{id},\"result\":{{\"Ok\":{}}}}}", "[".repeat(rng.usize(..300))).into_bytes(),
        4 => format!("{{\"id\":{id},\"x\":\"{}\"}}", "y".repeat(rng.usize(..200_000))).into_bytes(),
        5 => answer.as_bytes()[..rng.usize(..answer.len())].to_vec(),
        6 => {
            let mut bytes = answer.into_bytes();
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
            bytes
        }
        7 => format!("{{\"id\":{},\"id\":{id}}}", rng.u64(..)).into_bytes(),
        8 => b"\x1b[2J\x00\xff panicked at".to_vec(),
        _ => (0..rng.usize(..64)).map(|_| rng.u8(..)).collect(),
    }
}
