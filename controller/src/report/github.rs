//! Runs as a job of GitHub Actions shows them: annotations beside the log, and the summary of the step.
//!
//! Both have limits there: ten annotations of a kind per step are shown, and a summary of more than a mebibyte is refused. What is
//! left out for them is said.

use super::{Cell, Compared, Missing, Totals, markdown};
use crate::claim::{Finding, Verdict};
use std::fmt::Write as _;

/// Annotations of one kind that are shown of a step.
const MOST: usize = 10;
/// Longest summary of a step, bytes.
const LONGEST: usize = 1024 * 1024;

pub(super) fn annotations(cells: &[Cell<'_>], missing: &[Missing]) -> String {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for cell in missing.iter().filter(|cell| !cell.left_out) {
        errors.push((
            "testbed".to_owned(),
            format!("{} was not measured: {}", cell.name, cell.reason),
        ));
    }
    for cell in cells {
        // Where several are side by side it has to be said of which.
        let of = match cells {
            [_] if missing.is_empty() => String::new(),
            _ => format!("{}: ", cell.name),
        };
        if let Some(error) = &cell.findings.error {
            let message = format!("{of}the run could not be completed: {error}");
            errors.push(("testbed".to_owned(), message));
        }
        for finding in cell.findings.blocks.iter().flat_map(|block| &block.findings) {
            let told = (format!("{of}{}", finding.claim), words(finding));
            match finding.verdict {
                Verdict::Holds => {}
                Verdict::Diverged => errors.push(told),
                Verdict::Inconclusive => warnings.push(told),
            }
        }
    }
    let totals: Vec<String> = cells
        .iter()
        .map(|cell| format!("{}: {}", cell.name, Totals::of(cell.findings).line()))
        .collect();
    let mut text = lines("error", &errors);
    text.push_str(&lines("warning", &warnings));
    text.push_str(&line("notice", "testbed", &totals.join("\n")));
    text
}

fn words(finding: &Finding) -> String {
    let mut words = format!("{}: {}", finding.text, finding.measured);
    if let Some(reason) = &finding.reason {
        let _ = write!(words, " ({reason})");
    }
    words
}

fn lines(kind: &str, told: &[(String, String)]) -> String {
    let shown = if told.len() > MOST { MOST - 1 } else { told.len() };
    let mut text: String = told[..shown]
        .iter()
        .map(|(title, message)| line(kind, title, message))
        .collect();
    if shown < told.len() {
        let more = format!("{} more, see the report", told.len() - shown);
        text.push_str(&line(kind, "testbed", &more));
    }
    text
}

fn line(kind: &str, title: &str, message: &str) -> String {
    let message = of_line(message);
    let title = of_line(title).replace(':', "%3A").replace(',', "%2C");
    format!("::{kind} title={title}::{message}\n")
}

/// What would end a line or be taken for an escape.
fn of_line(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

pub(super) fn step_summary(cells: &[Cell<'_>]) -> String {
    let whole: String = cells
        .iter()
        .map(|cell| markdown::render(cell.findings, cell.manifest) + "\n")
        .collect();
    if whole.len() <= LONGEST {
        return whole;
    }
    let brief: String = cells.iter().map(brief).collect();
    shortened(brief, LONGEST)
}

/// Of a matrix: whole, or the comparison without its cells.
pub(super) fn matrix_summary(compared: &Compared<'_>) -> String {
    let whole = markdown::matrix::render(compared);
    if whole.len() <= LONGEST {
        return whole;
    }
    let mut brief = markdown::matrix::comparison(compared);
    brief.push_str("\nThe cells themselves are too long for this place; they are in the matrix directory.\n");
    shortened(brief, LONGEST)
}

/// What does not hold, and no tables.
fn brief(cell: &Cell<'_>) -> String {
    let mut text = format!(
        "# testbed: {}\n\n**{}** (claims that held, diverged, were inconclusive)\n\n\
         The whole report is too long for this place; these are the claims that do not hold.\n\n",
        markdown::escaped(cell.name),
        Totals::of(cell.findings).line()
    );
    if let Some(error) = &cell.findings.error {
        let _ = writeln!(
            text,
            "**The run could not be completed:** {}\n",
            markdown::escaped(error)
        );
    }
    for finding in cell.findings.blocks.iter().flat_map(|block| &block.findings) {
        if finding.verdict != Verdict::Holds {
            text.push_str(&markdown::claim(finding));
            text.push('\n');
        }
    }
    text.push('\n');
    text
}

/// Whole lines of so many bytes at most.
fn shortened(mut text: String, most: usize) -> String {
    const END: &str = "\nCut off here.\n";
    if text.len() <= most {
        return text;
    }
    let fits = text.as_bytes()[..most - END.len()]
        .iter()
        .rposition(|byte| *byte == b'\n');
    text.truncate(fits.map_or(0, |end| end + 1));
    text.push_str(END);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;
    use crate::report::samples::Made;

    #[test]
    fn what_does_not_hold_is_annotated_and_no_text_ends_its_line() {
        let made = Made::default();
        let text = annotations(&[made.cell("a")], &[]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("::error title=testbed::the run could not be completed: "));
        assert!(lines[1].starts_with("::error title=3.b::b holds: 2.00 (outside </script>"));
        assert!(lines[1].contains("%250A") && lines[1].contains("%0A`x`"), "{text}");
        assert!(lines[2].starts_with("::warning title=3.c::"));
        assert_eq!(lines[3], "::notice title=testbed::a: 1 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_title_ends_where_it_should() {
        assert_eq!(line("error", "a:b,c%", "d:e"), "::error title=a%3Ab%2Cc%25::d:e\n");
    }

    #[test]
    fn what_would_not_be_shown_is_counted() {
        let many: Vec<(String, String)> = (0..12).map(|i| (i.to_string(), "x".to_owned())).collect();
        let text = lines("error", &many);
        assert_eq!(text.lines().count(), MOST);
        assert!(
            text.ends_with("::error title=testbed::3 more, see the report\n"),
            "{text}"
        );
        assert_eq!(lines("error", &many[..10]).lines().count(), 10);
    }

    #[test]
    fn a_summary_that_is_too_long_is_brief_and_one_that_still_is_too_long_is_cut_off() {
        let mut made = Made::default();
        let whole = step_summary(&[made.cell("a")]);
        assert!(whole.contains("| row | ms |"));
        let long = "x".repeat(LONGEST);
        made.findings.blocks[0].notes.push(long.clone());
        let brief = step_summary(&[made.cell("a")]);
        assert!(brief.contains("too long") && brief.contains("b holds") && !brief.contains("| row | ms |"));
        made.findings.blocks[0]
            .findings
            .push(Claim::new("3.d", "d").diverged("1", long));
        let cut = step_summary(&[made.cell("a")]);
        assert!(
            cut.len() <= LONGEST && cut.ends_with("\nCut off here.\n"),
            "{}",
            cut.len()
        );
    }
}
