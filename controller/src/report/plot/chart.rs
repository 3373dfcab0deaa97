//! Curves over an axis. The title of the upward axis stands above it, level, so that it can be read; labels of vertical lines
//! stand above the curves, in as many rows as they need.

use super::scale::Laid;
use super::{Chart, Curve, Drawn, Mark, Scale, WIDTH, look, point, px};
use maud::{Markup, html};
use std::fmt::Write as _;

/// Left and right of the curves.
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 14.0;
/// Height of the curves alone.
const HEIGHT: f64 = 220.0;
/// Title of the upward axis, and one row of labels of vertical lines.
const ROW: f64 = 17.0;
/// Width of a letter of labels.
const LETTER: f64 = 7.5;
/// Below the curves: labels of ticks and the title of the axis.
const BELOW: f64 = 42.0;
/// Steps closer together than this are drawn as one.
const FINE: f64 = 1.5;

pub fn draw(chart: &Chart) -> Markup {
    let xs = chart
        .curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(|point| point.0));
    let ys = chart
        .curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(|point| point.1));
    let marks = chart.marks.iter().map(|mark| mark.at);
    let x = Laid::out(chart.x.scale, xs.chain(marks), LEFT, RIGHT);
    let (marks, rows) = marks_of(&chart.marks, |at| x.place(at));
    let top = ROW * (1 + rows) as f64 + 8.0;
    let bottom = top + HEIGHT;
    let y = Laid::out(chart.y.scale, ys, bottom, top);
    let height = bottom + BELOW;
    html! {
        svg.plot viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(chart.title) {
            title { (chart.title) }
            desc { (chart.told) }
            text.axis x="0" y="13" { (chart.y.title) }
            (grid(&x, &y, top, bottom))
            text.axis x=(px(RIGHT)) y=(px(height - 5.0)) text-anchor="end" { (chart.x.title) }
            @for (at, (label_at, row), label) in marks {
                path.mark d=(format!("M{} {}V{}", px(at), px(top), px(bottom))) {}
                text.marked x=(px(label_at)) y=(px(ROW * (row + 2) as f64 - 3.0)) text-anchor="middle" { (label) }
            }
            @for (n, curve) in chart.curves.iter().enumerate() {
                (drawn(n, curve, &x, &y))
            }
        }
    }
}

fn grid(x: &Laid, y: &Laid, top: f64, bottom: f64) -> Markup {
    let mut lines = String::new();
    for (value, _) in x.ticks() {
        // Writing to a text cannot fail.
        let _ = write!(lines, "M{} {}V{}", px(x.place(value)), px(top), px(bottom));
    }
    for (value, _) in y.ticks() {
        let _ = write!(lines, "M{} {}H{}", px(LEFT), px(y.place(value)), px(RIGHT));
    }
    html! {
        path.grid d=(lines) {}
        path.frame d=(format!("M{} {}V{}H{}", px(LEFT), px(top), px(bottom), px(RIGHT))) {}
        @for (value, label) in x.ticks() {
            // A long one at the end stays on the paper.
            @let most = WIDTH - LETTER * label.chars().count() as f64 / 2.0 - 1.0;
            text x=(px(x.place(value).min(most))) y=(px(bottom + 17.0)) text-anchor="middle" { (label) }
        }
        @for (value, label) in y.ticks() {
            text x=(px(LEFT - 6.0)) y=(px(y.place(value) + 4.5)) text-anchor="end" { (label) }
        }
    }
}

/// A vertical line: where it is, where its label is and in which row, and the label.
pub type Placed<'a> = (f64, (f64, usize), &'a str);

/// Vertical lines with their labels, so that no two of a row touch and none leaves the paper; and how many rows there are.
pub fn marks_of(marks: &[Mark], x: impl Fn(f64) -> f64) -> (Vec<Placed<'_>>, usize) {
    let mut ends: Vec<f64> = Vec::new();
    let mut placed = Vec::new();
    for mark in marks {
        let half = LETTER * mark.label.chars().count() as f64 / 2.0;
        let at = x(mark.at);
        let label_at = at.min(WIDTH - half - 1.0).max(half + 1.0);
        let row = ends
            .iter()
            .position(|end| *end + 4.0 <= label_at - half)
            .unwrap_or(ends.len());
        match ends.get_mut(row) {
            Some(end) => *end = label_at + half,
            None => ends.push(label_at + half),
        }
        placed.push((at, (label_at, row), mark.label.as_str()));
    }
    (placed, ends.len())
}

fn drawn(n: usize, curve: &Curve, x: &Laid, y: &Laid) -> Markup {
    let places: Vec<(f64, f64)> = curve.points.iter().map(|at| (x.place(at.0), y.place(at.1))).collect();
    let shapes = || places.iter().map(|at| point(n, at.0, at.1)).collect::<String>();
    html! {
        @match curve.drawn {
            Drawn::Steps => path class={"curve " (look(n))} d=(steps(&places, y)) {},
            Drawn::Line => {
                path class={"curve " (look(n))} d=(line(&places)) {}
                path class={"points " (look(n))} d=(shapes()) {}
            }
            Drawn::Points => path class={"points " (look(n))} d=(shapes()) {},
            Drawn::Reference => path.reference d=(line(&places)) {},
        }
    }
}

fn line(places: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, at) in places.iter().enumerate() {
        let _ = write!(path, "{}{} {}", if i == 0 { "M" } else { "L" }, px(at.0), px(at.1));
    }
    path
}

/// From the foot of the axis up; what is too fine to be seen is left out, but for both ends.
fn steps(places: &[(f64, f64)], y: &Laid) -> String {
    let Some(first) = places.first() else {
        return String::new();
    };
    let mut path = format!("M{} {}", px(first.0), px(y.place(0.0)));
    let mut last = (first.0, y.place(0.0));
    for (i, at) in places.iter().enumerate() {
        let far = at.0 - last.0 >= FINE || last.1 - at.1 >= FINE;
        if far || i + 1 == places.len() {
            let _ = write!(path, "H{}V{}", px(at.0), px(at.1));
            last = *at;
        }
    }
    path
}

pub fn legend(chart: &Chart) -> Markup {
    html! {
        ul.legend {
            @for (n, curve) in chart.curves.iter().enumerate() {
                li {
                    svg.swatch viewBox="0 0 34 14" aria-hidden="true" {
                        @match curve.drawn {
                            Drawn::Reference => path.reference d="M1 7H33" {},
                            Drawn::Points => path class={"points " (look(n))} d=(point(n, 17.0, 7.0)) {},
                            Drawn::Steps => path class={"curve " (look(n))} d="M1 7H33" {},
                            Drawn::Line => {
                                path class={"curve " (look(n))} d="M1 7H33" {}
                                path class={"points " (look(n))} d=(point(n, 17.0, 7.0)) {}
                            }
                        }
                    }
                    (curve.label)
                }
            }
            @if !chart.marks.is_empty() {
                li {
                    svg.swatch viewBox="0 0 34 14" aria-hidden="true" { path.mark d="M17 0V14" {} }
                    (chart.marked)
                }
            }
        }
    }
}

impl Scale {
    /// What a title says beside its unit.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Linear | Self::Near | Self::Share => "",
            Self::Log | Self::LogFromZero => ", logarithmic",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Axis;
    use super::*;
    use crate::findings::Table;

    fn chart(points: Vec<(f64, f64)>, marks: Vec<Mark>) -> Chart {
        Chart {
            title: "a <title> & \"more\"".to_owned(),
            told: String::new(),
            x: Axis {
                title: "ms".to_owned(),
                scale: Scale::Log,
            },
            y: Axis {
                title: "share".to_owned(),
                scale: Scale::Share,
            },
            curves: vec![Curve {
                label: "<b>".to_owned(),
                drawn: Drawn::Steps,
                points,
            }],
            marks,
            marked: "round trip".to_owned(),
            numbers: Table::default(),
        }
    }

    #[test]
    fn a_distribution_is_drawn_in_few_steps_and_ends_where_it_ends() {
        let points: Vec<(f64, f64)> = (1..=5000)
            .map(|i| (1.0 + f64::from(i) / 1e4, f64::from(i) / 5000.0))
            .collect();
        let last = points[4999];
        let chart = chart(points, Vec::new());
        let x = Laid::out(Scale::Log, chart.curves[0].points.iter().map(|at| at.0), LEFT, RIGHT);
        let y = Laid::out(Scale::Share, std::iter::empty(), 250.0, 30.0);
        let places: Vec<(f64, f64)> = chart.curves[0]
            .points
            .iter()
            .map(|at| (x.place(at.0), y.place(at.1)))
            .collect();
        let path = steps(&places, &y);
        assert!(path.len() < 5000, "{}", path.len());
        assert!(path.ends_with(&format!("H{}V30", px(x.place(last.0)))), "{path}");
    }

    #[test]
    fn labels_that_would_touch_stand_in_rows() {
        let mark = |at: f64| Mark {
            at,
            label: format!("{at} ms"),
        };
        let chart = chart(
            vec![(1.0, 0.0), (100.0, 1.0)],
            vec![mark(10.0), mark(11.0), mark(12.0), mark(90.0)],
        );
        let x = Laid::out(Scale::Log, [1.0, 100.0].into_iter(), LEFT, RIGHT);
        let (placed, rows) = marks_of(&chart.marks, |at| x.place(at));
        let of_each: Vec<usize> = placed.iter().map(|(_, (_, row), _)| *row).collect();
        assert_eq!((of_each, rows), (vec![0, 1, 2, 0], 3));
    }

    #[test]
    fn texts_are_escaped() {
        let made = chart(vec![(1.0, 1.0)], Vec::new());
        let text = draw(&made).into_string() + &legend(&made).into_string();
        assert!(
            !text.contains("<title> &") && text.contains("&lt;title&gt; &amp; &quot;more&quot;"),
            "{text}"
        );
        assert!(text.contains("&lt;b&gt;"));
    }
}
