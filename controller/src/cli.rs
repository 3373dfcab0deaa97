//! The command line: clap types only, no behaviour. What a shell or a CI job sets once (lab, release,
//! format, run directory ...) has a `TESTBED_...` variable.

mod daily;
mod export;
mod fault;
mod graph;
mod help;
mod link;
mod matrix;
mod report;

pub use daily::{Init, Man, Top};
pub use export::{ComposeArgs, ExportVerb, ExportedImages};
pub use fault::{FaultVerb, HurtArgs, NodesArg, StopArgs};
pub use graph::{Drawn, Graph};
pub use help::command;
pub use link::{
    CaptureArgs, CutArgs, FreezeArgs, Kind, Legs, LinkArg, LinkVerb, Mode, ModeArgs, Order, PlayArgs, SabotageArgs,
    SetArgs,
};
pub use matrix::{CompareArgs, MatrixArgs, ReproduceArgs};
pub use report::{GithubArgs, Printed, ReportArgs};

use crate::block::{Cutting, Method};
use crate::complete;
use crate::names::{LabName, NodeName};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;
use ipnet::Ipv4Net;
use std::path::PathBuf;

const INIT_EXAMPLES: &str = "Examples:
  testbed init                       two-dc.yaml, from the template of that name
  testbed init shop -t cluster       shop.yaml
  testbed init --list";
const UP_EXAMPLES: &str = "Examples:
  testbed up topologies/two-dc.yaml
  testbed up shop.yaml -p shop-valkey --release valkey-9.1
  cat shop.yaml | testbed up -";
const RUN_EXAMPLES: &str = "Examples:
  testbed run                        every block, on labs of the run's own
  testbed run --only 1,3             two blocks
  testbed run -p shop                what applies to a lab that is up
  testbed run --keep failed          leave the lab for a look if a claim diverged";
const TOP_EXAMPLES: &str = "Keys: q quit, p pause, s sort (file, busy, behind), + and - longer and shorter interval

Examples:
  testbed top -p shop --interval 500ms
  testbed top --once                 one table, also without a terminal
  testbed top --format json --for 1m >> looks.jsonl";
const EXEC_EXAMPLES: &str = "Examples:
  testbed exec redis-primary redis-cli info replication
  testbed exec -it postgres psql -U postgres";
const COMPLETIONS_EXAMPLES: &str = "Examples:
  bash   echo 'source <(testbed completions bash)' >> ~/.bashrc
  zsh    echo 'source <(testbed completions zsh)' >> ~/.zshrc
  fish   testbed completions fish > ~/.config/fish/completions/testbed.fish";

/// Two datacenters on one machine, a link you can trust, and claims about databases put to the test.
#[derive(Debug, Parser)]
#[command(name = "testbed", version, propagate_version = true)]
pub struct Cli {
    /// What all verbs share.
    #[command(flatten)]
    pub global: Global,
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags of every verb.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Docker engine, e.g. unix:///var/run/docker.sock
    #[arg(short = 'H', long, global = true, env = "DOCKER_HOST", value_name = "URL")]
    pub host: Option<String>,
    /// Longest time of one engine call, other than those that move images
    #[arg(
        long,
        global = true,
        env = "TESTBED_ENGINE_TIMEOUT",
        default_value = "60s",
        value_parser = humantime::parse_duration,
        value_name = "TIME"
    )]
    pub engine_timeout: std::time::Duration,
    /// How results are printed: text unless said; more than text and json only by `report` and `run`
    #[arg(
        long = "format",
        global = true,
        env = "TESTBED_FORMAT",
        value_enum,
        value_name = "FORMAT"
    )]
    pub printed: Option<Printed>,
    /// The same for all other verbs, see [`Cli::settled`].
    #[arg(skip)]
    pub format: Format,
    /// More log lines on stderr (repeat for more)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// No progress on stderr
    #[arg(short, long, global = true, env = "TESTBED_QUIET")]
    pub quiet: bool,
    /// Take the addresses of labs from these parts of 198.18.0.0/15 only
    #[arg(
        long,
        global = true,
        env = "TESTBED_POOL",
        value_delimiter = ',',
        value_name = "SUBNET"
    )]
    pub pool: Vec<Ipv4Net>,
    /// When to colour
    #[arg(long, global = true, env = "TESTBED_COLOR", value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON document, see the schemas in controller/schema.
    Json,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Which lab is meant.
#[derive(Debug, Clone, Args)]
pub struct LabArg {
    /// Name of the lab; without it the only one that is up
    #[arg(short = 'p', long = "lab", env = "TESTBED_LAB", value_name = "NAME", add = ArgValueCandidates::new(complete::labs))]
    pub lab: Option<LabName>,
}

/// Which servers nodes run that do not pin their own.
#[derive(Debug, Clone, Args)]
pub struct ReleaseArg {
    /// A release of images/releases.yaml, or an engine with any image or with a build of yours in a folder: redis-7.0.15, valkey-9.1, redis=IMAGE, redis=./DIR (repeatable)
    #[arg(
        long = "release",
        env = "TESTBED_RELEASE",
        value_delimiter = ',',
        value_name = "RELEASE"
    )]
    pub release: Vec<String>,
}

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a commented topology to begin with
    #[command(after_help = INIT_EXAMPLES)]
    Init(Init),
    /// Make a lab from a topology and wait until it is ready
    #[command(after_help = UP_EXAMPLES)]
    #[command(alias = "deploy")]
    Up(Up),
    /// Remove a lab
    #[command(alias = "destroy")]
    Down(Down),
    /// Measure blocks and judge their claims
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Measure blocks on several releases, and compare the releases claim by claim (block 15)
    Matrix(MatrixArgs),
    /// Compare two runs, or two matrices: claims, numbers, environments
    Compare(CompareArgs),
    /// Run a stored run again: same topology, releases, seed and blocks; then compare
    Reproduce(ReproduceArgs),
    /// List and explain the blocks
    Blocks(Blocks),
    /// List the nodes of a lab: datacenter, role, address, health
    #[command(alias = "inspect")]
    Ps(Ps),
    /// Watch a lab: rates, queues and drops of links; operations, lag and roles of nodes
    #[command(after_help = TOP_EXAMPLES)]
    Top(Top),
    /// Print every Docker object that `up` would make; needs no engine
    Plan(PlanArgs),
    /// The same lab for others: as a file for docker compose
    #[command(subcommand)]
    Export(ExportVerb),
    /// Check a topology; needs no engine
    Validate(Validate),
    /// Print the JSON Schema of topologies
    Schema,
    /// Server images: list, pull, build, prune
    #[command(subcommand)]
    Images(ImagesVerb),
    /// Links between datacenters: conditions, cuts, freezes, schedules, captures
    #[command(subcommand)]
    Link(LinkVerb),
    /// Pause, kill, stop and start nodes
    #[command(subcommand)]
    Fault(FaultVerb),
    /// Draw a lab or a topology: datacenters, nodes, replication, links
    Graph(Graph),
    /// Run a command in a node
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(Exec),
    /// Print the logs of nodes
    Logs(Logs),
    /// Judge a stored run again
    Judge(Judge),
    /// Wait for the end of a pipe, and remove what it was told of; started by other verbs
    #[command(hide = true)]
    Reap,
    /// Print the report of a stored run
    Report(ReportArgs),
    /// Check engine and host, each finding with a fix
    Doctor,
    /// Print the manual pages of testbed and its verbs
    Man(Man),
    /// Print the script that lets a shell complete verbs, options and names of what is up
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// `up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Topology file (`-`: stdin)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Name of the lab; without it the topology's
    #[arg(short = 'p', long = "lab", env = "TESTBED_LAB", value_name = "NAME")]
    pub lab: Option<LabName>,
    /// Releases
    #[command(flatten)]
    pub release: ReleaseArg,
    /// Give up after this
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub wait_timeout: std::time::Duration,
}

/// `down`.
#[derive(Debug, Args)]
pub struct Down {
    /// Topology file, for the name of its lab
    #[arg(value_name = "FILE", conflicts_with = "all")]
    pub file: Option<PathBuf>,
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
    /// All labs
    #[arg(long, conflicts_with = "lab")]
    pub all: bool,
    /// All labs that were made at least so long ago, e.g. 90m, 2h, 1day
    #[arg(long, conflicts_with_all = ["lab", "file"], value_parser = humantime::parse_duration, value_name = "TIME")]
    pub older_than: Option<std::time::Duration>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Only these blocks, e.g. 1,3
    #[arg(long, env = "TESTBED_ONLY", value_delimiter = ',', value_name = "BLOCKS")]
    pub only: Vec<u8>,
    /// Own topology, for the blocks that apply to it
    #[arg(short, long, value_name = "FILE", conflicts_with = "lab")]
    pub file: Option<PathBuf>,
    /// Name of a lab that is up, for the blocks that apply to it; without it, labs of the run's own
    #[arg(short = 'p', long = "lab", env = "TESTBED_LAB", value_name = "NAME")]
    pub lab: Option<LabName>,
    /// Releases
    #[command(flatten)]
    pub release: ReleaseArg,
    /// Run directory; without it testbed-runs/<time>-<name>
    #[arg(long, env = "TESTBED_OUT", value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also write what each block's link sees to capture-<block>.pcapng in the run directory
    #[arg(long)]
    pub capture: bool,
    /// Leave the lab up afterwards
    #[arg(long, env = "TESTBED_KEEP", value_enum, default_value_t = Keep::Never)]
    pub keep: Keep,
    /// How blocks 4, 5 and 6 part the halves of a cluster; `stop` does it both ways
    // Of no environment variable: the manifest has the command line, from which a run is reproduced.
    #[arg(long, value_enum, default_value_t = Method::Cut)]
    pub method: Method,
    /// Cut by a freeze instead, which is no cut: a negative control of the instrument
    #[arg(long, hide = true, value_enum, default_value_t = Cutting::Drop)]
    pub cut_by: Cutting,
    /// Seed of everything random (bootstrap)
    #[arg(long, env = "TESTBED_SEED", default_value_t = 1)]
    pub seed: u64,
    /// What a CI job of GitHub wants
    #[command(flatten)]
    pub github: GithubArgs,
}

/// Whether a lab stays up after `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    /// Never.
    Never,
    /// If a claim diverged, or the run could not be completed.
    Failed,
    /// Always.
    Always,
}

/// `blocks`.
#[derive(Debug, Args)]
pub struct Blocks {
    /// Explain only these
    #[arg(value_name = "BLOCK")]
    pub blocks: Vec<u8>,
}

/// `ps`.
#[derive(Debug, Args)]
pub struct Ps {
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
}

/// `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Topology file (`-`: stdin)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Name of the lab; without it the topology's
    #[arg(short = 'p', long = "lab", env = "TESTBED_LAB", value_name = "NAME")]
    pub lab: Option<LabName>,
    /// Releases
    #[command(flatten)]
    pub release: ReleaseArg,
    /// Ask the engine what is there, and exit with 20 if `up` would change something
    #[arg(long)]
    pub exit_code: bool,
}

/// `validate`.
#[derive(Debug, Args)]
pub struct Validate {
    /// Topology files (`-`: stdin)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

/// `images`.
#[derive(Debug, Subcommand)]
pub enum ImagesVerb {
    /// List releases and whether their images are present
    List,
    /// Pull official images
    Pull {
        /// Releases; without any, the default ones
        releases: Vec<String>,
    },
    /// Build images from Debian packages
    Build {
        /// Releases; without any, the default ones
        releases: Vec<String>,
    },
    /// Remove images that testbed built and no container uses
    Prune,
}

/// `exec`.
#[derive(Debug, Args)]
pub struct Exec {
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
    /// Forward stdin
    #[arg(short, long)]
    pub interactive: bool,
    /// Give the command a terminal
    #[arg(short, long)]
    pub tty: bool,
    /// User in the container
    #[arg(short, long)]
    pub user: Option<String>,
    /// The node
    #[arg(add = ArgValueCandidates::new(complete::nodes))]
    pub node: NodeName,
    /// Program and arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<String>,
}

/// `logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
    /// Nodes, and relay.dc1 or probe.dc1; without any, all nodes
    #[arg(add = ArgValueCandidates::new(complete::nodes))]
    pub nodes: Vec<String>,
    /// Go on until the node ends
    #[arg(short, long)]
    pub follow: bool,
    /// Only the last so many lines
    #[arg(long)]
    pub tail: Option<u64>,
    /// Put the time before each line
    #[arg(short, long)]
    pub timestamps: bool,
}

/// `judge`.
#[derive(Debug, Args)]
pub struct Judge {
    /// Run directory
    pub run: PathBuf,
}
