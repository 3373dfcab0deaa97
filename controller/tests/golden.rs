//! Topology files against what is committed: each bad one gives exit code 3 and its expected message, each one in
//! `topologies/` is right, fits the schema and can be planned. New files are tested without being registered.
//!
//! The engine is one that does not exist, so a verb that asks it fails. A difference prints the command that accepts it.

#[path = "shared/program.rs"]
mod program;

use std::path::{Path, PathBuf};
use std::process::Output;

const ACCEPT: &str = "TESTBED_ACCEPT=1 cargo test -p testbed --test golden";

/// Bad files that an editor with the schema marks too: what is wrong with them is their shape. The others break rules
/// that a schema cannot say.
const STRUCTURAL: &[&str] = &[
    "bad-datacenter-name",
    "bad-engine",
    "bad-lab-name",
    "bad-node-name",
    "bad-role",
    "bare-numbers",
    "conditions-maps",
    "config-values",
    "delay-and-rtt",
    "delay-missing",
    "delay-negative",
    "delay-no-time",
    "empty-datacenters",
    "empty-section",
    "link-name",
    "link-shorthand",
    "list-for-map",
    "many-problems",
    "missing-everything",
    "missing-in-node",
    "mode",
    "mode-word",
    "null-values",
    "publish",
    "scalar",
    "unknown-keys",
    "version-2",
    "version-missing",
    "version-text",
    "wrong-types",
];

fn controller() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn golden(name: &str) -> PathBuf {
    controller().join("tests/golden").join(name)
}

/// All YAML files of a folder, in order.
fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

fn topologies() -> Vec<PathBuf> {
    let files = yaml_files(&controller().join("../topologies"));
    assert!(!files.is_empty());
    files
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().expect("a file has a name");
    stem.to_string_lossy().into_owned()
}

/// Runs `testbed` in a folder, without an engine and without the caller's settings.
fn testbed(folder: &Path, words: &[&str]) -> Output {
    let mut command = program::testbed();
    command
        .args(words)
        .current_dir(folder)
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .env("NO_COLOR", "1")
        .output()
        .expect("testbed runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("testbed writes UTF-8")
}

/// Compares with the committed file, or writes it; whether they were equal.
fn compare(path: &Path, made: &str) -> Result<(), String> {
    if std::env::var_os("TESTBED_ACCEPT").is_some() {
        std::fs::write(path, made).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected == made {
        return Ok(());
    }
    Err(format!(
        "{} differs; look at it, and accept it with `{ACCEPT}`\n--- committed\n{expected}\n--- made\n{made}",
        path.display()
    ))
}

fn all_right(outcomes: impl IntoIterator<Item = Result<(), String>>) {
    let wrong: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_bad_topology_gives_exit_code_3_and_its_message() {
    let files = yaml_files(&golden("bad"));
    assert!(files.len() >= 30, "{} files", files.len());
    all_right(files.iter().map(|path| {
        let name = format!("{}.yaml", stem(path));
        let output = testbed(&golden("bad"), &["validate", &name]);
        assert_eq!(output.status.code(), Some(3), "{name}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{name}");
        compare(&path.with_extension("txt"), &text(&output.stderr))
    }));
}

#[test]
fn every_expected_message_belongs_to_a_bad_topology() {
    let entries = std::fs::read_dir(golden("bad")).expect("the folder is there");
    for entry in entries {
        let path = entry.expect("an entry can be read").path();
        assert!(path.with_extension("yaml").is_file(), "{} has no file", path.display());
    }
}

#[test]
fn verbs_that_need_the_engine_refuse_a_bad_topology_as_validate_does_before_they_ask_it() {
    let files = yaml_files(&golden("bad"));
    let verbs = [&["plan", "--exit-code"][..], &["up"]];
    for (path, verb) in files.iter().flat_map(|path| verbs.map(|verb| (path, verb))) {
        let name = format!("{}.yaml", stem(path));
        let output = testbed(&golden("bad"), &[verb, &[&name]].concat());
        assert_eq!(output.status.code(), Some(3), "{name}: {}", text(&output.stderr));
        let validated = std::fs::read_to_string(path.with_extension("txt")).expect("the expected message is there");
        let problems = validated
            .trim_end()
            .rsplit_once('\n')
            .map_or("", |(problems, _)| problems);
        assert!(
            text(&output.stderr).contains(problems),
            "{name}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn the_problems_of_a_bad_topology_are_the_same_as_json() {
    for path in yaml_files(&golden("bad")) {
        let name = format!("{}.yaml", stem(&path));
        let output = testbed(&golden("bad"), &["validate", "--format", "json", &name]);
        assert_eq!(output.status.code(), Some(3), "{name}");
        assert_eq!(text(&output.stderr), "", "{name}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        assert_eq!(document["schema"], "testbed/v1");
        let problems = document["files"][0]["problems"].as_array().expect("a list");
        let shown = std::fs::read_to_string(path.with_extension("txt")).expect("the expected message is there");
        assert_eq!(
            problems.len(),
            shown.lines().filter(|line| line.starts_with("topology::")).count(),
            "{name}"
        );
        for problem in problems {
            let place = format!(
                "{}:{}:{}",
                problem["file"].as_str().unwrap_or_default(),
                problem["line"],
                problem["column"]
            );
            assert!(shown.contains(&place), "{name}: {place}");
        }
    }
}

#[test]
fn the_schema_is_the_committed_one() {
    let output = testbed(controller(), &["schema"]);
    assert_eq!(output.status.code(), Some(0));
    let committed = controller().join("schema/topology.schema.json");
    all_right([compare(&committed, &text(&output.stdout))]);
}

#[test]
fn the_schema_accepts_every_topology_and_refuses_every_bad_shape() {
    let schema: serde_json::Value =
        serde_json::from_slice(&testbed(controller(), &["schema"]).stdout).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    let accepts = |path: &Path| {
        // What is wrong with a file besides its shape does not matter here.
        let options = serde_yaml::options! {
            strict_booleans: true,
            duplicate_keys: serde_yaml::options::DuplicateKeyPolicy::LastWins,
        };
        let text = std::fs::read_to_string(path).expect("a text");
        let value: serde_json::Value = serde_yaml::from_str_with_options(&text, options)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        validator.is_valid(&value)
    };
    for path in topologies() {
        assert!(accepts(&path), "{}", path.display());
    }
    for path in yaml_files(&golden("good")) {
        assert!(accepts(&path), "{}", path.display());
    }
    for name in STRUCTURAL {
        assert!(!accepts(&golden("bad").join(format!("{name}.yaml"))), "{name}");
    }
}

#[test]
fn every_topology_is_valid_and_can_be_planned_without_an_engine() {
    for path in topologies().iter().chain(&yaml_files(&golden("good"))) {
        let name = path.to_string_lossy();
        for words in [["validate", &name], ["plan", &name]] {
            let output = testbed(controller(), &words);
            assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
        }
    }
}

#[test]
fn the_plans_are_the_committed_ones() {
    let root = controller().join("..");
    let named = [
        "topologies/two-dc.yaml",
        "topologies/cluster-c.yaml",
        "topologies/sentinel.yaml",
    ]
    .map(Path::new);
    let good = yaml_files(&golden("good"));
    let files = good.iter().map(PathBuf::as_path).chain(named);
    all_right(files.flat_map(|path| {
        let name = path.to_string_lossy();
        [("text", "txt"), ("json", "json")].map(|(format, extension)| {
            let output = testbed(&root, &["plan", "--format", format, &name]);
            assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
            compare(
                &golden("plan").join(format!("{}.{extension}", stem(path))),
                &text(&output.stdout),
            )
        })
    }));
}
