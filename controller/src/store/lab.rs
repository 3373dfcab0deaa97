//! Finds out what the manifest says of a lab: its images as the engine has them, and each server's effective
//! configuration, asked through the probe beside it. What cannot be found out is told in the manifest and stops nothing.

use crate::docker::Images;
use crate::lab::{Lab, NodeSeen};
use crate::manifest::{ImageUsed, LabUsed, ServerUsed};
use crate::plan::{Plan, PlannedNode};
use crate::replication::text_of;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::Reply;

/// How long a server may take to tell its configuration.
const LIMIT: Duration = Duration::from_secs(5);

/// What a cache's configuration may hold that nobody else should read.
const SECRET: [&str; 6] = [
    "masterauth",
    "primaryauth",
    "requirepass",
    "tls-client-key-file-pass",
    "tls-key-file-pass",
    "sentinel-pass",
];

/// What of a database's configuration is not its default, as one JSON object.
const SETTINGS: &str = "select coalesce(json_object_agg(name, current_setting(name)), '{}')::text from pg_settings \
     where source not in ('default', 'override', 'client', 'session')";

/// A lab that is up, for the manifest. `topology` is the name of its topology; the names of the lab's files are left to
/// whoever writes them.
pub async fn lab_used(lab: &Lab, images: &dyn Images, topology: &str) -> LabUsed {
    let seen = lab.look().await;
    let servers = seen.iter().map(|seen| server_used(lab, seen));
    LabUsed {
        lab: lab.name().to_string(),
        topology: topology.to_owned(),
        topology_sha256: lab.plan.topology_hash.clone(),
        plan_file: String::new(),
        topology_file: None,
        images: images_used(&lab.plan, images).await,
        servers: futures_util::future::join_all(servers).await,
    }
}

async fn images_used(plan: &Plan, images: &dyn Images) -> BTreeMap<String, ImageUsed> {
    let references: BTreeSet<&str> = plan
        .containers
        .iter()
        .map(|container| container.image.as_str())
        .collect();
    let mut used = BTreeMap::new();
    for reference in references {
        match images.image(reference).await {
            Ok(Some(seen)) => {
                let image = ImageUsed {
                    id: seen.id,
                    digest: seen.digest,
                    labels: seen.labels,
                };
                used.insert(reference.to_owned(), image);
            }
            Ok(None) => tracing::warn!(image = reference, "the engine does not tell of an image in use"),
            Err(error) => tracing::warn!(image = reference, %error, "an image was not looked at"),
        }
    }
    used
}

async fn server_used(lab: &Lab, seen: &NodeSeen) -> ServerUsed {
    let node = lab.node(&seen.node);
    let container = lab.plan.containers.iter().find(|spec| spec.name == node.container);
    let container = container.expect("every node of a plan has its container there");
    let (reported, configuration) = match &seen.state {
        Ok(state) => (Some(&state.reported), configuration(lab, node).await),
        Err(error) => (None, Err(error.clone())),
    };
    let (configuration, configuration_error) = match configuration {
        Ok(configuration) => (configuration, None),
        Err(error) => (BTreeMap::new(), Some(error)),
    };
    ServerUsed {
        node: node.name.to_string(),
        datacenter: node.datacenter.to_string(),
        engine: reported
            .map_or(node.engine, |reported| reported.engine)
            .as_str()
            .to_owned(),
        release: node.release.clone(),
        version: reported.map(|reported| reported.version.clone()),
        image: container.image.clone(),
        configuration,
        configuration_error,
    }
}

async fn configuration(lab: &Lab, node: &PlannedNode) -> Result<BTreeMap<String, String>, String> {
    let probe = lab.probe(&node.datacenter);
    let target = crate::lab::target(node);
    if node.engine.is_cache() {
        let reply = probe.redis(target, &["CONFIG", "GET", "*"], LIMIT).await;
        of_cache(&reply.map_err(|error| error.to_string())?)
    } else {
        let text = probe.postgres(target, SETTINGS, LIMIT).await;
        of_database(&text.map_err(|error| error.to_string())?)
    }
}

fn of_cache(reply: &Reply) -> Result<BTreeMap<String, String>, String> {
    let Reply::Array(items) = reply else {
        return Err(format!("CONFIG GET answered {}", text_of(reply)));
    };
    let pairs = items.chunks_exact(2).map(|pair| (text_of(&pair[0]), text_of(&pair[1])));
    Ok(pairs
        .map(|(name, value)| {
            let hidden = SECRET.contains(&name.as_str()) && !value.is_empty();
            (name, if hidden { "(hidden)".to_owned() } else { value })
        })
        .collect())
}

fn of_database(text: &str) -> Result<BTreeMap<String, String>, String> {
    serde_json::from_str(text).map_err(|error| format!("pg_settings answered what is no object of texts: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Reply {
        Reply::Text(text.to_owned())
    }

    #[test]
    fn a_caches_configuration_is_pairs_and_its_passwords_stay_in_the_server() {
        let reply = Reply::Array(vec![
            text("maxmemory"),
            text("0"),
            text("requirepass"),
            text("secret"),
            text("masterauth"),
            text(""),
        ]);
        let read = of_cache(&reply).unwrap();
        let pairs: Vec<(&str, &str)> = read
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [("masterauth", ""), ("maxmemory", "0"), ("requirepass", "(hidden)")]
        );
        assert!(of_cache(&Reply::Error("NOPERM".into())).unwrap_err().contains("NOPERM"));
    }

    #[test]
    fn a_databases_configuration_is_one_object() {
        assert_eq!(of_database(r#"{"fsync" : "off"}"#).unwrap()["fsync"], "off");
        assert!(of_database("ERROR").is_err());
    }
}
