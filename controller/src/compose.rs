//! A plan as a file for `docker compose` (v2) or docker-compose (from 1.28): the same lab without a controller.
//!
//! Pure: Plan -> text. Everything that a container of the plan is told stands in the file; what the controller does while a lab
//! is raised is done by services that run once: a probe that puts a Sentinel's first configuration on its volume, and one that
//! brings the nodes of a cluster together. Left out is what nobody would use: the measuring probes, and testbed's labels, so
//! that no verb of testbed takes such a lab for one of its own.

use crate::conditions::{mode_text, schedule_text, shown};
use crate::names::{ClusterName, Kind};
use crate::plan::{ContainerSpec, NetworkSpec, Plan, PlannedNode};
use std::fmt::Write;
use std::net::SocketAddrV4;
use wire::{AWAKE_DEVICE, FirstFile, FirstSeat, OnceOrder};

mod yaml;

use yaml::{list, map, quote};

/// Limit of the forming of a cluster, nanoseconds: far above what thirty nodes need on a busy machine.
const FORM_NS: u64 = 120_000_000_000;
/// Memory of a service that runs once.
const ONCE_BYTES: u64 = 64 << 20;
/// What all containers share, see `docker/bodies.rs`.
const CONFINED: &str = "x-confined: &confined
  cap_drop: [ALL]
  security_opt: [no-new-privileges]
  read_only: true
  dns_search: [.]
  dns_opt: ['timeout:1', 'attempts:1']
  logging: { driver: json-file, options: { max-size: 1m, max-file: '2' } }
";

/// The lab as a compose file. `probe` is the image of the probe, `made_by` the arguments of `testbed export compose`.
#[must_use]
pub fn text(plan: &Plan, probe: &str, made_by: &[String]) -> String {
    let mut out = String::new();
    head(&mut out, plan, probe, made_by);
    out += "\n";
    out += CONFINED;
    hosts(&mut out, plan);
    out += "\nservices:\n";
    let services = plan.containers.iter().filter(|spec| spec.kind != Kind::Probe);
    for spec in services {
        container(&mut out, plan, spec);
        if !spec.files.is_empty() {
            put_files(&mut out, plan, spec, probe);
        }
    }
    for cluster in plan.clusters() {
        form_cluster(&mut out, plan, cluster, probe);
    }
    out += "networks:\n";
    for network in &plan.networks {
        self::network(&mut out, plan, network);
    }
    if !plan.volumes.is_empty() {
        out += "\nvolumes:\n";
        for volume in &plan.volumes {
            line(&mut out, 1, &format!("{}:", volume_key(plan, &volume.name)));
        }
    }
    out
}

/// One line of YAML.
fn line(out: &mut String, depth: usize, text: &str) {
    writeln!(out, "{:depth$}{text}", "", depth = depth * 2).expect("a string can be written");
}

/// What a reader has to know before `up`.
fn head(out: &mut String, plan: &Plan, probe: &str, made_by: &[String]) {
    let made_by: Vec<String> = made_by.iter().map(|word| single_line(word)).collect();
    let lab = &plan.lab;
    let images: std::collections::BTreeSet<&str> = plan
        .containers
        .iter()
        .filter(|spec| spec.kind == Kind::Node)
        .map(|spec| spec.image.as_str())
        .collect();
    let images: Vec<&str> = images.into_iter().collect();
    let relay = plan.containers.iter().find(|spec| spec.kind == Kind::Relay);
    let relay = relay.map_or("none", |spec| spec.image.as_str());
    let mut say = |text: &str| line(out, 0, format!("# {text}").trim_end());
    say(&format!(
        "Made by `testbed export compose {}`: do not edit.",
        made_by.join(" ")
    ));
    say("");
    say(&format!(
        "  docker compose -p {lab} -f FILE up -d      (or docker-compose, 1.28 or newer)"
    ));
    say(&format!("  docker compose -p {lab} -f FILE down -v"));
    say("");
    say(&format!(
        "Images: {}; of testbed itself {relay} and {probe}.",
        images.join(", ")
    ));
    say(
        "`testbed export images TOPOLOGY` makes or pulls them under these names. Official images by their own reference:",
    );
    say("`testbed export compose TOPOLOGY --release redis=redis:7.0.15`.");
    say(
        "The addresses are fixed: another lab, or another network of the host, may have them already. `--subnet` takes others.",
    );
    say("Docker 27 does not know one setting of the networks: `TESTBED_GATEWAY_MODE=nat` for that version.");
    say("");
    if let Some(path @ wire::Path::Stream(_)) = plan.path() {
        say(&format!("Relays: {}", mode_text(path)));
    }
    for link in &plan.links {
        say(&format!(
            "Link {}:{} one way: {}",
            link.from,
            link.to,
            shown(&link.conditions)
        ));
        if let Some(schedule) = &link.schedule {
            let schedule = single_line(&schedule_text(schedule, &link.conditions));
            say(&format!(
                "  its schedule is not in this file, it needs a controller: {schedule}"
            ));
        }
    }
}

fn single_line(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

/// Names of the nodes, valid in every datacenter.
fn hosts(out: &mut String, plan: &Plan) {
    if plan.nodes.is_empty() {
        return;
    }
    line(out, 0, "x-hosts: &hosts");
    for node in &plan.nodes {
        line(
            out,
            1,
            &format!("- {}", quote(&format!("{}:{}", node.name, node.address))),
        );
    }
}

/// A relay or a node.
fn container(out: &mut String, plan: &Plan, spec: &ContainerSpec) {
    open(out, &container_key(plan, spec), &spec.image);
    line(out, 2, &format!("entrypoint: {}", list(&spec.entrypoint)));
    if !spec.command.is_empty() {
        line(out, 2, "command:");
        for word in &spec.command {
            line(out, 3, &format!("- {}", quote(word)));
        }
    }
    if !spec.env.is_empty() {
        line(out, 2, &format!("environment: {}", list(&spec.env)));
    }
    if let Some(user) = &spec.user {
        line(out, 2, &format!("user: {}", quote(user)));
    }
    line(out, 2, "networks:");
    for (network, address) in &spec.endpoints {
        let key = network_key(plan, network);
        line(out, 3, &format!("{key}: {{ ipv4_address: {address} }}"));
    }
    // A relay's names are nobody's: it routes by address.
    if spec.kind != Kind::Relay && !spec.extra_hosts.is_empty() {
        line(out, 2, "extra_hosts: *hosts");
    }
    depends(out, plan, spec);
    if !spec.cap_add.is_empty() {
        line(out, 2, &format!("cap_add: {}", list(&spec.cap_add)));
    }
    devices(out, spec);
    if !spec.sysctls.is_empty() {
        line(out, 2, "sysctls:");
        for (key, value) in &spec.sysctls {
            line(out, 3, &format!("{key}: {}", quote(value)));
        }
    }
    if !spec.volumes.is_empty() {
        let mounts = spec.volumes.iter();
        let mounts: Vec<String> = mounts
            .map(|(name, path)| format!("{}:{path}", volume_key(plan, name)))
            .collect();
        line(out, 2, &format!("volumes: {}", list(&mounts)));
    }
    if !spec.tmpfs.is_empty() {
        let mounts = spec.tmpfs.iter();
        let mounts: Vec<String> = mounts.map(|(path, options)| format!("{path}:{options}")).collect();
        line(out, 2, &format!("tmpfs: {}", list(&mounts)));
    }
    if !spec.publish.is_empty() {
        let ports = spec.publish.iter();
        let ports: Vec<String> = ports.map(|(port, (host, at))| format!("{host}:{at}:{port}")).collect();
        line(out, 2, &format!("ports: {}", list(&ports)));
    }
    if spec.open_stdin {
        line(out, 2, "stdin_open: true");
    }
    limits(out, spec.memory_bytes, spec.pids);
}

fn open(out: &mut String, key: &str, image: &str) {
    line(out, 1, &format!("{key}:"));
    line(out, 2, "<<: *confined");
    line(out, 2, &format!("image: {}", quote(image)));
}

fn limits(out: &mut String, memory_bytes: u64, pids: u32) {
    line(out, 2, &format!("mem_limit: {memory_bytes}"));
    line(out, 2, &format!("memswap_limit: {memory_bytes}"));
    line(out, 2, &format!("pids_limit: {pids}"));
    out.push('\n');
}

fn devices(out: &mut String, spec: &ContainerSpec) {
    if spec.devices.is_empty() {
        return;
    }
    line(out, 2, "devices:");
    for device in &spec.devices {
        let mapped = quote(&format!("{device}:{device}"));
        // A compose file cannot ask whether the host has one.
        if device == AWAKE_DEVICE {
            line(out, 3, "# where the host has it; delays are more exact with it");
            line(out, 3, &format!("# - {mapped}"));
        } else {
            line(out, 3, &format!("- {mapped}"));
        }
    }
}

/// A server starts when the relays do, and when its first files are there.
fn depends(out: &mut String, plan: &Plan, spec: &ContainerSpec) {
    if spec.kind == Kind::Relay {
        return;
    }
    line(out, 2, "depends_on:");
    for relay in plan.containers.iter().filter(|spec| spec.kind == Kind::Relay) {
        let key = container_key(plan, relay);
        line(out, 3, &format!("{key}: {{ condition: service_started }}"));
    }
    if !spec.files.is_empty() {
        let key = files_key(plan, spec);
        line(
            out,
            3,
            &format!("{key}: {{ condition: service_completed_successfully }}"),
        );
    }
}

fn files_key(plan: &Plan, spec: &ContainerSpec) -> String {
    format!("files.{}", container_key(plan, spec))
}

/// The service that puts a node's first files on its volumes.
fn put_files(out: &mut String, plan: &Plan, spec: &ContainerSpec, probe: &str) {
    let mut ids = spec.user.as_deref().unwrap_or("0:0").split(':');
    let mut id = || ids.next().and_then(|id| id.parse().ok()).unwrap_or(0);
    let (uid, gid) = (id(), id());
    let files = spec.files.iter();
    let files = files.map(|(path, text)| FirstFile {
        path: path.clone(),
        text: text.clone(),
        uid,
        gid,
    });
    let order = OnceOrder::Put { files: files.collect() };
    open(out, &files_key(plan, spec), probe);
    once(out, &order);
    line(out, 2, "user: '0:0'");
    line(out, 2, "network_mode: none");
    line(out, 2, "cap_add: [CHOWN]");
    let mounts = spec.volumes.iter();
    let mounts: Vec<String> = mounts
        .map(|(name, path)| format!("{}:{path}", volume_key(plan, name)))
        .collect();
    line(out, 2, &format!("volumes: {}", list(&mounts)));
    limits(out, ONCE_BYTES, 16);
}

/// The service that brings the nodes of a cluster together. It sits where the probe of the first node's datacenter would.
fn form_cluster(out: &mut String, plan: &Plan, cluster: &ClusterName, probe: &str) {
    let members: Vec<&PlannedNode> = plan.members(cluster).collect();
    let seats = members.iter().map(|node| FirstSeat {
        node: node.name.to_string(),
        target: SocketAddrV4::new(node.address, node.port()),
        slots: node.slots().ranges().to_vec(),
        master: node.upstream().map(ToString::to_string),
    });
    let order = OnceOrder::Form {
        seats: seats.collect(),
        timeout_ns: FORM_NS,
    };
    let number = plan.clusters().iter().position(|other| *other == cluster).unwrap_or(0);
    let home = members
        .first()
        .and_then(|node| plan.datacenters.iter().find(|dc| dc.name == node.datacenter));
    let Some(home) = home else { return };
    let probes = plan.containers.iter().find(|spec| spec.name == home.probe);
    let Some((network, _)) = probes.and_then(|spec| spec.endpoints.first()) else {
        return;
    };
    open(out, &format!("form.{cluster}"), probe);
    once(out, &order);
    line(out, 2, "user: '65534:65534'");
    line(out, 2, "networks:");
    let key = network_key(plan, network);
    // The addresses between the probe's and the first node's are nobody's.
    let address = std::net::Ipv4Addr::from(u32::from(home.probe_address) + u32::try_from(number).unwrap_or(0).min(6));
    line(out, 3, &format!("{key}: {{ ipv4_address: {address} }}"));
    line(out, 2, "depends_on:");
    for node in members {
        line(out, 3, &format!("{}: {{ condition: service_started }}", node.name));
    }
    limits(out, ONCE_BYTES, 16);
}

fn once(out: &mut String, order: &OnceOrder) {
    let order = serde_json::to_string(order).expect("an order is JSON");
    line(out, 2, "entrypoint: [/probe, once]");
    line(out, 2, "command:");
    line(out, 3, &format!("- {}", quote(&order)));
}

fn network(out: &mut String, plan: &Plan, spec: &NetworkSpec) {
    const BRIDGE: &str = "com.docker.network.bridge";
    line(out, 1, &format!("{}:", network_key(plan, &spec.name)));
    line(out, 2, "driver: bridge");
    line(out, 2, "driver_opts:");
    line(out, 3, &format!("{BRIDGE}.enable_ip_masquerade: 'false'"));
    let gateway = match spec.host_address {
        None => {
            line(out, 3, &format!("{BRIDGE}.inhibit_ipv4: 'true'"));
            // Engines from 28 drop what a relay sends unless they are told not to; older ones but 27 do not read it.
            let mode = "'${TESTBED_GATEWAY_MODE:-nat-unprotected}'";
            line(out, 3, &format!("{BRIDGE}.gateway_mode_ipv4: {mode}"));
            spec.gateway
        }
        Some(host) => host,
    };
    line(out, 2, "ipam:");
    line(out, 3, "config:");
    let config = vec![
        ("subnet".to_owned(), spec.subnet.to_string()),
        ("gateway".to_owned(), gateway.to_string()),
    ];
    if spec.host_address.is_some() {
        let route = map(&[("DefaultGatewayIPv4".to_owned(), spec.gateway.to_string())]);
        line(out, 4, &format!("- aux_addresses: {route}"));
        for (key, value) in config {
            line(out, 5, &format!("{key}: {value}"));
        }
        return;
    }
    line(out, 4, &format!("- {}", map(&config)));
}

/// A network by the datacenter's name; the WAN by a name that no datacenter can have.
fn network_key(plan: &Plan, network: &str) -> String {
    let own = plan.networks.iter().find(|spec| spec.name == network);
    match own.and_then(|spec| spec.labels.get(crate::names::LABEL_DATACENTER)) {
        Some(datacenter) => datacenter.clone(),
        None => "wan.all".to_owned(),
    }
}

fn container_key(plan: &Plan, spec: &ContainerSpec) -> String {
    if let Some(node) = plan.nodes.iter().find(|node| node.container == spec.name) {
        return node.name.to_string();
    }
    let own = plan.datacenters.iter().find(|dc| dc.relay == spec.name);
    own.map_or_else(|| spec.name.clone(), |dc| format!("relay.{}", dc.name))
}

/// A volume by its node's name.
fn volume_key(plan: &Plan, volume: &str) -> String {
    let prefix = format!("tb-{}-", plan.lab);
    volume.strip_prefix(&prefix).unwrap_or(volume).to_owned()
}

#[cfg(test)]
mod tests;
