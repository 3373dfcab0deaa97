//! A parting over time: per half a lane for each node with what it said of the cluster, where its role changed, and below
//! these what became of the operations. The time in which the halves were parted is shaded.

use super::chart::marks_of;
use super::scale::Laid;
use super::{Course, HalfCourse, NodeCourse, Scale, State, WIDTH, look, px};
use maud::{Markup, html};
use std::fmt::Write as _;

/// Left and right of the lanes: beside them stands the node.
const LEFT: f64 = 118.0;
const RIGHT: f64 = WIDTH - 14.0;
/// From lane to lane.
const LANE: f64 = 22.0;
/// Height of a bar.
const BAR: f64 = 12.0;
/// Height of the operations of a half.
const RATES: f64 = 64.0;
/// Heading of a half.
const HEADING: f64 = 24.0;
/// Heading of the whole, where the shaded time is named.
const TOP: f64 = 22.0;
/// One row of labels of vertical lines.
const ROW: f64 = 17.0;
/// Below everything: labels of ticks and the title of the axis.
const BELOW: f64 = 42.0;

pub fn draw(course: &Course) -> Markup {
    // A linear axis begins at 0; this one where the course does.
    let x = |at_s: f64| {
        let share = (at_s - course.from_s) / (course.to_s - course.from_s).max(1e-9);
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    };
    let (marks, rows) = marks_of(&course.marks, x);
    let top = TOP + ROW * rows as f64;
    let mut y = top;
    let tops: Vec<f64> = course
        .halves
        .iter()
        .map(|half| {
            let top = y;
            y += HEADING + LANE * half.nodes.len() as f64 + RATES + 26.0;
            top
        })
        .collect();
    let (bottom, height) = (y, y + BELOW);
    let ticks = Laid::out(Scale::Linear, [course.from_s, course.to_s].into_iter(), LEFT, RIGHT).ticks();
    let ticks = ticks
        .into_iter()
        .filter(|(value, _)| (course.from_s..=course.to_s).contains(value));
    html! {
        svg.plot viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(course.title) {
            title { (course.title) }
            desc { (course.told) }
            rect.parted x=(px(x(0.0))) y=(px(top - 4.0)) width=(px(x(course.joined_s) - x(0.0))) height=(px(bottom - top + 4.0)) {}
            text.marked x=(px((x(0.0) + x(course.joined_s)) / 2.0)) y="13" text-anchor="middle" { "parted" }
            @for (at, (label_at, row), label) in marks {
                path.mark d=(format!("M{} {}V{}", px(at), px(top - 4.0), px(bottom))) {}
                text.marked x=(px(label_at)) y=(px(TOP + ROW * (row as f64 + 1.0) - 9.0)) text-anchor="middle" { (label) }
            }
            @for (half, top) in course.halves.iter().zip(&tops) {
                (half_of(half, *top, &x, course.from_s))
            }
            path.frame d=(format!("M{} {}H{}", px(LEFT), px(bottom), px(RIGHT))) {}
            @for (value, label) in ticks {
                path.frame d=(format!("M{} {}v5", px(x(value)), px(bottom))) {}
                text x=(px(x(value))) y=(px(bottom + 18.0)) text-anchor="middle" { (label) }
            }
            text.axis x=(px(RIGHT)) y=(px(height - 5.0)) text-anchor="end" { "seconds since the parting" }
        }
    }
}

fn half_of(half: &HalfCourse, top: f64, x: &impl Fn(f64) -> f64, from_s: f64) -> Markup {
    let lanes = top + HEADING;
    let foot = lanes + LANE * half.nodes.len() as f64 + 12.0 + RATES;
    html! {
        text.half x="0" y=(px(top + 16.0)) { (half.name) }
        @for (i, node) in half.nodes.iter().enumerate() {
            (lane(node, lanes + LANE * i as f64, x))
        }
        (rates(half, foot, x, from_s))
    }
}

fn lane(node: &NodeCourse, y: f64, x: &impl Fn(f64) -> f64) -> Markup {
    html! {
        text x="0" y=(px(y + 11.0)) { (node.name) }
        @for span in &node.spans {
            @let width = (x(span.to_s) - x(span.from_s)).max(0.5);
            @let class = match span.state { State::Ok => "ok", State::Fail => "fail", State::Silent => "silent" };
            rect class=(class) x=(px(x(span.from_s))) y=(px(y)) width=(px(width)) height=(px(BAR)) {}
        }
        @for (at_s, role) in &node.changes {
            @let at = x(*at_s);
            path.change d=(format!("M{} {}l5 -7h-10z", px(at), px(y + 2.0))) {}
            // To the side on which there is room.
            @let (dx, anchor) = if at > (LEFT + RIGHT) / 2.0 { (-8.0, "end") } else { (8.0, "start") };
            text.marked.haloed x=(px(at + dx)) y=(px(y + 10.5)) text-anchor=(anchor) { (role) }
        }
    }
}

fn rates(half: &HalfCourse, foot: f64, x: &impl Fn(f64) -> f64, from_s: f64) -> Markup {
    let most = half.rates.iter().flat_map(|rate| rate.per_s.iter().copied());
    let y = Laid::out(Scale::Linear, most, foot, foot - RATES);
    let ticks = y.ticks();
    let ends = ticks.first().into_iter().chain(ticks.last());
    html! {
        text x="0" y=(px(foot - RATES + 11.0)) { "operations/s" }
        path.frame d=(format!("M{} {}V{}H{}", px(LEFT), px(foot - RATES), px(foot), px(RIGHT))) {}
        @for (value, label) in ends {
            text x=(px(LEFT - 6.0)) y=(px(y.place(*value) + 4.5)) text-anchor="end" { (label) }
        }
        @for (n, rate) in half.rates.iter().enumerate() {
            path class={"curve " (look(n))} d=(stairs(&rate.per_s, half.step_s, from_s, x, &y)) {}
        }
    }
}

/// A line that is level during each step; steps of the same height are one.
fn stairs(per_s: &[f64], step_s: f64, from_s: f64, x: &impl Fn(f64) -> f64, y: &Laid) -> String {
    let mut path = String::new();
    let mut level = None;
    for (i, value) in per_s.iter().enumerate() {
        let (at, here) = (px(x(from_s + step_s * i as f64)), px(y.place(*value)));
        // Writing to a text cannot fail.
        if level.is_none() {
            let _ = write!(path, "M{at} {here}");
        } else if level.as_ref() != Some(&here) {
            let _ = write!(path, "H{at}V{here}");
        }
        level = Some(here);
    }
    let _ = write!(path, "H{}", px(x(from_s + step_s * per_s.len() as f64)));
    path
}

/// What became of operations, in the order of their looks.
pub const BECAME: [&str; 3] = ["accepted", "redirected", "refused or unanswered"];

pub fn legend(course: &Course) -> Markup {
    html! {
        ul.legend {
            @for (class, label) in [("ok", "cluster_state ok"), ("fail", "cluster_state fail"), ("silent", "no answer")] {
                li {
                    svg.swatch viewBox="0 0 34 14" aria-hidden="true" { rect class=(class) x="1" y="1" width="32" height="12" {} }
                    (label)
                }
            }
            li {
                svg.swatch viewBox="0 0 34 14" aria-hidden="true" { path.change d="M17 12l5 -8h-10z" {} }
                "role changes"
            }
            @if !course.marks.is_empty() {
                li {
                    svg.swatch viewBox="0 0 34 14" aria-hidden="true" { path.mark d="M17 0V14" {} }
                    "cluster-allow-reads-when-down is set"
                }
            }
            @for (n, label) in BECAME.iter().enumerate() {
                li {
                    svg.swatch viewBox="0 0 34 14" aria-hidden="true" { path class={"curve " (look(n))} d="M1 7H33" {} }
                    (label) " operations"
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_one_height_are_one() {
        let y = Laid::out(Scale::Linear, [10.0].into_iter(), 100.0, 0.0);
        let x = |at_s: f64| 10.0 * at_s;
        let path = stairs(&[10.0, 10.0, 0.0, 0.0, 10.0], 1.0, 0.0, &x, &y);
        assert_eq!(path, "M0 0H20V100H40V0H50");
    }
}
