//! Log lines in a run's `run.log`. A program of its own, since logging starts once per process.

use std::fs::File;

#[test]
fn a_runs_log_has_its_lines_with_their_spans_and_without_colour() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("run.log");
    // Colour on the screen, in the same spans: none of it may get into the file.
    testbed::log::start(2, true);
    let span = tracing::info_span!(target: "testbed::block", "block", number = 7);
    let entered = span.enter();
    tracing::info!(target: "testbed::block", "before there is a file");
    testbed::log::keep_in(File::create(&path).expect("the file can be made"));
    tracing::debug!(target: "testbed::block", delay = "20ms", "link set");
    tracing::debug!(target: "hyper", "a request");
    drop(entered);
    let log = std::fs::read_to_string(&path).expect("the file can be read");
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(
        log.contains("block{number=7}") && log.contains("link set delay=\"20ms\""),
        "{log}"
    );
    assert!(!log.contains('\u{1b}'), "{log:?}");
}
