//! What a verb changes of a link, how it is ordered, and how it is taken back.

use crate::cli::{CutArgs, Kind, LinkVerb};
use crate::conditions::{Condition, Key, Timetable, check, not_in_stream_mode, parse_delay};
use crate::error::{CommandError, ExitCode};
use crate::lab::{Lab, LabError, LinkSeen, Only, Played};
use futures_util::future::join_all;
use wire::{Conditions, CutKind, Defect, Path, Schedule};

/// A change of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing: only a look.
    None,
    /// These conditions; others stay.
    Set {
        /// All as planned, before the named ones.
        planned: bool,
        /// Named ones.
        named: Vec<Condition>,
        /// Deliver what is in flight.
        flush: bool,
    },
    Cut(CutKind),
    CutPorts(CutKind, Only),
    Heal,
    Freeze,
    Thaw,
    Play(Timetable),
    Stop,
    Sabotage(Option<Defect>),
}

impl Change {
    pub(super) fn of(verb: &LinkVerb) -> Result<Self, CommandError> {
        Ok(match verb {
            LinkVerb::Show { .. } | LinkVerb::Capture(_) | LinkVerb::Mode(_) => Self::None,
            LinkVerb::Cut(args) => Self::cut(args)?,
            LinkVerb::Heal(_) => Self::Heal,
            LinkVerb::Freeze(_) => Self::Freeze,
            LinkVerb::Thaw(_) => Self::Thaw,
            LinkVerb::Stop(_) => Self::Stop,
            LinkVerb::Set(args) => Self::set(&args.at.link, &args.conditions, args.flush)?,
            LinkVerb::Play(args) => Self::play(&args.schedule)?,
            LinkVerb::Sabotage(args) => Self::Sabotage(defect(&args.defect)?),
        })
    }

    fn cut(args: &CutArgs) -> Result<Self, CommandError> {
        let kind = match args.kind {
            Kind::Drop => CutKind::Drop,
            Kind::Reset => CutKind::Reset,
            Kind::Close => CutKind::Close,
        };
        match &args.only {
            None => Ok(Self::Cut(kind)),
            Some(_) if kind == CutKind::Close => {
                let text = format!("cut ports of {} with `close`", args.at.link);
                Err(CommandError::new(ExitCode::Usage, text).hint(
                    "`close` ends terminated connections and ports are cut in packet mode only: --kind drop or reset",
                ))
            }
            Some(only) => Ok(Self::CutPorts(kind, only.clone())),
        }
    }

    fn set(link: &str, words: &[String], flush: bool) -> Result<Self, CommandError> {
        let mut planned = false;
        let mut named: Vec<Condition> = Vec::new();
        for word in words {
            if word == "planned" {
                planned = true;
                continue;
            }
            let condition = condition(link, word)?;
            if named.iter().any(|other| other.key() == condition.key()) {
                let text = format!("set {} of {link} twice", condition.key().as_str());
                return Err(CommandError::new(ExitCode::Usage, text).hint("say each condition once"));
            }
            named.push(condition);
        }
        Ok(Self::Set { planned, named, flush })
    }

    fn play(text: &str) -> Result<Self, CommandError> {
        Timetable::parse(text).map(Self::Play).map_err(|bad| {
            let told: Vec<String> = bad.iter().map(|bad| bad.bad.what.clone()).collect();
            let hints: Vec<&str> = bad.iter().map(|bad| bad.bad.hint.as_str()).collect();
            CommandError::new(ExitCode::Usage, format!("read the schedule: {}", told.join("; "))).hint(hints.join("; "))
        })
    }
}

fn condition(link: &str, word: &str) -> Result<Condition, CommandError> {
    let usage = |text: String, hint: String| CommandError::new(ExitCode::Usage, text).hint(hint);
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    if name == "rtt" {
        let time = parse_delay(value).map_err(|bad| usage(format!("read `{word}`: {bad}"), bad.hint(value)))?;
        if link.contains(':') {
            return Err(usage(
                format!("set the round trip of {link}, which is one direction"),
                "delay=TIME, or name both directions: dc1-dc2".to_owned(),
            ));
        }
        return Ok(Condition::Delay(time / 2));
    }
    let Some(key) = Key::parse(name) else {
        let known: Vec<&str> = Key::ALL.iter().map(|key| key.as_str()).collect();
        return Err(usage(
            format!("set `{name}` of a link"),
            format!(
                "known conditions: {}, rtt (delay=20ms, loss=1%; `testbed link set --help` shows each), or `planned`",
                known.join(", ")
            ),
        ));
    };
    Condition::parse(key, value).map_err(|bad| usage(format!("read `{word}`: {name} `{value}` {bad}"), bad.hint))
}

fn defect(word: &str) -> Result<Option<Defect>, CommandError> {
    let usage = |text: String, hint: String| CommandError::new(ExitCode::Usage, text).hint(hint);
    match word.split_once('=') {
        None if word == "none" => Ok(None),
        None if word == "no-delay" => Ok(Some(Defect::NoDelay)),
        None if word == "leaky-cut" => Ok(Some(Defect::LeakyCut)),
        Some(("extra-delay", value)) => {
            let time = parse_delay(value).map_err(|bad| usage(format!("read `{word}`: {bad}"), bad.hint(value)));
            Ok(Some(Defect::ExtraDelay { delay_ns: time? }))
        }
        _ => Err(usage(
            format!("find the defect `{word}`"),
            "extra-delay=3ms, no-delay, leaky-cut, none".to_owned(),
        )),
    }
}

/// Orders the change in all directions that were seen, whatever becomes of the others.
pub(super) async fn apply(lab: &Lab, change: &Change, before: &[LinkSeen]) -> Result<Vec<LinkSeen>, CommandError> {
    if let Change::Play(timetable) = change {
        let played = before.iter().map(|link| {
            Ok(Played {
                from: link.from.clone(),
                to: link.to.clone(),
                schedule: schedule(timetable, link)?,
            })
        });
        return Ok(lab.play(&played.collect::<Result<Vec<_>, CommandError>>()?).await?);
    }
    // Nothing is ordered in one direction if it cannot be in the other.
    let conditions: Vec<Conditions> = before
        .iter()
        .map(|link| changed(lab, change, link))
        .collect::<Result<_, _>>()?;
    let ordered = before.iter().zip(&conditions).map(|(link, conditions)| async move {
        let (from, to) = (&link.from, &link.to);
        match change {
            Change::None | Change::Play(_) => Ok(link.clone()),
            Change::Set { flush, .. } => lab.set(from, to, conditions, *flush).await,
            Change::Cut(kind) => lab.cut(from, to, *kind).await,
            Change::CutPorts(kind, only) => lab.cut_ports(from, to, only, *kind).await,
            Change::Heal => lab.heal(from, to).await,
            Change::Freeze => lab.freeze(from, to).await,
            Change::Thaw => lab.thaw(from, to).await,
            Change::Stop => lab.stop_play(from, to).await,
            Change::Sabotage(defect) => lab.sabotage(from, to, *defect).await,
        }
    });
    let outcomes = join_all(ordered).await;
    Ok(outcomes.into_iter().collect::<Result<_, LabError>>()?)
}

/// Conditions of a link after the change, if it can be made.
fn changed(lab: &Lab, change: &Change, link: &LinkSeen) -> Result<Conditions, CommandError> {
    let mut conditions = link.status.conditions.clone();
    let (planned, named) = match change {
        Change::Set { planned, named, .. } => (planned, named),
        Change::Cut(CutKind::Close) if !matches!(link.path, Path::Stream(_)) => {
            let text = format!("cut {}:{} with `close` in packet mode", link.from, link.to);
            return Err(CommandError::new(ExitCode::Usage, text).hint(
                "only who terminates connections can end them in order: testbed link mode stream, or --kind reset",
            ));
        }
        Change::CutPorts(_, only) => {
            only.ports(&lab.plan)?;
            if link.path != Path::Tun {
                let text = format!("cut ports of {}:{} outside packet mode", link.from, link.to);
                return Err(CommandError::new(ExitCode::Usage, text).hint(
                    "a relay that does not carry packets knows one state of a link for all connections: testbed link mode packet",
                ));
            }
            return Ok(conditions);
        }
        _ => return Ok(conditions),
    };
    if *planned {
        let mut links = lab.plan.links.iter();
        let planned = links.find(|planned| planned.from == link.from && planned.to == link.to);
        conditions = planned.expect("a link that was seen is in the plan").conditions.clone();
    }
    named.iter().for_each(|condition| condition.apply(&mut conditions));
    let name = format!("{}:{}", link.from, link.to);
    check(&conditions).map_err(|(key, bad)| {
        let value = Condition::of(key, &conditions).value();
        let text = format!("change {name}: {} `{value}` {bad}", key.as_str());
        CommandError::new(ExitCode::Usage, text).hint(bad.hint)
    })?;
    fits_mode(link, &conditions)?;
    Ok(conditions)
}

fn schedule(timetable: &Timetable, link: &LinkSeen) -> Result<Schedule, CommandError> {
    let name = format!("{}:{}", link.from, link.to);
    if let Path::Stream(_) = link.path {
        let text = format!("play a schedule on {name}: relays in stream mode carry out none");
        return Err(CommandError::new(ExitCode::Usage, text).hint("testbed link mode packet"));
    }
    timetable.on(&link.status.conditions).map_err(|bad| {
        CommandError::new(ExitCode::Usage, format!("play this on {name}: {}", bad.bad.what)).hint(bad.bad.hint)
    })
}

fn fits_mode(link: &LinkSeen, conditions: &Conditions) -> Result<(), CommandError> {
    let keys = not_in_stream_mode(conditions);
    match (link.path, keys.first()) {
        (Path::Stream(_), Some(key)) => {
            let text = format!("set `{}` of {}:{} in stream mode", key.as_str(), link.from, link.to);
            Err(CommandError::new(ExitCode::Usage, text)
                .hint("stream mode delays the bytes of connections and nothing else; `testbed link mode packet`"))
        }
        _ => Ok(()),
    }
}

/// Puts back what a change has changed, in all directions whatever becomes of the others.
pub(super) async fn restore(lab: &Lab, change: &Change, before: &[LinkSeen]) -> Result<(), LabError> {
    let restored = before.iter().map(|link| async move {
        let (from, to, status) = (&link.from, &link.to, &link.status);
        match (change, status.cut) {
            (Change::Set { .. }, _) => lab.set(from, to, &status.conditions, false).await.map(drop),
            (Change::Cut(_), None) => heal_whole(lab, link).await,
            (Change::CutPorts(..), _) => lab.restore_ports(from, to, status.port_cut()).await.map(drop),
            (Change::Cut(kind), Some(before)) if *kind != before => lab.cut(from, to, before).await.map(drop),
            (Change::Freeze, _) if !status.frozen => lab.thaw(from, to).await.map(drop),
            _ => Ok(()),
        }
    });
    join_all(restored).await.into_iter().collect()
}

/// A heal ends a cut of ports too; one that was there before begins anew.
async fn heal_whole(lab: &Lab, before: &LinkSeen) -> Result<(), LabError> {
    let (from, to) = (&before.from, &before.to);
    lab.heal(from, to).await?;
    match before.status.port_cut() {
        None => Ok(()),
        cut => lab.restore_ports(from, to, cut).await.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(link: &str, words: &str) -> Result<Vec<Condition>, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        match Change::set(link, &words, false) {
            Ok(Change::Set { named, .. }) => Ok(named),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.code, ExitCode::Usage);
                Err(format!("{} / {}", error.text, error.hint.unwrap_or_default()))
            }
        }
    }

    #[test]
    fn a_round_trip_is_two_delays() {
        let half = vec![Condition::Delay(50_000_000)];
        assert_eq!(set("dc1-dc2", "delay=50ms"), Ok(half.clone()));
        assert_eq!(set("dc1-dc2", "rtt=100ms"), Ok(half));
        assert!(set("dc1:dc2", "rtt=100ms").unwrap_err().contains("one direction"));
    }

    #[test]
    fn several_conditions_are_set_at_once_and_each_once() {
        let two = set("dc1-dc2", "delay=50ms loss=1%").unwrap();
        assert_eq!(two.len(), 2);
        assert!(
            set("dc1-dc2", "delay=50ms rtt=80ms")
                .unwrap_err()
                .contains("delay of dc1-dc2 twice")
        );
    }

    #[test]
    fn an_unknown_condition_names_the_known_ones() {
        let error = set("dc1-dc2", "speed=50").unwrap_err();
        assert!(error.contains("`speed`") && error.contains("delay=20ms"), "{error}");
        assert!(error.contains("jitter") && error.contains("mtu"), "{error}");
        assert!(set("dc1-dc2", "delay=50").is_err(), "a bare number has no unit");
        assert!(set("dc1-dc2", "loss").unwrap_err().contains("`loss`"));
    }

    #[test]
    fn a_wrong_schedule_is_told_whole() {
        let error = Change::play("at 5 cut, at 8s explode").unwrap_err();
        assert!(
            error.text.contains("`5` has no unit") && error.text.contains("`explode`"),
            "{}",
            error.text
        );
    }

    #[test]
    fn defects_have_words() {
        assert_eq!(defect("none").ok(), Some(None));
        assert_eq!(
            defect("extra-delay=3ms").ok(),
            Some(Some(Defect::ExtraDelay { delay_ns: 3_000_000 }))
        );
        assert_eq!(defect("leaky-cut").ok(), Some(Some(Defect::LeakyCut)));
        assert!(defect("extra-delay=3").is_err() && defect("leak").is_err());
    }
}
