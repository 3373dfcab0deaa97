//! Block 7: a read from the far cache is slower than one from the database at home by orders of magnitude, and what it
//! costs is one round trip, at every distance and in the slope.

use super::Judged;
use super::row::{self, Rows, claim_at, one_per_round_trip, one_round_trip, table};
use crate::claim::{Finding, Sampled, order, ratio};

const COLUMNS: [&str; 6] = [
    "read from",
    "n",
    "round trip",
    "read",
    "times the database",
    "round trips",
];

/// What the columns hold.
const LEGEND: &str = "Times in ms, median / p95. Round trips: the read in units of the measured one.";

/// The cache beside the client.
pub const CACHE_HOME: &str = "cache at home";
/// The database beside the client.
pub const DATABASE: &str = "database at home";
/// The cache in the other datacenter.
pub const FAR: &str = "cache far";

/// Least factor between the far cache and the database at home: `by orders of magnitude`, which is a hundred at the record's
/// 20 ms (456 there). The database's read takes some 0.03 to 0.3 ms, and up to 0.5 on a slow machine, so a link of 5 ms
/// leaves room for ten and not for a hundred.
fn factor(delay_ns: u64) -> f64 {
    if delay_ns < 20_000_000 { 10.0 } else { 100.0 }
}

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let database = rows.sampled(DATABASE, "postgres_read", None);
    let mut judged = Judged::default();
    for delay_ns in rows.distances() {
        let far = rows.sampled(FAR, "get", Some(delay_ns));
        let trips = rows.round_trips(delay_ns);
        judged
            .findings
            .extend(at_distance(rows, &database, &far, &trips, delay_ns));
    }
    judged.findings.extend(rows.slopes(
        "far-cache-grows-by-one-round-trip",
        "a read from the far cache grows by one round trip per round trip",
        &one_per_round_trip(),
        |delay_ns| rows.sampled(FAR, "get", Some(delay_ns)),
    ));
    judged.table = table(&COLUMNS, lines(rows, &database));
    judged.notes.push(LEGEND.to_owned());
    judged.notes.extend(same_rows_note(rows));
    judged
}

fn at_distance(rows: &Rows<'_>, database: &Sampled, far: &Sampled, trips: &Sampled, delay_ns: u64) -> [Finding; 3] {
    let factor = factor(delay_ns);
    let slower = claim_at(
        7,
        "far-cache-is-slower",
        delay_ns,
        &format!("a read from the far cache takes at least {factor:.0} times as long as one from the database at home"),
    );
    let trip = claim_at(
        7,
        "far-costs-one-round-trip",
        delay_ns,
        "a read from the far cache costs one round trip",
    );
    let dearer = claim_at(
        7,
        "trip-is-dearer-than-the-operation",
        delay_ns,
        "the trip alone takes longer than the operation that it would replace",
    );
    [
        order::judge(slower, database, far, factor, rows.seed()),
        ratio::judge(trip, far, trips, &one_round_trip(delay_ns), rows.seed()),
        order::judge(dearer, database, trips, 1.0, rows.seed()),
    ]
}

fn lines(rows: &Rows<'_>, database: &Sampled) -> Vec<Vec<String>> {
    let line = |shown: String, reads: &Sampled, trips: Option<&Sampled>| {
        let dash = || "-".to_owned();
        vec![
            shown,
            row::n(reads),
            trips.map_or_else(dash, row::median),
            row::median_p95(reads),
            row::quotient(reads, database, 1.0),
            trips.map_or_else(dash, |trips| row::quotient(reads, trips, 1.0)),
        ]
    };
    let mut lines = vec![
        line(CACHE_HOME.to_owned(), &rows.sampled(CACHE_HOME, "get", None), None),
        line(DATABASE.to_owned(), database, None),
    ];
    for delay_ns in rows.distances() {
        let far = rows.sampled(FAR, "get", Some(delay_ns));
        let shown = row::at(FAR, Some(delay_ns));
        lines.push(line(shown, &far, Some(&rows.round_trips(delay_ns))));
    }
    lines
}

fn same_rows_note(rows: &Rows<'_>) -> Option<String> {
    let fact = |name| rows.fact("rows", name);
    let saves = match fact("save_points_count")? {
        0 if fact("appendonly_count")? == 0 => "The cache keeps nothing on disk.",
        _ => "The cache persists to disk, unlike the record's.",
    };
    Some(format!(
        "{} rows in the table and as many keys; {} of {} values compared were the same. {saves}",
        fact("table_rows_count")?,
        fact("same_count")?,
        fact("compared_count")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::findings::synthetic::Story;

    /// A whole run in which a read from the far cache costs so many round trips, and one from the database so much.
    fn story(round_trips: f64, database_ms: f64, n: usize) -> Story {
        let mut story = Story::of(7).took(CACHE_HOME, "get", None, 0.1, 200, 0).took(
            DATABASE,
            "postgres_read",
            None,
            database_ms,
            200,
            0,
        );
        for delay_ms in [5, 20, 40] {
            let ms = round_trips * (2.0 * delay_ms as f64 + 0.1) + 0.1;
            story = story.round_trips(delay_ms).took(FAR, "get", Some(delay_ms), ms, n, 0);
        }
        story
    }

    #[test]
    fn the_records_numbers_hold() {
        let judged = story(1.0, 0.09, 40).judged();
        judged.assert_all_hold();
        assert_eq!(judged.findings.len(), 9 + 3);
        assert_eq!(judged.table.rows.len(), 5);
    }

    #[test]
    fn a_slow_query_turns_the_comparison_round_and_leaves_the_trip_alone() {
        let judged = story(1.0, 30.0, 40).judged();
        assert_eq!(judged.verdict("7.far-cache-is-slower@20ms"), Verdict::Diverged);
        assert_eq!(
            judged.verdict("7.trip-is-dearer-than-the-operation@5ms"),
            Verdict::Diverged
        );
        assert_eq!(
            judged.verdict("7.trip-is-dearer-than-the-operation@40ms"),
            Verdict::Holds
        );
        assert_eq!(judged.verdict("7.far-costs-one-round-trip@20ms"), Verdict::Holds);
    }

    #[test]
    fn two_trips_diverged_in_ratio_and_slope() {
        let judged = story(2.0, 0.09, 40).judged();
        assert_eq!(judged.verdict("7.far-costs-one-round-trip@40ms"), Verdict::Diverged);
        assert_eq!(
            judged.verdict("7.far-cache-grows-by-one-round-trip@5ms-40ms"),
            Verdict::Diverged
        );
    }

    #[test]
    fn three_reads_and_a_missing_database_decide_nothing() {
        story(1.0, 0.09, 3).judged().assert_incomplete("7.far-c");
        let judged = story(1.0, 0.09, 40).without_row(DATABASE).judged();
        judged.assert_incomplete("7.far-cache-is-slower");
        assert_eq!(judged.verdict("7.far-costs-one-round-trip@20ms"), Verdict::Holds);
    }

    #[test]
    fn failed_reads_decide_nothing() {
        let judged = story(1.0, 0.09, 40)
            .took(FAR, "get", Some(20), 40.2, 40, 0)
            .failed(10)
            .judged();
        judged.assert_incomplete("7.far-costs-one-round-trip@20ms");
    }
}
