//! What the record published, beside the release that it measured and no other: numbers do not carry over to another version.
//! Ratios are what can be compared; its milliseconds are another machine's and say so.

use crate::findings::Table;
use crate::findings::row::table;
use crate::history::BlockNumber;
use crate::manifest::Manifest;

/// What stands below its tables.
pub const LEGEND: &str = "The published experiment that this block repeats: redis 7.0.15, another machine. Ratios, counts and answers can be compared; its \
     milliseconds belong to that machine.";

/// The version that the record measured.
const VERSION: &str = "redis 7.0.15";
/// Engines of which another version makes all of it another measurement.
const CACHES: [&str; 2] = ["redis ", "valkey "];

/// What the record has of a block, if these are the servers that it measured.
pub fn of(manifest: &Manifest, block: BlockNumber) -> Option<Table> {
    let versions = manifest.versions();
    let caches: Vec<&String> = versions
        .iter()
        .filter(|version| CACHES.iter().any(|engine| version.starts_with(engine)))
        .collect();
    let same = !caches.is_empty() && caches.iter().all(|version| *version == VERSION);
    if same { published(block) } else { None }
}

fn published(block: BlockNumber) -> Option<Table> {
    let (columns, rows): (&[&str], &[&[&str]]) = match block {
        1 => (
            &["replica", "one way", "lag there, ms", "flights"],
            &[
                &["near", "-", "1.1", "-"],
                &["far", "20 ms", "20.1", "0.95 (far - near)"],
            ],
        ),
        2 => (
            &["cut", "acknowledged", "kept", "lost"],
            &[&["at once", "200", "107", "93"], &["1 s later", "200", "200", "0"]],
        ),
        3 => (
            &["operation", "one way", "there, ms", "times the SET", "round trips"],
            &[
                &["SET", "20 ms", "0.24", "1", "-"],
                &["SET + WAIT 1, far only", "20 ms", "41.73", "171.6", "1.04"],
            ],
        ),
        4..=6 => return halves(block),
        7 => (
            &[
                "read from",
                "there, ms, median / p95",
                "times the database",
                "round trips",
            ],
            &[
                &["cache at home", "0.10 / 0.14", "1.1", "-"],
                &["database at home", "0.09 / 0.13", "1", "-"],
                &["cache far, 20 ms one way", "41.09 / 41.36", "457", "1.03"],
            ],
        ),
        8 => (
            &["allow-reads-when-down", "reads of 20 keys", "writes"],
            &[
                &["no", "20 CLUSTERDOWN", "refused"],
                &["yes", "14 served, the others redirected", "refused"],
            ],
        ),
        9 => (
            &["round", "gap, bytes", "lost"],
            &[
                &["fastest", "3548", "104"],
                &["middle", "99", "3"],
                &["slowest", "0", "0"],
            ],
        ),
        10 => (
            &[
                "one way",
                "SET + WAIT there, ms",
                "round trips",
                "growth",
                "beyond it there, ms",
            ],
            &[
                &["5 ms", "10.90", "1.09", "-", "0.90"],
                &["20 ms", "41.52", "1.04", "1.02", "1.52"],
                &["40 ms", "81.40", "1.02", "1.00", "1.40"],
            ],
        ),
        11 => (
            &["TCP_NODELAY of the relay", "one way", "SET + WAIT there, ms"],
            &[&["off", "0 ms", "44.00"], &["on", "0 ms", "0.70"]],
        ),
        _ => return None,
    };
    let rows = rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect());
    Some(table(columns, rows.collect()))
}

/// Which half of the cluster answered, by layout.
fn halves(block: BlockNumber) -> Option<Table> {
    let home = match block {
        4 => "works",
        5 => "CLUSTERDOWN",
        6 => "works, after the promotion of the replica",
        _ => return None,
    };
    let row = |half: &str, answers: &str| vec![half.to_owned(), answers.to_owned()];
    Some(table(
        &["half", "answers"],
        vec![row("dc1", home), row("dc2", "CLUSTERDOWN")],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::Made;

    #[test]
    fn it_stands_beside_its_own_version_and_no_other() {
        let mut manifest = Made::default().manifest;
        assert!(manifest.versions().contains(&VERSION.to_owned()));
        assert!(of(&manifest, 10).is_some() && of(&manifest, 14).is_none());
        manifest.labs[0].servers[0].version = Some("8.0.1".to_owned());
        assert_eq!(of(&manifest, 10), None);
        manifest.labs.clear();
        assert_eq!(of(&manifest, 10), None);
    }

    #[test]
    fn every_row_is_as_long_as_its_columns() {
        let tables: Vec<Table> = (0..=20).filter_map(published).collect();
        assert_eq!(tables.len(), 11);
        for table in tables {
            assert!(
                table.rows.iter().all(|row| row.len() == table.columns.len()),
                "{table:?}"
            );
        }
    }
}
