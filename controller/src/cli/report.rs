//! `report`, and the formats that only a report has.

use super::{Cli, Format, Verb};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Formats of results; `report`, `run` and `matrix` know all of them, the other verbs the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Printed {
    /// For people at a terminal
    Text,
    /// One JSON document, see the schemas in controller/schema
    Json,
    /// For code hosts and issue trackers
    Markdown,
    /// One page that needs no network and no script
    Html,
    /// JUnit XML: a suite per run, a case per claim
    Junit,
    /// Claims and key numbers for Prometheus and what reads its text format
    Openmetrics,
    /// Annotations, as a job of GitHub Actions prints them
    Github,
}

/// `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Run directory; several are shown beside each other; or one matrix directory
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Write to a file instead of stdout; without --format its name says how: .html, .md, .json, .xml, .prom, .txt
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What a CI job of GitHub sets by itself.
#[derive(Debug, Clone, Default, Args)]
pub struct GithubArgs {
    /// Append the report as Markdown to this file
    #[arg(long, env = "GITHUB_STEP_SUMMARY", value_name = "FILE", hide_env_values = true)]
    pub step_summary: Option<OsString>,
    /// Print an annotation on stderr for each claim that does not hold
    #[arg(long, env = "GITHUB_ACTIONS", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub annotate: bool,
}

impl Cli {
    /// The command line with its format settled.
    ///
    /// # Errors
    /// The verb does not print in the format that was asked for.
    pub fn settled(mut self) -> Result<Self, clap::Error> {
        let all = matches!(self.verb, Verb::Report(_) | Verb::Run(_) | Verb::Matrix(_));
        self.global.format = match self.global.printed {
            None | Some(Printed::Text) => Format::Text,
            Some(Printed::Json) => Format::Json,
            Some(_) if all => Format::Text,
            Some(_) => {
                let text = "only `report`, `run` and `matrix` print in this format; the other verbs know text and json";
                return Err(Self::command().error(ErrorKind::InvalidValue, text));
            }
        };
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn settled(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(["testbed"].iter().chain(arguments)).and_then(Cli::settled)
    }

    #[test]
    fn formats_of_reports_are_refused_by_verbs_that_print_none() {
        for format in Printed::value_variants() {
            let word = format.to_possible_value().unwrap();
            let known = matches!(format, Printed::Text | Printed::Json);
            let ps = settled(&["ps", "--format", word.get_name()]);
            assert_eq!(ps.is_ok(), known, "{format:?}");
            let report = settled(&["--format", word.get_name(), "report", "x"]).unwrap();
            assert_eq!(report.global.printed, Some(*format));
        }
        let json = settled(&["ps", "--format", "json"]).unwrap();
        assert_eq!(json.global.format, Format::Json);
    }
}
