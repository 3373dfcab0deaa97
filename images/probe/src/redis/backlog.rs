//! Bytes of a primary's replication stream that it has already written, out of its backlog: what a replica lacks, read as
//! that replica would have got it, record by record.
//!
//! A partial resynchronisation and nothing else: a primary that offers everything instead (`FULLRESYNC`) no longer has the
//! bytes, and that is an error. The connection is closed as soon as the bytes are there. Lengths are those of the bytes on
//! the wire, none is computed from what a command ought to have.

use super::{Connection, LimitedReader, ReadFailure, RedisError, accept, nanos, pack};
use crate::clock;
use redis::Value;
use std::io::Read;
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::StreamRecord;

/// Longest line before the bytes: `+CONTINUE <40 characters>`, or an error.
const LONGEST_LINE: usize = 512;
/// Characters of a word that are kept.
const WORD_CHARS: usize = 80;
/// Words of a record that are kept.
const WORDS: usize = 2;

/// Reads `bytes` of the stream from number `first_byte` on.
pub fn read(
    target: SocketAddrV4,
    stream: &str,
    first_byte: u64,
    bytes: u64,
    limit: Duration,
) -> Result<Vec<StreamRecord>, RedisError> {
    let deadline_ns = clock::now_ns().saturating_add(nanos(limit));
    let mut connection = Connection::open(target, limit)?;
    // Without `psync2` a server would not name the stream, and without `eof` it might save to its disk.
    let able = pack(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]);
    match accept(connection.ask(&able, limit)?.value)? {
        Value::Okay => {}
        other => return Err(RedisError::unexpected("REPLCONF", &other)),
    }
    connection.send(&pack(&[b"PSYNC", stream.as_bytes(), first_byte.to_string().as_bytes()]))?;
    let mut reader = LimitedReader {
        stream: &connection.stream,
        deadline_ns,
        failure: None,
    };
    let received = receive(&mut reader, first_byte, bytes);
    match reader.failure {
        Some(ReadFailure::Limit) => Err(RedisError::NoReply(limit.as_millis())),
        Some(ReadFailure::End) => Err(RedisError::Closed),
        Some(ReadFailure::Io(error)) => Err(RedisError::Receive(error)),
        None => received.map(|received| records(&received)),
    }
}

/// The bytes after `+CONTINUE`. A failure to read is kept in the reader.
fn receive(reader: &mut LimitedReader<'_>, first_byte: u64, bytes: u64) -> Result<Vec<u8>, RedisError> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        reader.read_exact(&mut byte).map_err(RedisError::Receive)?;
        match byte {
            // A primary that is busy keeps its replica alive with these; they are no part of the stream.
            [b'\n'] if line.is_empty() => {}
            [b'\n'] => break,
            [other] if line.len() < LONGEST_LINE => line.push(other),
            _ => break,
        }
    }
    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
    if line != "+CONTINUE" && !line.starts_with("+CONTINUE ") {
        return Err(match line.strip_prefix('-') {
            Some(error) => RedisError::Refused(error.to_owned()),
            None => RedisError::NotInBacklog {
                first_byte,
                reply: line,
            },
        });
    }
    let mut received = Vec::new();
    reader
        .take(bytes)
        .read_to_end(&mut received)
        .map_err(RedisError::Receive)?;
    Ok(received)
}

/// The records of a piece of a stream. What is no whole command is a record without words.
fn records(mut stream: &[u8]) -> Vec<StreamRecord> {
    let mut records = Vec::new();
    while !stream.is_empty() {
        let (length, words) = command(stream).unwrap_or((stream.len(), Vec::new()));
        let record = StreamRecord {
            bytes: length as u64,
            words,
        };
        records.push(record);
        stream = &stream[length..];
    }
    records
}

/// Length of the command at the start, and its first words.
fn command(stream: &[u8]) -> Option<(usize, Vec<String>)> {
    let (mut at, count) = number(stream, b'*')?;
    let mut words = Vec::new();
    for i in 0..count {
        let (head, length) = number(&stream[at..], b'$')?;
        let begin = at + head;
        let word = stream.get(begin..begin.checked_add(length)?)?;
        if stream.get(begin + length..begin + length + 2)? != b"\r\n" {
            return None;
        }
        if i < WORDS {
            words.push(String::from_utf8_lossy(word).chars().take(WORD_CHARS).collect());
        }
        at = begin + length + 2;
    }
    (count > 0).then_some((at, words))
}

/// `<kind><number>\r\n`: its length, and the number.
fn number(stream: &[u8], kind: u8) -> Option<(usize, usize)> {
    let rest = stream.strip_prefix(&[kind])?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((1 + end + 2, number))
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Act, bulks, ok, serve};
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    /// A primary whose backlog from byte 101 on is this.
    fn primary(reply: &'static str, backlog: String) -> SocketAddrV4 {
        serve(move |words| match words[0].as_str() {
            "REPLCONF" => ok(),
            "PSYNC" => {
                assert_eq!(words[1..], ["stream", "101"]);
                Act::Say(format!("{reply}\r\n{backlog}"))
            }
            other => panic!("{other}"),
        })
    }

    fn told(records: &[StreamRecord]) -> Vec<(u64, String)> {
        let told = records.iter().map(|record| (record.bytes, record.words.join(" ")));
        told.collect()
    }

    fn stream() -> String {
        let select = bulks(&["SELECT", "0"]);
        let set = bulks(&["SET", "key:1", "value\r\n$9\r\n"]);
        let ack = bulks(&["REPLCONF", "GETACK", "*"]);
        [select, set, bulks(&["PING"]), ack].concat()
    }

    #[test]
    fn records_have_the_lengths_that_they_have_on_the_wire() {
        let expected = [
            (23, "SELECT 0"),
            (42, "SET key:1"),
            (14, "PING"),
            (37, "REPLCONF GETACK"),
        ];
        assert_eq!(
            told(&records(stream().as_bytes())),
            expected.map(|(bytes, words)| (bytes, words.to_owned()))
        );
    }

    #[test]
    fn what_is_no_whole_command_is_counted_and_has_no_words() {
        let whole = stream();
        let cut = &whole.as_bytes()[..whole.len() - 1];
        let seen = records(cut);
        assert_eq!(seen.iter().map(|record| record.bytes).sum::<u64>(), cut.len() as u64);
        assert_eq!(told(&seen)[3], (36, String::new()));
        assert_eq!(told(&records(b"PING\r\n")), [(6, String::new())]);
        for odd in ["*0\r\n", "*1\r\n$3\r\nabcd\r\n", "*2\r\n$1\r\na\r\n", "*1\r\n$-1\r\n"] {
            assert_eq!(
                told(&records(odd.as_bytes())),
                [(odd.len() as u64, String::new())],
                "{odd}"
            );
        }
        assert_eq!(records(b""), []);
    }

    #[test]
    fn no_more_than_the_bytes_asked_for_is_read() {
        let target = primary("+CONTINUE 0123", stream());
        assert_eq!(told(&read(target, "stream", 101, 65, LIMIT).unwrap()).len(), 2);
        assert_eq!(read(target, "stream", 101, 0, LIMIT).unwrap(), []);
        let target = primary("\n\n+CONTINUE", stream());
        let all = read(target, "stream", 101, stream().len() as u64, LIMIT).unwrap();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn a_primary_that_offers_everything_and_one_that_refuses_are_errors() {
        let target = primary("+FULLRESYNC abc 7", String::new());
        let error = read(target, "stream", 101, 5, LIMIT).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the stream does not go on at byte 101: +FULLRESYNC abc 7"
        );
        let target = primary("-NOMASTERLINK Can't SYNC", String::new());
        let error = read(target, "stream", 101, 5, LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "NOMASTERLINK Can't SYNC");
    }

    #[test]
    fn a_stream_that_is_shorter_than_it_should_be_is_no_answer() {
        let target = primary("+CONTINUE", bulks(&["PING"]));
        let error = read(target, "stream", 101, 15, Duration::from_millis(60)).unwrap_err();
        assert!(matches!(error, RedisError::NoReply(60)), "{error}");
    }
}
