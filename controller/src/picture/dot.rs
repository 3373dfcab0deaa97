//! A picture for Graphviz: a cluster per datacenter with its relay, replication as thin arrows, links between relays.

use super::{Passage, Picture};
use std::fmt::Write as _;

/// Draws.
#[must_use]
pub fn dot(picture: &Picture) -> String {
    let mut drawn = format!("digraph {} {{\n", quoted(&picture.title));
    drawn.push_str(
        "  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"monospace\"];\n  edge [fontname=\"monospace\"];\n",
    );
    // Writing to a text cannot fail.
    for (i, datacenter) in picture.datacenters.iter().enumerate() {
        let name = quoted(&datacenter.name);
        let _ = writeln!(drawn, "  subgraph cluster_{i} {{\n    label={name};");
        let _ = writeln!(
            drawn,
            "    {} [label=\"relay\", shape=ellipse];",
            relay(&datacenter.name)
        );
        for node in &datacenter.nodes {
            let trouble = node
                .trouble
                .as_ref()
                .map_or_else(String::new, |trouble| format!("\n{trouble}"));
            let slots = node.slots_told().map_or_else(String::new, |slots| format!("\n{slots}"));
            let label = quoted(&format!("{}\n{}{slots}{trouble}", node.name, node.what));
            let colour = if node.trouble.is_some() { ", color=red" } else { "" };
            let _ = writeln!(drawn, "    {} [label={label}{colour}];", quoted(&node.name));
        }
        drawn.push_str("  }\n");
    }
    for edge in picture.edges() {
        let [from, to] = [edge.from, edge.to].map(|(i, j)| quoted(&picture.datacenters[i].nodes[j].name));
        let _ = writeln!(drawn, "  {from} -> {to};");
    }
    for link in &picture.links {
        let style = match link.state {
            Passage::Open => "style=bold",
            Passage::Cut(_) => "style=dashed, color=red",
            Passage::Frozen => "style=dotted, color=blue",
            Passage::CutPorts(_) => "style=dashed, color=orange",
        };
        let state = link.state.told().map_or_else(String::new, |state| format!("\n{state}"));
        let label = quoted(&format!("{}{state}", link.conditions));
        let _ = writeln!(
            drawn,
            "  {} -> {} [label={label}, {style}];",
            relay(&link.from),
            relay(&link.to)
        );
    }
    drawn.push_str("}\n");
    drawn
}

fn relay(datacenter: &str) -> String {
    // No node can be called so: a name has no point.
    quoted(&format!("relay.{datacenter}"))
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::super::samples::{cluster, four, two};
    use super::*;

    #[test]
    fn clusters_replication_and_links_are_there() {
        let drawn = dot(&two());
        for line in [
            "digraph \"two-dc\" {",
            "label=\"dc1\";",
            "\"redis-far\" [label=\"redis-far\\nredis 7.0.15 replica\\npaused\", color=red];",
            "\"redis-primary\" -> \"redis-far\";",
            "\"relay.dc1\" -> \"relay.dc2\" [label=\"delay=20ms\\ncut (drop)\", style=dashed, color=red];",
            "\"relay.dc2\" -> \"relay.dc1\" [label=\"delay=20ms jitter=2ms loss=1%\", style=bold];",
        ] {
            assert!(drawn.contains(line), "{line}\n{drawn}");
        }
    }

    #[test]
    fn a_master_has_its_slots() {
        let drawn = dot(&cluster());
        assert!(
            drawn.contains("\"a\" [label=\"a\\nredis primary\\nslots 0-8191\"];"),
            "{drawn}"
        );
    }

    #[test]
    fn quotes_are_escaped() {
        assert!(dot(&four()).starts_with("digraph \"four <&\\\"'>\" {"));
    }
}
