//! `compose/*.yaml` against what the plan of each topology says now, by the program itself and without an engine: one file per
//! topology, none more. A difference prints the command that accepts it.

#[path = "shared/program.rs"]
mod program;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("an entry can be read").file_name());
    let names = names.map(|name| name.into_string().expect("names are UTF-8"));
    names.filter(|name| name.ends_with(".yaml")).collect()
}

fn export(words: &[&str]) -> (Option<i32>, String, String) {
    let output = program::testbed()
        .current_dir(root())
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .args(["export", "compose"])
        .args(words)
        .output()
        .expect("testbed can be run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("testbed writes UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_committed_files_are_what_the_plan_says() {
    let accept = std::env::var_os("TESTBED_ACCEPT").is_some();
    if accept {
        std::fs::create_dir_all(root().join("compose")).expect("the folder can be made");
    }
    let topologies = names("topologies");
    for name in &topologies {
        let (code, made, told) = export(&[&format!("topologies/{name}")]);
        assert_eq!((code, told.as_str()), (Some(0), ""), "{name}");
        let path = root().join("compose").join(name);
        if accept {
            std::fs::write(&path, &made).expect("the file can be written");
        }
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == made,
            "compose/{name} differs; look at it, and accept it with `TESTBED_ACCEPT=1 cargo test -p testbed --test \
             golden_compose`\n{made}"
        );
    }
    assert_eq!(names("compose"), topologies, "one file per topology");
}

#[test]
fn a_block_of_addresses_of_the_users_is_kept_to_or_refused() {
    let (code, made, _) = export(&["topologies/two-dc.yaml", "--subnet", "10.9.8.0/24"]);
    assert_eq!(code, Some(0));
    assert!(
        made.contains("subnet: '10.9.8.64/26'") && !made.contains("198.18."),
        "{made}"
    );
    assert!(
        made.starts_with(
            "# Made by `testbed export compose topologies/two-dc.yaml --subnet 10.9.8.0/24`: do not edit."
        )
    );
    let (code, made, told) = export(&["topologies/two-dc.yaml", "--subnet", "10.9.8.0/26"]);
    assert_eq!((code.is_some_and(|code| code != 0), made.as_str()), (true, ""));
    assert!(
        told.contains("fit the lab into 10.9.8.0/26: its networks need 256 addresses"),
        "{told}"
    );
}

#[test]
fn it_goes_into_a_file_or_nowhere() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("lab.yaml");
    let path = path.to_str().expect("the path is UTF-8");
    let (code, printed, _) = export(&["topologies/two-dc.yaml", "-o", path]);
    assert_eq!((code, printed.as_str()), (Some(0), ""));
    let (_, printed, _) = export(&["topologies/two-dc.yaml"]);
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), printed);
    let (code, printed, told) = export(&["topologies/two-dc.yaml", "-o", "/nonexistent/lab.yaml"]);
    assert_eq!((code, printed.as_str()), (Some(5), ""), "{told}");
    assert!(told.contains("write /nonexistent/lab.yaml"), "{told}");
    let (code, _, told) = export(&["topologies/two-dc.yaml", "--format", "json"]);
    assert_eq!(code, Some(2), "{told}");
}
