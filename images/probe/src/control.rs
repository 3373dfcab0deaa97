//! Orders in, answers out: JSON lines on stdin and stdout.
//!
//! Reading, every order and writing have a thread each and an unbounded queue between them, so a controller that
//! writes without reading, or an order that takes minutes, never holds up another order. An end of file on
//! stdin does not end the probe: a later command may attach to the same pipe.

use crate::beacon::Ears;
use crate::running::Running;
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

/// What all orders of this probe share.
#[derive(Debug, Clone, Default)]
struct Desk {
    running: Running,
    ears: Ears,
}

/// Starts reading orders and writing answers. Beacons come in through `ears`.
pub fn serve(ears: Ears) -> io::Result<()> {
    let running = Running::default();
    let desk = Desk { running, ears };
    let (answers, queue) = channel();
    thread::Builder::new()
        .name("answers".into())
        .spawn(move || write_answers(&queue, io::stdout()))?;
    thread::Builder::new().name("orders".into()).spawn(move || {
        let mut input = BufReader::new(io::stdin());
        loop {
            read_orders(&mut input, &desk, &answers);
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
fn read_orders(input: &mut impl BufRead, desk: &Desk, answers: &Sender<FromProbe>) {
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
            start(&line, desk, answers);
        }
    }
}

/// Gives the order of one line a thread of its own.
fn start(line: &[u8], desk: &Desk, answers: &Sender<FromProbe>) {
    let ToProbe { id, order } = match serde_json::from_slice(line) {
        Ok(order) => order,
        Err(error) => {
            return answer(answers, id_of(line), Err(format!("malformed order: {error}")));
        }
    };
    let to_order = answers.clone();
    // Entered here and not by its own thread: an order to stop it can be the very next line.
    let entry = desk.running.enter(id);
    let ears = desk.ears.clone();
    let spawned = thread::Builder::new().name(format!("order-{id}")).spawn(move || {
        let result = order::perform(order, &entry, &ears, |early| answer(&to_order, id, Ok(early)));
        drop(entry);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::time::Duration;
    use wire::ProbeAnswer;

    fn answers_to(input: impl Into<Vec<u8>>) -> Receiver<FromProbe> {
        let (answers, queue) = channel();
        read_orders(&mut Cursor::new(input.into()), &Desk::default(), &answers);
        queue
    }

    fn next(queue: &Receiver<FromProbe>) -> FromProbe {
        queue.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    #[test]
    fn hello_is_answered_with_its_id_also_without_a_last_newline() {
        let queue = answers_to(r#"{"id":18446744073709551615,"order":"hello"}"#);
        let FromProbe {
            id,
            result: Ok(ProbeAnswer::Hello { version, .. }),
        } = next(&queue)
        else {
            panic!("no hello")
        };
        assert_eq!((id, version.as_str()), (u64::MAX, env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn malformed_lines_are_answered_and_do_not_end_the_reading() {
        let input = b"rubbish\n\n\xff\xfe\n{\"id\":5,\"order\":{\"dance\":{}}}\n{\"id\":6,\"order\":\"hello\"}\n";
        let queue = answers_to(*input);
        let mut ids: Vec<_> = (0..4)
            .map(|_| next(&queue))
            .map(|answer| (answer.id, answer.result.is_ok()))
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, [(0, false), (0, false), (5, false), (6, true)]);
    }

    #[test]
    fn an_endless_line_is_refused_once_and_skipped() {
        let mut input = vec![b'x'; usize::try_from(MAX_LINE_BYTES).unwrap() * 2 + 7];
        input.extend_from_slice(b"\n{\"id\":6,\"order\":\"hello\"}\n");
        let queue = answers_to(input);
        assert!(matches!(next(&queue), FromProbe { id: NO_ID, result: Err(error) } if error.contains("longer than")));
        assert_eq!(next(&queue).id, 6);
    }

    #[test]
    fn a_running_order_holds_up_no_other() {
        // a server that accepts and never answers
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let slow = format!(r#"{{"redis":{{"target":"{target}","commands":[["PING"]],"timeout_ns":300000000}}}}"#);
        let queue = answers_to(format!(
            "{{\"id\":1,\"order\":{slow}}}\n{{\"id\":2,\"order\":\"hello\"}}\n"
        ));
        assert_eq!(next(&queue).id, 2);
        let late = next(&queue);
        assert_eq!(late.id, 1);
        assert_eq!(
            late.result.unwrap_err(),
            format!("redis {target}: no reply within 300 ms")
        );
    }

    #[test]
    fn an_order_ended_by_another_gives_its_answer_and_one_that_is_not_there_is_named() {
        let beacons = r#"{"beacons":{"targets":[],"interval_ns":1000000000}}"#;
        let queue = answers_to(format!(
            "{{\"id\":1,\"order\":{beacons}}}\n{{\"id\":2,\"order\":{{\"stop\":{{\"order\":1}}}}}}\n\
             {{\"id\":3,\"order\":{{\"stop\":{{\"order\":99}}}}}}\n"
        ));
        let mut answers: Vec<_> = (0..3).map(|_| next(&queue)).collect();
        answers.sort_by_key(|answer| answer.id);
        assert!(matches!(answers[0].result, Ok(ProbeAnswer::Beacons { .. })));
        assert_eq!(answers[1].result, Ok(ProbeAnswer::Done));
        assert_eq!(answers[2].result, Err("stop order 99: it is not under way".into()));
    }

    #[test]
    fn answers_leave_as_one_line_each() {
        let (answers, queue) = channel();
        answer(&answers, 3, Err("a\nb".into()));
        answer(&answers, 4, Ok(ProbeAnswer::Done));
        drop(answers);
        let mut output = Vec::new();
        write_answers(&queue, &mut output);
        let text = String::from_utf8(output).unwrap();
        let back: Vec<FromProbe> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(back.iter().map(|answer| answer.id).collect::<Vec<_>>(), [3, 4]);
    }
}
