//! Sentinels: what one says of the primary that it watches, and whether that is all that there is.
//!
//! Pure: replies in, words out. Redis and Valkey answer alike: lists of names and values.

use crate::replication::text_of;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::Reply;

/// Port on which Sentinels listen.
pub const PORT: u16 = 26_379;

/// What a Sentinel should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Where the primary is.
    pub primary: Ipv4Addr,
    /// Where its replicas are.
    pub replicas: Vec<Ipv4Addr>,
    /// Where the other Sentinels are.
    pub others: Vec<Ipv4Addr>,
}

/// The first thing that a Sentinel lacks, from its replies to `SENTINEL MASTER`, `SENTINEL REPLICAS`, `SENTINEL SENTINELS` and
/// `SENTINEL CKQUORUM`; `None`: it knows everybody, all are up, and a failover could be decided.
#[must_use]
pub fn lacks(wanted: &Watched, [master, replicas, sentinels, quorum]: [&Reply; 4]) -> Option<String> {
    let Reply::Array(_) = master else {
        return Some(format!("it says {} of its primary", text_of(master)));
    };
    if let Some(wrong) = unlike("primary", &[wanted.primary], &[fields(master)]) {
        return Some(wrong);
    }
    if let Some(wrong) = unlike("replica", &wanted.replicas, &all(replicas)) {
        return Some(wrong);
    }
    if let Some(wrong) = unlike("Sentinel", &wanted.others, &all(sentinels)) {
        return Some(wrong);
    }
    let said = text_of(quorum);
    (!said.starts_with("OK")).then(|| format!("it says {said}"))
}

fn unlike(what: &str, wanted: &[Ipv4Addr], seen: &[BTreeMap<String, String>]) -> Option<String> {
    let field = |seen: &BTreeMap<String, String>, name: &str| seen.get(name).cloned().unwrap_or_default();
    for address in wanted {
        let Some(line) = seen.iter().find(|line| field(line, "ip") == address.to_string()) else {
            return Some(format!("it does not know the {what} at {address}"));
        };
        let flags = field(line, "flags");
        if flags.contains("down") || flags.contains("disconnected") {
            return Some(format!("it sees the {what} at {address} as {flags}"));
        }
    }
    let stranger = seen.iter().map(|line| field(line, "ip"));
    let mut strangers = stranger.filter(|ip| !wanted.iter().any(|address| address.to_string() == *ip));
    let stranger = strangers.next();
    stranger.map(|ip| format!("it knows a {what} at {ip}, where there is none"))
}

fn all(reply: &Reply) -> Vec<BTreeMap<String, String>> {
    match reply {
        Reply::Array(items) => items.iter().map(fields).collect(),
        _ => Vec::new(),
    }
}

fn fields(reply: &Reply) -> BTreeMap<String, String> {
    let Reply::Array(words) = reply else {
        return BTreeMap::new();
    };
    let pairs = words.chunks_exact(2);
    pairs.map(|pair| (text_of(&pair[0]), text_of(&pair[1]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 1, last)
    }

    fn line(last: u8, flags: &str) -> Reply {
        let ip = address(last).to_string();
        let words = ["name", "x", "ip", &ip, "port", "6379", "flags", flags];
        Reply::Array(words.iter().map(|word| Reply::Text((*word).to_owned())).collect())
    }

    fn lack(master: &Reply, replicas: &[Reply], sentinels: &[Reply], quorum: &str) -> Option<String> {
        let wanted = Watched {
            primary: address(4),
            replicas: vec![address(5)],
            others: vec![address(6), address(7)],
        };
        let list = |lines: &[Reply]| Reply::Array(lines.to_vec());
        let quorum = Reply::Text(quorum.to_owned());
        lacks(&wanted, [master, &list(replicas), &list(sentinels), &quorum])
    }

    #[test]
    fn a_sentinel_that_knows_everybody_lacks_nothing() {
        let sentinels = [line(7, "sentinel"), line(6, "sentinel")];
        let ok = "OK 3 usable Sentinels. Quorum and failover authorization can be reached";
        assert_eq!(lack(&line(4, "master"), &[line(5, "slave")], &sentinels, ok), None);
    }

    #[test]
    fn what_a_sentinel_lacks_is_named() {
        let both = [line(7, "sentinel"), line(6, "sentinel")];
        let replica = [line(5, "slave")];
        let cases = [
            (
                lack(
                    &Reply::Error("ERR No such master with that name".to_owned()),
                    &replica,
                    &both,
                    "OK",
                ),
                "No such master",
            ),
            (
                lack(&line(9, "master"), &replica, &both, "OK"),
                "the primary at 198.18.1.4",
            ),
            (
                lack(&line(4, "s_down,master"), &replica, &both, "OK"),
                "as s_down,master",
            ),
            (lack(&line(4, "master"), &[], &both, "OK"), "the replica at 198.18.1.5"),
            (
                lack(&line(4, "master"), &replica, &both[..1], "OK"),
                "the Sentinel at 198.18.1.6",
            ),
            (
                lack(
                    &line(4, "master"),
                    &replica,
                    &[line(6, "x"), line(7, "x"), line(8, "x")],
                    "OK",
                ),
                "where there is none",
            ),
            (
                lack(&line(4, "master"), &replica, &both, "NOQUORUM 1 usable Sentinels."),
                "NOQUORUM",
            ),
        ];
        for (said, expected) in cases {
            let said = said.expect("something is lacking");
            assert!(said.contains(expected), "{said}: {expected}");
        }
    }
}
