//! Block 15 on a page: which block holds on which release, what moved, which settings differ, and every claim release by
//! release.

use super::{mark, verdict, wide};
use crate::claim::Verdict;
use crate::findings::card;
use crate::findings::versions::{
    ClaimRow, DOES_NOT_SHOW, Incomplete, Move, Moved, Number, Partial, QUESTION, Standing, TITLE, Tried, Versions,
};
use crate::report::compared::{self, Compared, Together};
use crate::report::figures;
use maud::{Markup, html};

/// Times that are shown; all of them stand with their blocks.
const MOST_TIMES: usize = 20;

/// See the top of the file.
pub fn section(compared: &Compared<'_>) -> Markup {
    let versions = compared.versions;
    let class = versions.verdict.map_or("inconclusive", Verdict::word);
    html! {
        section id="found" aria-labelledby="block15-title" {
            h2 id="block15-title" { "Block 15 \u{b7} " (TITLE) }
            p.dim { (compared.subtitle) }
            p.question { (QUESTION) }
            div class={"sum " (class)} {
                p { (verdict(versions.verdict)) ": " (compared::totals(versions)) }
                p.dim { "Claims that held, diverged, were inconclusive, and that a release cannot have, over all releases; and those whose verdict moved \
                    against the first one." }
            }
            p.told { "The first release is the one that the others are compared with." }
            (releases(versions))
            (cells("Cells that were not completed", &versions.incomplete))
            (cells("Cells that were left out", &versions.left_out))
            @if versions.claims.is_empty() { p { "No claim was judged." } } @else {
                h3 { "Blocks by release" }
                p.told { "How many claims of a block have its worst verdict, of how many; trust where it is not sound." }
                (blocks(versions))
                (moved(versions))
            }
            (times(versions))
            (settings(versions))
            (claims(versions))
            dl.parts { dt { "Does not show" } dd { (DOES_NOT_SHOW) } }
        }
    }
}

fn releases(versions: &Versions) -> Markup {
    wide(
        "Releases",
        html! {
            table {
                thead { tr { th scope="col" { "Release" } th scope="col" { "Servers said they are" } th scope="col" { "Cells completed" } } }
                tbody { @for release in &versions.releases { tr {
                    th.k scope="row" { (release.name) }
                    td { @if release.versions.is_empty() { "no server answered" } @else { (release.versions.join(", ")) } }
                    td { (release.completed) " of " (release.cells) }
                } } }
            }
        },
    )
}

fn cells(heading: &str, cells: &[Incomplete]) -> Markup {
    html! {
        @if !cells.is_empty() {
            h3 { (heading) }
            ul { @for cell in cells { li.error { (compared::told_of_cell(cell)) } } }
        }
    }
}

fn header(versions: &Versions, first: &str) -> Markup {
    html! {
        thead { tr {
            th scope="col" { (first) }
            @for release in &versions.releases { th scope="col" { (release.name) } }
        } }
    }
}

fn blocks(versions: &Versions) -> Markup {
    wide(
        "Blocks by release",
        html! {
            table.grid {
                (header(versions, "Block"))
                tbody { @for (block, on) in compared::by_block(versions) { tr {
                    th scope="row" { a href=(format!("#claims{block}")) { (block) " \u{b7} " (card::of(block).map_or("", |card| card.title)) } }
                    @for on in on { (together(on)) }
                } } }
            }
        },
    )
}

fn together(on: Together) -> Markup {
    html! {
        @match on.verdict {
            None => td.dim { (on.counts()) },
            Some(verdict) => td {
                (counted(verdict, &on.counts()))
                @if let Some(doubt) = compared::doubt(on.trust) { div.measured { (doubt) } }
            },
        }
    }
}

/// A verdict by mark and word, for the eye and for the ear, and how many had it.
fn counted(verdict: Verdict, counts: &str) -> Markup {
    html! { span class=(verdict.word()) { (mark(verdict)) " " (verdict.word()) } " " span.k { (counts) } }
}

fn moved(versions: &Versions) -> Markup {
    let Some(first) = versions.releases.first().filter(|_| versions.releases.len() > 1) else {
        return html! {};
    };
    html! {
        h3 { "Claims that moved against " (first.name) }
        @if versions.moved.is_empty() { p { "None." } } @else {
            ul.claims { @for moved in compared::moved_claims(versions) {
                li class={"is-" (class(moved.to))} {
                    strong { (moved.release) } ": " (moved.from.word()) " \u{2192} "
                    span class={"verdict " (class(moved.to))} { (moved.to.word()) } ": " (moved.text)
                    @if let Some(measured) = &moved.measured { div.measured { (measured) } }
                    @if let Some(reason) = &moved.reason { div { strong { (reason) } } }
                    div.name { (moved.claim) }
                }
            } }
        }
    }
}

fn class(standing: Standing) -> &'static str {
    standing.verdict().map_or("dim", Verdict::word)
}

fn times(versions: &Versions) -> Markup {
    let Some(first) = versions.releases.first() else {
        return html! {};
    };
    if versions.test.comparisons == 0 {
        return html! {};
    }
    let moved = compared::moved_times(versions);
    let (shown, rest) = moved.split_at(moved.len().min(MOST_TIMES));
    html! {
        h3 { "Times that moved against " (first.name) }
        p { (compared::told_of_times(versions, &moved)) }
        @if let Some(text) = compared::told_of_host(&moved) { p { strong { (text) } } }
        @if let Some(figure) = figures::moved(versions, shown) { div.figures { (figure.markup("")) } }
        @if !shown.is_empty() {
            p.told { "Medians in ms; the ratio with its 95 % interval; the corrected probability of such a ratio by chance." }
            (time_table(versions, shown))
        }
        @if !rest.is_empty() { p.dim { (rest.len()) " more, by less, stand with their blocks below." } }
    }
}

fn time_table(versions: &Versions, shown: &[(&Number, &Move)]) -> Markup {
    let first = versions.releases.first().map_or("", |release| release.name.as_str());
    wide(
        "Times that moved",
        html! {
            table {
                thead { tr {
                    th scope="col" { "time" } th scope="col" { "release" } th.n scope="col" { (first) } th.n scope="col" { "there" }
                    th.n scope="col" { "ratio" } th.n scope="col" { "corrected p" } th scope="col" { "beyond noise?" }
                } }
                tbody { @for (number, moved) in shown { tr {
                    th scope="row" { (number.block) ": " (number.name) @if number.control { " (no server)" } }
                    td.k { (moved.release) }
                    td.n { (compared::ms(number.first_ns)) }
                    td.n { (compared::ms(moved.here_ns)) }
                    td.n { (compared::ratio(moved)) }
                    td.n { (compared::corrected(moved)) }
                    td { @if moved.moved == Moved::BeyondNoise { strong { "beyond noise" } } @else { (compared::moved_word(moved.moved)) } }
                } } }
            }
        },
    )
}

fn settings(versions: &Versions) -> Markup {
    if versions.settings.is_empty() {
        return html! {};
    }
    let sorted = versions.sorted_settings();
    html! {
        h3 { "Settings that differ" }
        @if sorted.changed.is_empty() { p { "No setting that two releases have differs in its value." } } @else {
            p.told { "Effective values of settings that more than one release has; a dash: the release has no such setting." }
            (wide("Settings with different values", html! {
                table {
                    (header(versions, "Setting"))
                    tbody { @for setting in &sorted.changed { tr {
                        th.k scope="row" { (setting.name) }
                        @for values in &setting.values { td.value { @if values.is_empty() { "-" } @else { (compared::value(values)) } } }
                    } } }
                }
            }))
        }
        @for partial in &sorted.partial { (alone(partial)) }
    }
}

fn alone(partial: &Partial<'_>) -> Markup {
    let title = partial.title();
    html! {
        details.names {
            summary { "Settings " (title) }
            (wide(&format!("Settings {title}"), html! {
                table {
                    thead { tr { th scope="col" { "Setting" } th scope="col" { "Value there" } } }
                    tbody { @for setting in &partial.settings { tr {
                        th.k scope="row" { (setting.name) }
                        td.value { (setting.values.iter().find(|values| !values.is_empty()).map_or_else(String::new, |values| compared::value(values))) }
                    } } }
                }
            }))
        }
    }
}

fn claims(versions: &Versions) -> Markup {
    html! {
        @if !versions.claims.is_empty() {
            h3 { "Claim by claim" }
            p.told { "How many repeats had the verdict that counts, which is the worst; n/a: the release cannot have it. Trust where it is not sound." }
        }
        @for of_block in versions.claims.chunk_by(|one, other| one.block == other.block) {
            @let block = of_block[0].block;
            @let title = card::of(block).map_or("", |card| card.title);
            h4 id=(format!("claims{block}")) { "Block " (block) " \u{b7} " (title) " " a href=(format!("#block{block}")) { "what was measured" span.unseen { " in block " (block) } } }
            (wide(&format!("Claims of block {block}"), html! {
                table.grid {
                    (header(versions, "Claim"))
                    tbody { @for row in of_block { (claim(row)) } }
                }
            }))
        }
    }
}

fn claim(row: &ClaimRow) -> Markup {
    html! {
        tr {
            th scope="row" { (row.text) }
            @for tried in &row.tried { (of_release(tried)) }
        }
    }
}

fn of_release(tried: &Tried) -> Markup {
    let counts = compared::same_repeats(tried);
    html! {
        @match tried.standing.verdict() {
            None => td.dim { (counts) },
            Some(verdict) => td {
                (counted(verdict, &counts))
                @if let Some(doubt) = compared::doubt(tried.trust) { div.measured { (doubt) } }
                @if verdict != Verdict::Holds {
                    @for part in [&tried.measured, &tried.reason].into_iter().flatten() { div.measured { (part) } }
                }
            },
        }
    }
}
