//! Answers that a real engine does not give on demand, from a scripted one behind a socket.

use super::*;
use crate::names::Kind;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;

/// An engine that answers by a script, and the request lines that it got.
struct Scripted {
    folder: tempfile::TempDir,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// `answer` gives status and body for a request line such as `POST /networks/create`.
    fn new(answer: impl Fn(&str) -> (u16, &'static str) + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("docker.sock")).unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (heard, answer) = (Arc::clone(&asked), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (heard, answer) = (Arc::clone(&heard), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).await.unwrap() > 0 {}
                    let length = head
                        .lines()
                        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                    stream.read_exact(&mut vec![0; length.unwrap_or(0)]).await.unwrap();
                    let line = head.lines().next().unwrap_or_default();
                    let line = line.split('?').next().unwrap_or_default();
                    let line = line.trim_end_matches(" HTTP/1.1").to_owned();
                    let (status, body) = answer(&line);
                    heard.lock().unwrap().push(line);
                    let answer = format!(
                        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: \
                         close\r\n\r\n{body}",
                        body.len()
                    );
                    stream.write_all(answer.as_bytes()).await.unwrap();
                });
            }
        });
        Self { folder, asked }
    }

    async fn connect(&self) -> Result<Docker, EngineError> {
        let socket = format!("unix://{}", self.folder.path().join("docker.sock").display());
        Docker::connect(Some(&socket)).await
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

const VERSION: (u16, &str) = (200, r#"{"Version":"20.10.24","ApiVersion":"1.41"}"#);

fn network() -> Object {
    object(Sort::Network, "n".to_owned(), "tb-x.dc1", &BTreeMap::new(), "")
}

#[tokio::test]
async fn an_engine_before_1_41_is_refused_with_its_version() {
    let engine = Scripted::new(|_| (200, r#"{"Version":"19.03.15","ApiVersion":"1.40"}"#));
    let error = engine.connect().await.unwrap_err();
    assert!(matches!(&error, EngineError::TooOld { .. }));
    let text = error.to_string();
    assert!(text.contains("19.03.15") && text.contains("1.40"), "{text}");
}

#[tokio::test]
async fn an_endpoint_that_is_refused_takes_the_container_with_it() {
    let engine = Scripted::new(|line| match line {
        "GET /version" => VERSION,
        "POST /containers/create" => (201, r#"{"Id":"c1","Warnings":[]}"#),
        "POST /networks/n2/connect" => (403, r#"{"message":"Address already in use"}"#),
        _ => (204, ""),
    });
    let docker = engine.connect().await.unwrap();
    let networks = ["n1", "n2", "n3"].map(|name| (name.to_owned(), name.to_owned()));
    let spec = ContainerSpec {
        name: "tb-x-relay.dc1".to_owned(),
        kind: Kind::Relay,
        image: "i".to_owned(),
        entrypoint: vec![],
        command: vec![],
        env: vec![],
        user: None,
        endpoints: networks.clone().map(|(name, _)| (name, Ipv4Addr::LOCALHOST)).to_vec(),
        extra_hosts: vec![],
        cap_add: vec![],
        devices: vec![],
        sysctls: BTreeMap::new(),
        volumes: BTreeMap::new(),
        mounts: BTreeMap::new(),
        tmpfs: BTreeMap::new(),
        files: BTreeMap::new(),
        memory_bytes: 0,
        pids: 0,
        publish: BTreeMap::new(),
        open_stdin: true,
        labels: BTreeMap::new(),
    };
    let error = docker.create_container(&spec, &networks.into()).await.unwrap_err();
    let EngineError::Refused { verb, refusal, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!((verb, refusal), ("connect container", Refusal::Taken));
    let asked = engine.asked();
    assert_eq!(asked[2..], ["POST /networks/n2/connect", "DELETE /containers/c1"]);
}

#[tokio::test]
async fn a_network_still_in_use_is_tried_again_until_it_goes() {
    let tries = Mutex::new(0);
    let engine = Scripted::new(move |line| match line {
        "GET /version" => VERSION,
        _ => {
            let mut tries = tries.lock().unwrap();
            *tries += 1;
            match *tries {
                1 | 2 => (403, r#"{"message":"network x id n has active endpoints"}"#),
                _ => (204, ""),
            }
        }
    });
    engine.connect().await.unwrap().remove(&network()).await.unwrap();
    assert_eq!(engine.asked().len(), 4);
}

#[tokio::test]
async fn another_refusal_to_remove_is_final_and_an_absent_object_is_done() {
    let engine = Scripted::new(|line| match line {
        "GET /version" => VERSION,
        "DELETE /networks/n" => (500, r#"{"message":"no"}"#),
        _ => (404, r#"{"message":"No such container: c"}"#),
    });
    let docker = engine.connect().await.unwrap();
    assert!(docker.remove(&network()).await.is_err());
    let container = object(Sort::Container, "c".to_owned(), "c", &BTreeMap::new(), "");
    docker.remove(&container).await.unwrap();
    assert_eq!(engine.asked().len(), 3);
}

/// A network that goes once its only endpoint was disconnected; `other` answers what else is asked.
fn with_an_endpoint(
    endpoints: &'static str,
    other: impl Fn(&str) -> (u16, &'static str) + Send + Sync + 'static,
) -> Scripted {
    let disconnected = Mutex::new(false);
    Scripted::new(move |line| match line {
        "GET /version" => VERSION,
        "GET /networks/n" => (200, endpoints),
        "POST /networks/n/disconnect" => {
            *disconnected.lock().unwrap() = true;
            (200, "")
        }
        "DELETE /networks/n" if *disconnected.lock().unwrap() => (204, ""),
        "DELETE /networks/n" => (403, r#"{"message":"network tb-x.dc1 id n has active endpoints"}"#),
        other_line => other(other_line),
    })
}

const ABSENT: (u16, &str) = (404, r#"{"message":"No such container: x"}"#);
const OF_RELAY: &str = r#"{"Name":"tb-x.dc1","Id":"n","Containers":{"c1":{"Name":"tb-x-relay.dc1"}}}"#;

#[tokio::test]
async fn the_endpoint_of_a_container_that_is_gone_is_released() {
    for endpoints in [
        OF_RELAY,
        r#"{"Name":"tb-x.dc1","Id":"n","Containers":{"ep-7f":{"Name":"tb-x-relay.dc1"}}}"#,
    ] {
        let engine = with_an_endpoint(endpoints, |_| ABSENT);
        engine.connect().await.unwrap().remove(&network()).await.unwrap();
        let asked = engine.asked();
        let after = asked.iter().skip_while(|line| *line != "GET /networks/n");
        let after: Vec<_> = after.filter(|line| !line.contains("/containers/")).collect();
        assert_eq!(
            after,
            ["GET /networks/n", "POST /networks/n/disconnect", "DELETE /networks/n"]
        );
    }
}

#[tokio::test]
async fn a_container_that_exists_keeps_its_endpoint_and_is_named() {
    // The last one: a new container has the name of the removed one, and a disconnection by name would be its own.
    let each = ["c1 and its name", "c1", "its name"].map(|present| async move {
        let engine = with_an_endpoint(OF_RELAY, move |line| match line {
            "GET /containers/c1/json" if present.contains("c1") => (200, r#"{"Id":"c1"}"#),
            "GET /containers/tb-x-relay.dc1/json" if present.contains("name") => (200, r#"{"Id":"c2"}"#),
            _ => ABSENT,
        });
        let error = engine.connect().await.unwrap().remove(&network()).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("active endpoints") && text.contains("tb-x-relay.dc1"),
            "{present}: {text}"
        );
        let asked = engine.asked();
        assert!(
            !asked.contains(&"POST /networks/n/disconnect".to_owned()),
            "{present}: {asked:?}"
        );
    });
    futures_util::future::join_all(each).await;
}

#[tokio::test]
async fn an_endpoint_of_which_the_engine_will_not_speak_is_left() {
    let engine = with_an_endpoint(OF_RELAY, |_| (500, r#"{"message":"no"}"#));
    engine.connect().await.unwrap().remove(&network()).await.unwrap_err();
    assert!(!engine.asked().contains(&"POST /networks/n/disconnect".to_owned()));
}

#[tokio::test]
async fn an_engine_that_counts_an_endpoint_and_has_none_is_told_of() {
    let engine = with_an_endpoint(r#"{"Name":"tb-x.dc1","Id":"n","Containers":{}}"#, |_| ABSENT);
    let error = engine.connect().await.unwrap().remove(&network()).await.unwrap_err();
    assert!(error.to_string().contains("until it is restarted"), "{error}");
}
