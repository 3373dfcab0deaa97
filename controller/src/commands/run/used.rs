//! What the manifest says of a lab: images as the engine has them, servers with the configuration that they really run
//! with. What cannot be found out is left out with the reason, and never stops a run.

use crate::docker::{Docker, Images};
use crate::lab::Lab;
use crate::manifest::{ImageUsed, LabUsed, ServerUsed};
use crate::plan::PlannedNode;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Reply;

/// Limit of one question.
const QUESTION: Duration = Duration::from_secs(5);

/// What of a database is not its default, one `name=value` per line.
const SETTINGS: &str = "SELECT coalesce(string_agg(name || '=' || setting, E'\\n' ORDER BY name), '') FROM pg_settings \
                        WHERE source NOT IN ('default', 'client')";

/// Looks at a lab; the files' names are filled in by whoever writes them.
pub(super) async fn look(docker: &Docker, lab: &Lab, topology: &str) -> LabUsed {
    LabUsed {
        lab: lab.name().to_string(),
        topology: topology.to_owned(),
        topology_sha256: lab.plan.topology_hash.clone(),
        plan_file: String::new(),
        topology_file: None,
        images: images(docker, lab).await,
        servers: futures_util::future::join_all(lab.plan.nodes.iter().map(|node| server(lab, node))).await,
    }
}

async fn images(docker: &Docker, lab: &Lab) -> BTreeMap<String, ImageUsed> {
    let mut used = BTreeMap::new();
    for container in &lab.plan.containers {
        if used.contains_key(&container.image) {
            continue;
        }
        match docker.image(&container.image).await {
            Ok(Some(seen)) => {
                let image = ImageUsed {
                    id: seen.id,
                    digest: seen.digest,
                    labels: seen.labels,
                };
                used.insert(container.image.clone(), image);
            }
            Ok(None) => tracing::warn!(image = container.image, "the engine does not tell of an image in use"),
            Err(error) => tracing::warn!(image = container.image, %error, "an image was not looked at"),
        }
    }
    used
}

async fn server(lab: &Lab, node: &PlannedNode) -> ServerUsed {
    let seen = lab.servers().iter().find(|seen| seen.node == node.name.as_str());
    let asked = configuration(lab, node).await;
    let image = lab
        .plan
        .containers
        .iter()
        .find(|container| container.name == node.container);
    ServerUsed {
        node: node.name.to_string(),
        datacenter: node.datacenter.to_string(),
        engine: seen.map_or_else(|| node.engine.as_str().to_owned(), |seen| seen.engine.clone()),
        release: node.release.clone(),
        version: seen.map(|seen| seen.version.clone()),
        image: image.map(|container| container.image.clone()).unwrap_or_default(),
        configuration_error: asked.as_ref().err().cloned(),
        configuration: asked.unwrap_or_default(),
    }
}

async fn configuration(lab: &Lab, node: &PlannedNode) -> Result<BTreeMap<String, String>, String> {
    let probe = lab.probe(&node.datacenter);
    let target = crate::lab::target(node);
    if !node.engine.is_cache() {
        let text = probe.postgres(target, SETTINGS, QUESTION).await;
        let text = text.map_err(|error| error.to_string())?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        return Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
    }
    match probe.redis(target, &["CONFIG", "GET", "*"], QUESTION).await {
        Ok(Reply::Array(items)) => Ok(pairs(&items)),
        Ok(other) => Err(crate::replication::text_of(&other)),
        Err(error) => Err(error.to_string()),
    }
}

/// Names and values that follow each other.
fn pairs(items: &[Reply]) -> BTreeMap<String, String> {
    let texts: Vec<String> = items.iter().map(crate::replication::text_of).collect();
    texts
        .chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_in_pairs_and_an_odd_end_is_left_out() {
        let text = |text: &str| Reply::Text(text.to_owned());
        let items = [text("save"), text(""), text("appendonly"), text("no"), text("odd")];
        let pairs = pairs(&items);
        assert_eq!(pairs.len(), 2);
        assert_eq!(pairs["appendonly"], "no");
    }
}
