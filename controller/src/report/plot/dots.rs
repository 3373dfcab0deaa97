//! Points in lanes: one lane per thing, its name above it, on one axis across. For what has names and no order on an axis.
//! Points of a lane stand a little below each other, so that none hides another.

use super::chart::marks_of;
use super::scale::Laid;
use super::{Dots, Lane, WIDTH, look, point, px};
use maud::{Markup, html};

const LEFT: f64 = 8.0;
const RIGHT: f64 = WIDTH - 14.0;
/// Room for the name of a lane.
const NAME: f64 = 17.0;
/// From one point of a lane to the next one, downward.
const STEP: f64 = 12.0;
/// Between the last point and the next lane.
const AIR: f64 = 7.0;
/// Above everything: labels of vertical lines.
const ROW: f64 = 17.0;
/// Below everything: labels of ticks and the title of the axis.
const BELOW: f64 = 42.0;
/// Most letters of a name that have room.
const LETTERS: usize = 60;

pub fn draw(dots: &Dots) -> Markup {
    let all = || dots.lanes.iter().flat_map(|lane| &lane.dots);
    let ends = all().flat_map(|dot| {
        let (low, high) = dot.between.unwrap_or((dot.at, dot.at));
        [low, dot.at, high]
    });
    let marks = dots.marks.iter().map(|mark| mark.at);
    let x = Laid::out(dots.x.scale, ends.chain(marks), LEFT, RIGHT);
    let (marks, rows) = marks_of(&dots.marks, |at| x.place(at));
    let top = ROW * rows as f64 + 6.0;
    let mut bottom = top;
    let tops: Vec<f64> = dots
        .lanes
        .iter()
        .map(|lane| {
            let top = bottom;
            bottom += NAME + STEP * lane.dots.len() as f64 + AIR;
            top
        })
        .collect();
    let height = bottom + BELOW;
    html! {
        svg.plot viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(dots.title) {
            title { (dots.title) }
            desc { (dots.told) }
            @for (value, label) in x.ticks() {
                @let at = px(x.place(value));
                path.grid d=(format!("M{at} {}V{}", px(top), px(bottom))) {}
                text x=(at) y=(px(bottom + 17.0)) text-anchor=(anchor(x.place(value))) { (label) }
            }
            path.frame d=(format!("M{} {}H{}", px(LEFT), px(bottom), px(RIGHT))) {}
            text.axis x=(px(RIGHT)) y=(px(height - 5.0)) text-anchor="end" { (dots.x.title) }
            @for (at, (label_at, row), label) in marks {
                path.mark d=(format!("M{} {}V{}", px(at), px(top), px(bottom))) {}
                text.marked x=(px(label_at)) y=(px(ROW * (row + 1) as f64 - 3.0)) text-anchor="middle" { (label) }
            }
            @for (lane, top) in dots.lanes.iter().zip(&tops) { (drawn(lane, *top, &x)) }
        }
    }
}

/// A label at an end of the axis stays on the paper.
fn anchor(at: f64) -> &'static str {
    if at < LEFT + 12.0 {
        "start"
    } else if at > RIGHT - 4.0 {
        "end"
    } else {
        "middle"
    }
}

fn drawn(lane: &Lane, top: f64, x: &Laid) -> Markup {
    html! {
        text.haloed x=(px(LEFT)) y=(px(top + 13.0)) { (short(&lane.name)) }
        @for (i, dot) in lane.dots.iter().enumerate() {
            @let y = top + NAME + STEP * (i as f64 + 0.5);
            @if let Some((low, high)) = dot.between {
                path class={"curve solid " (look(dot.series))} d=(format!("M{} {}H{}", px(x.place(low)), px(y), px(x.place(high)))) {}
            }
            path class={"points " (look(dot.series))} d=(point(dot.series, x.place(dot.at), y)) {}
        }
    }
}

fn short(name: &str) -> String {
    match name.char_indices().nth(LETTERS) {
        None => name.to_owned(),
        Some((at, _)) => format!("{}\u{2026}", &name[..at]),
    }
}

pub fn legend(dots: &Dots) -> Markup {
    html! {
        ul.legend {
            @for (n, label) in dots.series.iter().enumerate() {
                li {
                    svg.swatch viewBox="0 0 34 14" aria-hidden="true" { path class={"points " (look(n))} d=(point(n, 17.0, 7.0)) {} }
                    (label)
                }
            }
            @if !dots.marks.is_empty() {
                li {
                    svg.swatch viewBox="0 0 34 14" aria-hidden="true" { path.mark d="M17 0V14" {} }
                    (dots.marked)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Dot, Scale};
    use super::*;
    use crate::findings::Table;

    #[test]
    fn each_lane_has_its_name_and_its_points_and_a_long_name_is_cut() {
        let dot = |series, at| Dot {
            series,
            at,
            between: Some((at - 1.0, at + 1.0)),
        };
        let lane = |name: &str| Lane {
            name: name.to_owned(),
            dots: vec![dot(0, 2.0), dot(1, 4.0)],
        };
        let dots = Dots {
            title: "a".to_owned(),
            told: String::new(),
            x: Axis {
                title: "flights".to_owned(),
                scale: Scale::Linear,
            },
            series: vec!["<one>".to_owned(), "other".to_owned()],
            lanes: vec![lane("<b>"), lane(&"x".repeat(80))],
            marks: Vec::new(),
            marked: String::new(),
            numbers: Table::default(),
        };
        let text = draw(&dots).into_string() + &legend(&dots).into_string();
        assert_eq!(text.matches("class=\"points ").count(), 4 + 2);
        assert_eq!(text.matches("class=\"curve solid ").count(), 4);
        assert!(text.contains("&lt;b&gt;") && text.contains("&lt;one&gt;"));
        assert!(text.contains(&format!("{}\u{2026}", "x".repeat(LETTERS))));
    }
}
