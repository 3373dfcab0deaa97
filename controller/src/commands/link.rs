//! `link`: conditions and state of a running lab's links. `dc1-dc2` means both directions, changed at one instant;
//! `dc1:dc2` the one from dc1 to dc2. What `--for` changes is restored, on an interruption as well.

use super::engines;
use super::screen::{self, plain_table};
use crate::cli::{Format, Global, LinkVerb};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Lab, LabError, LinkSeen};
use crate::names::DatacenterName;
use crate::progress::Progress;
use crate::stop::{Signal, Stop};
use crate::topology::parse_delay;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
use wire::CutKind;

/// What `link --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkDocument {
    /// The lab.
    pub lab: String,
    /// Directed links, after the change.
    pub links: Vec<LinkRow>,
}

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

/// A link as the command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LinkName {
    from: DatacenterName,
    to: DatacenterName,
    both: bool,
}

impl LinkName {
    fn parse(text: &str) -> Result<Self, CommandError> {
        let parts = text
            .split_once(':')
            .map(|parts| (parts, false))
            .or_else(|| text.split_once('-').map(|parts| (parts, true)));
        let named = parts.and_then(|((from, to), both)| {
            let (from, to) = (DatacenterName::new(from).ok()?, DatacenterName::new(to).ok()?);
            (from != to).then_some(Self { from, to, both })
        });
        named.ok_or_else(|| {
            CommandError::new(ExitCode::Usage, format!("understand link `{text}`"))
                .hint("dc1-dc2 means both directions, dc1:dc2 the one from dc1 to dc2")
        })
    }

    /// Directed links that it means.
    fn directions(&self) -> Vec<(&DatacenterName, &DatacenterName)> {
        let mut directions = vec![(&self.from, &self.to)];
        if self.both {
            directions.push((&self.to, &self.from));
        }
        directions
    }
}

pub(super) async fn run(global: &Global, verb: LinkVerb) -> Result<ExitCode, CommandError> {
    let (lab, text) = match &verb {
        LinkVerb::Show { link, lab } => (lab, link.as_ref()),
        LinkVerb::Set { link, lab, .. } | LinkVerb::Cut { link, lab, .. } | LinkVerb::Heal { link, lab } => {
            (lab, Some(link))
        }
    };
    let name = text.map(|text| LinkName::parse(text)).transpose()?;
    let change = Change::of(&verb)?;
    let duration = match &verb {
        LinkVerb::Set { duration, .. } | LinkVerb::Cut { duration, .. } => *duration,
        LinkVerb::Show { .. } | LinkVerb::Heal { .. } => None,
    };
    // Only what is to be restored must outlive a signal.
    let stop = match duration {
        Some(_) => Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?,
        None => Stop::never(),
    };
    let lab = lab::find(&engines(global).await?, lab.lab.as_ref()).await?;
    let Some(name) = name else {
        show(global, &lab, &lab.links().await?)?;
        return Ok(ExitCode::Success);
    };
    let before = seen(&lab, &name).await?;
    let Some(duration) = duration else {
        let after = match change {
            Change::None => before,
            _ => apply(&lab, &name, change).await?,
        };
        show(global, &lab, &after)?;
        return Ok(ExitCode::Success);
    };
    if let Some(signal) = stop.asked() {
        return Ok(signal.exit_code());
    }
    let progress = Progress::new(global.quiet);
    let outcome = hold(global, &lab, (&name, change), duration, (&stop, &progress)).await;
    // Whatever became of it: one direction may be changed, or stdout may be full.
    restore(&lab, change, &before).await?;
    progress.step("restored");
    Ok(outcome?.map_or(ExitCode::Success, Signal::exit_code))
}

/// Changes, shows, and waits for the time to pass or for the signal that it returns.
async fn hold(
    global: &Global,
    lab: &Lab,
    (name, change): (&LinkName, Change),
    duration: Duration,
    (stop, progress): (&Stop, &Progress),
) -> Result<Option<Signal>, CommandError> {
    let after = apply(lab, name, change).await?;
    show(global, lab, &after)?;
    progress.step(format_args!("restoring in {}", humantime::format_duration(duration)));
    Ok(tokio::select! {
        () = tokio::time::sleep(duration) => None,
        signal = stop.stopped() => Some(signal),
    })
}

/// A change of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Delay(u64),
    Cut,
    Heal,
}

impl Change {
    fn of(verb: &LinkVerb) -> Result<Self, CommandError> {
        match verb {
            LinkVerb::Show { .. } => Ok(Self::None),
            LinkVerb::Cut { .. } => Ok(Self::Cut),
            LinkVerb::Heal { .. } => Ok(Self::Heal),
            LinkVerb::Set { link, conditions, .. } => {
                let [condition] = conditions.as_slice() else {
                    let text = format!("set {} conditions at once", conditions.len());
                    return Err(CommandError::new(ExitCode::Usage, text).hint("give one: delay=50ms, or rtt=100ms"));
                };
                Self::condition(link, condition)
            }
        }
    }

    fn condition(link: &str, condition: &str) -> Result<Self, CommandError> {
        let usage = |text: String, hint: &str| CommandError::new(ExitCode::Usage, text).hint(hint);
        let (key, value) = condition.split_once('=').unwrap_or((condition, ""));
        if !matches!(key, "delay" | "rtt") {
            return Err(usage(
                format!("set `{key}` of a link"),
                "known conditions: delay=TIME (one way), rtt=TIME (both directions together)",
            ));
        }
        let time = parse_delay(value).map_err(|bad| usage(format!("read `{condition}`: {bad}"), &bad.hint(value)))?;
        match key {
            "rtt" if link.contains(':') => Err(usage(
                format!("set the round trip of {link}, which is one direction"),
                "delay=TIME, or name both directions: dc1-dc2",
            )),
            "rtt" => Ok(Self::Delay(time / 2)),
            _ => Ok(Self::Delay(time)),
        }
    }
}

async fn seen(lab: &Lab, name: &LinkName) -> Result<Vec<LinkSeen>, LabError> {
    let directions = name.directions();
    let asked = directions.iter().map(|(from, to)| lab.link(from, to));
    futures_util::future::try_join_all(asked).await
}

async fn apply(lab: &Lab, name: &LinkName, change: Change) -> Result<Vec<LinkSeen>, LabError> {
    let directions = name.directions();
    let ordered = directions.iter().map(|&(from, to)| async move {
        match change {
            Change::None => lab.link(from, to).await,
            Change::Delay(delay_ns) => lab.set_delay(from, to, delay_ns).await,
            Change::Cut => lab.cut(from, to, CutKind::Drop).await,
            Change::Heal => lab.heal(from, to).await,
        }
    });
    // All are ordered, whatever becomes of the others.
    let outcomes = futures_util::future::join_all(ordered).await;
    outcomes.into_iter().collect()
}

/// Puts back what a change has changed, in all directions whatever becomes of the others.
async fn restore(lab: &Lab, change: Change, before: &[LinkSeen]) -> Result<(), LabError> {
    let restored = before.iter().map(|link| async move {
        match (change, link.status.cut) {
            (Change::Delay(_), _) => lab
                .set_delay(&link.from, &link.to, link.status.conditions.delay_ns)
                .await
                .map(|_| ()),
            (Change::Cut, None) => lab.heal(&link.from, &link.to).await.map(|_| ()),
            _ => Ok(()),
        }
    });
    futures_util::future::join_all(restored).await.into_iter().collect()
}

fn show(global: &Global, lab: &Lab, links: &[LinkSeen]) -> Result<(), CommandError> {
    let shown = LinkDocument {
        lab: lab.name().to_string(),
        links: links.iter().map(LinkRow::from).collect(),
    };
    screen::print(&match global.format {
        Format::Json => document("link", &shown),
        Format::Text => link_table(&shown.links),
    })
}

/// Links as people read them.
pub(super) fn link_table(links: &[LinkRow]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn change(link: &str, condition: &str) -> Result<Change, String> {
        Change::condition(link, condition).map_err(|error| {
            assert_eq!(error.code, ExitCode::Usage);
            format!("{} / {}", error.text, error.hint.unwrap_or_default())
        })
    }

    #[test]
    fn a_hyphen_means_both_directions_and_a_colon_one() {
        let both = LinkName::parse("dc1-dc2").unwrap();
        assert_eq!(both.directions().len(), 2);
        let one = LinkName::parse("dc1:dc2").unwrap();
        assert_eq!(one.directions(), [(&one.from, &one.to)]);
        for bad in ["dc1", "dc1-", "dc1-dc1", "dc1:dc2:dc3", "dc1-dc2-dc3", ""] {
            assert!(LinkName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_round_trip_is_two_delays() {
        assert_eq!(change("dc1-dc2", "delay=50ms"), Ok(Change::Delay(50_000_000)));
        assert_eq!(change("dc1-dc2", "rtt=100ms"), Ok(Change::Delay(50_000_000)));
        assert!(change("dc1:dc2", "rtt=100ms").unwrap_err().contains("one direction"));
    }

    #[test]
    fn an_unknown_condition_names_the_known_ones() {
        let error = change("dc1-dc2", "speed=50").unwrap_err();
        assert!(error.contains("`speed`") && error.contains("delay=TIME"), "{error}");
        assert!(change("dc1-dc2", "delay=50").is_err(), "a bare number has no unit");
    }
}
