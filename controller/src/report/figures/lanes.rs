//! Figures whose points have names and no order on an axis: flights per operation, times that moved.

use super::axis;
use crate::findings::Table;
use crate::findings::flights::{self, Counted};
use crate::findings::row::{Rows, table};
use crate::findings::versions::{Move, Number, Versions};
use crate::report::plot::{Axis, Dot, Dots, Lane, Mark, Scale};

/// Ratios further apart than this are laid out by their logarithm.
const SPREAD: f64 = 4.0;

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
    for (number, moved) in moved {
        let name = format!("{}: {}", number.block, number.name);
        let series = others.iter().position(|other| other.name == moved.release)?;
        let dot = Dot {
            series,
            at: moved.ratio,
            between: Some((moved.low, moved.high)),
        };
        match lanes.iter_mut().find(|lane| lane.name == name) {
            Some(lane) => lane.dots.push(dot),
            None => lanes.push(Lane { name, dots: vec![dot] }),
        }
    }
    if lanes.is_empty() {
        return None;
    }
    for lane in &mut lanes {
        lane.dots.sort_by_key(|dot| dot.series);
    }
    let ends = |of: fn(f64, f64) -> f64, from: f64, at: fn(&Move) -> f64| {
        moved.iter().map(|(_, moved)| at(moved)).fold(from, of)
    };
    let (low, high) = (
        ends(f64::min, 1.0, |moved| moved.low),
        ends(f64::max, 1.0, |moved| moved.high),
    );
    // Where one is many times as long, evenly spaced ratios would press the others together.
    let scale = if high > SPREAD * low { Scale::Log } else { Scale::Near };
    Some(Dots {
        title: "Times that moved, as ratios".to_owned(),
        told: format!(
            "The median on a release / that on {}, with its 95 % interval. What lies to the right of 1 takes longer there.",
            first.name
        ),
        x: Axis {
            title: format!("Ratio to {}{}", first.name, scale.word()),
            scale,
        },
        series: others.iter().map(|other| other.name.clone()).collect(),
        lanes,
        marks: vec![Mark {
            at: 1.0,
            label: "the same".to_owned(),
        }],
        marked: "as long as on the first release".to_owned(),
        // They stand in a table below it, with more.
        numbers: Table::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::flights::OPERATIONS;
    use crate::findings::synthetic::Story;
    use crate::findings::versions::{Moved, Release, compare};

    #[test]
    fn each_operation_that_was_measured_has_a_lane_with_what_is_expected_first() {
        let mut story = Story::of(12);
        for delay_ms in [15, 50] {
            story = story.round_trips(delay_ms);
            for operation in OPERATIONS.iter().filter(|operation| operation.slug != "psync") {
                let ms = f64::from(operation.flights) * (delay_ms as f64 + 0.05) + 0.2;
                story = story.took(operation.row, operation.what, Some(delay_ms), ms, 12, 1);
                if let Some(beside) = operation.beside {
                    story = story.took(beside, operation.what, Some(delay_ms), 0.2, 12, 1);
                }
            }
        }
        let history = story.history();
        let dots = of_operations(&Rows {
            history: &history,
            block: 12,
        });
        let dots = dots.expect("operations were measured");
        assert_eq!((dots.lanes.len(), dots.numbers.rows.len()), (9, 9));
        for lane in &dots.lanes {
            let expected = lane.dots[0].at;
            assert!(lane.dots.iter().all(|dot| (dot.at - expected).abs() < 0.2), "{lane:?}");
        }
    }

    #[test]
    fn a_time_that_moved_on_two_releases_is_one_lane() {
        let mut versions = compare(&[], &[], 1);
        versions.releases = ["a", "b", "c"]
            .map(|name| Release {
                name: name.to_owned(),
                versions: Vec::new(),
                completed: 1,
                cells: 1,
            })
            .to_vec();
        let moves = ["b", "c"].map(|release| Move {
            release: release.to_owned(),
            here_ns: 2.0,
            rounds: 7,
            ratio: 2.0,
            low: 1.9,
            high: 2.1,
            p: Some(0.0),
            corrected: Some(0.0),
            moved: Moved::BeyondNoise,
        });
        let number = Number {
            block: 3,
            name: "set".to_owned(),
            control: false,
            first_ns: 1.0,
            moves: moves.to_vec(),
        };
        let moved: Vec<(&Number, &Move)> = moves.iter().map(|moved| (&number, moved)).collect();
        let dots = of_moved(&versions, &moved).expect("times moved");
        assert_eq!(dots.lanes.len(), 1);
        let series: Vec<usize> = dots.lanes[0].dots.iter().map(|dot| dot.series).collect();
        assert_eq!(
            (series, dots.series),
            (vec![0, 1], vec!["b".to_owned(), "c".to_owned()])
        );
        assert_eq!(dots.x.scale, Scale::Near);
        assert_eq!(of_moved(&versions, &[]), None);
    }
}
