//! A picture as SVG: datacenters beside each other, a card per node. Links between neighbours stand in the gap between them,
//! others in lanes below; replication runs in lanes above and down the gutter at the left of a datacenter, where no text is.
//!
//! Only letters of one width are used, so how wide a text is follows from its length, and nothing overlaps in any viewer.
//! State is never told by colour alone.

mod canvas;
mod links;
mod place;

use super::Picture;
use canvas::{Canvas, Text};
use place::{BOX_TITLE, Board, CARD_PAD, LINE, PAD};

/// Colours of replication, one for each primary in turn; told apart by most colour-blind people.
const SETS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];

/// Draws.
#[must_use]
pub fn svg(picture: &Picture) -> String {
    draw(picture).finish(&picture.title)
}

/// Draws for a page of which it becomes a part: class `lab`, the same classes inside, no colours. The page has the style, and once the
/// [`heads`] that the lines refer to. `told` is the picture in words.
#[must_use]
pub fn embedded(picture: &Picture, title: &str, told: &str) -> String {
    draw(picture).embed(title, told)
}

/// Arrowheads, for the `defs` of such a page.
#[must_use]
pub fn heads() -> String {
    canvas::heads()
}

fn draw(picture: &Picture) -> Canvas {
    let board = Board::of(picture);
    let mut canvas = Canvas::default();
    let title = Text::bold(PAD, PAD + 16, &picture.title);
    canvas.write(title);
    replication(picture, &board, &mut canvas);
    for (i, datacenter) in picture.datacenters.iter().enumerate() {
        let frame = &board.boxes[i];
        canvas.frame(frame.x, frame.y, frame.width, frame.height);
        canvas.write(Text::bold(frame.cards_x, frame.y + BOX_TITLE - 10, &datacenter.name));
        for (node, card) in datacenter.nodes.iter().zip(&frame.cards) {
            canvas.card(
                frame.cards_x,
                card.y,
                frame.card_width,
                card.height,
                node.trouble.is_some(),
            );
            let x = frame.cards_x + CARD_PAD;
            let mut y = card.y + LINE;
            canvas.write(Text::bold(x, y, &node.name));
            for line in place::lines(node) {
                y += LINE;
                canvas.write(if line.is_trouble {
                    Text::trouble(x, y, &line.text)
                } else {
                    Text::plain(x, y, &line.text)
                });
            }
        }
    }
    links::draw(picture, &board, &mut canvas);
    canvas.size(board.width, board.height);
    canvas
}

/// From the left side of a primary's card to the left side of its replica's, along the gutters and, to another datacenter,
/// a lane of its own above all boxes.
fn replication(picture: &Picture, board: &Board, canvas: &mut Canvas) {
    for (edge, route) in picture.edges().iter().zip(&board.routes) {
        let [from, to] = [edge.from, edge.to].map(|(i, j)| {
            let card = &board.boxes[i].cards[j];
            (board.boxes[i].cards_x, card.y + card.height / 2)
        });
        let mut path = format!("M{} {} H{}", from.0, from.1 + route.shift, route.from_x);
        if let Some(lane) = route.lane_y {
            path.push_str(&format!(" V{lane} H{}", route.to_x));
        }
        path.push_str(&format!(" V{} H{}", to.1, to.0 - 1));
        canvas.thin(&path, SETS[edge.set % SETS.len()], edge.set % SETS.len());
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{cluster, four, link, node, two};
    use super::super::{Datacenter, Passage, Picture};
    use super::*;

    /// Left, top, right, bottom.
    fn extent(text: &Text) -> [f64; 4] {
        let [x, y] = [text.x, text.y].map(f64::from);
        let left = if text.centred { x - text.width() / 2.0 } else { x };
        [left, y - 10.0, left + text.width(), y + 3.0]
    }

    fn assert_readable(picture: &Picture) {
        let canvas = draw(picture);
        let texts: Vec<[f64; 4]> = canvas.texts.iter().map(extent).collect();
        let (width, height) = (f64::from(canvas.width), f64::from(canvas.height));
        for (i, one) in texts.iter().enumerate() {
            let inside = one[0] >= 0.0 && one[1] >= 0.0 && one[2] <= width && one[3] <= height;
            assert!(inside, "{:?} of {width}x{height}", canvas.texts[i]);
            for (j, other) in texts.iter().enumerate().skip(i + 1) {
                let apart = one[2] <= other[0] || other[2] <= one[0] || one[3] <= other[1] || other[3] <= one[1];
                assert!(apart, "{:?} lies on {:?}", canvas.texts[i], canvas.texts[j]);
            }
        }
    }

    /// Datacenters with so many nodes, each linked with all others under long conditions.
    fn wide(datacenters: usize, nodes: usize) -> Picture {
        let mut picture = Picture::default();
        for i in 0..datacenters {
            let nodes = (0..nodes).map(|j| {
                let upstream = (i > 0 || j > 0).then(|| "n0-0".to_owned());
                node(
                    &format!("n{i}-{j}"),
                    "redis 7.0.15 primary, slots 0-5460",
                    upstream.as_deref(),
                )
            });
            picture.datacenters.push(Datacenter {
                name: format!("datacenter{i}"),
                nodes: nodes.collect(),
            });
        }
        for i in 0..datacenters {
            for j in (0..datacenters).filter(|j| *j != i) {
                let names = [i, j].map(|k| format!("datacenter{k}"));
                let long =
                    "delay=20ms jitter=table:0ms/1ms/12ms:reorder loss=1%:burst:4 rate=100mbit queue=64KiB mtu=1400";
                picture
                    .links
                    .push(link(&names[0], &names[1], long, Passage::Cut("reset".to_owned())));
            }
        }
        picture
    }

    #[test]
    fn no_text_lies_on_another_or_outside() {
        for picture in [
            two(),
            four(),
            cluster(),
            wide(1, 1),
            wide(2, 1),
            wide(3, 10),
            wide(5, 6),
            Picture::default(),
        ] {
            assert_readable(&picture);
        }
    }

    #[test]
    fn no_arrow_of_a_lower_lane_runs_through_the_words_of_a_higher() {
        let board = Board::of(&four());
        let lanes: Vec<_> = board.spans.iter().filter(|span| span.drops.is_some()).collect();
        assert_eq!(lanes.len(), 3);
        for (i, span) in lanes.iter().enumerate() {
            let longest = span
                .labels
                .iter()
                .flatten()
                .map(|line| place::whole(canvas::wide(line)))
                .max()
                .unwrap();
            let words = span.words_x - longest / 2..span.words_x + longest / 2;
            let mut below = lanes[i + 1..].iter().flat_map(|lower| lower.verticals());
            assert!(below.all(|x| !words.contains(&x)), "{:?}", span.labels);
        }
    }

    #[test]
    fn every_node_link_and_state_is_there() {
        let drawn = svg(&two());
        for word in [
            "redis-primary",
            "redis-far",
            "postgres 15.18 database",
            "paused",
            "cut (drop)",
            "loss=1%",
        ] {
            assert!(drawn.contains(word), "{word}");
        }
        let (both, cut) = (
            drawn.matches("class=\"thin\"").count(),
            drawn.matches("class=\"link cut\"").count(),
        );
        assert_eq!((both, cut, drawn.matches("class=\"link open\"").count()), (2, 1, 1));
        let frozen = svg(&four());
        assert_eq!(frozen.matches("class=\"link frozen\"").count(), 3);
    }

    #[test]
    fn a_master_has_its_slots() {
        let drawn = svg(&cluster());
        for slots in ["slots 0-8191", "slots 8192-16383"] {
            assert_eq!(drawn.matches(slots).count(), 1, "{slots}");
        }
    }

    #[test]
    fn texts_are_escaped() {
        let drawn = svg(&four());
        assert!(drawn.contains("four &lt;&amp;&quot;&apos;&gt;") && !drawn.contains("<&"));
    }

    #[test]
    fn a_part_of_a_page_brings_no_style_and_no_ids_of_its_own() {
        let drawn = embedded(&two(), "a \"lab\"", "<told>");
        assert!(drawn.starts_with("<svg class=\"lab\" role=\"img\" aria-label=\"a &quot;lab&quot;\""));
        assert!(drawn.contains("<desc>&lt;told&gt;</desc>") && drawn.contains("redis-far"));
        for word in ["<style", " id=", "#ffffff"] {
            assert!(!drawn.contains(word), "{word}");
        }
        for part in drawn.split("url(#").skip(1) {
            let id = part.split(')').next().unwrap();
            assert!(heads().contains(&format!("id=\"{id}\"")), "{id}");
        }
    }

    #[test]
    fn a_node_that_follows_nobody_who_is_drawn_has_no_line() {
        let mut picture = two();
        picture.datacenters[1].nodes[0].upstream = Some("elsewhere".to_owned());
        assert_eq!(svg(&picture).matches("class=\"thin\"").count(), 1);
    }
}
