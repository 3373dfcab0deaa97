//! Tests of the page: that it is whole, that nothing of a run gets out of its place, and that it needs nobody.

use super::*;
use crate::report::samples::{self, HOSTILE, Made};

#[test]
fn every_part_is_there() {
    let made = Made::default();
    let page = render(&[made.cell("two-dc")]);
    for part in [
        "<h1>testbed: two-dc</h1>",
        "1 passed, 1 failed, 1 skipped",
        "Block 3",
        "Not run: it needs a Postgres",
        "Not completed: ask the relay",
        "Does not show",
        "Trust: suspect",
        "What it was made of",
        "The same again",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_a_run_holds_stays_text() {
    let mut made = Made::default();
    for lab in &mut made.manifest.labs {
        lab.topology = HOSTILE.to_owned();
        for server in &mut lab.servers {
            server.node = HOSTILE.to_owned();
        }
    }
    made.manifest.command_line.push(HOSTILE.to_owned());
    made.findings.blocks[0].question = HOSTILE.to_owned();
    let page = render(&[made.cell(HOSTILE)]);
    assert!(page.matches("&lt;/script&gt;").count() >= 8);
    assert!(!page.contains("</script>") && !page.contains("<b a"));
    assert!(!page.contains('\u{1}'));
    // Nothing is put together into an attribute that a browser would act on.
    for word in [
        "onload",
        "onclick",
        "javascript:",
        "<script",
        "<iframe",
        "<img",
        "@import",
        "http://",
        "https://",
    ] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn ids_are_unique_and_what_is_pointed_at_is_there() {
    let made = Made::default();
    sound(&render(&[made.cell("a"), made.cell("b")]));
    sound(&samples::matrix(matrix::render));
}

fn sound(page: &str) {
    let values = |key: &str| -> Vec<String> {
        let parts = page.split(key).skip(1);
        parts
            .filter_map(|rest| rest.split(['"', ')']).next())
            .map(str::to_owned)
            .collect()
    };
    let ids = values(" id=\"");
    let distinct = |all: &[String]| {
        let mut distinct = all.to_vec();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
    };
    distinct(&ids);
    // Two tables that are called the same cannot be told apart by who hears the page.
    distinct(&values("role=\"region\" aria-label=\""));
    let mut pointed = values("href=\"#");
    pointed.extend(values("aria-labelledby=\""));
    pointed.extend(values("marker-end=\"url(#"));
    assert!(pointed.len() > 8);
    for id in pointed {
        assert!(ids.contains(&id), "{id}");
    }
}

#[test]
fn several_runs_stand_below_each_other_with_a_list_before_them() {
    let made = Made::default();
    let page = render(&[made.cell("redis 7"), made.cell("valkey 9")]);
    for part in ["testbed: 2 runs", "href=\"#run1\"", "id=\"run1\"", "id=\"run1-block3\""] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_matrix_has_the_comparison_first_and_every_cell_folded_below_its_block() {
    let page = samples::matrix(matrix::render);
    let parts = [
        "<h1>testbed: matrix of 2 releases</h1>",
        "Block 15",
        "b, two-dc, repeat 2: ",
        "Blocks by release",
        "Claims that moved against a",
        "Settings that differ",
        "Settings only on a: 1",
        "Claim by claim",
        "id=\"block3\"",
        "Picture and figures are those of the first repeat",
        "What it was made of",
        "testbed matrix --only 3",
    ];
    let places: Vec<usize> = parts
        .iter()
        .map(|part| page.find(part).unwrap_or_else(|| panic!("no {part} in {page}")))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    // Two cells of `a` and one of `b`, of which the first is open.
    assert_eq!(page.matches("<details class=\"cell\" id=\"cell").count(), 3 * 3);
    assert_eq!(page.matches(" open>").count(), 3);
    assert!(!page.contains("</script>") && !page.contains("<b a") && !page.contains('\u{1}'));
}

#[test]
fn a_number_stands_to_the_right_and_a_sentence_that_begins_with_one_does_not() {
    let made = |cell: &str| {
        let row = vec!["x".to_owned(), cell.to_owned()];
        let columns = vec!["row".to_owned(), "reads".to_owned()];
        table(
            &Table {
                columns,
                rows: vec![row],
            },
            "reads",
        )
        .into_string()
    };
    assert!(made("0.10 / 0.14").contains("<td class=\"n\">0.10 / 0.14</td>"));
    assert!(made("40.1 ms").contains("<td class=\"n\">"));
    assert!(made("20 CLUSTERDOWN The cluster is down").contains("<td>20 CLUSTERDOWN"));
    assert!(made("12 served, 8 redirected").contains("<td>12 served"));
}
