//! What one entry of `links` says, condition by condition, each with its place. Refuses values that are none.

use crate::conditions::{
    Bad, BadDelay, Condition, Key, Timetable, burst_milli, loss_of, parse_delay, percent, reorder_of, table, varies,
};
use crate::topology::file::{JitterFile, LinkFile, LossFile, ReorderFile, Written};
use crate::topology::problem::{Code, Problems, quote};
use crate::topology::tree::{At, Place};
use wire::{Jitter, JitterShape};

/// What is said of a direction: by `dc1-dc2`, by `dc1:dc2`, or by both.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    /// In the order of [`Key::ALL`]; each key once.
    pub(super) conditions: Vec<(Condition, Place)>,
    /// Its schedule.
    pub(super) schedule: Option<WrittenSchedule>,
    /// Its delay or another part could not be read: that it lacks one is not a second problem.
    pub(super) broken: bool,
}

/// A schedule with its text.
#[derive(Debug, Clone)]
pub(super) struct WrittenSchedule {
    /// As the file writes it.
    pub(super) text: At<String>,
    /// What it says (`None`: expressly nothing).
    pub(super) timetable: Option<Timetable>,
}

impl Said {
    /// What is said of one condition.
    pub(super) fn place(&self, key: Key) -> Option<Place> {
        let mut conditions = self.conditions.iter();
        conditions
            .find(|(condition, _)| condition.key() == key)
            .map(|(_, place)| *place)
    }

    /// The same with what `other` says in place of it.
    pub(super) fn overridden(&self, other: &Self) -> Self {
        let mut conditions = self.conditions.clone();
        conditions.retain(|(condition, _)| other.place(condition.key()).is_none());
        conditions.extend(other.conditions.iter().cloned());
        conditions.sort_by_key(|(condition, _)| condition.key());
        Self {
            conditions,
            schedule: other.schedule.clone().or_else(|| self.schedule.clone()),
            broken: self.broken || other.broken,
        }
    }
}

/// Everything that an entry says.
pub(super) fn said(key: &At<String>, link: &LinkFile, problems: &mut Problems) -> Said {
    let mut said = Said {
        broken: link.broken,
        ..Said::default()
    };
    let directed = key.value.contains(':');
    let before = problems.count();
    if let Some((delay_ns, place)) = delay(key, link, directed, problems) {
        said.conditions.push((Condition::Delay(delay_ns), place));
    }
    let mut add = |condition: Option<(Condition, Place)>| said.conditions.extend(condition);
    add(written(Key::Jitter, link.jitter.as_ref(), jitter, problems));
    add(written(Key::Loss, link.loss.as_ref(), loss, problems));
    add(short(Key::Duplicate, link.duplicate.as_ref(), problems));
    add(written(Key::Reorder, link.reorder.as_ref(), reorder, problems));
    add(short(Key::Corrupt, link.corrupt.as_ref(), problems));
    add(short(Key::Rate, link.rate.as_ref(), problems));
    add(short(Key::Queue, link.queue.as_ref(), problems));
    add(short(Key::Mtu, link.mtu.as_ref(), problems));
    said.schedule = link.schedule.as_ref().and_then(|text| schedule(text, problems));
    said.broken |= problems.count() > before;
    said
}

/// The delay of one direction, nanoseconds.
fn delay(key: &At<String>, link: &LinkFile, directed: bool, problems: &mut Problems) -> Option<(u64, Place)> {
    let what = || format!("link {}", quote(&key.value));
    match (&link.delay, &link.rtt) {
        (Some(delay), Some(rtt)) => {
            let later = if delay.place.offset > rtt.place.offset {
                delay
            } else {
                rtt
            };
            problems
                .add(
                    later.place,
                    Code::BadLink,
                    format!("{} has both `delay` and `rtt`", what()),
                )
                .hint("`delay` is one way, `rtt` both ways together: write one of them");
            time("delay", delay, problems);
            time("rtt", rtt, problems);
            None
        }
        (Some(delay), None) => Some((time("delay", delay, problems)?, delay.place)),
        (None, Some(rtt)) if directed => {
            problems
                .add(
                    rtt.place,
                    Code::BadLink,
                    format!("{} is one direction and has no `rtt`", what()),
                )
                .hint("write `delay`, which is one way");
            None
        }
        (None, Some(rtt)) => Some((time("rtt", rtt, problems)? / 2, rtt.place)),
        (None, None) => None,
    }
}

fn time(key: &str, text: &At<String>, problems: &mut Problems) -> Option<u64> {
    match parse_delay(&text.value) {
        Ok(delay_ns) => Some(delay_ns),
        Err(bad) => {
            let code = if bad == BadDelay::NoUnit {
                Code::NoUnit
            } else {
                Code::BadDelay
            };
            problems
                .add(text.place, code, format!("{} {} {bad}", key, quote(&text.value)))
                .hint(bad.hint(&text.value));
            None
        }
    }
}

/// Reports a value that is none of its condition.
fn refused<T>(name: &str, text: &At<String>, outcome: Result<T, Bad>, problems: &mut Problems) -> Option<T> {
    outcome
        .map_err(|bad| {
            let code = if bad.no_unit { Code::NoUnit } else { Code::BadCondition };
            problems
                .add(text.place, code, format!("{name} {} {bad}", quote(&text.value)))
                .hint(bad.hint);
        })
        .ok()
}

fn short(key: Key, text: Option<&At<String>>, problems: &mut Problems) -> Option<(Condition, Place)> {
    let text = text?;
    let condition = refused(key.as_str(), text, Condition::parse(key, &text.value), problems)?;
    Some((condition, text.place))
}

fn written<T>(
    key: Key,
    written: Option<&Written<T>>,
    long: fn(&At<T>, &mut Problems) -> Option<Condition>,
    problems: &mut Problems,
) -> Option<(Condition, Place)> {
    match written? {
        Written::Short(text) => short(key, Some(text), problems),
        Written::Long(map) => Some((long(map, problems)?, map.place)),
    }
}

fn jitter(map: &At<JitterFile>, problems: &mut Problems) -> Option<Condition> {
    let JitterFile {
        uniform,
        normal,
        pareto,
        table: times,
        reorder,
        broken,
    } = &map.value;
    let mut shapes: Vec<(Place, Option<JitterShape>)> = Vec::new();
    if let Some(text) = uniform {
        let shape = time("uniform", text, problems).map(|spread_ns| JitterShape::Uniform { spread_ns });
        shapes.push((text.place, shape));
    }
    if let Some(text) = normal {
        let shape = time("normal", text, problems).map(|deviation_ns| JitterShape::Normal { deviation_ns });
        shapes.push((text.place, shape));
    }
    if let Some(text) = pareto {
        let shape = time("pareto", text, problems).map(|deviation_ns| JitterShape::Pareto { deviation_ns });
        shapes.push((text.place, shape));
    }
    if let Some(times) = times {
        let read: Vec<Option<u64>> = times.value.iter().map(|text| time("table", text, problems)).collect();
        let shape = read.into_iter().collect::<Option<Vec<u64>>>().and_then(|added_ns| {
            table(added_ns)
                .map_err(|bad| {
                    problems
                        .add(times.place, Code::BadCondition, format!("the table of a jitter {bad}"))
                        .hint(bad.hint);
                })
                .ok()
        });
        shapes.push((times.place, shape));
    }
    shapes.sort_by_key(|(place, _)| place.offset);
    match shapes.as_slice() {
        [(_, shape)] => Some(Condition::Jitter(varies(Jitter {
            shape: shape.clone()?,
            reorder: *reorder,
        }))),
        [] if *broken => None,
        [] => {
            problems
                .add(map.place, Code::Missing, "`jitter` does not say how the delay varies")
                .hint("write one of `uniform: 2ms`, `normal: 1ms`, `pareto: 1ms`, `table: [0ms, 1ms, 12ms]`");
            None
        }
        [_, (place, _), ..] => {
            problems
                .add(*place, Code::BadCondition, "`jitter` has two shapes")
                .hint("write one of `uniform`, `normal`, `pareto` and `table`");
            None
        }
    }
}

fn loss(map: &At<LossFile>, problems: &mut Problems) -> Option<Condition> {
    let LossFile { share, burst, broken } = &map.value;
    let burst = burst
        .as_ref()
        .map(|text| refused("burst", text, burst_milli(&text.value), problems));
    let Some(share) = share else {
        if !broken {
            missing_share("loss", map.place, problems);
        }
        return None;
    };
    let ppm = refused("share", share, percent(&share.value), problems)?;
    Some(Condition::Loss(loss_of(
        ppm,
        burst.map_or(Some(None), |burst| burst.map(Some))?,
    )))
}

fn reorder(map: &At<ReorderFile>, problems: &mut Problems) -> Option<Condition> {
    let ReorderFile { share, by, broken } = &map.value;
    let by_ns = by.as_ref().map(|text| (text, time("by", text, problems)));
    let ppm = share
        .as_ref()
        .map(|text| refused("share", text, percent(&text.value), problems));
    let (Some((by, by_ns)), Some(ppm)) = (by_ns, ppm) else {
        if !broken && share.is_none() {
            missing_share("reorder", map.place, problems);
        } else if !broken {
            problems
                .add(map.place, Code::Missing, "`reorder` does not say by how much")
                .hint("write how long such a packet is held back: `by: 2ms`");
        }
        return None;
    };
    let outcome = reorder_of(ppm?, by_ns?);
    Some(Condition::Reorder(refused("by", by, outcome, problems)?))
}

fn missing_share(of: &str, place: Place, problems: &mut Problems) {
    problems
        .add(place, Code::Missing, format!("`{of}` has no share"))
        .hint("write a share of all packets: `share: 1%`");
}

fn schedule(text: &At<String>, problems: &mut Problems) -> Option<WrittenSchedule> {
    if text.value.trim() == "none" {
        return Some(WrittenSchedule {
            text: text.clone(),
            timetable: None,
        });
    }
    match Timetable::parse(&text.value) {
        Ok(timetable) => Some(WrittenSchedule {
            text: text.clone(),
            timetable: Some(timetable),
        }),
        Err(bad) => {
            for bad in bad {
                let place = problems.within(text, bad.range);
                problems.add(place, Code::BadSchedule, bad.bad.what).hint(bad.bad.hint);
            }
            None
        }
    }
}
