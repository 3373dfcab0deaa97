//! `logs`: what containers of a lab logged. What is there already comes in the order of time over all of them; what is
//! followed comes as it arrives. With `--format json` one JSON object per line.

use super::{connect, screen};
use crate::cli::{Format, Global, Logs};
use crate::docker::{Console, Docker, EngineHandle, LogLine, LogsSpec, Sort};
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Found};
use crate::names::{Kind, LABEL_KIND, spoken};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Lines that may wait to be printed before the engine has to.
const QUEUED_LINES: usize = 1024;

/// A line of `logs --format json`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LoggedLine {
    /// Node, or `relay.<datacenter>`, `probe.<datacenter>`.
    pub node: String,
    /// When, by the engine's clock (RFC 3339).
    pub at: String,
    /// The line, without its end.
    pub text: String,
}

/// A container whose log is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    node: String,
    id: String,
    is_server: bool,
}

pub(super) async fn run(global: &Global, logs: Logs) -> Result<ExitCode, CommandError> {
    let docker = connect(global).await?;
    let engine: EngineHandle = Arc::new(docker.clone());
    let found = lab::choose(&engine.into(), logs.lab.lab.as_ref()).await?;
    let sources = wanted(&found, &logs.nodes)?;
    let shape = Shape {
        json: global.format == Format::Json,
        timestamps: logs.timestamps,
        width: match sources.as_slice() {
            [_] => None,
            several => several.iter().map(|source| source.node.len()).max(),
        },
    };
    let spec = LogsSpec {
        follow: logs.follow,
        tail: logs.tail,
    };
    let (sender, mut lines) = mpsc::channel(QUEUED_LINES);
    let readers: Vec<_> = sources
        .into_iter()
        .map(|source| tokio::spawn(read(docker.clone(), source, spec.clone(), sender.clone())))
        .collect();
    drop(sender);
    if logs.follow {
        while let Some(line) = lines.recv().await {
            if !screen::print_on(&shape.line(&line))? {
                return Ok(ExitCode::Success);
            }
        }
    } else {
        // Two capped files per container: a few megabytes at most.
        let mut all = Vec::new();
        while let Some(line) = lines.recv().await {
            all.push(line);
        }
        all.sort_by(|one, other| one.at.cmp(&other.at));
        screen::print(&all.iter().map(|line| shape.line(line)).collect::<String>())?;
    }
    for reader in readers {
        reader.await.expect("reading a log does not panic")?;
    }
    Ok(ExitCode::Success)
}

/// Passes a container's lines on under its name.
async fn read(
    docker: Docker,
    source: Source,
    spec: LogsSpec,
    lines: mpsc::Sender<LoggedLine>,
) -> Result<(), crate::docker::EngineError> {
    let (sender, mut own) = mpsc::channel::<LogLine>(QUEUED_LINES);
    let passing = async {
        while let Some(LogLine { at, text }) = own.recv().await {
            let node = source.node.clone();
            if lines.send(LoggedLine { node, at, text }).await.is_err() {
                break;
            }
        }
        // Tells the reading side that nobody listens any more.
        drop(own);
    };
    tokio::join!(docker.logs(&source.id, &spec, sender), passing).0
}

/// Containers by the names that the user gave; without any all nodes, since relays and probes log what they say to us.
fn wanted(found: &Found, asked: &[String]) -> Result<Vec<Source>, CommandError> {
    let mut all: Vec<Source> = found
        .objects
        .iter()
        .filter(|object| object.sort == Sort::Container)
        .filter_map(|object| {
            Some(Source {
                node: spoken(&object.labels)?,
                id: object.id.clone(),
                is_server: (object.labels.get(LABEL_KIND).and_then(|kind| Kind::from_label(kind)))
                    .is_some_and(|kind| matches!(kind, Kind::Node | Kind::Application)),
            })
        })
        .collect();
    all.sort_by(|one, other| one.node.cmp(&other.node));
    if let Some(unknown) = asked.iter().find(|name| all.iter().all(|source| source.node != **name)) {
        let names: Vec<&str> = all.iter().map(|source| source.node.as_str()).collect();
        let text = format!("find {unknown} in lab {}", found.lab);
        return Err(CommandError::new(ExitCode::Usage, text).hint(format!("it has {}", names.join(", "))));
    }
    all.retain(|source| match asked {
        [] => source.is_server,
        names => names.contains(&source.node),
    });
    Ok(all)
}

/// How a line is printed.
struct Shape {
    json: bool,
    timestamps: bool,
    /// Longest name, if names are printed.
    width: Option<usize>,
}

impl Shape {
    fn line(&self, line: &LoggedLine) -> String {
        if self.json {
            return serde_json::to_string(line).expect("a log line is always JSON") + "\n";
        }
        let mut text = match self.width {
            Some(width) => format!("{:width$} | ", line.node),
            None => String::new(),
        };
        if self.timestamps {
            text.push_str(&line.at);
            text.push(' ');
        }
        text.push_str(&line.text);
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docker::Object;
    use crate::names::{LABEL_DATACENTER, LABEL_NODE};
    use std::collections::BTreeMap;

    fn found() -> Found {
        let object = |sort, kind: Kind, more: (&str, &str)| Object {
            sort,
            id: format!("{} {}", kind.as_str(), more.1),
            name: String::new(),
            labels: [(LABEL_KIND, kind.as_str()), more]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            state: String::new(),
        };
        Found {
            lab: "x".to_owned(),
            objects: vec![
                object(Sort::Container, Kind::Relay, (LABEL_DATACENTER, "dc1")),
                object(Sort::Container, Kind::Node, (LABEL_NODE, "cache")),
                object(Sort::Network, Kind::Wan, (LABEL_NODE, "wan")),
            ],
        }
    }

    #[test]
    fn without_names_all_servers_are_meant() {
        let sources = wanted(&found(), &[]).unwrap();
        let names: Vec<&str> = sources.iter().map(|source| source.node.as_str()).collect();
        assert_eq!(names, ["cache"]);
    }

    #[test]
    fn a_relay_is_asked_for_with_its_datacenter_and_an_unknown_name_is_refused() {
        let sources = wanted(&found(), &["relay.dc1".to_owned()]).unwrap();
        assert_eq!(sources.len(), 1);
        let error = wanted(&found(), &["relay.dc2".to_owned()]).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("it has cache, relay.dc1"));
    }

    #[test]
    fn a_line_has_a_name_only_among_several_and_a_time_only_on_request() {
        let line = LoggedLine {
            node: "a".to_owned(),
            at: "2026-01-01T00:00:00.000000000Z".to_owned(),
            text: "ready".to_owned(),
        };
        let shape = |timestamps, width| Shape {
            json: false,
            timestamps,
            width,
        };
        assert_eq!(shape(false, None).line(&line), "ready\n");
        assert_eq!(shape(false, Some(3)).line(&line), "a   | ready\n");
        assert_eq!(shape(true, None).line(&line), "2026-01-01T00:00:00.000000000Z ready\n");
        let json = Shape {
            json: true,
            ..shape(false, None)
        };
        let parsed: BTreeMap<String, String> = serde_json::from_str(&json.line(&line)).unwrap();
        assert_eq!(parsed["node"], "a");
    }
}
