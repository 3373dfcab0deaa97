//! When a value becomes visible on a replica: by polling a key, or by its keyspace events.
//!
//! A poll knows a bracket: the value was not there when the last poll before was answered, and it was there when
//! this one was. An event has no granularity but needs the server's configuration. Both announce
//! themselves once they see, and both end by their deadline; what was not seen is counted.

use super::{Connection, RedisError, accept, pack};
use crate::clock;
use crate::failures::Failures;
use redis::Value;
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::{ProbeAnswer, Sample};

/// Longest wait for a connection or for a reply; the deadline cuts it.
const REPLY_LIMIT: Duration = Duration::from_secs(1);

/// Pause after a broken connection, within the deadline.
const REOPEN_PAUSE_NS: u64 = 10_000_000;

/// A key whose ascending values are waited for.
pub struct Poll {
    /// The replica.
    pub target: SocketAddrV4,
    /// The key.
    pub key: String,
    /// Last value waited for.
    pub count: u32,
    /// Between the end of a poll and the start of the next.
    pub pause_ns: u64,
    /// When to give up.
    pub deadline_ns: u64,
}

/// What polling has found so far. Pure.
#[derive(Debug, Default)]
struct Sightings {
    samples: Vec<Sample>,
    failures: Failures,
    /// Highest value seen.
    last: u32,
    /// When the last poll was answered that did not show a new value; `None` before the first answer.
    absent_ns: Option<u64>,
}

impl Sightings {
    /// Takes the answer of one poll; whether everything has been seen.
    fn see(&mut self, value: u32, started_ns: u64, ended_ns: u64, count: u32) -> bool {
        let value = value.min(count);
        if value > self.last {
            match self.absent_ns {
                Some(intended_ns) => {
                    self.failures.add_times("skipped", value - self.last - 1);
                    self.samples.push(Sample {
                        intended_ns,
                        started_ns,
                        ended_ns,
                        outcome: value.into(),
                    });
                }
                None => self.failures.add_times("visible before the first poll", value),
            }
            self.last = value;
        }
        // This poll did not show the value after `last`, whatever it did show.
        self.absent_ns = Some(ended_ns);
        self.last >= count
    }
}

impl Poll {
    /// Polls until the last value has been seen or the deadline passed. `announce` is called once, after the
    /// first answer.
    pub fn run(&self, announce: impl FnOnce(ProbeAnswer)) -> Result<ProbeAnswer, RedisError> {
        clock::sharpen();
        let packed = pack(&[b"GET", self.key.as_bytes()]);
        let first = Connection::open(self.target, self.left())?;
        let mut nodelay = first.nodelay();
        let mut connection = Some(first);
        let mut sightings = Sightings::default();
        let mut announce = Some(announce);
        while clock::now_ns() < self.deadline_ns {
            match self.poll_once(&mut connection, &packed) {
                Ok((value, started_ns, ended_ns)) => {
                    let all = sightings.see(value, started_ns, ended_ns, self.count);
                    if let Some(announce) = announce.take() {
                        announce(ProbeAnswer::Watching);
                    }
                    if all {
                        break;
                    }
                }
                Err(error) => sightings.failures.add(error),
            }
            nodelay &= connection.as_ref().is_none_or(Connection::nodelay);
            if self.pause_ns > 0 {
                clock::sleep_until(clock::now_ns().saturating_add(self.pause_ns).min(self.deadline_ns));
            }
        }
        let unseen = self.count.saturating_sub(sightings.last);
        sightings.failures.add_times("not visible before the deadline", unseen);
        Ok(ProbeAnswer::Samples {
            samples: sightings.samples,
            failures: sightings.failures.into_wire(),
            nodelay: Some(nodelay),
        })
    }

    fn left(&self) -> Duration {
        clock::until(self.deadline_ns).min(REPLY_LIMIT)
    }

    /// One poll: the number that the key holds (0: none yet), and its stamps. Opens a connection if there is
    /// none, and leaves none if it broke: a late reply must not be taken for the next poll's.
    fn poll_once(&self, connection: &mut Option<Connection>, packed: &[u8]) -> Result<(u32, u64, u64), RedisError> {
        let mut open = match connection.take() {
            Some(open) => open,
            None => {
                clock::sleep_until(clock::now_ns().saturating_add(REOPEN_PAUSE_NS).min(self.deadline_ns));
                Connection::open(self.target, self.left())?
            }
        };
        let timed = open.ask(packed, self.left())?;
        *connection = Some(open);
        let value = match accept(timed.value)? {
            Value::Nil => 0,
            other => number(&other).ok_or_else(|| RedisError::unexpected("GET", &other))?,
        };
        Ok((value, timed.started_ns, timed.ended_ns))
    }
}

fn number(value: &Value) -> Option<u32> {
    let Value::BulkString(bytes) = value else {
        return None;
    };
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Keyspace events of one key.
pub struct Watch {
    /// The replica.
    pub target: SocketAddrV4,
    /// The key, in database 0.
    pub key: String,
    /// Events waited for.
    pub count: u32,
    /// When to give up.
    pub deadline_ns: u64,
}

impl Watch {
    /// Stamps each `set` event until `count` have come or the deadline passed. `announce` is called once, when the
    /// subscription is confirmed. A broken connection ends it: events in between would be lost unseen.
    pub fn run(&self, announce: impl FnOnce(ProbeAnswer)) -> Result<ProbeAnswer, RedisError> {
        let mut connection = Connection::open(self.target, self.left().min(REPLY_LIMIT))?;
        self.check_events_are_on(&mut connection)?;
        let channel = format!("__keyspace@0__:{}", self.key);
        let confirmed = connection.ask(&pack(&[b"SUBSCRIBE", channel.as_bytes()]), self.left().min(REPLY_LIMIT))?;
        let confirmed = accept(confirmed.value)?;
        if message(&confirmed).is_none_or(|(kind, _)| kind != b"subscribe") {
            return Err(RedisError::unexpected("SUBSCRIBE", &confirmed));
        }
        announce(ProbeAnswer::Watching);
        let mut samples = Vec::new();
        let mut failures = Failures::default();
        let mut seen = 0;
        while seen < self.count {
            let received = connection.receive(self.left());
            let at_ns = clock::now_ns();
            match received.and_then(accept) {
                Ok(value) => match message(&value) {
                    Some((b"message", b"set")) => {
                        seen += 1;
                        samples.push(Sample {
                            intended_ns: at_ns,
                            started_ns: at_ns,
                            ended_ns: at_ns,
                            outcome: seen.into(),
                        });
                    }
                    Some((_, event)) => failures.add(format_args!("other event: {}", String::from_utf8_lossy(event))),
                    None => failures.add(RedisError::unexpected("SUBSCRIBE", &value)),
                },
                // The deadline is no failure of its own: what it left out is counted below.
                Err(RedisError::NoReply(_)) => break,
                Err(error) => {
                    failures.add(error);
                    break;
                }
            }
        }
        failures.add_times("no event before the deadline", self.count - seen);
        Ok(ProbeAnswer::Samples {
            samples,
            failures: failures.into_wire(),
            nodelay: Some(connection.nodelay()),
        })
    }

    fn left(&self) -> Duration {
        clock::until(self.deadline_ns)
    }

    /// Without the server's configuration the watch would wait for nothing. A server that does not tell its
    /// configuration is believed.
    fn check_events_are_on(&self, connection: &mut Connection) -> Result<(), RedisError> {
        let asked = connection.ask(
            &pack(&[b"CONFIG", b"GET", b"notify-keyspace-events"]),
            self.left().min(REPLY_LIMIT),
        )?;
        let Value::Array(pair) = asked.value else {
            return Ok(());
        };
        let Some(Value::BulkString(flags)) = pair.get(1) else {
            return Ok(());
        };
        let has = |flag: u8| flags.contains(&flag);
        if has(b'K') && (has(b'$') || has(b'A')) {
            return Ok(());
        }
        Err(RedisError::NoEvents(String::from_utf8_lossy(flags).into_owned()))
    }
}

/// Kind and payload of a published message: `[kind, channel, payload]`, as array or as push.
fn message(value: &Value) -> Option<(&[u8], &[u8])> {
    let Value::Array(items) = value else {
        return None;
    };
    let Value::BulkString(kind) = items.first()? else {
        return None;
    };
    match items.get(2)? {
        Value::BulkString(payload) => Some((kind, payload)),
        // The confirmation of a subscription carries the number of channels.
        Value::Int(_) => Some((kind, b"")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Act, bulk, bulks, serve};
    use super::*;

    fn outcomes(sightings: &Sightings) -> Vec<i64> {
        sightings.samples.iter().map(|sample| sample.outcome).collect()
    }

    #[test]
    fn a_value_is_bracketed_by_the_last_poll_without_it() {
        let mut sightings = Sightings::default();
        assert!(!sightings.see(0, 10, 20, 2));
        assert!(!sightings.see(0, 30, 40, 2));
        assert!(!sightings.see(1, 50, 60, 2));
        assert!(!sightings.see(1, 70, 80, 2));
        assert!(sightings.see(2, 90, 100, 2));
        let brackets: Vec<_> = sightings
            .samples
            .iter()
            .map(|s| (s.intended_ns, s.started_ns, s.ended_ns))
            .collect();
        assert_eq!(brackets, [(40, 50, 60), (80, 90, 100)]);
        assert!(sightings.failures.into_wire().is_empty());
    }

    #[test]
    fn values_between_two_polls_are_skipped_and_counted() {
        let mut sightings = Sightings::default();
        sightings.see(0, 10, 20, 9);
        sightings.see(4, 30, 40, 9);
        sightings.see(5, 50, 60, 9);
        assert_eq!(outcomes(&sightings), [4, 5]);
        let failures = sightings.failures.into_wire();
        assert_eq!((failures[0].cause.as_str(), failures[0].times), ("skipped", 3));
    }

    #[test]
    fn what_was_there_at_the_first_poll_gets_no_sample() {
        let mut sightings = Sightings::default();
        assert!(!sightings.see(3, 10, 20, 4));
        assert!(sightings.see(4, 30, 40, 4));
        assert_eq!(outcomes(&sightings), [4]);
        assert_eq!(sightings.failures.into_wire()[0].times, 3);
    }

    #[test]
    fn a_value_beyond_the_last_ends_the_poll_and_one_that_falls_back_is_no_news() {
        let mut sightings = Sightings::default();
        sightings.see(0, 10, 20, 3);
        sightings.see(2, 30, 40, 3);
        assert!(!sightings.see(0, 50, 60, 3));
        assert!(sightings.see(7, 70, 80, 3));
        assert_eq!(outcomes(&sightings), [2, 3]);
    }

    #[test]
    fn only_three_part_messages_are_messages() {
        let text = |text: &str| Value::BulkString(text.into());
        let event = Value::Array(vec![text("message"), text("__keyspace@0__:k"), text("set")]);
        assert_eq!(message(&event), Some((&b"message"[..], &b"set"[..])));
        let confirmation = Value::Array(vec![text("subscribe"), text("c"), Value::Int(1)]);
        assert_eq!(message(&confirmation), Some((&b"subscribe"[..], &b""[..])));
        assert_eq!(message(&Value::Array(vec![text("message")])), None);
        assert_eq!(message(&Value::Nil), None);
    }

    const SECOND: u64 = 1_000_000_000;

    fn in_ns(ns: u64) -> u64 {
        clock::now_ns() + ns
    }

    fn parts(answer: ProbeAnswer) -> (Vec<Sample>, Vec<wire::Failure>) {
        match answer {
            ProbeAnswer::Samples {
                samples,
                failures,
                nodelay: Some(true),
            } => (samples, failures),
            other => panic!("{other:?}"),
        }
    }

    fn causes(failures: &[wire::Failure]) -> Vec<(&str, u32)> {
        failures
            .iter()
            .map(|failure| (failure.cause.as_str(), failure.times))
            .collect()
    }

    #[test]
    fn a_poll_announces_itself_and_survives_a_broken_connection() {
        let mut polls = 0;
        let target = serve(move |_| {
            polls += 1;
            match polls {
                1 => Act::Say("-LOADING later\r\n".into()),
                2 => Act::Say("$-1\r\n".into()),
                3 => Act::Close,
                4 => Act::Say(bulk("1")),
                _ => Act::Say(bulk("2")),
            }
        });
        let poll = Poll {
            target,
            key: "k".into(),
            count: 2,
            pause_ns: 0,
            deadline_ns: in_ns(20 * SECOND),
        };
        let mut announced = None;
        let (samples, failures) = parts(poll.run(|answer| announced = Some(answer)).unwrap());
        assert_eq!(announced, Some(ProbeAnswer::Watching));
        assert_eq!(samples.iter().map(|sample| sample.outcome).collect::<Vec<_>>(), [1, 2]);
        assert!(samples.iter().all(|sample| sample.intended_ns <= sample.started_ns));
        assert_eq!(
            causes(&failures),
            [("LOADING later", 1), ("connection closed by the server", 1)]
        );
    }

    #[test]
    fn a_poll_of_a_stalled_server_ends_at_its_deadline_and_never_announces() {
        let target = serve(|_| Act::Silence);
        let poll = Poll {
            target,
            key: "k".into(),
            count: 3,
            pause_ns: 0,
            deadline_ns: in_ns(SECOND / 20),
        };
        let (samples, failures) = parts(poll.run(|_| panic!("nothing was ever seen")).unwrap());
        assert_eq!(samples, []);
        assert!(
            causes(&failures).contains(&("not visible before the deadline", 3)),
            "{failures:?}"
        );
    }

    /// A server that publishes `events` right after the subscription.
    fn publisher(flags: &'static str, events: &'static [&'static str]) -> SocketAddrV4 {
        serve(move |command| match command[0].as_str() {
            "CONFIG" => Act::Say(bulks(&["notify-keyspace-events", flags])),
            "SUBSCRIBE" => {
                let channel = &command[1];
                let mut text = format!("*3\r\n{}{}:1\r\n", bulk("subscribe"), bulk(channel));
                text.extend(events.iter().map(|event| bulks(&["message", channel, event])));
                Act::Say(text)
            }
            _ => Act::Close,
        })
    }

    #[test]
    fn a_watch_stamps_sets_and_counts_other_events() {
        let target = publisher("$K", &["set", "expire", "set", "set"]);
        let watch = Watch {
            target,
            key: "k".into(),
            count: 3,
            deadline_ns: in_ns(20 * SECOND),
        };
        let mut announced = None;
        let (samples, failures) = parts(watch.run(|answer| announced = Some(answer)).unwrap());
        assert_eq!(announced, Some(ProbeAnswer::Watching));
        assert_eq!(
            samples.iter().map(|sample| sample.outcome).collect::<Vec<_>>(),
            [1, 2, 3]
        );
        assert_eq!(causes(&failures), [("other event: expire", 1)]);
    }

    #[test]
    fn a_watch_says_what_did_not_come() {
        let target = publisher("KEA", &["set"]);
        let watch = Watch {
            target,
            key: "k".into(),
            count: 3,
            deadline_ns: in_ns(SECOND / 10),
        };
        let (samples, failures) = parts(watch.run(|_| ()).unwrap());
        assert_eq!(
            (samples.len(), causes(&failures)),
            (1, vec![("no event before the deadline", 2)])
        );
    }

    #[test]
    fn a_watch_that_could_see_nothing_is_refused() {
        let target = publisher("Ex", &[]);
        let watch = Watch {
            target,
            key: "k".into(),
            count: 3,
            deadline_ns: in_ns(20 * SECOND),
        };
        let error = watch.run(|_| panic!("it cannot see")).unwrap_err();
        assert!(matches!(error, RedisError::NoEvents(_)), "{error}");
    }
}
