//! `man` and `completions`: pages and scripts made from the command line itself, so that they cannot differ from it.

use super::screen;
use crate::cli::{self, Man};
use crate::error::{CommandError, ExitCode};
use clap_complete::Shell;
use clap_complete::env::Shells;

/// Variable that makes the program complete a line instead of running it.
pub const COMPLETE: &str = "TESTBED_COMPLETE";

pub(super) fn pages(args: &Man) -> Result<ExitCode, CommandError> {
    let failed =
        |what: &str, error: &std::io::Error| CommandError::new(ExitCode::Incomplete, format!("write {what}: {error}"));
    let Some(directory) = &args.out else {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(<cli::Cli as clap::CommandFactory>::command());
        man.render(&mut page).map_err(|error| failed("the page", &error))?;
        screen::print(&String::from_utf8_lossy(&page))?;
        return Ok(ExitCode::Success);
    };
    let shown = directory.display().to_string();
    std::fs::create_dir_all(directory).map_err(|error| failed(&shown, &error))?;
    clap_mangen::generate_to(<cli::Cli as clap::CommandFactory>::command(), directory)
        .map_err(|error| failed(&shown, &error))?;
    screen::print(&format!("{shown}: pages written; read one: man {shown}/testbed.1\n"))?;
    Ok(ExitCode::Success)
}

/// The script that lets a shell ask this program.
pub(super) fn completions(shell: Shell) -> Result<ExitCode, CommandError> {
    let shells = Shells::builtins();
    let completer = shells
        .completer(&shell.to_string())
        .expect("every shell of the command line is built in");
    // Not to stdout itself: nobody may be reading.
    let mut script = Vec::new();
    completer
        .write_registration(COMPLETE, "testbed", "testbed", "testbed", &mut script)
        .expect("a script can be written to memory");
    screen::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::Success)
}
