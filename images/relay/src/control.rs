//! Orders in, states out: JSON lines over any reader and writer, in practice stdin and stdout.
//!
//! Refuses a line that is not an order, with an answer to id 0, and goes on. It never touches the data path but
//! through its channel, so neither a flood of orders nor a reader that went away can stall a packet. The end of
//! the input ends the control and not the relay.

use crate::capture::told;
use crate::check::{self, ConditionsError, ScheduleError};
use crate::lane::Change;
use crate::paths::{Paths, PathsError};
use crate::router::kernel::Alarm;
use crate::router::tun::{StatisticsError, dropped_unread};
use crate::router::{LaneOrder, Request, Snapshot, UnknownLink};
use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Sender, channel};
use wire::{Captured, FromRelay, Path, RelayAnswer, RelayOrder, RelayStatus, ToRelay};

/// Longest line. An order is two hundred bytes, but for a table of jitter.
const LINE_MAX: u64 = 256 * 1024;
/// Most bytes of packets in one answer, whatever is asked for: the answer is at most five times as long where all packets
/// are small, and while it is written no other order is answered.
const CAPTURED_MAX: u32 = 4 << 20;

/// An order was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// There is no such link.
    #[error(transparent)]
    UnknownLink(#[from] UnknownLink),
    /// The path cannot be changed, or does not allow it.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// The device's own counters could not be read.
    #[error("failed to {0}")]
    Statistics(#[from] StatisticsError),
    /// Such conditions have no meaning.
    #[error(transparent)]
    Conditions(#[from] ConditionsError),
    /// Such a schedule cannot be carried out.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Somebody else captures.
    #[error("capture the link to `{0}`: a capture is going on; one whose command was killed ends within ten seconds")]
    Capturing(String),
    /// Nobody captures.
    #[error("take what was captured on the link to `{0}`: no capture is going on, or it was forgotten for ten seconds")]
    NotCapturing(String),
    /// The data path has ended; the relay is about to.
    #[error("the data path has ended")]
    Ended,
}

/// The door to the data path.
pub struct Wire {
    /// Where requests go.
    pub requests: Sender<Request>,
    /// Rung after each.
    pub alarm: Alarm,
}

impl Wire {
    fn ask(&self, order: Option<(String, LaneOrder)>) -> Result<Snapshot, OrderError> {
        let (answer, answers) = channel();
        self.requests
            .send(Request { order, answer })
            .map_err(|_| OrderError::Ended)?;
        self.alarm.ring();
        Ok(answers.recv().map_err(|_| OrderError::Ended)??)
    }

    fn change(&self, to: String, change: Change) -> Result<Snapshot, OrderError> {
        self.ask(Some((to, LaneOrder::Change(change))))
    }
}

/// What answers orders: the way of packets, the door to the data path, and what never changes.
pub struct Desk {
    /// The way of packets.
    pub paths: Paths,
    /// The data path.
    pub wire: Wire,
    /// Datacenter that the relay serves.
    pub datacenter: String,
    /// When the relay became ready.
    pub since_ns: u64,
    /// Whether segmentation offload is active.
    pub offload: bool,
    /// Name of the TUN device.
    pub device: &'static str,
}

impl Desk {
    /// Carry out an order; the answer is the state right after it, or what was captured.
    pub fn obey(&mut self, order: RelayOrder) -> Result<RelayAnswer, OrderError> {
        match order {
            RelayOrder::TakeCapture { to, most_bytes } => self.take_captured(to, most_bytes).map(RelayAnswer::Captured),
            RelayOrder::Flows { to } => {
                let flows = self.wire.ask(Some((to, LaneOrder::Flows)))?.flows;
                Ok(RelayAnswer::Flows(flows.unwrap_or_default()))
            }
            order => Ok(RelayAnswer::Status(Box::new(self.change(order)?))),
        }
    }

    fn take_captured(&self, to: String, most_bytes: u32) -> Result<Captured, OrderError> {
        let most_bytes = most_bytes.min(CAPTURED_MAX);
        let snapshot = self
            .wire
            .ask(Some((to.clone(), LaneOrder::TakeCaptured { most_bytes })))?;
        if !snapshot.is_capturing(&to) {
            return Err(OrderError::NotCapturing(to));
        }
        Ok(told(snapshot.captured.unwrap_or_default()))
    }

    /// Begin or end a capture. Orders are obeyed one after the other, so that nothing comes between look and order.
    fn capture(&self, to: String, snap_bytes: Option<u32>) -> Result<Snapshot, OrderError> {
        if snap_bytes.is_some() && self.wire.ask(None)?.is_capturing(&to) {
            return Err(OrderError::Capturing(to));
        }
        self.wire.ask(Some((to, LaneOrder::Capture { snap_bytes })))
    }

    /// Stream mode knows nothing of the connections that packet mode carried, and the sockets at their far ends would only
    /// find out by a timeout: what the lanes know of is reset.
    fn set_path(&mut self, path: Path) -> Result<Snapshot, OrderError> {
        let links = self.wire.ask(None)?.links;
        if self.paths.set_path(path, &links)? {
            for link in links {
                let ports = self.paths.ports().to_vec();
                self.wire.change(link.to, Change::Reset { ports })?;
            }
        }
        self.wire.ask(None)
    }

    fn change(&mut self, order: RelayOrder) -> Result<RelayStatus, OrderError> {
        self.paths.check(&order)?;
        let hurried = match &order {
            RelayOrder::Set { to, flush: true, .. } => Some(to.clone()),
            _ => None,
        };
        let snapshot = match order {
            // What was captured or flowed is no state: `obey` has answered it.
            RelayOrder::Show | RelayOrder::TakeCapture { .. } | RelayOrder::Flows { .. } => self.wire.ask(None),
            RelayOrder::Set { to, conditions, flush } => {
                check::conditions(&conditions)?;
                let conditions = Box::new(conditions);
                self.wire.change(to, Change::Set { conditions, flush })
            }
            RelayOrder::Cut { to, kind } => self.wire.change(to, Change::Cut { kind }),
            RelayOrder::CutPorts { to, kind, ports } => self.wire.change(to, Change::CutPorts { kind, ports }),
            RelayOrder::Heal { to } => self.wire.change(to, Change::Heal),
            RelayOrder::Freeze { to } => self.wire.change(to, Change::Freeze),
            RelayOrder::Thaw { to } => self.wire.change(to, Change::Thaw),
            RelayOrder::Play { to, schedule, start_ns } => {
                check::schedule(&schedule)?;
                let schedule = Box::new(schedule);
                self.wire.change(to, Change::Play { schedule, start_ns })
            }
            RelayOrder::StopPlay { to } => self.wire.change(to, Change::StopPlay),
            RelayOrder::Sabotage { to, defect } => {
                self.paths.sabotage(&to, defect)?;
                self.wire.change(to, Change::Sabotage { defect })
            }
            RelayOrder::SetPath { path } => self.set_path(path),
            RelayOrder::Mirror { to, mirror } => {
                self.paths.set_mirror(&to, mirror)?;
                self.wire.ask(None)
            }
            RelayOrder::Capture { to, snap_bytes } => self.capture(to, snap_bytes),
        }?;
        self.paths.follow(&snapshot.links, hurried.as_deref())?;
        Ok(RelayStatus {
            datacenter: self.datacenter.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now_ns: snapshot.now_ns,
            since_ns: self.since_ns,
            path: self.paths.path(),
            early_ns: 0,
            stream: self.paths.status()?,
            scheduling: self.scheduling(snapshot.scheduling),
            keeps_awake: snapshot.keeps_awake,
            offload: self.offload,
            dropped_no_link: snapshot.dropped_no_link,
            dropped_unread: dropped_unread(self.device)?,
            links: snapshot.links,
        })
    }

    /// Class of the data path, and that of stream mode's thread where there is one and it differs.
    fn scheduling(&self, data: &str) -> String {
        match self.paths.scheduling() {
            Some(stream) if stream != data => format!("{data}; stream {stream}"),
            _ => data.to_owned(),
        }
    }
}

/// Answer each line of `input` on `output` until the input ends.
pub fn serve(
    input: &mut impl BufRead,
    output: &mut impl Write,
    mut obey: impl FnMut(RelayOrder) -> Result<RelayAnswer, OrderError>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let answer = if line.len() as u64 == LINE_MAX && !line.ends_with(b"\n") {
            skip_line(input)?;
            refusal(format!("line longer than {LINE_MAX} bytes"))
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            match serde_json::from_slice::<ToRelay>(&line) {
                Ok(ToRelay { id, order }) => FromRelay {
                    id,
                    result: obey(order).map_err(|error| error.to_string()),
                },
                Err(error) => refusal(format!("not an order: {error}")),
            }
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        // One write per line: several controllers read the same output.
        output.write_all(&text)?;
        output.flush()?;
    }
}

fn refusal(text: String) -> FromRelay {
    FromRelay {
        id: 0,
        result: Err(text),
    }
}

/// Read on to the end of the line without keeping it.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            return Ok(());
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(chunk.len(), |end| end + 1);
        input.consume(length);
        if end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Path;

    fn status() -> RelayAnswer {
        RelayAnswer::Status(Box::new(RelayStatus {
            datacenter: "dc1".into(),
            version: "0".into(),
            now_ns: 2,
            since_ns: 1,
            path: Path::Tun,
            early_ns: 0,
            stream: None,
            scheduling: "other".into(),
            keeps_awake: false,
            offload: true,
            dropped_no_link: 0,
            dropped_unread: 0,
            links: Vec::new(),
        }))
    }

    fn answers(input: &str) -> Vec<FromRelay> {
        let mut output = Vec::new();
        serve(&mut input.as_bytes(), &mut output, |order| match order {
            RelayOrder::Show => Ok(status()),
            RelayOrder::Heal { to } => Err(UnknownLink {
                to,
                known: "dc2".into(),
            }
            .into()),
            other => panic!("unexpected {other:?}"),
        })
        .unwrap();
        let text = String::from_utf8(output).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn each_order_is_answered_under_its_own_id() {
        let answers = answers("{\"id\":7,\"order\":\"show\"}\n{\"id\":9,\"order\":\"show\"}\n");
        assert_eq!(answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), [7, 9]);
        assert_eq!(answers[0].result, Ok(status()));
    }

    #[test]
    fn an_order_that_cannot_be_carried_out_says_why() {
        let answers = answers("{\"id\":7,\"order\":{\"heal\":{\"to\":\"dc9\"}}}\n");
        let text = "no link leads to `dc9`; the links lead to: dc2";
        assert_eq!(
            answers,
            [FromRelay {
                id: 7,
                result: Err(text.into())
            }]
        );
    }

    #[test]
    fn a_malformed_line_is_refused_under_id_0_and_the_next_one_is_heard() {
        let answers = answers("nonsense\n{\"id\":1,\"order\":\"dance\"}\n\n{\"id\":7,\"order\":\"show\"}");
        assert_eq!(answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), [0, 0, 7]);
        assert!(answers[0].result.as_ref().unwrap_err().starts_with("not an order: "));
        assert!(answers[2].result.is_ok());
    }

    #[test]
    fn a_line_without_end_is_skipped_and_never_kept() {
        let input = format!("{}\n{{\"id\":7,\"order\":\"show\"}}\n", "x".repeat(300_000));
        let answers = answers(&input);
        assert_eq!(answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), [0, 7]);
        assert_eq!(answers[0].result, Err("line longer than 262144 bytes".into()));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_like_any_other_nonsense() {
        let mut output = Vec::new();
        serve(&mut &b"\xff\xfe\n"[..], &mut output, |_| Ok(status())).unwrap();
        assert!(output.starts_with(b"{\"id\":0,"));
    }
}
