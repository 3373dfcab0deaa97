//! What tries to get out: run inside a node and inside an application, built static by the test. Each argument is one attempt, each
//! line of the output what became of it. Refuses nothing: that is the container's business.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

fn attempt(word: &str) -> String {
    let (what, object) = word.split_once('=').expect("an attempt is WHAT=OBJECT");
    let outcome = match what {
        "connect" => {
            let address: SocketAddr = object.parse().expect("an address and a port");
            TcpStream::connect_timeout(&address, Duration::from_millis(1500)).map(|_| ())
        }
        "write" => std::fs::write(object, "x"),
        "find" => std::fs::symlink_metadata(object).map(|_| ()),
        "read" => std::fs::read(object).map(|_| ()),
        other => panic!("no such attempt: {other}"),
    };
    match outcome {
        Ok(()) => format!("{word} done"),
        Err(error) => format!("{word} {:?}", error.kind()),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "serve") {
        let listener = TcpListener::bind("0.0.0.0:8080").expect("a free port");
        for connection in listener.incoming() {
            drop(connection);
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    for line in status.lines() {
        if ["Cap", "NoNewPrivs", "Seccomp:"].iter().any(|key| line.starts_with(key)) {
            println!("{}", line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    let all: Vec<_> = words
        .into_iter()
        .map(|word| std::thread::spawn(move || attempt(&word)))
        .collect();
    for one in all {
        println!("{}", one.join().expect("an attempt ends"));
    }
    std::io::stdout().flush().expect("stdout");
}
