//! The replication stream as claims need it: how long a write is in it, and when the link below it was cut.

use super::row::Rows;
use crate::history::What;
use wire::LinkStatus;

/// Head of a command of three words in the stream: `*3\r\n`.
const HEAD_BYTES: i64 = 4;

/// Bytes of `SET <key> <value>` in the stream, from the lengths of both.
pub fn set_bytes(key_bytes: i64, value_bytes: i64) -> i64 {
    HEAD_BYTES + bulk_bytes(3) + bulk_bytes(key_bytes) + bulk_bytes(value_bytes)
}

/// Bytes of a bulk string of this length: `$<length>\r\n<bytes>\r\n`.
fn bulk_bytes(length: i64) -> i64 {
    1 + digits(length) + 2 + length + 2
}

/// Length of a number as it is written.
pub fn digits(number: i64) -> i64 {
    i64::from(number.checked_ilog10().unwrap_or_default()) + 1
}

/// The outward link as its relay told it right after the cut: the first of the row that is cut.
pub fn cut_of<'a>(rows: &Rows<'a>, row: &str) -> Option<&'a LinkStatus> {
    rows.history.events.iter().find_map(|event| match &event.what {
        What::LinkSeen {
            block, row: of, status, ..
        } if *block == rows.block && of == row && status.cut.is_some() => Some(status.as_ref()),
        _ => None,
    })
}
