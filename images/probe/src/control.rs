//! Orders in, answers out: JSON lines on stdin and stdout.
//!
//! Reading, every order and writing have a thread each and an unbounded queue between them, so a controller that
//! writes without reading, or an order that takes minutes, never holds up another order. An end of file on
//! stdin does not end the probe: a later command may attach to the same pipe.

use crate::{clock, order};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use wire::{FromProbe, Id, ToProbe};

/// Longest line that is read as an order; what is longer is refused and skipped.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// How often an ended stdin is tried again: nothing can be waited for on a pipe without a writer.
const RETRY_STDIN_NS: u64 = 100_000_000;

/// Id of answers to lines that carry none.
const NO_ID: Id = 0;

/// Starts reading orders and writing answers.
pub fn serve() -> io::Result<()> {
    let (answers, queue) = channel();
    thread::Builder::new()
        .name("answers".into())
        .spawn(move || write_answers(&queue, io::stdout()))?;
    thread::Builder::new().name("orders".into()).spawn(move || {
        let mut input = BufReader::new(io::stdin());
        loop {
            read_orders(&mut input, &answers);
            clock::sleep_until(clock::now_ns() + RETRY_STDIN_NS);
        }
    })?;
    Ok(())
}

/// Writes every answer as one line. Without a stdout nobody could ever be answered: the process ends.
fn write_answers(queue: &Receiver<FromProbe>, mut output: impl Write) {
    for answer in queue {
        let mut line = serde_json::to_vec(&answer).expect("the words of the wire have string keys only");
        line.push(b'\n');
        if let Err(error) = output.write_all(&line).and_then(|()| output.flush()) {
            eprintln!("probe: failed to write an answer: {error}");
            std::process::exit(1);
        }
    }
}

/// Reads lines to the end of the input and starts each order.
fn read_orders(input: &mut impl BufRead, answers: &Sender<FromProbe>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                eprintln!("probe: failed to read orders: {error}");
                return;
            }
        }
        if line.len() as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            answer(
                answers,
                NO_ID,
                Err(format!("malformed order: longer than {MAX_LINE_BYTES} bytes")),
            );
            let _ = skip_line(input);
            continue;
        }
        if !line.trim_ascii().is_empty() {
            start(&line, answers);
        }
    }
}

/// Gives the order of one line a thread of its own.
fn start(line: &[u8], answers: &Sender<FromProbe>) {
    let ToProbe { id, order } = match serde_json::from_slice(line) {
        Ok(order) => order,
        Err(error) => {
            return answer(answers, id_of(line), Err(format!("malformed order: {error}")));
        }
    };
    let to_order = answers.clone();
    let spawned = thread::Builder::new().name(format!("order-{id}")).spawn(move || {
        let result = order::perform(order, |early| answer(&to_order, id, Ok(early)));
        answer(&to_order, id, result.map_err(|error| error.to_string()));
    });
    if let Err(error) = spawned {
        answer(answers, id, Err(format!("start a thread for the order: {error}")));
    }
}

fn answer(answers: &Sender<FromProbe>, id: Id, result: Result<wire::ProbeAnswer, String>) {
    // The writer only ends together with the process.
    let _ = answers.send(FromProbe { id, result });
}

/// The id of a line whose order is not understood, so that who sent it learns of it; 0 if it has none.
fn id_of(line: &[u8]) -> Id {
    let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    value.and_then(|value| value.get("id")?.as_u64()).unwrap_or(NO_ID)
}

/// Reads past the next newline without keeping anything.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let (length, found) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        input.consume(length);
        if found {
            return Ok(());
        }
    }
}
