//! What is measured on which release: every block on a cache, on a database those that use one.

use crate::block::Block;
use crate::error::{CommandError, ExitCode};
use crate::image;
use crate::matrix::{Column, Group};
use crate::release::{self, Catalogue};
use std::path::Path;

/// A column per release.
pub(super) fn of(releases: &[String], blocks: &[Block]) -> Result<Vec<Column>, CommandError> {
    let catalogue = Catalogue::built_in();
    let mut columns: Vec<Column> = Vec::new();
    for name in releases {
        let mut release = catalogue.find(name)?;
        let shown = release::shown(name);
        if columns.iter().any(|column| release::shown(&column.release) == shown) {
            let text = format!("measure `{shown}` twice: a release is one column");
            return Err(CommandError::new(ExitCode::Usage, text)
                .hint("--repeat measures it several times; under another name it is ENGINE=IMAGE, or a folder of another name"));
        }
        // What is wrong with a folder is said before the first lab is raised.
        image::settle(&mut release)?;
        let here: Vec<Block> = blocks
            .iter()
            .copied()
            .filter(|block| release.engine.is_cache() || block.uses_database())
            .collect();
        if here.is_empty() {
            let text = format!("measure `{name}`: none of these blocks uses a database");
            return Err(CommandError::new(ExitCode::Usage, text).hint("blocks 7 and 12 do"));
        }
        columns.push(Column {
            release: name.clone(),
            groups: groups(&here),
        });
    }
    Ok(columns)
}

/// Blocks that share a lab, in the order of their first.
fn groups(blocks: &[Block]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for block in blocks {
        let file = Path::new(block.topology().file);
        let topology = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match groups.iter_mut().find(|group| group.topology == topology) {
            Some(group) => group.blocks.push(block.number()),
            None => groups.push(Group {
                topology,
                blocks: vec![block.number()],
            }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(releases: &[&str]) -> Vec<String> {
        releases.iter().map(|&release| release.to_owned()).collect()
    }

    #[test]
    fn the_default_releases_are_in_the_catalogue_and_each_has_every_block() {
        let columns = of(&names(&super::super::DEFAULT), &Block::ALL).unwrap();
        for column in columns {
            let blocks: usize = column.groups.iter().map(|group| group.blocks.len()).sum();
            assert_eq!(blocks, Block::ALL.len());
            assert_eq!(column.groups[0].topology, "two-dc");
        }
    }

    #[test]
    fn a_database_is_measured_where_one_is_used() {
        let columns = of(&names(&["redis-7.0.15", "postgres-17"]), &Block::ALL).unwrap();
        assert_eq!(columns[1].groups.len(), 1);
        assert_eq!(columns[1].groups[0].blocks, [7, 12]);
        let error = of(&names(&["postgres-17"]), &[Block::PriceOfWait]).unwrap_err();
        assert!(error.text.contains("uses a database"), "{}", error.text);
    }

    #[test]
    fn a_release_is_one_column_and_has_to_exist() {
        for releases in [&["redis-8.0", "redis-8.0"][..], &["redis-0.1"]] {
            assert_eq!(of(&names(releases), &Block::ALL).unwrap_err().code, ExitCode::Usage);
        }
    }
}
