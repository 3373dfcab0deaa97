//! Charts as SVG inside a page: what is drawn is a value, made from a history by `figures`, so that a chart can be told in words
//! and numbers too. One file per way of drawing below.
//!
//! Curves differ by colour, by dash and by the shape of their points, never by colour alone. Colours are classes, so that the page
//! chooses them for light, dark and paper. No text is smaller than the page's, but where the page is narrower than a chart.

mod chart;
mod course;
mod dots;
mod scale;

pub use course::BECAME;

use crate::findings::Table;
use maud::{Markup, html};

/// Width of a chart in its own units, which are pixels at full size.
const WIDTH: f64 = 460.0;

/// How many curves can be told from each other.
const LOOKS: usize = 8;

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// Curves over an axis.
    Chart(Chart),
    /// Points in lanes.
    Dots(Dots),
    /// A parting of two halves over time.
    Course(Course),
}

/// Curves over an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// What is to be seen, in a sentence or two.
    pub told: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn.
    pub curves: Vec<Curve>,
    /// Vertical lines.
    pub marks: Vec<Mark>,
    /// What the vertical lines are (empty: there are none).
    pub marked: String,
    /// The same as numbers.
    pub numbers: Table,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Title with its unit.
    pub title: String,
    /// How values are laid out.
    pub scale: Scale,
}

/// How values are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, 0 included.
    Linear,
    /// Evenly, from the least to the greatest.
    Near,
    /// Evenly from 0 to 1.
    Share,
    /// By their logarithm.
    Log,
    /// By the logarithm of the value and 1, so that 0 has a place.
    LogFromZero,
}

/// A curve, a row of points, or a line to compare with.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What it is.
    pub label: String,
    /// How it is drawn.
    pub drawn: Drawn,
    /// Its points, in the units of the axes.
    pub points: Vec<(f64, f64)>,
}

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// Up in steps: a distribution.
    Steps,
    /// Points with a line between them.
    Line,
    /// Points alone.
    Points,
    /// A thin line to compare with, no measurement.
    Reference,
}

/// A vertical line.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// What stands above it; short.
    pub label: String,
}

/// Points in lanes, a lane per thing that has a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    /// Title.
    pub title: String,
    /// What is to be seen, in a sentence or two.
    pub told: String,
    /// Across.
    pub x: Axis,
    /// What the points of a lane are.
    pub series: Vec<String>,
    /// From above.
    pub lanes: Vec<Lane>,
    /// Vertical lines.
    pub marks: Vec<Mark>,
    /// What the vertical lines are (empty: there are none).
    pub marked: String,
    /// The same as numbers.
    pub numbers: Table,
}

/// A lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// What it is.
    pub name: String,
    /// Its points.
    pub dots: Vec<Dot>,
}

/// A point of a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// Which of the series.
    pub series: usize,
    /// Where.
    pub at: f64,
    /// Its interval.
    pub between: Option<(f64, f64)>,
}

/// How two halves of a cluster went through a parting.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// Title.
    pub title: String,
    /// What is to be seen.
    pub told: String,
    /// From when, seconds; the parting is at 0.
    pub from_s: f64,
    /// Until when.
    pub to_s: f64,
    /// When the halves met again.
    pub joined_s: f64,
    /// When `cluster-allow-reads-when-down` was set in between, and to what.
    pub marks: Vec<Mark>,
    /// The halves.
    pub halves: Vec<HalfCourse>,
    /// The same as numbers.
    pub numbers: Table,
}

/// One half of it.
#[derive(Debug, Clone, PartialEq)]
pub struct HalfCourse {
    /// Datacenter.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<NodeCourse>,
    /// Operations by what became of them.
    pub rates: Vec<Rate>,
    /// Width of a step of the rates, seconds.
    pub step_s: f64,
}

/// Operations per second of which the same became, step by step from the begin of the course.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// What became of them.
    pub label: &'static str,
    /// Per second.
    pub per_s: Vec<f64>,
}

/// What one node said.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeCourse {
    /// Its name and the role that it began with.
    pub name: String,
    /// Its `cluster_state` in time.
    pub spans: Vec<Span>,
    /// When its role changed, and to what.
    pub changes: Vec<(f64, String)>,
}

/// A stretch of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// From, seconds.
    pub from_s: f64,
    /// To, seconds.
    pub to_s: f64,
    /// What the node said of the cluster.
    pub state: State,
}

/// What a node said of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// `ok`.
    Ok,
    /// `fail`.
    Fail,
    /// Nothing.
    Silent,
}

impl Figure {
    /// Title.
    pub fn title(&self) -> &str {
        match self {
            Self::Chart(chart) => &chart.title,
            Self::Dots(dots) => &dots.title,
            Self::Course(course) => &course.title,
        }
    }

    /// As a figure of a page: picture, legend, words, numbers if there are any. `of` tells it from those of other runs on the page.
    pub fn markup(&self, of: &str) -> Markup {
        let (drawn, legend, told, numbers) = match self {
            Self::Chart(chart) => (chart::draw(chart), chart::legend(chart), &chart.told, &chart.numbers),
            Self::Dots(dots) => (dots::draw(dots), dots::legend(dots), &dots.told, &dots.numbers),
            Self::Course(course) => (
                course::draw(course),
                course::legend(course),
                &course.told,
                &course.numbers,
            ),
        };
        html! {
            figure {
                figcaption { strong { (self.title()) } }
                (drawn)
                (legend)
                p.told { (told) }
                @if !numbers.rows.is_empty() {
                    details {
                        summary { "As numbers" span.unseen { ": " (self.title()) (of) } }
                        (super::html::table(numbers, &format!("{}{of}", self.title())))
                    }
                }
            }
        }
    }
}

/// Look of the n-th curve.
fn look(n: usize) -> String {
    format!("c{}", n % LOOKS)
}

/// A number of a path.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// The n-th shape of a point, around it.
fn point(n: usize, x: f64, y: f64) -> String {
    let (x, y) = (px(x), px(y));
    let around = match n % LOOKS {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "m-3.5 -3.5h7v7h-7z",
        2 => "m0 -5l4.5 8h-9z",
        3 => "m0 -5l5 5l-5 5l-5 -5z",
        4 => "m-4 -4l8 8m0 -8l-8 8",
        5 => "m-5 0h10m-5 -5v10",
        6 => "m0 5l4.5 -8h-9z",
        _ => "m-5 -3h10v6h-10z",
    };
    format!("M{x} {y}{around}")
}

/// Patterns that charts of a page refer to.
pub fn patterns() -> Markup {
    html! {
        pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
            rect.hatched width="6" height="6" {}
            path.hatching d="M0 3H6" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_look_has_its_own_shape() {
        let mut shapes: Vec<String> = (0..LOOKS).map(|n| point(n, 1.0, 2.25)).collect();
        shapes.sort();
        shapes.dedup();
        assert_eq!(shapes.len(), LOOKS);
        assert!(point(0, 1.0, 2.25).starts_with("M1 2.2"));
        assert_eq!(point(LOOKS, 0.0, 0.0), point(0, 0.0, 0.0));
    }
}
