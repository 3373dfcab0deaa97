//! The cluster bus as a node lists it itself: `CLUSTER LINKS`, which Redis has since 7.0 and Valkey from its beginning. It names
//! peers by id and no ports; addresses come from `CLUSTER NODES` of the same node.

use super::{MemberLine, Unreadable};
use std::net::Ipv4Addr;
use wire::Reply;

/// A connection of the bus. Between two nodes there are two, one that each has dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusLink {
    /// The other node.
    pub peer: Ipv4Addr,
    /// Whether the node that was asked has dialled it.
    pub dialled: bool,
}

/// The links of a node, from its reply to `CLUSTER LINKS` and the members that it knows.
///
/// # Errors
/// An entry that is none, or a peer that is no member or has no address.
pub fn bus_links(reply: &Reply, members: &[MemberLine]) -> Result<Vec<BusLink>, Unreadable> {
    let unreadable = |entry: &Reply| Unreadable {
        what: "CLUSTER LINKS",
        line: crate::replication::text_of(entry),
    };
    let Reply::Array(entries) = reply else {
        return Err(unreadable(reply));
    };
    let link = |entry| link(entry, members).ok_or_else(|| unreadable(entry));
    entries.iter().map(link).collect()
}

fn link(entry: &Reply, members: &[MemberLine]) -> Option<BusLink> {
    let Reply::Array(fields) = entry else {
        return None;
    };
    let field = |name: &str| {
        let mut pairs = fields.chunks_exact(2);
        pairs.find_map(|pair| match pair {
            [Reply::Text(key), Reply::Text(value)] if key == name => Some(value.as_str()),
            _ => None,
        })
    };
    let id = field("node")?;
    Some(BusLink {
        peer: members.iter().find(|member| member.id == id)?.address?,
        dialled: match field("direction")? {
            "to" => true,
            "from" => false,
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";

    /// As Redis 7.0.15 replies over RESP2.
    fn entry(direction: &str, id: &str) -> Reply {
        let text = |text: &str| Reply::Text(text.to_owned());
        Reply::Array(vec![
            text("direction"),
            text(direction),
            text("node"),
            text(id),
            text("create-time"),
            Reply::Integer(1_700_000_000_000),
            text("events"),
            text("r"),
            text("send-buffer-allocated"),
            Reply::Integer(0),
            text("send-buffer-used"),
            Reply::Integer(0),
        ])
    }

    fn known() -> Vec<MemberLine> {
        let nodes = format!(
            "{A} 198.18.1.4:6379@16379 myself,master - 0 0 1 connected 0-16383\n\
             {B} 198.18.1.5:6379@16379 slave {A} 0 1700000000000 1 connected\n"
        );
        super::super::members(&nodes).unwrap()
    }

    #[test]
    fn both_connections_of_a_pair_are_read() {
        let reply = Reply::Array(vec![entry("to", B), entry("from", B)]);
        let peer = Ipv4Addr::new(198, 18, 1, 5);
        let expected = [true, false].map(|dialled| BusLink { peer, dialled });
        assert_eq!(bus_links(&reply, &known()).unwrap(), expected);
    }

    #[test]
    fn what_is_not_understood_is_an_error_and_no_link_less() {
        let wrong = [
            Reply::Text("OK".to_owned()),
            Reply::Array(vec![Reply::Integer(1)]),
            Reply::Array(vec![entry("to", B), entry("beside", B)]),
            Reply::Array(vec![entry("to", &B.replace('2', "3"))]),
        ];
        for reply in wrong {
            assert!(bus_links(&reply, &known()).is_err(), "{reply:?}");
        }
    }
}
