//! Distributions of latencies: which share of the operations of a row took at most so long, with the round trips of the link marked.

use super::{axis, median_ms};
use crate::claim::Sampled;
use crate::findings::row::{self, Rows, table};
use crate::findings::waits::FAR;
use crate::findings::{far_cache, nodelay, price_of_wait, serialising, visibility_lag};
use crate::report::plot::{Axis, Chart, Curve, Drawn, Mark, Scale};
use crate::stats::Summary;

/// The distance of what is measured at one only.
const USUAL_NS: u64 = 20_000_000;

/// Distributions of a block.
pub fn of(rows: &Rows<'_>) -> Vec<Chart> {
    let distances = rows.distances();
    let chart = match rows.block {
        1 => distribution(rows, "When a write is visible", &distances, lags(rows, &distances)),
        3 => distribution(rows, "Latency of SET and WAIT", &distances, prices(rows, &distances)),
        7 => distribution(rows, "Latency of a read", &distances, reads(rows, &distances)),
        10 => distribution(rows, "Latency of SET + WAIT 1", &distances, waits(rows, &distances)),
        11 => distribution(rows, "SET + WAIT 1 through a relay, zero delay", &[], relayed(rows)),
        13 => {
            let title = "SET + WAIT 1 through a relay, 20 ms one way";
            distribution(rows, title, &[USUAL_NS], ordered(rows))
        }
        _ => None,
    };
    chart.into_iter().collect()
}

type Named = (String, Sampled);

fn lags(rows: &Rows<'_>, distances: &[u64]) -> Vec<Named> {
    let mut named = Vec::new();
    for &delay_ns in distances {
        let [near, far] = visibility_lag::near_and_far(rows, delay_ns);
        // The near replica has no link to it: one distance stands for all.
        if delay_ns == USUAL_NS {
            named.insert(0, ("near replica".to_owned(), near));
        }
        named.push((format!("far replica, {} one way", row::time(delay_ns)), far));
    }
    named
}

fn prices(rows: &Rows<'_>, distances: &[u64]) -> Vec<Named> {
    let at = |row: &str, what: &str| rows.sampled(row, what, Some(USUAL_NS));
    let mut named = vec![
        ("SET".to_owned(), at(FAR, "set")),
        (
            "SET + WAIT 1, near and far replica".to_owned(),
            at(price_of_wait::BOTH, "set_wait"),
        ),
    ];
    named.extend(waits(rows, distances));
    named
}

fn waits(rows: &Rows<'_>, distances: &[u64]) -> Vec<Named> {
    let at = |&delay_ns: &u64| {
        let label = format!("SET + WAIT 1, far only, {} one way", row::time(delay_ns));
        (label, rows.sampled(FAR, "set_wait", Some(delay_ns)))
    };
    distances.iter().map(at).collect()
}

fn reads(rows: &Rows<'_>, distances: &[u64]) -> Vec<Named> {
    let mut named = vec![
        (
            "cache at home".to_owned(),
            rows.sampled(far_cache::CACHE_HOME, "get", None),
        ),
        (
            "database at home".to_owned(),
            rows.sampled(far_cache::DATABASE, "postgres_read", None),
        ),
    ];
    for &delay_ns in distances {
        let label = format!("cache far, {} one way", row::time(delay_ns));
        named.push((label, rows.sampled(far_cache::FAR, "get", Some(delay_ns))));
    }
    named
}

fn relayed(rows: &Rows<'_>) -> Vec<Named> {
    let labels = [
        (nodelay::KERNEL, "no relay"),
        (nodelay::ON, "TCP_NODELAY on"),
        (nodelay::NEAR_LEG, "TCP_NODELAY on the near leg only"),
        (nodelay::FAR_LEG, "TCP_NODELAY on the far leg only"),
        (nodelay::OFF, "TCP_NODELAY off"),
    ];
    let at = |(row, label): (&str, &str)| (label.to_owned(), rows.sampled(row, "set_wait", Some(0)));
    labels.map(at).into()
}

fn ordered(rows: &Rows<'_>) -> Vec<Named> {
    let labels = [
        (serialising::WIRE, "pipelined, TCP_NODELAY on"),
        (serialising::SERIAL, "serialising, TCP_NODELAY on"),
        (serialising::WIRE_OFF, "pipelined, TCP_NODELAY off"),
        (serialising::SERIAL_OFF, "serialising, TCP_NODELAY off"),
    ];
    let at = |(row, label): (&str, &str)| (label.to_owned(), rows.sampled(row, "set_wait", Some(USUAL_NS)));
    labels.map(at).into()
}

fn distribution(rows: &Rows<'_>, title: &str, distances: &[u64], named: Vec<Named>) -> Option<Chart> {
    let measured: Vec<(String, Vec<f64>)> = named
        .into_iter()
        .filter_map(|(label, sampled)| Some((label, sampled.values?)))
        .filter(|(_, values)| !values.is_empty())
        .collect();
    if measured.is_empty() {
        return None;
    }
    // A round trip of no time has no place on a logarithmic axis.
    let trips = distances
        .iter()
        .filter_map(|&delay_ns| median_ms(&rows.round_trips(delay_ns)));
    let marks: Vec<Mark> = trips
        .filter(|trip| *trip > 0.0)
        .map(|trip| Mark {
            at: trip,
            label: format!("{trip:.1}"),
        })
        .collect();
    Some(Chart {
        title: title.to_owned(),
        told: "Of each row the share of operations that took at most so long. The steeper, the more alike they are; a step to the right is a dearer kind."
            .to_owned(),
        x: axis("Time of an operation", "ms", Scale::Log),
        y: Axis {
            title: "Share of operations".to_owned(),
            scale: Scale::Share,
        },
        numbers: table(
            &["row", "n", "least, ms", "median, ms", "p95, ms", "most, ms"],
            measured.iter().filter_map(|(label, values)| line(label, values)).collect(),
        ),
        curves: measured.into_iter().map(|(label, values)| steps(label, values)).collect(),
        marks,
        marked: "measured round trip of the link, ms".to_owned(),
    })
}

fn line(label: &str, values: &[f64]) -> Option<Vec<String>> {
    let summary = Summary::of(values)?;
    let mut line = vec![label.to_owned(), summary.n.to_string()];
    line.extend([summary.min, summary.median, summary.p95, summary.max].map(row::ms));
    Some(line)
}

fn steps(label: String, mut values: Vec<f64>) -> Curve {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let points = values.iter().zip(1_u32..).map(|(ns, i)| (ns / 1e6, f64::from(i) / n));
    Curve {
        label,
        drawn: Drawn::Steps,
        points: points.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::synthetic::Story;

    #[test]
    fn each_row_ends_at_all_and_the_round_trips_are_marked() {
        let mut story = Story::of(10);
        for delay_ms in [5, 20] {
            story = story
                .round_trips(delay_ms)
                .took(FAR, "set_wait", Some(delay_ms), 2.0 * delay_ms as f64, 40, 1);
        }
        let history = story.history();
        let rows = Rows {
            history: &history,
            block: 10,
        };
        let charts = of(&rows);
        let [chart] = charts.as_slice() else {
            panic!("{charts:?}")
        };
        assert_eq!(
            (chart.curves.len(), chart.marks.len(), chart.numbers.rows.len()),
            (2, 2, 2)
        );
        assert_eq!(chart.marks[1].label, "40.1");
        for curve in &chart.curves {
            assert!(curve.points.last().is_some_and(|last| (last.1 - 1.0).abs() < 1e-9));
        }
    }

    #[test]
    fn nothing_measured_is_not_drawn() {
        for block in [1, 3, 7, 10, 11, 13, 99] {
            let history = Story::of(block).history();
            let rows = Rows {
                history: &history,
                block,
            };
            assert_eq!(of(&rows), []);
        }
    }
}
