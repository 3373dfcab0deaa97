//! Releases compared, for people at a terminal: the table of claims block by block, what moved, the times that moved, and
//! the settings that differ. Colour only where it is allowed, and every mark legible without it.

use super::compared::{self, ms};
use super::wrap::wrap;
use super::{Style, WIDTH, mark};
use crate::claim::Verdict;
use crate::findings::card;
use crate::findings::versions::{
    ClaimRow, DOES_NOT_SHOW, Incomplete, Moved, QUESTION, Standing, TITLE, Tried, Versions,
};
use comfy_table::{CellAlignment, ContentArrangement, presets};

/// Times that are shown; all are in the JSON document.
const MOST_NUMBERS: usize = 20;

/// Longest value of a setting that is shown whole.
const LONGEST_VALUE: usize = 40;

struct Page {
    text: String,
    width: usize,
    colour: bool,
}

pub(super) fn render(versions: &Versions, style: Style) -> String {
    let mut page = Page {
        text: String::new(),
        width: style.width.clamp(40, WIDTH),
        colour: style.colour,
    };
    page.painted("1", &format!("Block 15 · {TITLE}"), "", "  ");
    page.painted("", QUESTION, "  ", "  ");
    page.releases(versions);
    page.claims(versions);
    page.moved(versions);
    page.numbers(versions);
    page.settings(versions);
    page.incomplete(versions);
    page.line("");
    page.painted("2", DOES_NOT_SHOW, "  Does not show: ", &" ".repeat(17));
    page.totals(versions);
    page.text
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn painted(&mut self, code: &str, text: &str, first: &str, rest: &str) {
        for line in wrap(text, self.width, first, rest) {
            let line = line.trim_end();
            let line = match self.colour && !code.is_empty() {
                true => format!("\u{1b}[{code}m{line}\u{1b}[0m"),
                false => line.to_owned(),
            };
            self.line(&line);
        }
    }

    fn heading(&mut self, text: &str) {
        self.line("");
        self.painted("1", text, "", "  ");
    }

    /// A grid whose first column takes what the others leave.
    fn grid(&mut self, header: &[String], rows: Vec<Vec<String>>) {
        let mut grid = comfy_table::Table::new();
        grid.load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(self.width - 2).expect("a page is at most 100 wide"))
            .set_header(header)
            .add_rows(rows);
        for column in grid.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Left);
        }
        for line in grid.to_string().lines() {
            self.line(&format!("  {line}"));
        }
    }

    fn releases(&mut self, versions: &Versions) {
        for release in &versions.releases {
            let text = format!(
                "{}: {}; {} of {} cells completed",
                release.name,
                match release.versions.is_empty() {
                    true => "no server answered".to_owned(),
                    false => release.versions.join(", "),
                },
                release.completed,
                release.cells
            );
            self.painted("2", &text, "  · ", "    ");
        }
    }

    fn claims(&mut self, versions: &Versions) {
        let mut header = vec!["claim".to_owned()];
        header.extend(versions.releases.iter().map(|release| release.name.clone()));
        for of_block in versions.claims.chunk_by(|one, other| one.block == other.block) {
            let block = of_block[0].block;
            let title = card::of(block).map_or("", |card| card.title);
            self.heading(&format!("Claims of block {block} · {title}"));
            self.grid(&header, of_block.iter().map(row).collect());
        }
        if versions.claims.is_empty() {
            self.heading("No claim was judged");
        }
    }

    fn moved(&mut self, versions: &Versions) {
        let Some(first) = versions.releases.first() else { return };
        if versions.claims.is_empty() || versions.releases.len() < 2 {
            return;
        }
        self.heading(&format!("Claims that moved against {}", first.name));
        if versions.moved.is_empty() {
            self.painted("32", "none", "  ", "  ");
        }
        for moved in compared::moved_claims(versions) {
            let text = format!(
                "{}: {} -> {}: {}",
                moved.release,
                moved.from.word(),
                moved.to.word(),
                moved.text
            );
            let code = if moved.to == Standing::Diverged { "31" } else { "33" };
            self.painted(code, &text, "  ", "    ");
            for part in [&moved.measured, &moved.reason].into_iter().flatten() {
                self.painted("2", part, "      ", "      ");
            }
        }
    }

    fn numbers(&mut self, versions: &Versions) {
        let Some(first) = versions.releases.first() else { return };
        let test = &versions.test;
        if test.comparisons == 0 {
            return;
        }
        self.heading(&format!("Times that moved against {}", first.name));
        let moved = compared::moved_times(versions);
        let text = compared::told_of_times(versions, &moved);
        self.painted("2", &text, "  ", "  ");
        if let Some(text) = compared::told_of_host(&moved) {
            self.painted("33", &text, "  ", "  ");
        }
        let left_out = moved.len().saturating_sub(MOST_NUMBERS);
        let rows = moved.iter().take(MOST_NUMBERS).map(|(number, moved)| {
            vec![
                format!("{}: {}", number.block, number.name),
                moved.release.clone(),
                ms(number.first_ns),
                ms(moved.here_ns),
                compared::ratio(moved),
                format!(
                    "{}{}",
                    compared::corrected(moved),
                    if moved.moved == Moved::Apart { " apart" } else { "" }
                ),
            ]
        });
        let header = ["time, ms", "release", &first.name, "there", "ratio", "corrected p"].map(str::to_owned);
        let rows: Vec<Vec<String>> = rows.collect();
        if !rows.is_empty() {
            self.grid(&header, rows);
        }
        if left_out > 0 {
            self.painted(
                "2",
                &format!("{left_out} more, by less, are in report.json"),
                "  ",
                "  ",
            );
        }
    }

    fn settings(&mut self, versions: &Versions) {
        if versions.settings.is_empty() {
            return;
        }
        self.heading("Settings that differ");
        let sorted = versions.sorted_settings();
        if !sorted.changed.is_empty() {
            let mut header = vec!["setting".to_owned()];
            header.extend(versions.releases.iter().map(|release| release.name.clone()));
            let rows = sorted.changed.iter().map(|setting| {
                let mut row = vec![setting.name.clone()];
                row.extend(setting.values.iter().map(|values| shortened(values)));
                row
            });
            self.grid(&header, rows.collect());
        }
        for partial in &sorted.partial {
            let names: Vec<&str> = partial.settings.iter().map(|setting| setting.name.as_str()).collect();
            self.painted("", &format!("{}:", partial.title()), "  · ", "    ");
            self.painted("2", &names.join(", "), "    ", "    ");
        }
    }

    fn incomplete(&mut self, versions: &Versions) {
        self.cells("Cells that were not completed", &versions.incomplete);
        self.cells("Cells that were left out", &versions.left_out);
    }

    fn cells(&mut self, heading: &str, cells: &[Incomplete]) {
        if cells.is_empty() {
            return;
        }
        self.heading(heading);
        for cell in cells {
            self.painted("31", &compared::told_of_cell(cell), "  ", "    ");
        }
    }

    fn totals(&mut self, versions: &Versions) {
        let code = match versions.verdict {
            Some(Verdict::Holds) => "32",
            Some(Verdict::Diverged) => "31",
            Some(Verdict::Inconclusive) | None => "33",
        };
        self.line("");
        let text = compared::totals(versions);
        self.painted(code, &text, "", "  ");
    }
}

fn row(claim: &ClaimRow) -> Vec<String> {
    let mut row = vec![claim.text.clone()];
    row.extend(claim.tried.iter().map(cell));
    row
}

/// `✓ 3/3`, `✗ 1/3 suspect`: how many repeats had the verdict that counts.
fn cell(tried: &Tried) -> String {
    let counts = compared::repeats(tried);
    match tried.standing.verdict() {
        Some(verdict) => format!("{} {counts}", mark(verdict)),
        None => counts,
    }
}

/// A release that has no such setting has a dash.
fn shortened(values: &[String]) -> String {
    if values.is_empty() {
        return "-".to_owned();
    }
    let value = compared::value(values);
    match value.char_indices().nth(LONGEST_VALUE) {
        None => value,
        Some((at, _)) => format!("{}...", &value[..at]),
    }
}
