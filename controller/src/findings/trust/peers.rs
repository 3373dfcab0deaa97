//! Nothing between two datacenters passes the link by: every connection of a node with another datacenter was seen by the
//! relay of its own, and no node stands in another datacenter's network too.
//!
//! What was not looked at is told and doubts nothing: an absent look is not a leak.

use super::doubt::Doubt;
use super::seen::Seen;
use crate::claim::Cause;
use crate::history::{Connection, FlowsSeen, PeerSource, PeersSeen};
use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use wire::Path;

/// Most connections that a doubt names.
const NAMED: usize = 3;

/// Connections of a node with other datacenters that should have crossed its relay, and whether they did. `None`: the relay
/// does not know connections in its present mode, or was not asked.
fn crossing<'a>(peers: &'a PeersSeen, flows: &[&FlowsSeen]) -> Option<Vec<(&'a Connection, bool)>> {
    let of_row = || flows.iter().filter(|seen| seen.row == peers.row);
    let own = of_row().find(|seen| seen.datacenter == peers.datacenter)?;
    if own.path != Path::Tun {
        return None;
    }
    let far = |connection: &&Connection| {
        of_row().any(|seen| seen.datacenter != peers.datacenter && seen.subnet.contains(connection.1.ip()))
    };
    let crossing = peers.connections.iter().filter(far);
    let crossed = |connection: &Connection| own.flows.iter().any(|flow| covers(connection, flow));
    Some(crossing.map(|connection| (connection, crossed(connection))).collect())
}

/// Whether a connection, as far as it was told, is this one that a relay saw. A port that was not told can be any: of such a
/// connection it is only known that one of this kind with this peer has crossed; the kernel's look tells them apart.
fn covers(told: &Connection, flow: &Connection) -> bool {
    let covers = |told: &SocketAddrV4, seen: &SocketAddrV4| {
        told.ip() == seen.ip() && (told.port() == 0 || told.port() == seen.port())
    };
    covers(&told.0, &flow.0) && covers(&told.1, &flow.1)
}

/// An end, for people.
fn shown(end: &SocketAddrV4) -> String {
    match end.port() {
        0 => end.ip().to_string(),
        _ => end.to_string(),
    }
}

/// Whether some connection has passed its relay by, as far as these looks tell: one that is younger than the looks can be
/// taken for such a one, so whoever looks does it again.
#[must_use]
pub fn any_unseen(peers: &[PeersSeen], flows: &[FlowsSeen]) -> bool {
    let flows: Vec<&FlowsSeen> = flows.iter().collect();
    let mut crossings = peers.iter().filter_map(|peers| crossing(peers, &flows));
    crossings.any(|crossing| crossing.iter().any(|(_, seen)| !seen))
}

/// Doubts about what passes the link by.
pub fn doubts(seen: &Seen<'_>) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    for peers in &seen.peers {
        doubts.extend(strange_networks(peers, seen));
        let unseen: Vec<String> = crossing(peers, &seen.flows)
            .into_iter()
            .flatten()
            .filter(|(_, seen)| !seen)
            .map(|((local, remote), _)| format!("{} with {}", shown(local), shown(remote)))
            .collect();
        if !unseen.is_empty() {
            let named = unseen.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = if unseen.len() > NAMED { "..." } else { "" };
            doubts.push(Doubt::void(
                Cause::Instrument,
                format!(
                    "{} of {} ({}) with another datacenter passed the link by ({}): {named}{more}",
                    counted(unseen.len()),
                    peers.node,
                    peers.datacenter,
                    peers.row
                ),
            ));
        }
    }
    doubts
}

fn counted(connections: usize) -> String {
    let plural = if connections == 1 { "" } else { "s" };
    format!("{connections} connection{plural}")
}

/// A network beside its datacenter's own.
fn strange_networks(peers: &PeersSeen, seen: &Seen<'_>) -> Vec<Doubt> {
    let subnets = || seen.flows.iter().filter(|flows| flows.row == peers.row);
    let Some(own) = subnets().find(|flows| flows.datacenter == peers.datacenter) else {
        return Vec::new();
    };
    let strange = peers.networks.iter().filter(|network| !own.subnet.contains(*network));
    let doubt = |network: &ipnet::Ipv4Net| {
        let overlaps = |flows: &&&FlowsSeen| flows.subnet.contains(network) || network.contains(&flows.subnet);
        match subnets().find(|flows| flows.datacenter != peers.datacenter && overlaps(flows)) {
            Some(other) => Doubt::void(
                Cause::Instrument,
                format!(
                    "{} ({}) stands in the network of {} too: it reaches that without the link",
                    peers.node, peers.datacenter, other.datacenter
                ),
            ),
            None => Doubt::suspect(format!(
                "{} ({}) stands in a network that is not the lab's, {network}: where that leads is not known",
                peers.node, peers.datacenter
            )),
        }
    };
    strange.map(doubt).collect()
}

/// What was compared, for people; nothing if nobody looked.
pub fn told(seen: &Seen<'_>) -> Option<String> {
    if seen.peers.is_empty() {
        return None;
    }
    let of = |source: PeerSource| seen.peers.iter().filter(move |peers| peers.source == source);
    let nodes = |source| {
        let read = of(source).filter(|peers| peers.error.is_none());
        read.map(|peers| peers.node.as_str()).collect::<BTreeSet<_>>().len()
    };
    let mut compared = 0;
    let mut uncompared = 0;
    for peers in &seen.peers {
        match crossing(peers, &seen.flows) {
            Some(crossing) => compared += crossing.len(),
            None => uncompared += 1,
        }
    }
    let links = match nodes(PeerSource::Bus) {
        0 => String::new(),
        nodes => format!(", cluster links of {nodes}"),
    };
    let mut told = format!(
        "peers {} between datacenters looked for in their relays (servers asked {}{links}, kernel tables read {})",
        counted(compared),
        nodes(PeerSource::Server),
        nodes(PeerSource::Kernel)
    );
    if uncompared > 0 {
        told.push_str(&format!(
            "; {uncompared} looks not compared: relays know connections in packet mode only"
        ));
    }
    if let Some((peers, error)) = seen.peers.iter().find_map(|peers| Some((peers, peers.error.as_ref()?))) {
        told.push_str(&format!("; {} not looked at: {error}", peers.node));
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::row::Rows;
    use crate::findings::synthetic::Story;
    use crate::findings::trust::doubt::Weight;
    use crate::history::What;
    use ipnet::Ipv4Net;

    fn net(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    fn connection(local: &str, remote: &str) -> Connection {
        (local.parse().unwrap(), remote.parse().unwrap())
    }

    fn flows(datacenter: &str, subnet: &str, path: Path, flows: &[(&str, &str)]) -> What {
        What::FlowsSeen(FlowsSeen {
            block: 1,
            row: "end".to_owned(),
            datacenter: datacenter.to_owned(),
            subnet: net(subnet),
            path,
            flows: flows.iter().map(|(local, remote)| connection(local, remote)).collect(),
        })
    }

    /// A far replica of dc2 with these connections and networks.
    fn far(connections: &[(&str, &str)], networks: &[&str]) -> What {
        What::PeersSeen(PeersSeen {
            block: 1,
            row: "end".to_owned(),
            node: "redis-far".to_owned(),
            datacenter: "dc2".to_owned(),
            source: PeerSource::Kernel,
            connections: connections
                .iter()
                .map(|(local, remote)| connection(local, remote))
                .collect(),
            networks: networks.iter().map(|network| net(network)).collect(),
            error: None,
        })
    }

    const REPLICATION: (&str, &str) = ("198.18.0.70:40000", "198.18.0.2:6379");
    const BESIDE: (&str, &str) = ("198.18.0.70:6379", "198.18.0.71:40001");

    fn judged(peers: What, path: Path, crossed: &[(&str, &str)]) -> (Vec<Doubt>, String) {
        let story = Story::of(1)
            .event(peers)
            .event(flows("dc1", "198.18.0.0/26", path, &[]))
            .event(flows("dc2", "198.18.0.64/26", path, crossed));
        let history = story.history();
        let rows = Rows {
            history: &history,
            block: 1,
        };
        let seen = Seen::of(&rows);
        (doubts(&seen), told(&seen).unwrap())
    }

    #[test]
    fn what_crossed_its_relay_and_what_stayed_at_home_raises_no_doubt() {
        let peers = far(&[REPLICATION, BESIDE], &["198.18.0.64/26"]);
        let (doubts, told) = judged(peers, Path::Tun, &[REPLICATION]);
        assert_eq!(doubts, []);
        assert!(told.starts_with("peers 1 connection between datacenters"), "{told}");
    }

    #[test]
    fn a_connection_that_no_relay_saw_voids() {
        for crossed in [&[][..], &[("198.18.0.70:40001", "198.18.0.2:6379")]] {
            let (doubts, _) = judged(far(&[REPLICATION], &[]), Path::Tun, crossed);
            assert_eq!((doubts.len(), doubts[0].weight), (1, Weight::Void));
            let end = "redis-far (dc2) with another datacenter passed the link by (end): 198.18.0.70:40000 with 198.18.0.2:6379";
            assert!(doubts[0].text.ends_with(end), "{}", doubts[0].text);
        }
    }

    #[test]
    fn a_link_of_the_bus_has_crossed_if_one_of_its_kind_has() {
        let links = |dialled: &str, accepted: &str| {
            let What::PeersSeen(mut peers) = far(&[], &[]) else {
                unreachable!("it is one");
            };
            peers.source = PeerSource::Bus;
            peers.connections = vec![
                connection("198.18.0.70:0", dialled),
                connection("198.18.0.70:16379", accepted),
                connection("198.18.0.70:0", "198.18.0.71:16379"),
            ];
            What::PeersSeen(peers)
        };
        let (dialled, accepted) = ("198.18.0.2:16379", "198.18.0.2:0");
        let out = ("198.18.0.70:40000", "198.18.0.2:16379");
        let back = ("198.18.0.70:16379", "198.18.0.2:40000");
        let (doubts, told) = judged(links(dialled, accepted), Path::Tun, &[out, back]);
        assert_eq!(doubts, []);
        assert!(
            told.starts_with("peers 2 connections") && told.contains("cluster links of 1"),
            "{told}"
        );
        // Neither the way back nor replication is the way out.
        for crossed in [&[back][..], &[back, REPLICATION]] {
            let (doubts, _) = judged(links(dialled, accepted), Path::Tun, crossed);
            assert_eq!((doubts.len(), doubts[0].weight), (1, Weight::Void));
            let end = "1 connection of redis-far (dc2) with another datacenter passed the link by (end): \
                       198.18.0.70 with 198.18.0.2:16379";
            assert_eq!(doubts[0].text, end);
        }
    }

    #[test]
    fn a_node_that_stands_in_another_datacenter_too_voids_and_in_a_foreign_network_is_suspect() {
        let (doubts, _) = judged(far(&[], &["198.18.0.64/26", "198.18.0.0/26"]), Path::Tun, &[]);
        assert_eq!((doubts.len(), doubts[0].weight), (1, Weight::Void));
        assert!(
            doubts[0].text.contains("stands in the network of dc1 too"),
            "{}",
            doubts[0].text
        );
        let (doubts, _) = judged(far(&[], &["172.17.0.0/16"]), Path::Tun, &[]);
        assert_eq!((doubts.len(), doubts[0].weight), (1, Weight::Suspect));
    }

    #[test]
    fn in_stream_mode_and_without_a_look_nothing_is_doubted_and_that_is_told() {
        let path = Path::Kernel;
        let (doubts, told) = judged(far(&[REPLICATION], &["198.18.0.64/26"]), path, &[]);
        assert_eq!(doubts, []);
        assert!(told.contains("1 looks not compared"), "{told}");
        let What::PeersSeen(mut peers) = far(&[], &[]) else {
            unreachable!("it is one");
        };
        peers.error = Some("start container: no".to_owned());
        let (doubts, told) = judged(What::PeersSeen(peers), Path::Tun, &[]);
        assert_eq!(doubts, []);
        assert!(told.ends_with("redis-far not looked at: start container: no"), "{told}");
    }
}
