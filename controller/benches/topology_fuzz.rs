//! Fuzzes what reads a topology: a stranger's file is refused with its places and hints, or planned; it never panics, takes
//! no unbounded time or memory, and brings no control character to the terminal.
//!
//! `cargo bench -p testbed --profile fuzz --bench topology_fuzz -- [--seconds 60] [--seed N]` prints executions and how often each
//! rule was broken. A failure prints the seed of its round: `--round SEED` runs that one again. Not libFuzzer: no coverage guides
//! it, so that nothing but a stable compiler is needed; the texts are those of `topologies/`, mutilated line by line.

#[path = "../../images/relay/benches/shared/fuzzing.rs"]
mod fuzzing;
#[path = "topology_fuzz/texts.rs"]
mod texts;

use fastrand::Rng;
use fuzzing::{Asked, Memory};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use testbed::plan::{self, Images};
use testbed::release::{Catalogue, Choice};
use testbed::topology::{self, Problem, Topology};

/// Longest that one text may take, with the checks of an unoptimised build in it.
const LONGEST: Duration = Duration::from_secs(5);
/// Most memory that a run may grow by after its first thousand rounds, KiB.
const MOST_GROWTH_KIB: u64 = 256 << 10;
/// A rule that so many executions did not break is not tested.
const ENOUGH: u64 = 200_000;
/// Rules that every long run has to break, and what every run has to see.
const MUST: [&str; 13] = [
    "absent",
    "bad-condition",
    "bad-delay",
    "bad-name",
    "bad-slots",
    "bad-value",
    "duplicate",
    "missing",
    "no-unit",
    "planned",
    "unknown-key",
    "wrong-type",
    "yaml",
];

type Reached = BTreeMap<String, u64>;

fn main() -> ExitCode {
    let Some(asked) = Asked::on_the_command_line() else {
        return ExitCode::from(2);
    };
    let corpus = texts::corpus();
    match asked.round {
        Some(round) if holds(round, &corpus, &mut Reached::new()) => {
            println!("round {round}: no failure");
            ExitCode::SUCCESS
        }
        Some(_) => ExitCode::FAILURE,
        None => fuzz(asked.seed, asked.span, &corpus),
    }
}

fn fuzz(seed: u64, span: Duration, corpus: &[String]) -> ExitCode {
    let (mut seeds, mut reached, begun) = (Rng::with_seed(seed), Reached::new(), Instant::now());
    let (mut executions, mut memory) = (0_u64, Memory::new(MOST_GROWTH_KIB));
    let mut slowest = (Duration::ZERO, 0);
    while begun.elapsed() < span {
        let (round, at) = (seeds.u64(..), Instant::now());
        if !holds(round, corpus, &mut reached) {
            return ExitCode::FAILURE;
        }
        slowest = slowest.max((at.elapsed(), round));
        executions += 1;
        memory.after(executions);
    }
    println!(
        "seed {seed}: {executions} executions in {} s, no failure",
        span.as_secs()
    );
    println!("slowest: {:.3} s (round {})", slowest.0.as_secs_f64(), slowest.1);
    for (rule, count) in &reached {
        println!("{count:>12}  {rule}");
    }
    let mut well = slowest.0 < LONGEST;
    well &= memory.holds();
    let missed: Vec<_> = MUST.iter().filter(|rule| !reached.contains_key(**rule)).collect();
    if executions >= ENOUGH && !missed.is_empty() {
        println!("never reached: {missed:?}");
        well = false;
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn holds(seed: u64, corpus: &[String], reached: &mut Reached) -> bool {
    let mut text = String::new();
    let round = catch_unwind(AssertUnwindSafe(|| {
        let mut rng = Rng::with_seed(seed);
        text = texts::text(&mut rng, corpus);
        examine(&text, reached);
    }));
    if round.is_err() {
        println!("FAILED in round {seed}: run it again with --round {seed}");
        println!("{text:?}");
    }
    round.is_ok()
}

/// # Panics
/// A rule of the reader is broken.
fn examine(text: &str, reached: &mut Reached) {
    let mut count = |what: &str| *reached.entry(what.to_owned()).or_insert(0) += 1;
    let catalogue = Catalogue::built_in();
    let release = |kind, pin: &str| {
        let resolved = catalogue.resolve(kind, Some(pin), &Choice::default());
        resolved.map(|_| ()).map_err(|error| (error.to_string(), error.hint()))
    };
    match topology::parse_with("fuzz.yaml", text, &release, &|path| Ok(path.to_owned())) {
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            for problem in &problems {
                count(problem.code.as_str());
                told(problem, text);
            }
        }
        Ok(topology) => {
            count("right");
            right(&topology, text, &catalogue, &mut count);
        }
    }
}

/// A problem stands somewhere in the file, and is fit for a terminal.
fn told(problem: &Problem, text: &str) {
    let lines = text.split('\n').count();
    assert!(
        problem.line >= 1 && problem.line <= lines + 1 && problem.column >= 1,
        "{problem:?}"
    );
    assert!(!problem.message.is_empty());
    let plain = problem.render(text, false);
    assert!(
        !plain.chars().any(|c| c.is_control() && c != '\n'),
        "control characters reach the terminal: {plain:?}"
    );
    assert!(!problem.render(text, true).is_empty());
}

/// What is right can be written down, read again, and planned or refused with a reason; the same each time.
fn right(topology: &Topology, text: &str, catalogue: &Catalogue, count: &mut impl FnMut(&str)) {
    let json = serde_json::to_string(topology).expect("a topology is JSON");
    let again: Topology = serde_json::from_str(&json).expect("its own JSON");
    assert_eq!(&again, topology);
    let resolved = topology.nodes.iter().map(|node| {
        let release = catalogue.resolve(node.engine, node.release.as_deref(), &Choice::default());
        Some((node.name.clone(), release.ok()?))
    });
    let Some(releases) = resolved.collect::<Option<_>>() else {
        return count("no release");
    };
    let images = Images {
        relay: "relay".to_owned(),
        probe: "probe".to_owned(),
        releases,
    };
    let hash = topology::hash(text);
    let plan = || plan::plan(topology, &hash, &topology.name, None, &images, &[]);
    match plan() {
        Ok(made) => {
            count("planned");
            assert_eq!(plan().expect("the same arguments"), made);
        }
        Err(error) => {
            count("not planned");
            assert!(!error.to_string().is_empty() && !error.hint().is_empty());
        }
    }
}
