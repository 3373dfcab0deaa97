//! Who is connected with whom in a lab that is up: what each server says, what the kernel says in the network of each node,
//! and which connections the relays saw leave their datacenters.
//!
//! A node's image need not have a program that could read the kernel's lists, nor a shell: a container of the probe that
//! shares the node's network reads them, without any privilege, and is removed at once.

use super::{Lab, LabError, target};
use crate::cluster::{BUS_OFFSET, BusLink, bus_links, members};
use crate::docker::{EngineHandle, Object};
use crate::names::{Kind, LABEL_KIND, LABEL_NODE, lookout_container};
use crate::plan::PlannedNode;
use crate::probe::ProbeClient;
use crate::replication::text_of;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use wire::{Path, ProbeAnswer, ProbeOrder, RelayOrder, Reply, SocketsSeen};

/// Limit of one question to a server.
const QUESTION: Duration = Duration::from_secs(2);
/// Limit of the first answer of a container that was just made.
const START: Duration = Duration::from_secs(20);

/// Connections that a relay let out of its datacenter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flowed {
    /// Which way packets take.
    pub path: Path,
    /// The end in its datacenter, and the other.
    pub flows: Vec<(SocketAddrV4, SocketAddrV4)>,
}

impl Lab {
    /// Connections of a server as it lists them itself (`None`: it is no cache, which has no such list).
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub async fn listed_peers(&self, node: &PlannedNode) -> Option<Result<Vec<(SocketAddrV4, SocketAddrV4)>, String>> {
        if !node.engine.is_cache() {
            return None;
        }
        let probe = self.probe(&node.datacenter);
        let asked = probe.redis(target(node), &["CLIENT", "LIST"], QUESTION).await;
        Some(match asked {
            Ok(Reply::Error(refusal)) => Err(format!("CLIENT LIST: {refusal}")),
            Ok(reply) => Ok(client_connections(&text_of(&reply))),
            Err(error) => Err(LabError::from(error).to_string()),
        })
    }

    /// Connections of a server's cluster bus as it lists them itself, with port 0 for the end that has dialled (`None`: it is in
    /// no cluster).
    ///
    /// # Errors
    /// It does not answer, refuses, or says what is not understood.
    pub async fn listed_bus(&self, node: &PlannedNode) -> Option<Result<Vec<(SocketAddrV4, SocketAddrV4)>, String>> {
        node.cluster.as_ref()?;
        let commands = ["NODES", "LINKS"].map(|list| vec!["CLUSTER".to_owned(), list.to_owned()]);
        let probe = self.probe(&node.datacenter);
        let replies = match probe.redis_all(target(node), commands.to_vec(), QUESTION).await {
            Ok(replies) => replies,
            Err(error) => return Some(Err(LabError::from(error).to_string())),
        };
        let [nodes, links] = replies.as_slice() else {
            unreachable!("a probe has a reply to every command");
        };
        let links = members(&text_of(nodes)).and_then(|members| bus_links(links, &members));
        Some(match links {
            Ok(links) => Ok(bus_connections(node.address, node.port() + BUS_OFFSET, &links)),
            Err(error) => Err(format!("failed to {error}")),
        })
    }

    /// The kernel's lists in the network of a node. What is made for it is removed, also if nobody waits for the answer any
    /// more.
    ///
    /// # Errors
    /// The engine refused, or the container did not answer.
    pub async fn sockets(&self, node: &PlannedNode) -> Result<SocketsSeen, LabError> {
        let engine = self.engines.of(&node.datacenter).clone();
        let probe = self.plan.containers.iter().find(|spec| spec.kind == Kind::Probe);
        let probe = probe.expect("a lab has probes");
        let mut labels: BTreeMap<String, String> = probe.labels.clone();
        labels.insert(LABEL_KIND.to_owned(), Kind::Lookout.as_str().to_owned());
        labels.insert(LABEL_NODE.to_owned(), node.name.to_string());
        if let Some(mark) = &self.mark {
            mark.stamp(&mut labels);
        }
        let lookout = crate::docker::Lookout {
            name: lookout_container(&self.plan.lab, &node.name, fastrand::u32(..)),
            image: probe.image.clone(),
            entrypoint: probe.entrypoint.clone(),
            user: probe.user.clone(),
            labels,
        };
        let container = node.container.clone();
        // A task of its own: it goes on to the removal when the one who asked is stopped.
        let task = tokio::spawn(async move {
            let made = engine.create_lookout(&lookout, &container).await?;
            let seen = ask(engine.clone(), &made).await;
            let removed = engine.remove(&made).await;
            let seen = seen?;
            removed?;
            Ok(seen)
        });
        task.await.expect("a look does not panic")
    }

    /// What the relay of a datacenter saw leave.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn flowed(&self, datacenter: &crate::names::DatacenterName) -> Result<Flowed, LabError> {
        let relay = self.relay(datacenter);
        let status = relay.order(RelayOrder::Show).await?;
        let asked = status.links.iter().map(|link| relay.flows(&link.to));
        let flows = futures_util::future::try_join_all(asked).await?;
        Ok(Flowed {
            path: status.path,
            flows: flows.concat(),
        })
    }
}

async fn ask(engine: EngineHandle, made: &Object) -> Result<SocketsSeen, LabError> {
    let client = ProbeClient::attach(engine.clone(), &made.id, START).await?;
    engine.start(&made.id).await?;
    match client.order(ProbeOrder::Sockets, START).await? {
        ProbeAnswer::Sockets(seen) => Ok(seen),
        _ => Err(LabError::NotReady {
            what: made.name.clone(),
            waited: Duration::ZERO,
            last: "an answer of another kind".to_owned(),
        }),
    }
}

/// Connections of `CLIENT LIST`, the server's end first. What has no address of IPv4 (a socket in a file) is none of a lab's.
fn client_connections(list: &str) -> Vec<(SocketAddrV4, SocketAddrV4)> {
    let ends = |line: &str| {
        let word = |name: &str| {
            line.split(' ')
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        Some((word("laddr")?.parse().ok()?, word("addr")?.parse().ok()?))
    };
    list.lines().filter_map(ends).collect()
}

/// Both ends of each link of a node; all nodes of a cluster listen on the same port.
fn bus_connections(own: Ipv4Addr, port: u16, links: &[BusLink]) -> Vec<(SocketAddrV4, SocketAddrV4)> {
    let ends = |link: &BusLink| {
        let (here, there) = if link.dialled { (0, port) } else { (port, 0) };
        (SocketAddrV4::new(own, here), SocketAddrV4::new(link.peer, there))
    };
    links.iter().map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_dialled_has_a_port_that_is_not_told() {
        let [own, peer] = [4, 5].map(|last| Ipv4Addr::new(198, 18, 1, last));
        let links = [true, false].map(|dialled| BusLink { peer, dialled });
        let expected = [
            ("198.18.1.4:0", "198.18.1.5:16379"),
            ("198.18.1.4:16379", "198.18.1.5:0"),
        ];
        let expected = expected.map(|(one, other)| (one.parse().unwrap(), other.parse().unwrap()));
        assert_eq!(bus_connections(own, 16379, &links), expected);
    }

    #[test]
    fn a_servers_list_has_its_clients_and_its_upstream() {
        let list = "id=3 addr=198.18.0.2:6379 laddr=198.18.0.70:40000 fd=9 name= age=90 flags=M cmd=ping\n\
                    id=4 addr=198.18.0.69:51000 laddr=198.18.0.70:6379 fd=10 name= age=0 flags=N cmd=client|list\n\
                    id=5 addr=/tmp/socket:0 laddr=/tmp/socket:0 fd=11 flags=U\n";
        let expected = [
            ("198.18.0.70:40000", "198.18.0.2:6379"),
            ("198.18.0.70:6379", "198.18.0.69:51000"),
        ];
        let expected = expected.map(|(one, other)| (one.parse().unwrap(), other.parse().unwrap()));
        assert_eq!(client_connections(list), expected);
    }
}
