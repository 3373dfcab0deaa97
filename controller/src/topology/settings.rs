//! Settings of a server that a topology may change, and those that testbed makes itself: names, ports, replication
//! and paths are said elsewhere in the file, and a second opinion in `config` would break the lab in silence.

use super::EngineKind;
use super::problem::{Code, Problems, quote};
use super::tree::At;
use std::collections::BTreeMap;

/// Settings of Redis and Valkey that testbed makes, or that would lock it out.
const OURS_CACHE: &[&str] = &[
    "aclfile",
    "bind",
    "cluster-announce-bus-port",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-config-file",
    "cluster-enabled",
    "cluster-port",
    "daemonize",
    "dbfilename",
    "dir",
    "include",
    "logfile",
    "masterauth",
    "masteruser",
    "pidfile",
    "port",
    "primaryauth",
    "primaryuser",
    "protected-mode",
    "rename-command",
    "replica-announce-ip",
    "replica-announce-port",
    "replicaof",
    "requirepass",
    "slave-announce-ip",
    "slave-announce-port",
    "slaveof",
    "supervised",
    "tls-port",
    "unixsocket",
    "user",
];

/// The same for Postgres.
const OURS_POSTGRES: &[&str] = &[
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "listen_addresses",
    "port",
    "ssl",
    "unix_socket_directories",
];

/// Longest value, bytes; it becomes one argument of the server.
const LONGEST: usize = 4096;

/// Reports settings that are not the file's to make.
pub(super) fn check(settings: &[(At<String>, At<String>)], engine: EngineKind, problems: &mut Problems) {
    let ours = if engine.is_cache() { OURS_CACHE } else { OURS_POSTGRES };
    for (key, value) in settings {
        let name = key.value.as_str();
        let lower = name.to_ascii_lowercase();
        if ours.contains(&lower.as_str()) {
            problems
                .add(
                    key.place,
                    Code::BadConfig,
                    format!("setting {} cannot be changed here", quote(name)),
                )
                .hint(instead(&lower));
        } else if !is_setting(name, engine) {
            let form = if engine.is_cache() {
                "lower-case letters, digits, `-` and `.`"
            } else {
                "lower-case letters, digits, `_` and `.`"
            };
            problems
                .add(
                    key.place,
                    Code::BadConfig,
                    format!("{} is no name of a setting", quote(name)),
                )
                .hint(form);
        }
        if value.value.chars().any(char::is_control) || value.value.len() > LONGEST {
            problems
                .add(
                    value.place,
                    Code::BadConfig,
                    format!("the value of {} is no single line of text", quote(name)),
                )
                .hint("it becomes one argument of the server: one line, at most 4096 bytes");
        } else if engine.is_cache() && value.value.starts_with("--") {
            problems
                .add(
                    value.place,
                    Code::BadConfig,
                    format!("the value of {} begins with `--`", quote(name)),
                )
                .hint("the server would take it for another setting");
        }
    }
}

/// Defaults, then the node's own.
pub(super) fn merged(
    defaults: Option<&Vec<(At<String>, At<String>)>>,
    own: &[(At<String>, At<String>)],
) -> BTreeMap<String, String> {
    defaults
        .into_iter()
        .flatten()
        .chain(own)
        .map(|(key, value)| (key.value.clone(), value.value.clone()))
        .collect()
}

fn is_setting(name: &str, engine: EngineKind) -> bool {
    let joint = if engine.is_cache() { '-' } else { '_' };
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == joint || c == '.')
        && name.len() <= 64
}

fn instead(name: &str) -> &'static str {
    match name {
        "replicaof" | "slaveof" => "write `replica-of: NODE` in the node",
        "port" | "bind" | "listen_addresses" => {
            "a node has an address of its own, on the engine's usual port; `publish` makes it reachable from the host"
        }
        "requirepass" | "masterauth" | "primaryauth" | "aclfile" | "user" => {
            "nodes are reachable inside their lab only, and the probes use no password"
        }
        "cluster-enabled" => "write `cluster: NAME` and `slots: 0-16383` in the node",
        _ => "take it away",
    }
}
