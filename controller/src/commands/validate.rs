//! `validate`: checks topology files and says everything that is wrong with them. Needs no engine.
//!
//! Goes through all files whatever is wrong with the first; one problem anywhere is exit code 3.

use super::{screen, source};
use crate::cli::{Format, Global, Validate};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::progress::say_as_it_is;
use crate::topology::Problem;
use schemars::JsonSchema;
use serde::Serialize;

/// What `validate --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ValidateDocument {
    /// In the order of the command line.
    files: Vec<Checked>,
}

/// A file, checked.
#[derive(Debug, Serialize, JsonSchema)]
struct Checked {
    /// As it was named.
    file: String,
    /// Whether it is right.
    valid: bool,
    /// Name of its lab, if it is right.
    lab: Option<String>,
    /// Everything that is wrong, in the order of the file.
    problems: Vec<Problem>,
}

/// Checks the files.
///
/// # Errors
/// One of them cannot be read, or stdout cannot be written.
pub(super) fn run(global: &Global, args: &Validate) -> Result<ExitCode, CommandError> {
    let mut files = Vec::new();
    let mut shown = String::new();
    let mut said = String::new();
    for path in &args.files {
        let name = source::name_of(path);
        let (text, outcome) = match source::text_of(path)? {
            Ok(text) => {
                let outcome = source::parse(&name, &text);
                (text, outcome)
            }
            Err(problem) => (String::new(), Err(vec![problem])),
        };
        let (lab, problems) = match outcome {
            Ok(topology) => {
                said += &format!(
                    "{name}: ok ({}, {})\n",
                    counted(topology.datacenters.len(), "datacenter"),
                    counted(topology.nodes.len(), "node")
                );
                (Some(topology.name.to_string()), Vec::new())
            }
            Err(problems) => {
                if !shown.is_empty() {
                    shown.push('\n');
                }
                shown += &source::rendered(&problems, &text, global.color);
                shown += &format!("{name}: {}\n", counted(problems.len(), "problem"));
                (None, problems)
            }
        };
        files.push(Checked {
            file: name,
            valid: problems.is_empty(),
            lab,
            problems,
        });
    }
    let valid = files.iter().all(|file| file.valid);
    if global.format == Format::Json {
        screen::print(&document("validate", &ValidateDocument { files }))?;
    } else {
        say_as_it_is(shown);
        screen::print(&said)?;
    }
    Ok(if valid { ExitCode::Success } else { ExitCode::Topology })
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
