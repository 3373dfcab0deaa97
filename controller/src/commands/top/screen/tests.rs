//! Screens at several sizes, as they are.

use super::super::look::TopRelay;
use super::*;

fn node(name: &str, datacenter: &str, role: &'static str, commands: Option<u64>, lag: Option<u64>) -> TopNode {
    TopNode {
        node: name.to_owned(),
        datacenter: datacenter.to_owned(),
        role: Some(role),
        commands_per_s: commands,
        lag_bytes: lag,
        health: "ready".to_owned(),
    }
}

fn link(from: &str, to: &str, state: &str, bits: u64) -> TopLink {
    TopLink {
        from: from.to_owned(),
        to: to.to_owned(),
        conditions: "delay=20ms".to_owned(),
        state: state.to_owned(),
        bits_per_s: Some(bits),
        packets_per_s: Some(bits / 8000),
        held_packets: 3,
        held_bytes: bits / 400,
        dropped_per_s: Some(0),
        late_p99_us: Some(100),
    }
}

fn sample() -> TopLine {
    let relay = |datacenter: &str| TopRelay {
        datacenter: datacenter.to_owned(),
        mode: "packet".to_owned(),
        scheduling: "deadline".to_owned(),
    };
    TopLine {
        lab: "two-dc".to_owned(),
        over_ms: 1000,
        nodes: vec![
            node("redis-primary", "dc1", "primary", Some(15_320), None),
            node("redis-far", "dc2", "replica", Some(120), Some(48_213)),
            node("postgres", "dc2", "database", None, None),
        ],
        links: vec![
            link("dc1", "dc2", "cut (drop)", 12_400_000),
            link("dc2", "dc1", "up", 800),
        ],
        relays: vec![relay("dc1"), relay("dc2")],
    }
}

fn text(view: View, size: (usize, usize)) -> String {
    let lines = screen(&sample(), view, size);
    assert_eq!(lines.len(), size.1);
    for line in &lines {
        assert!(line.text.chars().count() <= size.0, "{}", line.text);
    }
    lines.into_iter().map(|line| line.text + "\n").collect()
}

const VIEW: View = View {
    order: Order::File,
    paused: false,
    interval_ms: 1000,
};

#[test]
fn a_screen_of_80_by_24() {
    assert_eq!(
        text(VIEW, (80, 24)),
        "lab two-dc  every 1.0 s  sort file

NODE           DATACENTER  ROLE      OPS/S      LAG  HEALTH
redis-primary  dc1         primary   15320        -  ready
redis-far      dc2         replica     120  48213 B  ready
postgres       dc2         database      -        -  ready

LINK     STATE            RATE  PKT/S   QUEUE  DROP/S  LATE P99  CONDITIONS
dc1:dc2  cut (drop)  12 Mbit/s   1550  30 KiB       0    100 us  delay=20ms
dc2:dc1  up          800 bit/s      0     2 B       0    100 us  delay=20ms

RELAY  SCHEDULING  MODE
dc1    deadline    packet
dc2    deadline    packet









q quit  p pause  s sort  + - interval
"
    );
}

#[test]
fn a_screen_of_40_columns_keeps_names_rates_and_queues() {
    let text = text(VIEW, (40, 16));
    assert!(text.contains("NODE           ROLE      OPS/S      LAG\n"), "{text}");
    assert!(text.contains("LINK     STATE            RATE   QUEUE\n"), "{text}");
    assert!(!text.contains("CONDITIONS"), "{text}");
}

#[test]
fn a_wide_screen_has_every_column() {
    let text = text(VIEW, (140, 24));
    for title in ["PKT/S", "CONDITIONS", "LATE P99", "DATACENTER", "HEALTH"] {
        assert!(text.contains(title), "{title}: {text}");
    }
}

#[test]
fn a_low_screen_says_how_much_it_hides_and_keeps_the_keys() {
    let text = text(VIEW, (80, 8));
    assert!(text.contains("... 8 more lines"), "{text}");
    assert!(text.ends_with(&format!("{KEYS}\n")), "{text}");
    for height in 0..4 {
        assert_eq!(screen(&sample(), VIEW, (10, height)).len(), height);
    }
}

#[test]
fn what_is_cut_is_told_apart_and_sorting_brings_it_up() {
    let lines = screen(&sample(), VIEW, (80, 24));
    let bad: Vec<&Line> = lines.iter().filter(|line| line.tone == Tone::Bad).collect();
    assert_eq!(bad.len(), 1);
    assert!(bad[0].text.starts_with("dc1:dc2"));
    let order = Order::Behind;
    let sorted = text(View { order, ..VIEW }, (80, 24));
    let place = |name: &str| sorted.find(&format!("\n{name}")).expect("it is there");
    assert!(place("redis-far") < place("redis-primary"));
    assert_eq!(Order::File.next().next().next(), Order::File);
}

#[test]
fn a_servers_words_cannot_steer_the_terminal() {
    let mut line = sample();
    line.nodes[0].health = "no answer: \u{1b}[2J".to_owned();
    let shown = screen(&line, VIEW, (100, 24));
    assert!(shown.iter().all(|line| !line.text.contains('\u{1b}')));
}

#[test]
fn numbers_keep_about_three_digits() {
    assert_eq!(rate(999), "999 bit/s");
    assert_eq!(rate(1_500), "1.5 kbit/s");
    assert_eq!(rate(2_000_000_000_000), "2000 Gbit/s");
    assert_eq!(bytes(2048), "2 KiB");
    assert_eq!(late(50_000), "50 ms");
}
