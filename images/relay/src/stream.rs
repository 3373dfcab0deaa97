//! Stream mode: TCP connections that are dialled from this datacenter to a port of the topology's nodes end here, and go
//! on from here in the dialler's name, their bytes delayed in both directions.
//!
//! It is the instrument of the published record and not a model of a network, and has the limits of every relay that
//! terminates TCP: the dialler's handshake is answered locally, so a connection seems to be made at once and its first
//! reply pays one round trip and not two; windows, slow start and retransmission never see the delay; keepalive does
//! not cross it. The far end is dialled only when the outward delay has passed.
//!
//! A cut here: `close` ends both legs with FIN and `reset` with RST; who dials is reset right after the handshake, since the
//! kernel refuses nothing in the name of others. `drop` is silence towards the sender of a direction, whose packets go
//! unacknowledged, and towards who dials; what the relay had acknowledged is destroyed with what is held, so that no
//! connection can survive it: the heal resets those that were open.
//!
//! Connections that packet mode carried when stream mode begins are unknown here. The lanes reset those that they know of;
//! after the kernel's path they know none, and then the dialler is reset at its next packet, and the other end has to find
//! out by its own timeout.
//!
//! What must stay true: one thread owns all sockets; nothing of it is on the way of a packet of the TUN device.

pub mod connection;
pub mod directions;
pub mod exchange;
pub mod flow;
pub mod socket;

use crate::router::kernel::schedule;
use directions::Directions;
use exchange::{Crossing, Exchange};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::process::exit;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use wire::{StreamSettings, StreamStatus};

/// Stream mode cannot begin, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// No listeners.
    #[error("listen: {0}")]
    Listen(#[source] io::Error),
    /// No thread.
    #[error("start thread stream: {0}")]
    Thread(#[source] io::Error),
    /// The thread has ended; the relay is about to.
    #[error("order stream mode: it has ended")]
    Ended,
}

/// What the thread is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// New connections are treated so from now on.
    Adopt(StreamSettings),
    /// The links, in their order, are like this from now on.
    Follow {
        /// All of them.
        directions: Vec<Directions>,
        /// Number of a link whose bytes in flight towards the far end are due at once.
        hurried: Option<usize>,
    },
    /// Reset all connections and end.
    Leave,
}

/// A question to the thread, with an order where one is given.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub order: Option<Order>,
    /// Where the state after it goes.
    pub answer: Sender<StreamStatus>,
}

/// The door to the thread. It lives until [`Order::Leave`].
pub struct Stream {
    requests: Sender<Request>,
    bell: Arc<OwnedFd>,
    scheduling: &'static str,
}

impl Stream {
    /// Listen on `ports` for the networks behind `crossings`; the counters go on from `totals`.
    pub fn begin(
        ports: Vec<u16>,
        crossings: Vec<Crossing>,
        settings: StreamSettings,
        totals: StreamStatus,
    ) -> Result<Self, StreamError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(bell.map_err(|error| StreamError::Listen(error.into()))?);
        let (requests, inbox) = channel();
        let exchange = Exchange::open(ports, crossings, settings, (inbox, Arc::clone(&bell)), totals)
            .map_err(StreamError::Listen)?;
        let (class, classes) = channel();
        let run = move || {
            // The receiver waits for exactly this.
            let _ = class.send(schedule());
            if let Err(error) = exchange.run() {
                eprintln!("relay: failed to go on with stream mode: {error}");
                exit(1);
            }
        };
        let thread = thread::Builder::new().name("stream".into()).spawn(run);
        thread.map_err(StreamError::Thread)?;
        let scheduling = classes.recv().map_err(|_| StreamError::Ended)?;
        Ok(Self {
            requests,
            bell,
            scheduling,
        })
    }

    /// Scheduling class that the kernel granted to the thread.
    pub fn scheduling(&self) -> &'static str {
        self.scheduling
    }

    /// Carry out an order; the state right after it.
    pub fn ask(&self, order: Option<Order>) -> Result<StreamStatus, StreamError> {
        let (answer, answers) = channel();
        self.requests
            .send(Request { order, answer })
            .map_err(|_| StreamError::Ended)?;
        // It can only fail when the counter is full, and then the bell is ringing already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        answers.recv().map_err(|_| StreamError::Ended)
    }
}
