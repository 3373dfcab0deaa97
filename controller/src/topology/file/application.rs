//! An application of the file, as it is written: a container of the user's own.

use crate::topology::tree::At;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A container of your own that stands in a datacenter beside the servers: any image. It has no capability and no
/// writable file system but what `tmpfs` names, and reaches the lab and nothing else.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::topology) struct ApplicationFile {
    /// The datacenter it stands in.
    #[schemars(required, with = "String")]
    pub(in crate::topology) datacenter: Option<At<String>>,
    /// Its image, as `docker pull` takes it; pulled if the engine does not have it.
    #[schemars(required, with = "String")]
    pub(in crate::topology) image: Option<At<String>>,
    /// Program and first arguments instead of the image's own.
    #[schemars(default, schema_with = "words")]
    pub(in crate::topology) entrypoint: Vec<At<String>>,
    /// Arguments instead of the image's own.
    #[schemars(default, schema_with = "words")]
    pub(in crate::topology) command: Vec<At<String>>,
    /// Environment. No place for secrets: it is in the plan, and in `docker inspect`.
    #[schemars(default, schema_with = "super::config")]
    pub(in crate::topology) environment: Vec<(At<String>, At<String>)>,
    /// User, or "uid:gid"; without it the image's.
    #[schemars(default, schema_with = "user")]
    pub(in crate::topology) user: Option<At<String>>,
    /// Files and folders below the folder of this file, read-only: `./conf:/etc/app`.
    #[schemars(default, schema_with = "mounts")]
    pub(in crate::topology) mounts: Vec<At<String>>,
    /// Folders in which it can write, empty at each start, in memory: `/tmp`.
    #[schemars(default, schema_with = "folders")]
    pub(in crate::topology) tmpfs: Vec<At<String>>,
    /// TCP port on which it listens when it is ready; without it, it is ready when it runs.
    #[schemars(default, schema_with = "port")]
    pub(in crate::topology) ready: Option<At<String>>,
    /// Keys whose values could not be read: their absence is not a second problem.
    #[schemars(skip)]
    pub(in crate::topology) broken: Vec<&'static str>,
}

/// Keys of an application.
pub(in crate::topology) const APPLICATION_KEYS: &[&str] = &[
    "datacenter",
    "image",
    "entrypoint",
    "command",
    "environment",
    "user",
    "mounts",
    "tmpfs",
    "ready",
];

/// Applications by name.
pub(super) fn applications(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<std::collections::BTreeMap<String, ApplicationFile>>();
    schema.insert(
        "propertyNames".to_owned(),
        serde_json::json!({ "pattern": super::NODE }),
    );
    schema
}

fn words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": ["string", "number", "boolean"] } })
}

fn user(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "integer"] })
}

fn mounts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "pattern": r"^\./[^:]+:/[^:]+$" } })
}

fn folders(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "pattern": "^/" } })
}

fn port(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1, "maximum": 65535 })
}
