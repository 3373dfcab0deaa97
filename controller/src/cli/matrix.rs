//! The words of `matrix`, `compare` and `reproduce`: clap types only.

use super::{GithubArgs, Keep};
use clap::Args;
use std::path::PathBuf;

/// `matrix`.
#[derive(Debug, Args)]
pub struct MatrixArgs {
    /// A release, one column of the table; the first is the one that others are compared with (repeatable)
    ///
    /// Without any: redis-7.0.15, redis-8.0, redis-8.6, valkey-9.1. ENGINE=IMAGE takes any image, ENGINE=./DIR
    /// a server that you built (shown under the folder's name). A release of Postgres is
    /// measured in the blocks that use a database, beside the default cache.
    #[arg(
        long = "release",
        env = "TESTBED_RELEASE",
        value_delimiter = ',',
        value_name = "RELEASE"
    )]
    pub release: Vec<String>,
    /// Only these blocks, e.g. 1,3
    #[arg(long, env = "TESTBED_ONLY", value_delimiter = ',', value_name = "BLOCKS")]
    pub only: Vec<u8>,
    /// How often each block is measured on each release [default: 1]
    ///
    /// Labs of one release differ from each other. With one repeat nothing is known of that, and no number is said to have
    /// moved beyond noise; with two to four a move is seen as times that lie apart in all rounds; from about seven on chance can
    /// be ruled out for a single number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: Option<u32>,
    /// Seed of everything random: order of the cells, bootstrap [default: 1]
    #[arg(long, env = "TESTBED_SEED")]
    pub seed: Option<u64>,
    /// Most cells measured at once
    ///
    /// Only cells of blocks 4, 5, 6 and 8 ever go on beside each other: their claims are about which node answers, with seconds between what is
    /// told apart. A cell of any other block is alone on the host, whatever is said here, since it measures times or counts writes.
    #[arg(long, env = "TESTBED_JOBS", value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub jobs: u32,
    /// Leave the lab of a cell up afterwards
    #[arg(long, env = "TESTBED_KEEP", value_enum, default_value_t = Keep::Never)]
    pub keep: Keep,
    /// Matrix directory; without it testbed-runs/<time>-matrix
    #[arg(long, env = "TESTBED_OUT", value_name = "DIR", conflicts_with_all = ["resume", "judge"])]
    pub out: Option<PathBuf>,
    /// Go on with a matrix that was interrupted or killed: what is complete stays, what is half is measured anew
    #[arg(long, value_name = "DIR", conflicts_with = "judge")]
    pub resume: Option<PathBuf>,
    /// Only judge a matrix directory, from its cells; measure nothing
    #[arg(long, value_name = "DIR")]
    pub judge: Option<PathBuf>,
    /// Leave out what will not fit into this time, e.g. 10m, and say so before anything is measured
    ///
    /// A topology of a round is measured on all releases or on none. The estimates come from a table of durations measured on two virtual
    /// cores, images present; with --resume from the cells of this matrix that are complete. A busy machine takes longer.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub budget: Option<std::time::Duration>,
    /// Only say what would be measured, in which order, and how long it would take; needs no engine
    #[arg(long)]
    pub dry_run: bool,
    /// See there.
    #[command(flatten)]
    pub github: GithubArgs,
}

/// `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Run or matrix directory
    #[arg(value_name = "RUN")]
    pub first: PathBuf,
    /// Run or matrix directory, compared with it
    #[arg(value_name = "RUN")]
    pub second: PathBuf,
}

/// `reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Run directory; a cell of a matrix is one
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Directory of the new run; without it testbed-runs/<time>-<name>
    #[arg(long, env = "TESTBED_OUT", value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Leave the lab up afterwards
    #[arg(long, env = "TESTBED_KEEP", value_enum, default_value_t = Keep::Never)]
    pub keep: Keep,
}
