//! Networks, volumes and containers: one engine call each where the engine allows it, since `up` and `down` are measured
//! against the bare calls. Nothing is inspected on the way up or down.
//!
//! A container that could not get all its endpoints is removed again: what this returns is whole or not there.

mod stale;

use super::refusal::is_gone;
use super::{Attached, Docker, Engine, EngineError, Lookout, Object, Refusal, Sort, bodies};
use crate::plan::{ContainerSpec, NetworkSpec, VolumeSpec};
use async_trait::async_trait;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::models::{ContainerSummary, Network, NetworkConnectRequest, Volume};
use bollard::query_parameters::{
    AttachContainerOptions, CreateContainerOptions, InspectContainerOptions, ListContainersOptions,
    ListNetworksOptions, ListVolumesOptions, LogsOptions, RemoveContainerOptions, RemoveVolumeOptions,
    StartContainerOptions, UploadToContainerOptions, WaitContainerOptions,
};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::time::Instant;

/// How long a network or volume may still count as used after its last container was removed.
const STILL_IN_USE: Duration = Duration::from_secs(2);
/// After which of it a network's endpoints are looked at: those of containers that are gone will not go by themselves.
const LOOK_AFTER: Duration = Duration::from_millis(300);
/// Log lines of a post mortem.
const LAST_LINES: &str = "5";

#[async_trait]
impl Engine for Docker {
    async fn create_network(&self, spec: &NetworkSpec) -> Result<Object, EngineError> {
        let made = self
            .timed(self.api.create_network(bodies::network(spec, self.spoken())))
            .await;
        let made = made.map_err(|error| self.refused("create network", &spec.name, &error))?;
        Ok(object(Sort::Network, made.id, &spec.name, &spec.labels, ""))
    }

    async fn create_volume(&self, spec: &VolumeSpec) -> Result<Object, EngineError> {
        let made = self.timed(self.api.create_volume(bodies::volume(spec))).await;
        let made = made.map_err(|error| self.refused("create volume", &spec.name, &error))?;
        // The engine answers an existing name with the existing volume, whoever's it is.
        if sorted(made.labels) != spec.labels {
            return Err(EngineError::Refused {
                verb: "create volume",
                object: spec.name.clone(),
                status: 0,
                cause: "a volume of this name with other labels exists".to_owned(),
                refusal: Refusal::Taken,
            });
        }
        Ok(object(Sort::Volume, made.name, &spec.name, &spec.labels, ""))
    }

    async fn create_container(
        &self,
        spec: &ContainerSpec,
        networks: &BTreeMap<String, String>,
    ) -> Result<Object, EngineError> {
        let endpoints = endpoints(spec, networks)?;
        let options = CreateContainerOptions {
            name: Some(spec.name.clone()),
            ..CreateContainerOptions::default()
        };
        let body = bodies::container(spec, endpoints.first().copied());
        let made = self.timed(self.api.create_container(Some(options), body)).await;
        let made = made.map_err(|error| self.refused("create container", &spec.name, &error))?;
        let object = object(Sort::Container, made.id, &spec.name, &spec.labels, "created");
        for (network, address) in endpoints.into_iter().skip(1) {
            let request = NetworkConnectRequest {
                container: object.id.clone(),
                endpoint_config: Some(bodies::endpoint(address)),
            };
            if let Err(error) = self.timed(self.api.connect_network(network, request)).await {
                let refused = self.refused("connect container", &spec.name, &error);
                if let Err(left) = self.remove(&object).await {
                    tracing::warn!("{} is left behind: failed to {left}", spec.name);
                }
                return Err(refused);
            }
        }
        if let Err(refused) = self.put_files(&object, spec).await {
            if let Err(left) = self.remove(&object).await {
                tracing::warn!("{} is left behind: failed to {left}", spec.name);
            }
            return Err(refused);
        }
        Ok(object)
    }

    async fn create_lookout(&self, lookout: &Lookout, container: &str) -> Result<Object, EngineError> {
        let options = CreateContainerOptions {
            name: Some(lookout.name.clone()),
            ..CreateContainerOptions::default()
        };
        let body = bodies::lookout(lookout, container);
        let made = self.timed(self.api.create_container(Some(options), body)).await;
        let made = made.map_err(|error| self.refused("create container", &lookout.name, &error))?;
        Ok(object(
            Sort::Container,
            made.id,
            &lookout.name,
            &lookout.labels,
            "created",
        ))
    }

    async fn start(&self, container: &str) -> Result<(), EngineError> {
        let started = self
            .timed(self.api.start_container(container, None::<StartContainerOptions>))
            .await;
        started.map_err(|error| self.refused("start container", container, &error))
    }

    async fn remove(&self, object: &Object) -> Result<(), EngineError> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(10);
        loop {
            let (verb, removed) = match object.sort {
                Sort::Container => ("remove container", self.remove_container(&object.id).await),
                Sort::Network => ("remove network", self.timed(self.api.remove_network(&object.id)).await),
                Sort::Volume => {
                    let options = None::<RemoveVolumeOptions>;
                    (
                        "remove volume",
                        self.timed(self.api.remove_volume(&object.id, options)).await,
                    )
                }
            };
            let Err(error) = removed else { return Ok(()) };
            if is_gone(&error) {
                return Ok(());
            }
            let mut refused = self.refused(verb, &object.name, &error);
            let in_use = matches!(
                &refused,
                EngineError::Refused {
                    refusal: Refusal::InUse,
                    ..
                }
            );
            if object.sort == Sort::Container || !in_use {
                return Err(refused);
            }
            if object.sort == Sort::Network && begun.elapsed() >= LOOK_AFTER {
                let keeps = self.release_stale(&object.id).await;
                if let (EngineError::Refused { cause, .. }, false) = (&mut refused, keeps.is_empty()) {
                    cause.push_str(&format!(": {keeps}"));
                }
            }
            if begun.elapsed() >= STILL_IN_USE {
                return Err(refused);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn list(&self, labels: &BTreeMap<String, String>) -> Result<Vec<Object>, EngineError> {
        let filters = bodies::label_filters(labels);
        let containers = self.api.list_containers(Some(ListContainersOptions {
            all: true,
            filters: Some(filters.clone()),
            ..ListContainersOptions::default()
        }));
        let networks = self.api.list_networks(Some(ListNetworksOptions {
            filters: Some(filters.clone()),
        }));
        let volumes = self
            .api
            .list_volumes(Some(ListVolumesOptions { filters: Some(filters) }));
        let (containers, networks, volumes) = self
            .timed(async { tokio::try_join!(containers, networks, volumes) })
            .await
            .map_err(|error| self.refused("list", "containers, networks and volumes", &error))?;
        Ok(containers
            .into_iter()
            .map(container_seen)
            .chain(networks.into_iter().map(network_seen))
            .chain(volumes.volumes.unwrap_or_default().into_iter().map(volume_seen))
            .collect())
    }

    async fn attach(&self, container: &str) -> Result<Attached, EngineError> {
        let options = AttachContainerOptions {
            stream: true,
            stdin: true,
            stdout: true,
            ..AttachContainerOptions::default()
        };
        let streams = self.timed(self.api.attach_container(container, Some(options))).await;
        let streams = streams.map_err(|error| self.refused("attach to container", container, &error))?;
        let stdout = streams
            .output
            .map_err(std::io::Error::other)
            // No async closures here: the compiler's incremental builds stumble over them in a stream's types.
            .try_filter_map(|frame| {
                std::future::ready(Ok(match frame {
                    LogOutput::StdErr { .. } => None,
                    other => Some(other.into_bytes()),
                }))
            });
        Ok(Attached {
            stdin: streams.input,
            stdout: Box::pin(tokio_util::io::StreamReader::new(Box::pin(stdout))),
        })
    }

    async fn subnets(&self) -> Result<Vec<ipnet::Ipv4Net>, EngineError> {
        let networks = self.timed(self.api.list_networks(None::<ListNetworksOptions>)).await;
        let networks = networks.map_err(|error| self.refused("list", "networks", &error))?;
        Ok(networks
            .into_iter()
            .filter_map(|network| network.ipam?.config)
            .flatten()
            // IPv6 subnets do not parse, and do not matter.
            .filter_map(|config| config.subnet?.parse().ok())
            .collect())
    }

    async fn post_mortem(&self, container: &str) -> Result<String, EngineError> {
        let inspected = self.api.inspect_container(container, None::<InspectContainerOptions>);
        let seen = self.timed(inspected).await;
        let seen = seen.map_err(|error| self.refused("inspect container", container, &error))?;
        let state = seen.state.unwrap_or_default();
        let mut text = state
            .status
            .map_or_else(|| "in no state".to_owned(), |status| status.to_string());
        if state.running != Some(true) {
            text.push_str(&format!(", exit code {}", state.exit_code.unwrap_or_default()));
        }
        if state.oom_killed == Some(true) {
            text.push_str(", killed for lack of memory");
        }
        if let Some(error) = state.error.filter(|error| !error.is_empty()) {
            text.push_str(&format!(": {error}"));
        }
        let lines = self.last_lines(container).await;
        if !lines.is_empty() {
            text.push_str("; last log lines:\n");
            text.push_str(&lines);
        }
        Ok(text)
    }

    async fn ended(&self, container: &str) -> Result<String, EngineError> {
        // Its headers come at once and its only line at the end, so that nothing is asked again and again meanwhile.
        let mut ends = std::pin::pin!(self.api.wait_container(container, None::<WaitContainerOptions>));
        match ends.next().await {
            // The client makes an error of every exit code but 0.
            Some(Ok(_) | Err(Error::DockerContainerWaitError { .. })) => self.post_mortem(container).await,
            Some(Err(error)) => Err(self.refused("wait for", container, &error)),
            None => Err(EngineError::Lost {
                verb: "wait for",
                object: container.to_owned(),
                endpoint: self.endpoint.clone(),
                cause: "it ended its answer without an exit code".to_owned(),
            }),
        }
    }
}

impl Docker {
    /// Puts files where a volume of a container that has not started yet will have them.
    async fn put_files(&self, object: &Object, spec: &ContainerSpec) -> Result<(), EngineError> {
        for (path, text) in &spec.files {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let archive = bodies::archive(name, text, spec.user.as_deref());
            let options = UploadToContainerOptions {
                path: folder.to_owned(),
                ..UploadToContainerOptions::default()
            };
            let put = self
                .api
                .upload_to_container(&object.id, Some(options), bollard::body_full(archive));
            self.timed(put)
                .await
                .map_err(|error| self.refused("put a file into", &spec.name, &error))?;
        }
        Ok(())
    }

    async fn remove_container(&self, id: &str) -> Result<(), bollard::errors::Error> {
        let options = RemoveContainerOptions {
            force: true,
            // Only the anonymous volumes of the image's own recipe go with the container; named ones stay.
            v: true,
            ..RemoveContainerOptions::default()
        };
        self.timed(self.api.remove_container(id, Some(options))).await
    }

    async fn last_lines(&self, container: &str) -> String {
        let options = LogsOptions {
            stdout: true,
            stderr: true,
            tail: LAST_LINES.to_owned(),
            ..LogsOptions::default()
        };
        let frames = self
            .api
            .logs(container, Some(options))
            .filter_map(|frame| std::future::ready(frame.ok().map(LogOutput::into_bytes)))
            .collect();
        // A log that does not come in time is one without lines.
        let frames: Vec<Bytes> = tokio::time::timeout(self.limit, frames).await.unwrap_or_default();
        String::from_utf8_lossy(&frames.concat()).trim_end().to_owned()
    }
}

/// Ids and addresses of a container's endpoints, in the order of the spec.
fn endpoints<'a>(
    spec: &ContainerSpec,
    networks: &'a BTreeMap<String, String>,
) -> Result<Vec<(&'a str, Ipv4Addr)>, EngineError> {
    let known = |(name, address): &(String, Ipv4Addr)| match networks.get(name) {
        Some(id) => Ok((id.as_str(), *address)),
        None => Err(EngineError::Refused {
            verb: "create container",
            object: spec.name.clone(),
            status: 0,
            cause: format!("network {name} was not made"),
            refusal: Refusal::NotFound,
        }),
    };
    spec.endpoints.iter().map(known).collect()
}

fn object(sort: Sort, id: String, name: &str, labels: &BTreeMap<String, String>, state: &str) -> Object {
    Object {
        sort,
        id,
        name: name.to_owned(),
        labels: labels.clone(),
        state: state.to_owned(),
    }
}

fn container_seen(seen: ContainerSummary) -> Object {
    // Legacy links add names with a second slash.
    let name = seen
        .names
        .unwrap_or_default()
        .into_iter()
        .map(|name| name.trim_start_matches('/').to_owned())
        .find(|name| !name.contains('/'));
    Object {
        sort: Sort::Container,
        id: seen.id.unwrap_or_default(),
        name: name.unwrap_or_default(),
        labels: sorted(seen.labels.unwrap_or_default()),
        state: seen.state.map(|state| state.to_string()).unwrap_or_default(),
    }
}

fn network_seen(seen: Network) -> Object {
    Object {
        sort: Sort::Network,
        id: seen.id.unwrap_or_default(),
        name: seen.name.unwrap_or_default(),
        labels: sorted(seen.labels.unwrap_or_default()),
        state: String::new(),
    }
}

fn volume_seen(seen: Volume) -> Object {
    Object {
        sort: Sort::Volume,
        id: seen.name.clone(),
        name: seen.name,
        labels: sorted(seen.labels),
        state: String::new(),
    }
}

fn sorted(labels: HashMap<String, String>) -> BTreeMap<String, String> {
    labels.into_iter().collect()
}

#[cfg(test)]
mod tests;
