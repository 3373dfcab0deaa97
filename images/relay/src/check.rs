//! What an order must not ask: conditions that have no meaning, and schedules that cannot be carried out.
//!
//! Pure. The controller has read the same from a file with line and column; this is the last door before the data
//! path, which relies on it.

use wire::{Action, Conditions, CutKind, JitterShape, MILLION, Schedule};

/// Smallest MTU that IPv4 knows.
const MTU_MIN: u16 = 68;

/// Conditions have no meaning.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionsError {
    /// Nothing would ever leave.
    #[error("a rate of 0 lets nothing pass: cut the link, or freeze it")]
    RateZero,
    /// More than certain.
    #[error("{what} of {ppm} parts per million is above 1")]
    Probability {
        /// Which of them.
        what: &'static str,
        /// As ordered.
        ppm: u32,
    },
    /// Nothing to choose from.
    #[error("a jitter table without entries")]
    EmptyTable,
    /// Not even a header would pass.
    #[error("an MTU of {0} is below the {MTU_MIN} bytes that IPv4 needs")]
    Mtu(u16),
}

/// A schedule cannot be carried out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Steps are carried out in order.
    #[error("step {0} comes before the one above it")]
    Order(usize),
    /// It would never end to cut and heal.
    #[error("step {0} flaps without a period")]
    NoPeriod(usize),
    /// The relay does not terminate connections while it carries out schedules.
    #[error("step {0} cuts by `close`, which needs stream mode, and there no schedule is carried out")]
    Close(usize),
    /// A step sets such conditions.
    #[error("step {0}: {1}")]
    Conditions(usize, ConditionsError),
}

/// Refuse what has no meaning.
pub fn conditions(conditions: &Conditions) -> Result<(), ConditionsError> {
    if conditions.rate_bits_per_s == Some(0) {
        return Err(ConditionsError::RateZero);
    }
    let probabilities = [
        ("a loss", conditions.loss.map_or(0, |loss| loss.ppm)),
        ("a duplication", conditions.duplicate_ppm),
        ("a reordering", conditions.reorder.map_or(0, |reorder| reorder.ppm)),
        ("a corruption", conditions.corrupt_ppm),
    ];
    if let Some((what, ppm)) = probabilities.into_iter().find(|(_, ppm)| *ppm > MILLION) {
        return Err(ConditionsError::Probability { what, ppm });
    }
    if let Some(JitterShape::Table { added_ns }) = conditions.jitter.as_ref().map(|jitter| &jitter.shape)
        && added_ns.is_empty()
    {
        return Err(ConditionsError::EmptyTable);
    }
    match conditions.mtu {
        Some(mtu) if mtu < MTU_MIN => Err(ConditionsError::Mtu(mtu)),
        _ => Ok(()),
    }
}

/// Refuse what cannot be carried out. Steps are numbered from 1.
pub fn schedule(schedule: &Schedule) -> Result<(), ScheduleError> {
    let mut before_ns = 0;
    for (number, step) in (1..).zip(&schedule.steps) {
        if step.at_ns < before_ns {
            return Err(ScheduleError::Order(number));
        }
        before_ns = step.at_ns;
        match &step.action {
            Action::Cut { kind: CutKind::Close }
            | Action::Flap {
                kind: CutKind::Close, ..
            } => {
                return Err(ScheduleError::Close(number));
            }
            Action::Flap { every_ns: 0, .. } => return Err(ScheduleError::NoPeriod(number)),
            Action::Set { conditions: set } => {
                conditions(set).map_err(|error| ScheduleError::Conditions(number, error))?;
            }
            Action::Cut { .. } | Action::Heal | Action::Freeze | Action::Thaw | Action::Flap { .. } => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Jitter, Loss, Reorder, Step};

    #[test]
    fn ordinary_conditions_pass_and_those_without_meaning_say_why() {
        let plain = || Conditions::delay(5);
        let jitter = |shape| Jitter { shape, reorder: false };
        let all = Conditions {
            jitter: Some(jitter(JitterShape::Table { added_ns: vec![1] })),
            loss: Some(Loss {
                ppm: MILLION,
                burst_milli: 0,
            }),
            duplicate_ppm: MILLION,
            reorder: Some(Reorder { ppm: MILLION, by_ns: 0 }),
            corrupt_ppm: MILLION,
            rate_bits_per_s: Some(1),
            mtu: Some(MTU_MIN),
            ..plain()
        };
        assert_eq!(conditions(&plain()), Ok(()));
        assert_eq!(conditions(&all), Ok(()));
        let refused = [
            (
                Conditions {
                    rate_bits_per_s: Some(0),
                    ..plain()
                },
                "a rate of 0",
            ),
            (
                Conditions {
                    loss: Some(Loss {
                        ppm: MILLION + 1,
                        burst_milli: 0,
                    }),
                    ..plain()
                },
                "a loss of 1000001",
            ),
            (
                Conditions {
                    duplicate_ppm: MILLION + 1,
                    ..plain()
                },
                "a duplication of",
            ),
            (
                Conditions {
                    reorder: Some(Reorder {
                        ppm: u32::MAX,
                        by_ns: 0,
                    }),
                    ..plain()
                },
                "a reordering of",
            ),
            (
                Conditions {
                    corrupt_ppm: MILLION + 1,
                    ..plain()
                },
                "a corruption of",
            ),
            (
                Conditions {
                    jitter: Some(jitter(JitterShape::Table { added_ns: vec![] })),
                    ..plain()
                },
                "a jitter table",
            ),
            (
                Conditions {
                    mtu: Some(67),
                    ..plain()
                },
                "an MTU of 67",
            ),
        ];
        for (wrong, text) in refused {
            let error = conditions(&wrong).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }

    #[test]
    fn steps_come_in_order_flap_with_a_period_and_set_what_has_a_meaning() {
        let step = |at_ns, action| Step { at_ns, action };
        let cut = || Action::Cut { kind: CutKind::Drop };
        let flap = |every_ns| Action::Flap {
            kind: CutKind::Drop,
            every_ns,
            until_ns: None,
        };
        let set = |conditions| Action::Set {
            conditions: Box::new(conditions),
        };
        let check = |steps| schedule(&Schedule { steps });
        assert_eq!(check(vec![]), Ok(()));
        assert_eq!(
            check(vec![step(5, cut()), step(5, Action::Heal), step(6, flap(1))]),
            Ok(())
        );
        assert_eq!(
            check(vec![step(5, cut()), step(4, Action::Heal)]),
            Err(ScheduleError::Order(2))
        );
        assert_eq!(check(vec![step(5, flap(0))]), Err(ScheduleError::NoPeriod(1)));
        let kind = CutKind::Close;
        assert_eq!(check(vec![step(5, Action::Cut { kind })]), Err(ScheduleError::Close(1)));
        let nothing = Conditions {
            rate_bits_per_s: Some(0),
            ..Conditions::delay(0)
        };
        let expected = Err(ScheduleError::Conditions(1, ConditionsError::RateZero));
        assert_eq!(check(vec![step(5, set(nothing))]), expected);
    }
}
