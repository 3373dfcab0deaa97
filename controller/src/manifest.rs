//! What a run was made of: versions, digests, host, engine, servers and their effective configuration. Written when
//! the run begins and again when it ends, so that an interrupted one has it too.
//!
//! Pure values; `store` finds them out. A fact that could not be found out is `None` or absent, never guessed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run, but for what happened in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Id of the run.
    pub run: String,
    /// Name of the run: its topology's, or that of the lab it was made on.
    pub name: String,
    /// The instrument.
    pub instrument: Instrument,
    /// Program and arguments, as they were given.
    pub command_line: Vec<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// Begin, RFC 3339, UTC.
    pub started_utc: String,
    /// End, RFC 3339, UTC (`None`: it has not come to its end).
    pub ended_utc: Option<String>,
    /// Host on which testbed ran.
    pub host: Host,
    /// The Docker engine, and the host it runs on (`None`: none was asked yet).
    pub engine: Option<About>,
    /// Labs in the order in which they became ready; one that was made anew stands here again.
    pub labs: Vec<LabUsed>,
}

/// The measuring programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Instrument {
    /// Version of testbed.
    pub version: String,
    /// SHA-256 of the relay's binary, hex.
    pub relay_sha256: Option<String>,
    /// SHA-256 of the probe's binary, hex.
    pub probe_sha256: Option<String>,
}

/// The host on which testbed ran; the engine can be on another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Kernel release.
    pub kernel: Option<String>,
    /// Model of its first CPU.
    pub cpu_model: Option<String>,
    /// CPUs that are online.
    pub cpus: Option<u32>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
}

/// What an engine says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// Engine version.
    pub version: String,
    /// API version agreed on.
    pub api_version: String,
    /// Kernel of its host.
    pub kernel: String,
    /// Operating system of its host.
    pub os: String,
    /// CPU architecture.
    pub architecture: String,
    /// CPUs of its host.
    pub cpus: u32,
    /// Memory of its host, bytes.
    pub memory_bytes: u64,
    /// cgroup version.
    pub cgroup: String,
    /// Storage driver.
    pub storage: String,
    /// Whether bridged frames pass through netfilter.
    pub bridge_netfilter: bool,
}

/// A lab as a run used it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabUsed {
    /// Its name.
    pub lab: String,
    /// Name of its topology.
    pub topology: String,
    /// SHA-256 of the topology's text, hex.
    pub topology_sha256: String,
    /// Its plan, a file of the run directory.
    pub plan_file: String,
    /// Copy of its topology, a file of the run directory (`None`: a lab that was up already, made from a file of another
    /// day).
    pub topology_file: Option<String>,
    /// Images by reference.
    pub images: BTreeMap<String, ImageUsed>,
    /// Servers.
    pub servers: Vec<ServerUsed>,
}

/// An image as the engine has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageUsed {
    /// The engine's id.
    pub id: String,
    /// Digest in its registry, if it came from one.
    pub digest: Option<String>,
    /// Labels: of an image of ours, its recipe and the exact package versions.
    pub labels: BTreeMap<String, String>,
}

/// A server as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerUsed {
    /// Node.
    pub node: String,
    /// Datacenter.
    pub datacenter: String,
    /// Engine.
    pub engine: String,
    /// Release asked for.
    pub release: String,
    /// Version that the server itself reports (`None`: it did not answer).
    pub version: Option<String>,
    /// Image reference.
    pub image: String,
    /// Effective configuration: all of a cache's, of a database what is not its default.
    pub configuration: BTreeMap<String, String>,
    /// Why the configuration is not here.
    pub configuration_error: Option<String>,
}

impl Manifest {
    /// Releases that ran, each once, e.g. `redis 7.0.15`, in the order of the labs.
    #[must_use]
    pub fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for server in self.labs.iter().flat_map(|lab| &lab.servers) {
            let Some(version) = &server.version else { continue };
            let version = format!("{} {version}", server.engine);
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        versions
    }

    /// What to type for the same run again, quoted as a shell wants it where it has to be. Without `--out`: that
    /// directory is in use now.
    #[must_use]
    pub fn command(&self) -> String {
        let mut words = Vec::new();
        let mut given = self.command_line.iter();
        while let Some(word) = given.next() {
            if word == "--out" {
                given.next();
            } else if !word.starts_with("--out=") {
                words.push(quoted(word));
            }
        }
        words.join(" ")
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_repeated_into_a_new_directory() {
        let manifest = |words: &[&str]| {
            let text = include_str!("../tests/golden/run/manifest.json");
            let mut manifest: Manifest = serde_json::from_str(text).unwrap();
            manifest.command_line = words.iter().map(|&word| word.to_owned()).collect();
            manifest
        };
        for words in [
            ["testbed", "run", "--out", "x", "--only", "7"].as_slice(),
            &["testbed", "run", "--only", "7", "--out=x"],
        ] {
            assert_eq!(manifest(words).command(), "testbed run --only 7");
        }
    }

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        for (word, expected) in [
            ("--only=1,3", "--only=1,3"),
            ("my file.yaml", "'my file.yaml'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
