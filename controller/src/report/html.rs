//! Runs as one page: everything in one file, no script, nothing fetched. Reads on a phone, in print, in the dark, and by ear.
//!
//! Made by templates that escape whatever is put into them; nothing of a run is put in as it is. The page forbids itself
//! scripts and the network, so that even a mistake here would run nothing.

mod block;
mod lab;
mod made_of;
pub(super) mod matrix;
mod record;
mod versions;

use super::{Cell, Totals, plot, subtitle};
use crate::claim::Verdict;
use crate::findings::{BlockFindings, Findings, Table, Trust};
use crate::picture;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("html/page.css");

/// What the page may load: nothing but its own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

pub(super) fn render(cells: &[Cell<'_>]) -> String {
    let title = match cells {
        [cell] => format!("testbed: {}", cell.name),
        _ => format!("testbed: {} runs", cells.len()),
    };
    page(
        &title,
        html! {
            @if cells.len() > 1 { (contents(cells)) }
            @for (n, cell) in cells.iter().enumerate() { (one(n, cell, cells.len() > 1)) }
        },
    )
}

/// The whole page around what is found.
fn page(title: &str, found: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                svg.defs aria-hidden="true" focusable="false" { defs { (PreEscaped(picture::heads())) (plot::patterns()) } }
                header {
                    a.unseen.skip href="#found" { "To what was found" }
                    h1 { (title) }
                }
                main { (found) }
                footer { p { "testbed measures two datacenters made of containers on one machine. Ratios, signs, counts and answers carry over to other \
                    machines; milliseconds do not." } }
            }
        }
    };
    // HTML knows no other control characters.
    page.into_string()
        .replace(|c: char| c.is_control() && c != '\n' && c != '\t', "\u{fffd}")
}

/// Runs of a page, with their verdicts.
fn contents(cells: &[Cell<'_>]) -> Markup {
    html! {
        ul {
            @for (n, cell) in cells.iter().enumerate() {
                li { a href=(format!("#run{n}")) { (cell.name) } ": " (verdict(cell.findings.verdict)) ", " (Totals::of(cell.findings).line()) }
            }
        }
    }
}

fn one(n: usize, cell: &Cell<'_>, several: bool) -> Markup {
    let findings = cell.findings;
    let class = findings.verdict.map_or("inconclusive", Verdict::word);
    let of = if several {
        format!(", {}", cell.name)
    } else {
        String::new()
    };
    html! {
        section id=(format!("run{n}")) {
            h2 id=[(n == 0).then_some("found")] { @if several { (cell.name) } @else { "What was found" } }
            p.dim { (subtitle(cell.manifest)) }
            div class={"sum " (class)} {
                p { (verdict(findings.verdict)) ": " (Totals::of(findings).line()) " (claims that held, diverged, were inconclusive)" }
                @if let Some(error) = &findings.error { p.error { "The run could not be completed: " (error) } }
            }
            (summary(n, findings, &of))
            @for found in &findings.blocks { (block::section(n, cell, found, &of)) }
            (made_of::section(n, cell.manifest, &of))
        }
    }
}

/// A line per block.
fn summary(n: usize, findings: &Findings, of: &str) -> Markup {
    if findings.blocks.is_empty() {
        return html! { p { "No block was run." } };
    }
    let count = |block: &BlockFindings, verdict: Verdict| {
        block
            .findings
            .iter()
            .filter(|finding| finding.verdict == verdict)
            .count()
    };
    wide(
        &format!("Verdicts by block{of}"),
        html! {
            table {
                caption { "Claims by block and verdict" }
                thead { tr {
                    th scope="col" { "Block" }
                    @for verdict in [Verdict::Holds, Verdict::Diverged, Verdict::Inconclusive] { th.n scope="col" { (verdict.word()) } }
                    th scope="col" { "Trust" }
                } }
                tbody {
                    @for block in &findings.blocks {
                        tr {
                            th scope="row" { a href=(format!("#{}", anchor(n, block))) { (block.block) " \u{b7} " (block.title) } }
                            @if block.skipped.is_some() {
                                td colspan="4" { "not run" }
                            } @else {
                                @for verdict in [Verdict::Holds, Verdict::Diverged, Verdict::Inconclusive] {
                                    @let count = count(block, verdict);
                                    td.n { @if count > 0 { span class=(verdict.word()) { (mark(verdict)) " " (count) } } @else { "0" } }
                                }
                                td { (trust_word(&block.trust)) }
                            }
                        }
                    }
                }
            }
        },
    )
}

fn anchor(n: usize, block: &BlockFindings) -> String {
    format!("run{n}-block{}", block.block)
}

/// A mark for the eye; beside it there is always a word.
fn mark(verdict: Verdict) -> Markup {
    html! { span aria-hidden="true" { (super::mark(verdict)) } }
}

/// A verdict, or that there is none.
fn verdict(verdict: Option<Verdict>) -> Markup {
    html! {
        @match verdict {
            Some(verdict) => span class={"verdict " (verdict.word())} { (mark(verdict)) " " (verdict.word()) },
            None => span.verdict.inconclusive { "nothing was judged" },
        }
    }
}

fn trust_word(trust: &Trust) -> &'static str {
    match trust {
        Trust::Sound => "sound",
        Trust::Suspect(_) => "suspect",
        Trust::Void(_) => "void",
    }
}

/// What may be wider than a phone: it moves by itself, and can be reached by the keyboard.
fn wide(label: &str, content: Markup) -> Markup {
    html! { div.wide role="region" aria-label=(label) tabindex="0" { (content) } }
}

/// A table; its first column names the rows.
pub(super) fn table(table: &Table, label: &str) -> Markup {
    // What begins as a number and goes on in words is a text, and has to wrap as one. A unit is no word.
    let short = |i: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(i));
        let letters = |cell: &String| cell.chars().filter(|c| c.is_alphabetic()).count();
        cells
            .into_iter()
            .all(|cell| cell.chars().count() <= 24 && letters(cell) <= 4)
    };
    let numeric: Vec<bool> = (0..table.columns.len())
        .map(|i| super::numeric(table, i) && short(i))
        .collect();
    let class = |i: usize| numeric.get(i).copied().unwrap_or(false).then_some("n");
    // A short name is not broken at its hyphens.
    let named = |i: usize, cell: &str| class(i).or((cell.chars().count() <= 20).then_some("k"));
    wide(
        label,
        html! {
            table {
                thead { tr { @for (i, column) in table.columns.iter().enumerate() { th scope="col" class=[class(i)] { (column) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (i, cell) in row.iter().enumerate() {
                                @if i == 0 { th scope="row" class=[named(i, cell)] { (cell) } } @else { td class=[class(i)] { (cell) } }
                            }
                        }
                    }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests;
