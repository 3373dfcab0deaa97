//! What of a block is better looked at than read, made from its history. What is missing is left out: a figure never shows
//! less than it says, and none is drawn of nothing.

mod course;
mod distribution;
mod lanes;
mod relays;

use super::plot::{Axis, Chart, Curve, Drawn, Figure, Scale};
use crate::claim::Sampled;
use crate::findings::offset_gap::{self, Loss};
use crate::findings::row::{self, Rows, table};
use crate::findings::versions::{Move, Number, Versions};
use crate::findings::waits::FAR;
use crate::findings::{Table, calibration, lost_writes};
use crate::history::{BlockNumber, History};

/// Figures of a block.
pub fn of(history: &History, block: BlockNumber) -> Vec<Figure> {
    let rows = Rows { history, block };
    let mut charts: Vec<Chart> = Vec::new();
    let mut dots = None;
    match block {
        2 => charts.extend(loss_of_rounds(&rows)),
        12 => dots = lanes::of_operations(&rows),
        13 => charts.extend(relays::messages(&rows)),
        9 => charts.extend(loss_and_gap(&rows)),
        10 => charts.extend(wait_and_distance(&rows)),
        14 => charts.extend(calibrated(&rows)),
        _ => {}
    }
    charts.extend(distribution::of(&rows));
    let courses = course::of(&rows).into_iter().map(Figure::Course);
    let charts = charts.into_iter().map(Figure::Chart);
    charts.chain(dots.map(Figure::Dots)).chain(courses).collect()
}

/// Times that moved between releases.
pub fn moved(versions: &Versions, moved: &[(&Number, &Move)]) -> Option<Figure> {
    lanes::of_moved(versions, moved).map(Figure::Dots)
}

fn axis(title: &str, unit: &str, scale: Scale) -> Axis {
    Axis {
        title: format!("{title}, {unit}{}", scale.word()),
        scale,
    }
}

/// Median in milliseconds.
fn median_ms(sampled: &Sampled) -> Option<f64> {
    Some(sampled.median()? / 1e6)
}

fn wait_and_distance(rows: &Rows<'_>) -> Option<Chart> {
    let points = |what: &str| -> Vec<(f64, f64)> {
        let at = |delay_ns| {
            let trip = median_ms(&rows.round_trips(delay_ns))?;
            Some((trip, median_ms(&rows.sampled(FAR, what, Some(delay_ns)))?))
        };
        rows.distances().into_iter().filter_map(at).collect()
    };
    let (waits, sets) = (points("set_wait"), points("set"));
    let furthest = waits.last()?.0;
    let lines = waits.iter().map(|(trip, wait)| {
        let set = sets.iter().find(|(other, _)| other == trip);
        vec![
            format!("{trip:.2}"),
            format!("{wait:.2}"),
            set.map_or_else(|| "-".to_owned(), |(_, set)| format!("{set:.2}")),
        ]
    });
    Some(Chart {
        title: "The price of WAIT against the distance".to_owned(),
        told: "Medians at each distance. On the thin line an operation takes exactly one round trip; a slope of one and a small constant \
               part above it is what is claimed."
            .to_owned(),
        x: axis("Round trip of the link", "ms", Scale::Linear),
        y: axis("Time of an operation", "ms", Scale::Linear),
        numbers: table(&["round trip, ms", "SET + WAIT, ms", "SET, ms"], lines.collect()),
        curves: vec![
            curve("SET + WAIT 1, far replica only", Drawn::Line, waits),
            curve("SET", Drawn::Line, sets),
            curve("one round trip", Drawn::Reference, vec![(0.0, 0.0), (furthest, furthest)]),
        ],
        marks: Vec::new(),
        marked: String::new(),
    })
}

fn curve(label: &str, drawn: Drawn, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        label: label.to_owned(),
        drawn,
        points,
    }
}

fn loss_and_gap(rows: &Rows<'_>) -> Option<Chart> {
    let losses = offset_gap::losses(rows);
    if losses.is_empty() {
        return None;
    }
    let line = |loss: &Loss| vec![loss.row.to_owned(), loss.gap_bytes.to_string(), loss.lost.to_string()];
    let point = |loss: &Loss| {
        let label = match loss.row {
            offset_gap::OTHER => "2 writes/s, and traffic that is no write".to_owned(),
            row => format!("{} writes/s", row.trim_end_matches("/s")),
        };
        curve(&label, Drawn::Points, vec![(loss.gap_bytes as f64, loss.lost as f64)])
    };
    Some(Chart {
        title: "Lost writes against the offset gap".to_owned(),
        told: "One point per rate of writing, at the same round trip. More bytes in the gap, more writes lost; a gap without writes loses none."
            .to_owned(),
        x: axis("Offset gap at the promotion", "bytes", Scale::LogFromZero),
        y: axis("Acknowledged writes that were lost", "number", Scale::LogFromZero),
        numbers: table(
            &["rate of writing", "gap, bytes", "lost writes"],
            losses.iter().map(line).collect(),
        ),
        curves: losses.iter().map(point).collect(),
        marks: Vec::new(),
        marked: String::new(),
    })
}

/// Both rounds of block 2, and the line on which the gap is exactly the lost writes.
fn loss_of_rounds(rows: &Rows<'_>) -> Option<Chart> {
    let losses = lost_writes::losses(rows);
    if losses.is_empty() {
        return None;
    }
    let line = |loss: &lost_writes::Loss| {
        vec![
            loss.title.to_owned(),
            loss.gap_bytes.to_string(),
            loss.lost_bytes.to_string(),
            loss.lost.to_string(),
        ]
    };
    let point = |loss: &lost_writes::Loss| (loss.gap_bytes as f64, loss.lost as f64);
    let mut curves: Vec<Curve> = losses
        .iter()
        .map(|loss| curve(&format!("cut {}", loss.title), Drawn::Points, vec![point(loss)]))
        .collect();
    if let Some(most) = losses.iter().max_by_key(|loss| loss.lost).filter(|most| most.lost > 0) {
        let end = (most.lost_bytes as f64, most.lost as f64);
        curves.push(curve(
            "the bytes of so many writes",
            Drawn::Reference,
            vec![(0.0, 0.0), end],
        ));
    }
    Some(Chart {
        title: "Lost writes against the offset gap".to_owned(),
        told: "One point per round. On the thin line the gap is exactly the bytes of the lost writes: what is lost is what had not arrived."
            .to_owned(),
        x: axis("Offset gap at the cut", "bytes", Scale::Linear),
        y: axis("Acknowledged writes that were lost", "number", Scale::Linear),
        numbers: table(
            &["cut", "gap, bytes", "lost, bytes", "lost writes"],
            losses.iter().map(line).collect(),
        ),
        curves,
        marks: Vec::new(),
        marked: String::new(),
    })
}

fn calibrated(rows: &Rows<'_>) -> Option<Chart> {
    let errors = calibration::errors(rows);
    if errors.is_empty() {
        return None;
    }
    let ms = |ns: u64| ns as f64 / 1e6;
    let delays: Vec<u64> = calibration::GRID.map(|[outward_ns, _]| outward_ns).to_vec();
    // Beside each other, where they would lie on each other: eight rows of points share their delays.
    let mut curves: Vec<Curve> = Vec::new();
    let mut lines = Vec::new();
    for errors in &errors {
        let points = errors.off.iter().map(|&(delay_ns, off_us)| (ms(delay_ns), off_us));
        let label = format!("{}, {}", errors.way, errors.direction);
        curves.push(curve(&label, Drawn::Line, points.collect()));
        lines.push(numbers_of(&label, &errors.off));
    }
    // Two looks stand for each way, so the ways go into one chart and the legend tells the directions.
    for sign in [1.0, -1.0] {
        let limit = |&delay_ns: &u64| (ms(delay_ns), sign * calibration::tolerance_us(delay_ns));
        let label = if sign > 0.0 {
            "tolerance, late"
        } else {
            "tolerance, early"
        };
        curves.push(curve(label, Drawn::Reference, delays.iter().map(limit).collect()));
    }
    let mut columns = vec!["way, direction".to_owned()];
    columns.extend(delays.iter().filter(|delay| **delay > 0).map(|&delay| row::time(delay)));
    Some(Chart {
        title: "Asked against measured".to_owned(),
        told: "How far the median one-way time is off: measured, less the delay asked for, less the median at zero delay. Between the thin \
               lines it is within the tolerance."
            .to_owned(),
        x: axis("Delay asked for, one way", "ms", Scale::Linear),
        y: axis("Off", "\u{b5}s", Scale::Linear),
        curves,
        marks: Vec::new(),
        marked: String::new(),
        numbers: Table { columns, rows: lines },
    })
}

/// A line of the table: what was off at each delay of the grid, in its order.
fn numbers_of(label: &str, off: &[(u64, f64)]) -> Vec<String> {
    let mut line = vec![label.to_owned()];
    for [delay_ns, _] in calibration::GRID.into_iter().filter(|[delay_ns, _]| *delay_ns > 0) {
        let found = off.iter().find(|(at, _)| *at == delay_ns);
        line.push(found.map_or_else(|| "-".to_owned(), |(_, off_us)| format!("{off_us:+.0} \u{b5}s")));
    }
    line
}
