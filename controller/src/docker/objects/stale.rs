//! Endpoints that an engine kept of a container that it has removed: 20.10 was seen to keep one after many removals at
//! once, and such a network can never be removed again without this.
//!
//! An endpoint is stale if neither the container that the engine names with it nor one of the endpoint's own name exists:
//! the engine takes the name in a disconnection for a container's first, and a container that exists is never touched.

use crate::docker::Docker;
use bollard::errors::Error;
use bollard::models::{EndpointResource, NetworkDisconnectRequest};
use bollard::query_parameters::{InspectContainerOptions, InspectNetworkOptions};

/// What the engine puts before an endpoint's id where it knows no container for it.
const NO_CONTAINER: &str = "ep-";

/// 20.10 was seen to count an endpoint more than it has, after 34 containers of a lab had gone at once. No call corrects it.
const MISCOUNTED: &str = "the engine counts endpoints that it does not have, until it is restarted";

/// An endpoint of a network, as an inspection tells it.
struct Endpoint {
    /// The container's id, or the endpoint's own behind [`NO_CONTAINER`].
    key: String,
    /// The container's name at the time when it was made; the name by which the engine finds it.
    name: String,
}

impl Docker {
    /// Has the engine delete the stale endpoints of a network; what keeps the network, as far as the engine tells: the names of
    /// the containers that are truly on it, in order, or that there is nothing. What the engine refuses here is left to the
    /// next attempt to remove the network, which says why.
    pub(super) async fn release_stale(&self, network: &str) -> String {
        let endpoints = match self.endpoints_of(network).await {
            Ok(endpoints) => endpoints,
            Err(error) => {
                tracing::debug!(network, "cannot inspect the network: {error}");
                return String::new();
            }
        };
        if endpoints.is_empty() {
            return MISCOUNTED.to_owned();
        }
        let mut alive = Vec::new();
        for endpoint in endpoints {
            if !self.is_stale(&endpoint).await {
                alive.push(endpoint.name);
                continue;
            }
            let request = NetworkDisconnectRequest {
                container: endpoint.name.clone(),
                force: Some(true),
            };
            match self.timed(self.api.disconnect_network(network, request)).await {
                Ok(()) => tracing::info!(
                    network,
                    endpoint = endpoint.name,
                    "released a removed container's endpoint"
                ),
                Err(error) => tracing::debug!(
                    network,
                    endpoint = endpoint.name,
                    "cannot release the endpoint: {error}"
                ),
            }
        }
        alive.sort();
        alive.join(", ")
    }

    async fn endpoints_of(&self, network: &str) -> Result<Vec<Endpoint>, Error> {
        let seen = self.api.inspect_network(network, None::<InspectNetworkOptions>).await?;
        let endpoints = seen.containers.unwrap_or_default().into_iter();
        Ok(endpoints
            .map(|(key, EndpointResource { name, .. })| Endpoint {
                key,
                name: name.unwrap_or_default(),
            })
            .collect())
    }

    async fn is_stale(&self, endpoint: &Endpoint) -> bool {
        if endpoint.name.is_empty() || !self.is_absent(&endpoint.name).await {
            return false;
        }
        endpoint.key.starts_with(NO_CONTAINER) || self.is_absent(&endpoint.key).await
    }

    /// Whether the engine says that there is no such container; anything else than a plain no counts as present.
    async fn is_absent(&self, container: &str) -> bool {
        let seen = self
            .api
            .inspect_container(container, None::<InspectContainerOptions>)
            .await;
        matches!(seen, Err(Error::DockerResponseServerError { status_code: 404, .. }))
    }
}
