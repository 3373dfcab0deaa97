//! Nodes: where they stand, what they run, whom they copy, which ports of the host lead to them.
//!
//! Refuses loops and chains of replicas, replicas of another kind of server, a second primary in a set, ports that
//! clash. Settings are checked in `settings`.

use super::check::declared;
use super::file::{File, NodeFile};
use super::problem::{Code, Problems, nearest, quote};
use super::tree::{At, Place};
use super::{EngineKind, Node, Publish, ReleaseCheck, Role, clusters, sentinels, settings};
use crate::names::{DatacenterName, NodeName};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Names that mean something else: in /etc/hosts, or in `testbed logs`.
const RESERVED: &[&str] = &["localhost", "host", "relay", "probe", "wan"];

/// All nodes that are right, in the order of the file.
pub(super) fn nodes(file: &File, known: ReleaseCheck, problems: &mut Problems) -> Vec<Node> {
    let default_engine = file.defaults.engine.as_ref().and_then(|text| engine(text, problems));
    defaults(file, default_engine, known, problems);
    let engines: BTreeMap<&str, EngineKind> = file
        .nodes
        .iter()
        .filter_map(|(key, node)| {
            let engine = match &node.engine {
                Some(text) => EngineKind::parse(&text.value),
                None => default_engine,
            };
            Some((key.value.as_str(), engine?))
        })
        .collect();
    let memberships = clusters::memberships(file, &engines, problems);
    let mut ports: Vec<(Publish, String)> = Vec::new();
    let mut nodes = Vec::new();
    for (key, node) in &file.nodes {
        let name = name(key, problems);
        let datacenter = datacenter(key, node, file, problems);
        let engine = match &node.engine {
            Some(text) => engine(text, problems),
            None => default_engine.or_else(|| no_engine(key, node, file, problems)),
        };
        let role = engine.and_then(|engine| match &node.monitors {
            Some(monitors) => sentinels::role(key, node, monitors, engine, file, &engines, problems),
            None => role(key, node, engine, file, &engines, problems),
        });
        let publish = publish(key, node, &mut ports, problems);
        if let Some(engine) = engine {
            match &node.monitors {
                Some(monitors) => sentinels::settings(node, monitors, file, problems),
                None => settings::check(&node.config, engine, problems),
            }
            pinned(node.release.as_ref(), engine, known, problems);
        }
        if let (Some(name), Some(datacenter), Some(engine), Some(role)) = (name, datacenter, engine, role) {
            let inherits = default_engine == Some(engine);
            nodes.push(Node {
                name,
                datacenter,
                engine,
                role,
                cluster: memberships.get(key.value.as_str()).cloned(),
                release: release(node, file, inherits),
                // What `defaults` says is said of servers.
                config: settings::merged(
                    (inherits && node.monitors.is_none()).then_some(&file.defaults.config),
                    &node.config,
                ),
                publish,
            });
        }
    }
    loops(file, problems);
    nodes
}

fn defaults(file: &File, engine: Option<EngineKind>, known: ReleaseCheck, problems: &mut Problems) {
    let defaults = &file.defaults;
    if let Some(engine) = engine {
        settings::check(&defaults.config, engine, problems);
        pinned(defaults.release.as_ref(), engine, known, problems);
    } else if defaults.engine.is_none() && !defaults.broken {
        let release = defaults.release.as_ref().map(|release| ("release", release.place));
        let config = defaults.config.first().map(|(key, _)| ("config", key.place));
        for (key, place) in release.into_iter().chain(config) {
            problems
                .add(
                    place,
                    Code::Missing,
                    format!("`{key}` of `defaults` needs `engine` beside it"),
                )
                .hint("it holds for the nodes with that engine");
        }
    }
}

fn pinned(release: Option<&At<String>>, engine: EngineKind, known: ReleaseCheck, problems: &mut Problems) {
    let Some(release) = release else { return };
    if let Err((message, hint)) = known(engine, &release.value) {
        let added = problems.add(release.place, Code::BadRelease, message);
        if let Some(hint) = hint {
            added.hint(hint);
        }
    }
}

fn release(node: &NodeFile, file: &File, inherits: bool) -> Option<String> {
    let own = node.release.as_ref();
    let inherited = file.defaults.release.as_ref().filter(|_| inherits);
    own.or(inherited).map(|release| release.value.clone())
}

/// The name of a node or an application, if it may have it.
pub(super) fn name(key: &At<String>, problems: &mut Problems) -> Option<NodeName> {
    if RESERVED.contains(&key.value.as_str()) {
        problems
            .add(
                key.place,
                Code::BadName,
                format!("a node cannot be called {}", quote(&key.value)),
            )
            .hint("the name already means something in every container; add a word to it");
        return None;
    }
    match NodeName::new(&key.value) {
        Ok(name) => Some(name),
        Err(bad) => {
            problems
                .add(
                    key.place,
                    Code::BadName,
                    format!("{} is no name of a node", quote(&key.value)),
                )
                .hint(bad.rule);
            None
        }
    }
}

fn datacenter(key: &At<String>, node: &NodeFile, file: &File, problems: &mut Problems) -> Option<DatacenterName> {
    let Some(datacenter) = &node.datacenter else {
        if !node.broken.contains(&"datacenter") {
            problems
                .add(
                    key.place,
                    Code::Missing,
                    format!("node {} has no datacenter", quote(&key.value)),
                )
                .hint("write `datacenter: NAME`");
        }
        return None;
    };
    if declared(&datacenter.value, datacenter.place, file, problems) {
        DatacenterName::new(&datacenter.value).ok()
    } else {
        None
    }
}

fn engine(text: &At<String>, problems: &mut Problems) -> Option<EngineKind> {
    let engine = EngineKind::parse(&text.value);
    if engine.is_none() {
        let known = EngineKind::ALL.map(EngineKind::as_str);
        let hint = match (nearest(&text.value, known), text.value.as_str()) {
            (Some(nearest), _) => format!("did you mean `{nearest}`?"),
            (None, "pg" | "postgresql") => "did you mean `postgres`?".to_owned(),
            (None, _) => format!("engines are {}", known.join(", ")),
        };
        problems
            .add(
                text.place,
                Code::BadValue,
                format!("{} is no engine", quote(&text.value)),
            )
            .hint(hint);
    }
    engine
}

fn no_engine(key: &At<String>, node: &NodeFile, file: &File, problems: &mut Problems) -> Option<EngineKind> {
    if !node.broken.contains(&"engine") && file.defaults.engine.is_none() && !file.defaults.broken {
        problems
            .add(
                key.place,
                Code::Missing,
                format!("node {} has no engine", quote(&key.value)),
            )
            .hint("write `engine: redis` (or valkey, postgres) here, or in `defaults` for all nodes");
    }
    None
}

fn role(
    key: &At<String>,
    node: &NodeFile,
    engine: EngineKind,
    file: &File,
    engines: &BTreeMap<&str, EngineKind>,
    problems: &mut Problems,
) -> Option<Role> {
    let said = node.role.as_ref();
    if let Some(role) = said
        && !["primary", "replica", "postgres"].contains(&role.value.as_str())
    {
        let meant = match role.value.as_str() {
            "master" | "leader" | "main" => Some("primary"),
            "slave" | "follower" | "secondary" => Some("replica"),
            other => nearest(other, ["primary", "replica", "postgres"]),
        };
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "roles are primary, replica (with `replica-of`) and postgres".to_owned(),
        };
        problems
            .add(role.place, Code::BadValue, format!("{} is no role", quote(&role.value)))
            .hint(hint);
        return None;
    }
    if let Some(role) = said
        && (role.value == "postgres") != (engine == EngineKind::Postgres)
    {
        problems
            .add(
                role.place,
                Code::BadValue,
                format!(
                    "a node with engine {} has no role {}",
                    engine.as_str(),
                    quote(&role.value)
                ),
            )
            .hint("leave `role` out: it follows from `engine` and `replica-of`");
        return None;
    }
    let Some(primary) = &node.replica_of else {
        if let Some(role) = said.filter(|role| role.value == "replica")
            && !node.broken.contains(&"replica-of")
        {
            problems
                .add(
                    role.place,
                    Code::Missing,
                    format!("replica {} copies nobody", quote(&key.value)),
                )
                .hint("write `replica-of: NODE`");
            return None;
        }
        return Some(if engine.is_cache() {
            Role::Primary
        } else {
            Role::Postgres
        });
    };
    if let Some(role) = said.filter(|role| role.value == "primary") {
        problems
            .add(
                role.place,
                Code::TwoPrimaries,
                format!(
                    "the set of {} has two primaries: {} is one and copies it",
                    quote(&primary.value),
                    quote(&key.value)
                ),
            )
            .hint("a node is a primary or has `replica-of`, not both");
    }
    primary_of(key, primary, engine, file, engines, problems)
}

fn primary_of(
    key: &At<String>,
    primary: &At<String>,
    engine: EngineKind,
    file: &File,
    engines: &BTreeMap<&str, EngineKind>,
    problems: &mut Problems,
) -> Option<Role> {
    if engine == EngineKind::Postgres {
        problems
            .add(
                primary.place,
                Code::ReplicaKind,
                format!(
                    "{} is a Postgres node, and those have no replicas here",
                    quote(&key.value)
                ),
            )
            .hint("take `replica-of` away; replication is for redis and valkey");
        return None;
    }
    let Some((_, target)) = file.nodes.iter().find(|(other, _)| other.value == primary.value) else {
        let known = file.nodes.iter().map(|(other, _)| other.value.as_str());
        let added = problems.add(
            primary.place,
            Code::Absent,
            format!("there is no node {}", quote(&primary.value)),
        );
        if let Some(nearest) = nearest(&primary.value, known.filter(|&known| known != key.value)) {
            added.hint(format!("did you mean `{nearest}`?"));
        }
        return None;
    };
    match engines.get(primary.value.as_str()) {
        Some(other) if *other != engine => {
            problems
                .add(
                    primary.place,
                    Code::ReplicaKind,
                    format!(
                        "{} runs {} and cannot copy {}, which runs {}",
                        quote(&key.value),
                        engine.as_str(),
                        quote(&primary.value),
                        other.as_str()
                    ),
                )
                .hint("a replica runs what its primary runs");
            return None;
        }
        _ => {}
    }
    if target.monitors.is_some() {
        problems
            .add(
                primary.place,
                Code::BadSentinel,
                format!("{} is a Sentinel and has nothing to copy", quote(&primary.value)),
            )
            .hint("name a redis or valkey node without `monitors`");
        return None;
    }
    if let Some(next) = &target.replica_of
        && !in_loop(&primary.value, file)
    {
        problems
            .add(
                primary.place,
                Code::ReplicaChain,
                format!("{} is a replica itself", quote(&primary.value)),
            )
            .hint(format!("name the primary of the set: `replica-of: {}`", next.value));
    }
    NodeName::new(&primary.value).ok().map(Role::ReplicaOf)
}

fn next<'f>(name: &str, file: &'f File) -> Option<&'f str> {
    let (_, node) = file.nodes.iter().find(|(key, _)| key.value == name)?;
    node.replica_of.as_ref().map(|primary| primary.value.as_str())
}

/// The nodes from this one along `replica-of`, until one comes again or there is none.
fn chain<'f>(start: &'f str, file: &'f File) -> (Vec<&'f str>, Option<&'f str>) {
    let mut seen = vec![start];
    let mut at = start;
    while let Some(name) = next(at, file) {
        if seen.contains(&name) {
            return (seen, Some(name));
        }
        seen.push(name);
        at = name;
    }
    (seen, None)
}

fn in_loop(name: &str, file: &File) -> bool {
    chain(name, file).1.is_some()
}

/// Reports each loop of replicas once, at its first node.
fn loops(file: &File, problems: &mut Problems) {
    let mut told: Vec<&str> = Vec::new();
    for (key, node) in &file.nodes {
        let name = key.value.as_str();
        let (seen, Some(again)) = chain(name, file) else {
            continue;
        };
        let circle = &seen[seen.iter().position(|&node| node == again).unwrap_or(0)..];
        if !circle.contains(&name) || circle.iter().any(|node| told.contains(node)) {
            continue;
        }
        told.extend(circle);
        let place = node.replica_of.as_ref().map_or(key.place, |primary| primary.place);
        let message = if circle.len() == 1 {
            format!("{} is a replica of itself", quote(name))
        } else {
            let names: Vec<String> = circle.iter().chain([&again]).map(|name| quote(name)).collect();
            format!("replicas in a circle: {}", names.join(" copies "))
        };
        problems
            .add(place, Code::ReplicaLoop, message)
            .hint("one node of a set has no `replica-of`: its primary");
    }
}

fn publish(
    key: &At<String>,
    node: &NodeFile,
    taken: &mut Vec<(Publish, String)>,
    problems: &mut Problems,
) -> Option<Publish> {
    let text = node.publish.as_ref()?;
    let port = port(text, problems)?;
    let clash = taken.iter().find(|(other, _)| {
        other.port == port.port
            && (other.host == port.host || other.host.is_unspecified() || port.host.is_unspecified())
    });
    if let Some((_, owner)) = clash {
        problems.add(
            text.place,
            Code::BadPublish,
            format!("port {} of the host already leads to {}", port.port, quote(owner)),
        );
        return None;
    }
    taken.push((port, key.value.clone()));
    Some(port)
}

fn port(text: &At<String>, problems: &mut Problems) -> Option<Publish> {
    let mut refuse = |place: Place, hint: &str| {
        problems
            .add(
                place,
                Code::BadPublish,
                format!("{} is no port of the host", quote(&text.value)),
            )
            .hint(hint);
        None
    };
    let (host, port) = match text.value.rsplit_once(':') {
        None => (Ok(Ipv4Addr::LOCALHOST), text.value.as_str()),
        Some((host, _)) if !host.is_empty() && host.chars().all(|c| c.is_ascii_digit()) => {
            return refuse(
                text.place,
                "write only the port of the host: the port of the server is known",
            );
        }
        Some((host, port)) => (host.parse::<Ipv4Addr>(), port),
    };
    let Ok(host) = host else {
        return refuse(
            text.place,
            "write an IPv4 address of the host and a port: \"0.0.0.0:6380\"",
        );
    };
    if host.is_multicast() || host.is_broadcast() {
        return refuse(text.place, "write an address of the host, 127.0.0.1 or 0.0.0.0");
    }
    let digits = !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if port > 0 && digits => Some(Publish { host, port }),
        _ => refuse(text.place, "a port is a whole number from 1 to 65535"),
    }
}
