//! What all fuzz benches share: their arguments, and the memory that they may take. Not libFuzzer: no coverage guides them, so that nothing
//! but a stable compiler is needed.

use std::time::Duration;

/// How a bench is called.
pub struct Asked {
    /// How long.
    pub span: Duration,
    /// What the rounds' own seeds are drawn from.
    pub seed: u64,
    /// The seed of one round that is run again, alone.
    pub round: Option<u64>,
}

impl Asked {
    /// `[--seconds 60] [--seed N] [--round SEED]`; an argument that is none is told on stderr.
    pub fn on_the_command_line() -> Option<Self> {
        let mut asked = Self {
            span: Duration::from_secs(60),
            seed: 1,
            round: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|text| text.parse().ok());
            let known = match argument.as_str() {
                // Cargo's own.
                "--bench" => Some(()),
                "--seconds" => number().map(|given| asked.span = Duration::from_secs(given)),
                "--seed" => number().map(|given| asked.seed = given),
                "--round" => number().map(|given| asked.round = Some(given)),
                _ => None,
            };
            if known.is_none() {
                eprintln!("{argument}: --seconds N, --seed N or --round SEED, whole numbers");
                return None;
            }
        }
        Some(asked)
    }
}

/// Rounds after which what a bench needs for itself is there.
const SETTLED: u64 = 1000;

/// The memory of this process in the course of a bench.
pub struct Memory {
    most_growth_kib: u64,
    settled_kib: Option<u64>,
}

impl Memory {
    /// One that may grow by so much, KiB, once a thousand rounds are over.
    pub fn new(most_growth_kib: u64) -> Self {
        Self {
            most_growth_kib,
            settled_kib: None,
        }
    }

    /// So many rounds are over.
    pub fn after(&mut self, rounds: u64) {
        if rounds == SETTLED {
            self.settled_kib = peak_kib();
        }
    }

    /// Prints what was taken; whether that is within the bound.
    pub fn holds(&self) -> bool {
        let (Some(settled), Some(peak)) = (self.settled_kib, peak_kib()) else {
            println!("memory: not judged (fewer than {SETTLED} rounds, or no /proc)");
            return true;
        };
        println!("memory: at most {peak} KiB, {settled} KiB after {SETTLED} rounds");
        peak - settled < self.most_growth_kib
    }
}

/// Peak of this process's memory, KiB.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
