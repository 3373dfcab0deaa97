//! A plan as text for people: every Docker object, with address and image, and what the host will see of it.

use super::{ContainerSpec, Plan, PlannedNode};
use crate::conditions::{mode_text, schedule_text, shown};
use crate::names::Kind;
use crate::topology::Role;
use comfy_table::{ContentArrangement, Table, presets};
use std::fmt::Write;
use wire::Path;

/// The plan as tables, without colour. Lines are as long as their content.
#[must_use]
pub fn table(plan: &Plan) -> String {
    let mut out = format!(
        "lab {}: {} networks, {} volumes, {} containers (topology sha256 {})\n",
        plan.lab,
        plan.networks.len(),
        plan.volumes.len(),
        plan.containers.len(),
        plan.topology_hash.get(..12).unwrap_or(&plan.topology_hash)
    );
    if let Some(path @ Path::Stream(_)) = plan.path() {
        writeln!(out, "relays: {}", mode_text(path)).expect("a string can be written");
    }
    section(
        &mut out,
        ["NETWORK", "SUBNET", "DEFAULT ROUTE", "HOST", "BRIDGE"],
        plan.networks.iter().map(|network| {
            [
                network.name.clone(),
                network.subnet.to_string(),
                // On the WAN there is none: relays route by table.
                if network.kind == Kind::Wan {
                    "-".to_owned()
                } else {
                    network.gateway.to_string()
                },
                network
                    .host_address
                    .map_or_else(|| "no address".to_owned(), |address| address.to_string()),
                network.bridge.clone(),
            ]
        }),
    );
    section(
        &mut out,
        ["CONTAINER", "ROLE", "ADDRESS", "RELEASE", "IMAGE"],
        plan.containers.iter().map(|container| {
            let node = plan.nodes.iter().find(|node| node.container == container.name);
            [
                container.name.clone(),
                role(container, plan),
                addresses(container),
                node.map_or_else(|| "-".to_owned(), |node| node.release.clone()),
                container.image.clone(),
            ]
        }),
    );
    clusters(&mut out, plan);
    section(
        &mut out,
        ["VOLUME", "OF", "PATH"],
        plan.containers.iter().flat_map(|container| {
            container
                .volumes
                .iter()
                .map(|(volume, path)| [volume.clone(), container.name.clone(), path.clone()])
        }),
    );
    mounts(&mut out, plan);
    section(
        &mut out,
        ["LINK", "CONDITIONS ONE WAY", "SCHEDULE"],
        plan.links.iter().map(|link| {
            let schedule = link.schedule.as_ref();
            [
                format!("{}:{}", link.from, link.to),
                shown(&link.conditions),
                schedule.map_or_else(|| "-".to_owned(), |schedule| schedule_text(schedule, &link.conditions)),
            ]
        }),
    );
    section(
        &mut out,
        ["PUBLISHED", "LEADS TO"],
        plan.containers.iter().flat_map(|container| {
            container.publish.iter().map(|(port, (host, host_port))| {
                [format!("{host}:{host_port}"), format!("{} port {port}", container.name)]
            })
        }),
    );
    out
}

fn section<const N: usize>(out: &mut String, titles: [&str; N], rows: impl Iterator<Item = [String; N]>) {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(titles);
    for row in rows {
        table.add_row(row);
    }
    if table.row_iter().next().is_none() {
        return;
    }
    out.push('\n');
    for line in table.to_string().lines() {
        // The columns are padded on both sides; the text begins at the margin and ends with its last word.
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        writeln!(out, "{line}").expect("a string can be written");
    }
}

fn mounts(out: &mut String, plan: &Plan) {
    section(
        out,
        ["OF THE HOST, READ-ONLY", "IN", "PATH"],
        plan.containers.iter().flat_map(|container| {
            let mounts = container.mounts.iter();
            mounts.map(|(path, source)| [source.clone(), container.name.clone(), path.clone()])
        }),
    );
}

fn clusters(out: &mut String, plan: &Plan) {
    section(
        out,
        ["CLUSTER", "NODE", "DATACENTER", "SLOTS", "SETTINGS"],
        plan.clusters().into_iter().flat_map(|cluster| {
            plan.members(cluster).map(move |node| {
                [
                    cluster.to_string(),
                    node.name.to_string(),
                    node.datacenter.to_string(),
                    slots(node),
                    cluster_settings(node, plan),
                ]
            })
        }),
    );
}

/// Slots of a master, or whose a replica stands for.
fn slots(node: &PlannedNode) -> String {
    match (&node.role, &node.cluster) {
        (Role::ReplicaOf(master), _) => format!("those of {master}"),
        (_, Some(place)) => place.slots.to_string(),
        (_, None) => "-".to_owned(),
    }
}

/// What decides when a node is given up and who takes its place: the `cluster-...` settings of its command line that say
/// neither who it is nor that it is in a cluster.
fn cluster_settings(node: &PlannedNode, plan: &Plan) -> String {
    const OURS: [&str; 3] = ["enabled", "config-file", "announce-ip"];
    let container = plan
        .containers
        .iter()
        .find(|container| container.name == node.container);
    let command = container.map_or(&[][..], |container| container.command.as_slice());
    let settings = command.windows(2).filter_map(|words| {
        let name = words[0].strip_prefix("--cluster-")?;
        (!OURS.contains(&name)).then(|| format!("{name} {}", words[1]))
    });
    settings.collect::<Vec<_>>().join(", ")
}

fn role(container: &ContainerSpec, plan: &Plan) -> String {
    let node = plan.nodes.iter().find(|node| node.container == container.name);
    match node.map(|node| &node.role) {
        None => container.kind.as_str().to_owned(),
        Some(Role::Primary) => "primary".to_owned(),
        Some(Role::ReplicaOf(primary)) => format!("replica of {primary}"),
        Some(Role::Postgres) => "postgres".to_owned(),
        Some(Role::SentinelOf(primary)) => format!("sentinel of {primary}"),
    }
}

fn addresses(container: &ContainerSpec) -> String {
    let addresses: Vec<String> = container
        .endpoints
        .iter()
        .map(|(_, address)| address.to_string())
        .collect();
    addresses.join(", ")
}
