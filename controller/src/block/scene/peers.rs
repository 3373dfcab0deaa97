//! Who is connected with whom while a block runs, for the trust: at its start by the servers' own lists, which cost nothing;
//! at its end by the kernel's too.

use super::Scene;
use crate::block::BlockError;
use crate::findings::any_unseen;
use crate::history::{FlowsSeen, PeerSource, PeersSeen, What};
use crate::plan::PlannedNode;
use std::time::Duration;

/// A connection that is younger than a packet of it at its relay is looked for again; a replica sends one each second.
const AGAIN: Duration = Duration::from_millis(1200);
/// Looks at most.
const LOOKS: usize = 3;

impl Scene<'_> {
    /// Looks, and records what was seen. What cannot be looked at is recorded with the reason and stops nothing.
    pub async fn peers_seen(&mut self, row: &str, kernel: bool) -> Result<(), BlockError> {
        let mut looks = 1;
        let (peers, flows) = loop {
            // Peers first: what is connected by then has sent something.
            let peers = self.peers(row, kernel).await;
            let flows = self.flows(row).await?;
            if looks >= LOOKS || !any_unseen(&peers, &flows) {
                break (peers, flows);
            }
            looks += 1;
            tokio::time::sleep(AGAIN).await;
        };
        for seen in peers {
            self.write(What::PeersSeen(seen))?;
        }
        for seen in flows {
            self.write(What::FlowsSeen(seen))?;
        }
        Ok(())
    }

    async fn peers(&self, row: &str, kernel: bool) -> Vec<PeersSeen> {
        let nodes = self.lab.plan.nodes.iter();
        let asked = nodes.map(|node| async move {
            let blank = |source| PeersSeen {
                block: self.block,
                row: row.to_owned(),
                node: node.name.to_string(),
                datacenter: node.datacenter.to_string(),
                source,
                connections: Vec::new(),
                networks: Vec::new(),
                error: None,
            };
            let mut seen = Vec::new();
            let (server, bus) = tokio::join!(self.lab.listed_peers(node), self.lab.listed_bus(node));
            for (source, listed) in [(PeerSource::Server, server), (PeerSource::Bus, bus)] {
                let Some(listed) = listed else { continue };
                let mut list = blank(source);
                match listed {
                    Ok(connections) => list.connections = connections,
                    Err(error) => list.error = Some(error),
                }
                seen.push(list);
            }
            if kernel {
                seen.push(self.kernel(node, blank(PeerSource::Kernel)).await);
            }
            seen
        });
        futures_util::future::join_all(asked).await.concat()
    }

    async fn kernel(&self, node: &PlannedNode, mut seen: PeersSeen) -> PeersSeen {
        match self.lab.sockets(node).await {
            Ok(sockets) => {
                seen.connections = sockets.established;
                let networks = sockets.networks.into_iter();
                seen.networks = networks
                    .filter_map(|(address, length)| ipnet::Ipv4Net::new(address, length).ok())
                    .collect();
            }
            Err(error) => seen.error = Some(error.to_string()),
        }
        seen
    }

    async fn flows(&self, row: &str) -> Result<Vec<FlowsSeen>, BlockError> {
        let mut seen = Vec::new();
        for datacenter in &self.lab.plan.datacenters {
            let flowed = self.lab.flowed(&datacenter.name).await?;
            seen.push(FlowsSeen {
                block: self.block,
                row: row.to_owned(),
                datacenter: datacenter.name.to_string(),
                subnet: datacenter.subnet,
                path: flowed.path,
                flows: flowed.flows,
            });
        }
        Ok(seen)
    }
}
