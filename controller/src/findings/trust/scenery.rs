//! Made-up watches of made-up links for the tests of the trust: what an intact instrument on a quiet machine would have
//! recorded of a block, and one thing broken at a time. Receptions follow from an ideal link, not from the rules.

use crate::claim::{Cause, Verdict};
use crate::findings::synthetic::{MS, Story};
use crate::findings::{BlockFindings, Trust};
use crate::history::{BeaconTimes, Calibrated, HostSeen, ProbeSeen, RelaySeen, Watched, What};
use wire::{Conditions, CpuSeen, CutKind, LinkCounters, LinkStatus, Path, PortCut, RelayStatus};

pub const CLAIM: &str = "7.far-costs-one-round-trip@20ms";
pub const EVERY_MS: u64 = 20;

/// What is asked of a link from a time on.
#[derive(Clone, Copy)]
pub struct Asked {
    pub at_ms: u64,
    pub delay_ms: u64,
    pub cut: bool,
    pub frozen: bool,
    pub ports: &'static [u16],
    /// When the cut of these ports began, if not with this.
    pub ports_began_ms: Option<u64>,
}

impl Asked {
    fn port_cut(&self) -> Option<PortCut> {
        (!self.ports.is_empty()).then(|| PortCut {
            kind: CutKind::Drop,
            ports: self.ports.to_vec(),
            began_ns: self.ports_began_ms.unwrap_or(self.at_ms) * MS,
            ended_ns: None,
        })
    }
}

pub fn up(at_ms: u64, delay_ms: u64) -> Asked {
    Asked {
        at_ms,
        delay_ms,
        cut: false,
        frozen: false,
        ports: &[],
        ports_began_ms: None,
    }
}

pub fn cut(at_ms: u64, delay_ms: u64) -> Asked {
    Asked {
        cut: true,
        ..up(at_ms, delay_ms)
    }
}

pub fn frozen(at_ms: u64, delay_ms: u64) -> Asked {
    Asked {
        frozen: true,
        ..up(at_ms, delay_ms)
    }
}

/// A whole block as an intact instrument on a quiet machine records it; tests break one thing each.
pub struct Scenery {
    pub block: u8,
    pub asked: Vec<Asked>,
    pub until_ms: u64,
    pub conditions: Conditions,
    /// What became of a beacon from dc1 sent at this time, by the ideal link: its reception.
    pub fate: Box<dyn Fn(u64, Option<u64>) -> Option<u64>>,
    /// By how much a beacon sent at this time was sent late.
    pub sent_late: fn(u64) -> u64,
    pub calibrated: fn(u64) -> u64,
    pub overslept_ns: Vec<u64>,
    pub last: RelayStatus,
    pub busy_before: u64,
    pub stolen: u64,
    /// By how much the stamp of a change is later than the change.
    pub stamped_late_ns: u64,
    pub destroyed_by_port: u64,
}

pub fn status(datacenter: &str, to: &str, conditions: &Conditions) -> RelayStatus {
    RelayStatus {
        datacenter: datacenter.to_owned(),
        version: "0".to_owned(),
        now_ns: 0,
        since_ns: 1,
        path: Path::Tun,
        early_ns: 30_000,
        scheduling: "deadline".to_owned(),
        keeps_awake: true,
        offload: true,
        dropped_no_link: 0,
        dropped_unread: 0,
        stream: None,
        links: vec![LinkStatus::up(to, conditions.clone())],
    }
}

impl Scenery {
    pub fn of(asked: &[Asked]) -> Self {
        let conditions = Conditions::delay(asked[0].delay_ms * MS);
        let mut scenery = Self {
            block: 7,
            asked: asked.to_vec(),
            until_ms: asked.last().unwrap().at_ms + 1000,
            fate: Box::new(|_, ideal| ideal),
            sent_late: |_| 30_000,
            calibrated: |i| 120_000 + i * 1000,
            overslept_ns: (0..50).map(|i| 20_000 + i * 1000).collect(),
            last: status("dc1", "dc2", &conditions),
            conditions,
            busy_before: 10,
            stolen: 0,
            stamped_late_ns: 0,
            destroyed_by_port: 0,
        };
        scenery.last.links[0].counters.dropped_cut = if asked.iter().any(|asked| asked.cut) { 30 } else { 0 };
        scenery
    }

    /// 20 ms throughout.
    pub fn still() -> Self {
        Self::of(&[up(0, 20)])
    }

    pub fn last(mut self, change: impl FnOnce(&mut RelayStatus)) -> Self {
        change(&mut self.last);
        self
    }

    pub fn counters(self, change: impl FnOnce(&mut LinkCounters)) -> Self {
        self.last(|last| change(&mut last.links[0].counters))
    }

    /// In both directions.
    pub fn destroyed_by_port(mut self, packets: u64) -> Self {
        self.destroyed_by_port = packets;
        self
    }

    pub fn fate(mut self, fate: impl Fn(u64, Option<u64>) -> Option<u64> + 'static) -> Self {
        self.fate = Box::new(fate);
        self
    }

    /// When an ideal link delivers a packet; it takes 0.1 ms to the relay, and as long from it.
    pub fn ideal(&self, sent_ns: u64) -> Option<u64> {
        let hop_ns = 100_000;
        let arrived_ns = sent_ns + hop_ns;
        let first = self.asked.iter().rposition(|asked| asked.at_ms * MS <= arrived_ns)?;
        let due_ns = arrived_ns + self.asked[first].delay_ms * MS;
        for (i, asked) in self.asked.iter().enumerate().skip(first) {
            let ends_ns = self.asked.get(i + 1).map_or(u64::MAX, |next| next.at_ms * MS);
            let leaves_ns = due_ns.max(asked.at_ms * MS);
            if asked.cut {
                return None;
            }
            if !asked.frozen && leaves_ns < ends_ns {
                return Some(leaves_ns + hop_ns);
            }
        }
        None
    }

    pub fn beacons(&self, defective: bool) -> Vec<BeaconTimes> {
        let times = |i: u64| {
            let intended_ns = (7 + i * EVERY_MS) * MS;
            let sent_ns = intended_ns + (self.sent_late)(intended_ns);
            let ideal = self.ideal(sent_ns);
            let received_ns = if defective { (self.fate)(sent_ns, ideal) } else { ideal };
            BeaconTimes {
                intended_ns,
                sent_ns,
                received_ns: received_ns.filter(|&at_ns| at_ns < self.until_ms * MS),
            }
        };
        (0..self.until_ms / EVERY_MS).map(times).collect()
    }

    pub fn story(&self) -> Story {
        let block = self.block;
        let mut story = Story::of(block)
            .round_trips(20)
            .took("cache far", "get", Some(20), 40.2, 40, 0);
        let ways = [("dc1", "dc2", true), ("dc2", "dc1", false)];
        for (from, to, _) in ways {
            for asked in &self.asked {
                story = story.event(What::LinkChanged {
                    block,
                    from: from.to_owned(),
                    to: to.to_owned(),
                    at_ns: asked.at_ms * MS + self.stamped_late_ns,
                    delay_ns: asked.delay_ms * MS,
                    cut: asked.cut.then_some(CutKind::Drop),
                    port_cut: asked.port_cut(),
                    frozen: asked.frozen,
                    path: Path::Tun,
                });
            }
        }
        for (from, to, first) in ways {
            let asked_ns = self.asked[0].delay_ms * MS;
            let excess_ns = |i: u64| if first { (self.calibrated)(i) } else { 130_000 };
            story = story
                .event(What::Calibrated(Calibrated {
                    block,
                    from: from.to_owned(),
                    to: to.to_owned(),
                    asked_ns,
                    one_way_ns: (0..30).map(|i| asked_ns + excess_ns(i) - 10_000).collect(),
                    lost: 0,
                }))
                .event(self.probe(from));
        }
        let cpu = |busy_ticks: u64, idle_ticks: u64, steal_ticks: u64| CpuSeen {
            cores: 2,
            busy_ticks,
            idle_ticks,
            steal_ticks,
        };
        for (row, seen) in [
            ("before", cpu(0, 0, 0)),
            ("start", cpu(self.busy_before, 100 - self.busy_before, 0)),
            ("end", cpu(self.busy_before + 500, 1500, self.stolen)),
        ] {
            story = story.event(What::HostSeen(HostSeen {
                block,
                row: row.to_owned(),
                datacenter: "dc1".to_owned(),
                cpu: seen,
            }));
        }
        let first = status("dc1", "dc2", &self.conditions);
        for (row, status) in [
            ("start", first.clone()),
            ("start", status("dc2", "dc1", &self.conditions)),
            ("end", self.ended(self.last.clone())),
            ("end", self.ended(status("dc2", "dc1", &self.conditions))),
        ] {
            story = story.event(seen(block, row, status));
        }
        for (from, to, defective) in ways {
            story = story.event(What::Watched(Watched {
                block,
                from: from.to_owned(),
                to: to.to_owned(),
                interval_ns: EVERY_MS * MS,
                heard_from_ns: 0,
                heard_until_ns: self.until_ms * MS,
                beacons: Watched::pack(self.beacons(defective)),
            }));
        }
        story
    }

    pub fn probe(&self, datacenter: &str) -> What {
        What::ProbeSeen(ProbeSeen {
            block: self.block,
            datacenter: datacenter.to_owned(),
            echo_ns: vec![40_000; 10],
            sleep_ns: MS,
            overslept_ns: self.overslept_ns.clone(),
        })
    }

    /// The state at the end, as the last thing asked for says unless a test has changed it.
    pub fn ended(&self, mut status: RelayStatus) -> RelayStatus {
        let asked = self.asked.last().unwrap();
        status.now_ns = self.until_ms * MS;
        let link = &mut status.links[0];
        if link.conditions == self.conditions {
            link.conditions.delay_ns = asked.delay_ms * MS;
        }
        if link.counters.dropped_cut == 0 && self.asked.iter().any(|asked| asked.cut) && link.to == "dc1" {
            link.counters.dropped_cut = 30;
        }
        link.counters.dropped_ports += self.destroyed_by_port;
        status
    }

    pub fn judged(&self) -> BlockFindings {
        self.story().judged()
    }

    #[track_caller]
    pub fn assert_sound(&self) {
        let judged = self.judged();
        assert_eq!(judged.trust, Trust::Sound);
        assert_eq!(judged.verdict(CLAIM), Verdict::Holds);
    }

    #[track_caller]
    pub fn assert_void(&self, cause: Cause, why: &str) {
        let judged = self.judged();
        let Trust::Void(reasons) = &judged.trust else {
            panic!("{:?}", judged.trust)
        };
        assert!(reasons[0].contains(why), "{reasons:?}");
        for finding in &judged.findings {
            assert_eq!(finding.verdict, Verdict::Inconclusive, "{finding:?}");
        }
        if let Some(finding) = judged.findings.iter().find(|finding| finding.claim == CLAIM) {
            assert_eq!(finding.cause, Some(cause));
        }
    }

    #[track_caller]
    pub fn assert_suspect(&self, why: &str) {
        let judged = self.judged();
        let Trust::Suspect(reasons) = &judged.trust else {
            panic!("{:?}", judged.trust)
        };
        assert!(reasons[0].contains(why), "{reasons:?}");
        assert_eq!(judged.verdict(CLAIM), Verdict::Holds);
    }
}

fn seen(block: u8, row: &str, status: RelayStatus) -> What {
    What::RelaySeen(Box::new(RelaySeen {
        block,
        row: row.to_owned(),
        looks: 3,
        status,
    }))
}

/// 5, 20, 40 ms, a cut and a heal, a freeze and a thaw: everything that a block does.
pub fn eventful() -> Vec<Asked> {
    vec![
        up(0, 20),
        up(1000, 5),
        up(2000, 40),
        cut(3000, 40),
        up(3500, 40),
        frozen(4500, 40),
        up(4800, 40),
        up(5800, 20),
    ]
}
