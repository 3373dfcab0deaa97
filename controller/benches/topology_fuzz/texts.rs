//! Texts that a topology's reader may meet: those that come with the program, mutilated where it hurts.

use fastrand::Rng;
use std::path::Path;

/// Scalars, keys and pieces of YAML that readers stumble over.
const PIECES: [&str; 64] = [
    "",
    "~",
    "null",
    "true",
    "no",
    "0",
    "-1",
    "1e999",
    ".nan",
    "0x7fffffffffffffff",
    "18446744073709551616",
    "20",
    "20ms",
    "20 ms",
    "-20ms",
    "99999999999999999999s",
    "1%",
    "101%",
    "1%:burst:0",
    "normal:1ms",
    "table:0ms/1ms",
    "table:",
    "100mbit",
    "unlimited",
    "68",
    "65536",
    "at 5s cut, at 8s heal",
    "flap every 0s",
    "at",
    "0-16383",
    "5-3",
    "0-5460,5461",
    "16384",
    "198.18.0.0/24",
    "198.18.0.0/33",
    "10.0.0.0/8",
    "::/0",
    "redis",
    "valkey",
    "postgres",
    "redis-7.0.15",
    "redis=",
    "redis-primary",
    "dc1",
    "dc9",
    "dc1-dc1",
    "dc1:dc2",
    "<<: *a",
    "&a [*a]",
    "*nobody",
    "!!binary AAAA",
    "!!python/object:os.system",
    "? [a, b]",
    "\"\\u001b[31m\"",
    "'it''s'",
    "|\n  text",
    ">-\n  text",
    "{",
    "}",
    "[",
    "\t",
    "---",
    "...",
    "${HOME}",
];

/// Keys that a topology has, and some that it has not.
const KEYS: [&str; 32] = [
    "version",
    "name",
    "datacenters",
    "links",
    "defaults",
    "nodes",
    "engine",
    "datacenter",
    "replica-of",
    "cluster",
    "slots",
    "release",
    "config",
    "delay",
    "rtt",
    "jitter",
    "loss",
    "duplicate",
    "reorder",
    "corrupt",
    "rate",
    "queue",
    "mtu",
    "schedule",
    "mode",
    "subnet",
    "publish",
    "seed",
    "sentinel",
    "__proto__",
    "<<",
    "a\u{202e}b",
];

/// Characters that are nobody's friend.
const CHARACTERS: [char; 14] = [
    '\0',
    '\t',
    '\r',
    '\u{7f}',
    '\u{85}',
    '\u{2028}',
    '\u{feff}',
    '\u{1b}',
    ':',
    '#',
    '"',
    '&',
    '\u{1f980}',
    '%',
];

/// The topologies that come with the program.
///
/// # Panics
/// They cannot be read.
pub fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies");
    let entries = std::fs::read_dir(folder).expect("the topologies that come with the program");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    // The same corpus on every machine, or a seed would mean nothing.
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("a topology"))
        .collect()
}

/// One text.
pub fn text(rng: &mut Rng, corpus: &[String]) -> String {
    if rng.u16(..400) == 0 {
        return monster(rng);
    }
    let mut text = corpus[rng.usize(..corpus.len())].clone();
    for _ in 0..[0, 1, 1, 1, 2, 2, 3, 5, 12][rng.usize(..9)] {
        text = mutilated(rng, text, corpus);
    }
    text
}

/// What takes forever or everything in a reader without bounds.
fn monster(rng: &mut Rng) -> String {
    match rng.u8(..6) {
        0 => "[".repeat(rng.usize(..20_000)),
        1 => "{a: ".repeat(rng.usize(..5_000)),
        2 => "- ".repeat(rng.usize(..20_000)),
        3 => {
            // Each line doubles what the one before unfolds to.
            let mut text = String::from("a0: &a0 [x, x]\n");
            for i in 1..rng.usize(2..64) {
                let before = i - 1;
                text += &format!("a{i}: &a{i} [*a{before}, *a{before}]\n");
            }
            text
        }
        4 => format!("version: 1\nname: {}\n", "n".repeat(rng.usize(..2_000_000))),
        _ => {
            let mut text = String::from("version: 1\ndatacenters:\n");
            for i in 0..rng.usize(..3_000) {
                text += &format!("  dc{i}:\n");
            }
            text
        }
    }
}

fn mutilated(rng: &mut Rng, text: String, corpus: &[String]) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let (one, other) = (rng.usize(..lines.len()), rng.usize(..lines.len()));
    match rng.u8(..12) {
        0 => {
            lines.remove(one);
        }
        1 => lines.insert(other, lines[one].clone()),
        2 => lines.swap(one, other),
        3 => lines[one].insert_str(0, &" ".repeat(rng.usize(1..5))),
        4 => lines[one] = lines[one].trim_start().to_owned(),
        5..8 => lines[one] = with_value(rng, &lines[one]),
        8 => {
            let indented = " ".repeat(lines[one].len() - lines[one].trim_start().len());
            let line = format!("{indented}{}: {}", rng.choice(KEYS).expect("some"), piece(rng));
            lines.insert(one, line);
        }
        9 => {
            let other: Vec<&str> = corpus[rng.usize(..corpus.len())].split('\n').collect();
            let from = rng.usize(..other.len());
            lines.splice(one.., other[from..].iter().map(|&line| line.to_owned()));
        }
        10 => return flipped(rng, text),
        _ => {
            let end = floor(&text, rng.usize(..=text.len()));
            return text[..end].to_owned();
        }
    }
    lines.join("\n")
}

fn piece(rng: &mut Rng) -> String {
    let piece = rng.choice(PIECES).expect("some");
    match rng.u8(..10) {
        0 => format!("{piece}{}", rng.choice(CHARACTERS).expect("some")),
        1 => piece.repeat(rng.usize(1..200)),
        _ => piece.to_owned(),
    }
}

/// The line with another value after one of its colons, or another key before it.
fn with_value(rng: &mut Rng, line: &str) -> String {
    let colons: Vec<usize> = line.match_indices(':').map(|(at, _)| at).collect();
    let Some(at) = rng.choice(&colons).copied() else {
        return piece(rng);
    };
    let rest = &line[at + 1..];
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    if rng.u8(..4) == 0 {
        let begin = line[..at].rfind([' ', '{', ',']).map_or(0, |begin| begin + 1);
        return format!("{}{}{}", &line[..begin], rng.choice(KEYS).expect("some"), &line[at..]);
    }
    format!("{}: {}{}", &line[..at], piece(rng), &rest[end..])
}

/// The text with a few characters replaced, added or gone.
fn flipped(rng: &mut Rng, mut text: String) -> String {
    for _ in 0..rng.usize(1..6) {
        let at = floor(&text, rng.usize(..=text.len()));
        match rng.u8(..3) {
            0 => text.insert(at, *rng.choice(&CHARACTERS).expect("some")),
            1 if at < text.len() => {
                text.remove(at);
            }
            _ => text.insert(at, char::from(rng.u8(32..127))),
        }
    }
    text
}

/// The nearest place between two characters that is not behind `at`.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
