//! A schedule as people write it: `at 5s cut, at 8s heal, flap every 2s until 30s`.
//!
//! ```text
//! SCHEDULE = STEP, STEP, ...      in the order of their times
//! STEP     = at TIME cut [drop|reset] | at TIME heal | at TIME freeze | at TIME thaw
//!          | at TIME set KEY=VALUE ...
//!          | [at TIME] flap [drop|reset] every TIME [until TIME]
//! ```
//! `flap` cuts, heals one period later, and so on, until the given time or the next `cut`, `heal` or `flap`, and ends healed.
//! Without `at` it begins one period after the step before it, or with the schedule. `set` changes what it names: what that comes
//! to is known only together with the conditions of the link. Relays in stream mode carry out no schedules.

use super::condition::{Condition, Key, check, difference};
use super::delay::parse_within;
use super::quantity::time_text;
use super::{Bad, BadDelay};
use std::ops::Range;
use std::time::Duration;
use wire::{Conditions, CutKind, Schedule, Step};

/// Latest moment of a schedule.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Shortest period of flapping; below it the relay would do little else.
const SHORTEST_PERIOD_NS: u64 = 10_000_000;
/// Most bytes of a schedule as JSON: an order to a relay is one line of at most 64 KiB.
const MOST_BYTES: usize = 48 << 10;

/// A schedule as written, before it meets a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timetable {
    steps: Vec<Timed>,
}

/// A step as written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Timed {
    /// Where it stands in the text, bytes.
    range: Range<usize>,
    at_ns: u64,
    action: Action,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Cut(CutKind),
    Heal,
    Freeze,
    Thaw,
    Set(Vec<Condition>),
    Flap {
        kind: CutKind,
        every_ns: u64,
        until: Option<(u64, Range<usize>)>,
    },
}

/// What is wrong with a part of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadStep {
    /// The part, bytes of the text.
    pub range: Range<usize>,
    /// The whole sentence in `what`, and what to write instead.
    pub bad: Bad,
}

impl BadStep {
    fn new(range: Range<usize>, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            range,
            bad: Bad::new(what, hint),
        }
    }

    fn of(word: &Word, what: &str, bad: &Bad) -> Self {
        Self::new(word.range(), format!("{what} `{}` {bad}", word.text), bad.hint.clone())
    }
}

/// A word of the text with its place.
#[derive(Debug, Clone, Copy)]
struct Word<'t> {
    at: usize,
    text: &'t str,
}

impl Word<'_> {
    fn range(&self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }
}

impl Timetable {
    /// From its text.
    ///
    /// # Errors
    /// Everything that is wrong with it: at most one thing for each step, and their order.
    pub fn parse(text: &str) -> Result<Self, Vec<BadStep>> {
        let mut steps: Vec<Timed> = Vec::new();
        let mut bad = Vec::new();
        let mut at = 0;
        for piece in text.split(',') {
            match step(piece, at, steps.last()) {
                Ok(step) => steps.push(step),
                Err(error) => bad.push(error),
            }
            at += piece.len() + 1;
        }
        bad.extend(disorder(&steps));
        bad.extend(limit_flaps(&mut steps));
        if bad.is_empty() {
            return Ok(Self { steps });
        }
        bad.sort_by_key(|error| error.range.start);
        Err(bad)
    }

    /// As a relay is told it, for a link that has these conditions at its start.
    ///
    /// # Errors
    /// A step sets what does not fit the other conditions, or there are too many steps.
    pub fn on(&self, link: &Conditions) -> Result<Schedule, BadStep> {
        let mut conditions = link.clone();
        let mut steps = Vec::new();
        for step in &self.steps {
            let action = match &step.action {
                Action::Cut(kind) => wire::Action::Cut { kind: *kind },
                Action::Heal => wire::Action::Heal,
                Action::Freeze => wire::Action::Freeze,
                Action::Thaw => wire::Action::Thaw,
                Action::Flap { kind, every_ns, until } => wire::Action::Flap {
                    kind: *kind,
                    every_ns: *every_ns,
                    until_ns: until.as_ref().map(|(until_ns, _)| *until_ns),
                },
                Action::Set(named) => {
                    named.iter().for_each(|condition| condition.apply(&mut conditions));
                    check(&conditions).map_err(|(key, bad)| {
                        let value = Condition::of(key, &conditions).value();
                        let what = format!("{} `{value}` {bad}", key.as_str());
                        BadStep::new(step.range.clone(), what, bad.hint)
                    })?;
                    wire::Action::Set {
                        conditions: Box::new(conditions.clone()),
                    }
                }
            };
            steps.push(Step {
                at_ns: step.at_ns,
                action,
            });
        }
        let schedule = Schedule { steps };
        let bytes = serde_json::to_string(&schedule).expect("a schedule is JSON").len();
        if bytes > MOST_BYTES {
            let whole = 0..self.steps.last().map_or(0, |step| step.range.end);
            let what = "the schedule is longer than a relay can be told at once";
            return Err(BadStep::new(whole, what, "take fewer steps; `flap` repeats a cut"));
        }
        Ok(schedule)
    }
}

/// A schedule as it is written, for a link that has these conditions at its start; read again it is the same.
#[must_use]
pub fn schedule_text(schedule: &Schedule, link: &Conditions) -> String {
    let mut conditions = link;
    let steps = schedule.steps.iter().map(|step| {
        let action = match &step.action {
            wire::Action::Cut { kind } => format!("cut {}", kind.word()),
            wire::Action::Heal => "heal".to_owned(),
            wire::Action::Freeze => "freeze".to_owned(),
            wire::Action::Thaw => "thaw".to_owned(),
            wire::Action::Set { conditions: next } => {
                let changed = difference(conditions, next);
                conditions = next;
                if changed.is_empty() {
                    format!("set delay={}", time_text(next.delay_ns))
                } else {
                    format!("set {changed}")
                }
            }
            wire::Action::Flap {
                kind,
                every_ns,
                until_ns,
            } => {
                let until = until_ns.map(|until_ns| format!(" until {}", moment_text(until_ns)));
                let every = time_text(*every_ns);
                format!("flap {} every {every}{}", kind.word(), until.unwrap_or_default())
            }
        };
        format!("at {} {action}", moment_text(step.at_ns))
    });
    steps.collect::<Vec<_>>().join(", ")
}

fn moment_text(ns: u64) -> String {
    if ns == 0 { "0s".to_owned() } else { time_text(ns) }
}

/// A step; `at` is where its text begins.
fn step(piece: &str, at: usize, before: Option<&Timed>) -> Result<Timed, BadStep> {
    let words = words(piece, at);
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        let here = at..at + piece.len();
        return Err(BadStep::new(
            here,
            "a step is empty",
            "steps are joined by commas: at 5s cut, at 8s heal",
        ));
    };
    let range = first.at..last.range().end;
    let (at_ns, action) = match first.text {
        "at" => {
            let Some(time) = words.get(1) else {
                return Err(BadStep::new(range, "`at` has no time", "write `at 5s cut`"));
            };
            let Some(verb) = words.get(2) else {
                let what = format!("nothing happens at {}", time.text);
                return Err(BadStep::new(range, what, ACTIONS));
            };
            (moment(time)?, action(verb, &words[3..])?)
        }
        "flap" => {
            let action = action(first, &words[1..])?;
            let period = match &action {
                Action::Flap { every_ns, .. } => *every_ns,
                _ => 0,
            };
            (before.map_or(0, |before| before.at_ns + period), action)
        }
        "cut" | "heal" | "freeze" | "thaw" | "set" => {
            let what = format!("`{}` has no time", first.text);
            return Err(BadStep::new(
                first.range(),
                what,
                format!("write `at 5s {}`", first.text),
            ));
        }
        other => {
            let what = format!("a step does not begin with `{other}`");
            return Err(BadStep::new(
                first.range(),
                what,
                "write `at 5s cut` or `flap every 2s`",
            ));
        }
    };
    Ok(Timed { range, at_ns, action })
}

const ACTIONS: &str = "what can happen: cut [drop|reset], heal, freeze, thaw, set KEY=VALUE, flap every TIME";

fn action(verb: &Word, rest: &[Word]) -> Result<Action, BadStep> {
    let alone = |action: Action| match rest.first() {
        None => Ok(action),
        Some(word) => Err(superfluous(word, verb.text)),
    };
    match verb.text {
        "heal" => alone(Action::Heal),
        "freeze" => alone(Action::Freeze),
        "thaw" => alone(Action::Thaw),
        "cut" => match rest {
            [] => Ok(Action::Cut(CutKind::Drop)),
            [kind] => Ok(Action::Cut(cut_kind(kind)?)),
            [_, word, ..] => Err(superfluous(word, "cut")),
        },
        "set" if rest.is_empty() => {
            let hint = "write what changes: set delay=50ms loss=1%";
            Err(BadStep::new(verb.range(), "`set` sets nothing", hint))
        }
        "set" => Ok(Action::Set(rest.iter().map(condition).collect::<Result<_, _>>()?)),
        "flap" => flap(verb, rest),
        other => Err(BadStep::new(
            verb.range(),
            format!("`{other}` is nothing that can happen to a link"),
            ACTIONS,
        )),
    }
}

fn flap(verb: &Word, rest: &[Word]) -> Result<Action, BadStep> {
    const HINT: &str = "write `flap every 2s`, `flap reset every 2s until 30s`";
    let (kind, rest) = match rest.first() {
        Some(kind) if kind.text != "every" => (cut_kind(kind)?, &rest[1..]),
        _ => (CutKind::Drop, rest),
    };
    let [every, period, rest @ ..] = rest else {
        return Err(BadStep::new(verb.range(), "`flap` has no period", HINT));
    };
    if every.text != "every" {
        return Err(BadStep::new(every.range(), "`flap` has no period", HINT));
    }
    let every_ns = moment(period)?;
    if every_ns < SHORTEST_PERIOD_NS {
        let what = format!("a period of {} is too short", period.text);
        return Err(BadStep::new(
            period.range(),
            what,
            "so long cut, so long up: at least 10ms each",
        ));
    }
    let until = match rest {
        [] => None,
        [until, end] if until.text == "until" => Some((moment(end)?, end.range())),
        [word, ..] if word.text == "until" => {
            let [_, _, superfluous_word, ..] = rest else {
                return Err(BadStep::new(word.range(), "`until` has no time", HINT));
            };
            return Err(superfluous(superfluous_word, "flap"));
        }
        [word, ..] => return Err(superfluous(word, "flap")),
    };
    Ok(Action::Flap { kind, every_ns, until })
}

fn superfluous(word: &Word, verb: &str) -> BadStep {
    let what = format!("`{}` does not belong behind `{verb}`", word.text);
    BadStep::new(word.range(), what, "steps are joined by commas: at 5s cut, at 8s heal")
}

fn cut_kind(word: &Word) -> Result<CutKind, BadStep> {
    match word.text {
        "drop" => Ok(CutKind::Drop),
        "reset" => Ok(CutKind::Reset),
        "close" => {
            let what = "`close` is a cut of stream mode, which carries out no schedule";
            Err(BadStep::new(word.range(), what, "drop or reset"))
        }
        other => {
            let what = format!("`{other}` is no kind of cut");
            Err(BadStep::new(word.range(), what, "drop or reset"))
        }
    }
}

fn condition(word: &Word) -> Result<Condition, BadStep> {
    let (name, value) = word.text.split_once('=').unwrap_or((word.text, ""));
    let Some(key) = Key::parse(name) else {
        let known: Vec<&str> = Key::ALL.iter().map(|key| key.as_str()).collect();
        let what = format!("`{name}` is no condition of a link");
        return Err(BadStep::new(
            word.range(),
            what,
            format!("conditions are {}", known.join(", ")),
        ));
    };
    Condition::parse(key, value).map_err(|bad| BadStep::new(word.range(), format!("{name} `{value}` {bad}"), bad.hint))
}

fn moment(word: &Word) -> Result<u64, BadStep> {
    parse_within(word.text, LONGEST).map_err(|error| {
        let hint = match error {
            BadDelay::NoUnit => format!("write `{}s` if seconds are meant", word.text),
            BadDelay::TooLong => "a schedule ends within a day".to_owned(),
            BadDelay::Negative => "times count from the start of the schedule".to_owned(),
            BadDelay::Unreadable => "write a number and a unit, as one word: 5s, 1.5s, 500ms, 2min".to_owned(),
        };
        let bad = match error {
            BadDelay::TooLong => Bad::new("is longer than a day", hint),
            other => Bad::new(other.to_string(), hint),
        };
        BadStep::of(word, "time", &bad)
    })
}

/// Steps before the one in front of them.
fn disorder(steps: &[Timed]) -> Vec<BadStep> {
    let pairs = steps.iter().zip(steps.iter().skip(1));
    pairs
        .filter(|(before, step)| step.at_ns < before.at_ns)
        .map(|(before, step)| {
            let (at, after) = (moment_text(step.at_ns), moment_text(before.at_ns));
            let what = format!("a step at {at} stands behind one at {after}");
            BadStep::new(step.range.clone(), what, "steps stand in the order of their times")
        })
        .collect()
}

/// Flapping ends when something else is said of the cut.
fn limit_flaps(steps: &mut [Timed]) -> Vec<BadStep> {
    let mut bad = Vec::new();
    let mut next: Option<u64> = None;
    for step in steps.iter_mut().rev() {
        if let Action::Flap { until, .. } = &mut step.action {
            match (&until, next) {
                (Some((end_ns, range)), _) if *end_ns <= step.at_ns => bad.push(BadStep::new(
                    range.clone(),
                    format!("flapping ends before it begins at {}", moment_text(step.at_ns)),
                    "`until` counts from the start of the schedule, as `at` does",
                )),
                (Some((end_ns, range)), Some(next_ns)) if *end_ns > next_ns => bad.push(BadStep::new(
                    range.clone(),
                    format!("flapping goes on beyond the next step, at {}", moment_text(next_ns)),
                    "leave `until` out: the next `cut`, `heal` or `flap` ends it",
                )),
                (None, Some(next_ns)) => *until = Some((next_ns, step.range.clone())),
                _ => {}
            }
        }
        if matches!(step.action, Action::Cut(_) | Action::Heal | Action::Flap { .. }) {
            next = Some(step.at_ns);
        }
    }
    bad
}

fn words(piece: &str, at: usize) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = piece;
    let mut offset = at;
    while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
        rest = &rest[start..];
        offset += start;
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        words.push(Word {
            at: offset,
            text: &rest[..end],
        });
        rest = &rest[end..];
        offset += end;
    }
    words
}

#[cfg(test)]
mod tests;
