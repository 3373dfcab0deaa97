//! Our own terminal while a command in a container has it: raw, so that every key reaches the command, and its size.
//!
//! Raw mode ends when the value is dropped; nothing here panics between entering and leaving it.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Raw mode of our stdin, until dropped.
pub struct Raw {
    before: Option<Termios>,
}

impl Raw {
    /// Enters raw mode if it is wanted and stdin is a terminal; otherwise nothing changes.
    pub fn enter(wanted: bool) -> Self {
        let stdin = std::io::stdin();
        let before = wanted.then(|| tcgetattr(&stdin).ok()).flatten();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            if let Err(error) = tcsetattr(&stdin, OptionalActions::Now, &raw) {
                tracing::warn!("the terminal stays in line mode: {error}");
            }
        }
        Self { before }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = tcsetattr(std::io::stdin(), OptionalActions::Now, before)
        {
            tracing::warn!("the terminal stays raw (`reset` repairs it): {error}");
        }
    }
}

/// Columns and rows of our stdout, if it is a terminal.
pub fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}
