//! A Redis or Valkey server as a lab's readiness asks it: role and upstream from its command line, replication as the links
//! allow, and enough keys for a SET to be seen on a replica.

use super::programs::{version, way};
use super::{Container, World, cluster};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use wire::Reply;

/// Reply of the server in this container to a command.
pub(super) fn reply(world: &mut World, server: &str, command: &[String]) -> Reply {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let Some((verb, arguments)) = words.split_first() else {
        return Reply::Error("ERR empty command".to_owned());
    };
    match (verb.to_ascii_uppercase().as_str(), arguments) {
        ("PING", []) => Reply::Text("PONG".to_owned()),
        ("INFO", ["server"]) => Reply::Text(server_section(world, server)),
        ("INFO", ["replication"]) => Reply::Text(replication_section(world, server)),
        ("CLUSTER", words) => cluster::reply(world, server, words),
        ("ROLE", []) => role(world, server),
        ("WAIT", [_, _]) => Reply::Integer(whole(online_replicas(world, server).len())),
        ("SET", [key, value, ..]) => set(world, server, key, value),
        ("FLUSHALL", []) => flush(world, server),
        ("PUBLISH", [_, _]) => {
            write_stream(world, server);
            Reply::Integer(0)
        }
        ("GET", [key]) => {
            let value = primary_of(world, server).and_then(|primary| primary.keys.get(*key));
            value.map_or(Reply::Nil, |value| Reply::Text(value.clone()))
        }
        (verb, _) => Reply::Error(format!("ERR the fake server knows no {verb}")),
    }
}

/// Address that a server was told to replicate from.
fn upstream(container: &Container) -> Option<Ipv4Addr> {
    if let Some(master) = cluster::master(container) {
        return Some(master);
    }
    let mut words = container.spec.command.iter();
    words.find(|word| *word == "--replicaof")?;
    words.next()?.parse().ok()
}

/// The upstream of a replica, if it runs and the links on the way are open.
fn connected_upstream<'a>(world: &'a World, replica: &Container) -> Option<&'a Container> {
    let primary = world.at(upstream(replica)?)?;
    way(world, replica.datacenter(), primary.datacenter()).map(|_| primary)
}

/// Where a server's keys are: its own, or those of the primary at the end of the chain.
fn primary_of<'a>(world: &'a World, server: &str) -> Option<&'a Container> {
    let mut at = world.container(server)?;
    while upstream(at).is_some() {
        at = connected_upstream(world, at)?;
    }
    Some(at)
}

fn online_replicas<'a>(world: &'a World, server: &str) -> Vec<&'a Container> {
    let replicas = world.containers.values().filter(|container| container.runs());
    replicas
        .filter(|replica| connected_upstream(world, replica).is_some_and(|primary| primary.spec.name == server))
        .collect()
}

fn set(world: &mut World, server: &str, key: &str, value: &str) -> Reply {
    if world.container(server).is_some_and(|own| upstream(own).is_some()) {
        return Reply::Error("READONLY You can't write against a read only replica.".to_owned());
    }
    write_stream(world, server);
    let mut containers = world.containers.values_mut();
    if let Some(own) = containers.find(|container| container.spec.name == server) {
        own.keys.insert(key.to_owned(), value.to_owned());
    }
    Reply::Text("OK".to_owned())
}

fn flush(world: &mut World, server: &str) -> Reply {
    if world.container(server).is_some_and(|own| upstream(own).is_some()) {
        return Reply::Error("READONLY You can't write against a read only replica.".to_owned());
    }
    let mut containers = world.containers.values_mut();
    if let Some(own) = containers.find(|container| container.spec.name == server) {
        own.keys.clear();
    }
    Reply::Text("OK".to_owned())
}

/// Any bytes: offsets of a primary only grow.
fn write_stream(world: &mut World, server: &str) {
    let mut containers = world.containers.values_mut();
    if let Some(own) = containers.find(|container| container.spec.name == server) {
        own.offset += 64;
    }
}

fn server_section(world: &World, server: &str) -> String {
    let version = version(world, server);
    let program = world.container(server).and_then(|own| own.spec.entrypoint.first());
    if program.is_some_and(|program| program.contains("valkey")) {
        // Valkey keeps the old field for clients that compare it.
        return format!("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:{version}\r\n");
    }
    format!("# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n")
}

fn replication_section(world: &World, server: &str) -> String {
    let Some(own) = world.container(server) else {
        return String::new();
    };
    let mut text = "# Replication\r\n".to_owned();
    let offset = primary_of(world, server).map_or(0, |primary| primary.offset);
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        write!(text, "{key}:{value}\r\n").expect("a string can be written");
    };
    match upstream(own) {
        None => line("role", &"master"),
        Some(host) => {
            let up = connected_upstream(world, own).is_some();
            line("role", &"slave");
            line("master_host", &host);
            line("master_port", &6379);
            line("master_link_status", if up { &"up" } else { &"down" });
            line("master_last_io_seconds_ago", if up { &0 } else { &-1 });
            line("master_sync_in_progress", &0);
            line("slave_repl_offset", &offset);
        }
    }
    let replicas = online_replicas(world, server);
    line("connected_slaves", &replicas.len());
    for (number, replica) in replicas.into_iter().enumerate() {
        if let Some(address) = replica.endpoints.values().next() {
            let state = format!("ip={address},port=6379,state=online,offset={offset},lag=0");
            line(&format!("slave{number}"), &state);
        }
    }
    line("master_repl_offset", &offset);
    text
}

fn role(world: &World, server: &str) -> Reply {
    let text = |text: &str| Reply::Text(text.to_owned());
    let offset = primary_of(world, server).map_or(0, |primary| primary.offset);
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    let own = world.container(server);
    match own.and_then(upstream) {
        None => {
            let replicas = online_replicas(world, server).into_iter();
            let addresses = replicas.filter_map(|replica| replica.endpoints.values().next());
            let lines = addresses.map(|address| {
                Reply::Array(vec![
                    text(&address.to_string()),
                    text("6379"),
                    text(&offset.to_string()),
                ])
            });
            Reply::Array(vec![
                text("master"),
                Reply::Integer(offset),
                Reply::Array(lines.collect()),
            ])
        }
        Some(host) => {
            let up = own.is_some_and(|own| connected_upstream(world, own).is_some());
            let state = if up { "connected" } else { "connect" };
            let words = [
                text("slave"),
                text(&host.to_string()),
                Reply::Integer(6379),
                text(state),
            ];
            Reply::Array(words.into_iter().chain([Reply::Integer(offset)]).collect())
        }
    }
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
