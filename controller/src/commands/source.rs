//! Topology files, read for all verbs that take one: from disk or stdin, checked, with every problem shown.
//!
//! The only place of the program that reads one. What is wrong with a file is printed here and is exit code 3; no engine
//! is asked before.

use crate::cli::{Color, Format};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::progress::say_as_it_is;
use crate::release::{Catalogue, Choice, ReleaseError};
use crate::topology::{self, Code, MOST_BYTES, Problem, STDIN, Topology};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{IsTerminal, Read};
use std::path::Path;

/// A checked topology and where it came from.
#[derive(Debug, Clone)]
pub struct Source {
    /// Text of the file.
    pub text: String,
    /// What it says.
    pub topology: Topology,
    /// sha256 of the text, hex.
    pub hash: String,
}

/// What a verb that needs a topology prints on stderr with `--format json` if it is wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProblemsDocument {
    /// Everything that is wrong, in the order of the file.
    problems: Vec<Problem>,
}

/// The topology in a file (`-`: stdin). Its problems are printed on stderr.
///
/// # Errors
/// The file cannot be read, or is not right.
pub fn read(path: &Path, format: Format, color: Color) -> Result<Source, CommandError> {
    let name = name_of(path);
    let text = text_of(path)?;
    let checked = match text {
        Ok(text) => match parse(&name, &text) {
            Ok(topology) => {
                return Ok(Source {
                    hash: topology::hash(&text),
                    text,
                    topology,
                });
            }
            Err(problems) => (problems, text),
        },
        Err(problem) => (vec![problem], String::new()),
    };
    let (problems, text) = checked;
    let text_of_error = format!("use {name}: {}", counted(problems.len()));
    if format == Format::Json {
        say_as_it_is(document("problems", &ProblemsDocument { problems }));
    } else {
        say_as_it_is(rendered(&problems, &text, color));
    }
    Err(CommandError::new(ExitCode::Topology, text_of_error))
}

/// The topology of a text, with the releases that it names.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(name: &str, text: &str) -> Result<Topology, Vec<Problem>> {
    let catalogue = Catalogue::built_in();
    let folder = (name != STDIN).then(|| Path::new(name).parent().unwrap_or(Path::new("")));
    let mount = |written: &str| super::mounts::resolve(folder, written);
    let release = |engine, pin: &str| {
        let known = catalogue.resolve(engine, Some(pin), &Choice::default());
        known.map(|_| ()).map_err(|error| {
            let message = match &error {
                ReleaseError::Unknown { asked, .. } => format!("there is no release `{asked}`"),
                ReleaseError::WrongKind { release, engine } => {
                    format!("{release} cannot run on a node with engine {engine}")
                }
                _ => format!("`{pin}` is no release"),
            };
            (message, error.hint())
        })
    };
    topology::parse_with(name, text, &release, &mount)
}

/// The text of a file, or the problem that it is none.
///
/// # Errors
/// The file cannot be read at all.
pub fn text_of(path: &Path) -> Result<Result<String, Problem>, CommandError> {
    let name = name_of(path);
    // One byte more than allowed is enough to know, and /dev/zero ends.
    let most = MOST_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if name == STDIN {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "topologies/two-dc.yaml is one; `-` reads stdin",
            std::io::ErrorKind::IsADirectory => "name one file of it",
            _ => "it must be a file that you may read",
        };
        CommandError::new(ExitCode::Usage, format!("read {name}: {error}")).hint(hint)
    })?;
    Ok(String::from_utf8(bytes).map_err(|error| {
        // A file that is too long may have been read up to the middle of a character.
        let (code, message, hint) = if error.as_bytes().len() > MOST_BYTES {
            (
                Code::TooLarge,
                format!("more than the {MOST_BYTES} bytes of any topology"),
                None,
            )
        } else {
            let at = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
            let hint = "a topology is YAML in UTF-8; is it a binary file, or saved as UTF-16?".to_owned();
            (Code::NotText, format!("line {line} is not UTF-8 text"), Some(hint))
        };
        Problem::of_file(&name, code, message, hint)
    }))
}

/// How a file is called in messages.
#[must_use]
pub fn name_of(path: &Path) -> String {
    if path == Path::new("-") {
        STDIN.to_owned()
    } else {
        path.display().to_string()
    }
}

/// Problems for people, as they are printed on stderr.
#[must_use]
pub fn rendered(problems: &[Problem], text: &str, color: Color) -> String {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => std::io::stderr().is_terminal() && !unwanted,
    };
    problems
        .iter()
        .map(|problem| problem.render(text, colour))
        .collect::<Vec<_>>()
        .join("\n")
}

/// `1 problem`, `2 problems`.
#[must_use]
pub fn counted(problems: usize) -> String {
    format!("{problems} problem{}", if problems == 1 { "" } else { "s" })
}
