//! How both halves of a cluster went through a parting, from what their own probes saw: what each node said of the cluster, when
//! roles changed, and what became of the operations.

use crate::findings::reads_when_down;
use crate::findings::row::{Rows, table};
use crate::history::{ClusterPlaced, HalfWatched, NodePlaced, What};
use crate::report::plot::{BECAME, Course, HalfCourse, Mark, NodeCourse, Rate, Span, State};
use wire::{LookRun, NodeLooks, Outcome, OutcomeRun};

/// Width of a step of the rates, seconds: several operations of each row fall into one.
const STEP_S: f64 = 0.5;

/// One per row in which halves were parted and watched.
pub fn of(rows: &Rows<'_>) -> Vec<Course> {
    let mut courses: Vec<(String, Course)> = Vec::new();
    for event in &rows.history.events {
        let What::ClusterPlaced(placed) = &event.what else {
            continue;
        };
        if placed.block != rows.block || courses.iter().any(|(row, _)| *row == placed.row) {
            continue;
        }
        if let Some(course) = course(rows, &placed.row) {
            courses.push((placed.row.clone(), course));
        }
    }
    courses.into_iter().map(|(_, course)| course).collect()
}

fn course(rows: &Rows<'_>, row: &str) -> Option<Course> {
    let placed = rows.history.placed(rows.block, row)?;
    let time = |name: &str| u64::try_from(rows.fact(row, name)?).ok();
    let (parted_ns, joined_ns) = (time("parted_at_ns")?, time("joined_at_ns")?);
    let halves = [&placed.home, &placed.away].map(|datacenter| rows.history.half(rows.block, row, datacenter));
    let halves: Vec<&HalfWatched> = halves.into_iter().flatten().collect();
    let from_ns = halves.iter().map(|half| half.seen.from_ns).min()?;
    let to_ns = halves.iter().map(|half| half.seen.to_ns).max()?;
    let clock = Clock { parted_ns };
    let halves: Vec<HalfCourse> = halves
        .iter()
        .map(|half| half_of(placed, half, clock, (clock.s(from_ns), clock.s(to_ns))))
        .collect();
    let lines = halves.iter().flat_map(lines).collect();
    Some(Course {
        title: format!("Course of the parting: {row}"),
        told: "Per half, as its own probe saw it: what each node said of the cluster, where a role changed, and what became of reads and writes of all \
               slots on all of its nodes."
            .to_owned(),
        from_s: clock.s(from_ns),
        to_s: clock.s(to_ns),
        joined_s: clock.s(joined_ns),
        marks: marks(rows, row, clock),
        halves,
        numbers: table(&["half", "node", "cluster_state, seconds since the parting", "role"], lines),
    })
}

/// When what decides about reads was changed, in block 8.
fn marks(rows: &Rows<'_>, row: &str, clock: Clock) -> Vec<Mark> {
    let mark = |value: &&str| {
        let at_ns = u64::try_from(rows.fact(row, &reads_when_down::set_at(value))?).ok()?;
        Some(Mark {
            at: clock.s(at_ns),
            label: (*value).to_owned(),
        })
    };
    reads_when_down::VALUES.iter().filter_map(mark).collect()
}

/// Seconds since the parting.
#[derive(Clone, Copy)]
struct Clock {
    parted_ns: u64,
}

impl Clock {
    fn s(self, at_ns: u64) -> f64 {
        (at_ns as f64 - self.parted_ns as f64) / 1e9
    }
}

fn half_of(placed: &ClusterPlaced, half: &HalfWatched, clock: Clock, ends: (f64, f64)) -> HalfCourse {
    let own = |node: &&NodePlaced| node.datacenter == half.datacenter;
    let nodes: Vec<&NodePlaced> = placed.nodes.iter().filter(own).collect();
    let masters = nodes.iter().filter(|node| node.of.is_none()).count();
    let all = placed.nodes.iter().filter(|node| node.of.is_none()).count();
    HalfCourse {
        name: format!("{}: {masters} of {all} masters", half.datacenter),
        nodes: nodes.iter().map(|node| node_of(node, half, clock)).collect(),
        rates: rates(half, clock, ends),
        step_s: STEP_S,
    }
}

fn node_of(node: &NodePlaced, half: &HalfWatched, clock: Clock) -> NodeCourse {
    let address = node
        .address
        .rsplit_once(':')
        .map_or(node.address.as_str(), |(host, _)| host);
    let looks: Option<&NodeLooks> = half.seen.nodes.iter().find(|looks| looks.node.to_string() == address);
    let runs: &[LookRun] = looks.map_or(&[], |looks| &looks.runs);
    let mut spans: Vec<Span> = Vec::new();
    let mut changes = Vec::new();
    let began = if node.of.is_none() { "master" } else { "slave" };
    let mut role = began;
    for (i, run) in runs.iter().enumerate() {
        // Until the next look: between two nothing else is known.
        let to_ns = runs.get(i + 1).map_or(run.to_ns, |next| next.from_ns);
        let state = match &run.seen {
            Err(_) => State::Silent,
            Ok(seen) if seen.cluster_state == "ok" => State::Ok,
            Ok(_) => State::Fail,
        };
        if let Ok(seen) = &run.seen
            && seen.role != role
        {
            role = &seen.role;
            changes.push((clock.s(run.from_ns), shown(role).to_owned()));
        }
        match spans.last_mut() {
            Some(last) if last.state == state => last.to_s = clock.s(to_ns),
            _ => spans.push(Span {
                from_s: clock.s(run.from_ns),
                to_s: clock.s(to_ns),
                state,
            }),
        }
    }
    NodeCourse {
        name: format!("{}, {}", node.node, shown(began)),
        spans,
        changes,
    }
}

/// A role as everything else here says it.
fn shown(role: &str) -> &str {
    if role == "slave" { "replica" } else { role }
}

fn became(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Served | Outcome::Absent => 0,
        Outcome::Moved(_) | Outcome::Ask(_) => 1,
        Outcome::Refused(_) | Outcome::Silent(_) => 2,
    }
}

/// Operations of a half per second; those of a run are spread evenly over it. Where a step is only in part between the first and
/// the last of all, only that part counts: a watch that begins or ends is no change of its rate.
fn rates(half: &HalfWatched, clock: Clock, (from_s, to_s): (f64, f64)) -> Vec<Rate> {
    let mut rates = BECAME.map(|label| Rate {
        label,
        per_s: Vec::new(),
    });
    let runs = || half.seen.answers.iter().flat_map(|answers| &answers.runs);
    let (Some(first_ns), Some(last_ns)) = (runs().map(|run| run.from_ns).min(), runs().map(|run| run.to_ns).max())
    else {
        return Vec::new();
    };
    let mut at_s = from_s;
    while at_s < to_s {
        let width = clock.s(last_ns).min(at_s + STEP_S) - clock.s(first_ns).max(at_s);
        for (i, rate) in rates.iter_mut().enumerate() {
            let alike = runs().filter(|run| became(&run.outcome) == i);
            let sum: f64 = alike.map(|run| share(run, clock, at_s, at_s + STEP_S)).sum();
            // A sliver of a step tells of nothing but a few operations.
            let known = width > STEP_S / 5.0;
            let before = rate.per_s.last().copied().unwrap_or(0.0);
            rate.per_s.push(if known { sum / width } else { before });
        }
        at_s += STEP_S;
    }
    rates.into()
}

/// How many operations of a run fall into a stretch of time.
fn share(run: &OutcomeRun, clock: Clock, from_s: f64, to_s: f64) -> f64 {
    let (first_s, last_s) = (clock.s(run.from_ns), clock.s(run.to_ns));
    let length = last_s - first_s;
    if length <= 0.0 {
        return if (from_s..to_s).contains(&first_s) {
            f64::from(run.count)
        } else {
            0.0
        };
    }
    let common = (last_s.min(to_s) - first_s.max(from_s)).max(0.0);
    f64::from(run.count) * common / length
}

fn lines(half: &HalfCourse) -> Vec<Vec<String>> {
    let line = |node: &NodeCourse| {
        let span = |span: &Span| {
            let word = match span.state {
                State::Ok => "ok",
                State::Fail => "fail",
                State::Silent => "no answer",
            };
            format!("{word} {:.1} to {:.1}", span.from_s, span.to_s)
        };
        let spans: Vec<String> = node.spans.iter().map(span).collect();
        let changes: Vec<String> = node
            .changes
            .iter()
            .map(|(at_s, role)| format!("{role} at {at_s:.1}"))
            .collect();
        let role = if changes.is_empty() {
            "unchanged".to_owned()
        } else {
            changes.join(", ")
        };
        vec![half.name.clone(), node.name.clone(), spans.join("; "), role]
    };
    half.nodes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::synthetic::{Play, Story};

    fn courses(play: Play) -> Vec<Course> {
        let history = play.tell(Story::of(6)).history();
        of(&Rows {
            history: &history,
            block: 6,
        })
    }

    #[test]
    fn both_halves_of_a_cut_are_there_with_the_promotion() {
        let courses = courses(Play::record(6, "cut", 'C'));
        let [course] = courses.as_slice() else {
            panic!("{courses:?}")
        };
        assert!((course.joined_s - 12.0).abs() < 1e-9);
        let [home, away] = course.halves.as_slice() else {
            panic!("{course:?}")
        };
        assert_eq!(
            (home.name.as_str(), away.name.as_str()),
            ("dc1: 2 of 3 masters", "dc2: 1 of 3 masters")
        );
        let promoted: Vec<&NodeCourse> = home.nodes.iter().filter(|node| !node.changes.is_empty()).collect();
        assert_eq!(promoted.len(), 1);
        assert_eq!(promoted[0].name, "node-6, replica");
        assert_eq!(promoted[0].changes[0].1, "master");
        assert!(
            away.nodes
                .iter()
                .all(|node| node.spans.iter().any(|span| span.state == State::Fail))
        );
    }

    #[test]
    fn no_operation_is_counted_twice_and_none_is_left_out() {
        let courses = courses(Play::record(6, "cut", 'C'));
        for half in &courses[0].halves {
            // The story is as long as a whole number of steps.
            let drawn: f64 = half.rates.iter().flat_map(|rate| &rate.per_s).sum::<f64>() * STEP_S;
            let (nodes, ranges, accesses, each) = (half.nodes.len() as f64, 3.0, 2.0, 250.0);
            let made = nodes * ranges * accesses * each;
            assert!((drawn - made).abs() < 1.0, "{drawn} of {made}");
        }
    }

    #[test]
    fn when_the_setting_of_block_8_was_changed_is_marked() {
        let mut play = Play::record(8, reads_when_down::COURSE, 'B');
        play = play.away(None);
        let story = play.tell(Story::of(8));
        let at_ns = 60_000_000_000;
        let history = story
            .fact(reads_when_down::COURSE, "allow_reads_yes_at_ns", at_ns)
            .history();
        let courses = of(&Rows {
            history: &history,
            block: 8,
        });
        let [course] = courses.as_slice() else {
            panic!("{courses:?}")
        };
        let [mark] = course.marks.as_slice() else {
            panic!("{:?}", course.marks)
        };
        assert_eq!(mark.label, "yes");
    }

    #[test]
    fn a_block_without_halves_has_no_course() {
        let history = Story::of(4).history();
        assert_eq!(
            of(&Rows {
                history: &history,
                block: 4
            }),
            []
        );
    }
}
