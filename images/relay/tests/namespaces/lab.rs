//! Two datacenters in network namespaces: a node and a real relay in each, joined by a WAN.
//!
//! Refuses to leave anything behind: the namespaces and the relays go when the value does, also when a test
//! panics. Sockets are made by a thread that has entered the namespace and work from any thread afterwards.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::Path as FilePath;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use wire::{
    Conditions, FromRelay, LinkStatus, RelayAnswer, RelayConfig, RelayLinkConfig, RelayOrder, RelayStatus, ToRelay,
};

/// Labs built by this process so far.
static LABS: AtomicU32 = AtomicU32::new(0);
/// One lab at a time: two relays with a deadline each already promise most of two cores.
static TURN: Mutex<()> = Mutex::new(());

/// Address of a datacenter's node.
pub fn node(datacenter: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, datacenter, 10)
}

/// WAN address of a datacenter's relay.
pub fn outside(datacenter: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 250, datacenter)
}

/// Why no lab can be built here, if so.
fn obstacle() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    if !status
        .lines()
        .any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
    {
        return Some("needs root".into());
    }
    if !FilePath::new("/dev/net/tun").exists() {
        return Some("needs /dev/net/tun".into());
    }
    if Command::new("ip").arg("-V").output().is_err() {
        return Some("needs `ip` of iproute2".into());
    }
    let probe = format!("tbr{}-try", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &probe]).output().ok()?;
    if !made.status.success() {
        return Some(String::from_utf8_lossy(&made.stderr).trim().to_owned());
    }
    ip(&["netns", "del", &probe]);
    None
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("`ip` can be run");
    assert!(
        output.status.success(),
        "ip {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Two datacenters.
pub struct Lab {
    prefix: String,
    /// The relays of datacenters 1 and 2.
    pub relays: Vec<Relay>,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    /// Build a lab, or say on stderr why it cannot be built.
    pub fn build(delay_ns: u64) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = obstacle() {
            // Past the test harness, which would swallow it.
            writeln!(std::io::stderr(), "skipped: {reason}").expect("stderr is open");
            return None;
        }
        let prefix = format!("tbr{}-{}", std::process::id(), LABS.fetch_add(1, Ordering::Relaxed));
        let mut lab = Self {
            prefix,
            relays: Vec::new(),
            _turn: turn,
        };
        for name in ["node1", "node2", "relay1", "relay2"] {
            ip(&["netns", "add", &lab.space(name)]);
            ip(&["-n", &lab.space(name), "link", "set", "lo", "up"]);
        }
        lab.join(
            ("relay1", "wan", "198.18.250.1/24"),
            ("relay2", "wan", "198.18.250.2/24"),
        );
        for dc in [1u8, 2] {
            let (node_at, relay_at) = (format!("198.18.{dc}.10/24"), format!("198.18.{dc}.2/24"));
            let (node, relay) = (format!("node{dc}"), format!("relay{dc}"));
            lab.join((&node, "eth0", &node_at), (&relay, "dc", &relay_at));
            ip(&[
                "-n",
                &lab.space(&node),
                "route",
                "add",
                "default",
                "via",
                &format!("198.18.{dc}.1"),
            ]);
        }
        for dc in [1u8, 2] {
            let relay = Relay::start(&lab.space(&format!("relay{dc}")), &config(dc, delay_ns));
            lab.relays.push(relay);
        }
        for relay in &mut lab.relays {
            relay.obey(RelayOrder::Show);
        }
        Some(lab)
    }

    /// Name of a namespace of this lab.
    pub fn space(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// The same order to both relays, each for its only link.
    pub fn obey_both(&mut self, order: impl Fn(String) -> RelayOrder) {
        for (relay, to) in self.relays.iter_mut().zip(["dc2", "dc1"]) {
            relay.obey(order(to.into()));
        }
    }

    /// Let the WAN carry only smaller packets from now on.
    pub fn set_wan_mtu(&self, bytes: u32) {
        for relay in ["relay1", "relay2"] {
            ip(&[
                "-n",
                &self.space(relay),
                "link",
                "set",
                "wan",
                "mtu",
                &bytes.to_string(),
            ]);
        }
    }

    /// Run `make` on a thread inside the namespace of a datacenter's node.
    pub fn at_node<T: Send>(&self, datacenter: u8, make: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.space(&format!("node{datacenter}")));
        let space = File::open(path).expect("the namespace exists");
        thread::scope(|scope| {
            let run = || {
                // SAFETY: the descriptor is open for the call; only this short-lived thread changes its namespace.
                #[allow(unsafe_code, reason = "std cannot enter a network namespace")]
                let entered = unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(entered, 0, "setns: {}", std::io::Error::last_os_error());
                make()
            };
            scope.spawn(run).join().expect("the thread did not panic")
        })
    }

    /// A pair of interfaces between two namespaces, both raised and with addresses.
    fn join(&self, one: (&str, &str, &str), two: (&str, &str, &str)) {
        let (space_one, space_two) = (self.space(one.0), self.space(two.0));
        let peer = ["peer", "name", two.1, "netns", &space_two];
        ip(&[&["-n", &space_one, "link", "add", one.1, "type", "veth"], &peer[..]].concat());
        for (space, (_, interface, address)) in [(&space_one, one), (&space_two, two)] {
            ip(&["-n", space, "addr", "add", address, "dev", interface]);
            ip(&["-n", space, "link", "set", interface, "up"]);
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.relays.clear();
        for name in ["node1", "node2", "relay1", "relay2"] {
            // Goes on after a failure: the others must go too.
            let _ = Command::new("ip").args(["netns", "del", &self.space(name)]).output();
        }
    }
}

/// What the relay of `datacenter` is told.
pub fn config(datacenter: u8, delay_ns: u64) -> RelayConfig {
    let far = 3 - datacenter;
    RelayConfig {
        datacenter: format!("dc{datacenter}"),
        inside: Ipv4Addr::new(198, 18, datacenter, 2),
        gateway: Ipv4Addr::new(198, 18, datacenter, 1),
        prefix_len: 24,
        outside: outside(datacenter),
        links: vec![RelayLinkConfig {
            to: format!("dc{far}"),
            network: Ipv4Addr::new(198, 18, far, 0),
            prefix_len: 24,
            via: outside(far),
            conditions: Conditions::delay(delay_ns),
        }],
        queue_bytes: 64 << 20,
        ports: vec![6379, 7007],
        path: wire::Path::Tun,
        seed: 1,
    }
}

/// A relay at work.
pub struct Relay {
    /// Its process.
    pub child: Child,
    /// Its orders; `None` once closed.
    pub orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    last_id: u64,
}

impl Relay {
    /// Start a relay in a namespace.
    pub fn start(space: &str, config: &RelayConfig) -> Self {
        let config = serde_json::to_string(config).expect("a configuration can be written");
        let mut child = Command::new("ip")
            .args(["netns", "exec", space, env!("CARGO_BIN_EXE_relay"), &config])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("`ip` can be run");
        let answers = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self {
            orders: child.stdin.take(),
            child,
            answers,
            last_id: 0,
        }
    }

    /// Send a line as it is.
    pub fn say(&mut self, line: &str) {
        let orders = self.orders.as_mut().expect("stdin is open");
        orders
            .write_all(format!("{line}\n").as_bytes())
            .expect("the relay reads its stdin");
    }

    /// The next answer.
    pub fn hear(&mut self) -> FromRelay {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("stdout can be read");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in answer `{line}`"))
    }

    /// Carry out an order; it must succeed.
    pub fn obey(&mut self, order: RelayOrder) -> RelayStatus {
        match self.ask(order).expect("the order is carried out") {
            RelayAnswer::Status(status) => *status,
            RelayAnswer::Captured(_) | RelayAnswer::Flows(_) => panic!("no status"),
        }
    }

    /// The answer to an order, or why it was refused.
    pub fn ask(&mut self, order: RelayOrder) -> Result<RelayAnswer, String> {
        self.last_id += 1;
        let id = self.last_id;
        self.say(&serde_json::to_string(&ToRelay { id, order }).expect("an order can be written"));
        let answer = self.hear();
        assert_eq!(answer.id, id);
        answer.result
    }

    /// State of the only link.
    pub fn link(&mut self) -> LinkStatus {
        self.obey(RelayOrder::Show).links.remove(0)
    }

    /// Send a signal to the relay.
    pub fn signal(&self, name: &str) {
        let target = self.child.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &target])
            .status()
            .expect("`kill` can be run");
        assert!(sent.success());
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A constant delay.
pub fn set(to: String, delay_ns: u64) -> RelayOrder {
    RelayOrder::Set {
        to,
        conditions: Conditions::delay(delay_ns),
        flush: false,
    }
}
