//! What the host did to the block: how late it wakes a process, how late the probes could send, what others and the
//! hypervisor took. A doubt here also tells why a link was long: then it is the host's noise and not the instrument.

use super::doubt::Doubt;
use super::limits::{BUSY, OVERSLEPT_NS, SENT, SENT_LATE_NS, STEAL};
use super::seen::{Link, Seen};
use crate::findings::row;
use crate::history::{ProbeSeen, Watched};
use crate::stats::Summary;
use wire::CpuSeen;

/// All doubts about the host.
pub fn doubts(seen: &Seen<'_>) -> Vec<Doubt> {
    let mut doubts: Vec<Doubt> = seen.probes.iter().filter_map(|probe| overslept(probe)).collect();
    doubts.extend(seen.links.iter().filter_map(sent_late));
    doubts.extend(busy(seen));
    doubts.extend(steal(seen));
    doubts
}

/// Median and p95 of what sleeps lasted too long.
pub fn oversleeping(probe: &ProbeSeen) -> Option<Summary> {
    let overslept: Vec<f64> = probe.overslept_ns.iter().map(|&ns| ns as f64).collect();
    Summary::of(&overslept)
}

/// By how much beacons were sent late.
pub fn lateness(watched: &Watched) -> Option<Summary> {
    let late: Vec<f64> = watched
        .times()
        .map(|beacon| (beacon.sent_ns - beacon.intended_ns) as f64)
        .collect();
    Summary::of(&late)
}

/// Shares of the processor time between two looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Used.
    pub busy: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Cores.
    pub cores: u32,
}

impl Shares {
    /// Between the looks of two rows by the same probe.
    pub fn between(seen: &Seen<'_>, first: &str, last: &str) -> Option<Self> {
        let looks = |row: &str| {
            seen.hosts
                .iter()
                .filter(move |host| host.row == row)
                .collect::<Vec<_>>()
        };
        let first = *looks(first).first()?;
        let last = looks(last)
            .into_iter()
            .rfind(|host| host.datacenter == first.datacenter)?;
        Self::of(&first.cpu, &last.cpu)
    }

    fn of(first: &CpuSeen, last: &CpuSeen) -> Option<Self> {
        let grew = |ticks: fn(&CpuSeen) -> u64| ticks(last).saturating_sub(ticks(first)) as f64;
        let (busy, idle) = (grew(|cpu| cpu.busy_ticks), grew(|cpu| cpu.idle_ticks));
        let steal = grew(|cpu| cpu.steal_ticks);
        let all = busy + idle + steal;
        (all > 0.0).then(|| Self {
            busy: busy / all,
            steal: steal / all,
            cores: last.cores,
        })
    }
}

fn overslept(probe: &ProbeSeen) -> Option<Doubt> {
    let summary = oversleeping(probe)?;
    let [median, p95] = OVERSLEPT_NS;
    let text = || {
        format!(
            "the host of {} is busy: sleeps of {} took {} ms too long (median), {} ms (p95)",
            probe.datacenter,
            row::time(probe.sleep_ns),
            row::ms(summary.median),
            row::ms(summary.p95)
        )
    };
    (summary.median > median || summary.p95 > p95).then(|| Doubt::suspect(text()))
}

fn sent_late(link: &Link<'_>) -> Option<Doubt> {
    let watched = link.watched?;
    let late = lateness(watched)?;
    if late.p95 > SENT_LATE_NS {
        return Some(Doubt::suspect(format!(
            "the host of {} is busy: its probe sent {} ms late (p95 of {} packets)",
            link.from,
            row::ms(late.p95),
            late.n
        )));
    }
    let lasted_ns = watched.heard_until_ns.saturating_sub(watched.heard_from_ns) as f64;
    let wanted = lasted_ns / watched.interval_ns.max(1) as f64;
    (SENT * wanted > late.n as f64 + 1.0).then(|| {
        Doubt::suspect(format!(
            "the host of {} is busy: its probe sent {} packets instead of {wanted:.0}",
            link.from, late.n
        ))
    })
}

fn busy(seen: &Seen<'_>) -> Option<Doubt> {
    let shares = Shares::between(seen, "before", "start")?;
    (shares.busy > BUSY).then(|| {
        Doubt::suspect(format!(
            "the host is busy with other work: {:.0} % of {} cores before the block began",
            100.0 * shares.busy,
            shares.cores
        ))
    })
}

fn steal(seen: &Seen<'_>) -> Option<Doubt> {
    let shares = Shares::between(seen, "start", "end")?;
    (shares.steal > STEAL).then(|| {
        Doubt::suspect(format!(
            "the hypervisor took {:.0} % of {} cores during the block",
            100.0 * shares.steal,
            shares.cores
        ))
    })
}
