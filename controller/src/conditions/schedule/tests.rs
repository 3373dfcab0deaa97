//! Schedules as text: read, printed, and each wrong step told with its place.

use super::*;

const S: u64 = 1_000_000_000;

fn read(text: &str) -> Schedule {
    let timetable = Timetable::parse(text).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
    timetable.on(&Conditions::delay(20_000_000)).unwrap()
}

fn printed(text: &str) -> String {
    schedule_text(&read(text), &Conditions::delay(20_000_000))
}

#[test]
fn what_is_printed_is_read_as_the_same() {
    for text in [
        "at 5s cut drop, at 8s heal",
        "at 0s freeze, at 500ms thaw, at 1.5s cut reset, at 2s heal",
        "at 1s set delay=50ms loss=1%:burst:4, at 2s set loss=none, at 3s cut reset",
        "at 0s flap drop every 2s",
        "at 0s flap reset every 2s until 10s, at 10s cut drop",
        "at 1s set delay=20ms",
    ] {
        assert_eq!(printed(text), text);
        assert_eq!(read(&printed(text)), read(text));
    }
}

#[test]
fn flapping_begins_with_the_schedule_or_one_period_behind_a_step() {
    assert_eq!(printed("flap every 2s"), "at 0s flap drop every 2s");
    assert_eq!(
        printed("at 5s cut, at 8s heal, flap every 2s"),
        "at 5s cut drop, at 8s heal, at 10s flap drop every 2s"
    );
}

#[test]
fn flapping_ends_when_something_else_is_said_of_the_cut() {
    assert_eq!(
        printed("flap every 1s, at 5s set delay=1ms, at 9s cut"),
        "at 0s flap drop every 1s until 9s, at 5s set delay=1ms, at 9s cut drop"
    );
}

#[test]
fn a_set_step_keeps_what_the_link_and_the_steps_before_said() {
    let lossy = Conditions {
        mtu: Some(1400),
        ..Conditions::delay(20_000_000)
    };
    let schedule = Timetable::parse("at 1s set loss=1%, at 2s set delay=5ms")
        .unwrap()
        .on(&lossy)
        .unwrap();
    let wire::Action::Set { conditions } = &schedule.steps[1].action else {
        panic!("{schedule:?}");
    };
    assert_eq!((conditions.delay_ns, conditions.mtu), (5_000_000, Some(1400)));
    assert!(conditions.loss.is_some());
    assert_eq!(schedule.steps[1].at_ns, 2 * S);
}

#[test]
fn each_wrong_step_is_told_with_its_place() {
    for (text, part, what) in [
        ("", "", "empty"),
        ("at 5s cut,", "", "empty"),
        ("at 5 cut", "5", "`5` has no unit"),
        ("at 5s", "at 5s", "nothing happens at 5s"),
        ("at", "at", "no time"),
        ("at 5s explode", "explode", "`explode`"),
        ("at 5s cut hard", "hard", "no kind of cut"),
        ("at 5s cut close", "close", "stream mode"),
        ("at 5s heal now", "now", "does not belong"),
        ("at 5s cut drop at 8s heal", "at", "does not belong"),
        ("cut at 5s", "cut", "no time"),
        ("5s cut", "5s", "does not begin"),
        ("at 5s set", "set", "sets nothing"),
        ("at 5s set dely=5ms", "dely=5ms", "no condition"),
        ("at 5s set delay=5", "delay=5", "no unit"),
        ("at 8s cut, at 5s heal", "at 5s heal", "behind one at 8s"),
        ("flap", "flap", "no period"),
        ("flap 2s", "2s", "no kind of cut"),
        ("flap every 1ms", "1ms", "too short"),
        ("flap every 2s until", "until", "no time"),
        ("flap every 2s for 3s", "for", "does not belong"),
        ("at 5s flap every 2s until 4s", "4s", "before it begins"),
        ("flap every 2s until 9s, at 8s heal", "9s", "beyond the next step"),
        ("at 25h cut", "25h", "longer than a day"),
        ("at -5s cut", "-5s", "negative"),
    ] {
        let bad = Timetable::parse(text).unwrap_err();
        assert_eq!(bad.len(), 1, "{text}: {bad:?}");
        assert_eq!(&text[bad[0].range.clone()], part, "{text}: {bad:?}");
        assert!(bad[0].bad.what.contains(what), "{text}: {bad:?}");
        assert!(!bad[0].bad.hint.is_empty());
    }
    let bad = Timetable::parse("at 5 cut, at 3s heal, at 2s cut hard, at 1s thaw").unwrap_err();
    assert_eq!(bad.len(), 3, "{bad:?}");
}

#[test]
fn what_a_step_sets_must_fit_the_link() {
    let timetable = Timetable::parse("at 1s set jitter=30ms").unwrap();
    let bad = timetable.on(&Conditions::delay(20_000_000)).unwrap_err();
    assert!(
        bad.bad.what.contains("`uniform:30ms` is more than the delay"),
        "{bad:?}"
    );
    assert!(timetable.on(&Conditions::delay(30_000_000)).is_ok());
}

#[test]
fn a_schedule_too_long_for_an_order_is_refused() {
    let text: Vec<String> = (0..400).map(|i| format!("at {i}s set delay={i}ms")).collect();
    let bad = Timetable::parse(&text.join(", "))
        .unwrap()
        .on(&Conditions::delay(0))
        .unwrap_err();
    assert!(bad.bad.what.contains("longer than"), "{bad:?}");
}

#[test]
fn any_text_is_read_or_refused_within_its_bounds() {
    let mut random = fastrand::Rng::with_seed(5);
    let pieces = [
        "at",
        " ",
        "5s",
        "8",
        "cut",
        "drop",
        ",",
        "flap",
        "every",
        "until",
        "ä",
        "set",
        "delay=1ms",
        "=",
        "\u{2028}",
        "heal",
        "loss=1%:burst:4",
    ];
    for _ in 0..20_000 {
        let text: String = (0..random.usize(..12))
            .map(|_| pieces[random.usize(..pieces.len())])
            .collect();
        match Timetable::parse(&text) {
            Ok(timetable) => drop(timetable.on(&Conditions::delay(0))),
            Err(bad) => assert!(
                bad.iter().all(|bad| text.get(bad.range.clone()).is_some()),
                "{text}: {bad:?}"
            ),
        }
    }
}
