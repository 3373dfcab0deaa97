//! The rules of the engine in memory: what can be made, started and removed, as a real one was seen to decide.

use super::relay::Relay;
use super::{Container, LAG, State, World, refused};
use crate::docker::{EngineError, Object, Refusal, Sort};
use crate::plan::{ContainerSpec, NetworkSpec, VolumeSpec};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use tokio::sync::{broadcast, watch};

impl World {
    pub(super) fn id(&mut self) -> String {
        self.serial += 1;
        format!("{:064x}", self.serial)
    }

    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// By id or Docker name.
    pub(super) fn container(&self, container: &str) -> Option<&Container> {
        let named = || self.containers.values().find(|found| found.spec.name == container);
        self.containers.get(container).or_else(named)
    }

    pub(super) fn name_of(&self, container: &str) -> String {
        let found = self.container(container);
        found.map_or(container, |found| &found.spec.name).to_owned()
    }

    /// The running container that has an address.
    pub(super) fn at(&self, address: Ipv4Addr) -> Option<&Container> {
        self.containers
            .values()
            .find(|found| found.runs() && found.endpoints.values().any(|own| *own == address))
    }

    pub(super) fn objects(&self) -> Vec<Object> {
        let containers = self.containers.iter().map(|(id, found)| Object {
            sort: Sort::Container,
            id: id.clone(),
            name: found.spec.name.clone(),
            labels: found.spec.labels.clone(),
            state: found.state.borrow().as_str().to_owned(),
        });
        let networks = self.networks.iter().map(|(id, spec)| network_object(id, spec));
        containers
            .chain(networks)
            .chain(self.volumes.values().map(volume_object))
            .collect()
    }

    pub(super) fn create_container(
        &mut self,
        spec: &ContainerSpec,
        networks: &BTreeMap<String, String>,
    ) -> Result<Object, EngineError> {
        let no = |kind, cause: &str| Err(refused("create container", &spec.name, kind, cause));
        if self.absent_images.contains(&spec.image) {
            return no(Refusal::NotFound, &format!("No such image: {}", spec.image));
        }
        if self.container(&spec.name).is_some() {
            return no(Refusal::Taken, "the container name is already in use");
        }
        let mut endpoints = BTreeMap::new();
        for (network, address) in &spec.endpoints {
            let Some(id) = networks.get(network) else {
                return no(Refusal::NotFound, &format!("network {network} was not made"));
            };
            endpoints.insert(id.clone(), *address);
        }
        let id = self.id();
        let labels = spec.labels.clone();
        let container = Container {
            spec: spec.clone(),
            endpoints,
            state: watch::Sender::new(State::Created),
            stdout: broadcast::Sender::new(LAG),
            relay: Relay::of(spec),
            beacons: Vec::new(),
            membership: super::cluster::Membership::default(),
            keys: BTreeMap::new(),
            offset: 0,
        };
        self.containers.insert(id.clone(), container);
        Ok(Object {
            sort: Sort::Container,
            id,
            name: spec.name.clone(),
            labels,
            state: State::Created.as_str().to_owned(),
        })
    }

    pub(super) fn start(&mut self, container: &str) -> Result<(), EngineError> {
        let name = self.name_of(container);
        let no = |kind, cause: &str| Err(refused("start container", &name, kind, cause));
        let Some(found) = self.container(container) else {
            return no(Refusal::NotFound, "No such container");
        };
        if *found.state.borrow() == State::Paused {
            return no(Refusal::Other, "cannot start a paused container, try unpause instead");
        }
        for (network, address) in &found.endpoints {
            let Some(there) = self.networks.get(network) else {
                return no(Refusal::NotFound, &format!("network {network} not found"));
            };
            if !there.subnet.contains(address) || Some(*address) == there.host_address {
                return no(Refusal::Other, &format!("no available address {address}"));
            }
            let other = self.at(*address).is_some_and(|other| other.spec.name != name);
            // The auxiliary address of a network with an address of the host is reserved by the engine itself.
            if other || there.gateway == *address {
                return no(Refusal::Taken, "Address already in use");
            }
        }
        if let Some(device) = found
            .spec
            .devices
            .iter()
            .find(|device| self.absent_devices.contains(*device))
        {
            let cause = format!(
                "error gathering device information while adding custom device \"{device}\": no such file or directory"
            );
            return no(Refusal::Other, &cause);
        }
        for volume in found.spec.volumes.keys() {
            // A real engine would make one without labels, which nobody would ever remove.
            if !self.volumes.contains_key(volume) {
                return no(Refusal::NotFound, &format!("volume {volume} was not made"));
            }
        }
        for bound in found.spec.publish.values() {
            let others = self
                .containers
                .values()
                .filter(|other| other.runs() && other.spec.name != name);
            if others
                .flat_map(|other| other.spec.publish.values())
                .any(|other| other == bound)
            {
                return no(Refusal::Taken, "port is already allocated");
            }
        }
        let state = match self.doomed.get(&name) {
            Some((code, words)) => State::Exited(*code, words.clone()),
            None => State::Running,
        };
        found.state.send_replace(state);
        Ok(())
    }

    pub(super) fn remove(&mut self, verb: &'static str, object: &Object) -> Result<(), EngineError> {
        let in_use = |cause| Err(refused(verb, &object.name, Refusal::InUse, cause));
        match object.sort {
            Sort::Container => {
                self.containers.remove(&object.id);
            }
            Sort::Network => {
                let mut running = self.containers.values().filter(|container| container.runs());
                if running.any(|container| container.endpoints.contains_key(&object.id)) {
                    return in_use("network has active endpoints");
                }
                self.networks.remove(&object.id);
            }
            Sort::Volume => {
                let mut containers = self.containers.values();
                if containers.any(|container| container.spec.volumes.contains_key(&object.id)) {
                    return in_use("volume is in use");
                }
                self.volumes.remove(&object.id);
            }
        }
        Ok(())
    }
}

pub(super) fn network_object(id: &str, spec: &NetworkSpec) -> Object {
    Object {
        sort: Sort::Network,
        id: id.to_owned(),
        name: spec.name.clone(),
        labels: spec.labels.clone(),
        state: String::new(),
    }
}

pub(super) fn volume_object(spec: &VolumeSpec) -> Object {
    Object {
        sort: Sort::Volume,
        id: spec.name.clone(),
        name: spec.name.clone(),
        labels: spec.labels.clone(),
        state: String::new(),
    }
}
