//! Where everything stands, before anything is drawn. Sizes are pixels at 100 %, whole numbers.

use super::super::{Link, Node, Pair, Picture};
use super::canvas::wide;

/// Around the drawing, and inside a datacenter.
pub const PAD: i32 = 14;
/// From baseline to baseline.
pub const LINE: i32 = 16;
/// Inside a card, left and right.
pub const CARD_PAD: i32 = 10;
/// From the top of a datacenter to its first card.
pub const BOX_TITLE: i32 = 32;
/// Between two cards, and between two lanes of replication.
const STEP: i32 = 8;
/// Between two arrows of a link.
pub const ARROWS: i32 = 22;
/// Between the vertical parts of both directions in a lane.
pub const APART: i32 = 10;
/// Narrowest gap between two datacenters: an arrow has to be seen.
const GAP: i32 = 48;
/// Narrowest card.
const CARD: i32 = 120;
/// Letters of a line beside a link in a gap, and in a lane, where words allow it.
const GAP_LETTERS: usize = 24;
/// See [`GAP_LETTERS`].
const LANE_LETTERS: usize = 64;

/// See the top of the file.
pub struct Board {
    pub width: i32,
    pub height: i32,
    pub boxes: Vec<Frame>,
    /// One per edge, in the order of the picture's.
    pub routes: Vec<Route>,
    /// Links in gaps and lanes.
    pub spans: Vec<Span>,
}

/// A datacenter.
pub struct Frame {
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
    pub cards_x: i32,
    pub card_width: i32,
    pub cards: Vec<Card>,
}

/// A node.
pub struct Card {
    pub y: i32,
    pub height: i32,
}

/// The way of a replication.
pub struct Route {
    pub from_x: i32,
    pub to_x: i32,
    pub lane_y: Option<i32>,
    /// Below the middle of the primary's card, so that several leave it side by side.
    pub shift: i32,
}

/// A line of a card.
pub struct Line {
    pub text: String,
    pub is_trouble: bool,
}

/// Where both directions of a link run.
pub struct Span {
    /// In a gap: from left to right at `y`, back below. In a lane: down from both boxes.
    pub left_x: i32,
    pub right_x: i32,
    pub y: i32,
    /// Bottom of both boxes, if it is a lane.
    pub drops: Option<[i32; 2]>,
    /// Lines of both directions.
    pub labels: [Vec<String>; 2],
    /// Middle of these lines, and of the mark of a cut.
    pub words_x: i32,
}

/// What stands below a node's name.
pub fn lines(node: &Node) -> Vec<Line> {
    let upstream = node.upstream.as_ref().map(|upstream| format!("follows {upstream}"));
    let what = (!node.what.is_empty()).then(|| node.what.clone());
    let plain = [what, node.slots_told(), upstream];
    let plain = plain.into_iter().flatten().map(|text| Line {
        text,
        is_trouble: false,
    });
    let trouble = node.trouble.clone().map(|text| Line { text, is_trouble: true });
    plain.chain(trouble).collect()
}

impl Board {
    pub fn of(picture: &Picture) -> Self {
        let edges = picture.edges();
        let crossing = edges.iter().filter(|edge| edge.from.0 != edge.to.0).count();
        let top = PAD + LINE + PAD + STEP * count(crossing);
        let mut boxes: Vec<Frame> = (0..picture.datacenters.len()).map(|i| frame(picture, i, top)).collect();
        let pairs = picture.pairs();
        let mut x = PAD;
        for (i, frame) in boxes.iter_mut().enumerate() {
            frame.shift(x);
            x += frame.width + gap(picture, &pairs, i);
        }
        let right = boxes.last().map_or(PAD, |last| last.x + last.width);
        let spans = spans(picture, &pairs, &mut boxes);
        let bottom = boxes.iter().map(|frame| frame.y + frame.height).max().unwrap_or(top);
        let lowest = spans.iter().map(Span::bottom).max().unwrap_or(bottom).max(bottom);
        let title = whole(wide(&picture.title)) + PAD;
        let widest = spans.iter().map(Span::right).max().unwrap_or(0);
        Self {
            width: right.max(title).max(widest) + PAD,
            height: lowest + PAD,
            routes: routes(picture, &boxes),
            boxes,
            spans,
        }
    }
}

impl Frame {
    fn shift(&mut self, x: i32) {
        self.x += x;
        self.cards_x += x;
    }
}

impl Span {
    fn bottom(&self) -> i32 {
        self.y + ARROWS + LINE * count(self.labels[1].len()) + STEP
    }

    fn right(&self) -> i32 {
        let longest = self.labels.iter().flatten().map(|line| whole(wide(line))).max();
        self.words_x + longest.unwrap_or(0) / 2
    }

    /// Where the arrows of a lane run down.
    pub fn verticals(&self) -> [i32; 4] {
        [self.left_x - APART, self.left_x, self.right_x, self.right_x + APART]
    }

    /// Moves the words of a lane to the widest stretch of it through which no arrow of a lower lane runs.
    fn evade(&mut self, lower: &[i32]) {
        let mut bounds: Vec<i32> = lower
            .iter()
            .copied()
            .filter(|x| (self.left_x..self.right_x).contains(x))
            .collect();
        bounds.extend([self.left_x, self.right_x]);
        bounds.sort_unstable();
        let widest = bounds.windows(2).max_by_key(|two| two[1] - two[0]);
        self.words_x = widest.map_or(self.words_x, |two| i32::midpoint(two[0], two[1]));
    }
}

/// Edges that run in the gutter of a datacenter.
fn slots(picture: &Picture, datacenter: usize) -> i32 {
    let edges = picture.edges();
    count(
        edges
            .iter()
            .filter(|edge| edge.from.0 == datacenter || edge.to.0 == datacenter)
            .count(),
    )
}

/// A datacenter at the left edge.
fn frame(picture: &Picture, i: usize, top: i32) -> Frame {
    let datacenter = &picture.datacenters[i];
    let cards_x = PAD + STEP * slots(picture, i);
    let texts = datacenter.nodes.iter().flat_map(|node| {
        let name = std::iter::once(wide(&node.name));
        name.chain(lines(node).iter().map(|line| wide(&line.text)).collect::<Vec<_>>())
    });
    let card_width = texts.map(whole).max().unwrap_or(0).max(CARD - 2 * CARD_PAD) + 2 * CARD_PAD;
    let mut y = top + BOX_TITLE;
    let mut cards = Vec::new();
    for node in &datacenter.nodes {
        let height = LINE * (1 + count(lines(node).len())) + STEP;
        cards.push(Card { y, height });
        y += height + STEP;
    }
    let title = cards_x + whole(wide(&datacenter.name));
    Frame {
        x: 0,
        y: top,
        width: (cards_x + card_width).max(title) + PAD,
        height: y + PAD - STEP - top,
        cards_x,
        card_width,
        cards,
    }
}

/// Between a datacenter and the next.
fn gap(picture: &Picture, pairs: &[Pair<'_>], i: usize) -> i32 {
    let beside = pairs.iter().find(|pair| pair.ends == [i, i + 1]);
    let labels = beside
        .map(|pair| labels(picture, pair, GAP_LETTERS))
        .unwrap_or_default();
    let longest = labels.iter().flatten().map(|line| whole(wide(line))).max();
    longest.map_or(GAP, |longest| longest + 2 * PAD).max(GAP)
}

/// What stands beside each direction.
fn labels(picture: &Picture, pair: &Pair<'_>, letters: usize) -> [Vec<String>; 2] {
    let names = pair.ends.map(|end| picture.datacenters[end].name.as_str());
    let label = |link: Option<&Link>, from: &str, to: &str| {
        link.map_or_else(Vec::new, |link| {
            let mut label = vec![format!("{from} to {to}")];
            label.extend(wrapped(&link.conditions, letters));
            label.extend(link.state.told());
            label
        })
    };
    [
        label(pair.ways[0], names[0], names[1]),
        label(pair.ways[1], names[1], names[0]),
    ]
}

/// Lines of so many letters; a longer word has one for itself.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Links in gaps, which make their boxes high enough, and then those in lanes below all boxes.
fn spans(picture: &Picture, pairs: &[Pair<'_>], boxes: &mut [Frame]) -> Vec<Span> {
    let mut spans = Vec::new();
    for pair in pairs.iter().filter(|pair| pair.ends[1] == pair.ends[0] + 1) {
        let [one, other] = pair.ends;
        let labels = labels(picture, pair, GAP_LETTERS);
        let span = Span {
            left_x: boxes[one].x + boxes[one].width,
            right_x: boxes[other].x,
            y: boxes[one].y + LINE * count(labels[0].len()) + STEP,
            drops: None,
            labels,
            words_x: i32::midpoint(boxes[one].x + boxes[one].width, boxes[other].x),
        };
        for end in pair.ends {
            boxes[end].height = boxes[end].height.max(span.y + ARROWS + PAD - boxes[end].y);
        }
        spans.push(span);
    }
    let bottoms = boxes
        .iter()
        .map(|frame| frame.y + frame.height)
        .chain(spans.iter().map(Span::bottom));
    let mut y = bottoms.max().unwrap_or(0) + PAD;
    let mut far: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.ends[1] > pair.ends[0] + 1).collect();
    // The shorter a lane, the higher: fewer lines cross.
    far.sort_by_key(|pair| (pair.ends[1] - pair.ends[0], pair.ends[0]));
    let total: Vec<i32> = (0..boxes.len())
        .map(|i| count(far.iter().filter(|pair| pair.ends.contains(&i)).count()))
        .collect();
    let mut used = vec![0; boxes.len()];
    for pair in far {
        let labels = labels(picture, pair, LANE_LETTERS);
        let [left_x, right_x] = pair.ends.map(|end| {
            used[end] += 1;
            boxes[end].x + boxes[end].width * used[end] / (total[end] + 1)
        });
        let drops = pair.ends.map(|end| boxes[end].y + boxes[end].height);
        let span = Span {
            left_x,
            right_x,
            y: y + LINE * count(labels[0].len()) + STEP,
            drops: Some(drops),
            labels,
            words_x: i32::midpoint(left_x, right_x),
        };
        y = span.bottom() + STEP;
        spans.push(span);
    }
    let mut lower: Vec<i32> = Vec::new();
    for span in spans.iter_mut().rev().filter(|span| span.drops.is_some()) {
        span.evade(&lower);
        lower.extend(span.verticals());
    }
    spans
}

/// Each edge has its own slot in the gutters that it runs in, and its own lane if it leaves its datacenter.
fn routes(picture: &Picture, boxes: &[Frame]) -> Vec<Route> {
    let mut used = vec![0; boxes.len()];
    let mut left_by: Vec<((usize, usize), i32)> = Vec::new();
    let mut lanes = 0;
    let mut slot = |i: usize| {
        used[i] += 1;
        boxes[i].cards_x - STEP * used[i] - STEP / 2
    };
    let mut routes = Vec::new();
    for edge in picture.edges() {
        let before = left_by
            .iter()
            .position(|(from, _)| *from == edge.from)
            .unwrap_or_else(|| {
                left_by.push((edge.from, 0));
                left_by.len() - 1
            });
        let shift = 3 * left_by[before].1.min(4);
        left_by[before].1 += 1;
        let from_x = slot(edge.from.0);
        let route = if edge.from.0 == edge.to.0 {
            Route {
                from_x,
                to_x: from_x,
                lane_y: None,
                shift,
            }
        } else {
            lanes += 1;
            Route {
                from_x,
                to_x: slot(edge.to.0),
                lane_y: Some(boxes[0].y - STEP * lanes),
                shift,
            }
        };
        routes.push(route);
    }
    routes
}

/// Whole pixels that hold it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a drawing is far smaller than the limit, and one beyond it is cut there"
)]
pub fn whole(length: f64) -> i32 {
    length.ceil() as i32
}

pub fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
