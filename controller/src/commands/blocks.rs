//! `blocks`: which blocks there are, what each asks, how, and what it does not show.

use super::screen::{self, plain_table};
use crate::block::Block;
use crate::cli::{Blocks, Format, Global};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::findings::versions;
use crate::history::BlockNumber;
use crate::report::{WIDTH, wrap};
use schemars::JsonSchema;
use serde::Serialize;

/// What `blocks --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BlocksDocument {
    /// In the order of their numbers.
    pub blocks: Vec<BlockExplained>,
}

/// A block, explained.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BlockExplained {
    /// Number.
    pub block: BlockNumber,
    /// Short title.
    pub title: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// How, with its parameters.
    pub method: String,
    /// What it does not show.
    pub does_not_show: &'static str,
    /// The topology that it is meant for.
    pub topology: &'static str,
}

impl BlockExplained {
    fn of(block: Block) -> Self {
        let card = block.card();
        Self {
            block: card.number,
            title: card.title,
            question: card.question,
            method: block.method(),
            does_not_show: card.does_not_show,
            topology: block.topology().file,
        }
    }
}

/// Lists all blocks, or explains those of these numbers.
///
/// # Errors
/// There is no such block.
pub fn run(global: &Global, args: &Blocks) -> Result<ExitCode, CommandError> {
    let blocks = chosen(&args.blocks)?;
    let shown = BlocksDocument {
        blocks: blocks.into_iter().map(BlockExplained::of).collect(),
    };
    let text = match global.format {
        Format::Json => document("blocks", &shown),
        Format::Text if args.blocks.is_empty() => listed(&shown),
        Format::Text => explained(&shown),
    };
    screen::print(&text)?;
    Ok(ExitCode::Success)
}

/// The blocks of these numbers, in the order of their numbers and each once; all of them if there is no number.
pub(super) fn chosen(numbers: &[BlockNumber]) -> Result<Vec<Block>, CommandError> {
    if numbers.is_empty() {
        return Ok(Block::ALL.to_vec());
    }
    let mut blocks = Vec::new();
    for &number in numbers {
        let Some(block) = Block::numbered(number) else {
            let known: Vec<String> = Block::ALL.iter().map(|block| block.number().to_string()).collect();
            let text = format!("find block {number}: there are {}", known.join(", "));
            let hint = match number {
                versions::BLOCK => "block 15 compares releases: `testbed matrix` measures it",
                _ => "`testbed blocks` explains them",
            };
            return Err(CommandError::new(ExitCode::Usage, text).hint(hint));
        };
        blocks.push(block);
    }
    blocks.sort_unstable();
    blocks.dedup();
    Ok(blocks)
}

fn listed(shown: &BlocksDocument) -> String {
    let rows = shown.blocks.iter().map(|block| {
        [
            block.block.to_string(),
            block.title.to_owned(),
            block.question.to_owned(),
            block.topology.to_owned(),
        ]
    });
    plain_table(["BLOCK", "TITLE", "QUESTION", "TOPOLOGY"], rows)
}

fn explained(shown: &BlocksDocument) -> String {
    let mut text = String::new();
    for block in &shown.blocks {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("Block {} · {}\n", block.block, block.title));
        for (label, part) in [
            ("Question:", block.question),
            ("Method:", block.method.as_str()),
            ("Does not show:", block.does_not_show),
            ("Topology:", block.topology),
        ] {
            for line in wrap(part, WIDTH, &format!("  {label:<15}"), &" ".repeat(17)) {
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_in_the_order_of_their_numbers_and_once() {
        let numbers = |asked: &[u8]| -> Vec<u8> {
            let blocks = chosen(asked).unwrap();
            blocks.into_iter().map(Block::number).collect()
        };
        assert_eq!(numbers(&[7, 1, 7]), [1, 7]);
        assert_eq!(numbers(&[]).len(), Block::ALL.len());
    }

    #[test]
    fn an_unknown_block_is_a_matter_of_the_command_line_and_names_the_known_ones() {
        let error = chosen(&[1, 99]).unwrap_err();
        assert_eq!(error.code, ExitCode::Usage);
        assert!(error.text.starts_with("find block 99: there are 1, 2, 3, 4, 5, 6, 7, "));
    }
}
