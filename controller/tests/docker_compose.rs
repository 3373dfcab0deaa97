//! The files of `compose/` on a real engine, started by docker compose and without the controller: replication crosses the delayed
//! link, and a cluster is formed. All of them: `controller/tests/tools/compose.sh`, which this test calls for two.
//!
//! `cargo test -p testbed --test docker_compose -- --ignored`

use std::path::Path;
use std::process::Command;

#[track_caller]
fn starts_without_the_controller(name: &str, block: &str) {
    let output = Command::new("controller/tests/tools/compose.sh")
        .arg(name)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .env("TESTBED", env!("CARGO_BIN_EXE_testbed"))
        .env("BLOCK", block)
        .output()
        .expect("the script can be run");
    let [told, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    // Where there is no docker compose the script says so; nothing was tried then.
    if output.status.code() == Some(4) {
        println!("{complained}");
        return;
    }
    assert!(output.status.success(), "{told}{complained}");
    assert!(told.contains("written and read"), "{told}");
    println!("{told}");
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_set_over_two_datacenters_replicates_over_the_link() {
    starts_without_the_controller("two-dc", "198.19.244.0/24");
}

#[test]
#[ignore = "needs a Docker engine"]
fn a_cluster_over_two_datacenters_is_formed() {
    starts_without_the_controller("cluster-c", "198.19.245.0/24");
}
