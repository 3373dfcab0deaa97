//! `graph`: draws a lab that is up as it is now, or a topology file as it would be. The second needs no engine.

use super::link::LinkRow;
use super::ps::{NodeRow, PsDocument, rows, unasked};
use super::{engines, screen, source};
use crate::cli::{Drawn, Format, Global, Graph};
use crate::conditions::shown;
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab;
use crate::picture::{self, Datacenter, Link, Node, Passage, Picture};
use crate::progress::Progress;
use crate::topology::{Role, Topology};
use std::path::Path;

pub(super) async fn run(global: &Global, args: Graph) -> Result<ExitCode, CommandError> {
    if let Some(file) = &args.file {
        let topology = source::read(file, global.format, global.color)?.topology;
        put(global, &args, &of_topology(&topology))?;
        return Ok(ExitCode::Success);
    }
    let engines = engines(global).await?;
    let found = lab::choose(&engines, args.lab.lab.as_ref()).await?;
    let order: Vec<String> = found.plan()?.datacenters.iter().map(|dc| dc.name.to_string()).collect();
    let lab = match lab::attach(&engines, &found).await {
        Ok(lab) => lab,
        Err(error) => {
            // As `ps` does: what is there of half a lab is what the user wants to see.
            put(global, &args, &of_lab(&unasked(&found)?, &order))?;
            return Err(error.into());
        }
    };
    let (nodes, links) = tokio::join!(lab.look(), lab.links());
    let links = links?;
    let seen = PsDocument {
        lab: lab.name().to_string(),
        nodes: rows(&lab, &found, &nodes, &links),
        // The picture draws nodes; who follows whom is in their rows.
        clusters: Vec::new(),
        links: links.iter().map(LinkRow::from).collect(),
    };
    put(global, &args, &of_lab(&seen, &order))?;
    Ok(ExitCode::Success)
}

/// To stdout, or to a file.
fn put(global: &Global, args: &Graph, picture: &Picture) -> Result<(), CommandError> {
    let drawn = match (args.drawn.or_else(|| of_name(args.output.as_deref())), global.format) {
        (None, Format::Json) => document("graph", picture),
        (None | Some(Drawn::Text), _) => picture::text(picture, screen::style(global).width),
        (Some(Drawn::Svg), _) => picture::svg(picture),
        (Some(Drawn::Dot), _) => picture::dot(picture),
        (Some(Drawn::Mermaid), _) => picture::mermaid(picture),
    };
    match args.output.as_deref() {
        None => screen::print(&drawn),
        Some(path) if path == Path::new("-") => screen::print(&drawn),
        Some(path) => {
            std::fs::write(path, drawn).map_err(|error| {
                CommandError::new(ExitCode::Incomplete, format!("write {}: {error}", path.display()))
            })?;
            Progress::new(global.quiet).step(format_args!("{} written", path.display()));
            Ok(())
        }
    }
}

/// What a file's name asks for.
fn of_name(path: Option<&Path>) -> Option<Drawn> {
    match path?.extension()?.to_str()? {
        "svg" => Some(Drawn::Svg),
        "dot" | "gv" => Some(Drawn::Dot),
        "mmd" | "mermaid" => Some(Drawn::Mermaid),
        "txt" => Some(Drawn::Text),
        _ => None,
    }
}

/// A topology: what it says, not what is.
fn of_topology(topology: &Topology) -> Picture {
    let nodes = |name: &str| {
        let own = topology.nodes.iter().filter(|node| node.datacenter.as_str() == name);
        let drawn = own.map(|node| {
            let upstream = match &node.role {
                Role::ReplicaOf(upstream) => Some(upstream.to_string()),
                _ => None,
            };
            let release = node.release.as_deref().unwrap_or(node.engine.as_str());
            let role = match &node.role {
                Role::Primary => "primary",
                Role::ReplicaOf(_) => "replica",
                Role::Postgres => "database",
                Role::SentinelOf(_) => "sentinel",
            };
            let slots = node.cluster.as_ref().map(|place| &place.slots);
            Node {
                name: node.name.to_string(),
                what: format!("{release} {role}"),
                slots: slots.filter(|slots| !slots.is_empty()).map(ToString::to_string),
                upstream,
                trouble: None,
            }
        });
        let applications = topology.applications.iter();
        let applications = applications.filter(|application| application.datacenter.as_str() == name);
        let applications = applications.map(|application| Node {
            name: application.name.to_string(),
            what: format!("{} application", application.image),
            slots: None,
            upstream: None,
            trouble: None,
        });
        drawn.chain(applications).collect()
    };
    Picture {
        title: topology.name.to_string(),
        datacenters: topology
            .datacenters
            .iter()
            .map(|datacenter| Datacenter {
                name: datacenter.name.to_string(),
                nodes: nodes(datacenter.name.as_str()),
            })
            .collect(),
        links: topology
            .links
            .iter()
            .map(|link| Link {
                from: link.from.to_string(),
                to: link.to.to_string(),
                conditions: shown(&link.conditions),
                state: Passage::Open,
            })
            .collect(),
    }
}

/// A lab as it was seen; `order` are its datacenters.
fn of_lab(seen: &PsDocument, order: &[String]) -> Picture {
    let nodes = |name: &str| {
        let own = seen.nodes.iter().filter(|node| node.datacenter == name);
        own.map(of_row).collect()
    };
    Picture {
        title: seen.lab.clone(),
        datacenters: order
            .iter()
            .map(|name| Datacenter {
                name: name.clone(),
                nodes: nodes(name),
            })
            .collect(),
        links: seen
            .links
            .iter()
            .map(|link| Link {
                from: link.from.clone(),
                to: link.to.clone(),
                conditions: shown(&link.conditions),
                state: passage(link),
            })
            .collect(),
    }
}

/// Whether anything passes: what stops most is drawn.
fn passage(link: &LinkRow) -> Passage {
    match (link.cut, &link.cut_ports) {
        (Some(kind), _) => Passage::Cut(kind.to_owned()),
        _ if link.frozen => Passage::Frozen,
        (None, Some(ports)) => Passage::CutPorts(ports.text()),
        (None, None) => Passage::Open,
    }
}

fn of_row(row: &NodeRow) -> Node {
    let words = [row.version.as_deref(), row.role];
    Node {
        name: row.node.clone(),
        what: words.into_iter().flatten().collect::<Vec<_>>().join(" "),
        slots: row.slots.clone(),
        upstream: row.replication.as_ref().map(|replication| replication.upstream.clone()),
        // The cause of a silence is long, and `ps` tells it.
        trouble: (!["ready", "running"].contains(&row.health.as_str()))
            .then(|| row.health.split(':').next().unwrap_or_default().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_how_it_is_drawn() {
        for (name, drawn) in [
            ("lab.svg", Some(Drawn::Svg)),
            ("lab.gv", Some(Drawn::Dot)),
            ("lab.mmd", Some(Drawn::Mermaid)),
            ("lab.png", None),
            ("lab", None),
        ] {
            assert_eq!(of_name(Some(Path::new(name))), drawn, "{name}");
        }
        assert_eq!(of_name(None), None);
    }

    #[test]
    fn a_topology_is_drawn_with_who_follows_whom() {
        let text = "version: 1\nname: t\ndatacenters:\n  dc1:\n  dc2:\nlinks:\n  dc1-dc2: { delay: 5ms }\nnodes:\n  \
                    a: { datacenter: dc1, engine: redis }\n  b: { datacenter: dc2, engine: redis, replica-of: a }\n  \
                    c: { datacenter: dc2, engine: postgres }\n";
        let picture = of_topology(&crate::topology::parse("t", text).unwrap());
        let [one, other] = picture.datacenters.as_slice() else {
            panic!("{picture:?}");
        };
        assert_eq!(
            (one.nodes[0].what.as_str(), one.nodes[0].upstream.as_deref()),
            ("redis primary", None)
        );
        assert_eq!(other.nodes[0].upstream.as_deref(), Some("a"));
        assert_eq!(other.nodes[1].what, "postgres database");
        assert_eq!(picture.links.len(), 2);
        assert_eq!(picture.links[0].conditions, "delay=5ms");
    }

    #[test]
    fn a_cluster_is_drawn_with_the_slots_of_its_masters() {
        let text = include_str!("../../../topologies/cluster-c.yaml");
        let picture = of_topology(&crate::topology::parse("t", text).unwrap());
        let nodes = picture.datacenters.iter().flat_map(|datacenter| &datacenter.nodes);
        let slots: Vec<_> = nodes
            .filter_map(|node| Some((&*node.name, node.slots.as_deref()?)))
            .collect();
        let expected = [
            ("node-1", "0-5460"),
            ("node-2", "5461-10922"),
            ("node-3", "10923-16383"),
        ];
        assert_eq!(slots, expected);
    }
}
