//! A block on the page: question, picture, figures, table, claims, and what vouches for them.

use super::{anchor, lab, mark, record, table, verdict, wide};
use crate::claim::{Finding, combine};
use crate::findings::{BlockFindings, Trust};
use crate::picture;
use crate::report::{Cell, figures};
use maud::{Markup, PreEscaped, html};

/// `of` tells its tables from those of other runs on the page.
pub fn section(n: usize, cell: &Cell<'_>, block: &BlockFindings, of: &str) -> Markup {
    let id = anchor(n, block);
    let heading = format!("{id}-title");
    html! {
        section.block id=(id) aria-labelledby=(heading) {
            h3 id=(heading) { "Block " (block.block) " \u{b7} " (block.title) }
            @if let Some(reason) = &block.skipped {
                p { "Not run: " (reason) }
            } @else {
                p { (verdict(combine(&block.findings))) }
                p.question { (block.question) }
                (measured(cell, block, Drawn::Whole, of))
                (parts(block))
            }
        }
    }
}

/// Whether a block is shown with its picture and figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// With them.
    Whole,
    /// Without: they are those of another repeat.
    Table,
}

/// What was measured: picture, figures, table, claims.
pub fn measured(cell: &Cell<'_>, block: &BlockFindings, as_drawn: Drawn, of: &str) -> Markup {
    let whole = as_drawn == Drawn::Whole;
    let figures = if whole {
        figures::of(cell.history, block.block)
    } else {
        Vec::new()
    };
    html! {
        @if let Some(error) = &block.error { p.error { "Not completed: " (error) } }
        @if whole { (drawn(cell, block, of)) }
        @if !figures.is_empty() { div.figures { @for figure in &figures { (figure.markup(of)) } } }
        (numbers(cell, block, of))
        @if !block.findings.is_empty() {
            h4 { "Claims" }
            ul.claims { @for finding in &block.findings { (claim(finding)) } }
        }
    }
}

fn drawn(cell: &Cell<'_>, block: &BlockFindings, of: &str) -> Markup {
    let Some(picture) = lab::picture(cell, block.block) else {
        return html! {};
    };
    let told = lab::told(&picture);
    let label = format!("The lab of block {}{of}", block.block);
    html! {
        figure {
            (wide(&label, PreEscaped(picture::embedded(&picture, &label, &told))))
            figcaption.told { (told) }
        }
    }
}

fn numbers(cell: &Cell<'_>, block: &BlockFindings, of: &str) -> Markup {
    let published = record::of(cell.manifest, block.block);
    html! {
        @if !block.table.rows.is_empty() {
            h4 { "Numbers" }
            (table(&block.table, &format!("Numbers of block {}{of}", block.block)))
        }
        @if !block.notes.is_empty() { ul.dim { @for note in &block.notes { li { (note) } } } }
        @if let Some(published) = published {
            h4 { "As published" }
            (table(&published, &format!("Published numbers of block {}{of}", block.block)))
            p.told { (record::LEGEND) }
        }
    }
}

fn claim(finding: &Finding) -> Markup {
    let word = finding.verdict.word();
    html! {
        li class={"is-" (word)} {
            span class={"verdict " (word)} { (mark(finding.verdict)) " " (word) } ": " (finding.text)
            div.measured { (finding.measured) }
            @if let Some(reason) = &finding.reason { div { strong { (reason) } } }
            div.name { (finding.claim) }
        }
    }
}

fn parts(block: &BlockFindings) -> Markup {
    html! {
        dl.parts {
            dt { "Does not show" } dd { (block.does_not_show) }
            (vouched(block))
            dt { "Method" } dd { (block.method) }
        }
    }
}

/// Trust, and what it rests on: parts of a list.
pub fn vouched(block: &BlockFindings) -> Markup {
    html! {
            dt { "Trust: " (super::trust_word(&block.trust)) }
            dd {
                @match &block.trust {
                    Trust::Sound => "The instrument was what it was told to be.",
                    Trust::Suspect(reasons) | Trust::Void(reasons) => ul { @for reason in reasons { li { (reason) } } },
                }
            }
            @if !block.evidence.is_empty() {
                dt { "What that rests on" } dd { ul { @for line in &block.evidence { li { (line) } } } }
            }
    }
}
