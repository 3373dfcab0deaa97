//! What a primary and its replicas say of their replication: `INFO replication`, `INFO stats` and `CLIENT LIST` as values,
//! and what became of a replication connection when the link below it was cut.
//!
//! Pure: texts and stamps in, values out. Redis and Valkey use the same field names. Ages of connections have a granularity
//! of a second; where that does not allow an answer it is [`Survival::Unclear`], never a guess.

use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use wire::{LinkStatus, Reply};

/// `INFO replication` of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    /// `master` or `slave`; empty if it said nothing.
    pub role: String,
    /// Offset of the stream that it writes (primary) or has applied (replica), bytes.
    pub offset_bytes: Option<u64>,
    /// Where a replica replicates from.
    pub upstream: Option<Ipv4Addr>,
    /// Whether a replica's link is up.
    pub link_up: bool,
    /// Whether a first or full synchronisation is under way on a replica.
    pub syncing: bool,
    /// Seconds since a replica last heard from its upstream.
    pub last_heard_s: Option<i64>,
    /// Seconds since a replica's link went down, if it is.
    pub down_since_s: Option<i64>,
    /// Replicas that a server sees.
    pub replicas: Vec<ReplicaLine>,
    /// Id of its stream.
    pub stream: Option<String>,
    /// Id of the stream that it followed before it was promoted, and the offset that it had reached then, bytes.
    pub followed: Option<(String, u64)>,
}

/// A replica as its upstream sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaLine {
    /// Its address.
    pub address: Ipv4Addr,
    /// `online`, or a step of its synchronisation.
    pub state: String,
    /// Offset that it last acknowledged, bytes.
    pub offset_bytes: u64,
    /// Seconds since its last acknowledgement; it sends one each second.
    pub lag_s: u64,
}

/// Counters of a primary since its start, over all of its replicas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncCounters {
    /// Full synchronisations.
    pub full: u64,
    /// Partial resynchronisations accepted.
    pub partial_ok: u64,
    /// Partial resynchronisations refused.
    pub partial_err: u64,
}

/// The last cut on the way between two datacenters, of either direction, as ages now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCut {
    /// Nanoseconds since it began.
    pub began_ago_ns: u64,
    /// Nanoseconds since both directions were whole again (`None`: one is still cut).
    pub ended_ago_ns: Option<u64>,
}

/// What became of a replication connection at the last cut of the link that it crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Survival {
    /// It crosses no link, or that link was never cut.
    NeverCut,
    /// The link is cut now.
    StillCut,
    /// The link is whole, but nothing was acknowledged since.
    Silent,
    /// The connection is older than the cut and works: nothing was synchronised again.
    Resumed,
    /// A new connection, with a partial resynchronisation.
    Partial,
    /// A new connection, with a full synchronisation.
    Full,
    /// A new connection; the primary's counters do not tell with which synchronisation.
    MadeAnew,
    /// There is no connection.
    Absent,
    /// The granularity of a second does not allow an answer.
    Unclear,
}

impl Survival {
    /// As tables show it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverCut => "never cut",
            Self::StillCut => "cut",
            Self::Silent => "silent since the heal",
            Self::Resumed => "resumed",
            Self::Partial => "anew, partial resync",
            Self::Full => "anew, full sync",
            Self::MadeAnew => "anew",
            Self::Absent => "none",
            Self::Unclear => "unclear",
        }
    }
}

impl Replication {
    /// From the text of `INFO replication`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let role = field(text, "role").unwrap_or_default().to_owned();
        // A replica's own `master_repl_offset` is what it has applied as well, but only once its link was up.
        let offset = match role.as_str() {
            "slave" => field(text, "slave_repl_offset"),
            _ => field(text, "master_repl_offset"),
        };
        Self {
            offset_bytes: offset.and_then(|offset| offset.parse().ok()),
            upstream: field(text, "master_host").and_then(|host| host.parse().ok()),
            link_up: field(text, "master_link_status") == Some("up"),
            syncing: field(text, "master_sync_in_progress") == Some("1"),
            last_heard_s: field(text, "master_last_io_seconds_ago").and_then(|seconds| seconds.parse().ok()),
            down_since_s: field(text, "master_link_down_since_seconds").and_then(|seconds| seconds.parse().ok()),
            replicas: text.lines().filter_map(replica_line).collect(),
            stream: field(text, "master_replid").map(str::to_owned),
            followed: followed(text),
            role,
        }
    }

    /// A replica by its address.
    #[must_use]
    pub fn replica(&self, address: Ipv4Addr) -> Option<&ReplicaLine> {
        self.replicas.iter().find(|line| line.address == address)
    }

    /// Seconds for which a replica has heard nothing from its upstream, its link up or down.
    #[must_use]
    pub fn silent_s(&self) -> Option<i64> {
        self.down_since_s.or(self.last_heard_s)
    }

    /// A replica's synchronisation in words.
    #[must_use]
    pub fn sync_state(&self) -> &'static str {
        match (self.link_up, self.syncing) {
            (true, _) => "up",
            (false, true) => "synchronising",
            (false, false) => "not connected",
        }
    }
}

impl SyncCounters {
    /// From the text of `INFO stats`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number = |name| field(text, name)?.parse().ok();
        Some(Self {
            full: number("sync_full")?,
            partial_ok: number("sync_partial_ok")?,
            partial_err: number("sync_partial_err")?,
        })
    }
}

/// Value of a field of an `INFO` text.
#[must_use]
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

/// A reply as text; arrays and errors as people read them.
#[must_use]
pub fn text_of(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".to_owned(),
        Reply::Integer(number) => number.to_string(),
        Reply::Text(text) | Reply::Error(text) => text.clone(),
        Reply::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(" "),
    }
}

/// Age in seconds of the connection from `replica`, from the text of `CLIENT LIST TYPE replica` on its primary.
#[must_use]
pub fn connection_age_s(client_list: &str, replica: Ipv4Addr) -> Option<u64> {
    let ages = client_list.lines().filter_map(|line| {
        let word = |name: &str| {
            line.split(' ')
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let (address, _) = word("addr")?.rsplit_once(':')?;
        (address.parse() == Ok(replica)).then(|| word("age")?.parse().ok())?
    });
    // During a reconnection the old connection can still be listed: the youngest is the one that counts.
    ages.min()
}

/// The last cut between two datacenters that parted connections to `port`: one of the whole link, or of that port. From the
/// two directed links with the clock of the relay that told each.
#[must_use]
pub fn last_cut(directions: &[(u64, &LinkStatus)], port: u16) -> Option<LastCut> {
    let cuts = directions.iter().flat_map(|(now, link)| {
        let whole = link.last_cut_ns.map(|began_ns| (began_ns, link.last_heal_ns));
        let ports = link.last_port_cut.as_ref().filter(|cut| cut.ports.contains(&port));
        let ports = ports.map(|cut| (cut.began_ns, cut.ended_ns));
        let ago = |ns: u64| now.saturating_sub(ns);
        let both = [whole, ports].into_iter().flatten();
        both.map(move |(began_ns, ended_ns)| (ago(began_ns), ended_ns.map(ago)))
    });
    let cuts: Vec<(u64, Option<u64>)> = cuts.collect();
    let whole = cuts.iter().all(|(_, ended_ago_ns)| ended_ago_ns.is_some());
    let ended_ago_ns = cuts.iter().filter_map(|(_, ended_ago_ns)| *ended_ago_ns).min();
    Some(LastCut {
        began_ago_ns: cuts.iter().map(|(began_ago_ns, _)| *began_ago_ns).min()?,
        ended_ago_ns: ended_ago_ns.filter(|_| whole),
    })
}

/// What became of a replication connection at a cut. `line` and `age_s` are the primary's view of the replica now;
/// `before` are its counters before the cut, if anybody read them, `replicas` the number of its replicas.
#[must_use]
pub fn survival(
    cut: Option<LastCut>,
    line: Option<&ReplicaLine>,
    age_s: Option<u64>,
    now: SyncCounters,
    before: Option<SyncCounters>,
    replicas: u64,
) -> Survival {
    let Some(cut) = cut else { return Survival::NeverCut };
    let Some(ended_ago_ns) = cut.ended_ago_ns else {
        return Survival::StillCut;
    };
    let (Some(line), Some(age_s)) = (line, age_s) else {
        return Survival::Absent;
    };
    const SECOND: u64 = 1_000_000_000;
    // Both ends of an age are rounded to a second.
    let (oldest, youngest) = (
        age_s.saturating_add(1).saturating_mul(SECOND),
        age_s.saturating_sub(1).saturating_mul(SECOND),
    );
    // No connection can be made while the link is cut: it is from before the cut, or from after its end.
    let (may_be_older, may_be_newer) = (oldest >= cut.began_ago_ns, youngest <= ended_ago_ns);
    match (may_be_older, may_be_newer) {
        (true, false) if line.lag_s.saturating_add(1).saturating_mul(SECOND) > ended_ago_ns => Survival::Silent,
        (true, false) => Survival::Resumed,
        (false, true) => synchronisation(now, before, replicas),
        _ => Survival::Unclear,
    }
}

fn synchronisation(now: SyncCounters, before: Option<SyncCounters>, replicas: u64) -> Survival {
    // Without an earlier reading: each replica had one full synchronisation when the lab was made.
    let before = before.unwrap_or(SyncCounters {
        full: replicas,
        ..SyncCounters::default()
    });
    match (now.full > before.full, now.partial_ok > before.partial_ok) {
        (false, true) => Survival::Partial,
        (true, false) => Survival::Full,
        _ => Survival::MadeAnew,
    }
}

/// `second_repl_offset` is the first that is not of the stream followed before; -1 if there was none.
fn followed(text: &str) -> Option<(String, u64)> {
    let first_own: u64 = field(text, "second_repl_offset")?.parse().ok()?;
    Some((field(text, "master_replid2")?.to_owned(), first_own.checked_sub(1)?))
}

fn replica_line(line: &str) -> Option<ReplicaLine> {
    let (name, fields) = line.trim_end().split_once(':')?;
    name.strip_prefix("slave")?.parse::<u32>().ok()?;
    let word = |name: &str| {
        fields
            .split(',')
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    Some(ReplicaLine {
        address: word("ip")?.parse().ok()?,
        state: word("state")?.to_owned(),
        offset_bytes: word("offset")?.parse().ok()?,
        lag_s: word("lag")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
        slave0:ip=198.18.1.3,port=6379,state=online,offset=14,lag=0\r\n\
        slave1:ip=198.18.2.3,port=6379,state=wait_bgsave,offset=0,lag=3,type=replica\r\n\
        master_failover_state:no-failover\r\nmaster_replid:ab\r\nmaster_repl_offset:28\r\n";
    const REPLICA: &str = "role:slave\r\nmaster_host:198.18.1.2\r\nmaster_port:6379\r\nmaster_link_status:up\r\n\
        master_last_io_seconds_ago:1\r\nmaster_sync_in_progress:0\r\nslave_read_repl_offset:14\r\n\
        slave_repl_offset:14\r\nconnected_slaves:0\r\nmaster_repl_offset:14\r\n";

    fn line(lag_s: u64) -> ReplicaLine {
        ReplicaLine {
            address: Ipv4Addr::new(198, 18, 2, 3),
            state: "online".to_owned(),
            offset_bytes: 0,
            lag_s,
        }
    }

    fn cut(began: u64, ended: Option<u64>) -> Option<LastCut> {
        Some(LastCut {
            began_ago_ns: began * 1_000_000_000,
            ended_ago_ns: ended.map(|ended| ended * 1_000_000_000),
        })
    }

    #[test]
    fn a_primary_names_its_replicas() {
        let seen = Replication::parse(PRIMARY);
        assert_eq!((seen.role.as_str(), seen.offset_bytes), ("master", Some(28)));
        assert_eq!(seen.replicas.len(), 2);
        let far = seen.replica(Ipv4Addr::new(198, 18, 2, 3)).unwrap();
        assert_eq!((far.state.as_str(), far.lag_s), ("wait_bgsave", 3));
    }

    #[test]
    fn a_replica_names_its_upstream() {
        let seen = Replication::parse(REPLICA);
        assert_eq!(seen.upstream, Some(Ipv4Addr::new(198, 18, 1, 2)));
        assert!(seen.link_up && seen.replicas.is_empty());
        assert_eq!((seen.offset_bytes, seen.silent_s()), (Some(14), Some(1)));
        let down = "role:slave\r\nmaster_link_status:down\r\nmaster_last_io_seconds_ago:-1\r\nmaster_link_down_since_seconds:7\r\n";
        assert_eq!(Replication::parse(down).silent_s(), Some(7));
    }

    #[test]
    fn a_promoted_replica_names_the_stream_that_it_followed_and_how_far() {
        let say = |offset: &str| {
            let text =
                format!("role:master\r\nmaster_replid:cd\r\nmaster_replid2:ab\r\nsecond_repl_offset:{offset}\r\n");
            Replication::parse(&text)
        };
        let seen = say("29");
        assert_eq!(seen.stream.as_deref(), Some("cd"));
        assert_eq!(seen.followed, Some(("ab".to_owned(), 28)));
        assert_eq!(say("-1").followed, None);
        assert_eq!(Replication::parse(PRIMARY).followed, None);
    }

    #[test]
    fn the_youngest_connection_of_a_replica_counts() {
        let list = "id=7 addr=198.18.2.3:4242 laddr=198.18.1.2:6379 fd=9 name= age=90 idle=0 flags=S\n\
                    id=8 addr=198.18.2.3:4243 laddr=198.18.1.2:6379 fd=9 name= age=3 idle=0 flags=S\n\
                    id=9 addr=198.18.2.33:4243 laddr=198.18.1.2:6379 fd=9 name= age=1 idle=0 flags=S\n";
        assert_eq!(connection_age_s(list, Ipv4Addr::new(198, 18, 2, 3)), Some(3));
        assert_eq!(connection_age_s(list, Ipv4Addr::new(198, 18, 2, 4)), None);
    }

    #[test]
    fn a_connection_older_than_the_cut_resumed_once_it_acknowledges() {
        let counters = SyncCounters {
            full: 2,
            ..SyncCounters::default()
        };
        let say = |lag, age| survival(cut(20, Some(10)), Some(&line(lag)), Some(age), counters, None, 2);
        assert_eq!(say(0, 60), Survival::Resumed);
        assert_eq!(say(10, 60), Survival::Silent);
        assert_eq!(say(0, 15), Survival::Unclear, "no connection can begin during the cut");
    }

    #[test]
    fn a_connection_younger_than_the_heal_was_made_anew_and_the_counters_say_how() {
        let count = |full, partial_ok| SyncCounters {
            full,
            partial_ok,
            partial_err: 0,
        };
        let say = |now, before| survival(cut(20, Some(10)), Some(&line(0)), Some(5), now, before, 2);
        assert_eq!(say(count(2, 1), None), Survival::Partial);
        assert_eq!(say(count(3, 0), None), Survival::Full);
        assert_eq!(say(count(3, 1), None), Survival::MadeAnew);
        assert_eq!(say(count(3, 1), Some(count(3, 0))), Survival::Partial);
    }

    #[test]
    fn a_short_cut_and_a_young_connection_leave_it_unclear() {
        let counters = SyncCounters {
            full: 2,
            ..SyncCounters::default()
        };
        let seen = survival(cut(5, Some(4)), Some(&line(0)), Some(5), counters, None, 2);
        assert_eq!(seen, Survival::Unclear);
    }

    #[test]
    fn a_link_with_one_direction_cut_is_cut() {
        let whole = LinkStatus {
            last_cut_ns: Some(100),
            last_heal_ns: Some(200),
            ..LinkStatus::up("dc2", wire::Conditions::delay(0))
        };
        let broken = LinkStatus {
            cut: Some(wire::CutKind::Drop),
            last_heal_ns: None,
            ..whole.clone()
        };
        let seen = last_cut(&[(1000, &whole), (1000, &broken)], 6379).unwrap();
        assert_eq!((seen.began_ago_ns, seen.ended_ago_ns), (900, None));
        let seen = last_cut(&[(1000, &whole), (1010, &whole)], 6379).unwrap();
        assert_eq!((seen.began_ago_ns, seen.ended_ago_ns), (900, Some(800)));
        let never = LinkStatus {
            last_cut_ns: None,
            last_heal_ns: None,
            ..whole
        };
        assert_eq!(last_cut(&[(1000, &never)], 6379), None);
        let counters = SyncCounters::default();
        assert_eq!(survival(None, None, None, counters, None, 2), Survival::NeverCut);
    }

    #[test]
    fn a_cut_of_ports_is_one_for_the_connections_of_these_ports_alone() {
        let never = LinkStatus::up("dc2", wire::Conditions::delay(0));
        let cut = |ended_ns| LinkStatus {
            last_port_cut: Some(wire::PortCut {
                kind: wire::CutKind::Drop,
                ports: vec![6379],
                began_ns: 400,
                ended_ns,
            }),
            ..never.clone()
        };
        let ages = |ended_ns, port| {
            let seen = last_cut(&[(1000, &cut(ended_ns)), (1000, &never)], port)?;
            Some((seen.began_ago_ns, seen.ended_ago_ns))
        };
        assert_eq!(ages(None, 6379), Some((600, None)));
        assert_eq!(ages(Some(900), 6379), Some((600, Some(100))));
        assert_eq!(ages(None, 16_379), None);
    }
}
