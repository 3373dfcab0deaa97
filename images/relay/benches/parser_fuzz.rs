//! Fuzzes all that reads what a node has sent: headers, bursts, checksums, resets, copies, flows, and a lane under it. Frames
//! are made field by field as a kernel would, and most are then mutilated where it hurts.
//!
//! `cargo bench -p relay --profile fuzz --bench parser_fuzz -- [--seconds 60] [--seed N]` prints executions, executions per
//! second and how often each part was reached. A failure prints the seed of its round: `--round SEED` runs that one again, with
//! what failed and its bytes. Not libFuzzer: no coverage guides it, so that nothing but a stable compiler is needed.

#[path = "parser_fuzz/frames.rs"]
mod frames;
#[path = "shared/fuzzing.rs"]
mod fuzzing;
#[path = "parser_fuzz/link.rs"]
mod link;
#[path = "parser_fuzz/oracle.rs"]
mod oracle;

use fastrand::Rng;
use frames::{mutilated, sound};
use fuzzing::{Asked, Memory};
use link::Trial;
use oracle::Reached;
use relay::flows::Flows;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Frames of a round: one lane and one table of flows meet them all.
const FRAMES: u64 = 64;
/// Most memory that a run may grow by after its first thousand rounds, KiB.
const MOST_GROWTH_KIB: u64 = 64 << 10;
/// A part that so many executions did not reach is not tested.
const ENOUGH: u64 = 100_000;
/// All that must be reached.
const PARTS: [&str; 19] = [
    "no IPv4",
    "fragment",
    "TCP",
    "reset",
    "told the MTU",
    "checksum completed",
    "burst split",
    "burst of several",
    "flow reset",
    "lane: cut",
    "lane: lost",
    "lane: too large",
    "lane: no turn at the rate",
    "lane: no room",
    "lane: refused by the kernel",
    "lane: doubled",
    "lane: corrupted",
    "lane: reset",
    "lane: unchanged",
];

fn main() -> ExitCode {
    let Some(asked) = Asked::on_the_command_line() else {
        return ExitCode::from(2);
    };
    match asked.round {
        Some(round) => again(round),
        None => fuzz(asked.seed, asked.span),
    }
}

fn fuzz(seed: u64, span: Duration) -> ExitCode {
    let (mut seeds, mut reached, begun) = (Rng::with_seed(seed), Reached::new(), Instant::now());
    let (mut executions, mut memory) = (0, Memory::new(MOST_GROWTH_KIB));
    while begun.elapsed() < span {
        let round = seeds.u64(..);
        if !holds(round, &mut reached) {
            return ExitCode::FAILURE;
        }
        executions += FRAMES;
        memory.after(executions / FRAMES);
    }
    let per_s = executions / u64::try_from(begun.elapsed().as_millis().max(1)).unwrap_or(u64::MAX) * 1000;
    println!("seed {seed}: {executions} executions, about {per_s} per second, no failure");
    let checked = if cfg!(debug_assertions) {
        "with"
    } else {
        "without (--profile fuzz has them)"
    };
    println!("built {checked} assertions and checks of overflow");
    for (part, count) in &reached {
        println!("{count:>12}  {part}");
    }
    let missed: Vec<_> = PARTS.iter().filter(|part| !reached.contains_key(*part)).collect();
    if executions >= ENOUGH && !missed.is_empty() {
        println!("never reached: {missed:?}");
        return ExitCode::FAILURE;
    }
    match memory.holds() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn again(round: u64) -> ExitCode {
    let holds = holds(round, &mut Reached::new());
    if holds {
        println!("round {round}: no failure");
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

/// One round; of a failure the seed and the frame are printed.
fn holds(seed: u64, reached: &mut Reached) -> bool {
    let mut frame = Vec::new();
    let round = catch_unwind(AssertUnwindSafe(|| round(seed, &mut frame, reached)));
    if round.is_err() {
        let bytes: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("FAILED in round {seed}: run it again with --round {seed}");
        println!("frame, device header first: {bytes}");
    }
    round.is_ok()
}

fn round(seed: u64, frame: &mut Vec<u8>, reached: &mut Reached) {
    let mut rng = Rng::with_seed(seed);
    let mut flows = Flows::default();
    let mut trial = Trial::new(&mut rng);
    for _ in 0..FRAMES {
        let made = sound(&mut rng);
        let is_sound = rng.u8(..4) == 0;
        let before = std::mem::take(frame);
        *frame = if is_sound {
            made
        } else {
            mutilated(&mut rng, made, &before)
        };
        oracle::examine(frame, is_sound, &mut flows, reached);
        trial.take(&mut rng, frame, reached);
    }
    *reached.entry("flow reset").or_insert(0) += oracle::end_flows(&mut flows);
    trial.end(&mut rng, reached);
}
