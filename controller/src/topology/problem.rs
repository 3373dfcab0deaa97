//! What is wrong with a topology file, and how it is shown: place, snippet, hint.
//!
//! Problems are collected, never thrown: the reader goes on after each one, so that one look at the file shows them
//! all, in the order of the file. Text of the file reaches the terminal without its control characters.

use super::tree::{At, Place};
use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, MietteError, MietteSpanContents, Report,
    SourceCode, SourceSpan, SpanContents,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;

/// Most problems that are told of one file; a file that breaks more rules is broken in a way that more lines do not show.
const MOST_TOLD: usize = 100;
/// Most problems that are kept before they are sorted: a file of a megabyte can have as many as it has keys.
const MOST_KEPT: usize = 2000;
/// Longest line that is shown as a snippet, bytes; a longer one (a file without line breaks) would fill the terminal.
const LONGEST_LINE: usize = 240;
/// Longest piece of the file that is repeated inside a message, characters.
const LONGEST_QUOTE: usize = 60;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// The file, as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The rule.
    pub code: Code,
    /// What is wrong; a lower-case fragment.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
    /// The line of the file; empty if it is very long.
    pub snippet: String,
    /// Where it begins in the text, bytes.
    #[serde(skip)]
    offset: usize,
    /// How long it is, bytes.
    #[serde(skip)]
    length: usize,
}

/// The rules of a topology file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// It cannot be read as UTF-8 text.
    NotText,
    /// It is larger than any topology.
    TooLarge,
    /// There is nothing in it.
    Empty,
    /// It is not one YAML document, or one that unfolds beyond all bounds.
    Yaml,
    /// A key that does not exist.
    UnknownKey,
    /// The same name or key twice.
    Duplicate,
    /// Something that must be there is not.
    Missing,
    /// A list where a map is expected, and the like.
    WrongType,
    /// A value that is not among the allowed ones.
    BadValue,
    /// A name that is not allowed, or reserved.
    BadName,
    /// A quantity without its unit.
    NoUnit,
    /// A delay that is no time, or no sensible one.
    BadDelay,
    /// A condition that no link has, or that contradicts another.
    BadCondition,
    /// A schedule that cannot be carried out.
    BadSchedule,
    /// A node or datacenter that does not exist is named.
    Absent,
    /// Links that contradict each other or lead nowhere.
    BadLink,
    /// Two datacenters without a link.
    NoLink,
    /// A replica of itself, directly or in a circle.
    ReplicaLoop,
    /// A replica of a replica.
    ReplicaChain,
    /// A replica of another kind of server, or of one that has none.
    ReplicaKind,
    /// A second primary in one set.
    TwoPrimaries,
    /// A cluster that cannot be formed.
    BadCluster,
    /// A Sentinel that cannot be one.
    BadSentinel,
    /// Slots that are none, belong to somebody already, or to nobody.
    BadSlots,
    /// A subnet that cannot be used.
    BadSubnet,
    /// Two datacenters with common addresses.
    Overlap,
    /// A release that does not exist, or not for this engine.
    BadRelease,
    /// A published port that cannot be, or is taken twice.
    BadPublish,
    /// A setting that testbed makes itself, or that is not one.
    BadConfig,
    /// An application that cannot be run as it is written.
    BadApplication,
    /// A mount that leaves the topology's folder, or hides what is not the topology's.
    BadMount,
}

impl Code {
    /// As it is printed, e.g. `unknown-key`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotText => "not-text",
            Self::TooLarge => "too-large",
            Self::Empty => "empty",
            Self::Yaml => "yaml",
            Self::UnknownKey => "unknown-key",
            Self::Duplicate => "duplicate",
            Self::Missing => "missing",
            Self::WrongType => "wrong-type",
            Self::BadValue => "bad-value",
            Self::BadName => "bad-name",
            Self::NoUnit => "no-unit",
            Self::BadDelay => "bad-delay",
            Self::BadCondition => "bad-condition",
            Self::BadSchedule => "bad-schedule",
            Self::Absent => "absent",
            Self::BadLink => "bad-link",
            Self::NoLink => "no-link",
            Self::ReplicaLoop => "replica-loop",
            Self::ReplicaChain => "replica-chain",
            Self::ReplicaKind => "replica-kind",
            Self::TwoPrimaries => "two-primaries",
            Self::BadCluster => "bad-cluster",
            Self::BadSentinel => "bad-sentinel",
            Self::BadSlots => "bad-slots",
            Self::BadSubnet => "bad-subnet",
            Self::Overlap => "overlap",
            Self::BadRelease => "bad-release",
            Self::BadPublish => "bad-publish",
            Self::BadConfig => "bad-config",
            Self::BadApplication => "bad-application",
            Self::BadMount => "bad-mount",
        }
    }
}

impl Problem {
    /// A problem of a file whose text is not at hand: the first character is its place.
    #[must_use]
    pub fn of_file(file: &str, code: Code, message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: 1,
            column: 1,
            code,
            message: message.into(),
            hint,
            snippet: String::new(),
            offset: 0,
            length: 0,
        }
    }

    /// Sorted by place, with the rule, a snippet and the hint. `text` is the text of the file.
    #[must_use]
    pub fn render(&self, text: &str, colour: bool) -> String {
        let mut diagnostic =
            MietteDiagnostic::new(self.message.clone()).with_code(format!("topology::{}", self.code.as_str()));
        if let Some(hint) = &self.hint {
            diagnostic = diagnostic.with_help(hint.clone());
        }
        let shown = !self.snippet.is_empty();
        let report = if shown {
            let label = LabeledSpan::new_primary_with_span(None, (self.offset, self.length));
            Report::new(diagnostic.with_label(label)).with_source_code(Window::around(self, text))
        } else {
            diagnostic.message = format!("{}:{}:{}: {}", self.file, self.line, self.column, self.message);
            Report::new(diagnostic)
        };
        let theme = if colour {
            GraphicalTheme::unicode()
        } else {
            GraphicalTheme::unicode_nocolor()
        };
        let mut out = String::new();
        GraphicalReportHandler::new_themed(theme)
            .with_width(120)
            .with_links(false)
            .render_report(&mut out, report.as_ref())
            .expect("a diagnostic is written to a string");
        // miette counts columns in bytes, and from the first line that it sees.
        if shown && let Some((before, rest)) = out.split_once(&format!("─[{}:", self.file)) {
            let after = rest.split_once(']').map_or("", |(_, after)| after);
            out = format!("{before}─[{}:{}:{}]{after}", self.file, self.line, self.column);
        }
        // miette pads lines; what is printed, stored and compared ends where its text ends.
        out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

/// The line of a problem and its neighbours: all that miette sees of a file, however long its other lines are.
#[derive(Debug)]
struct Window {
    file: String,
    lines: String,
    /// Where `lines` begins in the file, bytes.
    offset: usize,
    /// Line of the file that it begins with, from 0.
    line: usize,
}

impl Window {
    fn around(problem: &Problem, text: &str) -> Self {
        let start = problem.offset
            - text[..problem.offset]
                .bytes()
                .rev()
                .take_while(|&byte| byte != b'\n')
                .count();
        let end = |from: usize| text[from..].find('\n').map_or(text.len(), |at| from + at + 1);
        let mut window = Self {
            file: problem.file.clone(),
            lines: String::new(),
            offset: start,
            line: problem.line - 1,
        };
        let mut last = end(start);
        if start > 0
            && let Some(before) = line_at(text, start - 1)
        {
            window.offset = start
                - 1
                - text[..start - 1]
                    .bytes()
                    .rev()
                    .take_while(|&byte| byte != b'\n')
                    .count();
            window.line -= 1;
            debug_assert!(before.len() <= start - window.offset);
        }
        if last < text.len() && line_at(text, last).is_some() {
            last = end(last);
        }
        window.lines = without_control(&text[window.offset..last]);
        window
    }
}

impl SourceCode for Window {
    fn read_span<'a>(
        &'a self,
        _: &SourceSpan,
        _: usize,
        _: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        Ok(Box::new(MietteSpanContents::new_named(
            self.file.clone(),
            self.lines.as_bytes(),
            (self.offset, self.lines.len()).into(),
            self.line,
            0,
            self.lines.lines().count(),
        )))
    }
}

/// The problems of one file, while it is read.
pub(super) struct Problems<'a> {
    file: &'a str,
    text: &'a str,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self {
            file,
            text,
            found: Vec::new(),
        }
    }

    /// Adds one; its hint is added to the returned value.
    pub(super) fn add(&mut self, place: Place, code: Code, message: impl Into<String>) -> Hint<'_> {
        if self.found.len() >= MOST_KEPT {
            return Hint(None);
        }
        let offset = place.offset.min(self.text.len());
        self.found.push(Problem {
            file: self.file.to_owned(),
            line: place.line.max(1),
            column: place.column.max(1),
            code,
            message: without_control(&message.into()),
            hint: None,
            snippet: line_at(self.text, offset).map(without_control).unwrap_or_default(),
            offset,
            length: place.length.min(self.text.len() - offset),
        });
        Hint(self.found.last_mut())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many there are so far.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// The place of a part of a text, if the file writes it as it is, plain or in quotes; else that of the whole.
    pub(super) fn within(&self, whole: &At<String>, part: Range<usize>) -> Place {
        let place = whole.place;
        let written = self.text.get(place.offset..place.offset + place.length);
        let start = written.and_then(|written| {
            let quotes = usize::from(written.starts_with(['"', '\'']));
            written[quotes..].starts_with(&whole.value).then_some(quotes)
        });
        let before = start.zip(whole.value.get(..part.start));
        match before {
            Some((quotes, before)) if !whole.value.contains('\n') => Place {
                line: place.line,
                column: place.column + quotes + before.chars().count(),
                offset: place.offset + quotes + part.start,
                length: part.len(),
            },
            _ => place,
        }
    }

    /// In the order of the file, each once.
    pub(super) fn into_sorted(mut self) -> Vec<Problem> {
        self.found
            .sort_by_key(|problem| (problem.line, problem.column, problem.offset));
        self.found
            .dedup_by(|a, b| a.offset == b.offset && a.line == b.line && a.message == b.message);
        self.found.truncate(MOST_TOLD);
        self.found
    }
}

/// The problem just added, to give it a hint.
pub(super) struct Hint<'p>(Option<&'p mut Problem>);

impl Hint<'_> {
    pub(super) fn hint(self, hint: impl Into<String>) {
        if let Some(problem) = self.0 {
            problem.hint = Some(without_control(&hint.into()));
        }
    }
}

/// A piece of the file inside a message: in backquotes, short, without control characters.
pub(super) fn quote(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(LONGEST_QUOTE)
        .map(|c| if is_hidden(c) { '?' } else { c })
        .collect();
    if text.chars().nth(LONGEST_QUOTE).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}

/// The nearest of some words, if one is near enough to be a slip of the finger.
pub(super) fn nearest<'w>(word: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('_', "-");
    let word = plain(word);
    words
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&word, &plain(known)), known))
        .filter(|(distance, known)| *distance <= 2.max(known.len() / 3) && *distance < known.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// The line around a byte, unless it is too long to show.
fn line_at(text: &str, offset: usize) -> Option<&str> {
    let bytes = text.as_bytes();
    let first = offset.saturating_sub(LONGEST_LINE);
    let last = bytes.len().min(offset + LONGEST_LINE);
    let start = match bytes[first..offset].iter().rposition(|&byte| byte == b'\n') {
        Some(at) => first + at + 1,
        None if first == 0 => 0,
        None => return None,
    };
    let end = match bytes[offset..last].iter().position(|&byte| byte == b'\n') {
        Some(at) => offset + at,
        None if last == bytes.len() => last,
        None => return None,
    };
    // A line break is one byte and never part of another character.
    Some(text[start..end].trim_end_matches('\r')).filter(|line| line.len() <= LONGEST_LINE)
}

/// Whether a character moves the cursor, or turns the direction of what follows, and so shows another text than there is.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The same text, byte for byte as long, with every control character replaced.
fn without_control(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c.to_string(),
            // That of a line's end of Windows too: alone it would write over the line on a terminal.
            '\r' => " ".to_owned(),
            c if is_hidden(c) => "?".repeat(c.len_utf8()),
            c => c.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        let keys = [
            "engine",
            "datacenter",
            "role",
            "replica-of",
            "release",
            "config",
            "publish",
        ];
        assert_eq!(nearest("replicaof", keys), Some("replica-of"));
        assert_eq!(nearest("replica_of", keys), Some("replica-of"));
        assert_eq!(nearest("data-center", keys), Some("datacenter"));
        assert_eq!(nearest("Engine", keys), Some("engine"));
        assert_eq!(nearest("volume", keys), None);
    }

    #[test]
    fn a_quote_is_short_and_cannot_move_the_cursor() {
        assert_eq!(quote("a\u{1b}[2Jb"), "`a?[2Jb`");
        assert_eq!(quote("a\u{202e}b\u{200b}"), "`a?b?`", "nor turn what follows");
        assert!(quote(&"x".repeat(1000)).chars().count() < 70);
    }

    #[test]
    fn replaced_control_characters_keep_every_offset() {
        let text = "a\u{7}b\u{85}c\nä";
        assert_eq!(without_control(text).len(), text.len());
        assert_eq!(without_control("a\rb\r\n"), "a b \n", "a return moves the cursor too");
    }

    #[test]
    fn a_long_line_is_not_shown() {
        let text = format!("version: {}", "x".repeat(5000));
        let mut problems = Problems::new("long.yaml", &text);
        let place = Place {
            line: 1,
            column: 10,
            offset: 9,
            length: 5000,
        };
        problems.add(place, Code::BadValue, "no");
        let shown = problems.into_sorted()[0].render(&text, false);
        assert!(shown.len() < 300, "{shown}");
        assert!(shown.contains("long.yaml:1:10"), "{shown}");
    }
}
