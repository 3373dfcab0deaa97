//! What the block's own series say of the instrument: TCP_NODELAY as read back, and the round trips of the probes beside
//! the measurement.

use super::doubt::Doubt;
use super::limits::{ROUND_TRIP_EARLY_NS, ROUND_TRIP_LATE, ROUND_TRIP_LOST};
use crate::claim::Cause;
use crate::findings::row::{self, Rows};
use crate::history::What;
use crate::stats;

/// All doubts about a block's series.
pub fn doubts(rows: &Rows<'_>) -> Vec<Doubt> {
    let mut doubts: Vec<Doubt> = without_nodelay(rows).into_iter().collect();
    for delay_ns in rows.distances() {
        doubts.extend(length(rows, delay_ns));
    }
    doubts
}

fn without_nodelay(rows: &Rows<'_>) -> Option<Doubt> {
    if let Some(row) = ledger_without_nodelay(rows) {
        let text = format!("TCP_NODELAY of the probe was off for the ledger of \"{row}\"");
        return Some(Doubt::void(Cause::Instrument, text));
    }
    let off = || {
        rows.history
            .all_series(rows.block)
            .filter(|series| series.nodelay == Some(false))
    };
    let first = off().next()?;
    let text = format!(
        "TCP_NODELAY of the probe was off in {} series, first for {} of \"{}\"",
        off().count(),
        first.what,
        first.row
    );
    Some(Doubt::void(Cause::Instrument, text))
}

fn ledger_without_nodelay<'a>(rows: &Rows<'a>) -> Option<&'a str> {
    rows.history.events.iter().find_map(|event| match &event.what {
        What::Ledger {
            block, row, nodelay, ..
        } if *block == rows.block && *nodelay == Some(false) => Some(row.as_str()),
        _ => None,
    })
}

/// The link's measured length against the one that was asked for.
fn length(rows: &Rows<'_>, delay_ns: u64) -> Vec<Doubt> {
    let trips = rows.round_trips(delay_ns);
    let Some(values) = &trips.values else { return Vec::new() };
    let Some(median) = stats::median(values) else {
        let text = format!("no round trip of {} came back", trips.name);
        return vec![Doubt::void(Cause::Incomplete, text)];
    };
    let mut doubts = Vec::new();
    let asked = 2.0 * delay_ns as f64;
    let told = format!(
        "the round trip at {} one way was {} ms",
        row::time(delay_ns),
        row::ms(median)
    );
    let (share, beyond_ns) = ROUND_TRIP_LATE;
    if median < asked - ROUND_TRIP_EARLY_NS {
        let text = format!("{told}: the link was shorter than asked");
        doubts.push(Doubt::void(Cause::Instrument, text));
    } else if median > asked * (1.0 + share) + beyond_ns {
        doubts.push(Doubt::suspect(format!("{told}: the link was longer than asked")));
    }
    let tried = values.len() as f64 + f64::from(trips.failed);
    if f64::from(trips.failed) > ROUND_TRIP_LOST * tried {
        let text = format!("{} of {tried} of {} were lost", trips.failed, trips.name);
        doubts.push(Doubt::suspect(text));
    }
    doubts
}
