//! What a verb changes of a link, how it is ordered, and how it is taken back.

use super::LinkName;
use crate::cli::LinkVerb;
use crate::conditions::parse_delay;
use crate::error::{CommandError, ExitCode};
use crate::lab::{Lab, LabError, LinkSeen};
use wire::CutKind;

/// A change of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Delay(u64),
    Cut,
    Heal,
}

impl Change {
    pub(super) fn of(verb: &LinkVerb) -> Result<Self, CommandError> {
        match verb {
            LinkVerb::Show { .. } | LinkVerb::Capture(_) => Ok(Self::None),
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

pub(super) async fn apply(lab: &Lab, name: &LinkName, change: Change) -> Result<Vec<LinkSeen>, LabError> {
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
pub(super) async fn restore(lab: &Lab, change: Change, before: &[LinkSeen]) -> Result<(), LabError> {
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
