//! Figures whose points have names and no order on an axis: flights per operation, times that moved.

use super::axis;
use crate::findings::flights::{self, Counted};
use crate::findings::row::{Rows, table};
use crate::findings::versions::{Move, Number, Versions};
use crate::report::compared;
use crate::report::plot::{Axis, Dot, Dots, Lane, Mark, Scale};

/// How often each operation pays the delay, beside what is expected.
pub fn of_operations(rows: &Rows<'_>) -> Option<Dots> {
    let counted: Vec<Counted> = flights::counted(rows);
    if counted.is_empty() {
        return None;
    }
    let lane = |counted: &Counted| {
        let dot = |series, at| Dot {
            series,
            at,
            between: None,
        };
        Lane {
            name: counted.operation.row.to_owned(),
            dots: vec![
                dot(0, f64::from(counted.operation.flights)),
                dot(1, counted.by_growth),
                dot(2, counted.at_each[0]),
                dot(3, counted.at_each[1]),
            ],
        }
    };
    let line = |counted: &Counted| {
        let numbers = [counted.by_growth, counted.at_each[0], counted.at_each[1]];
        let mut line = vec![counted.operation.row.to_owned(), counted.operation.flights.to_string()];
        line.extend(numbers.map(|number| format!("{number:.2}")));
        line
    };
    Some(Dots {
        title: "Flights per operation".to_owned(),
        told: "How many one-way delays an operation pays: what is expected, what its growth from the one delay to the other says, and what each delay \
               says by itself, without the operation's own work. Whole numbers are what is claimed."
            .to_owned(),
        x: axis("One-way delays paid by an operation", "number", Scale::Linear),
        series: ["expected", "by growth", "at 15ms one way", "at 50ms one way"].map(str::to_owned).to_vec(),
        lanes: counted.iter().map(lane).collect(),
        marks: Vec::new(),
        marked: String::new(),
        numbers: table(
            &["operation", "expected", "by growth", "at 15ms", "at 50ms"],
            counted.iter().map(line).collect(),
        ),
    })
}

/// Times that moved, as ratios to the first release with their intervals.
pub fn of_moved(versions: &Versions, moved: &[(&Number, &Move)]) -> Option<Dots> {
    let (first, others) = versions.releases.split_first()?;
    let mut lanes: Vec<Lane> = Vec::new();
    let mut lines = Vec::new();
    for (number, moved) in moved {
        let name = format!("{}: {}", number.block, number.name);
        let series = others.iter().position(|other| other.name == moved.release)?;
        let dot = Dot {
            series,
            at: moved.ratio,
            between: Some((moved.low, moved.high)),
        };
        lines.push(vec![name.clone(), moved.release.clone(), compared::ratio(moved)]);
        match lanes.iter_mut().find(|lane| lane.name == name) {
            Some(lane) => lane.dots.push(dot),
            None => lanes.push(Lane { name, dots: vec![dot] }),
        }
    }
    if lanes.is_empty() {
        return None;
    }
    Some(Dots {
        title: "Times that moved, as ratios".to_owned(),
        told: format!(
            "The median on a release / that on {}, with its 95 % interval. What lies to the right of 1 takes longer there.",
            first.name
        ),
        x: Axis {
            title: format!("Ratio to {}", first.name),
            scale: Scale::Near,
        },
        series: others.iter().map(|other| other.name.clone()).collect(),
        lanes,
        marks: vec![Mark {
            at: 1.0,
            label: "the same".to_owned(),
        }],
        marked: "as long as on the first release".to_owned(),
        numbers: table(&["time", "release", "ratio"], lines),
    })
}
