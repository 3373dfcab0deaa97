//! Controllers that are killed, that meet each other, and labs of which something is left, on a real engine. Looks only at objects
//! of its own processes, since other labs can be up. The long forms are `tools/kills.sh` and `tools/many-labs.sh`.
//!
//! `cargo test -p testbed --test docker_lifecycle -- --ignored --test-threads=1`

#![allow(clippy::unwrap_used)]

#[path = "shared/program.rs"]
mod program;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use testbed::controller::Controller;
use testbed::docker::{Docker, Engine};
use testbed::lab;
use testbed::names::{LABEL_CONTROLLER, LABEL_KIND, LabName};

/// What the issue allows a reaper.
const REAPED: Duration = Duration::from_secs(10);
/// For a busy machine to come to something, relay and probe compiled first.
const PATIENCE: Duration = Duration::from_secs(400);

fn testbed(words: &[&str]) -> Command {
    let mut command = program::testbed();
    command
        .args(words)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .stdin(Stdio::null());
    command
}

fn name(text: &str) -> String {
    format!("life-{text}-{}", std::process::id())
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn down(lab: &str) -> Output {
    testbed(&["down", "-p", lab]).output().unwrap()
}

/// Kind and name of everything that a process of ours has made.
async fn of(docker: &Docker, pid: u32) -> Vec<(String, String)> {
    let objects = docker.list(&lab::labels_of(None)).await.unwrap();
    let made = objects.into_iter().filter(|object| {
        let controller = object.labels.get(LABEL_CONTROLLER).map(String::as_str);
        controller
            .and_then(Controller::from_label)
            .is_some_and(|controller| controller.pid == pid)
    });
    made.map(|object| (object.labels[LABEL_KIND].clone(), object.name))
        .collect()
}

/// Waits until a process has made something of this kind.
async fn until_made(docker: &Docker, child: &mut Child, kind: &str) {
    let begun = Instant::now();
    while !of(docker, child.id()).await.iter().any(|(made, _)| made == kind) {
        assert!(begun.elapsed() < PATIENCE, "no {kind} was made");
        assert!(child.try_wait().unwrap().is_none(), "it ended before a {kind} was made");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until nothing of it is left.
async fn until_gone(docker: &Docker, pid: u32) {
    let begun = Instant::now();
    loop {
        let left = of(docker, pid).await;
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < REAPED, "still there: {left:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The reaper of a process, which is its child.
fn reaper_of(pid: u32) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let children = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap());
    let all = children.collect::<Vec<_>>().join(" ");
    let reaper = all.split_whitespace().find(|child| {
        let words = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        words.contains("\0reap\0--host\0")
    });
    reaper.expect("it has a reaper").parse().unwrap()
}

/// Session of a process, and where it stands.
fn stands(pid: u32) -> (u32, std::path::PathBuf) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat
        .rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .nth(3)
        .unwrap()
        .parse()
        .unwrap();
    (session, std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn what_a_killed_run_made_goes_by_itself_and_nobody_waits_for_its_streams() {
    let docker = Docker::connect(None).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut run = testbed(&["run", "--only", "3", "--out", out.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_made(&docker, &mut run, "node").await;
    let reaper = reaper_of(run.id());
    assert_eq!(stands(reaper), (reaper, "/".into()));
    run.kill().unwrap();
    let killed = Instant::now();
    // Both end with the controller; a reaper that held one would hold up whoever reads it.
    let mut said = String::new();
    run.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(killed.elapsed() < Duration::from_secs(2), "{said}");
    run.wait().unwrap();
    until_gone(&docker, run.id()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn where_the_reaper_was_killed_too_the_next_command_removes_it() {
    let docker = Docker::connect(None).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut run = testbed(&["-q", "run", "--only", "3", "--out", out.to_str().unwrap()])
        .spawn()
        .unwrap();
    until_made(&docker, &mut run, "node").await;
    let reaper = rustix::process::Pid::from_raw(reaper_of(run.id()).try_into().unwrap()).unwrap();
    rustix::process::kill_process(reaper, rustix::process::Signal::KILL).unwrap();
    // While it lives, nobody touches it.
    let other = down(&name("none"));
    assert!(
        other.status.success() && !stderr(&other).contains("killed run"),
        "{}",
        stderr(&other)
    );
    assert!(run.try_wait().unwrap().is_none());
    run.kill().unwrap();
    run.wait().unwrap();
    assert_ne!(of(&docker, run.id()).await, [], "nobody is there to remove it");
    let next = down(&name("none"));
    assert!(
        next.status.success() && stderr(&next).contains("killed run left"),
        "{}",
        stderr(&next)
    );
    until_gone(&docker, run.id()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Docker engine"]
async fn half_a_lab_of_up_goes_with_it_and_a_whole_one_stays() {
    let docker = Docker::connect(None).await.unwrap();
    let lab = name("half");
    let words = ["-q", "up", "topologies/two-dc.yaml", "-p", &lab];
    let mut up = testbed(&words).stdout(Stdio::null()).spawn().unwrap();
    until_made(&docker, &mut up, "datacenter").await;
    up.kill().unwrap();
    up.wait().unwrap();
    until_gone(&docker, up.id()).await;

    let whole = testbed(&words).output().unwrap();
    assert!(whole.status.success(), "{}", stderr(&whole));
    // Longer than a reaper that was not told would take.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let ps = testbed(&["ps", "-p", &lab]).output().unwrap();
    assert!(ps.status.success(), "{}", stderr(&ps));
    let old = testbed(&["down", "--older-than", "1000days", "--yes"])
        .output()
        .unwrap();
    assert!(stderr(&old).contains("no lab is older"), "{}", stderr(&old));
    for removed in ["nothing of it is left", "nothing to remove"] {
        let down = down(&lab);
        assert!(
            down.status.success() && stderr(&down).contains(removed),
            "{}",
            stderr(&down)
        );
    }
    let labels = lab::labels_of(Some(&LabName::new(&lab).unwrap()));
    assert_eq!(docker.list(&labels).await.unwrap(), []);
}

#[test]
#[ignore = "needs a Docker engine"]
fn of_two_who_raise_one_lab_at_once_one_wins_and_the_other_says_who() {
    let lab = name("two");
    let up = || {
        let mut up = testbed(&["up", "topologies/two-dc.yaml", "-p", &lab]);
        up.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [up(), up()];
    let pids = both.each_ref().map(Child::id);
    let ended = both.map(|child| child.wait_with_output().unwrap());
    let gone = down(&lab);
    let codes = ended.each_ref().map(|output| output.status.code());
    let said = ended.each_ref().map(stderr);
    let winner = codes.iter().position(|code| *code == Some(0));
    let winner = winner.unwrap_or_else(|| panic!("{said:#?}"));
    let loser = 1 - winner;
    assert_eq!(codes[loser], Some(5), "{said:#?}");
    assert!(
        said[loser].contains(&format!("process {} of", pids[winner])),
        "{}",
        said[loser]
    );
    assert!(
        gone.status.success() && stderr(&gone).contains("objects removed"),
        "{}",
        stderr(&gone)
    );
}
