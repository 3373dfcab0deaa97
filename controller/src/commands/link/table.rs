//! Links and relays as they are printed.

use crate::commands::screen::plain_table;
use crate::conditions::{mode_text, schedule_text, shown};
use crate::lab::LinkSeen;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
use wire::{Conditions, CutKind, LATENESS_BOUNDS_NS, LinkCounters, Path, RelayStatus, Schedule};

/// A directed link.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkRow {
    /// Sending side.
    pub from: String,
    /// Receiving side.
    pub to: String,
    /// How its relay carries connections: `packet`, `stream order=... nodelay=...`, or `kernel ...`.
    pub mode: String,
    /// One way, as asked for.
    pub delay_us: u64,
    /// All conditions, as asked for.
    pub conditions: Conditions,
    /// Kind of the cut in force, of the whole link.
    pub cut: Option<&'static str>,
    /// The cut of ports in force.
    pub cut_ports: Option<CutPortsRow>,
    /// Milliseconds since the last cut began, of the whole link or of ports.
    pub last_cut_ago_ms: Option<u64>,
    /// Milliseconds since it ended.
    pub last_heal_ago_ms: Option<u64>,
    /// Whether it is frozen.
    pub frozen: bool,
    /// Milliseconds since the schedule began that is going on; 0 if it is about to.
    pub playing_for_ms: Option<u64>,
    /// What it does next, as a schedule is written: times count from its beginning.
    pub next_step: Option<String>,
    /// Packets that arrived; with offload one can be 64 KiB of a flow.
    pub arrived_packets: u64,
    /// Packets that passed.
    pub forwarded_packets: u64,
    /// Their bytes.
    pub forwarded_bytes: u64,
    /// Packets held now.
    pub held_packets: u64,
    /// Packets that did not pass, by reason.
    pub dropped: DroppedRow,
    /// Second copies made.
    pub duplicated_packets: u64,
    /// Packets of which a bit was flipped.
    pub corrupted_packets: u64,
    /// Packets held back so that others overtake.
    pub reordered_packets: u64,
    /// Resets sent to ends of connections.
    pub resets: u64,
    /// 99 of 100 packets left at most so long after they were due; a bound of their class (`null`: none left, or beyond the
    /// largest class).
    pub late_p99_us: Option<u64>,
    /// The latest one.
    pub late_max_us: u64,
    /// Time during which more than one packet in a hundred was more than 1 ms late: the delay was not true.
    pub overloaded_ms: u64,
}

/// A cut of TCP ports; everything else passes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CutPortsRow {
    /// What they are called in this lab: `clients`, `bus`, or the ports.
    pub only: String,
    /// The ports, of either end of a connection.
    pub ports: Vec<u16>,
    /// Kind of the cut.
    pub kind: &'static str,
}

/// Packets that did not pass, since the relay started.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DroppedRow {
    /// Destroyed by cuts, in flight included.
    pub cut_packets: u64,
    /// Destroyed by cuts of their port, in flight included.
    pub port_cut_packets: u64,
    /// Lost by chance, as the conditions say.
    pub loss_packets: u64,
    /// No room to wait for their turn at the rate.
    pub rate_packets: u64,
    /// Larger than the MTU.
    pub mtu_packets: u64,
    /// No room while frozen: something was lost.
    pub frozen_packets: u64,
    /// No room in the queue.
    pub queue_packets: u64,
    /// Refused by the kernel.
    pub write_packets: u64,
}

/// A relay.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RelayRow {
    /// Datacenter that it serves.
    pub datacenter: String,
    /// How it carries connections.
    pub mode: String,
    /// Scheduling class that the kernel granted.
    pub scheduling: String,
    /// Whether the kernel keeps the machine's cores awake while packets are under way.
    pub keeps_awake: bool,
    /// Whether segmentation offload is active.
    pub offload: bool,
    /// Packets that no link leads to, dropped.
    pub dropped_no_link_packets: u64,
    /// Packets dropped before the relay could read them.
    pub dropped_unread_packets: u64,
    /// Connections that it terminates.
    pub stream: Option<StreamRow>,
}

/// Connections that a relay terminates, since it started.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StreamRow {
    /// Accepted.
    pub accepted: u64,
    /// Open now.
    pub open: u64,
    /// Not accepted, or ended, because of a cut.
    pub cut: u64,
    /// Far end not reached.
    pub failed: u64,
    /// Portions of bytes delivered.
    pub portions: u64,
    /// TCP_NODELAY of the near leg, read back from the last connection's socket.
    pub nodelay_near: Option<bool>,
    /// The same of the far leg.
    pub nodelay_far: Option<bool>,
}

impl From<&LinkSeen> for LinkRow {
    fn from(seen: &LinkSeen) -> Self {
        let status = &seen.status;
        let counters = &status.counters;
        let whole = status.last_cut_ns.map(|began_ns| (began_ns, status.last_heal_ns));
        let ports = status.last_port_cut.as_ref().map(|cut| (cut.began_ns, cut.ended_ns));
        let last_cut = whole.into_iter().chain(ports).max_by_key(|(began_ns, _)| *began_ns);
        let ago = |stamp: Option<u64>| stamp.map(|stamp| seen.now_ns.saturating_sub(stamp) / 1_000_000);
        Self {
            from: seen.from.to_string(),
            to: seen.to.to_string(),
            mode: mode_text(seen.path),
            delay_us: status.conditions.delay_ns / 1000,
            conditions: status.conditions.clone(),
            cut: status.cut.map(CutKind::word),
            cut_ports: status
                .port_cut()
                .zip(seen.only.as_ref())
                .map(|(cut, only)| CutPortsRow {
                    only: only.to_string(),
                    ports: cut.ports.clone(),
                    kind: cut.kind.word(),
                }),
            last_cut_ago_ms: ago(last_cut.map(|(began_ns, _)| began_ns)),
            last_heal_ago_ms: ago(last_cut.and_then(|(_, ended_ns)| ended_ns)),
            frozen: status.frozen,
            playing_for_ms: ago(status.playing_since_ns),
            next_step: status.next_step.clone().map(|step| {
                let steps = vec![step];
                schedule_text(&Schedule { steps }, &status.conditions)
            }),
            arrived_packets: counters.arrived_packets,
            forwarded_packets: counters.forwarded_packets,
            forwarded_bytes: counters.forwarded_bytes,
            held_packets: counters.held_packets,
            dropped: DroppedRow::from(counters),
            duplicated_packets: counters.duplicated,
            corrupted_packets: counters.corrupted,
            reordered_packets: counters.reordered,
            resets: counters.resets,
            late_p99_us: late_p99_ns(counters).map(|ns| ns / 1000),
            late_max_us: counters.lateness_max_ns / 1000,
            overloaded_ms: counters.overloaded_tenths * 100,
        }
    }
}

impl From<&LinkCounters> for DroppedRow {
    fn from(counters: &LinkCounters) -> Self {
        Self {
            cut_packets: counters.dropped_cut,
            port_cut_packets: counters.dropped_ports,
            loss_packets: counters.dropped_loss,
            rate_packets: counters.dropped_rate,
            mtu_packets: counters.dropped_mtu,
            frozen_packets: counters.dropped_frozen,
            queue_packets: counters.dropped_queue,
            write_packets: counters.dropped_write,
        }
    }
}

impl LinkRow {
    /// `up`, or the cut, freeze or schedule in force, for people.
    pub(in crate::commands) fn state(&self) -> String {
        state(self)
    }
}

impl CutPortsRow {
    /// What is cut, for people; the usual kind goes without saying.
    pub(in crate::commands) fn text(&self) -> String {
        if self.kind == CutKind::Drop.word() {
            return self.only.clone();
        }
        format!("{}, {}", self.only, self.kind)
    }
}

impl DroppedRow {
    /// All of them.
    pub(in crate::commands) fn all(&self) -> u64 {
        self.reasons().iter().map(|(_, count)| count).sum()
    }

    fn reasons(&self) -> [(&'static str, u64); 8] {
        [
            ("cut", self.cut_packets),
            ("port cut", self.port_cut_packets),
            ("loss", self.loss_packets),
            ("rate", self.rate_packets),
            ("mtu", self.mtu_packets),
            ("frozen", self.frozen_packets),
            ("queue", self.queue_packets),
            ("write", self.write_packets),
        ]
    }

    /// `0`, or how many and why.
    fn text(&self) -> String {
        let (reasons, all) = (self.reasons(), self.all());
        if all == 0 {
            return "0".to_owned();
        }
        let told = reasons.iter().filter(|(_, count)| *count > 0);
        let told: Vec<String> = told.map(|(reason, count)| format!("{reason} {count}")).collect();
        format!("{all} ({})", told.join(", "))
    }
}

impl From<&RelayStatus> for RelayRow {
    fn from(status: &RelayStatus) -> Self {
        Self {
            datacenter: status.datacenter.clone(),
            mode: mode_text(status.path),
            scheduling: status.scheduling.clone(),
            keeps_awake: status.keeps_awake,
            offload: status.offload,
            dropped_no_link_packets: status.dropped_no_link,
            dropped_unread_packets: status.dropped_unread,
            stream: status.stream.map(|stream| StreamRow {
                accepted: stream.accepted,
                open: stream.open,
                cut: stream.cut,
                failed: stream.failed,
                portions: stream.portions,
                nodelay_near: stream.nodelay_near,
                nodelay_far: stream.nodelay_far,
            }),
        }
    }
}

/// Upper bound of the class in which the 99th percentile of lateness lies.
fn late_p99_ns(counters: &LinkCounters) -> Option<u64> {
    let all: u64 = counters.lateness.iter().sum();
    // The rank, rounded up; without packets there is none.
    let rank = (all * 99).div_ceil(100);
    let mut below = 0;
    let bounds = LATENESS_BOUNDS_NS.iter().zip(&counters.lateness);
    bounds
        .map(|(bound, count)| {
            below += count;
            (bound, below)
        })
        .find(|(_, below)| rank > 0 && *below >= rank)
        .map(|(bound, _)| *bound)
}

fn lateness(link: &LinkRow) -> String {
    let late = match link.late_p99_us {
        Some(us) => format!("<={}", time(us)),
        None if link.forwarded_packets == 0 => "-".to_owned(),
        None => format!(">{}", time(LATENESS_BOUNDS_NS[LATENESS_BOUNDS_NS.len() - 1] / 1000)),
    };
    if link.overloaded_ms == 0 {
        return late;
    }
    format!("{late}, overloaded for {}", seconds(link.overloaded_ms))
}

fn time(us: u64) -> String {
    humantime::format_duration(Duration::from_micros(us)).to_string()
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", Duration::from_millis(ms).as_secs_f64())
}

fn state(link: &LinkRow) -> String {
    let cuts = [
        link.cut.map(str::to_owned),
        link.cut_ports.as_ref().map(CutPortsRow::text),
    ];
    let cuts = cuts.into_iter().flatten().map(|cut| format!("cut ({cut})"));
    let holds: Vec<String> = cuts.chain(link.frozen.then(|| "frozen".to_owned())).collect();
    let mut state = match (holds.as_slice(), link.last_heal_ago_ms) {
        ([], Some(ago)) => format!("up (healed {} ago)", seconds(ago)),
        ([], None) => "up".to_owned(),
        (holds, _) => holds.join(", "),
    };
    if let Some(ms) = link.playing_for_ms {
        state += &format!(", schedule since {}", seconds(ms));
        if let Some(next) = &link.next_step {
            state += &format!(": {next}");
        }
    }
    state
}

/// Links as people read them.
pub(in crate::commands) fn link_table(links: &[LinkRow]) -> String {
    let rows = links.iter().map(|link| {
        [
            format!("{}:{}", link.from, link.to),
            shown(&link.conditions),
            state(link),
            format!("{} ({} B)", link.forwarded_packets, link.forwarded_bytes),
            link.held_packets.to_string(),
            link.dropped.text(),
            lateness(link),
        ]
    });
    let header = [
        "LINK",
        "CONDITIONS",
        "STATE",
        "FORWARDED",
        "HELD",
        "DROPPED",
        "LATE P99",
    ];
    let table = plain_table(header, rows);
    let packet = mode_text(Path::Tun);
    match links.iter().find(|link| link.mode != packet) {
        Some(link) => format!("relays: {}\n{table}", link.mode),
        None => table,
    }
}

/// Connections of relays in stream mode; nothing in packet mode.
pub(super) fn stream_table(relays: &[RelayRow]) -> String {
    let rows: Vec<[String; 7]> = relays
        .iter()
        .filter_map(|relay| {
            // Afterwards it still says how many there were.
            let stream = relay.stream.as_ref().filter(|_| relay.mode.starts_with("stream"))?;
            let leg = |set: Option<bool>| match set {
                Some(true) => "on",
                Some(false) => "off",
                None => "-",
            };
            Some([
                relay.datacenter.clone(),
                stream.accepted.to_string(),
                stream.open.to_string(),
                stream.cut.to_string(),
                stream.failed.to_string(),
                stream.portions.to_string(),
                format!("{} / {}", leg(stream.nodelay_near), leg(stream.nodelay_far)),
            ])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = [
        "RELAY",
        "ACCEPTED",
        "OPEN",
        "CUT",
        "FAILED",
        "PORTIONS",
        "NODELAY NEAR / FAR",
    ];
    format!("\n{}", plain_table(header, rows.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Only;
    use crate::names::DatacenterName;
    use wire::{Action, LinkStatus, PortCut, Step};

    fn seen(status: LinkStatus) -> LinkRow {
        LinkRow::from(&LinkSeen {
            from: DatacenterName::new("dc1").unwrap(),
            to: DatacenterName::new("dc2").unwrap(),
            now_ns: 10_000_000_000,
            path: Path::Tun,
            only: status.port_cut().map(|_| Only::Bus),
            status,
        })
    }

    fn up() -> LinkStatus {
        LinkStatus::up("dc2", Conditions::delay(20_000_000))
    }

    #[test]
    fn the_state_says_what_holds_now() {
        assert_eq!(state(&seen(up())), "up");
        let cut = LinkStatus {
            cut: Some(CutKind::Reset),
            frozen: true,
            ..up()
        };
        assert_eq!(state(&seen(cut)), "cut (reset), frozen");
        let healed = LinkStatus {
            last_cut_ns: Some(7_000_000_000),
            last_heal_ns: Some(8_000_000_000),
            playing_since_ns: Some(5_000_000_000),
            ..up()
        };
        assert_eq!(state(&seen(healed)), "up (healed 2.0 s ago), schedule since 5.0 s");
        let soon = LinkStatus {
            frozen: true,
            playing_since_ns: Some(11_000_000_000),
            next_step: Some(Step {
                at_ns: 5_000_000_000,
                action: Action::Cut { kind: CutKind::Drop },
            }),
            ..up()
        };
        assert_eq!(state(&seen(soon)), "frozen, schedule since 0.0 s: at 5s cut drop");
        let slower = LinkStatus {
            playing_since_ns: Some(9_500_000_000),
            next_step: Some(Step {
                at_ns: 1_500_000_000,
                action: Action::Set {
                    conditions: Box::new(Conditions::delay(40_000_000)),
                },
            }),
            ..up()
        };
        assert_eq!(state(&seen(slower)), "up, schedule since 0.5 s: at 1.5s set delay=40ms");
    }

    #[test]
    fn a_cut_of_ports_says_which_and_stands_beside_one_of_the_whole_link() {
        let cut = |kind, ended_ns| LinkStatus {
            last_port_cut: Some(PortCut {
                kind,
                ports: vec![16_379],
                began_ns: 4_000_000_000,
                ended_ns,
            }),
            ..up()
        };
        assert_eq!(state(&seen(cut(CutKind::Drop, None))), "cut (bus)");
        assert_eq!(state(&seen(cut(CutKind::Reset, None))), "cut (bus, reset)");
        let both = LinkStatus {
            cut: Some(CutKind::Reset),
            frozen: true,
            ..cut(CutKind::Drop, None)
        };
        assert_eq!(state(&seen(both)), "cut (reset), cut (bus), frozen");
        let healed = seen(cut(CutKind::Drop, Some(8_000_000_000)));
        assert_eq!(state(&healed), "up (healed 2.0 s ago)");
        assert!(healed.cut_ports.is_none() && healed.last_cut_ago_ms == Some(6000));
        // Of the last cut, whichever sort it was.
        let later = LinkStatus {
            last_cut_ns: Some(9_000_000_000),
            last_heal_ns: Some(9_500_000_000),
            ..cut(CutKind::Drop, Some(8_000_000_000))
        };
        assert_eq!(state(&seen(later)), "up (healed 0.5 s ago)");
    }

    #[test]
    fn only_reasons_that_occurred_are_told() {
        let mut status = up();
        assert_eq!(seen(status.clone()).dropped.text(), "0");
        status.counters.dropped_cut = 2;
        status.counters.dropped_loss = 5;
        status.counters.dropped_ports = 1;
        assert_eq!(seen(status).dropped.text(), "8 (cut 2, port cut 1, loss 5)");
    }

    #[test]
    fn the_99th_percentile_lies_in_its_class() {
        let mut status = up();
        assert_eq!(lateness(&seen(status.clone())), "-");
        status.counters.forwarded_packets = 100;
        status.counters.lateness[0] = 98;
        status.counters.lateness[3] = 2;
        assert_eq!(seen(status.clone()).late_p99_us, Some(100));
        status.counters.lateness[0] = 99;
        status.counters.lateness[3] = 1;
        assert_eq!(lateness(&seen(status.clone())), "<=10us");
        status.counters.lateness[LATENESS_BOUNDS_NS.len()] = 100;
        status.counters.overloaded_tenths = 3;
        assert_eq!(lateness(&seen(status)), ">50ms, overloaded for 0.3 s");
    }

    #[test]
    fn a_mode_that_is_not_the_usual_stands_above_the_table() {
        let mut row = seen(up());
        assert!(link_table(std::slice::from_ref(&row)).starts_with("LINK"));
        row.mode = "stream order=pipelined nodelay=off".to_owned();
        assert!(link_table(&[row]).starts_with("relays: stream order=pipelined nodelay=off\nLINK"));
    }
}
