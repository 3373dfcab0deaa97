//! What was asked of a directed link in the course of a block, and what such a link lets pass. The physics by which beacons
//! are judged: time is an argument, and nothing is tuned.
//!
//! What a packet may have met is asked twice. [`Course::judge`] gives it every benefit of the doubt: if even so it could not
//! have come through then, the link is not what was asked. [`Course::must_pass`] gives it none: if even so it had to come through, it
//! was lost.

use super::limits::{GUARD_NS, STAMP_NS};

/// What was asked of a link from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// When the relay confirmed it, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// One way.
    pub delay_ns: u64,
    /// Whether everything is destroyed.
    pub cut: bool,
    /// Whether everything is kept.
    pub frozen: bool,
}

/// See the top of the file. Before its first step a link is taken to have been as that says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Course {
    steps: Vec<Step>,
}

/// What a reception says of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// An intact link can have delivered it then.
    Possible,
    /// It left at least so much too early, nanoseconds.
    Early(u64),
    /// A cut should have destroyed it.
    Leaked,
}

/// A packet that had to come through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// The step in which it was sent.
    pub step: usize,
    /// When it had left the link at the latest, if nothing held it up.
    pub due_ns: u64,
    /// Whether nothing changed from the sending of whatever was ahead of it to its arrival: its one-way time is the link's
    /// length.
    pub steady: bool,
}

impl Course {
    /// Adds a step, wherever it belongs. What changes nothing is no step.
    pub fn add(&mut self, step: Step) {
        let after = self.steps.partition_point(|known| known.at_ns <= step.at_ns);
        self.steps.insert(after, step);
        self.steps.dedup_by(|next, before| {
            (next.delay_ns, next.cut, next.frozen) == (before.delay_ns, before.cut, before.frozen)
        });
    }

    /// All steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// When a step ends (the last: never).
    pub fn ends_ns(&self, step: usize) -> u64 {
        self.steps.get(step + 1).map_or(u64::MAX, |next| next.at_ns)
    }

    fn index(&self, ns: u64) -> Option<usize> {
        let after = self.steps.partition_point(|step| step.at_ns <= ns);
        (!self.steps.is_empty()).then(|| after.saturating_sub(1))
    }

    /// The earliest that a step can have begun.
    fn begins_ns(&self, step: usize) -> u64 {
        if step == 0 {
            0
        } else {
            self.steps[step].at_ns.saturating_sub(STAMP_NS)
        }
    }

    /// Steps that overlap a stretch of time.
    pub fn overlapping(&self, from_ns: u64, to_ns: u64) -> &[Step] {
        match (self.index(from_ns), self.index(to_ns)) {
            (Some(first), Some(last)) => &self.steps[first..=last.max(first)],
            _ => &[],
        }
    }

    /// Whether a packet that was sent at `sent_ns` can have been received at `received_ns`, of a link that releases up to
    /// `early_ns` before the deadline.
    pub fn judge(&self, sent_ns: u64, received_ns: u64, early_ns: u64) -> Arrival {
        let mut earliest_ns = None;
        // Whether some step lets it through that reached the relay as soon as it was sent.
        let mut survives = false;
        for step in 0..self.steps.len() {
            let arrived_ns = sent_ns.max(self.begins_ns(step));
            if arrived_ns >= self.ends_ns(step) || arrived_ns > received_ns {
                continue;
            }
            if let Some(leaves_ns) = self.leaves(step, arrived_ns, early_ns) {
                survives |= arrived_ns == sent_ns;
                earliest_ns = Some(earliest_ns.map_or(leaves_ns, |known: u64| known.min(leaves_ns)));
            }
        }
        match earliest_ns {
            Some(earliest_ns) if earliest_ns <= received_ns => Arrival::Possible,
            Some(earliest_ns) if survives => Arrival::Early(earliest_ns - received_ns),
            _ if self.steps.is_empty() => Arrival::Possible,
            _ => Arrival::Leaked,
        }
    }

    /// When a packet that arrives in `step` leaves, if no cut comes first.
    fn leaves(&self, step: usize, arrived_ns: u64, early_ns: u64) -> Option<u64> {
        let held_ns = self.steps[step].delay_ns.saturating_sub(early_ns);
        let due_ns = arrived_ns.saturating_add(held_ns);
        for (i, now) in self.steps.iter().enumerate().skip(step) {
            if now.cut {
                return None;
            }
            let leaves_ns = due_ns.max(self.begins_ns(i));
            if !now.frozen && leaves_ns < self.ends_ns(i) {
                return Some(leaves_ns);
            }
        }
        None
    }

    /// Whether, and how, a packet that was sent at `sent_ns` had to come through; `None`: it did not have to, or it is not
    /// certain.
    pub fn must_pass(&self, sent_ns: u64) -> Option<Passage> {
        let step = self.index(sent_ns)?;
        let before_ns = sent_ns.saturating_sub(STAMP_NS);
        let arriving = self.overlapping(before_ns, sent_ns.saturating_add(GUARD_NS));
        let longest_ns = arriving.iter().map(|step| step.delay_ns).max()?;
        let mut due_ns = sent_ns.saturating_add(longest_ns);
        while let Some(frozen) = self.index(due_ns).filter(|&step| self.steps[step].frozen) {
            due_ns = self.ends_ns(frozen);
            if due_ns == u64::MAX {
                return None;
            }
        }
        let until_ns = due_ns.saturating_add(GUARD_NS);
        let met = self.overlapping(before_ns, until_ns);
        if met.iter().any(|step| step.cut) {
            return None;
        }
        // What was sent over a longer link before this step can be ahead of it until it has arrived.
        let ahead_ns = step.checked_sub(1).map_or(0, |before| self.steps[before].delay_ns);
        let settled_ns = before_ns.saturating_sub(ahead_ns);
        let steady = self.overlapping(settled_ns, until_ns).len() == 1 && !self.steps[step].frozen;
        Some(Passage { step, due_ns, steady })
    }

    /// The step of the cut that a packet met for certain that was sent at `sent_ns`.
    pub fn met_cut(&self, sent_ns: u64) -> Option<usize> {
        let met = self.overlapping(sent_ns, sent_ns.saturating_add(GUARD_NS));
        let only_cut = !met.is_empty() && met.iter().all(|step| step.cut);
        self.index(sent_ns).filter(|_| only_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn course_of(steps: &[Step]) -> Course {
        let mut course = Course::default();
        for step in steps {
            course.add(*step);
        }
        course
    }

    fn step(at_ms: u64, delay_ms: u64) -> Step {
        Step {
            at_ns: at_ms * MS,
            delay_ns: delay_ms * MS,
            cut: false,
            frozen: false,
        }
    }

    fn cut(at_ms: u64, delay_ms: u64) -> Step {
        Step {
            cut: true,
            ..step(at_ms, delay_ms)
        }
    }

    fn frozen(at_ms: u64, delay_ms: u64) -> Step {
        Step {
            frozen: true,
            ..step(at_ms, delay_ms)
        }
    }

    fn judged(course: &Course, sent_ms: u64, received_ms: u64) -> Arrival {
        course.judge(sent_ms * MS, received_ms * MS, 0)
    }

    /// 20 ms, cut at 1000, healed at 1300.
    fn cut_course() -> Course {
        course_of(&[step(0, 20), cut(1000, 20), step(1300, 20)])
    }

    #[test]
    fn a_packet_leaves_one_delay_after_it_was_sent() {
        let course = course_of(&[step(0, 20)]);
        assert_eq!(judged(&course, 100, 120), Arrival::Possible);
        assert_eq!(judged(&course, 100, 119), Arrival::Early(MS));
        assert_eq!(course.judge(100 * MS, 119 * MS, 50_000), Arrival::Early(MS - 50_000));
        assert_eq!(judged(&Course::default(), 100, 100), Arrival::Possible);
        let passage = course.must_pass(100 * MS).unwrap();
        assert_eq!((passage.due_ns, passage.steady), (120 * MS, true));
        assert_eq!(Course::default().must_pass(5), None);
    }

    #[test]
    fn nothing_that_was_in_flight_or_sent_under_a_cut_comes_through() {
        let course = cut_course();
        assert_eq!(judged(&course, 979, 1001), Arrival::Possible, "it left just before");
        assert_eq!(judged(&course, 985, 1006), Arrival::Leaked, "in flight");
        assert_eq!(judged(&course, 1100, 1121), Arrival::Leaked, "sent under the cut");
        let met = [900, 1100, 1290].map(|sent_ms| course.met_cut(sent_ms * MS));
        assert_eq!(met, [None, Some(1), None]);
    }

    #[test]
    fn a_packet_that_dawdled_before_the_relay_may_come_after_the_heal() {
        let course = cut_course();
        assert_eq!(judged(&course, 1299, 1320), Arrival::Possible);
        assert_eq!(
            judged(&course, 1200, 1320),
            Arrival::Possible,
            "it reached the relay late"
        );
        assert_eq!(judged(&course, 1200, 1317), Arrival::Leaked);
        assert_eq!(judged(&course, 1310, 1317), Arrival::Early(13 * MS));
    }

    #[test]
    fn what_could_have_met_a_cut_need_not_come_through() {
        let course = cut_course();
        for sent_ms in [940, 985, 1100, 1299, 1301] {
            assert_eq!(course.must_pass(sent_ms * MS), None, "{sent_ms}");
        }
        assert!(course.must_pass(900 * MS).is_some() && course.must_pass(1303 * MS).is_some());
    }

    #[test]
    fn those_in_flight_keep_their_delay_when_it_changes_and_are_no_measure_of_either() {
        let course = course_of(&[step(0, 40), step(1000, 5), step(2000, 40)]);
        assert_eq!(
            judged(&course, 970, 1003),
            Arrival::Possible,
            "it may have met the new one"
        );
        assert_eq!(judged(&course, 970, 1002), Arrival::Early(MS));
        let steady = |sent_ms: u64| course.must_pass(sent_ms * MS).unwrap().steady;
        assert!(steady(900) && !steady(995) && !steady(1020) && steady(1050) && steady(1930));
        assert!(!steady(1960) && !steady(1999) && steady(2010));
    }

    #[test]
    fn what_is_frozen_leaves_after_the_thaw_and_not_before_its_deadline() {
        let course = course_of(&[step(0, 20), frozen(1000, 20), step(1300, 20)]);
        assert_eq!(judged(&course, 970, 991), Arrival::Possible);
        assert_eq!(judged(&course, 990, 1100), Arrival::Early(198 * MS), "nothing passes");
        assert_eq!(judged(&course, 990, 1298), Arrival::Possible);
        assert_eq!(judged(&course, 1295, 1314), Arrival::Early(MS));
        let kept = course.must_pass(1100 * MS).unwrap();
        assert_eq!((kept.due_ns, kept.steady), (1300 * MS, false));
        let for_ever = course_of(&[step(0, 20), frozen(1000, 20)]);
        assert_eq!(for_ever.must_pass(1100 * MS), None);
        assert_eq!(judged(&for_ever, 1100, 9000), Arrival::Leaked);
    }

    #[test]
    fn a_step_that_changes_nothing_is_none() {
        let course = course_of(&[step(0, 20), step(500, 20), step(900, 5)]);
        assert_eq!(course.steps(), [step(0, 20), step(900, 5)]);
        assert_eq!(course.overlapping(0, 899 * MS), [step(0, 20)]);
        assert_eq!((course.ends_ns(0), course.ends_ns(1)), (900 * MS, u64::MAX));
    }
}
