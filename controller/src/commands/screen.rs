//! Where results go: stdout, as wide as the terminal and coloured only if the user and the terminal want it.

use crate::cli::{Color, Global};
use crate::error::{CommandError, ExitCode};
use crate::report::{Style, WIDTH};
use std::io::{ErrorKind, IsTerminal, Write};

/// How results look on stdout. NO_COLOR counts unless `--color` says otherwise.
#[must_use]
pub fn style(global: &Global) -> Style {
    let terminal = std::io::stdout().is_terminal();
    let width = if terminal {
        terminal_size::terminal_size().map_or(WIDTH, |(columns, _)| usize::from(columns.0))
    } else {
        WIDTH
    };
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    Style {
        width,
        colour: match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !unwanted,
        },
    }
}

/// Prints a result. A reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// Stdout cannot be written.
pub fn print(text: &str) -> Result<(), CommandError> {
    print_on(text).map(|_| ())
}

/// Prints a part of a result; whether the reader is still there.
///
/// # Errors
/// Stdout cannot be written.
pub fn print_on(text: &str) -> Result<bool, CommandError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CommandError::new(
            ExitCode::Incomplete,
            format!("write to stdout: {error}"),
        )),
    }
}

/// A table without lines, for people and for `awk`; never wrapped.
#[must_use]
pub fn plain_table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    rows.for_each(|row| {
        table.add_row(row);
    });
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
