//! A proxy between the program and the engine's socket that counts calls and spoils one of them.
//!
//! A connection carries one call: the proxy asks the engine to close after its answer, so that only the head of a request is
//! ever parsed, and everything behind it is passed on as it comes. An upgraded connection (attach, exec) and a long answer
//! (wait, logs) pass through too.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoil {
    /// It is answered with 500 and not passed on.
    Refuse,
    /// The connection ends before it is passed on.
    Drop,
    /// The engine does what was asked, and its answer is lost.
    LoseAnswer,
    /// It is not passed on, and nothing is answered.
    Hang,
    /// It is passed on a second later.
    Delay,
}

impl Spoil {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Refuse, Self::Drop, Self::LoseAnswer, Self::Hang, Self::Delay];
}

/// See the top of the file; it serves until its test's process ends.
pub struct Proxy {
    calls: Arc<Mutex<Vec<String>>>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

/// Longest time that the answer to be lost is waited for.
const ANSWERED: Duration = Duration::from_secs(30);

impl Proxy {
    /// Listens, and spoils the `nth` call (from 0) in this way.
    pub fn before(engine: &Path, spoilt: Option<(usize, Spoil)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (counted, engine) = (Arc::clone(&calls), engine.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), counted, engine) = (client, Arc::clone(&counted), engine.clone()) else {
                    return;
                };
                thread::spawn(move || serve(client, &engine, &counted, spoilt));
            }
        });
        Self {
            calls,
            socket,
            _folder: folder,
        }
    }

    /// For `--host`.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Method and path of each call so far.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

/// A call that ends early for a reason of its client's or the engine's own has nobody who wants to know.
fn serve(mut client: UnixStream, engine: &Path, counted: &Mutex<Vec<String>>, spoilt: Option<(usize, Spoil)>) {
    let Some(head) = head(&mut client) else { return };
    let line = head.lines().next().unwrap_or_default();
    let number = {
        let mut calls = counted.lock().unwrap();
        calls.push(line.trim_end_matches(" HTTP/1.1").to_owned());
        calls.len() - 1
    };
    let spoil = spoilt.filter(|(nth, _)| *nth == number).map(|(_, spoil)| spoil);
    match spoil {
        None => pass(client, engine, &head),
        Some(Spoil::Delay) => {
            thread::sleep(Duration::from_secs(1));
            pass(client, engine, &head);
        }
        Some(Spoil::Refuse) => {
            let body = r#"{"message":"spoilt by the test"}"#;
            let _ = write!(
                client,
                "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = client.shutdown(Shutdown::Write);
            drain(client);
        }
        Some(Spoil::Hang) => drain(client),
        Some(Spoil::Drop) => {
            let _ = client.shutdown(Shutdown::Both);
        }
        Some(Spoil::LoseAnswer) => lose(client, engine, &head),
    }
}

/// The head of a request, with the blank line.
fn head(client: &mut UnixStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if client.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

fn is_upgrade(head: &str) -> bool {
    head.to_ascii_lowercase().contains("\r\nupgrade:")
}

/// Sends the head on, and what follows it.
fn forward(client: &UnixStream, engine: &Path, head: &str) -> Option<UnixStream> {
    let mut upstream = UnixStream::connect(engine).ok()?;
    let upgrade = is_upgrade(head);
    let head = match upgrade {
        true => head.to_owned(),
        false => head.replacen("\r\n", "\r\nConnection: close\r\n", 1),
    };
    upstream.write_all(head.as_bytes()).ok()?;
    let (mut from, mut to) = (client.try_clone().ok()?, upstream.try_clone().ok()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        // An engine takes the half close of a plain call for the end of its client.
        let _ = to.shutdown(if upgrade { Shutdown::Write } else { Shutdown::Both });
    });
    Some(upstream)
}

fn pass(mut client: UnixStream, engine: &Path, head: &str) {
    if let Some(mut upstream) = forward(&client, engine, head) {
        let _ = std::io::copy(&mut upstream, &mut client);
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// Lets the engine answer, and gives none of it to the client.
fn lose(client: UnixStream, engine: &Path, request: &str) {
    if let Some(mut upstream) = forward(&client, engine, request) {
        let _ = upstream.set_read_timeout(Some(ANSWERED));
        let answered = head(&mut upstream);
        let endless = is_upgrade(request) || request.contains("/wait") || request.contains("/logs");
        if answered.is_some() && !endless {
            let _ = std::io::copy(&mut upstream, &mut std::io::sink());
        }
        let _ = upstream.shutdown(Shutdown::Both);
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// Reads until the client has gone.
fn drain(mut client: UnixStream) {
    let _ = std::io::copy(&mut client, &mut std::io::sink());
}
