//! Runs as OpenMetrics text: claims by verdict, trust, times, key numbers. A family per question, its unit at the end of its name;
//! `# EOF` at the end says that nothing was cut off.
//!
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>

use super::Cell;
use crate::claim::Verdict;
use crate::findings::{BlockFindings, Trust, offset_gap};
use crate::history::{BlockNumber, History, Series, What};
use crate::stats::Summary;
use std::collections::{BTreeMap, BTreeSet};

/// What is a stamp and no duration.
const STAMPS: [&str; 2] = ["event", "poll"];

/// Metrics of one name.
struct Family {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    samples: Vec<String>,
}

impl Family {
    fn new(name: &'static str, kind: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind,
            unit,
            help,
            samples: Vec::new(),
        }
    }

    fn add(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        self.samples
            .push(format!("{}{suffix}{{{}}} {value}\n", self.name, labels.join(",")));
    }

    /// One line per state, of which one is 1.
    fn add_state(&mut self, labels: &[(&str, &str)], states: &[&str], state: &str) {
        for known in states {
            let mut labels = labels.to_vec();
            labels.push((self.name, known));
            self.add("", &labels, u8::from(*known == state));
        }
    }

    fn text(&self) -> String {
        if self.samples.is_empty() {
            return String::new();
        }
        let unit = match self.unit {
            "" => String::new(),
            unit => format!("# UNIT {} {unit}\n", self.name),
        };
        let (name, kind, help) = (self.name, self.kind, self.help);
        format!(
            "# TYPE {name} {kind}\n{unit}# HELP {name} {help}\n{}",
            self.samples.concat()
        )
    }
}

pub(super) fn render(cells: &[Cell<'_>]) -> String {
    let mut families = Vec::from(runs(cells));
    families.extend(claims(cells));
    families.extend(operations(cells));
    families.extend(losses(cells));
    let mut text: String = families.iter().map(Family::text).collect();
    text.push_str("# EOF\n");
    text
}

fn runs(cells: &[Cell<'_>]) -> [Family; 4] {
    let mut run = Family::new("testbed_run", "info", "", "What was run, and where.");
    let mut server = Family::new("testbed_server", "info", "", "Servers, as they report themselves.");
    let mut took = Family::new(
        "testbed_run_duration_seconds",
        "gauge",
        "seconds",
        "How long the run took.",
    );
    let mut whole = Family::new(
        "testbed_run_completed",
        "gauge",
        "",
        "Whether the run came to its end, 1 or 0.",
    );
    for cell in cells {
        let manifest = cell.manifest;
        let engine = manifest.engine.as_ref().map_or("", |engine| engine.version.as_str());
        let kernel = manifest.host.kernel.as_deref().unwrap_or_default();
        let labels = [
            ("cell", cell.name),
            ("run", &manifest.run),
            ("name", &manifest.name),
            ("version", &manifest.instrument.version),
            ("started", &manifest.started_utc),
            ("engine", engine),
            ("kernel", kernel),
        ];
        run.add("_info", &labels, 1);
        let mut servers: Vec<_> = manifest.labs.iter().flat_map(|lab| &lab.servers).collect();
        servers.sort_by_key(|server| (&server.node, &server.version, &server.image));
        servers.dedup_by_key(|server| (&server.node, &server.version, &server.image));
        for seen in servers {
            let labels = [
                ("cell", cell.name),
                ("node", &seen.node),
                ("datacenter", &seen.datacenter),
                ("engine", &seen.engine),
                ("version", seen.version.as_deref().unwrap_or_default()),
                ("image", &seen.image),
            ];
            server.add("_info", &labels, 1);
        }
        took.add("", &[("cell", cell.name)], cell.took_s());
        whole.add("", &[("cell", cell.name)], u8::from(cell.findings.error.is_none()));
    }
    [run, server, took, whole]
}

fn claims(cells: &[Cell<'_>]) -> [Family; 4] {
    let mut count = Family::new("testbed_claims", "gauge", "", "Claims of a block, by verdict.");
    let mut each = Family::new("testbed_claim", "stateset", "", "Verdict of a claim.");
    let mut trust = Family::new(
        "testbed_trust",
        "stateset",
        "",
        "Whether a block's numbers can be vouched for.",
    );
    let mut took = Family::new(
        "testbed_block_duration_seconds",
        "gauge",
        "seconds",
        "How long a block took.",
    );
    const VERDICTS: [Verdict; 3] = [Verdict::Holds, Verdict::Diverged, Verdict::Inconclusive];
    let run = |block: &&BlockFindings| block.skipped.is_none();
    for cell in cells {
        for block in cell.findings.blocks.iter().filter(run) {
            let number = block.block.to_string();
            let labels = [("cell", cell.name), ("block", &number)];
            for verdict in VERDICTS {
                let alike = block.findings.iter().filter(|finding| finding.verdict == verdict);
                let [cell, block] = labels;
                count.add("", &[cell, block, ("verdict", verdict.word())], alike.count());
            }
            for finding in &block.findings {
                let [cell, block] = labels;
                let words = VERDICTS.map(Verdict::word);
                each.add_state(
                    &[cell, block, ("claim", &finding.claim)],
                    &words,
                    finding.verdict.word(),
                );
            }
            let state = match block.trust {
                Trust::Sound => "sound",
                Trust::Suspect(_) => "suspect",
                Trust::Void(_) => "void",
            };
            trust.add_state(&labels, &["sound", "suspect", "void"], state);
            if let Some(seconds) = cell.block_took_s(block.block) {
                took.add("", &labels, seconds);
            }
        }
    }
    [count, each, trust, took]
}

/// Timed operations of a row: durations in seconds, and how many failed.
#[derive(Default)]
struct Timed {
    seconds: Vec<f64>,
    failed: u32,
}

fn operations(cells: &[Cell<'_>]) -> [Family; 2] {
    let mut times = Family::new(
        "testbed_operation_seconds",
        "summary",
        "seconds",
        "How long the operations of a row took; they belong to the machine that they were measured on.",
    );
    let mut failed = Family::new(
        "testbed_operation_failures",
        "gauge",
        "",
        "Operations of a row that failed.",
    );
    for cell in cells {
        for block in &cell.findings.blocks {
            for ((row, what, path), timed) in timed(cell.history, block.block) {
                let number = block.block.to_string();
                let labels = [
                    ("cell", cell.name),
                    ("block", &number),
                    ("row", row),
                    ("what", what),
                    ("path", path),
                ];
                failed.add("", &labels, timed.failed);
                let Some(summary) = Summary::of(&timed.seconds) else {
                    continue;
                };
                for (quantile, value) in [("0.5", summary.median), ("0.95", summary.p95)] {
                    let mut labels = labels.to_vec();
                    labels.push(("quantile", quantile));
                    times.add("", &labels, value);
                }
                times.add("_count", &labels, timed.seconds.len());
                times.add("_sum", &labels, timed.seconds.iter().sum::<f64>());
            }
        }
    }
    [times, failed]
}

/// By row, operation and path, of the last time that the block ran.
fn timed(history: &History, block: BlockNumber) -> BTreeMap<(&str, &str, &str), Timed> {
    let began = |what: &What| matches!(what, What::BlockStarted { block: begun, .. } if *begun == block);
    let first = history.events.iter().rposition(|event| began(&event.what));
    let mut rows: BTreeMap<_, Timed> = BTreeMap::new();
    for event in &history.events[first.unwrap_or(0)..] {
        let What::Series(series) = &event.what else { continue };
        if series.block == block && !STAMPS.contains(&series.what.as_str()) {
            let Series { row, what, path, .. } = series;
            let row = rows.entry((row.as_str(), what.as_str(), path.as_str())).or_default();
            row.seconds.extend(series.elapsed_ns().iter().map(|ns| ns / 1e9));
            row.failed = row.failed.saturating_add(series.failed());
        }
    }
    rows
}

/// Acknowledged and lost writes, and what the replica lacked.
fn losses(cells: &[Cell<'_>]) -> [Family; 3] {
    let mut acknowledged = Family::new(
        "testbed_acknowledged_writes",
        "gauge",
        "",
        "Writes of a row that were acknowledged.",
    );
    let mut lost = Family::new(
        "testbed_lost_writes",
        "gauge",
        "",
        "Acknowledged writes of a row that were not found after the promotion; a count of that moment.",
    );
    let mut gap = Family::new(
        "testbed_offset_gap_bytes",
        "gauge",
        "bytes",
        "What the promoted replica lacked of its primary's stream.",
    );
    for cell in cells {
        // A block that ran twice wrote the same rows twice.
        let rows: BTreeSet<(BlockNumber, &str)> = ledgers(cell.history).collect();
        for (block, row) in rows {
            let Some((writes, present)) = cell.history.ledger(block, row) else {
                continue;
            };
            let number = block.to_string();
            let labels = [("cell", cell.name), ("block", &number), ("row", row)];
            let kept = |i: &u32| present.contains(i);
            let numbers: Vec<u32> = writes
                .iter()
                .filter(|write| write.acknowledged_ns.is_some())
                .map(|write| write.i)
                .collect();
            acknowledged.add("", &labels, numbers.len());
            lost.add("", &labels, numbers.iter().filter(|i| !kept(i)).count());
            if let Some(bytes) = offset_gap::gap_bytes(cell.history, block, row) {
                gap.add("", &labels, bytes);
            }
        }
    }
    [acknowledged, lost, gap]
}

fn ledgers(history: &History) -> impl Iterator<Item = (BlockNumber, &str)> {
    history.events.iter().filter_map(|event| match &event.what {
        What::Ledger { block, row, .. } => Some((*block, row.as_str())),
        _ => None,
    })
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::Made;

    #[test]
    fn claims_are_counted_and_each_has_its_state() {
        let made = Made::default();
        let text = render(&[made.cell("a")]);
        for line in [
            "# TYPE testbed_claim stateset",
            "testbed_claims{cell=\"a\",block=\"3\",verdict=\"holds\"} 1",
            "testbed_claim{cell=\"a\",block=\"3\",claim=\"3.b\",testbed_claim=\"diverged\"} 1",
            "testbed_claim{cell=\"a\",block=\"3\",claim=\"3.b\",testbed_claim=\"holds\"} 0",
            "testbed_trust{cell=\"a\",block=\"3\",testbed_trust=\"suspect\"} 1",
            "testbed_block_duration_seconds{cell=\"a\",block=\"3\"} 2.5",
            "testbed_run_completed{cell=\"a\"} 0",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in {text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
        assert!(!text.contains("block=\"7\""), "what was not run has no numbers");
    }

    #[test]
    fn series_of_a_row_are_told_together_and_only_those_of_the_last_time() {
        let made = Made::default();
        let text = render(&[made.cell("a")]);
        let of_row =
            "{cell=\"a\",block=\"3\",row=\"far \\\"only\\\"\\n, 20ms\",what=\"set_wait\",path=\"dc1 probe -> a\"";
        assert!(
            text.contains(&format!("testbed_operation_seconds_count{of_row}}} 5\n")),
            "{text}"
        );
        let median = format!("testbed_operation_seconds{of_row},quantile=\"0.5\"}} 0.042\n");
        assert!(text.contains(&median), "{text}");
    }

    #[test]
    fn no_metric_is_there_twice() {
        let made = Made::default();
        let text = render(&[made.cell("a"), made.cell("b")]);
        let mut names: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.rsplit_once(' ').map_or(line, |(name, _)| name))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), all > 20), (all, true));
    }
}
