//! Cuts of TCP ports: those of clients, the bus of clusters, or named ones; everything else of the link passes. A relay cuts
//! ports in packet mode only.

use super::LinkSeen;
use crate::lab::{Lab, LabError};
use crate::names::DatacenterName;
use crate::plan::{Plan, PlannedNode};
use std::fmt;
use std::str::FromStr;
use wire::{CutKind, PortCut, RelayOrder};

/// Which ports are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Only {
    /// Those on which the lab's nodes serve clients; replicas reach their primary there too.
    Clients,
    /// Those on which the nodes of the lab's clusters speak with each other.
    Bus,
    /// These.
    Ports(Vec<u16>),
}

/// A text names no ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither `clients` nor `bus` nor a port (1 to 65535; several are joined by commas)")]
pub struct NoPorts(String);

impl FromStr for Only {
    type Err = NoPorts;

    fn from_str(text: &str) -> Result<Self, NoPorts> {
        let port = |word: &str| match word.parse() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(NoPorts(word.to_owned())),
        };
        match text {
            "clients" => Ok(Self::Clients),
            "bus" => Ok(Self::Bus),
            _ => Ok(Self::Ports(text.split(',').map(port).collect::<Result<_, _>>()?)),
        }
    }
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients => f.write_str("clients"),
            Self::Bus => f.write_str("bus"),
            Self::Ports(ports) => f.write_str(&listed(ports)),
        }
    }
}

impl Only {
    /// As files and the command line write them; the other way is to name ports.
    pub const WORDS: [&str; 2] = ["clients", "bus"];

    /// The ports in a lab, sorted, each once.
    ///
    /// # Errors
    /// No node of the lab listens on one of them, or none is in a cluster.
    pub fn ports(&self, plan: &Plan) -> Result<Vec<u16>, LabError> {
        let all = sorted(plan.nodes.iter().flat_map(PlannedNode::ports));
        let clients = sorted(plan.nodes.iter().map(PlannedNode::port));
        let (ports, unknown) = match self {
            Self::Clients => (clients, Vec::new()),
            Self::Bus => {
                let bus = all.iter().filter(|port| !clients.contains(port));
                (bus.copied().collect(), Vec::new())
            }
            Self::Ports(ports) => {
                let unknown = ports.iter().filter(|port| !all.contains(port));
                (sorted(ports.iter().copied()), unknown.copied().collect())
            }
        };
        if ports.is_empty() || !unknown.is_empty() {
            return Err(LabError::NoPort {
                only: self.clone(),
                unknown,
                ports: all,
            });
        }
        Ok(ports)
    }

    /// What these ports are called in a lab.
    #[must_use]
    pub fn named(plan: &Plan, ports: &[u16]) -> Self {
        let words = [Self::Clients, Self::Bus].into_iter();
        let mut alike = words.filter(|word| word.ports(plan).is_ok_and(|of_word| of_word == ports));
        alike.next().unwrap_or_else(|| Self::Ports(ports.to_vec()))
    }
}

/// Ports for people.
pub(in crate::lab) fn listed(ports: &[u16]) -> String {
    let words: Vec<String> = ports.iter().map(u16::to_string).collect();
    words.join(",")
}

fn sorted(ports: impl Iterator<Item = u16>) -> Vec<u16> {
    let mut ports: Vec<u16> = ports.collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

impl Lab {
    /// Cuts ports of the link from `from` to `to`; what is in flight of theirs is destroyed, everything else passes. It takes the
    /// place of an earlier cut of ports, and `heal` ends it.
    ///
    /// # Errors
    /// There is no such link, no node has such a port, or the relay refused: it is not in packet mode.
    pub async fn cut_ports(
        &self,
        from: &DatacenterName,
        to: &DatacenterName,
        only: &Only,
        kind: CutKind,
    ) -> Result<LinkSeen, LabError> {
        let ports = only.ports(&self.plan)?;
        let to_far = to.to_string();
        let order = RelayOrder::CutPorts {
            to: to_far,
            kind,
            ports,
        };
        self.change_link(from, to, order).await
    }

    /// Cuts ports of both directions, in silence.
    ///
    /// # Errors
    /// There is no such link, no node has such a port, or a relay refused; the other direction was still ordered.
    pub async fn cut_ports_both(
        &self,
        one: &DatacenterName,
        other: &DatacenterName,
        only: &Only,
    ) -> Result<[LinkSeen; 2], LabError> {
        let ports = only.ports(&self.plan)?;
        let order = |to| RelayOrder::CutPorts {
            to,
            kind: CutKind::Drop,
            ports: ports.clone(),
        };
        self.change_both((one, other), order).await
    }

    /// Puts a cut of ports back as it was (`None`: there was none); one of the whole link stays as it is.
    ///
    /// # Errors
    /// There is no such link, or its relay failed.
    pub async fn restore_ports(
        &self,
        from: &DatacenterName,
        to: &DatacenterName,
        before: Option<&PortCut>,
    ) -> Result<LinkSeen, LabError> {
        let order = RelayOrder::CutPorts {
            to: to.to_string(),
            kind: before.map_or(CutKind::Drop, |cut| cut.kind),
            ports: before.map(|cut| cut.ports.clone()).unwrap_or_default(),
        };
        self.change_link(from, to, order).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_ports_are_read_as_they_are_written() {
        for text in ["clients", "bus", "6379", "6379,16379"] {
            assert_eq!(text.parse::<Only>().unwrap().to_string(), text);
        }
        for (text, word) in [
            ("client", "client"),
            ("6379,bus", "bus"),
            ("0", "0"),
            ("70000", "70000"),
            ("", ""),
        ] {
            assert_eq!(text.parse::<Only>(), Err(NoPorts(word.to_owned())), "{text}");
        }
    }
}
