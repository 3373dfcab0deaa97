//! A schedule being carried out: which change of the link is next, and when.
//!
//! Pure: time is an argument. What must stay true: no change before its time, all of them in order. Changes whose time has
//! passed are carried out together, in order; of a flap that was missed only the last few cuts and heals,
//! since all before them leave no trace. A step that cuts, heals or flaps ends the flap before it; one that freezes, thaws or
//! sets does not, and neither does an order from outside.

use crate::lane::Change;
use std::collections::VecDeque;
use wire::{Action, CutKind, Schedule, Step};

/// A schedule and how far it has been carried out.
#[derive(Debug)]
pub struct Player {
    start_ns: u64,
    steps: VecDeque<Step>,
    flap: Option<Flap>,
}

/// A link that is cut and healed in turn.
#[derive(Debug)]
struct Flap {
    kind: CutKind,
    every_ns: u64,
    /// When it ends, healed.
    until_ns: u64,
    /// When it changes next.
    next_ns: u64,
    /// Whether it changes into a cut then.
    cuts: bool,
}

impl Player {
    /// A schedule that starts at `start_ns`.
    pub fn new(schedule: Schedule, start_ns: u64) -> Self {
        Self {
            start_ns,
            steps: schedule.steps.into(),
            flap: None,
        }
    }

    /// When it started, or will.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// When the next change is due; nothing when all is done.
    pub fn next_ns(&self) -> Option<u64> {
        let step = self.steps.front().map(|step| self.start_ns.saturating_add(step.at_ns));
        let flap = self.flap.as_ref().map(Flap::due_ns);
        step.into_iter().chain(flap).min()
    }

    /// What comes next, and when after the start; nothing when all is done.
    pub fn next_step(&self) -> Option<Step> {
        let step = self.steps.front();
        let turn = self.flap.as_ref().and_then(|flap| flap.next_step(self.start_ns));
        // At one instant the flap's turn comes first, see below.
        match (turn, step) {
            (Some(turn), Some(step)) if step.at_ns < turn.at_ns => Some(step.clone()),
            (turn, step) => turn.or_else(|| step.cloned()),
        }
    }

    /// The next change, if it is due at `now_ns`.
    pub fn next(&mut self, now_ns: u64) -> Option<Change> {
        loop {
            if self.next_ns()? > now_ns {
                return None;
            }
            let step_ns = self.steps.front().map(|step| self.start_ns.saturating_add(step.at_ns));
            // At one instant the flap's turn comes first: what the step says holds after it.
            if let Some(flap) = &mut self.flap
                && step_ns.is_none_or(|step_ns| flap.due_ns() <= step_ns)
            {
                // What it would have done until the step, or until now.
                let (change, ended) = flap.turn(now_ns.min(step_ns.unwrap_or(u64::MAX)));
                if ended {
                    self.flap = None;
                }
                match change {
                    Some(change) => return Some(change),
                    None => continue,
                }
            }
            if let Some(change) = self.steps.pop_front().and_then(|step| self.begin(step)) {
                return Some(change);
            }
        }
    }

    fn begin(&mut self, step: Step) -> Option<Change> {
        if matches!(step.action, Action::Cut { .. } | Action::Heal | Action::Flap { .. }) {
            self.flap = None;
        }
        match step.action {
            Action::Cut { kind } => Some(Change::Cut { kind }),
            Action::Heal => Some(Change::Heal),
            Action::Freeze => Some(Change::Freeze),
            Action::Thaw => Some(Change::Thaw),
            Action::Set { conditions } => Some(Change::Set {
                conditions,
                flush: false,
            }),
            Action::Flap {
                kind,
                every_ns,
                until_ns,
            } => {
                let end_ns = |until_ns| self.start_ns.saturating_add(until_ns);
                self.flap = Some(Flap {
                    kind,
                    every_ns,
                    until_ns: until_ns.map_or(u64::MAX, end_ns),
                    next_ns: self.start_ns.saturating_add(step.at_ns),
                    cuts: true,
                });
                None
            }
        }
    }
}

impl Flap {
    fn due_ns(&self) -> u64 {
        self.next_ns.min(self.until_ns)
    }

    /// What it does next; nothing if it ends while the link is up.
    fn next_step(&self, start_ns: u64) -> Option<Step> {
        let ends = self.next_ns >= self.until_ns;
        let action = match (self.cuts, ends) {
            (true, true) => return None,
            (true, false) => Action::Cut { kind: self.kind },
            (false, _) => Action::Heal,
        };
        Some(Step {
            at_ns: self.due_ns().saturating_sub(start_ns),
            action,
        })
    }

    /// The change that is due, the latest of its kind by `by_ns`; then whether the flap is over.
    fn turn(&mut self, by_ns: u64) -> (Option<Change>, bool) {
        if self.next_ns >= self.until_ns {
            // A flap that ends in a cut heals; one that ends while up, or before it began, has nothing to do.
            return ((!self.cuts).then_some(Change::Heal), true);
        }
        let last_ns = by_ns.min(self.until_ns - 1);
        let missed = (last_ns - self.next_ns) / self.every_ns.max(1);
        // Two or three changes are left, as many as the state at the end needs.
        let skipped = missed.saturating_sub(1) & !1;
        let change = if self.cuts {
            Change::Cut { kind: self.kind }
        } else {
            Change::Heal
        };
        let next = u128::from(self.next_ns) + (u128::from(skipped) + 1) * u128::from(self.every_ns.max(1));
        self.next_ns = u64::try_from(next).unwrap_or(u64::MAX);
        self.cuts = !self.cuts;
        (Some(change), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Conditions;

    const CUT: Change = Change::Cut { kind: CutKind::Drop };

    fn cut() -> Action {
        Action::Cut { kind: CutKind::Drop }
    }

    fn flap(every_ns: u64, until_ns: Option<u64>) -> Action {
        let kind = CutKind::Reset;
        Action::Flap {
            kind,
            every_ns,
            until_ns,
        }
    }

    fn player(steps: Vec<(u64, Action)>) -> Player {
        let steps = steps.into_iter().map(|(at_ns, action)| Step { at_ns, action });
        Player::new(Schedule { steps: steps.collect() }, 1000)
    }

    /// Changes at the times at which the player wants to be asked, until it is done or `end_ns`.
    fn played(player: &mut Player, end_ns: u64) -> Vec<(u64, Change)> {
        let mut changes = Vec::new();
        while let Some(next_ns) = player.next_ns().filter(|next_ns| *next_ns <= end_ns) {
            if let Some(early_ns) = next_ns.checked_sub(1) {
                assert_eq!(player.next(early_ns), None);
            }
            while let Some(change) = player.next(next_ns) {
                changes.push((next_ns, change));
            }
        }
        changes
    }

    #[test]
    fn steps_come_at_their_times_after_the_start_and_then_it_is_done() {
        let conditions = Box::new(Conditions::delay(5));
        let steps = vec![
            (5, cut()),
            (8, Action::Heal),
            (8, Action::Freeze),
            (
                9,
                Action::Set {
                    conditions: conditions.clone(),
                },
            ),
            (9, Action::Thaw),
        ];
        let mut player = player(steps);
        assert_eq!(player.start_ns(), 1000);
        let set = Change::Set {
            conditions,
            flush: false,
        };
        let expected = [
            (1005, CUT),
            (1008, Change::Heal),
            (1008, Change::Freeze),
            (1009, set),
            (1009, Change::Thaw),
        ];
        assert_eq!(played(&mut player, u64::MAX), expected);
        assert_eq!(player.next_ns(), None);
    }

    #[test]
    fn a_flap_cuts_and_heals_in_turn_and_ends_healed() {
        let reset = Change::Cut { kind: CutKind::Reset };
        let times = |changes: Vec<(u64, Change)>| {
            let cuts = changes.into_iter().map(|(at_ns, change)| (at_ns, change == reset));
            cuts.collect::<Vec<_>>()
        };
        let in_a_cut = played(&mut player(vec![(10, flap(4, Some(19)))]), u64::MAX);
        assert_eq!(
            times(in_a_cut),
            [(1010, true), (1014, false), (1018, true), (1019, false)]
        );
        let while_up = played(&mut player(vec![(10, flap(4, Some(17)))]), u64::MAX);
        assert_eq!(times(while_up), [(1010, true), (1014, false)]);
        let at_a_heal = played(&mut player(vec![(10, flap(4, Some(14)))]), u64::MAX);
        assert_eq!(times(at_a_heal), [(1010, true), (1014, false)]);
        for until_ns in [5, 10] {
            assert!(played(&mut player(vec![(10, flap(4, Some(until_ns)))]), u64::MAX).is_empty());
        }
        let mut endless = player(vec![(10, flap(4, None))]);
        assert_eq!(played(&mut endless, 1400).len(), 98);
        assert_eq!(endless.next_ns(), Some(1402));
    }

    #[test]
    fn what_comes_next_is_told_a_flaps_turns_too() {
        let mut limited = player(vec![(10, flap(4, Some(17))), (16, Action::Freeze)]);
        let mut told = Vec::new();
        while let Some(Step { at_ns, action }) = limited.next_step() {
            told.push((at_ns, action));
            while limited.next(1000 + at_ns).is_some() {}
        }
        let reset = Action::Cut { kind: CutKind::Reset };
        let begins = flap(4, Some(17));
        // The flap's own beginning is its first cut.
        assert_eq!(told, [(10, begins), (14, Action::Heal), (16, Action::Freeze)]);
        assert_eq!(
            limited.next_ns(),
            Some(1017),
            "it ends while the link is up, and does nothing more"
        );
        let mut endless = player(vec![(10, flap(4, None))]);
        while endless.next(1014).is_some() {}
        assert_eq!(
            endless.next_step(),
            Some(Step {
                at_ns: 18,
                action: reset
            })
        );
    }

    #[test]
    fn a_step_that_cuts_or_heals_ends_a_flap_and_one_that_freezes_does_not() {
        let steps = vec![
            (10, flap(4, None)),
            (16, Action::Freeze),
            (21, Action::Heal),
            (30, cut()),
        ];
        let reset = || Change::Cut { kind: CutKind::Reset };
        let expected = [
            (1010, reset()),
            (1014, Change::Heal),
            (1016, Change::Freeze),
            (1018, reset()),
            (1021, Change::Heal),
            (1030, CUT),
        ];
        assert_eq!(played(&mut player(steps), u64::MAX), expected);
        let steps = vec![(10, flap(4, None)), (14, cut())];
        let expected = [(1010, reset()), (1014, Change::Heal), (1014, CUT)];
        assert_eq!(played(&mut player(steps), u64::MAX), expected);
    }

    #[test]
    fn what_was_missed_is_made_good_at_once_and_a_long_flap_in_two_changes() {
        let all = |player: &mut Player, now_ns| std::iter::from_fn(|| player.next(now_ns)).collect::<Vec<_>>();
        let reset = || Change::Cut { kind: CutKind::Reset };
        let mut late = player(vec![(1, cut()), (2, Action::Heal), (3, Action::Freeze)]);
        assert_eq!(all(&mut late, 9999), [CUT, Change::Heal, Change::Freeze]);
        // After an even number of periods it is cut, after an odd one healed; it goes on from there.
        let (even, odd) = (vec![Change::Heal, reset()], vec![Change::Heal, reset(), Change::Heal]);
        for (periods, expected) in [(1_000_000_000, even), (999_999_999, odd)] {
            let mut flapping = player(vec![(0, flap(4, None))]);
            assert_eq!(all(&mut flapping, 1000), [reset()]);
            assert_eq!(all(&mut flapping, 1000 + 4 * periods + 1), expected);
            assert_eq!(flapping.next_ns(), Some(1000 + 4 * (periods + 1)));
        }
        let mut ended = player(vec![(0, flap(4, Some(11)))]);
        assert_eq!(all(&mut ended, 5000), [reset(), Change::Heal, reset(), Change::Heal]);
        assert_eq!(ended.next_ns(), None);
        let mut replaced = player(vec![(0, flap(4, None)), (1_000_001, Action::Heal)]);
        let changes = all(&mut replaced, u64::MAX);
        assert!(
            changes.len() <= 4 && changes.last() == Some(&Change::Heal),
            "{changes:?}"
        );
        assert_eq!(replaced.next_ns(), None);
    }

    #[test]
    fn a_start_at_the_end_of_time_neither_wraps_nor_hangs() {
        let step = Step {
            at_ns: 5,
            action: flap(1, Some(9)),
        };
        let mut never = Player::new(Schedule { steps: vec![step] }, u64::MAX - 2);
        assert_eq!(never.next(u64::MAX - 3), None);
        while never.next(u64::MAX).is_some() {}
    }
}
