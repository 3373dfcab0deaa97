//! A matrix as one page: the releases compared first, then block by block what each release measured, folded, so that a reader
//! opens what they want to look at. Picture and figures are of the first repeat; of further ones table, claims and trust are shown,
//! or many repeats would make a page that nobody can send.

use super::block::{self, Drawn};
use super::{made_of, page, trust_word, verdict, versions, wide};
use crate::claim::combine;
use crate::findings::versions::Number;
use crate::findings::{BlockFindings, card};
use crate::history::BlockNumber;
use crate::report::compared::{self, Compared, ComparedCell};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// See the top of the file.
pub fn render(compared: &Compared<'_>) -> String {
    let ran = compared.cells.iter().flat_map(|cell| &cell.cell.findings.blocks);
    let blocks: BTreeSet<BlockNumber> = ran.map(|block| block.block).collect();
    page(
        &format!("testbed: {}", compared.title()),
        html! {
            (versions::section(compared))
            @for block in blocks { (of_block(compared, block)) }
            (made_of_all(compared))
        },
    )
}

fn of_block(compared: &Compared<'_>, number: BlockNumber) -> Markup {
    let found = |cell: &ComparedCell<'_>| -> Option<usize> {
        let blocks = &cell.cell.findings.blocks;
        blocks.iter().position(|block| block.block == number)
    };
    let cells: Vec<(usize, &ComparedCell<'_>, &BlockFindings)> = compared
        .cells
        .iter()
        .enumerate()
        .filter_map(|(n, cell)| Some((n, cell, &cell.cell.findings.blocks[found(cell)?])))
        .collect();
    let Some((_, _, first)) = cells.first() else {
        return html! {};
    };
    let card = card::of(number);
    let methods: BTreeSet<&str> = cells.iter().map(|(_, _, block)| block.method.as_str()).collect();
    let heading = format!("block{number}-title");
    html! {
        section.block id=(format!("block{number}")) aria-labelledby=(heading) {
            h2 id=(heading) { "Block " (number) " \u{b7} " (first.title) }
            p.question { (first.question) }
            @for (i, (n, cell, block)) in cells.iter().enumerate() { (of_cell(compared, (*n, i == 0), cell, block)) }
            (times(compared, number))
            dl.parts {
                dt { "Does not show" } dd { (card.map_or(first.does_not_show.as_str(), |card| card.does_not_show)) }
                @if let [method] = methods.iter().collect::<Vec<_>>().as_slice() {
                    @if !method.is_empty() { dt { "Method" } dd { (method) } }
                }
            }
        }
    }
}

fn of_cell(
    compared: &Compared<'_>,
    (n, open): (usize, bool),
    cell: &ComparedCell<'_>,
    block: &BlockFindings,
) -> Markup {
    let many = compared.versions.repeats > 1;
    let as_drawn = if cell.repeat == 1 { Drawn::Whole } else { Drawn::Table };
    html! {
        details.cell id=(format!("cell{n}-block{}", block.block)) open[open] {
            summary {
                h3 { (cell.release) @if many { ", repeat " (cell.repeat) } }
                " "
                @if block.skipped.is_some() { "not run" } @else {
                    (verdict(combine(&block.findings))) " (" (block.findings.len()) " claims), " (trust_word(&block.trust))
                }
            }
            @if let Some(reason) = &block.skipped { p { "Not run: " (reason) } } @else {
                p.dim { (cell.cell.manifest.versions().join(", ")) " \u{b7} " (cell.cell.manifest.started_utc) }
                (block::measured(&cell.cell, block, as_drawn, &format!(", {}", cell.cell.name)))
                @if as_drawn == Drawn::Table {
                    p.dim { "Picture and figures are those of the first repeat; those of this one: " code { "testbed report " (cell.directory) " -o report.html" } }
                }
                dl.parts { (block::vouched(block)) }
            }
        }
    }
}

/// All times of a block side by side.
fn times(compared: &Compared<'_>, block: BlockNumber) -> Markup {
    let versions = compared.versions;
    let numbers: Vec<&Number> = versions.numbers.iter().filter(|number| number.block == block).collect();
    let Some((first, others)) = versions.releases.split_first() else {
        return html! {};
    };
    if numbers.is_empty() {
        return html! {};
    }
    let label = format!("Times of block {block}, release by release");
    html! {
        details.cell {
            summary { h3 { "Times side by side" } " " (numbers.len()) " medians" }
            p.told { "Medians in ms; beside them times the median on " (first.name) ", with its 95 % interval." }
            (wide(&label, html! {
                table {
                    thead { tr {
                        th scope="col" { "time" }
                        th.n scope="col" { (first.name) }
                        @for other in others { th.n scope="col" { (other.name) } }
                    } }
                    tbody { @for number in numbers { tr {
                        th scope="row" { (number.name) }
                        td.n { (compared::ms(number.first_ns)) }
                        @for other in others {
                            td.n { @match number.moves.iter().find(|moved| moved.release == other.name) {
                                None => "-",
                                Some(moved) => { (compared::ms(moved.here_ns)) " (" (compared::ratio(moved)) ")" }
                            } }
                        }
                    } } }
                }
            }))
        }
    }
}

fn made_of_all(compared: &Compared<'_>) -> Markup {
    let many = compared.versions.repeats > 1;
    html! {
        section.block aria-labelledby="made-of" {
            h2 id="made-of" { "What it was made of" }
            @for cell in compared.cells {
                @let manifest = cell.cell.manifest;
                details.cell {
                    summary {
                        h3 { (cell.release) ", " (manifest.name) @if many { ", repeat " (cell.repeat) } }
                        " " (manifest.started_utc)
                    }
                    (made_of::parts(&format!(", {}", cell.cell.name), manifest))
                    @if !manifest.command_line.is_empty() { h4 { "This cell again" } pre { code { (manifest.command()) } } }
                    p.name { (cell.directory) }
                }
            }
            h3 { "The same again" }
            pre { code { (compared.command) } }
        }
    }
}
