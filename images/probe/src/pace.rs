//! When the operations of a load should start. Pure: time is an argument.
//!
//! Operations are numbered over the whole order and dealt to its connections (lanes) in turn: lane `l` of `n`
//! performs `l`, `l + n`, `l + 2n`... In an open loop operation `i` is intended at `start + i * interval`,
//! whatever the server does; a lane that is late keeps the intended time of what it starts late, so that a
//! stall is seen by every operation that it hit and not only by one.

use wire::Pace;

/// Bounds of a load that all its lanes share.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// Closed or open loop.
    pub pace: Pace,
    /// Operations over all lanes.
    pub count: u32,
    /// Number of lanes, at least one.
    pub lanes: u32,
    /// When the load began.
    pub start_ns: u64,
    /// When nothing is started any more.
    pub end_ns: Option<u64>,
}

/// What a lane does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Perform operation `i` at `intended_ns`, or at once if that has passed.
    Start {
        /// Number of the operation.
        i: u32,
        /// When it should start.
        intended_ns: u64,
    },
    /// The lane is done. `missed` operations should have started before the end and did not (open loop only).
    End {
        /// How many.
        missed: u32,
    },
}

/// One connection's part of a load.
#[derive(Debug)]
pub struct Lane {
    course: Course,
    /// Next operation; u64 because the step beyond the last may not fit.
    next: u64,
}

impl Lane {
    /// Lane number `lane`, counted from 0.
    pub fn new(course: Course, lane: u32) -> Self {
        Self {
            course,
            next: u64::from(lane),
        }
    }

    /// The next step; `now_ns` is the time after the operation before.
    pub fn step(&mut self, now_ns: u64) -> Step {
        let course = self.course;
        let Some(i) = u32::try_from(self.next).ok().filter(|&i| i < course.count) else {
            return Step::End { missed: 0 };
        };
        let intended_ns = match course.pace {
            Pace::Open { interval_ns } => self.intended(interval_ns),
            // The first operation of a closed loop starts at once.
            Pace::Closed { .. } if self.next < u64::from(course.lanes) => now_ns,
            Pace::Closed { pause_ns } => now_ns.saturating_add(pause_ns),
        };
        if course.end_ns.is_some_and(|end| intended_ns.max(now_ns) >= end) {
            return Step::End { missed: self.missed() };
        }
        self.next += u64::from(course.lanes);
        Step::Start { i, intended_ns }
    }

    /// Nothing is started any more from `now_ns` on: the next step is the end.
    pub fn end_at(&mut self, now_ns: u64) {
        let end_ns = self.course.end_ns.map_or(now_ns, |end_ns| end_ns.min(now_ns));
        self.course.end_ns = Some(end_ns);
    }

    /// Operations of this lane that are left.
    pub fn left(&self) -> u32 {
        let left = u64::from(self.course.count).saturating_sub(self.next);
        u32::try_from(left.div_ceil(u64::from(self.course.lanes))).expect("no more than count, which is a u32")
    }

    fn intended(&self, interval_ns: u64) -> u64 {
        self.course
            .start_ns
            .saturating_add(self.next.saturating_mul(interval_ns))
    }

    /// Operations of this lane from `next` on whose intended start lies before the end. A closed loop intends
    /// nothing that it does not do.
    fn missed(&self) -> u32 {
        let (Pace::Open { interval_ns }, Some(end_ns)) = (self.course.pace, self.course.end_ns) else {
            return 0;
        };
        let room = end_ns.saturating_sub(self.intended(interval_ns));
        let stride = interval_ns.saturating_mul(u64::from(self.course.lanes));
        let within = if stride == 0 { u64::MAX } else { room.div_ceil(stride) };
        u32::try_from(within).unwrap_or(u32::MAX).min(self.left())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(pace: Pace, count: u32, lanes: u32, end_ns: Option<u64>) -> Course {
        Course {
            pace,
            count,
            lanes,
            start_ns: 1000,
            end_ns,
        }
    }

    fn start(i: u32, intended_ns: u64) -> Step {
        Step::Start { i, intended_ns }
    }

    #[test]
    fn a_closed_loop_starts_after_its_pause() {
        let mut lane = Lane::new(course(Pace::Closed { pause_ns: 10 }, 3, 1, None), 0);
        assert_eq!(lane.step(1000), start(0, 1000));
        assert_eq!(lane.step(1500), start(1, 1510));
        assert_eq!(lane.step(1700), start(2, 1710));
        assert_eq!(lane.step(1800), Step::End { missed: 0 });
    }

    #[test]
    fn an_open_loop_keeps_its_intended_starts_through_a_stall() {
        let mut lane = Lane::new(course(Pace::Open { interval_ns: 100 }, 4, 1, None), 0);
        assert_eq!(lane.step(1000), start(0, 1000));
        // the first operation took 350
        assert_eq!(lane.step(1350), start(1, 1100));
        assert_eq!(lane.step(1351), start(2, 1200));
        assert_eq!(lane.step(1352), start(3, 1300));
        assert_eq!(lane.step(1353), Step::End { missed: 0 });
    }

    #[test]
    fn lanes_share_the_numbers_and_the_intervals() {
        let course = course(Pace::Open { interval_ns: 100 }, 5, 2, None);
        let (mut even, mut odd) = (Lane::new(course, 0), Lane::new(course, 1));
        assert_eq!([even.left(), odd.left()], [3, 2]);
        assert_eq!(
            [even.step(1000), even.step(1000), even.step(1000)],
            [start(0, 1000), start(2, 1200), start(4, 1400)]
        );
        assert_eq!([odd.step(1000), odd.step(1000)], [start(1, 1100), start(3, 1300)]);
        assert_eq!(even.step(2000), Step::End { missed: 0 });
        assert_eq!(odd.step(2000), Step::End { missed: 0 });
    }

    #[test]
    fn operations_not_started_by_the_end_are_missed_and_counted() {
        let mut lane = Lane::new(course(Pace::Open { interval_ns: 100 }, 1000, 1, Some(1500)), 0);
        assert_eq!(lane.step(1000), start(0, 1000));
        // stalled until after the end: those intended at 1100, 1200, 1300 and 1400 never started
        assert_eq!(lane.step(9000), Step::End { missed: 4 });
    }

    #[test]
    fn an_open_loop_in_time_misses_nothing_at_its_end() {
        let mut lane = Lane::new(course(Pace::Open { interval_ns: 100 }, 1000, 1, Some(1200)), 0);
        assert_eq!([lane.step(1000), lane.step(1010)], [start(0, 1000), start(1, 1100)]);
        assert_eq!(lane.step(1110), Step::End { missed: 0 });
    }

    #[test]
    fn a_closed_loop_ends_by_time_too() {
        let mut lane = Lane::new(course(Pace::Closed { pause_ns: 0 }, u32::MAX, 1, Some(1200)), 0);
        assert_eq!(lane.step(1100), start(0, 1100));
        assert_eq!(lane.step(1200), Step::End { missed: 0 });
    }

    #[test]
    fn more_lanes_than_operations_leave_some_idle() {
        let mut lane = Lane::new(course(Pace::Closed { pause_ns: 0 }, 2, 8, None), 5);
        assert_eq!(lane.left(), 0);
        assert_eq!(lane.step(1000), Step::End { missed: 0 });
    }

    #[test]
    fn the_largest_count_does_not_overflow() {
        let mut lane = Lane::new(
            course(Pace::Open { interval_ns: u64::MAX }, u32::MAX, u32::MAX, Some(2000)),
            u32::MAX - 1,
        );
        assert_eq!(lane.step(1000), Step::End { missed: 0 });
    }
}
