//! A YAML document as a tree in which every value knows its place, whatever its type.
//!
//! A typed deserialiser stops at the first wrong key; this one has no types to be wrong about, so the reader can
//! go through the whole file and report everything. It refuses only what is not one YAML document, or unfolds beyond
//! the library's budgets. Scalars keep their text as written: `no`, `1e3` and `0123` stay what they are.

use super::problem::{Code, Problems};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;
use serde_yaml::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};

/// Where something stands in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// From 1.
    pub(super) line: usize,
    /// In characters, from 1.
    pub(super) column: usize,
    /// In bytes, from 0.
    pub(super) offset: usize,
    /// In bytes.
    pub(super) length: usize,
}

/// A value with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At<T> {
    /// The value.
    pub(super) value: T,
    /// Where it is used.
    pub(super) place: Place,
}

/// A value of any type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    /// Nothing: `key:` or `null`.
    Null,
    /// Text, or what was quoted.
    Text(String),
    /// A number, as written.
    Number(String),
    /// `true` or `false`, as written.
    Truth(String),
    /// `- a`, `[a]`.
    List(Vec<At<Tree>>),
    /// In the order of the file, with duplicates.
    Map(Vec<(At<Tree>, At<Tree>)>),
}

impl Tree {
    /// What it is, in a message.
    pub(super) fn sort(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Text(_) => "text",
            Self::Number(_) => "a number",
            Self::Truth(_) => "a truth value",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// The document, or `None` with the one problem that the parser stopped at.
pub(super) fn read(text: &str, problems: &mut Problems) -> Option<At<Tree>> {
    // The library's budgets, but the depth: each level takes a good kilobyte of stack, and a topology has six.
    let options = serde_yaml::options! {
        budget: serde_yaml::budget! { max_depth: 64 },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        strict_booleans: true,
        with_snippet: false,
    };
    match serde_yaml::from_str_with_options::<Spanned<Raw>>(text, options) {
        Ok(raw) => Some(planted(raw, text)),
        Err(error) => {
            report(&error, text, problems);
            None
        }
    }
}

fn report(mut error: &serde_yaml::Error, text: &str, problems: &mut Problems) {
    use serde_yaml::Error;
    let place = error
        .location()
        .map_or_else(Place::default, |location| place_of_error(&location, text));
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    let line = text.lines().nth(place.line.saturating_sub(1)).unwrap_or("");
    let (message, hint) = match error {
        Error::MultipleDocuments { .. } => (
            "there is a second document in the file".to_owned(),
            Some("one file is one topology: split it at the `---`"),
        ),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => (
            "the file unfolds beyond all bounds".to_owned(),
            Some("anchors and aliases of a topology are few, and not made of each other; its lists and maps are flat"),
        ),
        Error::UnknownAnchor { .. } => (
            "this is not YAML: an alias without its anchor".to_owned(),
            Some("define it before its first use, with `&NAME`"),
        ),
        other => {
            let message = other.to_string();
            // The library ends its message with the place that is shown anyway.
            let message = message.split(" at line ").next().unwrap_or(&message);
            let tab = line.trim_start_matches(' ').starts_with('\t');
            (
                format!("this is not YAML: {message}"),
                tab.then_some("indent with spaces; YAML does not allow tabs"),
            )
        }
    };
    let added = problems.add(place, Code::Yaml, message);
    if let Some(hint) = hint {
        added.hint(hint);
    }
}

/// The parser counts characters, sometimes one behind the last; the offset in bytes is found by line and column.
fn place_of_error(location: &serde_yaml::Location, text: &str) -> Place {
    let mut place = place_of(location);
    let before: usize = text
        .split_inclusive('\n')
        .take(place.line.saturating_sub(1))
        .map(str::len)
        .sum();
    let line = text[before..].split('\n').next().unwrap_or_default();
    let column = line
        .char_indices()
        .nth(place.column.saturating_sub(1))
        .map_or(line.len(), |(at, _)| at);
    place.offset = before + column;
    place.length = line[column..].chars().next().map_or(0, char::len_utf8);
    place
}

fn place_of(location: &serde_yaml::Location) -> Place {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let span = location.span();
    Place {
        line: number(location.line()),
        column: number(location.column()),
        offset: span.byte_offset().map_or(0, number),
        length: span.byte_len().map_or(0, number),
    }
}

/// What the deserialiser hands over; numbers and truth values have lost their text.
enum Raw {
    Null,
    Text(String),
    Number,
    Truth,
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Raw>, Spanned<Raw>)>),
}

fn planted(raw: Spanned<Raw>, text: &str) -> At<Tree> {
    let used = place_of(&raw.referenced);
    let defined = place_of(&raw.defined);
    let written = || {
        text.get(defined.offset..defined.offset.saturating_add(defined.length))
            .unwrap_or_default()
            .to_owned()
    };
    let value = match raw.value {
        Raw::Null => Tree::Null,
        Raw::Text(text) => Tree::Text(text),
        Raw::Number => Tree::Number(written()),
        Raw::Truth => Tree::Truth(written()),
        Raw::List(items) => Tree::List(items.into_iter().map(|item| planted(item, text)).collect()),
        Raw::Map(entries) => Tree::Map(
            entries
                .into_iter()
                .map(|(key, value)| (planted(key, text), planted(value, text)))
                .collect(),
        ),
    };
    At { value, place: used }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }
    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Raw, E> {
        Ok(Raw::Truth)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Number)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Number)
    }
    fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
        Ok(Raw::Number)
    }
    fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
        Ok(Raw::Number)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Number)
    }
    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }
    fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Raw, E> {
        Err(E::custom("binary data has no place in a topology"))
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key()? {
            entries.push((key, access.next_value()?));
            if entries.len() > 100_000 {
                return Err(A::Error::custom("a map with more than 100000 entries"));
            }
        }
        Ok(Raw::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> At<Tree> {
        let mut problems = Problems::new("t.yaml", text);
        let tree = read(text, &mut problems);
        let found = problems.into_sorted();
        tree.unwrap_or_else(|| panic!("{found:?}"))
    }

    fn map(tree: At<Tree>) -> Vec<(At<Tree>, At<Tree>)> {
        match tree.value {
            Tree::Map(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_scalar_keeps_its_text() {
        let entries = map(tree(
            "a: no\nb: 1e3\nc: 0123\nd: 1_000\ne: true\nf: \"7\"\ng:\nh: .nan\ni: -20\nj: 99999999999999999999999\n",
        ));
        let values: Vec<Tree> = entries.into_iter().map(|(_, value)| value.value).collect();
        let number = |text: &str| Tree::Number(text.to_owned());
        let text = |text: &str| Tree::Text(text.to_owned());
        assert_eq!(values[0], text("no"));
        assert_eq!(values[1], number("1e3"));
        assert_eq!(values[2], number("0123"));
        assert!(matches!(&values[3], Tree::Number(t) | Tree::Text(t) if t == "1_000"));
        assert_eq!(values[4], Tree::Truth("true".to_owned()));
        assert_eq!(values[5], text("7"));
        assert_eq!(values[6], Tree::Null);
        assert_eq!(values[7], number(".nan"));
        assert_eq!(values[8], number("-20"));
        assert!(matches!(&values[9], Tree::Number(t) | Tree::Text(t) if t == "99999999999999999999999"));
    }

    #[test]
    fn places_are_bytes_even_behind_umlauts_and_line_ends_of_windows() {
        let text = "# äöü\r\na: b\r\nö: c\r\n";
        let entries = map(tree(text));
        let place = entries[1].1.place;
        assert_eq!((place.line, place.column), (3, 4));
        assert_eq!(&text[place.offset..place.offset + place.length], "c");
    }

    #[test]
    fn duplicates_are_handed_over() {
        assert_eq!(map(tree("a: 1\na: 2\n")).len(), 2);
    }

    #[test]
    fn an_alias_stands_where_it_is_used_and_a_merge_is_unfolded() {
        let entries = map(tree("x-a: &a {k: 20}\nb: {<<: *a, l: 1}\nc: *a\n"));
        assert_eq!(map(entries[1].1.clone()).len(), 2);
        let c = map(entries[2].1.clone());
        assert_eq!(c[0].1.value, Tree::Number("20".to_owned()));
        assert_eq!(entries[2].1.place.line, 3);
    }
}
