//! Writes whose acknowledgement is kept key by key, and the count of what is still there afterwards.
//!
//! The ledger ends at the first connection that breaks: what was in flight then has no acknowledgement, and
//! what comes after was never sent and has no entry. It never writes a key twice.

use super::{Connection, RedisError, accept, pack};
use crate::clock;
use crate::pace::{Course, Lane, Step};
use redis::Value;
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::{Pace, ProbeAnswer, Written};

/// GETs sent in one write by the audit: few enough that neither side's buffers fill.
const AUDIT_CHUNK: u32 = 256;

/// What is written and how.
pub struct Ledger {
    /// The server.
    pub target: SocketAddrV4,
    /// Key prefix.
    pub prefix: String,
    /// Number of keys.
    pub count: u32,
    /// Size of a value.
    pub value_bytes: u32,
    /// Closed or open loop.
    pub pace: Pace,
    /// Limit of the connection and of each reply.
    pub limit: Duration,
}

impl Ledger {
    /// Writes the keys; only a connection that cannot be opened at all is an error.
    pub fn write(&self) -> Result<ProbeAnswer, RedisError> {
        clock::sharpen();
        let mut connection = Connection::open(self.target, self.limit)?;
        let nodelay = connection.nodelay();
        let course = Course {
            pace: self.pace,
            count: self.count,
            lanes: 1,
            start_ns: clock::now_ns(),
            end_ns: None,
        };
        let mut lane = Lane::new(course, 0);
        let mut writes = Vec::new();
        let mut first_error = None;
        while let Step::Start { i, intended_ns } = lane.step(clock::now_ns()) {
            let packed = pack(&[b"SET", key(&self.prefix, i).as_bytes(), &value(i, self.value_bytes)]);
            clock::sleep_until(intended_ns);
            let sent_ns = clock::now_ns();
            let written = connection.ask(&packed, self.limit).and_then(|timed| {
                accept(timed.value)?;
                Ok(timed.ended_ns)
            });
            writes.push(Written {
                i,
                sent_ns,
                acknowledged_ns: written.as_ref().ok().copied(),
            });
            if let Err(error) = written {
                let breaks = error.breaks();
                first_error.get_or_insert_with(|| format!("key {i}: {error}"));
                if breaks {
                    break;
                }
            }
        }
        Ok(ProbeAnswer::Ledger {
            writes,
            error: first_error,
            nodelay,
        })
    }
}

/// Numbers of the keys that exist with the value that a ledger wrote.
pub fn audit(target: SocketAddrV4, prefix: &str, count: u32, limit: Duration) -> Result<Vec<u32>, RedisError> {
    let mut connection = Connection::open(target, limit)?;
    let mut present = Vec::new();
    let mut first = 0;
    while first < count {
        let chunk = first..count.min(first.saturating_add(AUDIT_CHUNK));
        first = chunk.end;
        // GETs in one write and not MGET: a cluster refuses keys of several slots in one command.
        let packed: Vec<u8> = chunk
            .clone()
            .flat_map(|i| pack(&[b"GET", key(prefix, i).as_bytes()]))
            .collect();
        connection.send(&packed)?;
        for i in chunk {
            match accept(connection.receive(limit)?)? {
                Value::BulkString(found) if is_value(i, &found) => present.push(i),
                Value::BulkString(_) | Value::Nil => {}
                other => return Err(RedisError::unexpected("GET", &other)),
            }
        }
    }
    Ok(present)
}

fn key(prefix: &str, i: u32) -> String {
    format!("{prefix}{i}")
}

/// `<i>:` and then padding up to `bytes`; longer only if `bytes` has no room for the number.
fn value(i: u32, bytes: u32) -> Vec<u8> {
    let mut value = format!("{i}:").into_bytes();
    value.resize(value.len().max(bytes as usize), b'x');
    value
}

/// Whether `found` is what [`value`] makes for `i`, of any size.
fn is_value(i: u32, found: &[u8]) -> bool {
    found
        .strip_prefix(format!("{i}:").as_bytes())
        .is_some_and(|padding| padding.iter().all(|&byte| byte == b'x'))
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Act, bulk, ok, serve};
    use super::*;

    #[test]
    fn a_value_is_its_number_and_padding() {
        assert_eq!(value(7, 5), b"7:xxx");
        assert_eq!(value(1234, 3), b"1234:");
        assert!(is_value(7, b"7:xxx") && is_value(7, b"7:"));
    }

    #[test]
    fn another_keys_value_is_not_taken_for_it() {
        assert!(!is_value(7, b"77:xx"));
        assert!(!is_value(77, b"7:xxx"));
        assert!(!is_value(7, b"7:xyx"));
        assert!(!is_value(7, b""));
    }

    fn ledger(target: SocketAddrV4) -> Ledger {
        let limit = Duration::from_secs(5);
        let pace = Pace::Closed { pause_ns: 0 };
        Ledger {
            target,
            prefix: "p".into(),
            count: 6,
            value_bytes: 4,
            pace,
            limit,
        }
    }

    fn written(ledger: &Ledger) -> (Vec<Written>, Option<String>) {
        let ProbeAnswer::Ledger {
            writes,
            error,
            nodelay: true,
        } = ledger.write().unwrap()
        else {
            panic!("not a ledger with TCP_NODELAY")
        };
        (writes, error)
    }

    #[test]
    fn a_refused_write_has_no_acknowledgement_and_the_ledger_goes_on() {
        let target = serve(|command| match command[1].as_str() {
            "p2" | "p3" => Act::Say("-NOREPLICAS too few\r\n".into()),
            _ => ok(),
        });
        let (writes, error) = written(&ledger(target));
        assert_eq!(
            writes.iter().map(|write| write.i).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5]
        );
        let acknowledged: Vec<_> = writes
            .iter()
            .filter(|write| write.acknowledged_ns.is_some())
            .map(|w| w.i)
            .collect();
        assert_eq!(acknowledged, [0, 1, 4, 5]);
        assert_eq!(error.unwrap(), "key 2: NOREPLICAS too few");
    }

    #[test]
    fn a_broken_connection_ends_the_ledger_with_the_write_in_flight() {
        let target = serve(|command| if command[1] == "p3" { Act::Close } else { ok() });
        let (writes, error) = written(&ledger(target));
        assert_eq!(writes.len(), 4);
        assert_eq!(writes[3].acknowledged_ns, None);
        assert!(
            writes
                .iter()
                .all(|write| write.acknowledged_ns.is_none_or(|at| at >= write.sent_ns))
        );
        assert_eq!(error.unwrap(), "key 3: connection closed by the server");
    }

    #[test]
    fn a_ledger_without_a_server_is_an_error() {
        let target = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1);
        assert!(matches!(ledger(target).write(), Err(RedisError::Dial(_))));
    }

    #[test]
    fn the_audit_counts_only_what_the_ledger_wrote() {
        let target = serve(|command| {
            let i: u32 = command[1].trim_start_matches('p').parse().unwrap();
            match i % 4 {
                0 => Act::Say("$-1\r\n".into()),
                1 => Act::Say(bulk("1:other")),
                _ => Act::Say(bulk(&format!("{i}:xx"))),
            }
        });
        let count = 2 * AUDIT_CHUNK + 3;
        let present = audit(target, "p", count, Duration::from_secs(5)).unwrap();
        assert_eq!(present, (0..count).filter(|i| i % 4 >= 2).collect::<Vec<_>>());
        assert!(audit(target, "p", 0, Duration::from_secs(5)).unwrap().is_empty());
    }

    #[test]
    fn an_audit_that_is_refused_is_an_error_and_not_a_loss() {
        let target = serve(|_| Act::Say("-LOADING later\r\n".into()));
        let error = audit(target, "p", 3, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.to_string(), "LOADING later");
    }
}
