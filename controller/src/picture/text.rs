//! A picture out of characters: a box per datacenter, as many beside each other as the width takes, and a line per link.

use super::{Datacenter, Link, Pair, Passage, Picture};

/// Between two boxes.
const GAP: &str = "   ";

/// Draws within so many columns; a box that is wider by itself stays whole.
#[must_use]
pub fn text(picture: &Picture, width: usize) -> String {
    let mut lines = vec![picture.title.clone(), String::new()];
    let boxes: Vec<Vec<String>> = picture.datacenters.iter().map(boxed).collect();
    let mut row: Vec<&Vec<String>> = Vec::new();
    let mut used = 0;
    for drawn in &boxes {
        let wide = drawn[0].chars().count();
        if !row.is_empty() && used + GAP.len() + wide > width {
            lines.extend(beside(&row));
            (row, used) = (Vec::new(), 0);
        }
        used += wide + if row.is_empty() { 0 } else { GAP.len() };
        row.push(drawn);
    }
    lines.extend(beside(&row));
    lines.extend(links(picture));
    let mut text = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

/// A box: all lines of the same width.
fn boxed(datacenter: &Datacenter) -> Vec<String> {
    let longest = |of: &dyn Fn(&super::Node) -> usize| datacenter.nodes.iter().map(of).max().unwrap_or(0);
    let names = longest(&|node| node.name.chars().count());
    let whats = longest(&|node| node.what.chars().count());
    let rows: Vec<String> = datacenter
        .nodes
        .iter()
        .map(|node| {
            let mut row = format!("{:names$}  {:whats$}", node.name, node.what);
            if let Some(slots) = node.slots_told() {
                row = format!("{row}  {slots}");
            }
            if let Some(upstream) = &node.upstream {
                row = format!("{row}  <- {upstream}");
            }
            if let Some(trouble) = &node.trouble {
                row = format!("{}  ! {trouble}", row.trim_end());
            }
            row.trim_end().to_owned()
        })
        .collect();
    let name = datacenter.name.chars().count();
    let inner = rows
        .iter()
        .map(|row| row.chars().count())
        .max()
        .unwrap_or(0)
        .max(name + 1);
    let mut lines = vec![format!("┌ {} {}┐", datacenter.name, "─".repeat(inner - name))];
    lines.extend(rows.iter().map(|row| format!("│ {row:inner$} │")));
    lines.push(format!("└{}┘", "─".repeat(inner + 2)));
    lines
}

/// Boxes beside each other, and an empty line.
fn beside(row: &[&Vec<String>]) -> Vec<String> {
    let height = row.iter().map(|drawn| drawn.len()).max().unwrap_or(0);
    let line = |i: usize| {
        let parts = row.iter().map(|drawn| {
            let wide = drawn[0].chars().count();
            let part = drawn.get(i).map_or("", String::as_str);
            format!("{part:wide$}")
        });
        parts.collect::<Vec<_>>().join(GAP)
    };
    (0..height).map(line).chain([String::new()]).collect()
}

fn links(picture: &Picture) -> Vec<String> {
    let longest = |of: fn(&Datacenter) -> usize| picture.datacenters.iter().map(of).max().unwrap_or(0);
    let names = longest(|datacenter| datacenter.name.chars().count());
    let mut lines = Vec::new();
    for pair in picture.pairs() {
        let [one, other] = pair.ends.map(|i| picture.datacenters[i].name.as_str());
        for (arrow, link) in arrows(&pair) {
            let line = format!("{one:>names$} {arrow} {other:names$}  {}", link.conditions);
            lines.push(match link.state.told() {
                Some(state) => format!("{line}  {state}"),
                None => line,
            });
        }
    }
    lines
}

/// Arrows of one length, so that what follows stands in columns: open, cut, frozen, ports cut.
const BOTH: [&str; 4] = ["<───────>", "<── X ──>", "<── = ──>", "<── x ──>"];
/// See [`BOTH`].
const THERE: [&str; 4] = ["────────>", "─── X ──>", "─── = ──>", "─── x ──>"];
/// See [`BOTH`].
const BACK: [&str; 4] = ["<────────", "<── X ───", "<── = ───", "<── x ───"];

/// An arrow for each direction, one for both if they are alike.
fn arrows<'a>(pair: &Pair<'a>) -> Vec<(&'static str, &'a Link)> {
    let [there, back] = pair.ways;
    let drawn = |link: Option<&'a Link>, arrows: [&'static str; 4]| {
        link.map(|link| {
            let arrow = match link.state {
                Passage::Open => arrows[0],
                Passage::Cut(_) => arrows[1],
                Passage::Frozen => arrows[2],
                Passage::CutPorts(_) => arrows[3],
            };
            (arrow, link)
        })
    };
    if pair.is_symmetric() {
        return drawn(there, BOTH).into_iter().collect();
    }
    drawn(there, THERE).into_iter().chain(drawn(back, BACK)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples::{cluster, four, two};
    use super::*;

    #[test]
    fn datacenters_are_boxes_and_links_are_arrows() {
        let drawn = "\
two-dc

┌ dc1 ─────────────────────────────────────────────────────┐   ┌ dc2 ───────────────────────────────────────────────────────────────┐
│ redis-primary  redis 7.0.15 primary                      │   │ redis-far  redis 7.0.15 replica     <- redis-primary  ! paused     │
│ redis-near     redis 7.0.15 replica  <- redis-primary    │   │ postgres   postgres 15.18 database                                 │
└──────────────────────────────────────────────────────────┘   └────────────────────────────────────────────────────────────────────┘

dc1 ─── X ──> dc2  delay=20ms  cut (drop)
dc1 <──────── dc2  delay=20ms jitter=2ms loss=1%
";
        // Spaces and lines by their number are of no interest here: the golden drawings have them.
        let words = |text: &str| {
            let plain = text.replace('─', " ");
            plain.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words(&text(&two(), 200)), words(drawn));
    }

    #[test]
    fn masters_have_their_slots_where_replicas_have_their_upstream() {
        let drawn = text(&cluster(), 200);
        for row in ["a  redis primary  slots 0-8191 ", "c  redis replica  <- b"] {
            assert!(drawn.contains(row), "{row}: {drawn}");
        }
    }

    #[test]
    fn boxes_that_do_not_fit_beside_each_other_stand_below() {
        for width in [60, 100, 140] {
            let drawn = text(&four(), width);
            let boxes = drawn.lines().filter(|line| line.starts_with('┌') || line.contains("┌"));
            let rows = boxes.count();
            let widest = drawn.lines().filter(|line| line.starts_with(['┌', '│', '└']));
            assert!(
                widest.clone().all(|line| line.chars().count() <= width),
                "{width}: {drawn}"
            );
            assert!((1..=4).contains(&rows), "{drawn}");
        }
        assert_eq!(text(&four(), 10).matches('┌').count(), 4, "each stays whole");
    }

    #[test]
    fn every_line_of_a_box_has_its_width() {
        for picture in [two(), four(), cluster()] {
            for datacenter in &picture.datacenters {
                let drawn = boxed(datacenter);
                let wide = drawn[0].chars().count();
                assert!(drawn.iter().all(|line| line.chars().count() == wide), "{drawn:#?}");
            }
        }
    }

    #[test]
    fn directions_that_are_alike_are_one_arrow() {
        let mut picture = two();
        picture.links[1] = Link {
            from: "dc2".to_owned(),
            to: "dc1".to_owned(),
            ..picture.links[0].clone()
        };
        let drawn = text(&picture, 200);
        assert!(drawn.contains("dc1 <── X ──> dc2  delay=20ms  cut (drop)"), "{drawn}");
        assert_eq!(drawn.matches("delay").count(), 1);
        for link in &mut picture.links {
            link.state = Passage::CutPorts("bus".to_owned());
        }
        let drawn = text(&picture, 200);
        assert!(drawn.contains("dc1 <── x ──> dc2  delay=20ms  cut (bus)"), "{drawn}");
        picture.links.pop();
        assert!(text(&picture, 200).contains("dc1 ─── x ──> dc2"));
    }
}
