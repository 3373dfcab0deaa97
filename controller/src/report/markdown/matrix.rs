//! A matrix as Markdown: block 15 as tables, then every cell as a run is told, folded.

use super::{add_block, escaped, fenced, table};
use crate::findings::versions::{ClaimRow, DOES_NOT_SHOW, Incomplete, QUESTION, TITLE, Tried, Versions};
use crate::findings::{Table, card};
use crate::report::compared::{self, Compared, ComparedCell};
use crate::report::{Totals, mark};

/// Times that are shown; all are in the JSON document.
const MOST_TIMES: usize = 20;

/// See the top of the file.
pub fn render(compared: &Compared<'_>) -> String {
    let mut text = comparison(compared);
    for cell in compared.cells {
        text.push_str(&folded(compared, cell));
    }
    text
}

fn folded(compared: &Compared<'_>, cell: &ComparedCell<'_>) -> String {
    let (findings, manifest) = (cell.cell.findings, cell.cell.manifest);
    let mut name = format!("{}, {}", cell.release, manifest.name);
    if compared.versions.repeats > 1 {
        name.push_str(&format!(", repeat {}", cell.repeat));
    }
    let mut parts = vec![
        format!(
            "\n<details><summary>{}: {}</summary>",
            within_html(&name),
            Totals::of(findings).line()
        ),
        escaped(&super::subtitle(manifest)),
    ];
    if let Some(error) = &findings.error {
        parts.push(format!("**The run could not be completed:** {}", escaped(error)));
    }
    for block in &findings.blocks {
        add_block(&mut parts, block);
    }
    if !manifest.command_line.is_empty() {
        parts.push(format!("This cell again:\n\n{}", fenced(&manifest.command())));
    }
    parts.push("</details>\n".to_owned());
    parts.join("\n\n")
}

/// Inside an element of HTML nothing of Markdown is read.
fn within_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Block 15 alone.
pub fn comparison(compared: &Compared<'_>) -> String {
    let versions = compared.versions;
    let mut parts = vec![
        format!("# testbed: {}", escaped(&compared.title())),
        escaped(compared.subtitle),
        format!("**{}**", compared::totals(versions)),
        format!("## Block 15: {}", escaped(TITLE)),
        format!("*{}*", escaped(QUESTION)),
        releases(versions),
    ];
    cells(&mut parts, "Cells that were not completed", &versions.incomplete);
    cells(&mut parts, "Cells that were left out", &versions.left_out);
    if versions.claims.is_empty() {
        parts.push("No claim was judged.".to_owned());
    } else {
        parts.push("### Blocks by release".to_owned());
        parts.push(blocks(versions));
        moved(&mut parts, versions);
    }
    times(&mut parts, versions);
    settings(&mut parts, versions);
    for of_block in versions.claims.chunk_by(|one, other| one.block == other.block) {
        let block = of_block[0].block;
        let title = card::of(block).map_or("", |card| card.title);
        parts.push(format!("### Claims of block {block}: {}", escaped(title)));
        parts.push(table(&Table {
            columns: header(versions, "claim"),
            rows: of_block.iter().map(claim).collect(),
        }));
    }
    parts.push(format!("Does not show: {}", escaped(DOES_NOT_SHOW)));
    parts.push(format!("To repeat:\n\n{}", fenced(compared.command)));
    let mut text = parts.join("\n\n");
    text.push('\n');
    text
}

fn header(versions: &Versions, first: &str) -> Vec<String> {
    let mut header = vec![first.to_owned()];
    header.extend(versions.releases.iter().map(|release| release.name.clone()));
    header
}

fn releases(versions: &Versions) -> String {
    let row = |release: &crate::findings::versions::Release| {
        let versions = match release.versions.is_empty() {
            true => "no server answered".to_owned(),
            false => release.versions.join(", "),
        };
        let completed = format!("{} of {}", release.completed, release.cells);
        vec![release.name.clone(), versions, completed]
    };
    table(&Table {
        columns: ["release", "servers", "cells completed"].map(str::to_owned).to_vec(),
        rows: versions.releases.iter().map(row).collect(),
    })
}

fn cells(parts: &mut Vec<String>, heading: &str, cells: &[Incomplete]) {
    if !cells.is_empty() {
        parts.push(format!("### {heading}"));
        let lines = cells
            .iter()
            .map(|cell| format!("- {}", escaped(&compared::told_of_cell(cell))));
        parts.push(lines.collect::<Vec<_>>().join("\n"));
    }
}

fn blocks(versions: &Versions) -> String {
    let rows = compared::by_block(versions).into_iter().map(|(block, on)| {
        let mut row = vec![format!("{block} · {}", card::of(block).map_or("", |card| card.title))];
        row.extend(on.iter().map(|on| match on.verdict {
            Some(verdict) => format!("{} {}", mark(verdict), on.shown()),
            None => on.shown(),
        }));
        row
    });
    table(&Table {
        columns: header(versions, "block"),
        rows: rows.collect(),
    })
}

fn moved(parts: &mut Vec<String>, versions: &Versions) {
    let Some(first) = versions.releases.first().filter(|_| versions.releases.len() > 1) else {
        return;
    };
    parts.push(format!("### Claims that moved against {}", escaped(&first.name)));
    let lines = compared::moved_claims(versions).into_iter().map(|moved| {
        let mut line = format!(
            "- {}: {} → **{}**: {}",
            escaped(&moved.release),
            moved.from.word(),
            moved.to.word(),
            escaped(&moved.text)
        );
        for part in [&moved.measured, &moved.reason].into_iter().flatten() {
            line.push_str(&format!("; {}", escaped(part)));
        }
        line
    });
    let lines: Vec<String> = lines.collect();
    parts.push(if lines.is_empty() {
        "None.".to_owned()
    } else {
        lines.join("\n")
    });
}

fn times(parts: &mut Vec<String>, versions: &Versions) {
    let Some(first) = versions.releases.first().filter(|_| versions.test.comparisons > 0) else {
        return;
    };
    let moved = compared::moved_times(versions);
    parts.push(format!("### Times that moved against {}", escaped(&first.name)));
    parts.push(escaped(&compared::told_of_times(versions, &moved)));
    parts.extend(compared::told_of_host(&moved).map(|text| format!("**{}**", escaped(&text))));
    let rows = moved.iter().take(MOST_TIMES).map(|(number, moved)| {
        vec![
            format!("{}: {}", number.block, number.name),
            moved.release.clone(),
            compared::ms(number.first_ns),
            compared::ms(moved.here_ns),
            compared::ratio(moved),
            compared::corrected(moved),
            compared::moved_word(moved.moved).to_owned(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        let columns = [
            "time, ms",
            "release",
            &first.name,
            "there",
            "ratio",
            "corrected p",
            "beyond noise?",
        ];
        parts.push(table(&Table {
            columns: columns.map(str::to_owned).to_vec(),
            rows,
        }));
    }
    if moved.len() > MOST_TIMES {
        parts.push(format!(
            "{} more, by less, are in report.json.",
            moved.len() - MOST_TIMES
        ));
    }
}

fn settings(parts: &mut Vec<String>, versions: &Versions) {
    if versions.settings.is_empty() {
        return;
    }
    parts.push("### Settings that differ".to_owned());
    let sorted = versions.sorted_settings();
    if !sorted.changed.is_empty() {
        let rows = sorted.changed.iter().map(|setting| {
            let mut row = vec![setting.name.clone()];
            row.extend(setting.values.iter().map(|values| match values.is_empty() {
                true => "-".to_owned(),
                false => compared::value(values),
            }));
            row
        });
        parts.push(table(&Table {
            columns: header(versions, "setting"),
            rows: rows.collect(),
        }));
    }
    for partial in &sorted.partial {
        let names: Vec<String> = partial.settings.iter().map(|setting| escaped(&setting.name)).collect();
        parts.push(format!(
            "<details><summary>Settings {}</summary>\n\n{}\n\n</details>",
            within_html(&partial.title()),
            names.join(", ")
        ));
    }
}

fn claim(row: &ClaimRow) -> Vec<String> {
    let cell = |tried: &Tried| {
        let counts = compared::repeats(tried);
        match tried.standing.verdict() {
            Some(verdict) => format!("{} {counts}", mark(verdict)),
            None => counts,
        }
    };
    let mut line = vec![row.text.clone()];
    line.extend(row.tried.iter().map(cell));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{self, HOSTILE};

    #[test]
    fn the_comparison_is_first_and_cells_are_folded_and_nothing_leaves_its_place() {
        let text = samples::matrix(render);
        for part in [
            "# testbed: matrix of 2 releases",
            "| 3 · ",
            "### Settings that differ\n\n| setting | a | b |",
            "<details><summary>Settings only on a: 1</summary>",
            "### Claims of block 3",
            "To repeat:\n\n```\ntestbed matrix --only 3\n```",
            "<details><summary>b, two-dc, repeat 1: 1 passed, 1 failed, 1 skipped</summary>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
        assert!(!text.contains(HOSTILE) && !text.contains("</script>"));
        let brief = samples::matrix(comparison);
        assert!(text.starts_with(&brief) && !brief.contains("<summary>b, "));
    }
}
