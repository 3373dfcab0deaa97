//! The whole of `parse`, from text to topology or problems.

use super::*;

const TWO_DC: &str = include_str!("../../../topologies/two-dc.yaml");

fn codes(text: &str) -> Vec<&'static str> {
    let problems = parse("test.yaml", text).expect_err("something is wrong");
    problems.iter().map(|problem| problem.code.as_str()).collect()
}

#[test]
fn two_dc_says_what_its_comment_says() {
    let topology = parse("topologies/two-dc.yaml", TWO_DC).expect("a right topology");
    assert_eq!(topology.name.as_str(), "two-dc");
    assert!(TWO_DC.lines().count() <= 25);
    let delays: Vec<(&str, &str, u64)> = topology
        .links
        .iter()
        .map(|link| (link.from.as_str(), link.to.as_str(), link.conditions.delay_ns))
        .collect();
    assert_eq!(delays, [("dc1", "dc2", 20_000_000), ("dc2", "dc1", 20_000_000)]);
    let primary = NodeName::new("redis-primary").expect("a legal name");
    let roles: Vec<Role> = topology.nodes.iter().map(|node| node.role.clone()).collect();
    let replica = || Role::ReplicaOf(primary.clone());
    assert_eq!(roles, [Role::Primary, replica(), replica(), Role::Postgres]);
}

#[test]
fn one_direction_can_differ_and_a_round_trip_is_halved() {
    let text = TWO_DC.replace(
        "dc1-dc2: { delay: 20ms }",
        "dc2:dc1: { delay: 5ms }\n  dc1-dc2: { rtt: 41ms }",
    );
    let topology = parse("t.yaml", &text).expect("a right topology");
    let delays: Vec<u64> = topology.links.iter().map(|link| link.conditions.delay_ns).collect();
    assert_eq!(delays, [20_500_000, 5_000_000]);
}

#[test]
fn defaults_hold_for_the_nodes_of_their_engine_only() {
    let text = TWO_DC.replace(
        "engine: redis\n",
        "engine: redis\n  release: redis-8.6\n  config: { hz: 0100, save: no }\n",
    );
    let topology = parse("t.yaml", &text).expect("a right topology");
    let near = &topology.nodes[1];
    assert_eq!(near.release.as_deref(), Some("redis-8.6"));
    // As written: neither the octal number nor the truth value that YAML makes of them.
    assert_eq!(near.config["hz"], "0100");
    assert_eq!(near.config["save"], "no");
    let postgres = &topology.nodes[3];
    assert_eq!((postgres.release.as_ref(), postgres.config.len()), (None, 0));
}

#[test]
fn problems_of_shape_and_of_meaning_are_reported_together() {
    let text = TWO_DC
        .replace("delay: 20ms", "delya: 20ms")
        .replace("replica-of: redis-primary", "replica-of: redis-primray");
    assert_eq!(codes(&text), ["unknown-key", "absent", "absent"]);
}

#[test]
fn a_problem_is_told_once() {
    // A misspelt key, an unreadable value: what is missing because of them is not another problem.
    assert_eq!(
        codes(&TWO_DC.replace("datacenter: dc1 }", "datacentre: dc1 }")),
        ["unknown-key"]
    );
    assert_eq!(codes(&TWO_DC.replace("engine: redis\n", "engine: 7\n")), ["wrong-type"]);
    assert_eq!(codes(&TWO_DC.replace("20ms", "fast")), ["bad-delay"]);
    assert_eq!(codes(&TWO_DC.replace("  dc1:\n", "  dc-1:\n"))[0], "bad-name");
}

#[test]
fn the_file_names_the_lab_unless_it_cannot() {
    let name = |file: &str| parse(file, TWO_DC).map(|topology| topology.name.to_string());
    assert_eq!(name("a/b/My_Lab.2.yml").as_deref(), Ok("my-lab-2"));
    assert_eq!(name(STDIN).as_deref(), Ok("stdin"));
    assert!(name("42.yaml").is_err());
    let named = format!("name: other\n{TWO_DC}");
    assert_eq!(
        parse("42.yaml", &named)
            .map(|topology| topology.name.to_string())
            .as_deref(),
        Ok("other")
    );
}

#[test]
fn line_ends_of_windows_and_a_byte_order_mark_change_nothing() {
    let expected = parse("t.yaml", TWO_DC);
    assert_eq!(parse("t.yaml", &TWO_DC.replace('\n', "\r\n")), expected);
    assert_eq!(parse("t.yaml", &format!("\u{feff}{TWO_DC}")), expected);
}

#[test]
fn bombs_are_refused_within_their_budget() {
    let deep = format!("version: 1\nx-a: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(codes(&deep), ["yaml"]);
    let long = format!("version: 1\nnodes: {{ {} }}\n", "a: b, ".repeat(100_000));
    assert!(!codes(&long).is_empty());
    assert_eq!(codes(&"x".repeat(MOST_BYTES + 1)), ["too-large"]);
    let keys: String = (0..50_000).map(|number| format!("k{number}: 1\n")).collect();
    assert_eq!(codes(&keys).len(), 100, "problems are counted up to a bound");
}

/// No file makes the reader panic, and every problem can be shown. Seeded: the same files every time.
#[test]
fn mutated_files_never_panic_and_every_problem_can_be_shown() {
    let everything = include_str!("../../tests/golden/good/everything.yaml");
    let mut random = fastrand::Rng::with_seed(20);
    let pieces = [
        ":",
        "-",
        "{",
        "}",
        "[",
        "]",
        "\n",
        "  ",
        "\t",
        "#",
        "&a",
        "*a",
        "<<: *a",
        "\"",
        "'",
        "|",
        ">",
        "!!int ",
        "~",
        "ä",
        "\u{1b}",
        "\u{feff}",
        "---\n",
        "dc1",
        "1e999",
        ".nan",
        "? ",
        "null",
        "0x",
        ",",
        "\r",
        "\u{2028}",
        "!!binary ",
        "x-",
    ];
    let mut right = 0;
    for round in 0..1500 {
        let base = if round % 2 == 0 { TWO_DC } else { everything };
        let mut text: Vec<char> = base.chars().collect();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..text.len());
            let end = (at + random.usize(..12)).min(text.len());
            match random.u8(..4) {
                0 => drop(text.drain(at..end)),
                1 => text
                    .splice(at..at, pieces[random.usize(..pieces.len())].chars())
                    .for_each(drop),
                2 => {
                    let copy: Vec<char> = text[at..end].to_vec();
                    let to = random.usize(..text.len());
                    text.splice(to..to, copy).for_each(drop);
                }
                _ => text[at] = pieces[random.usize(..pieces.len())].chars().next().unwrap_or(' '),
            }
        }
        let text: String = text.into_iter().collect();
        match parse("fuzz.yaml", &text) {
            Ok(_) => right += 1,
            Err(problems) => {
                assert!(!problems.is_empty(), "{text}");
                for problem in problems {
                    let shown = problem.render(&text, round % 3 == 0);
                    assert!(shown.contains("fuzz.yaml"), "{text}\n{shown}");
                    if round % 3 != 0 {
                        assert!(!shown.contains('\u{1b}'), "{text}");
                    }
                }
            }
        }
    }
    assert!(right > 40, "most mutations break nothing or little: {right}");
}
