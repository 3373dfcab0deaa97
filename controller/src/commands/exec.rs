//! `exec`: runs a command in a node, found by the labels of its container; its exit code is ours.
//!
//! A signal ends us and not the command, which the engine cannot stop: that is said, and our terminal is itself again.
//!
//! The node is looked for on the engine, not in a file, so it works on a lab that is half gone, as long as the node runs.

use super::connect;
use crate::cli::{Exec, Global};
use crate::docker::{Console, EngineHandle, ExecSpec, Sort};
use crate::error::{CommandError, ExitCode};
use crate::lab::{self, Found};
use crate::names::{LABEL_NODE, NodeName};
use crate::progress::say;
use crate::stop::Stop;
use std::sync::Arc;

pub(super) async fn run(global: &Global, exec: Exec) -> Result<ExitCode, CommandError> {
    let docker = connect(global).await?;
    let engine: EngineHandle = Arc::new(docker.clone());
    let found = lab::choose(&engine.into(), exec.lab.lab.as_ref()).await?;
    let container = running(&found, &exec.node)?;
    let spec = ExecSpec {
        command: exec.command,
        interactive: exec.interactive,
        tty: exec.tty,
        user: exec.user,
    };
    let stop = Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?;
    let code = tokio::select! {
        code = docker.exec(container, &spec) => code?,
        signal = stop.stopped() => {
            // An engine cannot end what it runs in a container, and images have no program for it.
            say(format_args!("hint: the command may still run in node {}; with --tty --interactive Ctrl-C reaches it", exec.node));
            return Ok(signal.exit_code());
        }
    };
    // Linux has eight bits of it; anything else would be a bug of the engine.
    Ok(ExitCode::OfCommand(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Id of the node's container.
fn running<'a>(found: &'a Found, node: &NodeName) -> Result<&'a str, CommandError> {
    let containers = || found.objects.iter().filter(|object| object.sort == Sort::Container);
    let name = |object: &&crate::docker::Object| object.labels.get(LABEL_NODE).cloned();
    let Some(container) = containers().find(|object| name(object).as_deref() == Some(node.as_str())) else {
        let mut nodes: Vec<String> = containers().filter_map(|object| name(&object)).collect();
        nodes.sort();
        let text = format!("find node {node} in lab {}", found.lab);
        let error = CommandError::new(ExitCode::Usage, text);
        return Err(match nodes.as_slice() {
            [] => error.hint(format!("no node of it is left: testbed down -p {}", found.lab)),
            nodes => error.hint(format!("its nodes: {}", nodes.join(", "))),
        });
    };
    if container.state != "running" {
        let text = format!("run a command in node {node}: it is {}", container.state);
        let hint = format!("testbed logs -p {} {node}", found.lab);
        return Err(CommandError::new(ExitCode::Incomplete, text).hint(hint));
    }
    Ok(&container.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docker::Object;
    use std::collections::BTreeMap;

    fn found() -> Found {
        let node = |name: &str, state: &str| Object {
            sort: Sort::Container,
            id: format!("id of {name}"),
            name: format!("tb-x-{name}"),
            labels: BTreeMap::from([(LABEL_NODE.to_owned(), name.to_owned())]),
            state: state.to_owned(),
        };
        Found {
            lab: "x".to_owned(),
            objects: vec![node("b", "exited"), node("a", "running")],
        }
    }

    fn ask(node: &str) -> Result<String, CommandError> {
        let found = found();
        running(&found, &NodeName::new(node).unwrap()).map(str::to_owned)
    }

    #[test]
    fn a_node_is_found_by_its_label() {
        assert_eq!(ask("a").unwrap(), "id of a");
    }

    #[test]
    fn an_unknown_node_lists_those_that_are_there() {
        let error = ask("c").unwrap_err();
        assert_eq!(error.code, ExitCode::Usage);
        assert_eq!(error.hint.as_deref(), Some("its nodes: a, b"));
    }

    #[test]
    fn a_node_that_does_not_run_is_named_with_its_state() {
        let error = ask("b").unwrap_err();
        assert_eq!(error.code, ExitCode::Incomplete);
        assert!(error.text.contains("it is exited"), "{}", error.text);
    }
}
