//! A cluster as values: what its nodes say of it (`CLUSTER NODES`, `CLUSTER INFO`), and whether they sit where the
//! topology wants them. Hash slots and the links of the bus have files of their own.
//!
//! Pure: texts in, values out. Redis and Valkey write both texts alike. What is not understood is an error with the line
//! in it, never a node less.

mod links;
mod slots;

pub use links::{BusLink, bus_links};
pub use slots::{BadSlots, SLOTS, Slots, slot_of};

use crate::replication::field;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// The cluster bus of a node listens this far above its port.
pub const BUS_OFFSET: u16 = 10_000;

/// A line of `CLUSTER NODES`: a node as another one, or it itself, sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberLine {
    /// Its id, 40 hexadecimal digits.
    pub id: String,
    /// Its address (`None`: not known yet).
    pub address: Option<Ipv4Addr>,
    /// Whether it is the node that was asked.
    pub myself: bool,
    /// Whether it is a master.
    pub master: bool,
    /// Id of the master that it replicates (`None`: it is one, or has none yet).
    pub master_id: Option<String>,
    /// How the one that was asked judges it.
    pub health: Health,
    /// Epoch of its slots.
    pub config_epoch: u64,
    /// Whether the bus connection to it is up; of the node itself always.
    pub connected: bool,
    /// Slots that it serves; those that are being moved count where they are.
    pub slots: Slots,
}

/// What a node thinks of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It answers.
    Fine,
    /// It has not answered for the node timeout (`fail?`): one node's opinion.
    Suspected,
    /// A majority agrees that it does not answer (`fail`).
    Failed,
    /// It has not been met yet (`handshake`), or its address is unknown (`noaddr`).
    Unmet,
}

impl Health {
    /// As tables show it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Suspected => "suspected",
            Self::Failed => "failed",
            Self::Unmet => "unmet",
        }
    }
}

/// `CLUSTER INFO` of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterState {
    /// Whether it serves: `cluster_state` is `ok`.
    pub ok: bool,
    /// Slots that have an owner.
    pub slots_assigned: u16,
    /// Slots whose owner is neither suspected nor failed.
    pub slots_ok: u16,
    /// Nodes that it knows, itself included.
    pub known_nodes: u32,
    /// Masters with slots.
    pub size: u32,
    /// Largest epoch of the cluster that it has seen.
    pub current_epoch: u64,
    /// Its own epoch.
    pub my_epoch: u64,
}

/// A text that a node did not write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{line}` as a part of {what}")]
pub struct Unreadable {
    /// The command.
    pub what: &'static str,
    /// What is not understood.
    pub line: String,
}

/// Where a node should sit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Its name.
    pub node: String,
    /// Where it stands.
    pub datacenter: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Slots of a master, none of a replica.
    pub slots: Slots,
    /// Name of the master that it replicates.
    pub master: Option<String>,
}

/// The nodes of a cluster from the text of `CLUSTER NODES`.
///
/// # Errors
/// The first line that is none.
pub fn members(text: &str) -> Result<Vec<MemberLine>, Unreadable> {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            member(line).ok_or_else(|| Unreadable {
                what: "CLUSTER NODES",
                line: line.to_owned(),
            })
        })
        .collect()
}

/// `ID IP:PORT@BUS[,HOSTNAME...] FLAGS MASTER PING PONG EPOCH LINK SLOT...`
fn member(line: &str) -> Option<MemberLine> {
    let mut words = line.split(' ');
    let id = words.next().filter(|id| id.len() == 40)?.to_owned();
    let (host, _) = words.next()?.split_once('@')?;
    let (host, _) = host.rsplit_once(':')?;
    let flags: Vec<&str> = words.next()?.split(',').collect();
    let master_id = Some(words.next()?).filter(|id| *id != "-").map(str::to_owned);
    let _sent = words.next()?;
    let _heard = words.next()?;
    let config_epoch = words.next()?.parse().ok()?;
    let connected = words.next()? == "connected";
    let flag = |name: &str| flags.contains(&name);
    let health = if flag("handshake") || flag("noaddr") {
        Health::Unmet
    } else if flag("fail") {
        Health::Failed
    } else if flag("fail?") {
        Health::Suspected
    } else {
        Health::Fine
    };
    let mut slots = Slots::default();
    // `[93-<-ID]` is a slot on its way in or out.
    for word in words.filter(|word| !word.starts_with('[')) {
        slots = slots.with(&Slots::parse(word).ok()?);
    }
    Some(MemberLine {
        id,
        address: host.parse().ok(),
        myself: flag("myself"),
        master: flag("master"),
        master_id,
        health,
        config_epoch,
        connected: connected || flag("myself"),
        slots,
    })
}

impl ClusterState {
    /// From the text of `CLUSTER INFO`.
    ///
    /// # Errors
    /// A field is not there.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        fn number<T: std::str::FromStr>(text: &str, name: &'static str) -> Result<T, Unreadable> {
            let value = field(text, name).and_then(|value| value.parse().ok());
            value.ok_or_else(|| Unreadable {
                what: "CLUSTER INFO",
                line: field(text, name).map_or_else(|| format!("no {name}"), |value| format!("{name}:{value}")),
            })
        }
        let state: String = number(text, "cluster_state")?;
        Ok(Self {
            ok: state == "ok",
            slots_assigned: number(text, "cluster_slots_assigned")?,
            slots_ok: number(text, "cluster_slots_ok")?,
            known_nodes: number(text, "cluster_known_nodes")?,
            size: number(text, "cluster_size")?,
            current_epoch: number(text, "cluster_current_epoch")?,
            my_epoch: number(text, "cluster_my_epoch")?,
        })
    }
}

/// The first thing in which a node's view differs from what is wanted, in words; `None`: everybody sits in their place,
/// nobody is missing, suspected or too many, and every bus connection is up.
#[must_use]
pub fn misplaced(seen: &[MemberLine], seats: &[Seat]) -> Option<String> {
    for seat in seats {
        let node = &seat.node;
        let mut lines = seen.iter().filter(|line| line.address == Some(seat.address));
        let Some(line) = lines.next() else {
            return Some(format!("it does not know `{node}`"));
        };
        if lines.next().is_some() {
            return Some(format!("it knows `{node}` twice"));
        }
        if line.health != Health::Fine {
            return Some(format!("`{node}` is {}", line.health.as_str()));
        }
        if let Some(elsewhere) = sits_elsewhere(seat, line, seen, seats) {
            return Some(elsewhere);
        }
        if !line.connected {
            return Some(format!("its bus connection to `{node}` is not up"));
        }
    }
    let stranger = seen
        .iter()
        .find(|line| !seats.iter().any(|seat| Some(seat.address) == line.address));
    stranger.map(|line| format!("it knows {:?}, which is not of this cluster", line.address))
}

/// All nodes that sit elsewhere than is wanted, in words, whether they are well or not: a promotion moves two, and so can a
/// replica that migrates to another master.
#[must_use]
pub fn elsewhere(seen: &[MemberLine], seats: &[Seat]) -> Vec<String> {
    let known = seats.iter().filter_map(|seat| {
        let line = seen.iter().find(|line| line.address == Some(seat.address))?;
        sits_elsewhere(seat, line, seen, seats)
    });
    known.collect()
}

/// In which way a node sits elsewhere, if it does.
fn sits_elsewhere(seat: &Seat, line: &MemberLine, seen: &[MemberLine], seats: &[Seat]) -> Option<String> {
    let name = |seat: &Seat| format!("`{}` ({})", seat.node, seat.datacenter);
    let node = name(seat);
    let Some(wanted) = &seat.master else {
        if !line.master {
            return Some(format!("{node} is a replica and should be a master"));
        }
        let (has, should) = (line.slots.shown(), seat.slots.shown());
        return (line.slots != seat.slots).then(|| format!("{node} has {has} and should have {should}"));
    };
    if line.master {
        return Some(format!("{node} is a master and should be a replica"));
    }
    let master = line
        .master_id
        .as_ref()
        .and_then(|id| seen.iter().find(|line| line.id == *id));
    let address = master.and_then(|master| master.address);
    let found = seats.iter().find(|seat| Some(seat.address) == address);
    if found.is_some_and(|found| found.node == *wanted) {
        return None;
    }
    let found = found.map_or_else(|| "a node that is not of this cluster".to_owned(), name);
    let wanted = seats
        .iter()
        .find(|seat| seat.node == *wanted)
        .map_or_else(|| format!("`{wanted}`"), name);
    Some(format!("{node} is a replica of {found} and should be of {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 1, last)
    }

    /// What Redis 7.0.15 and Valkey 9.1 write for two nodes, the second of which replicates the first.
    fn view() -> String {
        format!(
            "{A} 198.18.1.4:6379@16379 myself,master - 0 0 1 connected 0-5460 5462-16383\n\
             {B} 198.18.1.5:6379@16379,,shard-id=5f slave {A} 0 1700000000000 1 connected\n"
        )
    }

    fn seats() -> Vec<Seat> {
        let seat = |node: &str, last, slots: &str, master: Option<&str>| Seat {
            node: node.to_owned(),
            datacenter: format!("dc{last}"),
            address: address(last),
            slots: Slots::parse(slots).unwrap_or_default(),
            master: master.map(str::to_owned),
        };
        vec![seat("a", 4, "0-5460,5462-16383", None), seat("b", 5, "", Some("a"))]
    }

    fn wrong(change: impl FnOnce(String) -> String) -> String {
        let text = change(view());
        misplaced(&members(&text).expect("lines of nodes"), &seats()).expect("something is wrong")
    }

    #[test]
    fn what_a_node_says_of_its_cluster_is_read() {
        let seen = members(&view()).expect("lines of nodes");
        assert_eq!(seen.len(), 2);
        assert!(seen[0].myself && seen[0].master && seen[0].connected);
        assert_eq!(seen[0].slots.count(), 16383);
        assert_eq!(seen[1].master_id.as_deref(), Some(A));
        assert_eq!((seen[1].address, seen[1].config_epoch), (Some(address(5)), 1));
        assert_eq!(misplaced(&seen, &seats()), None);
    }

    #[test]
    fn a_node_in_another_place_is_named() {
        let cases = [
            (
                wrong(|text| text.replace("5462-", "5463-")),
                "`a` (dc4) has slots 0-5460,5463-16383",
            ),
            (
                wrong(|text| text.replace(&format!("slave {A}"), &format!("slave {B}"))),
                "`b` (dc5) is a replica of `b` (dc5) and should be of `a` (dc4)",
            ),
            (wrong(|text| text.replace("slave", "slave,fail?")), "`b` is suspected"),
            (wrong(|text| text.replace("slave", "slave,fail")), "`b` is failed"),
            (
                wrong(|text| text.replace("myself,master", "myself,slave")),
                "`a` (dc4) is a replica and should be a master",
            ),
            (
                wrong(|text| text.replace("1 connected\n", "1 disconnected\n")),
                "bus connection to `b`",
            ),
            (
                wrong(|text| text.lines().next().unwrap_or_default().to_owned()),
                "does not know `b`",
            ),
            (
                wrong(|text| text.clone() + &text.replace(B, &B.replace('2', "3"))),
                "twice",
            ),
            (
                wrong(|text| text.clone() + &text.replace(".5:", ".9:").replace(".4:", ".8:")),
                "not of this cluster",
            ),
        ];
        for (said, expected) in cases {
            assert!(said.contains(expected), "{said}: {expected}");
        }
    }

    #[test]
    fn all_who_sit_elsewhere_are_told_whatever_their_health() {
        assert_eq!(elsewhere(&members(&view()).expect("lines of nodes"), &seats()), [""; 0]);
        // A promotion: the old master does not answer.
        let text = view()
            .replace("myself,master", "master,fail")
            .replace("slave", "myself,master")
            .replace(&format!("master {A}"), "master -")
            .replace(" 0-5460 5462-16383", "");
        let seen = members(&text).expect("lines of nodes");
        let told = [
            "`a` (dc4) has no slots and should have slots 0-5460,5462-16383",
            "`b` (dc5) is a master and should be a replica",
        ];
        assert_eq!(elsewhere(&seen, &seats()), told);
    }

    #[test]
    fn what_is_no_line_of_a_node_is_an_error() {
        assert!(members("ERR unknown command").is_err());
        assert!(members(&view().replace("0-5460", "0-99999")).is_err());
    }

    #[test]
    fn slots_on_their_way_do_not_count_twice() {
        let text = format!("{A} 198.18.1.4:6379@16379 myself,master - 0 0 1 connected 0-9 [5->-{B}]\n");
        assert_eq!(members(&text).expect("a line")[0].slots.count(), 10);
    }

    #[test]
    fn the_state_of_a_cluster_is_read() {
        let text = "cluster_enabled:1\r\ncluster_state:fail\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:10923\r\n\
                    cluster_known_nodes:6\r\ncluster_size:3\r\ncluster_current_epoch:6\r\ncluster_my_epoch:2\r\n";
        let info = ClusterState::parse(text).expect("a cluster's state");
        assert!(!info.ok);
        assert_eq!(
            (info.slots_ok, info.known_nodes, info.size, info.my_epoch),
            (10923, 6, 3, 2)
        );
        assert!(ClusterState::parse("ERR This instance has cluster support disabled").is_err());
    }
}
