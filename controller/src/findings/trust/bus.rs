//! Whether a cut took the bus of a cluster with it: a node that is not missed by the other half was not parted from it, and what
//! the halves then said is no answer to the question.

use super::doubt::Doubt;
use crate::claim::Cause;
use crate::findings::halves::row;
use crate::findings::row::Rows;
use crate::history::{ClusterPlaced, Parting};
use wire::LookRun;

/// What the nodes of both halves thought of each other under a cut.
struct Cut<'a> {
    row: &'a str,
    /// Nodes that were asked.
    nodes: usize,
    /// Node and peer of pairs that did not miss each other.
    heard: Vec<(String, String)>,
}

/// Doubts about the cuts of a block's cluster.
pub fn doubts(rows: &Rows<'_>) -> Vec<Doubt> {
    let doubt = |cut: &Cut<'_>| {
        let (node, peer) = cut.heard.first()?;
        let text = format!(
            "{}: the cluster's bus was not cut: {} nodes went on hearing from the other half, {node} from {peer}",
            cut.row,
            cut.heard.len()
        );
        Some(Doubt::void(Cause::Instrument, text))
    };
    cuts(rows).iter().filter_map(doubt).collect()
}

/// The same, for people.
pub fn told(rows: &Rows<'_>) -> Option<String> {
    let told = |cut: &Cut<'_>| format!("{}: all {} nodes missed the whole other half", cut.row, cut.nodes);
    let cuts = cuts(rows);
    let told: Vec<String> = cuts.iter().filter(|cut| cut.heard.is_empty()).map(told).collect();
    (!told.is_empty()).then(|| format!("bus {}", told.join("; ")))
}

fn cuts<'a>(rows: &Rows<'a>) -> Vec<Cut<'a>> {
    let placed = [row::CUT, row::PARTIAL, row::STALE].map(|row| rows.history.placed(rows.block, row));
    let placed = placed
        .into_iter()
        .flatten()
        .filter(|placed| placed.parting == Parting::Cut);
    placed.filter_map(|placed| cut(rows, placed)).collect()
}

fn cut<'a>(rows: &Rows<'a>, placed: &'a ClusterPlaced) -> Option<Cut<'a>> {
    let joined_ns = u64::try_from(rows.fact(&placed.row, "joined_at_ns")?).ok()?;
    let from_ns = joined_ns.saturating_sub(2 * placed.node_timeout_ms * 1_000_000);
    let mut cut = Cut {
        row: &placed.row,
        nodes: 0,
        heard: Vec::new(),
    };
    for datacenter in [&placed.home, &placed.away] {
        let half = rows.history.half(rows.block, &placed.row, datacenter)?;
        for looks in &half.seen.nodes {
            let runs = looks
                .runs
                .iter()
                .filter(|run| run.to_ns >= from_ns && run.from_ns < joined_ns);
            let runs: Vec<&LookRun> = runs.collect();
            if runs.is_empty() {
                continue;
            }
            cut.nodes += 1;
            let far = placed.nodes.iter().filter(|node| node.datacenter != *datacenter);
            let heard = far.filter(|node| runs.iter().all(|run| hears(run, &node.address)));
            cut.heard
                .extend(heard.map(|node| (looks.node.to_string(), node.node.clone())));
        }
    }
    Some(cut)
}

/// Whether a look shows a peer that is not missed (`fail?` or `fail`). That a bus connection is there says nothing: one
/// that is being dialled counts.
fn hears(run: &LookRun, address: &str) -> bool {
    let peers = run.seen.iter().flat_map(|state| &state.peers);
    let mut peer = peers.filter(|peer| peer.address == address);
    peer.next().is_some_and(|peer| !peer.flags.contains("fail"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::synthetic::{Play, Story};

    fn doubted(play: Play) -> (Vec<Doubt>, Option<String>) {
        let history = play.tell(Story::of(4)).history();
        let rows = Rows {
            history: &history,
            block: 4,
        };
        (doubts(&rows), told(&rows))
    }

    #[test]
    fn halves_that_miss_each_other_were_parted() {
        let (doubts, told) = doubted(Play::record(4, row::CUT, 'A'));
        assert_eq!(doubts, []);
        assert_eq!(
            told.as_deref(),
            Some("bus cut: all 6 nodes missed the whole other half")
        );
    }

    #[test]
    fn a_bus_that_goes_on_makes_the_table_void() {
        let (doubts, told) = doubted(Play::record(4, row::CUT, 'A').bus_left());
        assert_eq!(doubts.len(), 1);
        assert!(doubts[0].text.contains("bus was not cut"), "{doubts:?}");
        assert_eq!(told, None);
    }

    #[test]
    fn of_other_blocks_nothing_is_said() {
        let history = Story::of(7).history();
        let rows = Rows {
            history: &history,
            block: 7,
        };
        assert!(doubts(&rows).is_empty() && told(&rows).is_none());
    }
}
