//! Drawings of topologies against the committed ones, by the program itself and without an engine. A difference prints the
//! command that accepts it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn controller() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn drawn(topology: &str, drawing: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .current_dir(controller())
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .env_remove("TESTBED_LAB")
        .args(["graph", "-f", topology, "--as", drawing])
        .output()
        .expect("testbed can be run");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{topology}: {told}");
    String::from_utf8(output.stdout).expect("a drawing is UTF-8")
}

#[test]
fn drawings_are_the_committed_ones() {
    let accept = std::env::var_os("TESTBED_ACCEPT").is_some();
    for (topology, name) in [
        ("../topologies/two-dc.yaml", "two-dc"),
        ("../topologies/lossy.yaml", "lossy"),
        ("../topologies/cluster-c.yaml", "cluster-c"),
        ("tests/golden/good/everything.yaml", "everything"),
    ] {
        for (drawing, ending) in [("text", "txt"), ("svg", "svg"), ("dot", "dot"), ("mermaid", "mmd")] {
            let path = controller().join(format!("tests/golden/graph/{name}.{ending}"));
            let made = drawn(topology, drawing);
            if accept {
                std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
                std::fs::write(&path, &made).expect("the drawing can be written");
            }
            let expected = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                made == expected,
                "{name}.{ending} differs; look at it, and accept it with `TESTBED_ACCEPT=1 cargo test -p testbed --test \
                 golden_graph`\n{made}"
            );
        }
    }
}

#[test]
fn a_file_that_is_wrong_is_exit_code_3_and_draws_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .current_dir(controller())
        .args(["graph", "-f", "tests/golden/bad/many-problems.yaml"])
        .output()
        .expect("testbed can be run");
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
}
