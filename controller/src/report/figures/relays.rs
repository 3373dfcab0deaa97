//! Block 13: what messages in a row cost, by the order in which a link delays them.

use super::{axis, curve};
use crate::findings::row::{self, Rows, table};
use crate::findings::serialising::{DELAYS_NS, MESSAGES, SERIAL, WIRE, messages as what_of};
use crate::report::plot::{Chart, Drawn, Scale};

/// Flights against the number of messages in a row.
pub fn messages(rows: &Rows<'_>) -> Option<Chart> {
    let flights = |row: &str, delay_ns: u64, count: u32| -> Option<f64> {
        let time = rows.sampled(row, what_of(count), Some(delay_ns)).median()?;
        let trip = rows.round_trips(delay_ns).median().filter(|trip| *trip > 0.0)?;
        Some(time / (trip / 2.0))
    };
    let mut curves = Vec::new();
    let mut lines = Vec::new();
    for (row, order) in [(WIRE, "pipelined"), (SERIAL, "serialising")] {
        for delay_ns in DELAYS_NS {
            let at = |count: u32| Some((f64::from(count), flights(row, delay_ns, count)?));
            let points: Vec<(f64, f64)> = MESSAGES.into_iter().filter_map(at).collect();
            if points.is_empty() {
                continue;
            }
            let label = format!("{order}, {} one way", row::time(delay_ns));
            let mut line = vec![label.clone()];
            line.extend(MESSAGES.map(|count| {
                flights(row, delay_ns, count).map_or_else(|| "-".to_owned(), |flights| format!("{flights:.2}"))
            }));
            lines.push(line);
            curves.push(curve(&label, Drawn::Line, points));
        }
    }
    if curves.is_empty() {
        return None;
    }
    let most = f64::from(MESSAGES[MESSAGES.len() - 1]);
    curves.push(curve(
        "one flight more for each",
        Drawn::Reference,
        vec![(1.0, 2.0), (most, most + 1.0)],
    ));
    curves.push(curve(
        "two flights, as on a wire",
        Drawn::Reference,
        vec![(1.0, 2.0), (most, 2.0)],
    ));
    Some(Chart {
        title: "Messages in a row".to_owned(),
        told: "One-way delays from the first of so many messages to the last reply, TCP_NODELAY on. A wire delays all of them at once; a relay that \
               holds one after the other makes each wait for the one before."
            .to_owned(),
        x: axis("Messages in a row", "number", Scale::Linear),
        y: axis("One-way delays", "number", Scale::Linear),
        curves,
        marks: Vec::new(),
        marked: String::new(),
        numbers: table(&["order and delay", "1 message", "2 in a row", "4 in a row"], lines),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::synthetic::Story;

    #[test]
    fn a_relay_that_serialises_climbs_and_a_wire_does_not() {
        let mut story = Story::of(13);
        for delay_ms in [5, 20] {
            story = story.round_trips(delay_ms);
            for count in MESSAGES {
                for (row, flights) in [(WIRE, 2), (SERIAL, count + 1)] {
                    let ms = f64::from(flights) * (delay_ms as f64 + 0.05);
                    story = story.took(row, what_of(count), Some(delay_ms), ms, 20, 1);
                }
            }
        }
        let history = story.history();
        let rows = Rows {
            history: &history,
            block: 13,
        };
        let chart = messages(&rows).expect("all was measured");
        assert_eq!(chart.curves.len(), 4 + 2);
        let last = |n: usize| chart.curves[n].points.last().map(|point| point.1.round());
        assert_eq!((last(1), last(3)), (Some(2.0), Some(5.0)));
        let empty = Story::of(13).history();
        assert_eq!(
            messages(&Rows {
                history: &empty,
                block: 13
            }),
            None
        );
    }
}
