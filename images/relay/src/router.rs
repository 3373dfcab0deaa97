//! The data path: read a batch of packets from the TUN device, give each to its lane, write back what is due,
//! and sleep until the next packet is due or something arrives.
//!
//! One thread owns the device and the lanes; nothing is shared and nothing is locked. Orders come over a channel
//! and are obeyed between two batches. What must stay true: a packet is written back byte for byte as it was read,
//! the device's header with its offload marks included; a packet that no lane leads to is dropped, never
//! guessed. A failing device ends the relay, and the routes then drop everything.

pub mod kernel;
mod lead;
mod moderation;
mod readiness;
pub mod tun;

use crate::chance;
use crate::lane::{Change, Lane};
use crate::tap::Taken;
use kernel::{Alarm, Ended, nap, now_ns, relax, schedule};
use lead::Lead;
use moderation::{Moderation, NAP_NS};
use readiness::Readiness;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::mpsc::{Receiver, Sender};
use tun::{HEADER_LEN, Tun};
use wire::{LinkStatus, RelayConfig, RelayLinkConfig};

/// Packets read, and packets written on each lane, before the other side has its turn. A larger batch falls out
/// of the cache (64 cost a fifth of the throughput without delay), a smaller one writes late under load.
const BATCH: usize = 16;
/// Sleeps at the start that tell how late a sleep ends, and their length.
const TRIALS: usize = 32;
const TRIAL_NS: u64 = 500_000;
/// The largest packet with its header, and some room.
const FRAME_MAX: usize = 65_536 + 64;

/// What the data path is asked to do to one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneOrder {
    /// Change it.
    Change(Change),
    /// Begin to keep copies of the first bytes of each packet (`None`: end it).
    Capture {
        /// How many bytes.
        snap_bytes: Option<u32>,
    },
    /// Take away copies.
    TakeCaptured {
        /// Most bytes of packets, but at least one packet.
        most_bytes: u32,
    },
    /// Tell which connections it knows.
    Flows,
}

/// A question to the data path, with an order where one is given.
#[derive(Debug)]
pub struct Request {
    /// Far datacenter and what to do to the link to it.
    pub order: Option<(String, LaneOrder)>,
    /// Where the answer goes.
    pub answer: Sender<Result<Snapshot, UnknownLink>>,
}

/// State of the data path right after a request.
#[derive(Debug)]
pub struct Snapshot {
    /// When it was taken.
    pub now_ns: u64,
    /// Scheduling class of the data path whenever a link delays, as the kernel granted it last.
    pub scheduling: &'static str,
    /// Whether the kernel keeps the cores awake while packets are under way.
    pub keeps_awake: bool,
    /// Packets that no link leads to, dropped.
    pub dropped_no_link: u64,
    /// Outgoing links.
    pub links: Vec<LinkStatus>,
    /// Copies, where the request took some.
    pub captured: Option<Taken>,
    /// Connections, where the request asked for them: near end, far end.
    pub flows: Option<Vec<(SocketAddrV4, SocketAddrV4)>>,
}

impl Snapshot {
    /// Whether copies of the packets to `to` are kept.
    pub fn is_capturing(&self, to: &str) -> bool {
        self.links.iter().any(|link| link.to == to && link.capturing)
    }
}

/// The relay has no link to there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no link leads to `{to}`; the links lead to: {known}")]
pub struct UnknownLink {
    /// Datacenter that was asked for.
    pub to: String,
    /// Those that there are.
    pub known: String,
}

/// The data path cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// Reading the device failed.
    #[error("read from TUN device {name}: {source}")]
    Read {
        /// The device.
        name: String,
        /// Cause.
        source: io::Error,
    },
    /// Waiting failed.
    #[error("wait for TUN device {name}: {source}")]
    Wait {
        /// The device.
        name: String,
        /// Cause.
        source: io::Error,
    },
}

/// The data path and all that it owns.
pub struct Router {
    tun: Tun,
    lanes: Vec<Lane>,
    requests: Receiver<Request>,
    alarm: Alarm,
    lead: Lead,
    moderation: Moderation,
    readiness: Readiness,
    /// Packets that came since the last rest.
    gathered: u32,
    /// The best class that was to be had.
    scheduling: &'static str,
    /// Whether the thread has it now.
    keeps_time: bool,
    dropped_no_link: u64,
}

impl Router {
    /// A data path over `tun`; `alarm` is rung after each request.
    pub fn new(config: &RelayConfig, tun: Tun, requests: Receiver<Request>, alarm: Alarm) -> Self {
        let seed = |to: &str| chance::seed(config.seed, &config.datacenter, to);
        let lane = |link: &RelayLinkConfig| Lane::new(link, config.queue_bytes, HEADER_LEN, seed(&link.to));
        let lanes = config.links.iter().map(lane).collect();
        Self {
            tun,
            lanes,
            requests,
            alarm,
            lead: Lead::measured(Vec::new()),
            moderation: Moderation::new(),
            readiness: Readiness::open(),
            gathered: 0,
            scheduling: "other",
            keeps_time: false,
            dropped_no_link: 0,
        }
    }

    /// Route packets until the device fails.
    pub fn run(mut self) -> RouterError {
        self.suit_class(true);
        self.lead = Lead::measured((0..TRIALS).map(|_| lateness_of_a_sleep()).collect());
        let mut frame = vec![0; FRAME_MAX];
        loop {
            while let Ok(request) = self.requests.try_recv() {
                let result = self.obey(request.order);
                let keeps_time = self.lanes.iter().any(Lane::keeps_time);
                let result = result.map(|snapshot| {
                    self.suit_class(keeps_time);
                    Snapshot {
                        scheduling: self.scheduling,
                        ..snapshot
                    }
                });
                // Who asked may be gone; the order holds nevertheless.
                let _ = request.answer.send(result);
            }
            let more_to_read = match self.read_batch(&mut frame) {
                Ok(more) => more,
                Err(source) => {
                    return RouterError::Read {
                        name: self.tun.name().to_owned(),
                        source,
                    };
                }
            };
            let more_to_write = self.write_due();
            if more_to_read || more_to_write {
                continue;
            }
            if let Err(source) = self.rest() {
                return RouterError::Wait {
                    name: self.tun.name().to_owned(),
                    source,
                };
            }
        }
    }

    /// A deadline makes delays true and small packets dear: whoever wakes a thread that has one is stopped for it at once,
    /// so that nothing gathers. Where no link delays, there is nothing to be true to.
    fn suit_class(&mut self, keeps_time: bool) {
        if keeps_time == self.keeps_time {
            return;
        }
        self.keeps_time = keeps_time;
        if keeps_time {
            self.scheduling = schedule();
        } else {
            relax();
        }
    }

    fn obey(&mut self, order: Option<(String, LaneOrder)>) -> Result<Snapshot, UnknownLink> {
        let now = now_ns();
        let (mut captured, mut flows) = (None, None);
        self.lanes.iter_mut().for_each(|lane| lane.forget_capture(now));
        if let Some((to, order)) = order {
            let Some(lane) = self.lanes.iter_mut().find(|lane| lane.to() == to) else {
                let known = self.lanes.iter().map(Lane::to).collect::<Vec<_>>().join(", ");
                return Err(UnknownLink { to, known });
            };
            match order {
                LaneOrder::Change(change) => lane.change(now, change),
                LaneOrder::Capture { snap_bytes } => lane.capture(now, snap_bytes),
                LaneOrder::TakeCaptured { most_bytes } => captured = Some(lane.take_captured(now, most_bytes)),
                LaneOrder::Flows => flows = Some(lane.flows(now)),
            }
        }
        Ok(Snapshot {
            now_ns: now,
            scheduling: self.scheduling,
            keeps_awake: self.readiness.is_granted(),
            dropped_no_link: self.dropped_no_link,
            links: self.lanes.iter().map(|lane| lane.status(now)).collect(),
            captured,
            flows,
        })
    }

    /// Returns whether the device may have more.
    fn read_batch(&mut self, frame: &mut [u8]) -> io::Result<bool> {
        for _ in 0..BATCH {
            let length = match self.tun.file().read(frame) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.gathered = self.gathered.saturating_add(1);
            self.accept(now_ns(), &frame[..length]);
        }
        Ok(true)
    }

    fn accept(&mut self, now_ns: u64, frame: &[u8]) {
        let Some(destination) = destination(frame) else {
            return;
        };
        match self.lanes.iter_mut().find(|lane| lane.leads_to(destination)) {
            Some(lane) => lane.arrive(now_ns, frame),
            None => self.dropped_no_link += 1,
        }
    }

    /// Returns whether packets that are due are left.
    fn write_due(&mut self) -> bool {
        let mut file = self.tun.file();
        let mut left = false;
        for lane in &mut self.lanes {
            let mut written = 0;
            while written < BATCH && lane.release(now_ns(), |frame| file.write(frame).is_ok()) {
                written += 1;
            }
            left |= written == BATCH;
        }
        left
    }

    /// Nothing can be read or written now: sleep until that changes.
    fn rest(&mut self) -> io::Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        let now = now_ns();
        let due = self.lanes.iter().filter_map(Lane::next_due_ns).min();
        if gathered > 0 || self.holds() {
            self.readiness.keep(now);
        }
        let Some(due) = due else {
            if self.moderation.naps(now, gathered) {
                nap(NAP_NS);
                return Ok(());
            }
            // Without a limit no timer is set, and setting one costs more than all else here.
            self.sleep(None)?;
            return Ok(());
        };
        self.moderation.wakes(now);
        let wake = due.saturating_sub(self.lead.ns());
        if wake <= now {
            // What is left is spent looking for packets: to sleep and to wake takes longer.
            return Ok(());
        }
        if self.sleep(Some(wake - now))? == Ended::Time {
            self.lead.learn(now_ns().saturating_sub(wake));
        }
        Ok(())
    }

    /// Whether packets are under way; the next step of a schedule may be hours away, and nobody waits for it.
    fn holds(&self) -> bool {
        self.lanes.iter().any(|lane| lane.next_packet_ns().is_some())
    }

    fn sleep(&mut self, span_ns: Option<u64>) -> io::Result<Ended> {
        let ended = self.alarm.wait(self.tun.file(), self.readiness.timer(), span_ns)?;
        if ended == Ended::Timer {
            let now = now_ns();
            if self.holds() {
                self.readiness.keep(now);
            }
            self.readiness.review(now);
        }
        Ok(ended)
    }
}

fn lateness_of_a_sleep() -> u64 {
    let wake = now_ns() + TRIAL_NS;
    nap(TRIAL_NS);
    now_ns().saturating_sub(wake)
}

/// Destination of an IPv4 packet behind the device's header. IPv6 has no links and no routes here; what comes of
/// it is the kernel's own chatter on the device.
fn destination(frame: &[u8]) -> Option<Ipv4Addr> {
    let packet = frame.get(HEADER_LEN..)?;
    if packet.first()? >> 4 != 4 {
        return None;
    }
    let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    Some(Ipv4Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_destination_is_read_behind_the_device_header() {
        let mut frame = vec![0; HEADER_LEN + 20];
        frame[HEADER_LEN] = 0x45;
        frame[HEADER_LEN + 16..].copy_from_slice(&[198, 18, 1, 9]);
        assert_eq!(destination(&frame), Some(Ipv4Addr::new(198, 18, 1, 9)));
    }

    #[test]
    fn what_is_not_a_whole_ipv4_header_has_no_destination() {
        let mut frame = vec![0; HEADER_LEN + 20];
        frame[HEADER_LEN] = 0x60;
        assert_eq!(destination(&frame), None);
        frame[HEADER_LEN] = 0x45;
        assert_eq!(destination(&frame[..HEADER_LEN + 19]), None);
        assert_eq!(destination(&[]), None);
    }
}
