//! Tests of the run directory, on directories of their own.

use super::*;
use crate::history::{History, Series};
use wire::{Failure, LinkStatus, Sample};

fn manifest() -> Manifest {
    Manifest {
        run: "r1".into(),
        name: "two-dc".into(),
        instrument: crate::manifest::Instrument::default(),
        command_line: vec!["testbed".into(), "run".into()],
        seed: 1,
        started_utc: "2026-11-30T13:00:00Z".into(),
        ended_utc: None,
        host: crate::manifest::Host::default(),
        engine: None,
        labs: Vec::new(),
    }
}

fn started() -> What {
    What::RunStarted {
        run: "r1".into(),
        version: "0.1.0".into(),
        utc: "2026-11-30T13:00:00Z".into(),
        blocks: vec![7],
        seed: 1,
    }
}

fn series() -> What {
    What::Series(Series {
        block: 7,
        row: "far, 20ms".into(),
        what: "get".into(),
        path: "dc2 probe -> redis-primary (dc1)".into(),
        delay_ns: Some(20_000_000),
        warmup: 50,
        pace: "closed loop".into(),
        nodelay: Some(true),
        samples: vec![Sample {
            intended_ns: u64::MAX,
            started_ns: 1,
            ended_ns: 2,
            outcome: -3,
        }],
        failures: vec![Failure {
            cause: "a \"quoted\"\nline".into(),
            times: 2,
        }],
    })
}

fn link_seen() -> What {
    What::LinkSeen {
        block: 7,
        row: "after".into(),
        from: "dc1".into(),
        status: Box::new(LinkStatus {
            cut: Some(wire::CutKind::Drop),
            last_cut_ns: Some(5),
            ..LinkStatus::up("dc2", wire::Conditions::delay(20_000_000))
        }),
    }
}

/// A run directory with three events, below a temporary one that lives as long as the first value.
fn written() -> (tempfile::TempDir, RunDirectory, Vec<What>) {
    let parent = tempfile::tempdir().unwrap();
    let mut run = RunDirectory::create(Some(&parent.path().join("run")), "two-dc").unwrap();
    let whats = vec![started(), series(), link_seen()];
    for what in &whats {
        run.record(what.clone()).unwrap();
    }
    run.write_manifest(&manifest()).unwrap();
    (parent, run, whats)
}

fn whats(history: &History) -> Vec<What> {
    history.events.iter().map(|event| event.what.clone()).collect()
}

#[test]
fn what_was_recorded_is_read_back_without_closing_anything() {
    let (_parent, run, expected) = written();
    let stored = load(run.path()).unwrap();
    assert_eq!(whats(&stored.history), expected);
    assert_eq!((stored.manifest, stored.left_out), (manifest(), None));
    assert!(stored.history.events.is_sorted_by_key(|event| event.at_ns));
}

#[test]
fn a_last_line_that_is_cut_short_is_left_out_and_told() {
    let (_parent, run, expected) = written();
    let path = run.path().join(HISTORY);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let stored = load(run.path()).unwrap();
    assert_eq!(whats(&stored.history), expected[..2]);
    assert!(
        stored
            .left_out
            .unwrap()
            .starts_with("line 3 of history.jsonl is cut short")
    );
}

#[test]
fn a_line_cut_inside_a_letter_of_two_bytes_is_left_out_too() {
    let (_parent, mut run, expected) = written();
    let text = "\u{e9}".to_owned();
    run.record(What::Note { block: 7, text }).unwrap();
    let path = run.path().join(HISTORY);
    let whole = fs::read(&path).unwrap();
    let inside = whole.iter().rposition(|byte| *byte == 0xc3).unwrap() + 1;
    fs::write(&path, &whole[..inside]).unwrap();
    assert_eq!(whats(&load(run.path()).unwrap().history), expected);
}

#[test]
fn a_damaged_line_inside_is_an_error_with_its_number() {
    let (_parent, run, _) = written();
    let path = run.path().join(HISTORY);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"series\"", "\"serious\"")).unwrap();
    let error = load(run.path()).unwrap_err();
    assert!(!error.is_usage());
    assert!(error.to_string().contains("history.jsonl, line 2: "), "{error}");
}

#[test]
fn what_is_no_run_directory_is_told_apart() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let (_keep, run, _) = written();
    fs::remove_file(run.path().join(MANIFEST)).unwrap();
    for (path, why) in [
        (parent.path().join("absent"), "there is no such directory"),
        (file, "it is not a directory"),
        (parent.path().to_owned(), "it has no history.jsonl"),
        (run.path().to_owned(), "it has no manifest.json"),
    ] {
        let error = load(&path).unwrap_err();
        assert!(error.is_usage() && error.to_string().ends_with(why), "{error}");
    }
}

#[test]
fn out_must_be_absent_or_empty() {
    let parent = tempfile::tempdir().unwrap();
    let empty = parent.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(RunDirectory::create(Some(&empty), "x").is_ok());
    let error = RunDirectory::create(Some(&empty), "x").unwrap_err();
    assert!(error.is_usage() && error.to_string().ends_with("it exists and is not empty"));
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let error = RunDirectory::create(Some(&file), "x").unwrap_err();
    assert!(error.is_usage() && error.to_string().ends_with("it exists and is not a directory"));
}

#[test]
fn two_runs_of_one_second_have_two_directories() {
    let parent = tempfile::tempdir().unwrap();
    let made = || new_directory(parent.path(), "2026-11-30T13:00:00Z", "two-dc").unwrap();
    assert_eq!(made(), parent.path().join("20261130T130000Z-two-dc"));
    assert_eq!(made(), parent.path().join("20261130T130000Z-two-dc-2"));
}

#[test]
fn nothing_but_the_files_remains_after_a_write() {
    let (_parent, run, _) = written();
    run.write_manifest(&manifest()).unwrap();
    let mut names: Vec<_> = fs::read_dir(run.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["history.jsonl", "manifest.json"]);
}
