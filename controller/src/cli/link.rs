//! `link` and its verbs.

use super::LabArg;
use crate::lab::{NoPorts, Only};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsStr;
use std::path::PathBuf;

/// `link`.
#[derive(Debug, Subcommand)]
pub enum LinkVerb {
    /// Conditions, state and counters
    Show {
        /// dc1-dc2 (both directions), dc1:dc2 (from dc1 to dc2); without it all
        #[arg(add = clap_complete::ArgValueCandidates::new(crate::complete::links))]
        link: Option<String>,
        /// The lab
        #[command(flatten)]
        lab: LabArg,
    },
    /// Change conditions, e.g. delay=50ms loss=1%; others stay as they are
    #[command(after_help = CONDITIONS)]
    Set(SetArgs),
    /// Cut a link, or TCP ports of it: what is in flight is destroyed
    Cut(CutArgs),
    /// End a cut, of the whole link and of ports
    Heal(LinkArg),
    /// Let nothing pass and lose nothing: late, not lost
    Freeze(FreezeArgs),
    /// End a freeze: everything kept is delivered, in order
    Thaw(LinkArg),
    /// Let the relays carry out a schedule, from now on; returns at once
    Play(PlayArgs),
    /// End a schedule; the link stays as it is
    Stop(LinkArg),
    /// How all relays of the lab carry TCP connections
    Mode(ModeArgs),
    /// Make a relay be wrong on purpose: a negative control for the watch on the relays
    #[command(hide = true)]
    Sabotage(SabotageArgs),
    /// Write what a link sees to a pcapng file: packets that arrive, leave, and are dropped
    Capture(CaptureArgs),
}

/// What `link set --help` says of conditions.
const CONDITIONS: &str = "\
Conditions:
  delay=20ms                  one way
  rtt=40ms                    both directions together, half of it in each
  jitter=2ms                  evenly, up to so much earlier or later; also uniform:2ms, normal:1ms, pareto:1ms,
                              table:0ms/1ms/12ms; `:reorder` behind it lets packets overtake
  loss=1%                     each packet by itself; loss=1%:burst:4 in runs of 4 on average
  duplicate=0.1%              packets that arrive twice
  reorder=1%:by:2ms           packets that are held back for so long
  corrupt=0.01%               packets in which one bit is flipped
  rate=100mbit                bits per second; `unlimited`; `default` is 2gbit
  queue=64KiB                 what may wait for its turn at the rate; `default` is 8MiB
  mtu=1400                    largest IP packet, bytes
  KEY=none                    takes a condition away
  planned                     all conditions as the topology says";

/// A link.
#[derive(Debug, Args)]
pub struct LinkArg {
    /// dc1-dc2 (both directions) or dc1:dc2 (from dc1 to dc2)
    #[arg(add = clap_complete::ArgValueCandidates::new(crate::complete::links))]
    pub link: String,
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
}

/// `link set`.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The link
    #[command(flatten)]
    pub at: LinkArg,
    /// Conditions as KEY=VALUE; see below
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub conditions: Vec<String>,
    /// Deliver what is in flight at once, instead of letting it keep its deadline
    #[arg(long)]
    pub flush: bool,
    /// Restore after this
    #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub duration: Option<std::time::Duration>,
}

/// `link cut`.
#[derive(Debug, Args)]
pub struct CutArgs {
    /// The link
    #[command(flatten)]
    pub at: LinkArg,
    /// How
    #[arg(long, value_enum, default_value_t = Kind::Drop)]
    pub kind: Kind,
    /// Cut TCP ports and let everything else pass: `clients` (on which nodes serve clients and replicas), `bus` (of clusters), or
    /// PORT[,PORT...]. In place of an earlier cut of ports; packet mode only, with `drop` or `reset`
    #[arg(long, value_name = "PORTS", value_parser = OnlyParser, hide_possible_values = true)]
    pub only: Option<Only>,
    /// Heal after this
    #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub duration: Option<std::time::Duration>,
}

/// Reads which ports are cut; shells complete the words.
#[derive(Debug, Clone)]
struct OnlyParser;

impl TypedValueParser for OnlyParser {
    type Value = Only;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&clap::Arg>, text: &OsStr) -> Result<Only, clap::Error> {
        let read: fn(&str) -> Result<Only, NoPorts> = str::parse;
        TypedValueParser::parse_ref(&read, command, arg, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Only::WORDS.into_iter().map(PossibleValue::new)))
    }
}

/// How a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Packets vanish in silence
    Drop,
    /// Both ends of each connection get a reset, and so does who tries to connect
    Reset,
    /// Every connection is ended in order and new ones are refused; stream mode only
    Close,
}

/// `link freeze`.
#[derive(Debug, Args)]
pub struct FreezeArgs {
    /// The link
    #[command(flatten)]
    pub at: LinkArg,
    /// Thaw after this
    #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub duration: Option<std::time::Duration>,
}

/// `link play`.
#[derive(Debug, Args)]
pub struct PlayArgs {
    /// The link
    #[command(flatten)]
    pub at: LinkArg,
    /// Steps in the order of their times: 'at 5s cut, at 8s heal', 'flap every 2s until 30s', 'at 1s set loss=5%'
    pub schedule: String,
}

/// `link mode`.
#[derive(Debug, Args)]
pub struct ModeArgs {
    /// packet: every packet is delayed and nothing else touched; stream: connections are terminated, their bytes delayed
    #[arg(value_enum)]
    pub mode: Mode,
    /// Portions of bytes: each from its own arrival, or one behind the other (for new connections)
    #[arg(long, value_enum)]
    pub order: Option<Order>,
    /// TCP_NODELAY of the relay's own sockets; the near leg is that to the node that dialled (for new connections)
    #[arg(long, value_enum)]
    pub nodelay: Option<Legs>,
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
}

/// How relays carry TCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Packet by packet.
    Packet,
    /// Terminated.
    Stream,
}

/// Order of portions in stream mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Each from its own arrival, as a wire does.
    Pipelined,
    /// One behind the other.
    Serialising,
}

/// Legs of a terminated connection on which TCP_NODELAY is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Legs {
    /// On both.
    On,
    /// On none.
    Off,
    /// On that to the node that dialled.
    NearLeg,
    /// On the other.
    FarLeg,
}

/// `link sabotage`.
#[derive(Debug, Args)]
pub struct SabotageArgs {
    /// The link
    #[command(flatten)]
    pub at: LinkArg,
    /// extra-delay=TIME, no-delay, leaky-cut, or none
    pub defect: String,
}

/// `link capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// dc1-dc2 (both directions) or dc1:dc2 (from dc1 to dc2)
    #[arg(add = clap_complete::ArgValueCandidates::new(crate::complete::links))]
    pub link: String,
    /// File (`-`: stdout, e.g. for `| tshark -r -`)
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub file: PathBuf,
    /// Keep so many bytes of each packet, from the IP header on
    #[arg(long, default_value_t = 262_144, value_name = "BYTES")]
    pub snaplen: u32,
    /// End after this; without it, Ctrl-C ends it
    #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub duration: Option<std::time::Duration>,
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
}
