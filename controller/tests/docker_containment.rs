//! Containment on a real engine, by trying: from inside a node and from inside an application, what can be reached, written, found.
//! Every "cannot" has a "can" beside it that shows the attempt works: another node is reached, a tmpfs is written, the listener of
//! the host answers the host.
//!
//! `cargo test -p testbed --test docker_containment -- --ignored`

#![allow(clippy::unwrap_used)]

#[path = "shared/program.rs"]
mod program;

use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

const TOPOLOGY: &str = r#"version: 1
datacenters:
  dc1:
  dc2:
links:
  dc1-dc2: { delay: 1ms }
nodes:
  cache: { datacenter: dc1, engine: redis }
  far: { datacenter: dc2, engine: redis }
applications:
  app:
    datacenter: dc2
    image: testbed/redis:7.0.15
    entrypoint: [/tools/attempts]
    command: [serve]
    environment: { TOKEN: "${HOME} $(id)" }
    user: "65534:65534"
    mounts: ["./tools:/tools"]
    tmpfs: [/scratch]
    ready: 8080
"#;

/// A lab with its folder, removed whatever becomes of the test.
struct Lab {
    name: String,
    folder: tempfile::TempDir,
}

impl Lab {
    fn up(topology: &str, number: u32) -> Self {
        let lab = Self {
            name: format!("test-contain-{}-{number}", std::process::id()),
            folder: tempfile::tempdir().unwrap(),
        };
        let tools = lab.folder.path().join("tools");
        std::fs::create_dir(&tools).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/docker_containment/attempts.rs");
        let built = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition", "2024", "-C", "target-feature=+crt-static", "-o"])
            .arg(tools.join("attempts"))
            .arg(source)
            .status();
        assert!(built.unwrap().success(), "the attempts are built");
        let file = lab.folder.path().join("lab.yaml");
        std::fs::write(&file, topology).unwrap();
        lab.ends(0, &["up", file.to_str().unwrap(), "-p", &lab.name]);
        lab
    }

    #[track_caller]
    fn ends(&self, code: i32, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = program::testbed().args(words).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(code), "{words:?}: {stderr}");
        String::from_utf8(stdout).unwrap() + &stderr
    }

    fn attempts(&self, node: &str, program: &str, words: &[String]) -> Vec<String> {
        let words = words.iter().map(String::as_str);
        let words: Vec<&str> = ["exec", "-p", &self.name, node, program]
            .into_iter()
            .chain(words)
            .collect();
        self.ends(0, &words).lines().map(str::to_owned).collect()
    }

    /// Rows of `ps`.
    fn rows(&self) -> Vec<Value> {
        let shown = self.ends(0, &["ps", "--format", "json", "-p", &self.name]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown["nodes"].as_array().unwrap().clone()
    }

    fn address(&self, node: &str) -> String {
        let rows = self.rows();
        let row = rows.iter().find(|row| row["node"] == node).unwrap();
        row["address"].as_str().unwrap().to_owned()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let down = program::testbed().args(["down", "-q", "-y", "-p", &self.name]).output();
        let removed = down.is_ok_and(|output| output.status.success());
        assert!(
            removed || std::thread::panicking(),
            "lab `{}` is left behind",
            self.name
        );
    }
}

fn docker(words: &[&str]) -> String {
    let output = Command::new("docker").args(words).output().unwrap();
    assert!(output.status.success(), "docker {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// IPv4 addresses of the host, without its loopback: `(interface, address)`.
fn addresses() -> Vec<(String, String)> {
    let output = Command::new("ip").args(["-4", "-o", "addr", "show"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let address = words.get(3)?.split('/').next()?;
        (words.get(1)? != &"lo").then(|| ((*words[1]).to_owned(), address.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

#[test]
#[ignore = "needs a Docker engine"]
fn neither_a_node_nor_an_application_gets_out_or_has_any_privilege() {
    let lab = Lab::up(TOPOLOGY, 0);
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    // The same program where it can write in the node: on its volume.
    let container = format!("tb-{}-cache", lab.name);
    let program = lab.folder.path().join("tools/attempts");
    docker(&["cp", program.to_str().unwrap(), &format!("{container}:/data/attempts")]);

    let mut shut: Vec<String> = Vec::new();
    for (_, address) in addresses() {
        TcpStream::connect((address.as_str(), port)).expect("the host itself reaches its listener");
        shut.push(format!("connect={address}:{port}"));
    }
    assert!(!shut.is_empty(), "the host has an address");
    let gateway = |address: &str| {
        let network: std::net::SocketAddrV4 = address.parse().unwrap();
        format!(
            "connect={}:{port}",
            std::net::Ipv4Addr::from(u32::from(*network.ip()) & !63 | 1)
        )
    };
    let (cache, far, app) = (lab.address("cache"), lab.address("far"), lab.address("app"));
    shut.extend([gateway(&cache), gateway(&far)]);
    // Outside: addresses of documentation and of the cloud's own instances; nothing of anybody is bothered.
    shut.extend(["192.0.2.1:80", "169.254.169.254:80"].map(|target| format!("connect={target}")));
    shut.extend(["/x", "/etc/x", "/usr/x", "/proc/sysrq-trigger", "/sys/kernel/x"].map(|path| format!("write={path}")));
    shut.extend(
        [
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/dev/net/tun",
            "/dev/sda",
            "/dev/mem",
        ]
        .map(|path| format!("find={path}")),
    );

    for (node, program, open) in [
        (
            "cache",
            "/data/attempts",
            [
                format!("connect={far}"),
                format!("connect={app}"),
                "write=/data/x".to_owned(),
                "write=/tmp/x".to_owned(),
            ],
        ),
        (
            "app",
            "/tools/attempts",
            [
                format!("connect={cache}"),
                format!("connect={far}"),
                "read=/tools/attempts".to_owned(),
                "write=/scratch/x".to_owned(),
            ],
        ),
    ] {
        let mut shut = shut.clone();
        if node == "app" {
            shut.extend(["write=/tools/x", "write=/tools/attempts", "write=/tmp/x"].map(str::to_owned));
        }
        let words: Vec<String> = open.iter().chain(&shut).cloned().collect();
        let told = lab.attempts(node, program, &words);
        for cap in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(told.contains(&format!("{cap}: 0000000000000000")), "{node}: {told:#?}");
        }
        assert!(told.contains(&"NoNewPrivs: 1".to_owned()), "{node}: {told:#?}");
        assert!(told.contains(&"Seccomp: 2".to_owned()), "{node}: {told:#?}");
        for word in &open {
            assert!(told.contains(&format!("{word} done")), "{node} can: {told:#?}");
        }
        for word in &shut {
            let line = told.iter().find(|line| line.starts_with(&format!("{word} "))).unwrap();
            assert!(!line.ends_with(" done"), "{node} got out: {line}");
        }
    }
    is_used_like_a_node(&lab);
}

/// The verbs that mean a node mean an application as well.
fn is_used_like_a_node(lab: &Lab) {
    let name = lab.name.as_str();
    let health = |lab: &Lab| {
        let rows = lab.rows();
        let row = rows.iter().find(|row| row["node"] == "app").unwrap();
        (
            row["role"].as_str().unwrap().to_owned(),
            row["health"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(health(lab), ("application".to_owned(), "running".to_owned()));
    lab.ends(0, &["fault", "pause", "app", "-p", name]);
    assert_eq!(health(lab).1, "paused");
    let drawn = lab.ends(0, &["graph", "-p", name]);
    assert!(drawn.contains("app") && drawn.contains("paused"), "{drawn}");
    lab.ends(0, &["fault", "resume", "app", "-p", name]);
    lab.ends(0, &["logs", "-p", name, "app"]);
    let reached = lab.ends(0, &["exec", "-p", name, "cache", "redis-cli", "-h", "far", "ping"]);
    assert!(reached.contains("PONG"), "{reached}");
    let file = lab.folder.path().join("lab.yaml");
    let again = lab.ends(0, &["up", file.to_str().unwrap(), "-p", name]);
    assert!(again.contains("is up already"), "{again}");
    let env = docker(&["inspect", "-f", "{{json .Config.Env}}", &format!("tb-{name}-app")]);
    assert!(env.contains("TOKEN=${HOME} $(id)"), "taken as written: {env}");
}

#[test]
#[ignore = "needs a Docker engine"]
fn only_a_relay_has_a_capability_and_only_a_datacenter_that_publishes_an_address_of_the_host() {
    let topology = TOPOLOGY.replace(
        "datacenter: dc1, engine: redis",
        "datacenter: dc1, engine: redis, publish: 0",
    );
    // A port that is free now; another program could take it before the lab does, and the test then says so.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let lab = Lab::up(&topology.replace("publish: 0", &format!("publish: {port}")), 1);
    let of_lab = format!("label=testbed.lab={}", lab.name);
    let ids = docker(&["ps", "-aq", "--filter", &of_lab]);
    let mut words = vec!["inspect"];
    words.extend(ids.split_whitespace());
    let seen: Value = serde_json::from_str(&docker(&words)).unwrap();
    assert_eq!(
        seen.as_array().unwrap().len(),
        7,
        "two relays, two probes, two nodes, an application"
    );
    for container in seen.as_array().unwrap() {
        let host = &container["HostConfig"];
        let kind = container["Config"]["Labels"]["testbed.kind"].as_str().unwrap();
        let added = host["CapAdd"].as_array().cloned().unwrap_or_default();
        assert_eq!(host["CapDrop"], serde_json::json!(["ALL"]), "{kind}");
        match kind {
            "relay" => assert_eq!(added, ["NET_ADMIN", "SYS_NICE"]),
            _ => assert!(added.is_empty(), "{kind}: {added:?}"),
        }
        assert_eq!(host["Privileged"], false);
        assert_eq!(host["ReadonlyRootfs"], true);
        assert_eq!(
            host["SecurityOpt"],
            serde_json::json!(["no-new-privileges"]),
            "and so the engine's own seccomp profile"
        );
        for space in ["PidMode", "UTSMode", "UsernsMode"] {
            assert_eq!(host[space].as_str().unwrap_or(""), "", "{kind} {space}");
        }
        let mounts = container["Mounts"].to_string();
        assert!(!mounts.contains("docker.sock"), "{kind}: {mounts}");
        let published = host["PortBindings"].as_object().map_or(0, serde_json::Map::len);
        let is_cache = container["Config"]["Labels"]["testbed.node"] == "cache";
        assert_eq!(published, usize::from(is_cache), "{kind}");
        if is_cache {
            assert!(host["PortBindings"].to_string().contains("\"HostIp\":\"127.0.0.1\""));
        }
    }
    let networks = docker(&["network", "ls", "-q", "--filter", &of_lab]);
    let mut words = vec![
        "network",
        "inspect",
        "-f",
        "{{index .Options \"com.docker.network.bridge.name\"}} {{.Name}}",
    ];
    words.extend(networks.split_whitespace());
    let host = addresses();
    let mut with_address = Vec::new();
    for line in docker(&words).lines() {
        let (bridge, name) = line.split_once(' ').unwrap();
        if host.iter().any(|(interface, _)| interface == bridge) {
            with_address.push(name.to_owned());
        }
    }
    assert_eq!(with_address.len(), 1, "{with_address:?}");
    assert!(with_address[0].ends_with("dc1"), "{with_address:?}");

    let file = lab.folder.path().join("lab.yaml");
    let plan = lab.ends(0, &["plan", file.to_str().unwrap(), "-p", &lab.name]);
    assert_eq!(plan.matches("no address").count(), 2, "the WAN and dc2: {plan}");
    assert!(plan.contains(&format!("127.0.0.1:{port}")), "{plan}");
    assert!(
        plan.contains("OF THE HOST, READ-ONLY") && plan.contains("/tools"),
        "{plan}"
    );
}
