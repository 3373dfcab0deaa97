//! Schedules that real relays carry out by themselves, seen by the sockets of the nodes.

use super::lab::Lab;
use super::{MS, pair, wait_until};
use std::time::Duration;
use wire::{Action, Conditions, CutKind, LinkStatus, RelayOrder, Schedule, Step};

fn cut() -> Action {
    Action::Cut { kind: CutKind::Drop }
}

/// Both relays play the same from one instant on, a little ahead; returns it.
fn play(lab: &mut Lab, steps: &[(u64, Action)]) -> u64 {
    let step = |(at_ms, action): &(u64, Action)| Step {
        at_ns: at_ms * MS,
        action: action.clone(),
    };
    let schedule = Schedule {
        steps: steps.iter().map(step).collect(),
    };
    let start_ns = lab.relays[0].obey(RelayOrder::Show).now_ns + 50 * MS;
    lab.obey_both(|to| RelayOrder::Play {
        to,
        schedule: schedule.clone(),
        start_ns,
    });
    start_ns
}

fn links(lab: &mut Lab) -> Vec<LinkStatus> {
    lab.relays.iter_mut().map(super::lab::Relay::link).collect()
}

fn wait_until_played(lab: &mut Lab) {
    wait_until(|| links(lab).iter().all(|link| link.playing_since_ns.is_none()));
}

/// Never early; a busy machine may be late, but not by as much as lies between two steps.
fn assert_at(found_ns: Option<u64>, planned_ns: u64) {
    let late_ns = found_ns.expect("it was carried out").checked_sub(planned_ns);
    assert!(late_ns.is_some_and(|late_ns| late_ns < 100 * MS), "{late_ns:?}");
}

#[test]
fn a_schedule_cuts_and_heals_both_directions_at_its_times() {
    let Some(mut lab) = Lab::build(MS) else { return };
    let start_ns = play(&mut lab, &[(100, cut()), (300, Action::Heal)]);
    for link in links(&mut lab) {
        assert_eq!((link.playing_since_ns, link.cut), (Some(start_ns), None));
    }
    wait_until_played(&mut lab);
    for link in links(&mut lab) {
        assert_at(link.last_cut_ns, start_ns + 100 * MS);
        assert_at(link.last_heal_ns, start_ns + 300 * MS);
    }
}

#[test]
fn datagrams_are_missing_from_the_cut_to_the_heal_and_at_no_other_time() {
    let Some(mut lab) = Lab::build(0) else { return };
    let (near, far) = pair(&lab);
    let start_ns = play(&mut lab, &[(100, cut()), (200, Action::Heal)]);
    let mut sent = Vec::new();
    while lab.relays[0].link().playing_since_ns.is_some() {
        let number = u32::try_from(sent.len()).unwrap();
        let before_ns = lab.relays[0].obey(RelayOrder::Show).now_ns;
        near.send(&number.to_ne_bytes()).unwrap();
        let after = lab.relays[0].obey(RelayOrder::Show);
        sent.push((before_ns, after.now_ns));
        std::thread::sleep(Duration::from_millis(1));
    }
    let link = lab.relays[0].link();
    let (cut_ns, heal_ns) = (link.last_cut_ns.unwrap(), link.last_heal_ns.unwrap());
    assert_at(Some(cut_ns), start_ns + 100 * MS);
    far.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut heard = vec![false; sent.len()];
    let mut buffer = [0; 4];
    while far.recv(&mut buffer).is_ok() {
        heard[u32::from_ne_bytes(buffer) as usize] = true;
    }
    let mut missing = 0;
    for (heard, (before_ns, after_ns)) in heard.into_iter().zip(sent) {
        // The relay read it between the two answers, or a moment later.
        if after_ns + 20 * MS < cut_ns || before_ns > heal_ns {
            assert!(heard, "missing outside of the cut");
        } else if before_ns > cut_ns && after_ns + 20 * MS < heal_ns {
            assert!(!heard, "heard during the cut");
            missing += 1;
        }
    }
    assert!(missing > 5, "{missing}");
}

#[test]
fn a_flap_goes_on_until_told_otherwise_and_the_link_stays_as_it_is() {
    let Some(mut lab) = Lab::build(0) else { return };
    let flap = Action::Flap {
        kind: CutKind::Drop,
        every_ns: 20 * MS,
        until_ns: None,
    };
    play(&mut lab, &[(0, flap)]);
    let mut cuts = Vec::new();
    wait_until(|| {
        cuts.extend(lab.relays[0].link().last_cut_ns);
        cuts.dedup();
        cuts.len() == 5
    });
    // Two orders from outside do not stop it.
    lab.obey_both(|to| RelayOrder::Heal { to });
    lab.obey_both(|to| RelayOrder::Set {
        to,
        conditions: Conditions::delay(0),
        flush: false,
    });
    let last_ns = cuts[4];
    wait_until(|| lab.relays[0].link().last_cut_ns > Some(last_ns));
    lab.obey_both(|to| RelayOrder::StopPlay { to });
    let stopped = lab.relays[0].link();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(lab.relays[0].link(), stopped);
    assert_eq!(stopped.playing_since_ns, None);
}

#[test]
fn a_schedule_that_cannot_be_carried_out_is_refused_and_changes_nothing() {
    let Some(mut lab) = Lab::build(0) else { return };
    let step = |at_ns, action| Step { at_ns, action };
    let close = Action::Cut { kind: CutKind::Close };
    for (steps, reason) in [
        (vec![step(2, cut()), step(1, Action::Heal)], "step 2 comes before"),
        (vec![step(0, close)], "needs stream mode"),
    ] {
        let order = RelayOrder::Play {
            to: "dc2".into(),
            schedule: Schedule { steps },
            start_ns: 0,
        };
        let refusal = lab.relays[0].ask(order).unwrap_err();
        assert!(refusal.contains(reason), "{refusal}");
    }
    assert_eq!(lab.relays[0].link(), LinkStatus::up("dc2", Conditions::delay(0)));
}
