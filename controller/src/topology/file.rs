//! The file format, version 1, as types: what the reader fills and what the JSON Schema is made from.
//!
//! Values are still text here, each with its place; nothing is checked but the shape. A field's documentation is what
//! an editor shows. The lists of keys are kept equal to the schema by a test.

mod application;
mod link;

pub(super) use application::{APPLICATION_KEYS, ApplicationFile};
pub(super) use link::{
    JITTER_KEYS, JitterFile, LINK_KEYS, LOSS_KEYS, LinkFile, LossFile, MODE_KEYS, ModeFile, REORDER_KEYS, ReorderFile,
    STREAM_KEYS, StreamFile, Written,
};

use super::tree::{At, Place};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::collections::BTreeMap;

/// Pattern of a delay in the schema; looser than the parser, so that an editor never marks what is right.
const DELAY: &str = r"^[0-9]+(\.[0-9]+)? ?[a-zµ]+( ?[0-9]+(\.[0-9]+)? ?[a-zµ]+)*$";
const DATACENTER: &str = "^[a-z][a-z0-9]{0,15}$";
const SLOTS: &str = "^ *[0-9]+(-[0-9]+)?( *, *[0-9]+(-[0-9]+)?)* *$";
const NODE: &str = "^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$";

/// A topology: datacenters, the links between them, and the servers in them. Keys that begin with `x-` are ignored; they hold anchors.
#[derive(Debug, JsonSchema)]
#[schemars(
    title = "testbed topology",
    rename_all = "kebab-case",
    extend("additionalProperties" = false, "patternProperties" = { "^x-": {} })
)]
pub(super) struct File {
    /// Version of this format.
    #[schemars(required, schema_with = "version")]
    pub(super) version: Option<At<String>>,
    /// Name of the lab; without it the name of the file.
    #[schemars(default, schema_with = "node_name")]
    pub(super) name: Option<At<String>>,
    /// Datacenters by name; a name has no `-` and no `:`.
    #[schemars(schema_with = "datacenters")]
    pub(super) datacenters: Vec<(At<String>, DatacenterFile)>,
    /// Links by the two datacenters that they join, one for every two: `dc1-dc2` is both directions, `dc1:dc2` the one from dc1 to dc2.
    #[schemars(default, schema_with = "link::links")]
    pub(super) links: Vec<(At<String>, LinkFile)>,
    /// `links` is there and no map: its absence is not a second problem.
    #[schemars(skip)]
    pub(super) links_broken: bool,
    /// How the relays carry TCP connections: `packet` (every packet is delayed, and nothing else is touched; the usual), or
    /// `stream` (connections are terminated and their bytes delayed).
    #[schemars(default, schema_with = "link::mode")]
    pub(super) mode: Option<ModeFile>,
    /// Seed of everything random in the relays; without it 1. The same seed, the same chances.
    #[schemars(default, schema_with = "seed")]
    pub(super) seed: Option<At<String>>,
    /// What holds for every node that does not say otherwise.
    #[schemars(default)]
    pub(super) defaults: DefaultsFile,
    /// Servers by name.
    #[schemars(default, schema_with = "nodes")]
    pub(super) nodes: Vec<(At<String>, NodeFile)>,
    /// Containers of your own by name, beside the servers; no name is that of a node.
    #[schemars(default, schema_with = "application::applications")]
    pub(super) applications: Vec<(At<String>, ApplicationFile)>,
    /// Where `datacenters` stands, or the file begins.
    #[schemars(skip)]
    pub(super) datacenters_place: Place,
}

/// A datacenter. Nothing needs to be said of it.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct DatacenterFile {
    /// Its network, e.g. 10.7.1.0/24; without it one is chosen that nobody uses.
    #[schemars(default, schema_with = "text")]
    pub(super) subnet: Option<At<String>>,
}

/// What holds for every node that does not say otherwise.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct DefaultsFile {
    /// Engine of the nodes that name none.
    #[schemars(default, schema_with = "engine")]
    pub(super) engine: Option<At<String>>,
    /// Release of the nodes with this engine; needs `engine` beside it.
    #[schemars(default, schema_with = "text")]
    pub(super) release: Option<At<String>>,
    /// Settings of the nodes with this engine; needs `engine` beside it.
    #[schemars(default, schema_with = "config")]
    pub(super) config: Vec<(At<String>, At<String>)>,
    /// Something was there, but it could not be read: no engine is not a second problem.
    #[schemars(skip)]
    pub(super) broken: bool,
}

/// A server.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct NodeFile {
    /// What it runs.
    #[schemars(default, schema_with = "engine")]
    pub(super) engine: Option<At<String>>,
    /// The datacenter it stands in.
    #[schemars(required, with = "String")]
    pub(super) datacenter: Option<At<String>>,
    /// What it does; follows from `engine` and `replica-of` and need not be said.
    #[schemars(default, schema_with = "role")]
    pub(super) role: Option<At<String>>,
    /// The primary that it copies.
    #[schemars(default, schema_with = "text")]
    pub(super) replica_of: Option<At<String>>,
    /// The primary that it watches as a Sentinel; it serves no keys then, and its `config` is that of a Sentinel.
    #[schemars(default, schema_with = "text")]
    pub(super) monitors: Option<At<String>>,
    /// The cluster that it is a master of; a replica is in the cluster of the node that it copies.
    #[schemars(default, schema_with = "node_name")]
    pub(super) cluster: Option<At<String>>,
    /// Hash slots of a master of a cluster: 0-5460, or several ranges in quotes, "0-99,200-299". Each slot has one master.
    #[schemars(default, schema_with = "slots")]
    pub(super) slots: Option<At<String>>,
    /// Its own release: a name of `testbed images list`, or ENGINE=IMAGE. Without it the one of `--release`.
    #[schemars(default, schema_with = "text")]
    pub(super) release: Option<At<String>>,
    /// Settings, as the server names them; values are taken as written.
    #[schemars(default, schema_with = "config")]
    pub(super) config: Vec<(At<String>, At<String>)>,
    /// Port of the host that leads to the server: 6380 (on 127.0.0.1) or "0.0.0.0:6380".
    #[schemars(default, schema_with = "publish")]
    pub(super) publish: Option<At<String>>,
    /// Keys whose values could not be read: their absence is not a second problem.
    #[schemars(skip)]
    pub(super) broken: Vec<&'static str>,
}

/// Keys of the file itself, apart from `x-...`.
pub(super) const FILE_KEYS: &[&str] = &[
    "version",
    "name",
    "datacenters",
    "links",
    "mode",
    "seed",
    "defaults",
    "nodes",
    "applications",
];
/// Keys of a datacenter.
pub(super) const DATACENTER_KEYS: &[&str] = &["subnet"];
/// Keys of `defaults`.
pub(super) const DEFAULTS_KEYS: &[&str] = &["engine", "release", "config"];
/// Keys of a node.
pub(super) const NODE_KEYS: &[&str] = &[
    "engine",
    "datacenter",
    "role",
    "replica-of",
    "monitors",
    "cluster",
    "slots",
    "release",
    "config",
    "publish",
];

/// The JSON Schema (draft-07) of the format, as it is committed: indented, with a final line break.
#[must_use]
pub fn schema() -> String {
    let schema = schemars::generate::SchemaSettings::draft07()
        .for_deserialize()
        .into_generator()
        .into_root_schema_for::<File>();
    serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n"
}

fn version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "const": 1 })
}

fn seed(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0, "maximum": u64::MAX })
}

fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

fn delay(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": DELAY })
}

fn node_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": NODE })
}

fn slots(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string"], "pattern": SLOTS, "minimum": 0, "maximum": 16383 })
}

fn engine(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["redis", "valkey", "postgres"] })
}

fn role(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["primary", "replica", "postgres"] })
}

fn config(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
}

fn publish(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string"], "minimum": 1, "maximum": 65535 })
}

fn datacenters(generator: &mut SchemaGenerator) -> Schema {
    let datacenter = generator.subschema_for::<DatacenterFile>();
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "propertyNames": { "pattern": DATACENTER },
        "additionalProperties": { "anyOf": [datacenter, { "type": "null" }] },
    })
}

fn nodes(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<BTreeMap<String, NodeFile>>();
    schema.insert("propertyNames".to_owned(), serde_json::json!({ "pattern": NODE }));
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_reader_and_the_schema_know_the_same_keys() {
        let schema: serde_json::Value = serde_json::from_str(&schema()).expect("the schema is JSON");
        let definitions = &schema["definitions"];
        for (at, keys) in [
            (&schema, FILE_KEYS),
            (&definitions["DatacenterFile"], DATACENTER_KEYS),
            (&definitions["LinkFile"], LINK_KEYS),
            (&definitions["JitterFile"], JITTER_KEYS),
            (&definitions["LossFile"], LOSS_KEYS),
            (&definitions["ReorderFile"], REORDER_KEYS),
            (&definitions["StreamFile"], STREAM_KEYS),
            (&definitions["DefaultsFile"], DEFAULTS_KEYS),
            (&definitions["NodeFile"], NODE_KEYS),
            (&definitions["ApplicationFile"], APPLICATION_KEYS),
        ] {
            let known: BTreeSet<&str> = at["properties"]
                .as_object()
                .expect("a map of keys")
                .keys()
                .map(String::as_str)
                .collect();
            assert_eq!(known, keys.iter().copied().collect());
            assert_eq!(at["additionalProperties"], serde_json::json!(false));
        }
    }
}
