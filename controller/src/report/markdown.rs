//! A report as Markdown (GitHub's): one heading per block, a table, its claims as a list.
//!
//! What comes from outside is escaped, so that a cell with a bar or a star stays a cell with a bar or a star.

pub(super) mod matrix;

use super::{Totals, mark, subtitle, trust};
use crate::claim::Finding;
use crate::findings::{BlockFindings, Findings, Table};
use crate::manifest::Manifest;

pub(super) fn render(findings: &Findings, manifest: &Manifest) -> String {
    let mut parts = vec![
        format!("# testbed: {}", escaped(&manifest.name)),
        escaped(&subtitle(manifest)),
        format!(
            "**{}** (claims that held, diverged, were inconclusive)",
            Totals::of(findings).line()
        ),
    ];
    if let Some(error) = &findings.error {
        parts.push(format!("**The run could not be completed:** {}", escaped(error)));
    }
    for block in &findings.blocks {
        add_block(&mut parts, block);
    }
    if !manifest.command_line.is_empty() {
        parts.push(format!("To repeat:\n\n{}", fenced(&manifest.command())));
    }
    let mut text = parts.join("\n\n");
    text.push('\n');
    text
}

/// As code, whatever it holds: the fence is longer than any in it.
fn fenced(code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{code}\n{fence}")
}

fn add_block(parts: &mut Vec<String>, block: &BlockFindings) {
    parts.push(format!("## Block {}: {}", block.block, escaped(&block.title)));
    if let Some(reason) = &block.skipped {
        parts.push(format!("Not run: {}", escaped(reason)));
        return;
    }
    parts.push(format!("*{}*", escaped(&block.question)));
    if let Some(error) = &block.error {
        parts.push(format!("**Not completed:** {}", escaped(error)));
    }
    if !block.table.rows.is_empty() {
        parts.push(table(&block.table));
    }
    if !block.notes.is_empty() {
        let notes: Vec<String> = block.notes.iter().map(|note| format!("- {}", escaped(note))).collect();
        parts.push(notes.join("\n"));
    }
    if !block.findings.is_empty() {
        let claims: Vec<String> = block.findings.iter().map(claim).collect();
        // A word between them, or notes and claims would be one list.
        parts.push("Claims:".to_owned());
        parts.push(claims.join("\n"));
    }
    parts.push(format!("Method: {}", escaped(&block.method)));
    parts.push(format!("Does not show: {}", escaped(&block.does_not_show)));
    parts.push(format!("Trust: {}", escaped(&trust(block))));
    if !block.evidence.is_empty() {
        let lines: Vec<String> = block
            .evidence
            .iter()
            .map(|line| format!("- {}", escaped(line)))
            .collect();
        parts.push(format!("Checked:\n\n{}", lines.join("\n")));
    }
}

fn table(table: &Table) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        format!("| {} |", cells.join(" | "))
    };
    let mut lines = vec![
        row(&table.columns),
        format!("|{}", " --- |".repeat(table.columns.len())),
    ];
    lines.extend(table.rows.iter().map(|cells| row(cells)));
    lines.join("\n")
}

pub(super) fn claim(finding: &Finding) -> String {
    let mut line = format!(
        "- {} {}: {}",
        mark(finding.verdict),
        escaped(&finding.text),
        escaped(&finding.measured)
    );
    if let Some(reason) = &finding.reason {
        line.push_str(&format!(" (**{}**)", escaped(reason)));
    }
    line
}

pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '<' | '>' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_leave_its_table() {
        let text = table(&Table {
            columns: vec!["what".into(), "ms".into()],
            rows: vec![vec!["a|b\nc".into(), "<1".into()]],
        });
        assert_eq!(text, "| what | ms |\n| --- | --- |\n| a\\|b c | \\<1 |");
    }

    #[test]
    fn code_cannot_leave_its_fence() {
        assert_eq!(fenced("a"), "```\na\n```");
        assert_eq!(fenced("a\n```\n# b ````"), "`````\na\n```\n# b ````\n`````");
    }
}
