//! Servers while a block runs: commands, and conditions that are waited for. Each is asked by the probe of its own
//! datacenter, so a cut link never stands in between.

use super::{LOAD, REPLY, SETTLE, Scene};
use crate::block::{BlockError, Part};
use crate::probe::nanoseconds;
use crate::replication::{Replication, SyncCounters, text_of};
use std::time::{Duration, Instant};
use wire::{ProbeAnswer, ProbeOrder, Reply};

/// Keys of one command.
const MOST_KEYS: usize = 500;
/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(5);

impl<'a> Scene<'a> {
    /// The database of the block.
    pub fn database(&self) -> &'a Part {
        let database = self.cast.database.as_ref();
        database.expect("the cast of this block has a database")
    }
}

impl Scene<'_> {
    /// Waits until no probe works for this block any more: a load goes on in its probe when nobody waits for it.
    pub async fn idle(&self) -> Result<(), BlockError> {
        let probes = [&self.cast.home, &self.cast.away].map(|datacenter| self.lab.probe(datacenter).idle(LOAD));
        if futures_util::future::join_all(probes).await.contains(&false) {
            return Err(BlockError::NotSeen {
                wanted: "the probes done with what was ordered".to_owned(),
                limit: LOAD,
                seen: "a load that goes on".to_owned(),
            });
        }
        Ok(())
    }

    /// One command, by the probe of the server's own datacenter; an error reply is an error.
    pub async fn command(&self, server: &Part, words: &[&str]) -> Result<Reply, BlockError> {
        let probe = self.lab.probe(&server.datacenter);
        match probe.redis(server.target, words, REPLY).await? {
            Reply::Error(reply) => Err(BlockError::Refused {
                server: server.shown(),
                command: words.join(" "),
                reply,
            }),
            reply => Ok(reply),
        }
    }

    /// What a server says of its replication.
    pub async fn replication(&self, server: &Part) -> Result<Replication, BlockError> {
        let reply = self.command(server, &["INFO", "replication"]).await?;
        Ok(Replication::parse(&text_of(&reply)))
    }

    /// How often the primary has synchronised a replica.
    pub async fn synchronisations(&self) -> Result<SyncCounters, BlockError> {
        let primary = &self.cast.primary;
        let reply = self.command(primary, &["INFO", "stats"]).await?;
        SyncCounters::parse(&text_of(&reply)).ok_or_else(|| other_reply(primary, "INFO stats", &reply))
    }

    /// Value of a setting (`None`: the server does not know it).
    pub async fn setting(&self, server: &Part, name: &str) -> Result<Option<String>, BlockError> {
        match self.command(server, &["CONFIG", "GET", name]).await? {
            Reply::Array(pair) => Ok(match pair.get(1) {
                Some(Reply::Text(value)) => Some(value.clone()),
                _ => None,
            }),
            reply => Err(other_reply(server, "CONFIG GET", &reply)),
        }
    }

    /// Statements without a result, by the probe of the database's own datacenter, within `limit`.
    pub async fn sql(&self, database: &Part, sql: String, limit: Duration) -> Result<(), BlockError> {
        let order = ProbeOrder::PostgresBatch {
            target: database.target,
            sql,
            timeout_ns: nanoseconds(limit),
        };
        match self.lab.probe(&database.datacenter).order(order, limit * 2).await? {
            ProbeAnswer::Done => Ok(()),
            _ => Err(BlockError::OtherAnswer { order: "SQL" }),
        }
    }

    /// First column of the first row of a query, by the probe of the database's own datacenter.
    pub async fn query(&self, database: &Part, sql: &str) -> Result<String, BlockError> {
        let probe = self.lab.probe(&database.datacenter);
        Ok(probe.postgres(database.target, sql, REPLY).await?)
    }

    /// Removes keys of a block from the primary.
    pub async fn remove_keys(&self, keys: &[String]) -> Result<(), BlockError> {
        self.count_keys("UNLINK", &self.cast.primary, keys).await?;
        Ok(())
    }

    /// How many of these keys a server has.
    pub async fn existing_keys(&self, server: &Part, keys: &[String]) -> Result<i64, BlockError> {
        self.count_keys("EXISTS", server, keys).await
    }

    async fn count_keys(&self, command: &str, server: &Part, keys: &[String]) -> Result<i64, BlockError> {
        let mut sum = 0;
        for some in keys.chunks(MOST_KEYS) {
            let words: Vec<&str> = std::iter::once(command)
                .chain(some.iter().map(String::as_str))
                .collect();
            match self.command(server, &words).await? {
                Reply::Integer(count) => sum += count,
                reply => return Err(other_reply(server, command, &reply)),
            }
        }
        Ok(sum)
    }

    /// Makes `replica` follow the primary.
    pub async fn attach(&self, replica: &Part) -> Result<(), BlockError> {
        let to = self.cast.primary.target;
        let (host, port) = (to.ip().to_string(), to.port().to_string());
        self.command(replica, &["REPLICAOF", &host, &port]).await?;
        Ok(())
    }

    /// Makes a replica a primary of its own.
    pub async fn promote(&self, replica: &Part) -> Result<(), BlockError> {
        self.command(replica, &["REPLICAOF", "NO", "ONE"]).await?;
        Ok(())
    }

    /// Waits until exactly these replicas are attached to the primary and each has applied all of its stream; the offset.
    pub async fn in_sync(&self, replicas: &[&Part]) -> Result<u64, BlockError> {
        self.applied(replicas, Some(replicas.len())).await
    }

    /// Waits until each of these has applied all of the primary's stream, whoever else is attached; the offset.
    pub async fn caught_up(&self, replicas: &[&Part]) -> Result<u64, BlockError> {
        self.applied(replicas, None).await
    }

    async fn applied(&self, replicas: &[&Part], attached: Option<usize>) -> Result<u64, BlockError> {
        let began = Instant::now();
        loop {
            let seen = match self.look_for_sync(replicas, attached).await? {
                Ok(offset) => return Ok(offset),
                Err(seen) => seen,
            };
            if began.elapsed() > SETTLE {
                let names: Vec<String> = replicas.iter().map(|replica| replica.shown()).collect();
                return Err(BlockError::NotSeen {
                    wanted: format!("{} in sync with {}", names.join(", "), self.cast.primary.shown()),
                    limit: SETTLE,
                    seen,
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// One look: the common offset, or what is not there yet.
    async fn look_for_sync(
        &self,
        replicas: &[&Part],
        attached: Option<usize>,
    ) -> Result<Result<u64, String>, BlockError> {
        let primary = self.replication(&self.cast.primary).await?;
        let known = primary.replicas.len();
        let online = primary.replicas.iter().filter(|line| line.state == "online").count();
        if let Some(wanted) = attached
            && (online != wanted || known != wanted)
        {
            return Ok(Err(format!("{online} replicas online, {known} known, {wanted} wanted")));
        }
        let Some(offset) = primary.offset_bytes else {
            return Ok(Err("no offset on the primary".to_owned()));
        };
        for replica in replicas {
            let seen = self.replication(replica).await?;
            if seen.upstream != Some(*self.cast.primary.target.ip()) {
                return Ok(Err(format!("{} follows {:?}", replica.node, seen.upstream)));
            }
            // A ping of the primary in between moves both, so beyond is as good as equal.
            match seen.offset_bytes {
                Some(applied) if seen.link_up && applied >= offset => {}
                applied => {
                    let state = seen.sync_state();
                    return Ok(Err(format!("{} {state}, at {applied:?} of {offset}", replica.node)));
                }
            }
        }
        Ok(Ok(offset))
    }
}

/// An error for a reply of another kind than the command has.
pub fn other_reply(server: &Part, command: &str, reply: &Reply) -> BlockError {
    BlockError::Refused {
        server: server.shown(),
        command: command.to_owned(),
        reply: format!("unexpected {reply:?}"),
    }
}
