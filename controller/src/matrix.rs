//! The version matrix as a value: releases x topologies x repeats, one cell each, in the order in which they are measured,
//! and what became of each. Pure; `store` keeps it beside the cells' own directories.
//!
//! The order is interleaved: within a round (a repeat) each topology is measured on every release before the next one
//! comes, the releases shuffled anew each time by the seed. So a slow minute of the host meets all releases alike, and
//! none is always the first.
//!
//! Cells may go on at once where none of their blocks minds it; a cell that does is alone on the host. See
//! `docs/why-cells-are-measured-alone.md`.

pub mod estimate;

use crate::findings::card;
use crate::history::BlockNumber;
use crate::release;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A matrix: what it is made of, and its cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// Version of testbed.
    pub version: String,
    /// Begin, RFC 3339, UTC.
    pub started_utc: String,
    /// End, RFC 3339, UTC (null: it has not come to its end).
    pub ended_utc: Option<String>,
    /// Seed of everything random, the order of the cells too.
    pub seed: u64,
    /// How often each topology is measured on each release.
    pub repeats: u32,
    /// Most cells at once, as of the last time that it was gone on with; those that mind company are alone all the same.
    #[serde(default = "one_by_one")]
    pub jobs: u32,
    /// Blocks, ascending.
    pub blocks: Vec<BlockNumber>,
    /// Releases as they were named; the first is the one that others are compared with.
    pub releases: Vec<String>,
    /// In the order in which they are measured.
    pub cells: Vec<Cell>,
}

/// As it was before cells could go on at once.
fn one_by_one() -> u32 {
    1
}

/// One topology on one release, once: a run like any other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Its run directory, below the matrix directory.
    pub directory: String,
    /// Release.
    pub release: String,
    /// Name of the topology.
    pub topology: String,
    /// Blocks that run on it.
    pub blocks: Vec<BlockNumber>,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// What became of it.
    pub state: State,
    /// Why it could not be completed, or was left out.
    pub error: Option<String>,
    /// How long it will take, by what is known before.
    pub estimated_ms: u64,
    /// How long it took, with lab and all.
    pub took_ms: Option<u64>,
}

/// What became of a cell. The cell's own directory has the last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not measured yet.
    Planned,
    /// Under way, or killed while it was.
    Running,
    /// Measured, to its end.
    Complete,
    /// Could not be completed.
    Failed,
    /// Not measured, since the budget was too small.
    LeftOut,
}

impl State {
    /// For people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::LeftOut => "left out",
        }
    }
}

/// Blocks that share a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Name of the topology.
    pub topology: String,
    /// Blocks that run on it, ascending.
    pub blocks: Vec<BlockNumber>,
}

/// A release and what is measured on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The release, as it was named.
    pub release: String,
    /// What is measured on it.
    pub groups: Vec<Group>,
}

/// All cells, in their order. A topology that two columns measure has the same name in both.
#[must_use]
pub fn cells(columns: &[Column], repeats: u32, seed: u64) -> Vec<Cell> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut topologies: Vec<&str> = Vec::new();
    for group in columns.iter().flat_map(|column| &column.groups) {
        if !topologies.contains(&group.topology.as_str()) {
            topologies.push(&group.topology);
        }
    }
    let mut cells = Vec::new();
    for repeat in 1..=repeats {
        for topology in &topologies {
            let mut here: Vec<(&Column, &Group)> = columns
                .iter()
                .filter_map(|column| {
                    let group = column.groups.iter().find(|group| group.topology == *topology)?;
                    Some((column, group))
                })
                .collect();
            random.shuffle(&mut here);
            for (column, group) in here {
                cells.push(Cell {
                    directory: directory(cells.len() + 1, release::shown(&column.release), topology, repeat),
                    release: column.release.clone(),
                    topology: group.topology.clone(),
                    blocks: group.blocks.clone(),
                    repeat,
                    state: State::Planned,
                    error: None,
                    estimated_ms: estimate::by_table(&group.topology, &group.blocks),
                    took_ms: None,
                });
            }
        }
    }
    cells
}

/// Name of a cell's directory. Its number makes it unique, whatever is left of the release's name.
fn directory(number: usize, release: &str, topology: &str, repeat: u32) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }
    };
    let release: String = release.chars().map(plain).take(40).collect();
    format!("cell-{number:03}-{release}-{topology}-{repeat}")
}

impl Matrix {
    /// What another matrix would have to be to go on with this one; every difference, in words.
    #[must_use]
    pub fn differences(&self, wanted: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let mut differ = |what: &str, here: String, there: String| {
            if here != there {
                differences.push(format!("{what} {here} there, {there} here"));
            }
        };
        let numbers = |blocks: &[BlockNumber]| {
            let numbers: Vec<String> = blocks.iter().map(ToString::to_string).collect();
            numbers.join(",")
        };
        differ("version", self.version.clone(), wanted.version.clone());
        differ("releases", self.releases.join(","), wanted.releases.join(","));
        differ("blocks", numbers(&self.blocks), numbers(&wanted.blocks));
        differ("repeats", self.repeats.to_string(), wanted.repeats.to_string());
        differ("seed", self.seed.to_string(), wanted.seed.to_string());
        if differences.is_empty() && !self.same_cells(wanted) {
            differences.push("the plan of its cells is another".to_owned());
        }
        differences
    }

    fn same_cells(&self, other: &Self) -> bool {
        let plan = |matrix: &Self| -> Vec<(String, String, Vec<BlockNumber>)> {
            let cells = matrix.cells.iter();
            cells
                .map(|cell| (cell.directory.clone(), cell.release.clone(), cell.blocks.clone()))
                .collect()
        };
        plan(self) == plan(other)
    }

    /// The same with each release under the name that it is shown by.
    #[must_use]
    pub fn shown(&self) -> Self {
        let mut matrix = self.clone();
        let cells = matrix.cells.iter_mut().map(|cell| &mut cell.release);
        for name in matrix.releases.iter_mut().chain(cells) {
            *name = release::shown(name).to_owned();
        }
        matrix
    }

    /// The cell that can be begun now, beside those that are under way; none if there is none, or it has to wait. The order
    /// is kept: a cell that minds company is not overtaken.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        let next = self.cells.iter().position(|cell| cell.state == State::Planned)?;
        let under_way = self.cells.iter().filter(|cell| cell.state == State::Running);
        let mut company = under_way.chain([&self.cells[next]]);
        let jobs = usize::try_from(self.jobs).unwrap_or(usize::MAX);
        let count = company.clone().count();
        (count == 1 || count <= jobs && company.all(Cell::bears_company)).then_some(next)
    }

    /// What to type to measure all of it again, in the same order. As what is typed is split into words, none needs a quote: releases
    /// are names or `ENGINE=IMAGE`.
    #[must_use]
    pub fn command(&self) -> String {
        let blocks: Vec<String> = self.blocks.iter().map(ToString::to_string).collect();
        let mut command = "testbed matrix".to_owned();
        for release in &self.releases {
            command.push_str(&format!(" --release {release}"));
        }
        format!(
            "{command} --only {} --repeat {} --seed {}",
            blocks.join(","),
            self.repeats,
            self.seed
        )
    }

    /// How many cells are in a state.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.cells.iter().filter(|cell| cell.state == state).count()
    }
}

impl Cell {
    /// Whether other cells may go on beside it.
    #[must_use]
    pub fn bears_company(&self) -> bool {
        let bears = |block: &BlockNumber| card::of(*block).is_some_and(card::Card::bears_company);
        self.blocks.iter().all(bears)
    }

    /// For people: `redis-7.0.15, two-dc (blocks 1,3), repeat 2`.
    #[must_use]
    pub fn shown(&self) -> String {
        let blocks: Vec<String> = self.blocks.iter().map(ToString::to_string).collect();
        format!(
            "{}, {} (blocks {}), repeat {}",
            release::shown(&self.release),
            self.topology,
            blocks.join(","),
            self.repeat
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn columns(releases: &[&str]) -> Vec<Column> {
        let group = |topology: &str, blocks: &[BlockNumber]| Group {
            topology: topology.to_owned(),
            blocks: blocks.to_vec(),
        };
        let column = |release: &&str| Column {
            release: (*release).to_owned(),
            groups: vec![group("two-dc", &[1, 3]), group("cluster-a", &[4])],
        };
        releases.iter().map(column).collect()
    }

    fn matrix(releases: &[&str], repeats: u32, seed: u64) -> Matrix {
        Matrix {
            version: "0.1.0".to_owned(),
            started_utc: String::new(),
            ended_utc: None,
            seed,
            repeats,
            jobs: 2,
            blocks: vec![1, 3, 4],
            releases: releases.iter().map(|&release| release.to_owned()).collect(),
            cells: cells(&columns(releases), repeats, seed),
        }
    }

    #[test]
    fn every_release_has_a_topology_before_the_next_topology_comes() {
        let cells = cells(&columns(&["a", "b", "c"]), 2, 1);
        assert_eq!(cells.len(), 3 * 2 * 2);
        for (i, few) in cells.chunks(3).enumerate() {
            let releases: BTreeSet<&str> = few.iter().map(|cell| cell.release.as_str()).collect();
            assert_eq!(releases.len(), 3, "{few:?}");
            assert!(few.iter().all(|cell| cell.topology == few[0].topology));
            assert!(few.iter().all(|cell| cell.repeat as usize == i / 2 + 1));
        }
    }

    #[test]
    fn the_seed_decides_the_order_and_none_is_always_the_first() {
        let order = |seed| -> Vec<String> {
            let cells = cells(&columns(&["a", "b", "c"]), 6, seed);
            cells.into_iter().map(|cell| cell.release).collect()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let first: BTreeSet<String> = order(1).chunks(3).map(|few| few[0].clone()).collect();
        assert!(first.len() > 1);
    }

    #[test]
    fn a_release_of_another_kind_has_only_the_topologies_that_it_is_used_in() {
        let mut columns = columns(&["a", "b"]);
        columns[1].groups.pop();
        let cells = cells(&columns, 1, 1);
        assert_eq!(cells.len(), 3);
        assert_eq!(cells[2].release, "a");
    }

    #[test]
    fn directories_are_names_and_each_has_its_own() {
        let cells = cells(&columns(&["redis=reg/x:1", "redis=reg-x:1"]), 2, 1);
        let names: BTreeSet<&str> = cells.iter().map(|cell| cell.directory.as_str()).collect();
        assert_eq!(names.len(), cells.len());
        assert!(names.iter().all(|name| !name.contains('/')), "{names:?}");
    }

    #[test]
    fn a_cell_that_minds_company_is_alone_and_not_overtaken() {
        let mut matrix = matrix(&["a", "b"], 2, 1);
        let topologies: Vec<&str> = matrix.cells.iter().map(|cell| cell.topology.as_str()).collect();
        assert_eq!(topologies[..4], ["two-dc", "two-dc", "cluster-a", "cluster-a"]);
        let mut begun = Vec::new();
        // Whoever was begun first ends first.
        for _ in 0..matrix.cells.len() {
            while let Some(next) = matrix.next() {
                matrix.cells[next].state = State::Running;
                let beside = matrix.count(State::Running);
                begun.push((next, beside));
            }
            let first = matrix.cells.iter().position(|cell| cell.state == State::Running);
            matrix.cells[first.unwrap()].state = State::Complete;
        }
        let alone = |first: usize| [(first, 1), (first + 1, 1), (first + 2, 1), (first + 3, 2)];
        assert_eq!(begun, [alone(0), alone(4)].concat());
        assert_eq!(matrix.count(State::Complete), matrix.cells.len());
    }

    #[test]
    fn no_more_are_at_once_than_was_asked_for() {
        let mut matrix = matrix(&["a", "b", "c"], 1, 1);
        for cell in &mut matrix.cells[..3] {
            cell.state = State::Complete;
        }
        for (jobs, most) in [(1, 1), (2, 2), (9, 3)] {
            let mut matrix = matrix.clone();
            matrix.jobs = jobs;
            while let Some(next) = matrix.next() {
                matrix.cells[next].state = State::Running;
            }
            assert_eq!(matrix.count(State::Running), most, "{jobs}");
        }
    }

    #[test]
    fn what_differs_is_told_by_name_and_state_is_no_difference() {
        let here = matrix(&["a", "b"], 1, 1);
        let mut later = here.clone();
        later.cells[0].state = State::Complete;
        later.started_utc = "later".to_owned();
        assert_eq!(here.differences(&later), Vec::<String>::new());
        let told = here.differences(&matrix(&["a", "c"], 2, 7));
        assert_eq!(
            told,
            [
                "releases a,b there, a,c here",
                "repeats 1 there, 2 here",
                "seed 1 there, 7 here"
            ]
        );
        later.cells[0].blocks = vec![1];
        assert_eq!(here.differences(&later).len(), 1);
    }
}
