//! What a run was made of, and how to have it again. The servers' whole configuration is in the manifest; here it would bury
//! the rest.

use super::wide;
use crate::findings::Table;
use crate::manifest::{LabUsed, Manifest};
use maud::{Markup, html};
use std::collections::BTreeMap;

pub fn section(n: usize, manifest: &Manifest, of: &str) -> Markup {
    let heading = format!("run{n}-made-of");
    html! {
        section.block aria-labelledby=(heading) {
            h3 id=(heading) { "What it was made of" }
            (parts(of, manifest))
            @if !manifest.command_line.is_empty() {
                h3 { "The same again" }
                pre { code { (manifest.command()) } }
            }
        }
    }
}

/// All but the command. `of` tells tables of several runs apart.
pub fn parts(of: &str, manifest: &Manifest) -> Markup {
    html! {
        (wide(&format!("Host, engine and instrument{of}"), facts(manifest)))
        @for lab in labs(manifest) {
            h4 { "Lab of topology " (lab.topology) }
            (super::table(&servers(lab), &format!("Servers of {}{of}", lab.topology)))
            p.name { "topology sha256 " (lab.topology_sha256) }
        }
        h4 { "Images" }
        (images(manifest))
        p.dim { "The exact packages in an image of testbed's own, and the effective configuration of every server, are in the manifest of the run." }
    }
}

/// Each topology once, with the releases that it had.
fn labs(manifest: &Manifest) -> Vec<&LabUsed> {
    let mut labs: Vec<&LabUsed> = Vec::new();
    let servers = |lab: &LabUsed| -> Vec<(String, Option<String>)> {
        lab.servers
            .iter()
            .map(|server| (server.image.clone(), server.version.clone()))
            .collect()
    };
    for lab in &manifest.labs {
        let known = |other: &&LabUsed| other.topology_sha256 == lab.topology_sha256 && servers(other) == servers(lab);
        if !labs.iter().any(known) {
            labs.push(lab);
        }
    }
    labs
}

fn facts(manifest: &Manifest) -> Markup {
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    let or = |text: Option<&String>| text.cloned().unwrap_or_else(|| "unknown".to_owned());
    let host = &manifest.host;
    let mut facts = vec![
        ("Run", format!("{}, seed {}", manifest.run, manifest.seed)),
        ("Began", manifest.started_utc.clone()),
        ("Ended", or(manifest.ended_utc.as_ref())),
        ("testbed", manifest.instrument.version.clone()),
        ("Relay, sha256", or(manifest.instrument.relay_sha256.as_ref())),
        ("Probe, sha256", or(manifest.instrument.probe_sha256.as_ref())),
        ("Host", {
            let cpus = host.cpus.map_or_else(|| "unknown".to_owned(), |cpus| cpus.to_string());
            let memory = host.memory_bytes.map_or_else(|| "unknown memory".to_owned(), gib);
            format!(
                "kernel {}, {} CPUs ({}), {memory}",
                or(host.kernel.as_ref()),
                cpus,
                or(host.cpu_model.as_ref())
            )
        }),
    ];
    if let Some(engine) = &manifest.engine {
        facts.push((
            "Docker",
            format!(
                "{} (API {}) on {}, kernel {}, {}, {} CPUs, {}, cgroup {}, storage {}",
                engine.version,
                engine.api_version,
                engine.os,
                engine.kernel,
                engine.architecture,
                engine.cpus,
                gib(engine.memory_bytes),
                engine.cgroup,
                engine.storage
            ),
        ));
    }
    html! {
        table { tbody { @for (name, value) in &facts { tr { th scope="row" { (name) } td { (value) } } } } }
    }
}

/// Each image once: as its registry knows it, or else as the engine does.
fn images(manifest: &Manifest) -> Markup {
    let all = manifest.labs.iter().flat_map(|lab| &lab.images);
    let known: BTreeMap<&str, &str> = all
        .map(|(reference, image)| (reference.as_str(), image.digest.as_deref().unwrap_or(&image.id)))
        .collect();
    html! {
        dl.parts { @for (reference, digest) in known { dt { (reference) } dd.name { (digest) } } }
    }
}

fn servers(lab: &LabUsed) -> Table {
    let columns = ["node", "datacenter", "server", "release", "image"];
    let rows = lab.servers.iter().map(|server| {
        let version = server.version.as_deref().unwrap_or("did not answer");
        vec![
            server.node.clone(),
            server.datacenter.clone(),
            format!("{} {version}", server.engine),
            server.release.clone(),
            server.image.clone(),
        ]
    });
    Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}
