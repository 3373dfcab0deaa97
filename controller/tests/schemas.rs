//! The committed JSON Schemas are those of the types, and what the program prints keeps to them.
//!
//! A new kind of document is one line in [`schemas`]. A difference prints the command that accepts it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::commands::{
    blocks, compare, doctor, down, fault, images, init, link, logs, plan, ps, source, up, validate,
};
use testbed::document::{document_schema, plain_schema};
use testbed::error::ErrorDocument;
use testbed::history::Event;
use testbed::image::Pruned;
use testbed::manifest::Manifest;
use testbed::report::{JudgeDocument, ReportDocument};

/// Schema of the topology format, which its own part writes.
const NOT_OURS: [&str; 1] = ["topology"];

fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("blocks", document_schema::<blocks::BlocksDocument>("blocks")),
        ("capture", document_schema::<link::CaptureDocument>("capture")),
        ("compare", document_schema::<compare::CompareDocument>("compare")),
        ("doctor", document_schema::<doctor::DoctorDocument>("doctor")),
        ("down", document_schema::<down::DownDocument>("down")),
        ("error", document_schema::<ErrorDocument<'static>>("error")),
        ("fault", document_schema::<fault::FaultDocument>("fault")),
        ("graph", document_schema::<testbed::picture::Picture>("graph")),
        ("history-event", plain_schema::<Event>()),
        ("images", document_schema::<images::ImagesDocument>("images")),
        (
            "images-obtained",
            document_schema::<images::ObtainedDocument>("images-obtained"),
        ),
        ("images-pruned", document_schema::<Pruned>("images-pruned")),
        ("init", document_schema::<init::InitDocument>("init")),
        ("judge", document_schema::<JudgeDocument>("judge")),
        ("link", document_schema::<link::LinkDocument>("link")),
        ("log-line", plain_schema::<logs::LoggedLine>()),
        ("manifest", document_schema::<Manifest>("manifest")),
        ("matrix", document_schema::<testbed::matrix::Matrix>("matrix")),
        ("plan", document_schema::<plan::PlanDocument>("plan")),
        ("problems", document_schema::<source::ProblemsDocument>("problems")),
        ("ps", document_schema::<ps::PsDocument>("ps")),
        ("report", document_schema::<ReportDocument>("report")),
        ("top-line", plain_schema::<testbed::commands::top::TopLine>()),
        ("up", document_schema::<up::UpDocument>("up")),
        (
            "versions",
            document_schema::<testbed::findings::versions::Versions>("versions"),
        ),
        ("validate", document_schema::<validate::ValidateDocument>("validate")),
    ]
}

fn controller() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn committed(kind: &str) -> PathBuf {
    controller().join(format!("schema/{kind}.schema.json"))
}

fn written(schema: &Value) -> String {
    let mut text = serde_json::to_string_pretty(schema).expect("a schema can be written");
    text.push('\n');
    text
}

/// Checks a document against the committed schema of its kind, and that it says which kind it is.
fn check(kind: &str, text: &str) {
    let schema = std::fs::read_to_string(committed(kind)).expect("the schema is committed");
    let schema = serde_json::from_str(&schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{kind}: {error}: {text}"));
    let problems: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(problems.is_empty(), "{kind}: {problems:#?}\n{text}");
}

/// Stdout of a call; what it says on stderr is seen when the test fails.
fn printed(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command
        .current_dir(controller())
        .args(["--format", "json"])
        .args(arguments);
    let output = command.output().expect("the program starts");
    print!("{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let accept = std::env::var_os("TESTBED_ACCEPT").is_some();
    let mut different = Vec::new();
    for (kind, schema) in schemas() {
        let text = written(&schema);
        if accept {
            std::fs::write(committed(kind), &text).expect("the schema can be written");
        }
        if std::fs::read_to_string(committed(kind)).unwrap_or_default() != text {
            different.push(kind);
        }
    }
    assert!(
        different.is_empty(),
        "schemas differ: {different:?}; accept with `TESTBED_ACCEPT=1 cargo test -p testbed --test schemas`"
    );
}

#[test]
fn no_schema_is_left_of_a_kind_that_is_gone() {
    let known: Vec<&str> = schemas().iter().map(|(kind, _)| *kind).chain(NOT_OURS).collect();
    for entry in std::fs::read_dir(controller().join("schema")).expect("there are schemas") {
        let name = entry.expect("they can be listed").file_name();
        let name = name.to_string_lossy();
        let kind = name.strip_suffix(".schema.json").unwrap_or(&name);
        assert!(known.contains(&kind), "{name}");
    }
}

#[test]
fn every_event_of_a_history_keeps_to_its_schema() {
    let history = std::fs::read_to_string(controller().join("tests/golden/run/history.jsonl"));
    for line in history.expect("the golden run is whole").lines() {
        check("history-event", line);
    }
}

#[test]
fn what_a_run_directory_holds_keeps_to_its_schema() {
    for name in ["manifest", "report"] {
        let text = std::fs::read_to_string(controller().join(format!("tests/golden/run/{name}.json")));
        check(name, &text.expect("the golden run is whole"));
    }
}

#[test]
fn what_verbs_without_an_engine_print_keeps_to_its_schema() {
    for (kind, arguments) in [
        ("judge", ["judge", "tests/golden/run"].as_slice()),
        ("report", &["report", "tests/golden/run"]),
        ("blocks", &["blocks"]),
        ("compare", &["compare", "tests/golden/run", "tests/golden/run"]),
        ("matrix", &["matrix", "--dry-run"]),
        ("graph", &["graph", "-f", "../topologies/two-dc.yaml"]),
        ("plan", &["plan", "tests/golden/good/everything.yaml"]),
        (
            "validate",
            &[
                "validate",
                "tests/golden/bad/many-problems.yaml",
                "../topologies/two-dc.yaml",
            ],
        ),
    ] {
        check(kind, &printed(arguments));
    }
}

/// A lab that is removed whatever happens to the test.
struct Lab(String);

impl Drop for Lab {
    fn drop(&mut self) {
        printed(&["down", "-p", &self.0]);
    }
}

#[test]
#[ignore = "needs a Docker engine"]
fn what_verbs_of_a_lab_print_keeps_to_its_schema() {
    let lab = Lab(format!("schemas{}", std::process::id()));
    check(
        "plan",
        &printed(&["plan", "--exit-code", "../topologies/two-dc.yaml", "-p", &lab.0]),
    );
    check("up", &printed(&["up", "../topologies/two-dc.yaml", "-p", &lab.0]));
    check("ps", &printed(&["ps", "-p", &lab.0]));
    check("link", &printed(&["link", "show", "-p", &lab.0]));
    check("link", &printed(&["link", "cut", "dc1-dc2", "-p", &lab.0]));
    // With the cut in force a replica says other things of its connection.
    check("ps", &printed(&["ps", "-p", &lab.0]));
    check("fault", &printed(&["fault", "pause", "redis-near", "-p", &lab.0]));
    check("graph", &printed(&["graph", "-p", &lab.0]));
    check("fault", &printed(&["fault", "resume", "redis-near", "-p", &lab.0]));
    check("images", &printed(&["images", "list"]));
    // Half a lab is still shown, by what the engine alone knows.
    let killed = Command::new("docker")
        .args(["kill", &format!("tb-{}-probe.dc2", lab.0)])
        .output();
    assert!(killed.expect("docker can be run").status.success());
    let half = printed(&["ps", "-p", &lab.0]);
    check("ps", &half);
    assert!(half.contains("running, not asked"), "{half}");
    check("down", &printed(&["down", "-p", &lab.0]));
}

#[test]
fn what_fails_is_a_document_on_stderr_that_keeps_to_its_schema() {
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["--format", "json", "report", "tests/no-such-run"])
        .current_dir(controller())
        .output()
        .expect("testbed can be run");
    let text = String::from_utf8(output.stderr).expect("output is UTF-8");
    check("error", &text);
    let value: Value = serde_json::from_str(&text).expect("checked above");
    assert_eq!(
        value["exit_code"].as_i64(),
        output.status.code().map(i64::from),
        "{text}"
    );
}
