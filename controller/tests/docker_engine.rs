//! The bollard implementation against a real engine: what is made is whole, listed, attached to and gone again.
//!
//! Needs a Docker engine, and the Redis image of the releases for what runs a container (otherwise that test says that
//! it was skipped). Names are drawn at random, so that several runs and labs live side by side; whatever a test
//! makes it removes by id, also when it fails.

#[path = "docker_engine/bench.rs"]
mod bench;

use bench::{exec, on_the_bench};
use std::collections::BTreeMap;
use std::time::Duration;
use testbed::docker::{Console, Docker, Engine, EngineError, Images, LogsSpec, Refusal, Sort};
use testbed::names::{LABEL_KIND, LABEL_LAB, LABEL_NODE, LABEL_OWNER, OWNER};
use testbed::plan::{ContainerSpec, VolumeSpec};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

fn refusal<T: std::fmt::Debug>(outcome: Result<T, EngineError>) -> Refusal {
    match outcome {
        Err(EngineError::Refused { refusal, .. }) => refusal,
        other => panic!("a refusal was expected: {other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn networks_and_volumes_are_made_listed_and_gone() {
    on_the_bench(|bench| async move {
        let network = bench.engine.create_network(&bench.network(0)).await.expect("a network");
        let spec = VolumeSpec {
            name: format!("tbtest-{}-state", bench.name),
            labels: bench.labels(),
        };
        let volume = bench.engine.create_volume(&spec).await.expect("a volume");
        let seen = bench.list().await;
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert!(seen.contains(&network) && seen.contains(&volume), "{seen:?}");
        let subnets = bench.engine.subnets().await.expect("subnets");
        assert!(subnets.contains(&bench.network(0).subnet), "{subnets:?}");
        for object in [&network, &volume, &network, &volume] {
            bench
                .engine
                .remove(object)
                .await
                .expect("removing twice is removing once");
        }
        assert_eq!(bench.list().await, []);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn a_second_network_is_refused_by_its_bridge_or_its_subnet() {
    on_the_bench(|bench| async move {
        bench.engine.create_network(&bench.network(0)).await.expect("a network");
        let mut same_bridge = bench.network(1);
        same_bridge.bridge = bench.network(0).bridge;
        assert_eq!(refusal(bench.engine.create_network(&same_bridge).await), Refusal::Taken);
        let mut same_subnet = bench.network(1);
        same_subnet.subnet = bench.network(0).subnet;
        same_subnet.gateway = bench.network(0).gateway;
        assert_eq!(
            refusal(bench.engine.create_network(&same_subnet).await),
            Refusal::Overlap
        );
        // What `up` of a lab that is up asks for: the same bridge and the same subnet.
        let again = refusal(bench.engine.create_network(&bench.network(0)).await);
        println!("the same network again: {again:?}");
        assert!(matches!(again, Refusal::Taken | Refusal::Overlap));
        assert_eq!(bench.list().await.len(), 1);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn a_volume_of_somebody_else_is_not_taken_over() {
    on_the_bench(|bench| async move {
        let mut spec = VolumeSpec {
            name: format!("tbtest-{}-state", bench.name),
            labels: bench.labels(),
        };
        bench.engine.create_volume(&spec).await.expect("a volume");
        spec.labels.insert("testbed.lab".to_owned(), "mine".to_owned());
        assert_eq!(refusal(bench.engine.create_volume(&spec).await), Refusal::Taken);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn a_container_has_all_its_endpoints_runs_and_is_gone() {
    on_the_bench(|bench| async move {
        if !bench.has_image().await {
            return;
        }
        let networks = bench.two_networks().await;
        let state = VolumeSpec {
            name: format!("tbtest-{}-state", bench.name),
            labels: bench.labels(),
        };
        bench.engine.create_volume(&state).await.expect("a volume");
        let spec = bench.container(bench.endpoint_in_both(2));
        let made = bench.engine.create_container(&spec, &networks).await;
        let made = made.expect("a container");
        assert_eq!(made.state, "created");
        bench.engine.start(&made.id).await.expect("a start");
        bench.engine.start(&made.id).await.expect("starting twice is once");
        for half in [0, 1] {
            bench.answers_at(&made.id, bench.address(half, 2)).await;
        }
        let seen = bench.list().await;
        let container = seen.iter().find(|object| object.sort == Sort::Container);
        let container = container.expect("it is listed");
        assert_eq!(
            (container.name.as_str(), container.state.as_str()),
            (spec.name.as_str(), "running")
        );
        bench.engine.remove(&made).await.expect("a running one is removed");
        bench.engine.remove(&made).await.expect("an absent one is done");
        let left = bench.list().await;
        assert!(
            left.iter().any(|object| object.name == state.name),
            "a named volume outlives its container"
        );
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn a_name_is_taken_at_creation_and_an_address_at_the_start() {
    on_the_bench(|bench| async move {
        if !bench.has_image().await {
            return;
        }
        let networks = bench.two_networks().await;
        let mut spec = bench.container(bench.endpoint_in_both(2));
        spec.volumes.clear();
        let create = async |spec: &ContainerSpec| bench.engine.create_container(spec, &networks).await;
        let made = create(&spec).await.expect("a container");
        bench.engine.start(&made.id).await.expect("a start");
        assert_eq!(refusal(create(&spec).await), Refusal::Taken);
        spec.name.push_str("-second");
        let second = create(&spec).await.expect("addresses are checked at the start");
        assert_eq!(refusal(bench.engine.start(&second.id).await), Refusal::Taken);
        bench.engine.remove(&second).await.expect("one that never ran goes too");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn what_is_missing_is_refused_at_creation_or_at_the_start() {
    on_the_bench(|bench| async move {
        if !bench.has_image().await {
            return;
        }
        let gone = BTreeMap::from([("gone".to_owned(), "0".repeat(64))]);
        let mut spec = bench.container(vec![("gone".to_owned(), bench.address(1, 2))]);
        spec.volumes.clear();
        // Engines take a container of a network that is not there, and refuse to start it.
        match bench.engine.create_container(&spec, &gone).await {
            Ok(made) => assert_eq!(refusal(bench.engine.start(&made.id).await), Refusal::NotFound),
            refused => assert_eq!(refusal(refused), Refusal::NotFound),
        }
        spec.name.push_str("-second");
        let unmade = bench.engine.create_container(&spec, &BTreeMap::new()).await;
        assert_eq!(refusal(unmade), Refusal::NotFound, "a network that was never made");
        spec.endpoints.clear();
        spec.image = "testbed/no-such-image:0".to_owned();
        let unmade = bench.engine.create_container(&spec, &gone).await;
        assert_eq!(refusal(unmade), Refusal::NotFound, "an image that is not there");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn a_post_mortem_tells_exit_code_and_last_words_which_stdout_does_not_carry() {
    on_the_bench(|bench| async move {
        if !bench.has_image().await {
            return;
        }
        let mut spec = bench.container(vec![]);
        spec.volumes.clear();
        spec.command = vec!["--no-such-directive".to_owned(), "yes".to_owned()];
        let made = bench
            .engine
            .create_container(&spec, &BTreeMap::new())
            .await
            .expect("a container");
        let mut streams = bench.engine.attach(&made.id).await.expect("attached before the start");
        bench.engine.start(&made.id).await.expect("a start");
        let mut stdout = String::new();
        streams
            .stdout
            .read_to_string(&mut stdout)
            .await
            .expect("stdout ends with the process");
        assert_eq!(bench.engine.wait(&made.id).await.expect("it ended"), 1);
        let post_mortem = bench.engine.post_mortem(&made.id).await.expect("a post mortem");
        assert!(post_mortem.contains("exited, exit code 1"), "{post_mortem}");
        assert!(post_mortem.contains("no-such-directive"), "{post_mortem}");
        assert!(
            !stdout.contains("no-such-directive"),
            "stderr goes to the log only: {stdout}"
        );
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn several_can_be_attached_and_a_dropped_one_ends_nothing() {
    on_the_bench(|bench| async move {
        if !bench.has_image().await {
            return;
        }
        let network = bench.engine.create_network(&bench.network(0)).await.expect("a network");
        let networks = BTreeMap::from([(network.name.clone(), network.id)]);
        let mut server = bench.container(vec![(network.name.clone(), bench.address(0, 2))]);
        server.volumes.clear();
        let mut client = bench.container(vec![(network.name, bench.address(0, 3))]);
        client.volumes.clear();
        // A client that reads commands from stdin answers line by line, as a relay answers orders.
        client.name = format!("{}-client", server.name);
        client.open_stdin = true;
        client.entrypoint = vec!["redis-cli".to_owned()];
        client.command = ["-h", &bench.address(0, 2).to_string()].map(str::to_owned).to_vec();
        let server = bench
            .engine
            .create_container(&server, &networks)
            .await
            .expect("a server");
        bench.engine.start(&server.id).await.expect("a start");
        let client = bench
            .engine
            .create_container(&client, &networks)
            .await
            .expect("a client");
        let first = bench.engine.attach(&client.id).await.expect("attached");
        let mut second = bench.engine.attach(&client.id).await.expect("attached again");
        bench.engine.start(&client.id).await.expect("a start");
        drop(first);
        let mut third = bench
            .engine
            .attach(&client.id)
            .await
            .expect("attached to a running one");
        second.stdin.write_all(b"echo two\n").await.expect("stdin lives on");
        drop(second.stdin);
        third.stdin.write_all(b"echo three\n").await.expect("stdin lives on");
        for stdout in [second.stdout, third.stdout] {
            let mut lines = BufReader::new(stdout).lines();
            let seen = async {
                while let Some(line) = lines.next_line().await.expect("stdout can be read") {
                    if line == "three" {
                        return true;
                    }
                }
                false
            };
            let seen = tokio::time::timeout(Duration::from_secs(10), seen).await;
            assert_eq!(seen, Ok(true), "everybody attached sees every answer");
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn exit_codes_of_commands_come_back_as_they_are() {
    on_the_bench(|bench| async move {
        if !bench.has_image().await {
            return;
        }
        let mut spec = bench.container(vec![]);
        spec.volumes.clear();
        spec.command = vec!["--port".to_owned(), "7001".to_owned()];
        let made = bench
            .engine
            .create_container(&spec, &BTreeMap::new())
            .await
            .expect("a container");
        bench.engine.start(&made.id).await.expect("a start");
        let code = async |command: &[&str]| {
            let ended = bench.engine.exec(&made.id, &exec(command)).await;
            ended.expect("an exec")
        };
        assert_eq!(code(&["redis-cli", "--version"]).await, 0);
        assert_eq!(code(&["redis-cli", "-p", "1", "ping"]).await, 1);
        let missing = code(&["no-such-program"]).await;
        assert!(missing == 126 || missing == 127, "{missing}");
        bench.engine.remove(&made).await.expect("removed");
        assert_eq!(
            refusal(bench.engine.exec(&made.id, &exec(&["redis-cli"])).await),
            Refusal::NotFound
        );
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn exec_and_logs_reach_a_node_from_the_command_line() {
    on_the_bench(|bench| async move {
        if !bench.has_image().await {
            return;
        }
        let lab = format!("t-{}", bench.name);
        let mut spec = bench.container(vec![]);
        spec.volumes.clear();
        let labels = [
            (LABEL_OWNER, OWNER),
            (LABEL_LAB, &lab),
            (LABEL_KIND, "node"),
            (LABEL_NODE, "a"),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        spec.labels.extend(labels);
        let made = bench.engine.create_container(&spec, &BTreeMap::new()).await;
        let made = made.expect("a container");
        bench.engine.start(&made.id).await.expect("a start");
        let testbed = async |words: &[&str], typed: &str| {
            let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_testbed"));
            command.args(&words[..1]).args(["-p", &lab]).args(&words[1..]);
            command.stdin(std::process::Stdio::piped());
            command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            let mut child = command.spawn().expect("the program starts");
            let mut stdin = child.stdin.take().expect("stdin is piped");
            stdin.write_all(typed.as_bytes()).await.expect("stdin takes bytes");
            drop(stdin);
            let output = child.wait_with_output().await.expect("the program ends");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        let version = testbed(&["exec", "a", "redis-cli", "--version"], "").await;
        assert_eq!(version, (Some(0), "redis-cli 7.0.15\n".to_owned(), String::new()));
        let typed = testbed(&["exec", "-i", "a", "redis-cli", "-x", "echo"], "typed\n").await;
        assert_eq!((typed.0, typed.1.trim()), (Some(0), "typed"), "{}", typed.2);
        let absent = testbed(&["exec", "a", "no-such-program"], "").await;
        assert!(matches!(absent.0, Some(126 | 127)), "{absent:?}");
        assert_eq!(absent.1, "", "the engine's words go to stderr");
        let nobody = testbed(&["exec", "b", "redis-cli"], "").await;
        assert_eq!(nobody.0, Some(2), "{nobody:?}");
        assert!(nobody.2.contains("hint: its nodes: a"), "{nobody:?}");
        let logs = testbed(&["logs", "--tail", "1", "a"], "").await;
        assert_eq!((logs.0, logs.1.lines().count()), (Some(0), 1), "{logs:?}");
        assert!(logs.1.contains("Ready to accept connections"), "{logs:?}");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn log_lines_come_whole_with_their_time() {
    on_the_bench(|bench| async move {
        if !bench.has_image().await {
            return;
        }
        let mut spec = bench.container(vec![]);
        spec.volumes.clear();
        spec.command = vec![
            "--port".to_owned(),
            "7001".to_owned(),
            "--loglevel".to_owned(),
            "verbose".to_owned(),
        ];
        let made = bench
            .engine
            .create_container(&spec, &BTreeMap::new())
            .await
            .expect("a container");
        bench.engine.start(&made.id).await.expect("a start");
        let (sender, mut receiver) = tokio::sync::mpsc::channel(64);
        let follow = LogsSpec {
            follow: true,
            tail: None,
        };
        let engine = bench.engine.clone();
        let id = made.id.clone();
        let following = tokio::spawn(async move { engine.logs(&id, &follow, sender).await });
        let mut lines = Vec::new();
        while let Some(line) = receiver.recv().await {
            let started = line.text.contains("Ready to accept");
            lines.push(line);
            if started || lines.len() > 100 {
                break;
            }
        }
        bench.engine.remove(&made).await.expect("removed");
        while receiver.recv().await.is_some() {}
        following
            .await
            .expect("no panic")
            .expect("following ends with the container");
        assert!(
            lines.iter().any(|line| line.text.contains("Redis version=7.0.15")),
            "{lines:?}"
        );
        assert!(
            lines.iter().all(|line| line.at.len() == 30 && line.at.ends_with('Z')),
            "{lines:?}"
        );
        assert!(lines.windows(2).all(|pair| pair[0].at <= pair[1].at), "{lines:?}");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Docker engine"]
async fn an_engine_describes_itself() {
    let about = Docker::connect(None)
        .await
        .expect("an engine")
        .about()
        .await
        .expect("its description");
    assert!(
        !about.version.is_empty() && about.api_version.starts_with("1."),
        "{about:?}"
    );
    assert!(about.cpus > 0 && about.memory_bytes > 1 << 28, "{about:?}");
}
