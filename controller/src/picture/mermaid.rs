//! A picture for Mermaid, which code hosts draw inside Markdown: a subgraph per datacenter with its relay, links between
//! relays.

use super::{Passage, Picture};
use std::fmt::Write as _;

/// Draws.
#[must_use]
pub fn mermaid(picture: &Picture) -> String {
    let mut drawn = "flowchart LR\n".to_owned();
    // Writing to a text cannot fail.
    for (i, datacenter) in picture.datacenters.iter().enumerate() {
        let _ = writeln!(drawn, "  subgraph d{i} [{}]", quoted(&datacenter.name));
        let _ = writeln!(drawn, "    r{i}([\"relay\"])");
        for (j, node) in datacenter.nodes.iter().enumerate() {
            let mut lines = vec![node.name.clone(), node.what.clone()];
            lines.extend(node.slots_told());
            lines.extend(node.trouble.clone());
            let _ = writeln!(drawn, "    n{i}_{j}[{}]", quoted(&lines.join("\n")));
        }
        drawn.push_str("  end\n");
    }
    for edge in picture.edges() {
        let [(i, j), (k, l)] = [edge.from, edge.to];
        let _ = writeln!(drawn, "  n{i}_{j} --> n{k}_{l}");
    }
    let place = |name: &str| {
        picture
            .datacenters
            .iter()
            .position(|datacenter| datacenter.name == name)
    };
    for link in &picture.links {
        let (Some(from), Some(to)) = (place(&link.from), place(&link.to)) else {
            continue;
        };
        let arrow = match link.state {
            Passage::Open => "==>",
            Passage::Cut(_) => "--x",
            Passage::Frozen => "-.->",
            // What passes still does: the label says what does not.
            Passage::CutPorts(_) => "==>",
        };
        let state = link.state.told().map_or_else(String::new, |state| format!("\n{state}"));
        let label = quoted(&format!("{}{state}", link.conditions));
        let _ = writeln!(drawn, "  r{from} {arrow}|{label}| r{to}");
    }
    drawn
}

fn quoted(text: &str) -> String {
    let escaped = text
        .replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!("\"{}\"", escaped.replace('\n', "<br/>"))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{cluster, two};
    use super::*;

    #[test]
    fn subgraphs_replication_and_links_are_there() {
        let drawn = mermaid(&two());
        for line in [
            "  subgraph d0 [\"dc1\"]\n    r0([\"relay\"])\n",
            "    n1_0[\"redis-far<br/>redis 7.0.15 replica<br/>paused\"]\n",
            "  n0_0 --> n0_1\n  n0_0 --> n1_0\n",
            "  r0 --x|\"delay=20ms<br/>cut (drop)\"| r1\n  r1 ==>|\"delay=20ms jitter=2ms loss=1%\"| r0\n",
        ] {
            assert!(drawn.contains(line), "{line}\n{drawn}");
        }
    }

    #[test]
    fn a_master_has_its_slots() {
        let drawn = mermaid(&cluster());
        assert!(
            drawn.contains("n0_0[\"a<br/>redis primary<br/>slots 0-8191\"]"),
            "{drawn}"
        );
    }

    #[test]
    fn what_would_end_a_label_is_escaped() {
        assert_eq!(quoted("a\"<b>&\nc"), "\"a&quot;&lt;b&gt;&amp;<br/>c\"");
    }
}
