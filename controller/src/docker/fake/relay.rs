//! The relay of the fake engine: it obeys every order, carries out schedules by its clock, and delays nothing.

use crate::names::Kind;
use crate::plan::ContainerSpec;
use std::collections::BTreeMap;
use wire::{
    Action, Captured, CapturedPacket, Conditions, CutKind, Defect, Fate, LinkStatus, Mirror, Path, PortCut,
    RelayAnswer, RelayConfig, RelayOrder, RelayStatus, Schedule,
};

/// A relay; empty for what is none.
#[derive(Default)]
pub(super) struct Relay {
    pub(super) datacenter: String,
    links: BTreeMap<String, Outgoing>,
    path: Option<Path>,
}

/// An outgoing link.
struct Outgoing {
    status: LinkStatus,
    /// What it was told of the opposite direction.
    mirror: Option<Mirror>,
    defect: Option<Defect>,
    playing: Option<Playing>,
}

/// A schedule that is going on.
struct Playing {
    schedule: Schedule,
    start_ns: u64,
    /// Up to here it has been carried out (`None`: nothing yet).
    done_ns: Option<u64>,
}

/// One change by a schedule.
enum Effect {
    Cut(CutKind),
    Heal,
    Freeze,
    Thaw,
    Set(Conditions),
}

impl Relay {
    pub(super) fn of(spec: &ContainerSpec) -> Self {
        if spec.kind != Kind::Relay {
            return Self::default();
        }
        let config = spec
            .command
            .first()
            .and_then(|text| serde_json::from_str::<RelayConfig>(text).ok());
        let config = config.expect("a relay is started with its configuration as its only argument");
        let link = |link: wire::RelayLinkConfig| {
            let outgoing = Outgoing {
                status: LinkStatus::up(link.to.clone(), link.conditions),
                mirror: None,
                defect: None,
                playing: None,
            };
            (link.to, outgoing)
        };
        Self {
            datacenter: config.datacenter,
            links: config.links.into_iter().map(link).collect(),
            path: Some(config.path),
        }
    }

    /// Carries out what the schedules say up to now.
    pub(super) fn advance(&mut self, now_ns: u64) {
        self.links.values_mut().for_each(|link| link.advance(now_ns));
    }

    pub(super) fn obey(&mut self, order: &RelayOrder, now_ns: u64) -> Result<RelayAnswer, String> {
        self.advance(now_ns);
        match order {
            RelayOrder::Show => {}
            RelayOrder::Set { to, conditions, .. } => self.link(to)?.status.conditions = conditions.clone(),
            RelayOrder::Freeze { to } => self.link(to)?.status.frozen = true,
            RelayOrder::Thaw { to } => self.link(to)?.status.frozen = false,
            RelayOrder::Cut {
                kind: CutKind::Close, ..
            } if !matches!(self.path, Some(Path::Stream(_))) => {
                return Err("a cut of kind close needs stream mode".to_owned());
            }
            RelayOrder::Cut { to, kind } => self.link(to)?.cut(*kind, now_ns),
            RelayOrder::CutPorts { ports, .. } if self.path != Some(Path::Tun) && !ports.is_empty() => {
                return Err("ports are cut in packet mode only".to_owned());
            }
            RelayOrder::CutPorts { to, kind, ports } => self.link(to)?.cut_ports(*kind, ports, now_ns),
            RelayOrder::Heal { to } => self.link(to)?.heal(now_ns),
            RelayOrder::SetPath { path } => self.path = Some(*path),
            RelayOrder::Mirror { to, mirror } => self.link(to)?.mirror = Some(*mirror),
            RelayOrder::Play { .. } if matches!(self.path, Some(Path::Stream(_))) => {
                return Err("in stream mode no schedule is carried out".to_owned());
            }
            RelayOrder::Play { to, schedule, start_ns } => {
                let link = self.link(to)?;
                link.status.playing_since_ns = Some(*start_ns);
                link.status.next_step = schedule.steps.first().cloned();
                link.playing = Some(Playing {
                    schedule: schedule.clone(),
                    start_ns: *start_ns,
                    done_ns: None,
                });
                link.advance(now_ns);
            }
            RelayOrder::StopPlay { to } => self.link(to)?.stop(),
            RelayOrder::Capture { to, snap_bytes } => self.link(to)?.status.capturing = snap_bytes.is_some(),
            RelayOrder::TakeCapture { to, .. } => return self.captured(to, now_ns).map(RelayAnswer::Captured),
            RelayOrder::Flows { .. } => return Err("tell of connections: this engine is a fake".to_owned()),
            RelayOrder::Sabotage { to, defect } => self.link(to)?.defect = *defect,
        }
        Ok(RelayAnswer::Status(Box::new(self.status(now_ns))))
    }

    /// One packet that has just arrived, however often it is asked.
    fn captured(&mut self, to: &str, now_ns: u64) -> Result<Captured, String> {
        if !self.link(to)?.status.capturing {
            return Err("no capture is going on".to_owned());
        }
        let packet = CapturedPacket {
            at_ns: now_ns,
            fate: Fate::Arrived,
            length: 20,
            bytes: "RQAAFA==".to_owned(),
        };
        Ok(Captured {
            packets: vec![packet],
            lost: 1,
            more: false,
        })
    }

    /// What it was told of the opposite direction of a link.
    pub(super) fn mirror(&self, to: &str) -> Option<Mirror> {
        self.links.get(to)?.mirror
    }

    /// How long a packet takes over a link, nanoseconds (`None`: it does not arrive).
    pub(super) fn leg(&self, to: &str) -> Option<u64> {
        if self.path == Some(Path::Kernel) {
            return Some(0);
        }
        let link = self.links.get(to)?;
        let leaks = link.defect == Some(Defect::LeakyCut);
        if link.status.frozen || (link.status.cut.is_some() && !leaks) {
            return None;
        }
        let delay_ns = link.status.conditions.delay_ns;
        Some(match link.defect {
            Some(Defect::ExtraDelay { delay_ns: extra_ns }) => delay_ns + extra_ns,
            Some(Defect::NoDelay) => 0,
            Some(Defect::LeakyCut) | None => delay_ns,
        })
    }

    fn link(&mut self, to: &str) -> Result<&mut Outgoing, String> {
        let link = self.links.get_mut(to);
        link.ok_or_else(|| format!("relay of {} has no link to {to}", self.datacenter))
    }

    fn status(&self, now_ns: u64) -> RelayStatus {
        RelayStatus {
            datacenter: self.datacenter.clone(),
            version: super::programs::VERSION.to_owned(),
            now_ns,
            since_ns: 0,
            path: self.path.unwrap_or(Path::Tun),
            early_ns: 0,
            stream: None,
            scheduling: "other".to_owned(),
            keeps_awake: true,
            offload: true,
            dropped_no_link: 0,
            dropped_unread: 0,
            links: self.links.values().map(|link| link.status.clone()).collect(),
        }
    }
}

impl Outgoing {
    fn cut(&mut self, kind: CutKind, now_ns: u64) {
        if self.status.cut.is_none() {
            self.status.last_cut_ns = Some(now_ns);
            self.status.last_heal_ns = None;
        }
        self.status.cut = Some(kind);
    }

    /// These and no others; none: the end of it.
    fn cut_ports(&mut self, kind: CutKind, ports: &[u16], now_ns: u64) {
        if ports.is_empty() {
            return self.heal_ports(now_ns);
        }
        self.status.last_port_cut = Some(PortCut {
            kind,
            ports: ports.to_vec(),
            began_ns: now_ns,
            ended_ns: None,
        });
    }

    fn heal(&mut self, now_ns: u64) {
        if self.status.cut.take().is_some() {
            self.status.last_heal_ns = Some(now_ns);
        }
        self.heal_ports(now_ns);
    }

    fn heal_ports(&mut self, now_ns: u64) {
        if let Some(cut) = &mut self.status.last_port_cut {
            cut.ended_ns.get_or_insert(now_ns);
        }
    }

    fn stop(&mut self) {
        self.playing = None;
        self.status.playing_since_ns = None;
        self.status.next_step = None;
    }

    fn advance(&mut self, now_ns: u64) {
        let Some(playing) = &mut self.playing else { return };
        let Some(elapsed_ns) = now_ns.checked_sub(playing.start_ns) else {
            return;
        };
        let effects = effects(&playing.schedule, playing.done_ns, elapsed_ns);
        playing.done_ns = Some(elapsed_ns);
        let (start_ns, end_ns) = (playing.start_ns, end_ns(&playing.schedule));
        for (at_ns, effect) in effects {
            match effect {
                Effect::Cut(kind) => self.cut(kind, start_ns + at_ns),
                Effect::Heal => self.heal(start_ns + at_ns),
                Effect::Freeze => self.status.frozen = true,
                Effect::Thaw => self.status.frozen = false,
                Effect::Set(conditions) => self.status.conditions = conditions,
            }
        }
        // Of a flap the beginning only; the relay tells each of its turns.
        let mut steps = self.playing.iter().flat_map(|playing| &playing.schedule.steps);
        self.status.next_step = steps.find(|step| step.at_ns > elapsed_ns).cloned();
        if end_ns.is_some_and(|end_ns| elapsed_ns >= end_ns) {
            self.stop();
        }
    }
}

/// When nothing more happens (`None`: never).
fn end_ns(schedule: &Schedule) -> Option<u64> {
    let ends = schedule.steps.iter().map(|step| match step.action {
        Action::Flap { until_ns, .. } => until_ns,
        _ => Some(step.at_ns),
    });
    ends.collect::<Option<Vec<u64>>>()
        .map(|ends| ends.into_iter().max().unwrap_or(0))
}

/// What happens after `done_ns` (`None`: from the start) and up to `now_ns`, in order.
fn effects(schedule: &Schedule, done_ns: Option<u64>, now_ns: u64) -> Vec<(u64, Effect)> {
    let mut effects = Vec::new();
    let mut at = |at_ns: u64, effect: Effect| {
        if at_ns <= now_ns && done_ns.is_none_or(|done_ns| at_ns > done_ns) {
            effects.push((at_ns, effect));
        }
    };
    for step in &schedule.steps {
        match &step.action {
            Action::Cut { kind } => at(step.at_ns, Effect::Cut(*kind)),
            Action::Heal => at(step.at_ns, Effect::Heal),
            Action::Freeze => at(step.at_ns, Effect::Freeze),
            Action::Thaw => at(step.at_ns, Effect::Thaw),
            Action::Set { conditions } => at(step.at_ns, Effect::Set(Conditions::clone(conditions))),
            Action::Flap {
                kind,
                every_ns,
                until_ns,
            } => {
                let end_ns = until_ns.unwrap_or(u64::MAX).min(now_ns.saturating_add(1));
                let mut next_ns = step.at_ns;
                let mut cut = true;
                while next_ns < end_ns {
                    at(next_ns, if cut { Effect::Cut(*kind) } else { Effect::Heal });
                    cut = !cut;
                    next_ns += (*every_ns).max(1);
                }
                if let Some(until_ns) = until_ns {
                    at(*until_ns, Effect::Heal);
                }
            }
        }
    }
    // Of one instant, the later step has the last word.
    effects.sort_by_key(|(at_ns, _)| *at_ns);
    effects
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Step;

    const S: u64 = 1_000_000_000;

    fn played(schedule: Schedule) -> Outgoing {
        Outgoing {
            status: LinkStatus::up("dc2", Conditions::delay(20)),
            mirror: None,
            defect: None,
            playing: Some(Playing {
                schedule,
                start_ns: 100 * S,
                done_ns: None,
            }),
        }
    }

    fn cut_at(link: &mut Outgoing, at_ns: u64) -> Option<CutKind> {
        link.advance(100 * S + at_ns);
        link.status.cut
    }

    #[test]
    fn steps_happen_when_their_time_has_come_and_are_stamped_with_it() {
        let step = |at_ns, action| Step { at_ns, action };
        let kind = CutKind::Reset;
        let mut link = played(Schedule {
            steps: vec![step(5 * S, Action::Cut { kind }), step(8 * S, Action::Heal)],
        });
        link.advance(0);
        assert_eq!(cut_at(&mut link, 4 * S), None);
        assert_eq!(cut_at(&mut link, 6 * S), Some(kind));
        assert_eq!(link.status.last_cut_ns, Some(105 * S));
        assert!(link.playing.is_some());
        assert_eq!(cut_at(&mut link, 9 * S), None);
        assert_eq!(link.status.last_heal_ns, Some(108 * S));
        assert!(link.playing.is_none(), "nothing more happens");
    }

    #[test]
    fn flapping_alternates_and_ends_healed() {
        let action = Action::Flap {
            kind: CutKind::Drop,
            every_ns: 2 * S,
            until_ns: Some(9 * S),
        };
        let mut link = played(Schedule {
            steps: vec![Step { at_ns: 0, action }],
        });
        let seen: Vec<bool> = (0..11).map(|s| cut_at(&mut link, s * S).is_some()).collect();
        let cut = [true, true, false, false, true, true, false, false, true, false, false];
        assert_eq!(seen, cut);
    }
}
