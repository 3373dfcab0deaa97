//! A report for people at a terminal: no line wider than the style says, colour only where it is allowed, and every mark
//! legible without it.

use super::wrap::wrap;
use super::{Style, Totals, WIDTH, mark, numeric, subtitle, trust};
use crate::claim::{Finding, Verdict};
use crate::findings::{BlockFindings, Findings, Table, Trust};
use crate::manifest::Manifest;
use comfy_table::{CellAlignment, ContentArrangement, presets};

#[derive(Clone, Copy)]
enum Paint {
    Bold,
    Dim,
    Green,
    Red,
    Yellow,
}

/// Text under way.
struct Page {
    text: String,
    width: usize,
    colour: bool,
}

pub(super) fn render(findings: &Findings, manifest: &Manifest, place: Option<&str>, style: Style) -> String {
    let mut page = Page::new(style);
    page.prose(Paint::Bold, &format!("testbed {}", manifest.instrument.version), "", "");
    page.prose(Paint::Dim, &subtitle(manifest), "", "");
    for block in &findings.blocks {
        page.line("");
        page.block(block);
    }
    page.line("");
    page.summary(findings);
    if let Some(place) = place {
        page.line(&format!("Run directory: {place}"));
    }
    if !manifest.command_line.is_empty() {
        page.line(&format!("To repeat:     {}", manifest.command()));
    }
    page.text
}

pub(super) fn render_verdicts(findings: &Findings, style: Style) -> String {
    let mut page = Page::new(style);
    for block in &findings.blocks {
        page.title(block);
        if let Some(reason) = &block.skipped {
            page.not_run(reason);
        } else {
            page.claims(block);
            if let Some(error) = &block.error {
                page.labelled(Paint::Red, "Not completed:", error);
            }
            page.trust(block);
        }
        page.line("");
    }
    page.summary(findings);
    page.text
}

impl Page {
    fn new(style: Style) -> Self {
        Self {
            text: String::new(),
            width: style.width.clamp(40, WIDTH),
            colour: style.colour,
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn painted(&self, paint: Paint, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Green => "32",
            Paint::Red => "31",
            Paint::Yellow => "33",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    fn prose(&mut self, paint: Paint, text: &str, first: &str, rest: &str) {
        for line in wrap(text, self.width, first, rest) {
            let line = self.painted(paint, line.trim_end());
            self.line(&line);
        }
    }

    /// `label` and the text after it; further lines stand below the text.
    fn labelled(&mut self, paint: Paint, label: &str, text: &str) {
        self.prose(paint, text, &format!("  {label:<15}"), &" ".repeat(17));
    }

    fn title(&mut self, block: &BlockFindings) {
        self.prose(
            Paint::Bold,
            &format!("Block {} · {}", block.block, block.title),
            "",
            "  ",
        );
    }

    fn block(&mut self, block: &BlockFindings) {
        self.title(block);
        if let Some(reason) = &block.skipped {
            self.not_run(reason);
            return;
        }
        for line in wrap(&block.question, self.width, "  ", "  ") {
            self.line(&line);
        }
        self.table(&block.table);
        for note in &block.notes {
            self.prose(Paint::Dim, note, "  · ", "    ");
        }
        self.claims(block);
        if let Some(error) = &block.error {
            self.labelled(Paint::Red, "Not completed:", error);
        }
        self.labelled(Paint::Dim, "Method:", &block.method);
        self.labelled(Paint::Dim, "Does not show:", &block.does_not_show);
        self.trust(block);
    }

    fn table(&mut self, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        let mut grid = comfy_table::Table::new();
        grid.load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(self.width - 2).expect("a page is at most 100 wide"))
            .set_header(&table.columns)
            .add_rows(&table.rows);
        for (i, column) in grid.column_iter_mut().enumerate() {
            if numeric(table, i) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in grid.to_string().lines() {
            self.line(&format!("  {line}"));
        }
    }

    fn claims(&mut self, block: &BlockFindings) {
        for finding in &block.findings {
            self.claim(finding);
        }
    }

    fn claim(&mut self, finding: &Finding) {
        let paint = match finding.verdict {
            Verdict::Holds => Paint::Green,
            Verdict::Diverged => Paint::Red,
            Verdict::Inconclusive => Paint::Yellow,
        };
        let sign = mark(finding.verdict);
        let shown = self.painted(paint, sign);
        for line in wrap(&finding.text, self.width, &format!("  {sign} "), "    ") {
            self.line(&line.replacen(sign, &shown, 1));
        }
        self.prose(Paint::Dim, &finding.measured, "      ", "      ");
        if let Some(reason) = &finding.reason {
            let word = match finding.verdict {
                Verdict::Diverged => "diverged",
                _ => "inconclusive",
            };
            self.prose(paint, &format!("{word}: {reason}"), "      ", "      ");
        }
    }

    fn trust(&mut self, block: &BlockFindings) {
        let paint = match block.trust {
            Trust::Sound => Paint::Dim,
            Trust::Suspect(_) => Paint::Yellow,
            Trust::Void(_) => Paint::Red,
        };
        self.labelled(paint, "Trust:", &trust(block));
        for (i, line) in block.evidence.iter().enumerate() {
            self.labelled(Paint::Dim, if i == 0 { "Checked:" } else { "" }, line);
        }
    }

    fn not_run(&mut self, reason: &str) {
        self.prose(Paint::Yellow, &format!("not run: {reason}"), "  ", "  ");
    }

    fn summary(&mut self, findings: &Findings) {
        let totals = Totals::of(findings);
        if let Some(error) = &findings.error {
            self.prose(
                Paint::Red,
                &format!("The run could not be completed: {error}"),
                "",
                "  ",
            );
        }
        let paint = match findings.verdict {
            Some(Verdict::Holds) => Paint::Green,
            Some(Verdict::Diverged) => Paint::Red,
            Some(Verdict::Inconclusive) | None => Paint::Yellow,
        };
        let line = self.painted(paint, &totals.line());
        let meaning = self.painted(Paint::Dim, "  (held, diverged, inconclusive)");
        self.line(&format!("{line}{meaning}"));
    }
}
