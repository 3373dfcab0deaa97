//! A connection to a Redis or Valkey server that costs as little as can be: a blocking socket of our own on the
//! thread that measures, with the encoder and the parser of redis-rs.
//!
//! Measured on loopback (GET, median, 2 cores): this connection 20 µs, redis-benchmark -c 1 23 µs, the library's
//! multiplexed connection 24 µs on an idle machine and 45 µs on a busy one (it passes every command through a
//! channel and a task), its blocking one 20-22 µs, but that cannot be handed a prepared socket. Nothing is sent that was not ordered: no HELLO, no CLIENT SETINFO. RESP2 unless the order
//! itself says HELLO 3.
//!
//! Every reply has a limit. After a reply that did not come, or came broken, the connection must not be used
//! again: the late reply would be taken for the next command's ([`RedisError::breaks`]).

pub mod backlog;
#[cfg(test)]
mod fake;
pub mod half;
pub mod ledger;
pub mod operation;
pub mod psync;
pub mod reply;
mod several;
pub mod visibility;

use crate::clock;
use crate::socket::{DialError, Dialled, dial};
use redis::{Parser, Value};
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

/// Why an operation on a Redis or Valkey server failed.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The command could not be sent.
    #[error("send: {0}")]
    Send(#[source] io::Error),
    /// The limit passed.
    #[error("no reply within {0} ms")]
    NoReply(u128),
    /// The server closed the connection.
    #[error("connection closed by the server")]
    Closed,
    /// The connection failed.
    #[error("receive: {0}")]
    Receive(#[source] io::Error),
    /// What came is not the protocol.
    #[error("malformed reply: {0}")]
    Malformed(#[source] redis::RedisError),
    /// An error reply, whole text.
    #[error("{0}")]
    Refused(String),
    /// A reply of another kind than the command has.
    #[error("unexpected reply to {command}: {reply}")]
    Unexpected {
        /// The command.
        command: &'static str,
        /// The reply, cut to a readable length.
        reply: String,
    },
    /// GET found nothing.
    #[error("key is absent")]
    Absent,
    /// An operation of nothing.
    #[error("an operation of no messages was ordered")]
    NoMessages,
    /// A background save that does not end.
    #[error("the server was still saving after {0} ms")]
    Saving(u128),
    /// A primary that does not have the bytes any more, or never had them.
    #[error("the stream does not go on at byte {first_byte}: {reply}")]
    NotInBacklog {
        /// Number of the first byte asked for.
        first_byte: u64,
        /// What it offered instead.
        reply: String,
    },
    /// Nobody would ever see an event.
    #[error("notify-keyspace-events is \"{0}\": it needs K, and $ or A")]
    NoEvents(String),
}

impl RedisError {
    /// Whether the connection is of no use after this.
    pub fn breaks(&self) -> bool {
        match self {
            Self::Dial(_) | Self::Send(_) | Self::NoReply(_) | Self::Closed | Self::Receive(_) | Self::Malformed(_) => {
                true
            }
            Self::Refused(_)
            | Self::Unexpected { .. }
            | Self::Absent
            | Self::NoMessages
            | Self::Saving(_)
            | Self::NotInBacklog { .. }
            | Self::NoEvents(_) => false,
        }
    }

    fn unexpected(command: &'static str, reply: &Value) -> Self {
        const READABLE: usize = 80;
        let reply = format!("{reply:?}").chars().take(READABLE).collect();
        Self::Unexpected { command, reply }
    }
}

/// A reply and the stamps around it.
#[derive(Debug)]
pub struct Timed<T> {
    /// Directly before the command was written.
    pub started_ns: u64,
    /// Directly after the reply was decoded.
    pub ended_ns: u64,
    /// The reply.
    pub value: T,
}

/// An open connection.
pub struct Connection {
    stream: TcpStream,
    parser: Parser,
    nodelay: bool,
}

impl Connection {
    /// Connects within `limit`; sends nothing.
    pub fn open(target: SocketAddrV4, limit: Duration) -> Result<Self, RedisError> {
        let Dialled { stream, nodelay, .. } = dial(target, limit)?;
        stream.set_write_timeout(Some(limit)).map_err(DialError::Option)?;
        Ok(Self {
            stream,
            parser: Parser::new(),
            nodelay,
        })
    }

    /// TCP_NODELAY as read back from the socket.
    pub fn nodelay(&self) -> bool {
        self.nodelay
    }

    /// Writes packed commands; one write for all of them.
    pub fn send(&mut self, packed: &[u8]) -> Result<(), RedisError> {
        self.stream.write_all(packed).map_err(RedisError::Send)
    }

    /// Reads one reply, waiting no longer than `limit`. An error reply is an `Ok` here.
    pub fn receive(&mut self, limit: Duration) -> Result<Value, RedisError> {
        let mut reader = LimitedReader {
            stream: &self.stream,
            deadline_ns: clock::now_ns().saturating_add(nanos(limit)),
            failure: None,
        };
        let parsed = self.parser.parse_value(&mut reader);
        match reader.failure {
            Some(ReadFailure::Limit) => Err(RedisError::NoReply(limit.as_millis())),
            Some(ReadFailure::End) => Err(RedisError::Closed),
            Some(ReadFailure::Io(error)) => Err(RedisError::Receive(error)),
            None => parsed.map_err(RedisError::Malformed),
        }
    }

    /// One packed command and its reply.
    pub fn ask(&mut self, packed: &[u8], limit: Duration) -> Result<Timed<Value>, RedisError> {
        let started_ns = clock::now_ns();
        self.send(packed)?;
        let value = self.receive(limit)?;
        Ok(Timed {
            started_ns,
            ended_ns: clock::now_ns(),
            value,
        })
    }
}

/// Turns an error reply into an error, where the caller has no other use for it.
pub fn accept(reply: Value) -> Result<Value, RedisError> {
    match reply {
        Value::ServerError(error) => Err(RedisError::Refused(reply::error_text(&error))),
        other => Ok(other),
    }
}

/// A command as it goes over the wire.
pub fn pack(arguments: &[&[u8]]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    for argument in arguments {
        command.arg(*argument);
    }
    command.get_packed_command()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Why a read gave nothing; kept beside the parser's own error, which hides it in text.
enum ReadFailure {
    Limit,
    End,
    Io(io::Error),
}

/// Reads until a deadline. The socket's own limit holds for one read only, so a server that sends a byte now
/// and then could stretch a reply for ever.
struct LimitedReader<'a> {
    stream: &'a TcpStream,
    deadline_ns: u64,
    failure: Option<ReadFailure>,
}

impl LimitedReader<'_> {
    fn fail(&mut self, failure: ReadFailure) -> io::Error {
        self.failure = Some(failure);
        io::ErrorKind::Other.into()
    }
}

impl Read for LimitedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = clock::until(self.deadline_ns);
            if left.is_zero() {
                return Err(self.fail(ReadFailure::Limit));
            }
            if let Err(error) = self.stream.set_read_timeout(Some(left)) {
                return Err(self.fail(ReadFailure::Io(error)));
            }
            match self.stream.read(buffer) {
                Ok(0) => return Err(self.fail(ReadFailure::End)),
                Ok(length) => return Ok(length),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel's timer may end a little early: the deadline decides.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(self.fail(ReadFailure::Io(error))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::{Act, bulk, serve};
    use super::*;
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_millis(60);

    fn ask(target: SocketAddrV4) -> Result<Value, RedisError> {
        let mut connection = Connection::open(target, LIMIT)?;
        connection.ask(&pack(&[b"GET", b"k"]), LIMIT).map(|timed| timed.value)
    }

    #[test]
    fn a_reply_lies_between_its_stamps() {
        let target = serve(|_| Act::Late(Duration::from_millis(5), bulk("v")));
        let mut connection = Connection::open(target, Duration::from_secs(5)).unwrap();
        assert!(connection.nodelay());
        let timed = connection.ask(&pack(&[b"GET", b"k"]), Duration::from_secs(5)).unwrap();
        assert_eq!(timed.value, Value::BulkString(b"v".into()));
        assert!(timed.ended_ns - timed.started_ns >= 5_000_000);
    }

    #[test]
    fn nothing_is_sent_that_was_not_ordered() {
        let (heard, hears) = std::sync::mpsc::channel();
        let target = serve(move |command| {
            heard.send(command.join(" ")).unwrap();
            Act::Say("$-1\r\n".into())
        });
        ask(target).unwrap();
        assert_eq!(hears.try_iter().collect::<Vec<_>>(), ["GET k"]);
    }

    #[test]
    fn a_stalled_server_is_a_failure_and_not_a_hang() {
        let began = Instant::now();
        let error = ask(serve(|_| Act::Silence)).unwrap_err();
        assert!(matches!(error, RedisError::NoReply(60)) && error.breaks(), "{error}");
        assert!(began.elapsed() >= LIMIT);
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "the limit is 60 ms; the rest is for a busy machine"
        );
    }

    #[test]
    fn a_reply_in_drips_does_not_stretch_the_limit() {
        // each byte comes well within the limit, all of them would take 24 times as long
        let target = serve(|_| Act::Drip(Duration::from_millis(20), bulk(&"v".repeat(60))));
        assert!(matches!(ask(target), Err(RedisError::NoReply(60))));
    }

    #[test]
    fn the_end_of_a_connection_and_rubbish_are_told_apart() {
        assert!(matches!(ask(serve(|_| Act::Close)), Err(RedisError::Closed)));
        assert!(matches!(
            ask(serve(|_| Act::Say("HTTP/1.1 400\r\n".into()))),
            Err(RedisError::Malformed(_))
        ));
    }

    #[test]
    fn an_error_reply_is_a_reply_and_keeps_the_connection() {
        let value = ask(serve(|_| Act::Say("-LOADING later\r\n".into()))).unwrap();
        let error = accept(value).unwrap_err();
        assert_eq!(error.to_string(), "LOADING later");
        assert!(!error.breaks());
    }

    #[test]
    fn replies_that_arrive_together_are_read_one_by_one() {
        let target = serve(|_| Act::Say(format!("{}{}", bulk("a"), bulk("b"))));
        let mut connection = Connection::open(target, LIMIT).unwrap();
        connection.send(&pack(&[b"GET", b"k"])).unwrap();
        assert_eq!(
            connection.receive(Duration::from_secs(5)).unwrap(),
            Value::BulkString(b"a".into())
        );
        assert_eq!(connection.receive(LIMIT).unwrap(), Value::BulkString(b"b".into()));
    }
}
