//! Links: an arrow for each direction with its words, the outward one above the other.

use super::super::{Passage, Picture};
use super::canvas::{Canvas, Text};
use super::place::{APART, ARROWS, Board, LINE, Span, count};

/// Draws, in the order in which the places were made.
pub fn draw(picture: &Picture, board: &Board, canvas: &mut Canvas) {
    let pairs = picture.pairs();
    let beside = pairs.iter().filter(|pair| pair.ends[1] == pair.ends[0] + 1);
    let mut far: Vec<_> = pairs.iter().filter(|pair| pair.ends[1] > pair.ends[0] + 1).collect();
    far.sort_by_key(|pair| (pair.ends[1] - pair.ends[0], pair.ends[0]));
    for (pair, span) in beside.chain(far).zip(&board.spans) {
        for (way, link) in pair.ways.iter().enumerate() {
            let Some(link) = link else { continue };
            let state = class(&link.state);
            canvas.link(&path(span, way), state);
            canvas.mark(span.words_x, span.y + ARROWS * count(way), state);
        }
        words(
            span,
            &pair.ways.map(|link| link.map_or("open", |link| class(&link.state))),
            canvas,
        );
    }
}

fn class(state: &Passage) -> &'static str {
    match state {
        Passage::Open => "open",
        Passage::Cut(_) => "cut",
        Passage::Frozen => "frozen",
        Passage::CutPorts(_) => "ports",
    }
}

/// From left to right (0), or back (1).
fn path(span: &Span, way: usize) -> String {
    let (left, right) = (span.left_x, span.right_x);
    match (span.drops, way) {
        (None, 0) => format!("M{} {y} H{}", left + 3, right - 2, y = span.y),
        (None, _) => format!("M{} {y} H{}", right - 3, left + 2, y = span.y + ARROWS),
        (Some([one, other]), 0) => {
            format!("M{left} {one} V{} H{right} V{}", span.y, other + 2)
        }
        (Some([one, other]), _) => {
            let (left, right) = (left - APART, right + APART);
            format!("M{right} {other} V{} H{left} V{}", span.y + ARROWS, one + 2)
        }
    }
}

fn words(span: &Span, states: &[&'static str; 2], canvas: &mut Canvas) {
    let x = span.words_x;
    let above = span.y - LINE * count(span.labels[0].len()) - 8 + LINE;
    let below = span.y + ARROWS + LINE;
    for (way, first_y) in [(0, above), (1, below)] {
        for (i, line) in span.labels[way].iter().enumerate() {
            canvas.write(Text::centred(x, first_y + LINE * count(i), line, states[way]));
        }
    }
}
