//! `init`: a commented topology to begin with. Writes one new file, never over one that is there; asks no engine.
//!
//! Every template must be a valid topology under any name.

use super::screen;
use crate::cli::{Format, Global, Init};
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// A topology to begin with.
struct Template {
    name: &'static str,
    about: &'static str,
    text: &'static str,
}

const TEMPLATES: &[Template] = &[
    Template {
        name: "two-dc",
        about: "two datacenters: a primary, a near and a far replica, a database",
        text: include_str!("../../templates/two-dc.yaml"),
    },
    Template {
        name: "three-dc",
        about: "three datacenters: a primary and two far replicas",
        text: include_str!("../../templates/three-dc.yaml"),
    },
    Template {
        name: "cluster",
        about: "a cluster of six, all masters in one datacenter",
        text: include_str!("../../../topologies/cluster-a.yaml"),
    },
    Template {
        name: "cluster-split",
        about: "a cluster of six with masters in both datacenters",
        text: include_str!("../../../topologies/cluster-b.yaml"),
    },
    Template {
        name: "sentinel",
        about: "a primary, two replicas and three Sentinels in three datacenters",
        text: include_str!("../../../topologies/sentinel.yaml"),
    },
    Template {
        name: "stream",
        about: "relays that terminate TCP connections",
        text: include_str!("../../../topologies/stream.yaml"),
    },
    Template {
        name: "lossy",
        about: "a link that loses, varies and is slow",
        text: include_str!("../../../topologies/lossy.yaml"),
    },
];

/// What `init --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InitDocument {
    /// File that was written (`null`: none, only listed).
    pub file: Option<String>,
    /// Templates: the one that was written, or all.
    pub templates: Vec<TemplateRow>,
}

/// A template.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TemplateRow {
    /// Its name.
    pub template: &'static str,
    /// What it makes.
    pub about: &'static str,
}

pub(super) fn run(global: &Global, args: &Init) -> Result<ExitCode, CommandError> {
    if args.list {
        let shown = TEMPLATES.iter().map(row).collect();
        show(global, None, shown, || {
            let rows = TEMPLATES.iter().map(|one| [one.name.to_owned(), one.about.to_owned()]);
            screen::plain_table(["TEMPLATE", "WHAT"], rows)
        })?;
        return Ok(ExitCode::Success);
    }
    let template = chosen(&args.template)?;
    let name = args.name.as_ref().map_or(template.name, |name| name.as_str());
    let file = format!("{name}.yaml");
    write_new(&file, template.text)?;
    show(global, Some(file.clone()), vec![row(template)], || {
        format!("{file}: {}\nnext: testbed up {file}\n", template.about)
    })?;
    Ok(ExitCode::Success)
}

/// Names of the templates.
pub fn templates() -> impl Iterator<Item = &'static str> {
    TEMPLATES.iter().map(|template| template.name)
}

fn row(template: &Template) -> TemplateRow {
    TemplateRow {
        template: template.name,
        about: template.about,
    }
}

fn chosen(name: &str) -> Result<&'static Template, CommandError> {
    TEMPLATES.iter().find(|template| template.name == name).ok_or_else(|| {
        let names: Vec<&str> = templates().collect();
        CommandError::new(ExitCode::Usage, format!("find template {name}"))
            .hint(format!("there are {}", names.join(", ")))
    })
}

fn write_new(file: &str, text: &str) -> Result<(), CommandError> {
    let opened = std::fs::File::create_new(file).and_then(|mut new| new.write_all(text.as_bytes()));
    opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => CommandError::new(ExitCode::Usage, format!("write {file}: it is there already"))
            .hint("give another name: testbed init NAME"),
        _ => CommandError::new(ExitCode::Incomplete, format!("write {file}: {error}")),
    })
}

fn show(
    global: &Global,
    file: Option<String>,
    templates: Vec<TemplateRow>,
    text: impl FnOnce() -> String,
) -> Result<(), CommandError> {
    screen::print(&match global.format {
        Format::Json => document("init", &InitDocument { file, templates }),
        Format::Text => text(),
    })
}
