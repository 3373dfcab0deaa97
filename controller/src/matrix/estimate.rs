//! How long cells will take, and what of a matrix fits into a budget. Pure: durations come from the table below, or from the
//! cells of the same matrix that were measured already.

use super::{Cell, State};
use crate::history::BlockNumber;
use std::time::Duration;

/// Seconds that a block takes, measured on two virtual cores with Redis 7.0.15. A test sees to it that every block has one.
const BLOCKS: [(BlockNumber, u32); 14] = [
    (1, 12),
    (2, 5),
    (3, 17),
    (4, 20),
    (5, 45),
    (6, 45),
    (7, 23),
    (8, 12),
    (9, 13),
    (10, 10),
    (11, 18),
    (12, 14),
    (13, 15),
    (14, 21),
];

/// Seconds in which a lab of two servers and a database comes and goes.
const LAB: u32 = 5;

/// The same for a cluster, which has to form.
const CLUSTER: u32 = 9;

/// Milliseconds that a cell of these blocks takes, by the table. An unknown block counts nothing.
#[must_use]
pub fn by_table(topology: &str, blocks: &[BlockNumber]) -> u64 {
    let of = |block: &BlockNumber| BLOCKS.iter().find(|(known, _)| known == block).map_or(0, |(_, s)| *s);
    let lab = if topology.starts_with("cluster") { CLUSTER } else { LAB };
    let seconds = blocks.iter().map(of).fold(lab, u32::saturating_add);
    u64::from(seconds) * 1000
}

/// Estimates the cells that are still to be measured by those that are, where any has the same topology and blocks.
pub fn by_measured(cells: &mut [Cell]) {
    let measured: Vec<(String, Vec<BlockNumber>, u64)> = cells
        .iter()
        .filter(|cell| cell.state == State::Complete)
        .filter_map(|cell| Some((cell.topology.clone(), cell.blocks.clone(), cell.took_ms?)))
        .collect();
    for cell in cells.iter_mut().filter(|cell| cell.state == State::Planned) {
        let mut same: Vec<u64> = measured
            .iter()
            .filter(|(topology, blocks, _)| *topology == cell.topology && *blocks == cell.blocks)
            .map(|(_, _, took_ms)| *took_ms)
            .collect();
        same.sort_unstable();
        if let Some(middle) = same.get(same.len() / 2) {
            cell.estimated_ms = *middle;
        }
    }
}

/// What all cells that are still to be measured take together, at most `jobs` of them at once where they bear company.
#[must_use]
pub fn left(cells: &[Cell], jobs: u32) -> Duration {
    let planned = cells.iter().filter(|cell| cell.state == State::Planned);
    // When each of the cells under way will have ended; the next one begins when the first of them has.
    let mut ends: Vec<(u64, bool)> = Vec::new();
    let mut now_ms = 0;
    for cell in planned {
        let jobs = usize::try_from(jobs).unwrap_or(usize::MAX);
        let bears = cell.bears_company();
        while !ends.is_empty() && (ends.len() >= jobs || !bears || ends.iter().any(|(_, bears)| !bears)) {
            ends.sort_unstable();
            now_ms = ends.remove(0).0;
        }
        ends.push((now_ms + cell.estimated_ms, bears));
    }
    let last = ends.into_iter().map(|(end, _)| end).max();
    Duration::from_millis(last.unwrap_or(now_ms))
}

/// Leaves out what does not fit into the budget: in the order of the cells, and a topology of a round on all releases or on
/// none, since a release that was measured alone is compared with nothing.
pub fn fit(cells: &mut [Cell], budget: Duration, jobs: u32) {
    let together = cells.chunk_by(|one, other| one.topology == other.topology && one.repeat == other.repeat);
    let lengths: Vec<usize> = together.map(<[Cell]>::len).collect();
    let mut end = 0;
    for length in lengths {
        let begin = end;
        end += length;
        // With what was taken before it: the two may go on at once.
        if left(&cells[..end], jobs) <= budget {
            continue;
        }
        let together = &mut cells[begin..end];
        for cell in together.iter_mut().filter(|cell| cell.state == State::Planned) {
            cell.state = State::LeftOut;
            cell.error = Some(format!(
                "left out: the budget is {}",
                humantime::format_duration(budget)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Column, Group, cells};

    fn columns() -> Vec<Column> {
        let group = |topology: &str, blocks: &[BlockNumber]| Group {
            topology: topology.to_owned(),
            blocks: blocks.to_vec(),
        };
        let column = |release: &str| Column {
            release: release.to_owned(),
            groups: vec![group("two-dc", &[1]), group("cluster-b", &[5]), group("other", &[14])],
        };
        ["a", "b"].map(column).to_vec()
    }

    #[test]
    fn every_block_has_a_duration() {
        for block in crate::findings::card::numbers() {
            assert!(by_table("two-dc", &[block]) > by_table("two-dc", &[]), "{block}");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_on_all_releases_and_what_is_shorter_still_fits() {
        let mut made = cells(&columns(), 1, 1);
        let all = left(&made, 1);
        fit(&mut made, all, 1);
        assert!(made.iter().all(|cell| cell.state == State::Planned));
        let cluster = Duration::from_millis(2 * by_table("cluster-b", &[5]));
        fit(&mut made, all - cluster, 1);
        for cell in &made {
            let left_out = cell.topology == "cluster-b";
            assert_eq!(cell.state == State::LeftOut, left_out, "{cell:?}");
            assert_eq!(cell.error.is_some(), left_out);
        }
        assert_eq!(left(&made, 1), all - cluster);
    }

    #[test]
    fn those_that_bear_company_take_less_time_together() {
        // Two labs with block 1, then two clusters, then two with block 14.
        let made = cells(&columns(), 1, 1);
        let of = |topology: &str, blocks: &[BlockNumber]| by_table(topology, blocks);
        let alone = 2 * (of("two-dc", &[1]) + of("other", &[14]));
        let together = alone + of("cluster-b", &[5]);
        assert_eq!(left(&made, 2), Duration::from_millis(together));
        assert_eq!(left(&made, 9), Duration::from_millis(together));
        let one_by_one = together + of("cluster-b", &[5]);
        assert_eq!(left(&made, 1), Duration::from_millis(one_by_one));
        let mut made = made;
        fit(&mut made, Duration::from_millis(together), 2);
        assert!(made.iter().all(|cell| cell.state == State::Planned));
    }

    #[test]
    fn cells_that_were_measured_are_better_than_the_table() {
        let mut made = cells(&columns(), 3, 1);
        for (cell, took_ms) in made
            .iter_mut()
            .filter(|cell| cell.topology == "two-dc")
            .zip([70_000, 50_000, 60_000])
        {
            cell.state = State::Complete;
            cell.took_ms = Some(took_ms);
        }
        by_measured(&mut made);
        let planned = |topology: &str| {
            made.iter()
                .find(|cell| cell.topology == topology && cell.state == State::Planned)
        };
        assert_eq!(planned("two-dc").unwrap().estimated_ms, 60_000);
        assert_eq!(planned("other").unwrap().estimated_ms, by_table("other", &[14]));
    }
}
