//! The program under test, as a child process that nothing of the caller's own settings reaches.

use std::process::Command;

/// `testbed` without any of its environment variables.
pub fn testbed() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TESTBED_") {
            command.env_remove(name);
        }
    }
    command
}
