//! A place on a real engine for the objects of one test: names and addresses of its own, and everything is removed whatever
//! happens to the test.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;
use testbed::docker::{Console, Docker, Engine, ExecSpec, Images, Object};
use testbed::names::Kind;
use testbed::plan::{ContainerSpec, NetworkSpec};

/// Nothing here takes long; what hangs must fail.
pub const LIMIT: Duration = Duration::from_secs(60);
/// What containers run.
pub const IMAGE: &str = "testbed/redis:7.0.15";

/// One test's objects: names of its own, and a label by which all of them are found and removed.
pub struct Bench {
    /// The engine.
    pub engine: Docker,
    /// Drawn at random.
    pub name: String,
    octet: u8,
}

impl Bench {
    pub async fn new() -> Self {
        Self {
            engine: Docker::connect(None).await.expect("an engine answers"),
            name: format!("{:08x}", fastrand::u32(..)),
            octet: fastrand::u8(..),
        }
    }

    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("testbed.test".to_owned(), self.name.clone())])
    }

    /// A network of the upper half of the benchmark range, away from where labs begin.
    pub fn network(&self, half: u8) -> NetworkSpec {
        let base = Ipv4Addr::new(198, 19, self.octet, half * 128);
        NetworkSpec {
            name: format!("tbtest-{}-{half}", self.name),
            kind: Kind::Datacenter,
            bridge: format!("tt{}{half}", self.name),
            subnet: ipnet::Ipv4Net::new(base, 25).expect("a prefix of 25 bits is one"),
            gateway: Ipv4Addr::from(u32::from(base) + 126),
            host_address: None,
            labels: self.labels(),
        }
    }

    pub fn address(&self, half: u8, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 19, self.octet, half * 128 + host)
    }

    pub fn container(&self, endpoints: Vec<(String, Ipv4Addr)>) -> ContainerSpec {
        ContainerSpec {
            name: format!("tbtest-{}", self.name),
            kind: Kind::Node,
            image: IMAGE.to_owned(),
            entrypoint: vec!["redis-server".to_owned()],
            command: ["--dir", "/data", "--bind", "0.0.0.0", "--protected-mode", "no"]
                .map(str::to_owned)
                .to_vec(),
            env: vec![],
            user: None,
            endpoints,
            extra_hosts: vec!["far:198.19.0.9".to_owned()],
            cap_add: vec![],
            devices: vec![],
            sysctls: BTreeMap::new(),
            volumes: BTreeMap::from([(format!("tbtest-{}-state", self.name), "/data".to_owned())]),
            mounts: BTreeMap::new(),
            tmpfs: BTreeMap::new(),
            files: BTreeMap::new(),
            memory_bytes: 64 << 20,
            pids: 64,
            publish: BTreeMap::new(),
            open_stdin: false,
            labels: self.labels(),
        }
    }

    pub async fn list(&self) -> Vec<Object> {
        self.engine.list(&self.labels()).await.expect("objects can be listed")
    }

    /// Containers first: networks and volumes are in use until then.
    pub async fn clear(&self) {
        let mut objects = self.list().await;
        objects.sort_by_key(|object| object.sort);
        for object in objects {
            self.engine
                .remove(&object)
                .await
                .expect("an object of the test is removed");
        }
        assert_eq!(self.list().await, []);
    }

    /// Both networks, by name.
    pub async fn two_networks(&self) -> BTreeMap<String, String> {
        let mut networks = BTreeMap::new();
        for half in [0, 1] {
            let made = self.engine.create_network(&self.network(half)).await;
            let made = made.expect("a network");
            networks.insert(made.name, made.id);
        }
        networks
    }

    pub fn endpoint_in_both(&self, host: u8) -> Vec<(String, Ipv4Addr)> {
        [0, 1]
            .map(|half| (self.network(half).name, self.address(half, host)))
            .to_vec()
    }

    /// Asks the server of a container through one of its addresses until it is up.
    pub async fn answers_at(&self, container: &str, address: Ipv4Addr) {
        let address = address.to_string();
        let ping = exec(&["redis-cli", "-h", &address, "ping"]);
        for _ in 0..50 {
            if self.engine.exec(container, &ping).await.expect("an exec") == 0 {
                return;
            }
        }
        panic!("no server answers at {address}");
    }

    pub async fn has_image(&self) -> bool {
        let present = self
            .engine
            .image(IMAGE)
            .await
            .expect("images can be asked for")
            .is_some();
        if !present {
            println!("skipped: {IMAGE} is not here (testbed images build redis-7.0.15)");
        }
        present
    }
}

/// Runs a test and removes its objects whatever happened.
pub async fn on_the_bench<F>(test: impl FnOnce(std::sync::Arc<Bench>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let bench = std::sync::Arc::new(Bench::new().await);
    let limited = tokio::time::timeout(LIMIT, test(std::sync::Arc::clone(&bench)));
    let outcome = tokio::spawn(async move { limited.await.expect("the test ends in time") }).await;
    bench.clear().await;
    if let Err(failed) = outcome {
        std::panic::resume_unwind(failed.into_panic());
    }
}

/// A command, without streams of ours.
pub fn exec(command: &[&str]) -> ExecSpec {
    ExecSpec {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        interactive: false,
        tty: false,
        user: None,
    }
}
