//! Blocks 4, 5 and 6: which half of a cluster answers after its halves were parted. Judged per half, on what it said in the
//! last two node timeouts before they met again; how long anything took is shown and never judged.

mod half;
mod parted;
mod told;

use super::Judged;
use super::row::{Rows, table};
use crate::claim::{Claim, Finding};
use crate::history::BlockNumber;
pub use parted::ON_ITS_WAY_NS;
use parted::Parted;

const COLUMNS: [&str; 6] = ["parted by", "half", "cluster_state", "slots", "reads", "writes"];

/// What the columns hold.
const LEGEND: &str = "Asked are all nodes of a half, by the probe of its own datacenter, for keys of every slot range; shown is what they answered in the last \
     two node timeouts before the halves met again. A redirect is not followed.";

/// Rows of these blocks.
pub mod row {
    /// One real cut, the settings as they were.
    pub const CUT: &str = "cut";
    /// The same with `cluster-require-full-coverage no`.
    pub const PARTIAL: &str = "cut, partial coverage";
    /// The same when the replica that would be promoted had long heard nothing from its master, and may have only little.
    pub const STALE: &str = "cut, stale replica";
    /// The nodes of the far half stopped.
    pub const AWAY_STOPPED: &str = "far half stopped";
    /// The nodes of the home half stopped.
    pub const HOME_STOPPED: &str = "home half stopped";
}

/// What a half does once it has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Every slot range is served by one of its nodes.
    Works,
    /// Every node refuses everything: CLUSTERDOWN.
    Down,
    /// Ranges whose master is in it are served, the others redirected to the other half.
    ServesItsOwn,
    /// It is stopped: nothing is known of it.
    Unasked,
}

/// A row and what is claimed of it.
struct Case {
    row: &'static str,
    /// Part of the names of its claims.
    name: &'static str,
    home: Expected,
    away: Expected,
    /// Whether the replica of the far master is promoted in the home half.
    promotion: bool,
    /// Whether it had better be too old for that.
    stale: bool,
    /// Whether it is left out if it was not asked for.
    optional: bool,
}

/// Cases of a block. `home` is the datacenter with most masters, dc1 in the record.
fn cases(block: BlockNumber) -> Vec<Case> {
    use Expected::{Down, ServesItsOwn, Unasked, Works};
    let (home, promotion) = match block {
        5 => (Down, false),
        block => (Works, block == 6),
    };
    let cut = Case {
        row: row::CUT,
        name: "cut",
        home,
        away: Down,
        promotion,
        stale: false,
        optional: false,
    };
    let partial = (block == 5).then_some(Case {
        row: row::PARTIAL,
        name: "partial",
        home: ServesItsOwn,
        away: Down,
        promotion: false,
        stale: false,
        optional: false,
    });
    let stale = (block == 6).then_some(Case {
        row: row::STALE,
        name: "stale",
        home: Down,
        away: Down,
        promotion: false,
        stale: true,
        optional: false,
    });
    let away_stopped = Case {
        row: row::AWAY_STOPPED,
        name: "stop",
        home,
        away: Unasked,
        promotion,
        stale: false,
        optional: true,
    };
    let home_stopped = Case {
        row: row::HOME_STOPPED,
        name: "stop",
        home: Unasked,
        away: Down,
        promotion: false,
        stale: false,
        optional: true,
    };
    [Some(cut), partial, stale, Some(away_stopped), Some(home_stopped)]
        .into_iter()
        .flatten()
        .collect()
}

pub(super) fn judge(rows: &Rows<'_>) -> Judged {
    let mut judged = Judged {
        notes: vec![LEGEND.to_owned()],
        ..Judged::default()
    };
    let mut lines = Vec::new();
    let mut cut = None;
    for case in cases(rows.block) {
        if case.optional && rows.history.placed(rows.block, case.row).is_none() {
            continue;
        }
        let parted = Parted::of(rows, case.row);
        judged.findings.extend(findings(rows.block, &case, &parted));
        if let Ok(parted) = parted {
            lines.extend(told::lines(&parted));
            judged.notes.extend(told::notes(&parted));
            if case.row == row::CUT {
                cut = Some(parted);
            } else if let (true, Some(cut)) = (case.optional, &cut) {
                judged.notes.extend(told::beside(cut, &parted));
            }
        }
    }
    judged.table = table(&COLUMNS, lines);
    judged
}

fn findings(block: BlockNumber, case: &Case, parted: &Result<Parted<'_>, String>) -> Vec<Finding> {
    let claim =
        |name: &str, text: String| Claim::new(format!("{block}.{name}@{}", case.name), format!("{}: {text}", case.row));
    let judged = |claim: Claim, judge: &dyn Fn(&Parted<'_>, Claim) -> Finding| match parted {
        Ok(parted) => judge(parted, claim),
        Err(lack) => claim.incomplete("nothing", lack),
    };
    let mut findings = Vec::new();
    for (name, home, expected) in [("dc1", true, case.home), ("dc2", false, case.away)] {
        let (end, text) = match expected {
            Expected::Unasked => continue,
            Expected::Works => ("works", "serves every slot"),
            Expected::Down => ("down", "answers CLUSTERDOWN to everything"),
            Expected::ServesItsOwn => (
                "serves-its-own",
                "serves the slots of its masters and redirects the others",
            ),
        };
        let half = if home {
            "the half with most masters"
        } else {
            "the other half"
        };
        let claim = claim(&format!("{name}-{end}"), format!("{half} {text}"));
        findings.push(judged(claim, &|parted, claim| parted.half(home).judge(expected, claim)));
    }
    let roles = if case.promotion {
        claim(
            "promoted",
            "the replica of the lost master is promoted, and no other node changes its role".to_owned(),
        )
    } else {
        claim("nobody-promoted", "no node changes its role".to_owned())
    };
    findings.push(judged(roles, &|parted, claim| parted.roles(case.promotion, claim)));
    if case.stale {
        let text = "the replica of the lost master had heard nothing from it for longer than cluster-replica-validity-factor allows";
        findings.push(judged(claim("too-old", text.to_owned()), &|all, claim| {
            all.stale(claim)
        }));
    }
    if case.optional {
        return findings;
    }
    if case.promotion {
        let text = "of the acknowledged writes only those of the master that was replaced are lost".to_owned();
        findings.push(judged(claim("lost-are-the-minoritys", text), &|all, claim| {
            all.lost_elsewhere(claim)
        }));
        let text = "what the master that was replaced acknowledged after the cut is lost".to_owned();
        findings.push(judged(claim("minoritys-are-lost", text), &|all, claim| {
            all.late_ones_lost(claim)
        }));
    } else {
        let text = "no acknowledged write is lost".to_owned();
        findings.push(judged(claim("none-lost", text), &|all, claim| all.none_lost(claim)));
    }
    let text = "once the halves meet again all nodes agree, none failed".to_owned();
    findings.push(judged(claim("all-agree", text), &|all, claim| all.all_agree(claim)));
    findings
}

/// Address of a node without its port.
#[cfg(test)]
pub fn address_of(node: &crate::history::NodePlaced) -> std::net::Ipv4Addr {
    half::host(&node.address).parse().expect("a test's address is one")
}

#[cfg(test)]
mod tests;
