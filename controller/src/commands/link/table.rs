//! A directed link as it is printed.

use crate::commands::screen::plain_table;
use crate::lab::LinkSeen;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
use wire::CutKind;

/// A directed link.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkRow {
    /// Sending side.
    pub from: String,
    /// Receiving side.
    pub to: String,
    /// One way, as asked for.
    pub delay_us: u64,
    /// Kind of the cut in force.
    pub cut: Option<&'static str>,
    /// Milliseconds since the last cut began.
    pub last_cut_ago_ms: Option<u64>,
    /// Milliseconds since it ended.
    pub last_heal_ago_ms: Option<u64>,
    /// Packets that passed; with offload one can be 64 KiB of a flow.
    pub forwarded_packets: u64,
    /// Their bytes.
    pub forwarded_bytes: u64,
    /// Packets held now.
    pub held_packets: u64,
    /// Packets destroyed by cuts, in flight included.
    pub dropped_cut_packets: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue_packets: u64,
    /// Packets that the kernel refused to take back.
    pub dropped_write_packets: u64,
}

impl From<&LinkSeen> for LinkRow {
    fn from(seen: &LinkSeen) -> Self {
        let status = &seen.status;
        let ago = |stamp: Option<u64>| stamp.map(|stamp| seen.now_ns.saturating_sub(stamp) / 1_000_000);
        Self {
            from: seen.from.to_string(),
            to: seen.to.to_string(),
            delay_us: status.conditions.delay_ns / 1000,
            cut: status.cut.map(CutKind::word),
            last_cut_ago_ms: ago(status.last_cut_ns),
            last_heal_ago_ms: ago(status.last_heal_ns),
            forwarded_packets: status.counters.forwarded_packets,
            forwarded_bytes: status.counters.forwarded_bytes,
            held_packets: status.counters.held_packets,
            dropped_cut_packets: status.counters.dropped_cut,
            dropped_queue_packets: status.counters.dropped_queue,
            dropped_write_packets: status.counters.dropped_write,
        }
    }
}

/// Links as people read them.
pub(in crate::commands) fn link_table(links: &[LinkRow]) -> String {
    let rows = links.iter().map(|link| {
        let state = match (link.cut, link.last_heal_ago_ms) {
            (Some(kind), _) => format!("cut ({kind})"),
            (None, Some(ago)) => format!("up (healed {:.1} s ago)", Duration::from_millis(ago).as_secs_f64()),
            (None, None) => "up".to_owned(),
        };
        let dropped = link.dropped_cut_packets + link.dropped_queue_packets + link.dropped_write_packets;
        [
            format!("{}:{}", link.from, link.to),
            humantime::format_duration(Duration::from_micros(link.delay_us)).to_string(),
            state,
            format!("{} ({} B)", link.forwarded_packets, link.forwarded_bytes),
            link.held_packets.to_string(),
            format!(
                "{dropped} (cut {}, queue {}, write {})",
                link.dropped_cut_packets, link.dropped_queue_packets, link.dropped_write_packets
            ),
        ]
    });
    plain_table(["LINK", "DELAY", "STATE", "FORWARDED", "HELD", "DROPPED"], rows)
}
