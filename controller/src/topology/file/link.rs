//! A link and the mode of the relays, as the file may write them.

use super::{delay, text};
use crate::topology::tree::At;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

const LINK: &str = "^[a-z][a-z0-9]{0,15}[-:][a-z][a-z0-9]{0,15}$";

/// The conditions of a link. What `dc1:dc2` says wins over `dc1-dc2`, condition by condition. `none` takes a condition away.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::topology) struct LinkFile {
    /// ONE WAY, with a unit: 20ms, 1.5ms, 500us. A round trip takes twice as long.
    #[schemars(default, schema_with = "delay")]
    pub(in crate::topology) delay: Option<At<String>>,
    /// Round trip, with a unit; half of it in each direction. Only for `dc1-dc2`.
    #[schemars(default, schema_with = "delay")]
    pub(in crate::topology) rtt: Option<At<String>>,
    /// Variation of the delay from packet to packet: 2ms (evenly, up to so much earlier or later), or a map.
    #[schemars(default, schema_with = "short_or::<JitterFile>")]
    pub(in crate::topology) jitter: Option<Written<JitterFile>>,
    /// Share of the packets that vanish: 1%; or a map.
    #[schemars(default, schema_with = "short_or::<LossFile>")]
    pub(in crate::topology) loss: Option<Written<LossFile>>,
    /// Share of the packets that arrive twice: 0.1%.
    #[schemars(default, schema_with = "text")]
    pub(in crate::topology) duplicate: Option<At<String>>,
    /// Packets that are overtaken: a map, or 1%:by:2ms.
    #[schemars(default, schema_with = "short_or::<ReorderFile>")]
    pub(in crate::topology) reorder: Option<Written<ReorderFile>>,
    /// Share of the packets in which one bit is flipped: 0.01%.
    #[schemars(default, schema_with = "text")]
    pub(in crate::topology) corrupt: Option<At<String>>,
    /// Bits per second: 100mbit, 1.5gbit, unlimited. Without it 2gbit.
    #[schemars(default, schema_with = "text")]
    pub(in crate::topology) rate: Option<At<String>>,
    /// What may wait for its turn at the rate: 64KiB. Without it 8MiB.
    #[schemars(default, schema_with = "text")]
    pub(in crate::topology) queue: Option<At<String>>,
    /// Largest IP packet, bytes: 1400. A larger one is dropped and its sender told.
    #[schemars(default, schema_with = "mtu")]
    pub(in crate::topology) mtu: Option<At<String>>,
    /// Changes that begin when the lab is ready: "at 5s cut, at 8s heal", "flap every 2s".
    #[schemars(default, schema_with = "text")]
    pub(in crate::topology) schedule: Option<At<String>>,
    /// Something was there, but it could not be read: its absence is not a second problem.
    #[schemars(skip)]
    pub(in crate::topology) broken: bool,
}

/// A condition in one word, as on the command line, or as a map.
#[derive(Debug)]
pub(in crate::topology) enum Written<T> {
    /// `normal:1ms`.
    Short(At<String>),
    /// `{ normal: 1ms }`.
    Long(At<T>),
}

/// Variation of the delay: one shape.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::topology) struct JitterFile {
    /// Evenly, up to so much earlier or later.
    #[schemars(default, schema_with = "delay")]
    pub(in crate::topology) uniform: Option<At<String>>,
    /// Normal, with this standard deviation; the delay is never below zero.
    #[schemars(default, schema_with = "delay")]
    pub(in crate::topology) normal: Option<At<String>>,
    /// Pareto, with this standard deviation: a long tail of late packets.
    #[schemars(default, schema_with = "delay")]
    pub(in crate::topology) pareto: Option<At<String>>,
    /// Measured excesses; one of them, each as likely, is added to the delay.
    #[schemars(default, schema_with = "table")]
    pub(in crate::topology) table: Option<At<Vec<At<String>>>>,
    /// Whether a packet with a shorter delay may overtake.
    #[schemars(default, schema_with = "truth")]
    pub(in crate::topology) reorder: bool,
    /// As in [`LinkFile`].
    #[schemars(skip)]
    pub(in crate::topology) broken: bool,
}

/// Packets that vanish.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::topology) struct LossFile {
    /// Share of all packets: 1%.
    #[schemars(required, schema_with = "text")]
    pub(in crate::topology) share: Option<At<String>>,
    /// Mean length of a run of lost packets, in packets; without it each is lost by itself.
    #[schemars(default, schema_with = "burst")]
    pub(in crate::topology) burst: Option<At<String>>,
    /// As in [`LinkFile`].
    #[schemars(skip)]
    pub(in crate::topology) broken: bool,
}

/// Packets that are overtaken.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::topology) struct ReorderFile {
    /// Share of all packets: 1%.
    #[schemars(required, schema_with = "text")]
    pub(in crate::topology) share: Option<At<String>>,
    /// How long such a packet is held back beyond its delay: 2ms.
    #[schemars(required, schema_with = "delay")]
    pub(in crate::topology) by: Option<At<String>>,
    /// As in [`LinkFile`].
    #[schemars(skip)]
    pub(in crate::topology) broken: bool,
}

/// How the relays carry TCP connections.
#[derive(Debug)]
pub(in crate::topology) enum ModeFile {
    /// `packet` or `stream`.
    Short(At<String>),
    /// `{ stream: { ... } }`.
    Stream(StreamFile),
}

/// A relay that terminates TCP connections.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::topology) struct StreamFile {
    /// `pipelined` delays each portion of bytes from its own arrival, as a wire does; `serialising` one behind the other.
    #[schemars(default, schema_with = "order")]
    pub(in crate::topology) order: Option<At<String>>,
    /// TCP_NODELAY of the relay's own sockets; the near leg is that to the node that dialled.
    #[schemars(default, schema_with = "nodelay")]
    pub(in crate::topology) nodelay: Option<At<String>>,
}

/// Keys of a link.
pub(in crate::topology) const LINK_KEYS: &[&str] = &[
    "delay",
    "rtt",
    "jitter",
    "loss",
    "duplicate",
    "reorder",
    "corrupt",
    "rate",
    "queue",
    "mtu",
    "schedule",
];
/// Keys of a jitter.
pub(in crate::topology) const JITTER_KEYS: &[&str] = &["uniform", "normal", "pareto", "table", "reorder"];
/// Keys of a loss.
pub(in crate::topology) const LOSS_KEYS: &[&str] = &["share", "burst"];
/// Keys of a reordering.
pub(in crate::topology) const REORDER_KEYS: &[&str] = &["share", "by"];
/// Keys of the mode.
pub(in crate::topology) const MODE_KEYS: &[&str] = &["stream"];
/// Keys of stream mode.
pub(in crate::topology) const STREAM_KEYS: &[&str] = &["order", "nodelay"];

/// Links by name; `dc1-dc2` has a delay, `dc1:dc2` need not say it again.
pub(super) fn links(generator: &mut SchemaGenerator) -> Schema {
    let link = generator.subschema_for::<LinkFile>();
    json_schema!({
        "type": "object",
        "propertyNames": { "pattern": LINK },
        "patternProperties": {
            "^[^:]*$": { "allOf": [link, { "oneOf": [{ "required": ["delay"] }, { "required": ["rtt"] }] }] },
            ":": { "allOf": [link, { "not": { "required": ["rtt"] } }] },
        },
    })
}

/// `packet`, `stream`, or a map.
pub(super) fn mode(generator: &mut SchemaGenerator) -> Schema {
    let stream = generator.subschema_for::<StreamFile>();
    json_schema!({
        "anyOf": [
            { "type": "string", "enum": ["packet", "stream"] },
            {
                "type": "object",
                "properties": { "stream": { "anyOf": [stream, { "type": "null" }] } },
                "required": ["stream"],
                "additionalProperties": false,
            },
        ],
    })
}

fn short_or<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let long = generator.subschema_for::<T>();
    json_schema!({ "anyOf": [{ "type": "string" }, long] })
}

fn table(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": delay(generator), "minItems": 1, "maxItems": 4096 })
}

fn truth(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "boolean" })
}

fn burst(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["number", "string"], "minimum": 1, "maximum": 1000 })
}

fn mtu(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string"], "minimum": 576, "maximum": 9000 })
}

fn order(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["pipelined", "serialising"] })
}

fn nodelay(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["on", "off", "near-leg", "far-leg"] })
}
