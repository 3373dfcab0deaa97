//! `graph`.

use super::LabArg;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `graph`.
#[derive(Debug, Args)]
pub struct Graph {
    /// A topology file (`-`: stdin) instead of a lab; needs no engine
    #[arg(short, long, value_name = "FILE", conflicts_with = "lab")]
    pub file: Option<PathBuf>,
    /// The lab
    #[command(flatten)]
    pub lab: LabArg,
    /// Write to a file instead of stdout; its name says how: .svg, .dot, .gv, .mmd, .txt
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How it is drawn
    #[arg(long = "as", value_enum, value_name = "DRAWING")]
    pub drawn: Option<Drawn>,
}

/// Ways of drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Drawn {
    /// Boxes and arrows out of characters.
    Text,
    /// A picture for browsers and reports.
    Svg,
    /// For Graphviz.
    Dot,
    /// For Markdown on code hosts.
    Mermaid,
}
