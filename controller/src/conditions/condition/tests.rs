//! Conditions as text: read, printed, and refused with what to write.

use super::*;

fn said(word: &str) -> Result<Condition, Bad> {
    let (key, value) = word.split_once('=').unwrap();
    Condition::parse(Key::parse(key).unwrap(), value)
}

fn read(words: &str) -> Conditions {
    let mut conditions = Conditions::delay(0);
    for word in words.split_whitespace() {
        said(word)
            .unwrap_or_else(|bad| panic!("{word} {bad}"))
            .apply(&mut conditions);
    }
    conditions
}

#[test]
fn what_is_printed_is_read_as_the_same() {
    for words in [
        "delay=20ms",
        "delay=20.5ms jitter=uniform:2ms",
        "delay=20ms jitter=normal:1ms:reorder loss=1% duplicate=0.1% reorder=1%:by:2ms corrupt=0.01%",
        "delay=0ms jitter=table:0ms/1ms/12ms loss=5%:burst:2.5 rate=100mbit queue=64KiB mtu=1400",
        "delay=1s jitter=pareto:300us:reorder rate=unlimited",
    ] {
        assert_eq!(text(&read(words)), words);
    }
    assert_eq!(text(&read("delay=20ms jitter=2ms")), "delay=20ms jitter=uniform:2ms");
}

#[test]
fn a_condition_changes_what_it_names_and_none_takes_it_away() {
    let full =
        read("delay=20ms jitter=2ms loss=1% duplicate=1% reorder=1%:by:1ms corrupt=1% rate=1mbit queue=1MiB mtu=1400");
    let mut changed = full.clone();
    said("delay=5ms").unwrap().apply(&mut changed);
    assert_eq!(
        changed,
        Conditions {
            delay_ns: 5_000_000,
            ..full.clone()
        }
    );
    let mut bare = full;
    for word in [
        "jitter=none",
        "loss=none",
        "duplicate=none",
        "reorder=default",
        "corrupt=none",
        "mtu=none",
        "queue=default",
        "rate=default",
    ] {
        said(word).unwrap().apply(&mut bare);
    }
    assert_eq!(bare, Conditions::delay(20_000_000));
    assert_eq!(said("rate=none"), Ok(Condition::Rate(None)));
    assert_eq!(said("loss=0%"), Ok(Condition::Loss(None)));
    assert_eq!(said("jitter=0ms"), Ok(Condition::Jitter(None)));
}

#[test]
fn a_difference_names_what_is_taken_away_too() {
    let from = read("delay=20ms loss=1% mtu=1400");
    let to = read("delay=5ms loss=2%");
    assert_eq!(difference(&from, &to), "delay=5ms loss=2% mtu=none");
    assert_eq!(difference(&to, &to), "");
}

#[test]
fn nonsense_is_refused_with_what_to_write() {
    for (word, hint) in [
        ("delay=none", "0ms"),
        ("delay=20", "20ms"),
        ("jitter=gamma:2ms", "normal"),
        ("jitter=table:", "write a number and a unit"),
        ("jitter=2", "`2ms`"),
        ("loss=1", "`1%`"),
        ("loss=1%:4", "burst:4"),
        ("loss=1%:burst:0.5", "1 (independent)"),
        ("loss=1%:burst:2000", "1000"),
        ("reorder=1%", "1%:by:2ms"),
        ("reorder=1%:by:0ms", "2ms"),
        ("rate=0bit", "cut"),
        ("queue=10B", "at least 1500B"),
        ("queue=1GiB", "at most 64MiB"),
        ("mtu=500", "576"),
        ("mtu=9001", "9000"),
        ("mtu=1400B", "1400"),
    ] {
        let bad = said(word).unwrap_err();
        assert!(bad.hint.contains(hint), "{word}: {bad}; {}", bad.hint);
    }
}

#[test]
fn conditions_that_contradict_each_other_are_refused() {
    assert_eq!(check(&read("delay=20ms jitter=20ms loss=80%:burst:4")), Ok(()));
    assert_eq!(check(&read("delay=1ms jitter=normal:5ms loss=100%")), Ok(()));
    assert_eq!(check(&read("delay=1ms jitter=2ms")).unwrap_err().0, Key::Jitter);
    assert_eq!(check(&read("delay=1ms loss=81%:burst:4")).unwrap_err().0, Key::Loss);
}
