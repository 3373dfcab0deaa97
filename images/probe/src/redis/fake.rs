//! A tiny RESP server for tests: reads commands, asks a script what to do, does it. It speaks enough of the
//! protocol to be late, silent, slow, wrong or gone, which a real server is not on request.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the server does with one command.
pub enum Act {
    /// Answer with these bytes.
    Say(String),
    /// Answer after a time.
    Late(Duration, String),
    /// Answer byte by byte, with this time before each.
    Drip(Duration, String),
    /// Read on and never answer.
    Silence,
    /// Close the connection.
    Close,
}

/// Simple string `OK`.
pub fn ok() -> Act {
    Act::Say("+OK\r\n".into())
}

/// Bulk string.
pub fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// Array of bulk strings.
pub fn bulks(texts: &[&str]) -> String {
    let items: String = texts.iter().map(|text| bulk(text)).collect();
    format!("*{}\r\n{items}", texts.len())
}

/// Starts a server on loopback. `script` is given each command of every connection; it lives until the test
/// process ends.
pub fn serve(script: impl FnMut(&[String]) -> Act + Send + 'static) -> SocketAddrV4 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let SocketAddr::V4(address) = listener.local_addr().unwrap() else {
        unreachable!("bound to a v4 address")
    };
    let script = Arc::new(Mutex::new(script));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let script = Arc::clone(&script);
            thread::spawn(move || attend(&stream.unwrap(), &*script));
        }
    });
    address
}

fn attend(stream: &TcpStream, script: &Mutex<impl FnMut(&[String]) -> Act>) {
    let mut output = stream;
    let mut input = BufReader::new(stream);
    while let Some(command) = read_command(&mut input) {
        let act = (script.lock().unwrap())(&command);
        let written = match act {
            Act::Say(text) => output.write_all(text.as_bytes()),
            Act::Late(after, text) => {
                thread::sleep(after);
                output.write_all(text.as_bytes())
            }
            Act::Drip(before, text) => text.bytes().try_for_each(|byte| {
                thread::sleep(before);
                output.write_all(&[byte])
            }),
            Act::Silence => Ok(()),
            Act::Close => return,
        };
        if written.is_err() {
            return;
        }
    }
}

/// One command, an array of bulk strings; `None` at the end of the connection.
fn read_command(input: &mut impl BufRead) -> Option<Vec<String>> {
    let count = read_number(input, '*')?;
    (0..count)
        .map(|_| {
            let mut bytes = vec![0; read_number(input, '$')? + 2];
            input.read_exact(&mut bytes).ok()?;
            bytes.truncate(bytes.len() - 2);
            Some(String::from_utf8(bytes).unwrap())
        })
        .collect()
}

fn read_number(input: &mut impl BufRead, kind: char) -> Option<usize> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}
