//! Names of everything: newtypes checked at construction, and the Docker object names and labels that derive from
//! them. No other module makes a Docker name or a label key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// Prefix of every label.
pub const LABEL_OWNER: &str = "testbed.owner";
/// Value of [`LABEL_OWNER`] on every object that is ours.
pub const OWNER: &str = "testbed";
/// Label: name of the lab.
pub const LABEL_LAB: &str = "testbed.lab";
/// Label: what an object is for, see [`Kind`].
pub const LABEL_KIND: &str = "testbed.kind";
/// Label: datacenter of a container, or of a network.
pub const LABEL_DATACENTER: &str = "testbed.datacenter";
/// Label: name of a node.
pub const LABEL_NODE: &str = "testbed.node";
/// Label: id of the run that made an object (absent: made by `up`).
pub const LABEL_RUN: &str = "testbed.run";
/// Label: hash of the topology that an object was made from.
pub const LABEL_TOPOLOGY: &str = "testbed.topology";
/// Label on every container of a lab: the lab's whole plan as JSON is on the relays only.
pub const LABEL_PLAN: &str = "testbed.plan";
/// Label: number drawn by the call that made an object, so that a failed call removes its own work and nothing else.
pub const LABEL_RAISE: &str = "testbed.raise";
/// Label: the process that made an object, as JSON, see `controller`.
pub const LABEL_CONTROLLER: &str = "testbed.controller";
/// Label on what lives no longer than its controller; value [`WITH_CONTROLLER`].
pub const LABEL_ENDS: &str = "testbed.ends";
/// Value of [`LABEL_ENDS`].
pub const WITH_CONTROLLER: &str = "with-controller";
/// Label on the container by which `doctor` tries out what a relay needs; no lab has it.
pub const LABEL_TRIAL: &str = "testbed.trial";
/// Label on an image of ours: hash of the recipe it was built from.
pub const LABEL_RECIPE: &str = "testbed.recipe";
/// Label on an image of ours: package -> version, as JSON.
pub const LABEL_PACKAGES: &str = "testbed.packages";
/// Label on what is made on the way to an image: which process makes it.
pub const LABEL_DRAFT: &str = "testbed.draft";
/// Label on an image of ours: name of the release, or of the program of ours that it holds.
pub const LABEL_RELEASE: &str = "testbed.release";

/// A name that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} name `{name}` is not allowed: {rule}")]
pub struct BadName {
    /// What was to be named.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

fn letters(what: &'static str, name: &str, hyphen: bool, longest: usize) -> Result<(), BadName> {
    let rule = if name.is_empty() || name.len() > longest {
        Some("1 to 32 characters (a datacenter: 1 to 16)")
    } else if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        Some("it starts with a lower-case letter")
    } else if name.ends_with('-') {
        Some("it does not end with `-`")
    } else if !name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || (hyphen && c == '-'))
    {
        Some(if hyphen {
            "only lower-case letters, digits and `-`"
        } else {
            "only lower-case letters and digits (`-` and `:` join the datacenters of a link)"
        })
    } else {
        None
    };
    match rule {
        Some(rule) => Err(BadName {
            what,
            name: name.to_owned(),
            rule,
        }),
        None => Ok(()),
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $hyphen:literal, $longest:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The checked name.
            ///
            /// # Errors
            /// The rule that it breaks.
            pub fn new(name: &str) -> Result<Self, BadName> {
                letters($what, name, $hyphen, $longest)?;
                Ok(Self(name.to_owned()))
            }

            /// As text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(name: String) -> Result<Self, BadName> {
                Self::new(&name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadName;
            fn from_str(name: &str) -> Result<Self, BadName> {
                Self::new(name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// Name of a lab: the topology's name, or what `-p` says.
    LabName, "lab", true, 32
);
name_type!(
    /// Name of a datacenter; without `-` and `:`, since a link is called `dc1-dc2` or `dc1:dc2`.
    DatacenterName, "datacenter", false, 16
);
name_type!(
    /// Name of a node, unique in its lab.
    NodeName, "node", true, 32
);
name_type!(
    /// Name of a cluster, unique in its lab.
    ClusterName, "cluster", true, 32
);

/// What a Docker object is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Network of a datacenter.
    Datacenter,
    /// Network between the relays.
    Wan,
    /// Border router.
    Relay,
    /// Measuring client.
    Probe,
    /// A server of the topology.
    Node,
    /// A container of the user's own.
    Application,
    /// State of a node.
    State,
    /// Looks into a node's network for a moment.
    Lookout,
    /// A volume that is the lab's name on the engine: only one controller can make it.
    Name,
}

impl Kind {
    /// As label value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Datacenter => "datacenter",
            Self::Wan => "wan",
            Self::Relay => "relay",
            Self::Probe => "probe",
            Self::Node => "node",
            Self::Application => "application",
            Self::State => "state",
            Self::Lookout => "lookout",
            Self::Name => "name",
        }
    }

    /// From a label value.
    #[must_use]
    pub fn from_label(text: &str) -> Option<Self> {
        [
            Self::Datacenter,
            Self::Wan,
            Self::Relay,
            Self::Probe,
            Self::Node,
            Self::Application,
            Self::State,
            Self::Lookout,
            Self::Name,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == text)
    }
}

/// What a lab calls one of its containers, from its labels: a node's name, `relay.dc1` or `probe.dc1`.
#[must_use]
pub fn spoken(labels: &BTreeMap<String, String>) -> Option<String> {
    match Kind::from_label(labels.get(LABEL_KIND)?)? {
        Kind::Node | Kind::Application => labels.get(LABEL_NODE).cloned(),
        kind @ (Kind::Relay | Kind::Probe) => Some(format!("{}.{}", kind.as_str(), labels.get(LABEL_DATACENTER)?)),
        Kind::Datacenter | Kind::Wan | Kind::State | Kind::Lookout | Kind::Name => None,
    }
}

/// Docker name of a node's container.
#[must_use]
pub fn node_container(lab: &LabName, node: &NodeName) -> String {
    format!("tb-{lab}-{node}")
}

/// Docker name of a datacenter's relay. A node name cannot contain `.`, so it never collides.
#[must_use]
pub fn relay_container(lab: &LabName, datacenter: &DatacenterName) -> String {
    format!("tb-{lab}-relay.{datacenter}")
}

/// Docker name of a datacenter's probe.
#[must_use]
pub fn probe_container(lab: &LabName, datacenter: &DatacenterName) -> String {
    format!("tb-{lab}-probe.{datacenter}")
}

/// Docker name of a container that looks into a node's network; `unique` keeps two that look at once apart.
#[must_use]
pub fn lookout_container(lab: &LabName, node: &NodeName, unique: u32) -> String {
    format!("tb-{lab}-{node}.lookout-{unique:08x}")
}

/// Docker name of a datacenter's network.
#[must_use]
pub fn datacenter_network(lab: &LabName, datacenter: &DatacenterName) -> String {
    format!("tb-{lab}.{datacenter}")
}

/// Docker name of the network between the relays.
#[must_use]
pub fn wan_network(lab: &LabName) -> String {
    format!("tb-{lab}.-wan")
}

/// Docker name of the volume that only one controller can make for a lab. A node's volume has no `.` in its name.
#[must_use]
pub fn name_volume(lab: &LabName) -> String {
    format!("tb-{lab}.-name")
}

/// Name of the bridge interface of a network: an interface has at most 15 characters, a Docker name has more.
#[must_use]
pub fn bridge(network: &str) -> String {
    let digest = Sha256::digest(network.as_bytes());
    format!(
        "tb{:02x}{:02x}{:02x}{:02x}{:02x}",
        digest[0], digest[1], digest[2], digest[3], digest[4]
    )
}

/// Name of a probe in /etc/hosts.
#[must_use]
pub fn probe_host(datacenter: &DatacenterName) -> String {
    format!("probe.{datacenter}")
}

/// Docker name of the volume with a node's state.
#[must_use]
pub fn state_volume(lab: &LabName, node: &NodeName) -> String {
    format!("tb-{lab}-{node}-state")
}

/// Image reference of a release, however its image was had. `tag` is the release's name without the engine.
#[must_use]
pub fn release_image(engine: &str, tag: &str) -> String {
    format!("testbed/{engine}:{tag}")
}

/// Image reference of a server that the user built, by the digest of what the image holds. Whether its servers start with
/// settings of the image's own is part of the name, so that the image alone is enough to run it again.
#[must_use]
pub fn build_image(engine: &str, digest: &str, has_settings: bool) -> String {
    let settings = if has_settings { BUILD_WITH_SETTINGS } else { "" };
    format!(
        "testbed/{engine}:build-{}{settings}",
        digest.get(..12).unwrap_or(digest)
    )
}

/// Whether an image is a server that the user built.
#[must_use]
pub fn is_build(image: &str) -> bool {
    image.starts_with("testbed/") && image.contains(":build-")
}

/// Whether servers of this image start with settings of its own.
#[must_use]
pub fn has_settings(image: &str) -> bool {
    is_build(image) && image.ends_with(BUILD_WITH_SETTINGS)
}

/// End of the name of an image with settings of its own.
const BUILD_WITH_SETTINGS: &str = "-settings";

/// Image reference of a program of ours, by the digest of its file.
#[must_use]
pub fn program_image(program: &str, digest: &str) -> String {
    format!("tb/{program}:{}", digest.get(..12).unwrap_or(digest))
}

/// Reference under which an exported file names one of our own programs, whichever build of this version it is.
#[must_use]
pub fn program_of_version(program: &str, version: &str) -> String {
    format!("tb/{program}:{version}")
}

/// Image reference, container name and volume name for what is made on the way to an image; `unique` keeps two makers
/// apart.
#[must_use]
pub fn image_draft(unique: u64) -> (String, String, String) {
    (
        format!("tb/draft:{unique:016x}"),
        format!("tb-draft-{unique:016x}"),
        format!("tb-draft-{unique:016x}-state"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datacenter_has_no_hyphen_and_no_colon() {
        assert!(DatacenterName::new("dc1").is_ok());
        for bad in ["dc-1", "dc:1", "", "1dc", "Dc1", "a23456789012345678"] {
            assert!(DatacenterName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_node_may_have_hyphens_inside() {
        assert!(NodeName::new("redis-near").is_ok());
        for bad in ["-a", "a-", "a.b", "a b", "a/b"] {
            assert!(NodeName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_kind_survives_its_label() {
        for kind in [
            Kind::Datacenter,
            Kind::Wan,
            Kind::Relay,
            Kind::Probe,
            Kind::Node,
            Kind::State,
            Kind::Lookout,
            Kind::Name,
        ] {
            assert_eq!(Kind::from_label(kind.as_str()), Some(kind));
        }
    }
}
