//! The terminal while `top` has it: raw, on the alternate screen, without cursor. Given back when the value is dropped, and
//! before a panic says its words, since a release build ends there without dropping anything.

use super::screen::{Line, Tone};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read, Write};
use tokio::sync::mpsc;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// See the top of the file.
pub(super) struct Terminal {
    before: Termios,
    colour: bool,
}

/// Whether both keys and screen are a person's.
pub(super) fn is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

impl Terminal {
    /// Takes it.
    pub fn enter(colour: bool) -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        let terminal = Self { before, colour };
        let (saved, told) = (terminal.before.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            give_back(&saved);
            told(panic);
        }));
        write(ENTER)?;
        Ok(terminal)
    }

    /// Columns and rows now.
    pub fn size() -> (usize, usize) {
        terminal_size::terminal_size().map_or((80, 24), |(columns, rows)| (columns.0.into(), rows.0.into()))
    }

    /// Draws over what is there, without a flicker.
    pub fn draw(&self, lines: &[Line]) -> std::io::Result<()> {
        let mut text = "\x1b[H".to_owned();
        for (place, line) in lines.iter().enumerate() {
            if place > 0 {
                text.push_str("\r\n");
            }
            text += &toned(line, self.colour);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        write(&text)
    }
}

/// A line with its colour.
pub(super) fn toned(line: &Line, colour: bool) -> String {
    match line.tone {
        Tone::Title if colour => format!("\x1b[1m{}\x1b[0m", line.text),
        Tone::Bad if colour => format!("\x1b[31m{}\x1b[0m", line.text),
        _ => line.text.clone(),
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back(&self.before);
    }
}

fn give_back(before: &Termios) {
    // Nothing more can be done if it is gone.
    let _gone = write(LEAVE);
    let _gone = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
}

fn write(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Keys as bytes, read by a thread that ends with the program: a read of a terminal cannot be given up.
pub(super) fn keys() -> mpsc::UnboundedReceiver<u8> {
    let (sender, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for key in std::io::stdin().lock().bytes() {
            let Ok(key) = key else { break };
            if sender.send(key).is_err() {
                break;
            }
        }
    });
    keys
}
