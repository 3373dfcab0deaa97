//! Block 12: flights per operation. Every operation at two delays; what it costs beside the link drops out of the growth.
//!
//! Clients stand across the link from their server, but for SET + WAIT, where the link lies between primary and
//! replica. All operations of one delay run at the same time, each on connections of its own: they wait for the link
//! nearly always, and the link is the same for all. So do the same operations beside their server, at leisure: what they
//! cost there is not the link's. The replica's request for everything is sent by a probe, since a
//! replica's own timers add up to a second.
//!
//! A database of a lab trusts everybody. For SCRAM the block adds one role with a password of its own making, and one
//! rule for it at the head of the server's rules; both are removed by [`close_database`], which asks nothing about how far
//! the block came. The password stands in no history and no log.

use super::scene::{Heading, REPLY, SETTLE, Scene, in_words};
use super::{BlockError, Part, waits};
use crate::findings::flights::{
    CONNECT, DELAYS_NS, Expected, GET, MULTI, PIPELINED, PSYNC, QUERY, SCRAM, SET, TRUSTED, WAIT,
};
use crate::findings::row;
use crate::names::DatacenterName;
use crate::probe::{Samples, nanoseconds};
use std::time::{Duration, Instant};
use wire::{Load, Operation, Pace};

/// Prefix of all keys.
const KEY: &str = "testbed:flights:";
/// Keys of the writes.
const KEYS: u32 = 10;
const VALUE_BYTES: u32 = 32;
/// SETs of a transaction.
const SETS: u32 = 2;
/// Operations before those that count, on each connection.
const WARMUP: u32 = 1;
/// PSYNCs that count: each has the server save and drop the save, so they last longest.
const PSYNCS: u32 = 21;
/// Operations that count, of 2 flights, of 4 and of 8: they last nearly as long as the PSYNCs.
const COUNTS: [u32; 3] = [60, 32, 34];
/// Operations beside the server, and the pause between two.
const BESIDES: (u32, Duration) = (22, Duration::from_millis(180));
/// Most flights of an operation of which one connection does all; a longer one is spread over two, so that none takes much
/// longer than the PSYNCs. Not more: proving a password is work for both ends, and four at a time wait for a processor.
const FLIGHTS_OF_ONE: u32 = 4;
/// WAIT's own limit.
const WAIT_LIMIT_MS: u64 = 5000;
const PACE: Pace = Pace::Closed { pause_ns: 0 };
/// Round trips of the link beside the operations, from each end, and the pause between two.
const BESIDE: (u32, Duration) = (50, Duration::from_millis(20));
/// Role that has to prove its password.
const ROLE: &str = "testbed_flights";
/// Between two looks at the database.
const LOOK: Duration = Duration::from_millis(10);

pub fn method() -> String {
    format!(
        "At {} and at {} one way: from the probe across the link to the primary a TCP connection, GET, SET, MULTI with {SETS} SETs and EXEC (each \
         after the reply to the one before, and all written at once), and `PSYNC ? -1` until its first reply, on a new connection that is \
         opened untimed; from the other probe to the database a session of a trusted role and of one that has to prove its password \
         (scram-sha-256), from the first packet until the server is ready, without TLS, and a prepared query; and SET followed by WAIT 1 after its \
         reply, from the probe beside the primary, with only the far replica attached. {}, all operations at the same time, each on one \
         connection, those of 8 flights on two; {} of each that count, {} of those of 4 flights, {} of those of 8, {PSYNCS} PSYNCs. At the same time the same \
         from the probe beside the server, {} of each, {} (not WAIT and PSYNC). TCP_NODELAY everywhere. Round trip: \
         datagrams between the probes, both ways, all the while.",
        row::time(DELAYS_NS[0]),
        row::time(DELAYS_NS[1]),
        in_words(PACE),
        COUNTS[0],
        COUNTS[1],
        COUNTS[2],
        BESIDES.0,
        in_words(pause()),
    )
}

fn pause() -> Pace {
    Pace::Closed {
        pause_ns: nanoseconds(BESIDES.1),
    }
}

/// Every key that the block writes.
pub fn keys() -> Vec<String> {
    let written = ["set:", "wait:"]
        .into_iter()
        .flat_map(|part| (0..KEYS).map(move |i| format!("{KEY}{part}{i}")));
    let transactions = ["multi:", "pipelined:"].into_iter();
    let transactions = transactions.flat_map(|part| (0..SETS).map(move |i| format!("{KEY}{part}{i}")));
    written.chain(transactions).chain([format!("{KEY}get:0")]).collect()
}

pub async fn measure(scene: &mut Scene<'_>) -> Result<(), BlockError> {
    waits::far_only(scene).await?;
    let read = format!("{KEY}get:0");
    scene.command(&scene.cast.primary, &["SET", &read, "x"]).await?;
    let password = open_database(scene).await?;
    for delay_ns in DELAYS_NS {
        scene.set_delay(delay_ns).await?;
        scene.progress(&format!("every operation at {} one way", row::time(delay_ns)));
        at_delay(scene, &password, delay_ns).await?;
    }
    Ok(())
}

async fn at_delay(scene: &mut Scene<'_>, password: &str, delay_ns: u64) -> Result<(), BlockError> {
    let mut all = timed(scene, password);
    let beside: Vec<Timed> = all.iter().filter_map(Timed::beside).collect();
    all.extend(beside);
    let measured = scene
        .round_trips_beside(delay_ns, BESIDE, async |scene| {
            let loads = all.iter().map(|timed| timed.perform(scene));
            futures_util::future::try_join_all(loads).await
        })
        .await?;
    for (timed, measured) in all.into_iter().zip(measured) {
        let heading = Heading {
            row: timed.row,
            what: timed.expected.what,
            path: format!("{} probe -> {}", timed.from, timed.to.shown()),
            delay_ns: Some(delay_ns),
            warmup: WARMUP,
            pace: in_words(timed.pace),
        };
        scene.series(heading, measured)?;
    }
    Ok(())
}

/// An operation, from where to where.
#[derive(Clone)]
struct Timed {
    row: &'static str,
    expected: Expected,
    from: DatacenterName,
    to: Part,
    operation: Operation,
    connections: u32,
    count: u32,
    pace: Pace,
}

impl Timed {
    fn new(expected: Expected, from: &DatacenterName, to: &Part, operation: Operation) -> Self {
        let count = match expected.flights {
            _ if expected == PSYNC => PSYNCS,
            0..=2 => COUNTS[0],
            3..=4 => COUNTS[1],
            _ => COUNTS[2],
        };
        Self {
            row: expected.row,
            expected,
            from: from.clone(),
            to: to.clone(),
            operation,
            connections: expected.flights.div_ceil(FLIGHTS_OF_ONE),
            count,
            pace: PACE,
        }
    }

    /// The same from the probe beside the server.
    fn beside(&self) -> Option<Self> {
        Some(Self {
            row: self.expected.beside?,
            from: self.to.datacenter.clone(),
            connections: 1,
            count: BESIDES.0,
            pace: pause(),
            ..self.clone()
        })
    }

    async fn perform(&self, scene: &Scene<'_>) -> Result<Samples, BlockError> {
        let load = Load {
            target: self.to.target,
            operation: self.operation.clone(),
            connections: self.connections,
            warmup: WARMUP,
            count: self.count,
            for_ns: None,
            pace: self.pace,
            timeout_ns: nanoseconds(REPLY),
        };
        scene.load(&self.from, load).await
    }
}

/// All of them.
fn timed(scene: &Scene<'_>, password: &str) -> Vec<Timed> {
    let cast = scene.cast;
    let cache = |expected, operation| Timed::new(expected, &cast.away, &cast.primary, operation);
    let database = |expected, operation| Timed::new(expected, &cast.home, scene.database(), operation);
    let multi = |part: &str, pipelined| Operation::Multi {
        key: format!("{KEY}{part}:"),
        sets: SETS,
        pipelined,
    };
    let login = |user: &str, password: Option<&str>| Operation::PostgresConnect {
        user: user.to_owned(),
        password: password.map(str::to_owned),
        database: "postgres".to_owned(),
    };
    let get = Operation::Get {
        key: format!("{KEY}get:"),
        keys: 1,
        stride: 1,
    };
    let set = Operation::Set {
        key: format!("{KEY}set:"),
        keys: KEYS,
        value_bytes: VALUE_BYTES,
    };
    let wait = Operation::SetWait {
        key: format!("{KEY}wait:"),
        keys: KEYS,
        value_bytes: VALUE_BYTES,
        replicas: 1,
        wait_timeout_ms: WAIT_LIMIT_MS,
    };
    let query = Operation::PostgresRead {
        sql: "SELECT $1::integer".to_owned(),
        keys: KEYS,
        stride: 1,
    };
    vec![
        cache(CONNECT, Operation::Connect),
        cache(GET, get),
        cache(SET, set),
        Timed::new(WAIT, &cast.home, &cast.primary, wait),
        cache(MULTI, multi("multi", false)),
        cache(PIPELINED, multi("pipelined", true)),
        cache(PSYNC, Operation::Psync),
        database(TRUSTED, login("postgres", None)),
        database(SCRAM, login(ROLE, Some(password))),
        database(QUERY, query),
    ]
}

/// The rule that asks the role for its password. Where a server looks for the first rule that fits, it must stand first.
fn rule() -> String {
    format!("host all {ROLE} all scram-sha-256")
}

/// Makes the role and its rule; the password.
async fn open_database(scene: &Scene<'_>) -> Result<String, BlockError> {
    let password: String = std::iter::repeat_with(fastrand::alphanumeric).take(24).collect();
    // A statement that fails is logged by the server, with its text: this one has a secret.
    let role = format!(
        "SET log_min_error_statement = panic; SET password_encryption = 'scram-sha-256'; DROP ROLE IF EXISTS {ROLE}; \
         CREATE ROLE {ROLE} LOGIN PASSWORD '{password}'"
    );
    scene.sql(scene.database(), role, REPLY).await?;
    rewrite_rules(scene, "rule || rules", "NOT starts_with(rules, rule)").await?;
    Ok(password)
}

/// Removes the role and its rule, if they are there.
pub async fn close_database(scene: &Scene<'_>) -> Result<(), BlockError> {
    let role = format!("DROP ROLE IF EXISTS {ROLE}");
    scene.sql(scene.database(), role, REPLY).await?;
    rewrite_rules(scene, "substr(rules, length(rule) + 1)", "starts_with(rules, rule)").await
}

/// Replaces the rules of the server by an expression of `rules` (the file as it is) and `rule` (ours, a line) if a
/// condition of the same holds, and waits until they are in force.
///
/// The file is written byte by byte as it is read, through a large object that is gone before anybody sees it: COPY would
/// escape what it does not like.
async fn rewrite_rules(scene: &Scene<'_>, expression: &str, condition: &str) -> Result<(), BlockError> {
    let database = scene.database();
    let loaded = scene.query(database, "SELECT pg_conf_load_time()::text").await?;
    let rule = rule();
    let rewrite = format!(
        "DO $$ DECLARE file text := current_setting('hba_file'); rules text := pg_read_file(file); \
         rule text := '{rule}' || chr(10); object oid; \
         BEGIN IF {condition} THEN object := lo_from_bytea(0, convert_to({expression}, 'UTF8')); \
         PERFORM lo_export(object, file); PERFORM lo_unlink(object); END IF; END $$; \
         SELECT pg_reload_conf()"
    );
    scene.sql(database, rewrite, REPLY).await?;
    // A new session begins with what the server has read by then.
    let read = format!("SELECT (pg_conf_load_time() > '{loaded}')::integer::text");
    let began = Instant::now();
    loop {
        let seen = scene.query(database, &read).await?;
        if seen == "1" {
            return Ok(());
        }
        if began.elapsed() > SETTLE {
            return Err(BlockError::NotSeen {
                wanted: format!("{} read its rules again", database.shown()),
                limit: SETTLE,
                seen: format!("rules of {loaded}"),
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_written_is_known() {
        let keys = keys();
        for key in ["get:0", "set:9", "wait:9", "multi:1", "pipelined:1"] {
            assert!(keys.contains(&format!("{KEY}{key}")), "{key}");
        }
        assert_eq!(keys.len(), 2 * 10 + 2 * 2 + 1);
    }

    #[test]
    fn the_rule_names_the_role_and_nobody_else() {
        assert_eq!(rule(), "host all testbed_flights all scram-sha-256");
    }
}
