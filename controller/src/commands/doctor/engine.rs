//! What the engine gives: version, place, what it grants to a relay, free subnets, and what is left of earlier labs.

use super::{Check, host};
use crate::address::POOL;
use crate::docker::{About, Console, Docker, Engine, EngineHandle, Images, Object, Sort};
use crate::error::CommandError;
use crate::instrument::RELAY;
use crate::lab::{self, Found};
use crate::names::{Kind, LABEL_OWNER, LABEL_RELEASE, LABEL_RUN, LABEL_TRIAL, LabName, OWNER};
use crate::plan::ContainerSpec;
use ipnet::Ipv4Net;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Prefix of the block that a lab of usual size takes.
const BLOCK: u8 = 22;
/// The kernel drops packets, and readiness takes long, below these.
const ENOUGH_CPUS: u32 = 2;
const ENOUGH_MEMORY_BYTES: u64 = 2 << 30;

/// All checks of an engine that answers, and of its host if that is this one.
pub(super) async fn checks(docker: &Docker) -> Result<Vec<Check>, CommandError> {
    let about = docker.about().await?;
    let here = is_here(docker.is_local(), &about);
    let mut checks = vec![
        Check::ok(
            "engine",
            format!("{} (API {}) at {}", about.version, about.api_version, docker.endpoint()),
        ),
        place(here, &about),
        cpus(about.cpus),
        memory(about.memory_bytes),
        relay(docker, here).await?,
    ];
    let subnets = docker.subnets().await?;
    if here {
        checks.extend([
            host::tun(),
            host::forwarding(),
            host::bridge_netfilter(about.bridge_netfilter, docker.guards_addresses()),
        ]);
        checks.extend([host::clock()]);
        checks.extend(host::governor());
        if let Some(storage) = docker.storage_folder().await? {
            checks.push(host::room(&storage));
        }
        checks.push(free_subnets(&subnets, &host::foreign_routes(&subnets)));
    } else {
        checks.push(free_subnets(&subnets, &[]));
    }
    checks.extend(leftovers(docker).await?);
    Ok(checks)
}

/// Whether the engine runs on this very kernel: a local socket can lead into a virtual machine.
fn is_here(local: bool, about: &About) -> bool {
    local && host::value("/proc/sys/kernel/osrelease").is_some_and(|kernel| kernel == about.kernel)
}

fn place(here: bool, about: &About) -> Check {
    let system = format!(
        "{} {}, kernel {}, cgroup {}, {} storage",
        about.os, about.architecture, about.kernel, about.cgroup, about.storage
    );
    if here {
        return Check::ok("host", system);
    }
    Check::warn(
        "host",
        format!(
            "another machine or a virtual one ({system}): its device, clock and disk cannot be looked at from here"
        ),
        "run `testbed doctor` there if a lab does not come up",
    )
}

fn cpus(cpus: u32) -> Check {
    if cpus < ENOUGH_CPUS {
        let fix = "give the engine's machine two CPUs: relays and servers compete for one";
        return Check::warn("cpus", cpus.to_string(), fix);
    }
    Check::ok("cpus", cpus.to_string())
}

fn memory(bytes: u64) -> Check {
    let found = format!("{} MiB", bytes >> 20);
    if bytes < ENOUGH_MEMORY_BYTES {
        return Check::warn(
            "memory",
            found,
            "give the engine's machine 2 GiB: each server may take 512 MiB",
        );
    }
    Check::ok("memory", found)
}

/// Starts the relay's program with what a relay is granted, and without any network.
async fn relay(docker: &Docker, here: bool) -> Result<Check, CommandError> {
    let name = "relay's rights";
    let trials = BTreeMap::from([(LABEL_TRIAL.to_owned(), OWNER.to_owned())]);
    for object in docker.list(&trials).await? {
        // What a killed doctor left; one that runs belongs to another doctor.
        if object.state == "exited" {
            docker.remove(&object).await?;
        }
    }
    let ours = [(LABEL_OWNER, OWNER), (LABEL_RELEASE, RELAY)].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let images = docker.images(&BTreeMap::from(ours)).await?;
    let Some(image) = images.into_iter().find_map(|image| image.references.into_iter().next()) else {
        return Ok(Check::ok(
            name,
            "not tried: the first `testbed up` makes the relay's image",
        ));
    };
    let made = docker.create_container(&trial(image, trials), &BTreeMap::new()).await?;
    let started = docker.start(&made.id).await;
    docker.remove(&made).await?;
    Ok(match started {
        Ok(()) => Check::ok(
            name,
            "NET_ADMIN, SYS_NICE, /dev/net/tun and net.ipv4.ip_forward are granted",
        ),
        Err(error) if here => Check::fail(
            name,
            format!("cannot {error}"),
            "sudo modprobe tun; a rootless engine or one with user namespaces does not grant it: use a normal one",
        ),
        Err(error) => Check::fail(
            name,
            format!("cannot {error}"),
            "on the engine's machine: sudo modprobe tun",
        ),
    })
}

fn trial(image: String, labels: BTreeMap<String, String>) -> ContainerSpec {
    ContainerSpec {
        name: format!("tb-trial.{:08x}", fastrand::u32(..)),
        kind: Kind::Relay,
        image,
        entrypoint: vec![format!("/{RELAY}")],
        // No configuration: it ends at once. That it was started is the answer.
        command: vec!["{}".to_owned()],
        env: Vec::new(),
        user: Some("0:0".to_owned()),
        endpoints: Vec::new(),
        extra_hosts: Vec::new(),
        cap_add: vec!["NET_ADMIN".to_owned(), "SYS_NICE".to_owned()],
        devices: vec!["/dev/net/tun".to_owned()],
        sysctls: BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]),
        volumes: BTreeMap::new(),
        mounts: BTreeMap::new(),
        tmpfs: BTreeMap::new(),
        files: BTreeMap::new(),
        memory_bytes: 64 << 20,
        pids: 16,
        publish: BTreeMap::new(),
        open_stdin: false,
        labels,
    }
}

fn free_subnets(of_engine: &[Ipv4Net], foreign: &[Ipv4Net]) -> Check {
    let name = "subnets";
    let blocks = POOL.subnets(BLOCK).expect("a block is smaller than the pool");
    let (mut all, mut free) = (0, 0);
    for block in blocks {
        all += 1;
        let meets = |net: &Ipv4Net| net.contains(&block) || block.contains(net);
        free += u32::from(!of_engine.iter().any(meets));
    }
    let found = format!("{free} of {all} blocks of {POOL} are free on the engine");
    if free == 0 {
        return Check::fail(name, found, "testbed down --all, or remove networks: docker network ls");
    }
    if foreign.is_empty() {
        return Check::ok(name, found);
    }
    let routes: Vec<String> = foreign.iter().map(ToString::to_string).collect();
    Check::warn(
        name,
        format!("{found}, but the host has its own route to {}", routes.join(", ")),
        "nothing, unless a node publishes a port: then give its datacenter a `subnet` outside of these",
    )
}

/// Labs that are there, with their age, and what is not right with them.
async fn leftovers(docker: &Docker) -> Result<Vec<Check>, CommandError> {
    let engine: EngineHandle = Arc::new(docker.clone());
    let labs = lab::labs(&engine.into()).await?;
    if labs.is_empty() {
        return Ok(vec![Check::ok("labs", "none is up, nothing is left over")]);
    }
    let made = docker.made_at(&lab::labels_of(None)).await?;
    let running = host::a_run_is_under_way();
    Ok(labs
        .iter()
        .map(|found| leftover(found, age(found, &made), running))
        .collect())
}

/// Age of the oldest container.
fn age(found: &Found, made: &BTreeMap<String, SystemTime>) -> Option<Duration> {
    let times = found.objects.iter().filter_map(|object| made.get(&object.id));
    times.min()?.elapsed().ok()
}

fn leftover(found: &Found, age: Option<Duration>, a_run_is_under_way: bool) -> Check {
    let containers = found
        .objects
        .iter()
        .filter(|object| object.sort == Sort::Container)
        .count();
    let mut text = format!("{}: {containers} containers", found.lab);
    if let Some(age) = age {
        let seconds = Duration::from_secs(age.as_secs());
        write!(text, ", {} old", humantime::format_duration(seconds)).expect("a string can be written");
    }
    let run = found
        .objects
        .iter()
        .find_map(|object: &Object| object.labels.get(LABEL_RUN));
    if let Some(run) = run {
        write!(text, ", made by run {run}").expect("a string can be written");
    }
    let fix = match LabName::new(&found.lab) {
        Ok(lab) => format!("testbed down -p {lab}"),
        Err(_) => "testbed down --all".to_owned(),
    };
    let broken = match found.plan() {
        Err(_) => Some("its relays are gone".to_owned()),
        Ok(plan) => {
            let missing = found.not_running(&plan, &[Kind::Relay, Kind::Probe, Kind::Node, Kind::Application]);
            (!missing.is_empty()).then(|| missing.join(", "))
        }
    };
    if run.is_some() && !a_run_is_under_way {
        // Kept on purpose, or left by a run that was killed: only the user knows.
        return Check::warn("labs", format!("{text}, which has ended"), fix);
    }
    match broken {
        Some(broken) if run.is_none() => Check::warn("labs", format!("{text}; not whole: {broken}"), fix),
        _ => Check::ok("labs", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docker::Sort;

    #[test]
    fn a_pool_that_is_taken_is_a_failure_and_a_foreign_route_a_warning() {
        use super::super::State;
        let state = |engine: &[Ipv4Net], foreign: &[Ipv4Net]| free_subnets(engine, foreign).state;
        assert_eq!(state(&[], &[]), State::Ok);
        assert_eq!(state(&[POOL], &[]), State::Fail);
        let small: Ipv4Net = "198.18.4.0/26".parse().unwrap();
        assert!(free_subnets(&[small], &[]).found.starts_with("127 of 128"));
        assert_eq!(state(&[small], &["198.18.0.0/16".parse().unwrap()]), State::Warn);
    }

    #[test]
    fn a_lab_of_a_run_that_has_ended_is_left_over() {
        use super::super::State;
        let object = |labels: &[(&str, &str)]| Object {
            sort: Sort::Container,
            id: "1".to_owned(),
            name: "tb-x-a".to_owned(),
            labels: labels
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            state: "running".to_owned(),
        };
        let found = Found {
            lab: "x".to_owned(),
            objects: vec![object(&[(LABEL_RUN, "r1")])],
        };
        let left = leftover(&found, Some(Duration::from_millis(61_500)), false);
        assert_eq!(left.state, State::Warn);
        assert_eq!(
            left.found,
            "x: 1 containers, 1m 1s old, made by run r1, which has ended"
        );
        assert_eq!(left.fix.as_deref(), Some("testbed down -p x"));
        assert_eq!(leftover(&found, None, true).state, State::Ok);
        let half = Found {
            objects: vec![object(&[])],
            ..found
        };
        assert!(
            leftover(&half, None, false)
                .found
                .contains("not whole: its relays are gone")
        );
    }
}
