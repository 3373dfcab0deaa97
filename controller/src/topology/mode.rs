//! How the relays carry connections, and their seed.

use super::file::{File, ModeFile, StreamFile};
use super::problem::{Code, Problems, nearest, quote};
use super::tree::At;
use wire::{Nodelay, Path, StreamOrder, StreamSettings};

/// Seed of a file that says none.
const SEED: u64 = 1;

/// The path of all relays; of a wrong mode that of packet mode, so that the rest is checked as well.
pub(super) fn path(file: &File, problems: &mut Problems) -> Path {
    match &file.mode {
        None => Path::Tun,
        Some(ModeFile::Stream(stream)) => Path::Stream(settings(stream, problems)),
        Some(ModeFile::Short(word)) => match word.value.as_str() {
            "packet" => Path::Tun,
            "stream" => Path::Stream(StreamSettings::default()),
            other => {
                problems
                    .add(word.place, Code::BadValue, format!("{} is no mode", quote(other)))
                    .hint("modes are packet and stream");
                Path::Tun
            }
        },
    }
}

fn settings(stream: &StreamFile, problems: &mut Problems) -> StreamSettings {
    let standard = StreamSettings::default();
    let order = stream.order.as_ref().and_then(|word| {
        let words = StreamOrder::ALL.map(|order| (order.word(), order));
        known("an order of stream mode", word, &words, problems)
    });
    let nodelay = stream.nodelay.as_ref().and_then(|word| {
        let words = Nodelay::ALL.map(|nodelay| (nodelay.word(), nodelay));
        known("a setting of `nodelay`", word, &words, problems)
    });
    StreamSettings {
        order: order.unwrap_or(standard.order),
        nodelay: nodelay.unwrap_or(standard.nodelay),
    }
}

fn known<T: Copy>(what: &str, word: &At<String>, words: &[(&str, T)], problems: &mut Problems) -> Option<T> {
    let found = words.iter().find(|(known, _)| *known == word.value);
    if found.is_none() {
        let known = words.iter().map(|(known, _)| *known);
        let hint = match nearest(&word.value, known.clone()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("one of {}", known.collect::<Vec<_>>().join(", ")),
        };
        let message = format!("{} is not {what}", quote(&word.value));
        problems.add(word.place, Code::BadValue, message).hint(hint);
    }
    found.map(|(_, value)| *value)
}

/// The seed of the relays.
pub(super) fn seed(file: &File, problems: &mut Problems) -> u64 {
    let Some(text) = &file.seed else {
        return SEED;
    };
    text.value.parse().unwrap_or_else(|_| {
        problems
            .add(text.place, Code::BadValue, format!("{} is no seed", quote(&text.value)))
            .hint("a whole number from 0 up");
        SEED
    })
}
