//! Replies of the protocol (RESP2 and RESP3) as the words of the wire. Pure.
//!
//! Nothing is lost but the difference between kinds that the wire does not keep apart: maps, sets and pushes
//! become arrays, booleans integers, doubles and big numbers text.

use redis::{ServerError, Value};
use wire::Reply;

/// The reply as the wire knows it.
pub fn to_wire(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Integer(number),
        Value::Boolean(truth) => Reply::Integer(truth.into()),
        Value::Okay => Reply::Text("OK".into()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Text(text),
        Value::BulkString(bytes) | Value::BigNumber(bytes) => Reply::Text(lossy(bytes)),
        Value::Double(number) => Reply::Text(number.to_string()),
        Value::Array(items) | Value::Set(items) => array(items),
        Value::Map(pairs) => array(pairs.into_iter().flat_map(|(key, value)| [key, value])),
        Value::Attribute { data, .. } => to_wire(*data),
        Value::Push { kind, data } => array(std::iter::once(Value::SimpleString(kind.to_string())).chain(data)),
        Value::ServerError(error) => Reply::Error(error_text(&error)),
        // The library may learn kinds that it does not have today.
        other => Reply::Text(format!("{other:?}")),
    }
}

/// The error reply as the server sent it, without the `-`.
pub fn error_text(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

fn array(items: impl IntoIterator<Item = Value>) -> Reply {
    Reply::Array(items.into_iter().map(to_wire).collect())
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> Reply {
        to_wire(redis::parse_redis_value(bytes).unwrap())
    }

    fn text(text: &str) -> Reply {
        Reply::Text(text.into())
    }

    #[test]
    fn every_kind_of_the_older_protocol_is_kept() {
        assert_eq!(parsed(b"+OK\r\n"), text("OK"));
        assert_eq!(parsed(b"+PONG\r\n"), text("PONG"));
        assert_eq!(parsed(b":-7\r\n"), Reply::Integer(-7));
        assert_eq!(parsed(b"$3\r\nab\xff\r\n"), text("ab\u{fffd}"));
        assert_eq!(parsed(b"$-1\r\n"), Reply::Nil);
        assert_eq!(parsed(b"*-1\r\n"), Reply::Nil);
        assert_eq!(
            parsed(b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n"),
            Reply::Array(vec![Reply::Integer(1), Reply::Array(vec![text("a")])])
        );
    }

    #[test]
    fn error_replies_keep_their_whole_text() {
        for line in [
            "ERR unknown command 'X'",
            "MOVED 42 198.18.0.1:6379",
            "NOREPLICAS Not enough good replicas to write.",
            "CLUSTERDOWN The cluster is down",
            "LOADING",
        ] {
            assert_eq!(parsed(format!("-{line}\r\n").as_bytes()), Reply::Error(line.into()));
        }
        assert_eq!(
            parsed(b"*1\r\n-ERR x\r\n"),
            Reply::Array(vec![Reply::Error("ERR x".into())])
        );
    }

    #[test]
    fn kinds_of_the_newer_protocol_become_what_the_wire_has() {
        assert_eq!(
            parsed(b"%1\r\n+a\r\n:1\r\n"),
            Reply::Array(vec![text("a"), Reply::Integer(1)])
        );
        assert_eq!(parsed(b"~1\r\n+a\r\n"), Reply::Array(vec![text("a")]));
        assert_eq!(parsed(b"#t\r\n"), Reply::Integer(1));
        assert_eq!(parsed(b",1.5\r\n"), text("1.5"));
        assert_eq!(parsed(b"(12345678901234567890123\r\n"), text("12345678901234567890123"));
        assert_eq!(parsed(b"=5\r\ntxt:a\r\n"), text("a"));
        assert_eq!(parsed(b"_\r\n"), Reply::Nil);
        assert_eq!(
            parsed(b">2\r\n+message\r\n+x\r\n"),
            Reply::Array(vec![text("message"), text("x")])
        );
    }
}
