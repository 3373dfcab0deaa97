//! CLUSTER INFO, CLUSTER NODES and INFO replication as the words of the wire. Pure; what a version adds is skipped.

use super::super::reply;
use redis::Value;
use std::collections::HashMap;
use wire::{NodeState, Passing, PeerState};

/// What the three replies say, and the figures that change all the time; the first error reply is the reason.
pub fn of(replies: Vec<Value>) -> (Result<NodeState, String>, Passing) {
    let mut texts = Vec::new();
    for reply in replies {
        match text(reply) {
            Ok(text) => texts.push(text),
            Err(reason) => return (Err(reason), Passing::default()),
        }
    }
    match texts.as_slice() {
        [cluster, nodes, replication] => (Ok(state(cluster, nodes, replication)), passing(cluster, replication)),
        _ => (Err("three replies were expected".to_owned()), Passing::default()),
    }
}

fn text(reply: Value) -> Result<String, String> {
    match reply {
        Value::ServerError(error) => Err(reply::error_text(&error)),
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(text),
        other => Err(format!("unexpected {other:?}")),
    }
}

fn state(cluster: &str, nodes: &str, replication: &str) -> NodeState {
    NodeState {
        cluster_state: field(cluster, "cluster_state").unwrap_or_default().to_owned(),
        current_epoch: number(cluster, "cluster_current_epoch").unwrap_or_default(),
        role: field(replication, "role").unwrap_or_default().to_owned(),
        upstream: number(replication, "master_host"),
        link_up: field(replication, "master_link_status") == Some("up"),
        peers: peers(nodes),
    }
}

fn passing(cluster: &str, replication: &str) -> Passing {
    // A replica's own `master_repl_offset` is what it has applied as well, but only once its link was up.
    let offset = match field(replication, "role") {
        Some("slave") => "slave_repl_offset",
        _ => "master_repl_offset",
    };
    Passing {
        offset_bytes: number(replication, offset),
        heard_ago_s: number(replication, "master_last_io_seconds_ago"),
        down_since_s: number(replication, "master_link_down_since_seconds"),
        votes_asked: number(cluster, "cluster_stats_messages_auth-req_sent"),
        votes_given: number(cluster, "cluster_stats_messages_auth-ack_sent"),
    }
}

/// Lines of CLUSTER NODES: `<id> <address:port@bus,name> <flags> <master> <ping> <pong> <epoch> <link> <slots>...`.
fn peers(nodes: &str) -> Vec<PeerState> {
    let lines: Vec<Vec<&str>> = nodes
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words.len() >= 8)
        .collect();
    let addresses: HashMap<&str, &str> = lines.iter().map(|words| (words[0], address(words[1]))).collect();
    let mut peers: Vec<PeerState> = lines
        .iter()
        .map(|words| PeerState {
            address: address(words[1]).to_owned(),
            flags: words[2].to_owned(),
            of: (words[3] != "-").then(|| addresses.get(words[3]).unwrap_or(&words[3]).to_string()),
            epoch: words[6].parse().unwrap_or_default(),
            connected: words[7] == "connected",
            slots: words[8..].join(" "),
        })
        .collect();
    peers.sort();
    peers
}

fn address(word: &str) -> &str {
    word.split_once('@').map_or(word, |(address, _)| address)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim_end())
}

fn number<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
    field(text, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "bb 198.18.2.3:6379@16379 slave aa 0 1426238316232 2 connected\n\
        aa 198.18.0.3:6379@16379,node-1,,shard-id=69bc myself,master - 0 0 2 connected 0-5460 7000 [93->-cc]\n\
        cc 198.18.2.4:6379@16379 master,fail? - 1426238317741 1426238316232 3 disconnected 10923-16383\n\
        dd :0@0 slave,fail,noaddr ee 0 0 1 disconnected\n";

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn lines_of_all_versions_are_read_and_ids_become_addresses() {
        let peers = peers(NODES);
        let told = |peer: &PeerState| {
            (
                peer.address.clone(),
                peer.flags.clone(),
                peer.of.clone(),
                peer.slots.clone(),
            )
        };
        let line = |a: &str, f: &str, of: Option<&str>, s: &str| (a.into(), f.into(), of.map(str::to_owned), s.into());
        assert_eq!(
            peers.iter().map(told).collect::<Vec<_>>(),
            [
                line("198.18.0.3:6379", "myself,master", None, "0-5460 7000 [93->-cc]"),
                line("198.18.2.3:6379", "slave", Some("198.18.0.3:6379"), ""),
                line("198.18.2.4:6379", "master,fail?", None, "10923-16383"),
                line(":0", "slave,fail,noaddr", Some("ee"), ""),
            ]
        );
        assert_eq!((peers[2].epoch, peers[2].connected), (3, false));
    }

    #[test]
    fn a_replica_tells_its_upstream_and_how_old_its_data_is() {
        let replication = "# Replication\r\nrole:slave\r\nmaster_host:198.18.0.3\r\nmaster_link_status:down\r\n\
            master_last_io_seconds_ago:-1\r\nmaster_repl_offset:9\r\nslave_repl_offset:7\r\nmaster_link_down_since_seconds:3\r\n";
        let cluster = "cluster_state:fail\r\ncluster_current_epoch:6\r\nnews:1\r\n\
            cluster_stats_messages_auth-ack_sent:2\r\n";
        let (seen, last) = of(vec![bulk(cluster), bulk(NODES), bulk(replication)]);
        let seen = seen.unwrap();
        assert_eq!((seen.cluster_state.as_str(), seen.current_epoch), ("fail", 6));
        assert_eq!((seen.role.as_str(), seen.link_up), ("slave", false));
        assert_eq!(seen.upstream.unwrap().to_string(), "198.18.0.3");
        let figures = (last.offset_bytes, last.heard_ago_s, last.down_since_s);
        assert_eq!(figures, (Some(7), Some(-1), Some(3)));
        assert_eq!((last.votes_asked, last.votes_given), (None, Some(2)));
    }

    #[test]
    fn an_error_reply_or_a_reply_of_another_kind_is_the_reason() {
        let loading = redis::parse_redis_value(b"-LOADING later\r\n").unwrap();
        assert_eq!(of(vec![bulk(""), loading, bulk("")]).0, Err("LOADING later".into()));
        assert!(of(vec![bulk(""), Value::Int(3), bulk("")]).0.is_err());
        assert!(of(vec![bulk("")]).0.is_err());
    }
}
