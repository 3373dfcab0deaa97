//! What runs in the containers of the fake engine: a relay (see `relay`), and a probe that says who it
//! is, sees round trips and beacons as long as the links say, sleeps on time, and asks the servers of the lab.

use super::{Container, Fake, World, beacons, cache};
use crate::names::{Kind, LABEL_DATACENTER};
use crate::plan::ContainerSpec;
use std::net::{Ipv4Addr, SocketAddrV4};
use wire::{CpuSeen, Failure, FromProbe, FromRelay, Id, ProbeAnswer, ProbeOrder, Sample, ToProbe, ToRelay, Transport};

/// Version that relay and probe report.
pub(super) const VERSION: &str = "fake";

/// Answer lines to an order line; programs that take no orders say nothing.
pub(super) fn answer(fake: &Fake, spec: &ContainerSpec, line: &str) -> Vec<String> {
    let mut world = fake.world();
    let now_ns = world.now_ns();
    let relays = world.containers.values_mut();
    relays.for_each(|container| container.relay.advance(now_ns));
    match spec.kind {
        Kind::Relay => relay(&mut world, spec, line).into_iter().collect(),
        Kind::Probe => {
            let Ok(order) = serde_json::from_str::<ToProbe>(line) else {
                return Vec::new();
            };
            let answers = probe(&mut world, spec, order.id, &order.order);
            let lines = answers.iter().map(serde_json::to_string);
            lines.map(|line| line.expect("an answer is always JSON")).collect()
        }
        _ => Vec::new(),
    }
}

fn relay(world: &mut World, spec: &ContainerSpec, line: &str) -> Option<String> {
    let now_ns = world.now_ns();
    let order: ToRelay = serde_json::from_str(line).ok()?;
    let mut containers = world.containers.values_mut();
    let relay = containers.find(|container| container.spec.name == spec.name)?;
    let result = relay.relay.obey(&order.order, now_ns);
    let answer = FromRelay { id: order.id, result };
    Some(serde_json::to_string(&answer).expect("an answer is always JSON"))
}

/// Answers to an order of a probe: one, but beacons are answered together with the order that ends them.
fn probe(world: &mut World, spec: &ContainerSpec, id: Id, order: &ProbeOrder) -> Vec<FromProbe> {
    let result = match order {
        ProbeOrder::Beacons { targets, interval_ns } => {
            return match beacons::start(world, &spec.name, id, targets, *interval_ns) {
                Ok(()) => Vec::new(),
                Err(cause) => vec![FromProbe { id, result: Err(cause) }],
            };
        }
        ProbeOrder::Stop { order } => match beacons::stop(world, &spec.name, *order) {
            Some(ended) => {
                let ended = FromProbe {
                    id: *order,
                    result: Ok(ended),
                };
                let done = FromProbe {
                    id,
                    result: Ok(ProbeAnswer::Done),
                };
                return vec![ended, done];
            }
            None => Err(format!("stop order {order}: it is not under way")),
        },
        other => {
            let datacenter = spec.labels.get(LABEL_DATACENTER).map_or("", String::as_str);
            perform(world, datacenter, other)
        }
    };
    vec![FromProbe { id, result }]
}

fn perform(world: &mut World, datacenter: &str, order: &ProbeOrder) -> Result<ProbeAnswer, String> {
    match order {
        ProbeOrder::Hello => Ok(ProbeAnswer::Hello {
            version: VERSION.to_owned(),
            now_ns: world.now_ns(),
        }),
        ProbeOrder::Echo {
            target,
            transport,
            count,
            timeout_ns,
            ..
        } => {
            let nodelay = (*transport == Transport::Tcp).then_some(true);
            Ok(echo(world, datacenter, *target, (*count, *timeout_ns), nodelay))
        }
        ProbeOrder::Redis { target, commands, .. } => {
            let server = reach(world, datacenter, *target)?;
            let replies = commands.iter().map(|command| cache::reply(world, &server, command));
            Ok(ProbeAnswer::Replies(replies.collect()))
        }
        ProbeOrder::PostgresBatch { target, .. } => {
            reach(world, datacenter, *target)?;
            Ok(ProbeAnswer::Done)
        }
        ProbeOrder::PostgresQuery { target, sql, .. } => {
            let server = reach(world, datacenter, *target)?;
            if sql.eq_ignore_ascii_case("SHOW server_version") {
                return Ok(ProbeAnswer::Text(version(world, &server)));
            }
            Ok(ProbeAnswer::Text("1".to_owned()))
        }
        ProbeOrder::Sleeps { sleep_ns, count } => Ok(on_time(world.now_ns(), *sleep_ns, *count, None)),
        ProbeOrder::Cpu => Ok(ProbeAnswer::Cpu(idle(world.now_ns()))),
        ProbeOrder::Sabotage { .. } => Ok(ProbeAnswer::Done),
        ProbeOrder::Beacons { .. } | ProbeOrder::Stop { .. } => unreachable!("they have two answers between them"),
        ProbeOrder::Load(_)
        | ProbeOrder::Sockets
        | ProbeOrder::Sink { .. }
        | ProbeOrder::Bulk(_)
        | ProbeOrder::Ledger { .. }
        | ProbeOrder::Audit { .. }
        | ProbeOrder::Backlog { .. }
        | ProbeOrder::Poll { .. }
        | ProbeOrder::Watch { .. }
        | ProbeOrder::Half(_) => Err("measure: this engine is a fake".to_owned()),
    }
}

/// Docker name of the server at an address, if the way there and back is open.
fn reach(world: &World, datacenter: &str, target: SocketAddrV4) -> Result<String, String> {
    let refused = || format!("connect to {target}: connection refused");
    let server = world.at(*target.ip()).ok_or_else(refused)?;
    way(world, datacenter, server.datacenter()).ok_or_else(|| format!("connect to {target}: timed out"))?;
    Ok(server.spec.name.clone())
}

fn echo(
    world: &World,
    datacenter: &str,
    target: Ipv4Addr,
    (count, timeout_ns): (u32, u64),
    nodelay: Option<bool>,
) -> ProbeAnswer {
    let far = world.at(target).map(Container::datacenter);
    let took = far
        .and_then(|far| way(world, datacenter, far))
        .filter(|took| *took < timeout_ns);
    if let Some(took) = took {
        return on_time(world.now_ns(), took, count, nodelay);
    }
    let lost = Failure {
        cause: "no reply".to_owned(),
        times: count,
    };
    ProbeAnswer::Samples {
        samples: Vec::new(),
        failures: vec![lost],
        nodelay: None,
    }
}

/// Samples one after the other, each as long as it should be; the outcome is the middle of each.
fn on_time(now_ns: u64, took_ns: u64, count: u32, nodelay: Option<bool>) -> ProbeAnswer {
    let sample = |i: u32| {
        let started_ns = now_ns + u64::from(i) * took_ns;
        Sample {
            intended_ns: started_ns,
            started_ns,
            ended_ns: started_ns + took_ns,
            outcome: i64::try_from(started_ns + took_ns / 2).unwrap_or(i64::MAX),
        }
    };
    ProbeAnswer::Samples {
        samples: (0..count).map(sample).collect(),
        failures: Vec::new(),
        nodelay,
    }
}

/// A host of two cores with nothing to do.
fn idle(now_ns: u64) -> CpuSeen {
    const TICK_NS: u64 = 10_000_000;
    CpuSeen {
        cores: 2,
        busy_ticks: 0,
        idle_ticks: 2 * now_ns / TICK_NS,
        steal_ticks: 0,
    }
}

/// Round trip between two datacenters, nanoseconds; `None` if a link on it is cut, frozen or absent.
pub(super) fn way(world: &World, near: &str, far: &str) -> Option<u64> {
    Some(leg(world, near, far)? + leg(world, far, near)?)
}

/// One way between two datacenters, nanoseconds; `None` if the link is cut, frozen or absent.
pub(super) fn leg(world: &World, from: &str, to: &str) -> Option<u64> {
    if from == to {
        return Some(0);
    }
    let mut relays = world.containers.values().filter(|container| container.runs());
    let relay = relays.find(|container| container.spec.kind == Kind::Relay && container.relay.datacenter == from)?;
    relay.relay.leg(to)
}

/// Version of a server: as the test wants it, else its image's tag with as many numbers as servers report.
pub(super) fn version(world: &World, server: &str) -> String {
    if let Some(version) = world.versions.get(server) {
        return version.clone();
    }
    let image = world.container(server).map_or("", |container| &container.spec.image);
    let tag = image.rsplit_once(':').map_or("0", |(_, tag)| tag);
    let numbers = if image.contains("postgres") { 2 } else { 3 };
    let mut version: Vec<&str> = tag.split('.').collect();
    version.resize(numbers.max(version.len()), "0");
    version.join(".")
}

impl Container {
    pub(super) fn datacenter(&self) -> &str {
        self.spec.labels.get(LABEL_DATACENTER).map_or("", String::as_str)
    }
}
