//! The workflows for GitHub, which were never run here: at least they are YAML, every job ends by itself, what they call is there,
//! and no text of an input gets into a script but through the environment.

use serde_json::Value;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Steps of a job or of an action.
fn check_steps(place: &str, steps: &Value) {
    let steps = steps.as_array().unwrap_or_else(|| panic!("{place} has no steps"));
    assert!(!steps.is_empty(), "{place}");
    for step in steps {
        let (uses, run) = (step["uses"].as_str(), step["run"].as_str());
        assert!(
            uses.is_some() != run.is_some(),
            "{place}: a step either uses or runs: {step}"
        );
        if let Some(path) = uses.and_then(|uses| uses.strip_prefix("./")) {
            let action = root().join(path).join("action.yml");
            assert!(action.is_file(), "{place}: there is no {}", action.display());
        }
        let Some(script) = run else { continue };
        assert!(
            !script.contains("${{"),
            "{place}: an expression in a script is an injection: {script}"
        );
        for word in script.split_whitespace() {
            if word.starts_with(".ci/") || word.starts_with("controller/") {
                assert!(root().join(word).is_file(), "{place}: there is no {word}");
            }
        }
    }
}

#[test]
fn workflows_call_what_is_there_and_end() {
    for path in [".github/workflows/ci.yml", ".github/workflows/example.yml"] {
        let file = read(path);
        assert_eq!(file["permissions"]["contents"], "read", "{path}");
        let jobs = file["jobs"].as_object().unwrap_or_else(|| panic!("{path} has no jobs"));
        for (name, job) in jobs {
            let place = format!("{path}: {name}");
            assert!(job["timeout-minutes"].is_u64(), "{place} has no limit");
            check_steps(&place, &job["steps"]);
        }
    }
}

#[test]
fn the_action_knows_every_input_that_it_or_its_example_uses() {
    let path = ".github/actions/testbed/action.yml";
    let action = read(path);
    check_steps(path, &action["runs"]["steps"]);
    let inputs = action["inputs"].as_object().expect("it has inputs");
    let text = std::fs::read_to_string(root().join(path)).expect("it is there");
    let mut used = 0;
    for (at, start) in text.match_indices("inputs.") {
        let rest = &text[at + start.len()..];
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        assert!(inputs.contains_key(&name), "{path}: input {name}");
        used += 1;
    }
    assert_eq!(used, inputs.len(), "every input is used once");
    let example = read(".github/workflows/example.yml");
    let with = example["jobs"]["testbed"]["steps"][1]["with"]
        .as_object()
        .expect("it gives inputs");
    assert!(with.keys().all(|name| inputs.contains_key(name)));
}
