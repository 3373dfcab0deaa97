//! From the file's types to a checked topology: version, names, datacenters, subnets. Links and nodes have files of
//! their own beside this one.
//!
//! A check never assumes that another one passed. A topology comes out only if there is no problem at all.

use super::file::File;
use super::problem::{Code, Problems, nearest, quote};
use super::tree::{At, Place};
use super::{Datacenter, MountCheck, ReleaseCheck, Topology, applications, links, mode, nodes};
use crate::names::{DatacenterName, LabName};
use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

/// Most datacenters and most nodes: far above what one machine can run, far below what could hurt the planner.
const MOST_DATACENTERS: usize = 32;
const MOST_NODES: usize = 500;
/// Prefix lengths that a datacenter's own subnet may have: room for relay, probe and nodes, and not half the world.
const PREFIXES: std::ops::RangeInclusive<u8> = 16..=26;

/// The topology, if nothing is wrong with it.
pub(super) fn check(
    file: &File,
    name_of_file: &str,
    release: ReleaseCheck,
    mount: MountCheck,
    problems: &mut Problems,
) -> Option<Topology> {
    if too_large(file, problems) {
        // The checks below look at every node for every node.
        return None;
    }
    version(file, problems);
    let name = lab_name(file, name_of_file, problems);
    let datacenters = datacenters(file, problems);
    let path = mode::path(file, problems);
    let seed = mode::seed(file, problems);
    let links = links::links(file, path, problems);
    let nodes = nodes::nodes(file, release, problems);
    let applications = applications::applications(file, mount, problems);
    if !problems.is_empty() {
        return None;
    }
    Some(Topology {
        name: name?,
        datacenters,
        nodes,
        applications,
        links,
        path,
        seed,
    })
}

fn version(file: &File, problems: &mut Problems) {
    match &file.version {
        Some(version) if version.value == "1" => {}
        Some(version) => problems
            .add(
                version.place,
                Code::BadValue,
                format!("version {} of the format is not known", quote(&version.value)),
            )
            .hint("this testbed reads `version: 1`"),
        None => problems
            .add(
                Place {
                    line: 1,
                    column: 1,
                    ..Place::default()
                },
                Code::Missing,
                "the version of the format is missing",
            )
            .hint("begin with a line `version: 1`"),
    }
}

fn lab_name(file: &File, name_of_file: &str, problems: &mut Problems) -> Option<LabName> {
    let Some(name) = &file.name else {
        return from_file_name(name_of_file, problems);
    };
    match LabName::new(&name.value) {
        Ok(name) => Some(name),
        Err(bad) => {
            problems
                .add(
                    name.place,
                    Code::BadName,
                    format!("{} is no name of a lab", quote(&name.value)),
                )
                .hint(bad.rule);
            None
        }
    }
}

/// `topologies/two-dc.yaml` is the lab `two-dc`; capitals, `_`, `.` and blanks are made to fit.
fn from_file_name(name_of_file: &str, problems: &mut Problems) -> Option<LabName> {
    if name_of_file == super::STDIN {
        return Some(LabName::new("stdin").expect("a legal name"));
    }
    let base = name_of_file.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = base
        .strip_suffix(".yaml")
        .or_else(|| base.strip_suffix(".yml"))
        .unwrap_or(base);
    let stem: String = stem
        .chars()
        .map(|c| if "_. ".contains(c) { '-' } else { c.to_ascii_lowercase() })
        .collect();
    let name = LabName::new(stem.trim_matches('-'));
    if name.is_err() {
        let first = Place {
            line: 1,
            column: 1,
            ..Place::default()
        };
        problems
            .add(first, Code::BadName, "the name of the file is no name of a lab")
            .hint("add a line `name: NAME`: lower-case letters, digits and `-`");
    }
    name.ok()
}

fn datacenters(file: &File, problems: &mut Problems) -> Vec<Datacenter> {
    let mut datacenters = Vec::new();
    let mut subnets: Vec<(&str, Ipv4Net)> = Vec::new();
    for (key, section) in &file.datacenters {
        let name = match DatacenterName::new(&key.value) {
            Ok(name) if name.as_str() != "wan" => Some(name),
            Ok(_) => {
                problems
                    .add(key.place, Code::BadName, "a datacenter cannot be called `wan`")
                    .hint("it is the network between the datacenters");
                None
            }
            Err(bad) => {
                problems
                    .add(
                        key.place,
                        Code::BadName,
                        format!("{} is no name of a datacenter", quote(&key.value)),
                    )
                    .hint(bad.rule);
                None
            }
        };
        let subnet = section
            .subnet
            .as_ref()
            .and_then(|text| subnet(&key.value, text, &mut subnets, problems));
        if let Some(name) = name {
            datacenters.push(Datacenter { name, subnet });
        }
    }
    datacenters
}

fn subnet<'f>(
    datacenter: &'f str,
    text: &At<String>,
    others: &mut Vec<(&'f str, Ipv4Net)>,
    problems: &mut Problems,
) -> Option<Ipv4Net> {
    let Ok(net) = text.value.parse::<Ipv4Net>() else {
        problems
            .add(
                text.place,
                Code::BadSubnet,
                format!("{} is no IPv4 subnet", quote(&text.value)),
            )
            .hint("write network and prefix length, e.g. 10.7.1.0/24");
        return None;
    };
    if net.addr() != net.network() {
        problems
            .add(
                text.place,
                Code::BadSubnet,
                format!("{net} is an address in a subnet, not a subnet"),
            )
            .hint(format!("its subnet is {}", net.trunc()));
        return None;
    }
    if !PREFIXES.contains(&net.prefix_len()) {
        problems
            .add(
                text.place,
                Code::BadSubnet,
                format!("{net} has {} addresses", 1u64 << (32 - u32::from(net.prefix_len()))),
            )
            .hint("a datacenter takes a /16 to a /26");
        return None;
    }
    if !is_ours_to_use(net) {
        problems
            .add(
                text.place,
                Code::BadSubnet,
                format!("{net} belongs to somebody on the internet, or to no unicast use"),
            )
            .hint("take one of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 or 198.18.0.0/15");
        return None;
    }
    if let Some((other, taken)) = others
        .iter()
        .find(|(_, other)| other.contains(&net) || net.contains(other))
    {
        problems
            .add(
                text.place,
                Code::Overlap,
                format!("{net} overlaps {taken} of datacenter {}", quote(other)),
            )
            .hint("datacenters share no address; leave `subnet` out to have one chosen");
    }
    others.push((datacenter, net));
    Some(net)
}

fn is_ours_to_use(net: Ipv4Net) -> bool {
    [
        (Ipv4Addr::new(10, 0, 0, 0), 8),
        (Ipv4Addr::new(172, 16, 0, 0), 12),
        (Ipv4Addr::new(192, 168, 0, 0), 16),
        (Ipv4Addr::new(100, 64, 0, 0), 10),
        (Ipv4Addr::new(198, 18, 0, 0), 15),
    ]
    .into_iter()
    .any(|(address, prefix)| {
        Ipv4Net::new(address, prefix)
            .expect("a legal prefix length")
            .contains(&net)
    })
}

fn too_large(file: &File, problems: &mut Problems) -> bool {
    let mut too_large = false;
    for (what, count, most, place) in [
        (
            "datacenters",
            file.datacenters.len(),
            MOST_DATACENTERS,
            file.datacenters.get(MOST_DATACENTERS).map(|(key, _)| key.place),
        ),
        (
            "nodes",
            file.nodes.len(),
            MOST_NODES,
            file.nodes.get(MOST_NODES).map(|(key, _)| key.place),
        ),
        (
            "applications",
            file.applications.len(),
            MOST_NODES,
            file.applications.get(MOST_NODES).map(|(key, _)| key.place),
        ),
    ] {
        if let Some(place) = place {
            too_large = true;
            problems.add(
                place,
                Code::TooLarge,
                format!("{count} {what} are more than the {most} that a lab can have"),
            );
        }
    }
    too_large
}

/// Whether a datacenter of this name is declared; if not, a problem with the nearest one.
pub(super) fn declared(name: &str, place: Place, file: &File, problems: &mut Problems) -> bool {
    let known = || file.datacenters.iter().map(|(key, _)| key.value.as_str());
    if known().any(|known| known == name) {
        return true;
    }
    let added = problems.add(place, Code::Absent, format!("there is no datacenter {}", quote(name)));
    if let Some(nearest) = nearest(name, known()) {
        added.hint(format!("did you mean `{nearest}`?"));
    } else if known().next().is_some() {
        added.hint(format!(
            "datacenters are {}",
            known().take(20).map(quote).collect::<Vec<_>>().join(", ")
        ));
    }
    false
}
