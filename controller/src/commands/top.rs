//! `top`: a lab as it is now, drawn anew at every interval; without a terminal a table, or a line of JSON, per interval.
//!
//! Asks relays and servers what `ps` and `link show` ask, and changes nothing. The terminal is given back on every path.

pub(super) mod look;
mod screen;
mod terminal;

pub use look::{TopLine, TopLink, TopNode, TopRelay};

use super::engines;
use super::screen::{print_on, style};
use crate::cli::{Format, Global, Top};
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Engines, Lab};
use crate::stop::Stop;
use look::{Look, line, look};
use screen::{View, screen, tables};
use std::time::Duration;
use terminal::Terminal;
use tokio::time::Instant;

/// Bounds of the interval that keys can choose.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(64);

/// A lab that is looked at again and again.
struct Watched {
    engines: Engines,
    lab: Lab,
}

impl Watched {
    async fn look(&self) -> Result<Look, CommandError> {
        look(&self.engines, &self.lab).await
    }
}

pub(super) async fn run(global: &Global, top: Top) -> Result<ExitCode, CommandError> {
    let engines = engines(global).await?;
    let lab = lab::find(&engines, top.lab.lab.as_ref()).await?;
    let watched = Watched { engines, lab };
    let end = top.duration.map(|duration| Instant::now() + duration);
    if top.once || global.format == Format::Json || !terminal::is_there() {
        return in_turn(global, &top, watched, end).await;
    }
    on_screen(global, top.interval, watched, end).await
}

/// One table or line after the other.
async fn in_turn(global: &Global, top: &Top, watched: Watched, end: Option<Instant>) -> Result<ExitCode, CommandError> {
    let style = style(global);
    let mut before = watched.look().await?;
    loop {
        tokio::time::sleep(top.interval).await;
        let now = watched.look().await?;
        let line = line(watched.lab.name().as_str(), &before, &now);
        let text = match global.format {
            Format::Json => serde_json::to_string(&line).expect("a look is always JSON") + "\n",
            Format::Text => {
                let lines = tables(&line, screen::Order::File, style.width);
                let lines: String = lines
                    .iter()
                    .map(|line| terminal::toned(line, style.colour) + "\n")
                    .collect();
                if top.once { lines } else { lines + "\n" }
            }
        };
        if !print_on(&text)? || top.once || end.is_some_and(|end| Instant::now() >= end) {
            return Ok(ExitCode::Success);
        }
        before = now;
    }
}

/// What a key asks for.
enum Wish {
    Quit,
    Redraw,
    Nothing,
}

fn pressed(key: u8, view: &mut View, interval: &mut Duration) -> Wish {
    match key {
        // Ctrl-C and Ctrl-D come as keys: the terminal is raw.
        b'q' | 3 | 4 => return Wish::Quit,
        b'p' | b' ' => view.paused = !view.paused,
        b's' => view.order = view.order.next(),
        b'+' | b'=' => *interval = (*interval * 2).min(LONGEST),
        b'-' => *interval = (*interval / 2).max(SHORTEST),
        _ => return Wish::Nothing,
    }
    Wish::Redraw
}

async fn on_screen(
    global: &Global,
    mut interval: Duration,
    watched: Watched,
    end: Option<Instant>,
) -> Result<ExitCode, CommandError> {
    let host = |error: std::io::Error| CommandError::new(ExitCode::Host, format!("use the terminal: {error}"));
    let stop = Stop::on_signals().map_err(host)?;
    let mut before = watched.look().await?;
    let mut shown = line(watched.lab.name().as_str(), &before, &before);
    let terminal = Terminal::enter(style(global).colour).map_err(host)?;
    let mut keys = terminal::keys();
    let mut view = View::default();
    // Soon a first rate, whatever the interval.
    let mut next = Instant::now() + SHORTEST.min(interval);
    loop {
        view.interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        terminal.draw(&screen(&shown, view, Terminal::size())).map_err(host)?;
        let wish = tokio::select! {
            signal = stop.stopped() => return Ok(signal.exit_code()),
            () = until(end) => Wish::Quit,
            () = tokio::time::sleep_until(next) => {
                next = Instant::now() + interval;
                if !view.paused {
                    let now = tokio::select! {
                        signal = stop.stopped() => return Ok(signal.exit_code()),
                        now = watched.look() => now?,
                    };
                    shown = line(watched.lab.name().as_str(), &before, &now);
                    before = now;
                }
                Wish::Redraw
            }
            key = keys.recv() => match key {
                Some(key) => pressed(key, &mut view, &mut interval),
                None => Wish::Quit,
            },
        };
        match wish {
            Wish::Quit => return Ok(ExitCode::Success),
            Wish::Redraw => next = next.min(Instant::now() + interval),
            Wish::Nothing => {}
        }
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
