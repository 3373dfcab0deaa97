//! The loop of stream mode: one thread that accepts, dials, reads and delivers for all terminated connections, asleep in
//! epoll until one of them, the timer or an order wakes it.
//!
//! No timer wheel: the timer is the kernel's, set to the earliest deadline of all. It is a timerfd, since a timeout of
//! epoll may be late by a thousandth of itself. What must stay true: whatever woke the loop, all that is due is done
//! before it sleeps. A failure of the loop itself ends the relay, and the routes then drop everything.

use super::connection::{Connection, Ending, Watch};
use super::directions::{Directions, Side};
use super::socket::{self, Network, NodelayError};
use super::{Order, Request};
use crate::router::kernel::now_ns;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use socket2::Socket;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use wire::{CutKind, StreamSettings, StreamStatus};

/// Largest portion.
const READ_BYTES: usize = 64 << 10;
/// Connections accepted in a row before others have their turn.
const ACCEPT_BATCH: usize = 16;
/// Descriptors that are no connection's.
const SPARE_DESCRIPTORS: u64 = 64;
const NANOSECONDS: u64 = 1_000_000_000;

/// A link that connections cross.
#[derive(Debug, Clone)]
pub struct Crossing {
    /// What lies behind it.
    pub network: Network,
    /// Its directions.
    pub directions: Directions,
}

/// What woke the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waker {
    Bell,
    Timer,
    Listener(u16),
    Leg(u64, Side),
}

impl Waker {
    fn data(self) -> EventData {
        EventData::new_u64(match self {
            Self::Bell => 0,
            Self::Timer => 1,
            Self::Listener(port) => u64::from(port) << 2 | 1 << 1,
            Self::Leg(id, Side::Near) => id << 2,
            Self::Leg(id, Side::Far) => id << 2 | 1,
        })
    }

    fn of(data: EventData) -> Self {
        let word = data.u64();
        match (word >> 2, word & 3) {
            (0, 0) => Self::Bell,
            (0, 1) => Self::Timer,
            (id, 0) => Self::Leg(id, Side::Near),
            (id, 1) => Self::Leg(id, Side::Far),
            (port, _) => Self::Listener(u16::try_from(port).unwrap_or(0)),
        }
    }
}

/// All listeners and connections of a relay in stream mode.
pub struct Exchange {
    epoll: OwnedFd,
    timer: OwnedFd,
    bell: Arc<OwnedFd>,
    inbox: Receiver<Request>,
    ports: Vec<u16>,
    listeners: Vec<(u16, Socket)>,
    crossings: Vec<Crossing>,
    settings: StreamSettings,
    connections: HashMap<u64, Connection>,
    connections_max: usize,
    last_id: u64,
    armed_ns: Option<u64>,
    status: StreamStatus,
}

impl Exchange {
    /// An exchange that listens already; `bell` is rung after each request.
    pub fn open(
        ports: Vec<u16>,
        crossings: Vec<Crossing>,
        settings: StreamSettings,
        (inbox, bell): (Receiver<Request>, Arc<OwnedFd>),
        totals: StreamStatus,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(&epoll, &bell, Waker::Bell.data(), EventFlags::IN)?;
        epoll::add(&epoll, &timer, Waker::Timer.data(), EventFlags::IN)?;
        let mut made = Self {
            epoll,
            timer,
            bell,
            inbox,
            ports,
            listeners: Vec::new(),
            crossings,
            settings,
            connections: HashMap::new(),
            connections_max: connections_max(),
            last_id: 0,
            armed_ns: None,
            status: totals,
        };
        made.attend()?;
        Ok(made)
    }

    /// Serve until told to leave.
    pub fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut events = Vec::with_capacity(64);
        loop {
            while let Ok(request) = self.inbox.try_recv() {
                let left = request.order == Some(Order::Leave);
                self.obey(request.order)?;
                // Who asked may be gone; the order holds nevertheless.
                let _ = request.answer.send(self.status());
                if left {
                    return Ok(());
                }
            }
            self.carry_out_due()?;
            self.sleep(&mut events)?;
            for event in events.drain(..) {
                self.wake(Waker::of(event.data), event.flags, &mut buffer)?;
            }
        }
    }

    fn status(&self) -> StreamStatus {
        StreamStatus {
            open: self.connections.len() as u64,
            ..self.status
        }
    }

    fn obey(&mut self, order: Option<Order>) -> io::Result<()> {
        match order {
            None => Ok(()),
            Some(Order::Adopt(settings)) => {
                self.settings = settings;
                Ok(())
            }
            Some(Order::Follow { directions, hurried }) => {
                for (link, directions) in directions.into_iter().enumerate() {
                    self.follow(link, directions);
                }
                for connection in self.connections.values_mut().filter(|it| Some(it.link) == hurried) {
                    connection.hurry();
                }
                self.attend()?;
                let all: Vec<u64> = self.connections.keys().copied().collect();
                all.into_iter().try_for_each(|id| self.settle(id))
            }
            Some(Order::Leave) => {
                self.connections.drain().for_each(|(_, connection)| connection.reset());
                self.listeners.clear();
                Ok(())
            }
        }
    }

    /// A link is as `new` says from now on; its connections learn of cuts that have begun or ended.
    fn follow(&mut self, link: usize, new: Directions) {
        let Some(crossing) = self.crossings.get_mut(link) else {
            return;
        };
        let old = std::mem::replace(&mut crossing.directions, new);
        if old == new {
            return;
        }
        let refusal = new.refusal();
        let ids = self
            .connections
            .iter()
            .filter(|(_, it)| it.link == link)
            .map(|(id, _)| *id);
        for id in ids.collect::<Vec<_>>() {
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let mut healed = false;
            for side in Side::BOTH {
                let silent = new.toward(side).cut == Some(CutKind::Drop);
                if silent && !connection.is_cut_off(side) {
                    connection.cut_off(side);
                }
                healed |= !silent && connection.is_cut_off(side);
            }
            let kind = if healed { Some(CutKind::Reset) } else { refusal };
            let Some(kind) = kind else { continue };
            self.status.cut += 1;
            if let Some(connection) = self.connections.remove(&id) {
                match kind {
                    CutKind::Close => connection.close(),
                    CutKind::Reset | CutKind::Drop => connection.reset(),
                }
            }
        }
    }

    /// Listen for those networks from which a dial can be heard.
    fn attend(&mut self) -> io::Result<()> {
        let heard = self
            .crossings
            .iter()
            .filter(|crossing| !crossing.directions.is_silent());
        let networks: Vec<Network> = heard.map(|crossing| crossing.network).collect();
        for (_, listener) in &self.listeners {
            socket::attend_to(listener, &networks)?;
        }
        if self.listeners.is_empty() {
            for port in &self.ports {
                let listener = socket::listen(*port, &networks)
                    .map_err(|error| io::Error::new(error.kind(), format!("port {port}: {error}")))?;
                epoll::add(&self.epoll, &listener, Waker::Listener(*port).data(), EventFlags::IN)?;
                self.listeners.push((*port, listener));
            }
        }
        Ok(())
    }

    fn carry_out_due(&mut self) -> io::Result<()> {
        let now = now_ns();
        let crossings = &self.crossings;
        let is_due = |connection: &Connection| {
            let due = connection.next_due_ns(&crossings[connection.link].directions);
            due.is_some_and(|due| due <= now)
        };
        let due = self.connections.iter().filter(|(_, connection)| is_due(connection));
        let due: Vec<u64> = due.map(|(id, _)| *id).collect();
        due.into_iter().try_for_each(|id| self.settle(id))
    }

    /// Until something happens or is due.
    fn sleep(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        // The scan costs some nanoseconds per connection, and there are tens of them.
        let due = |connection: &Connection| connection.next_due_ns(&self.crossings[connection.link].directions);
        let due = self.connections.values().filter_map(due).min();
        let now = Timespec::default();
        let at_once = due.is_some_and(|due| due <= now_ns());
        if !at_once && self.armed_ns != due {
            let spec = Itimerspec {
                it_interval: Timespec::default(),
                // A time of zero disarms it.
                it_value: timespec(due.unwrap_or(0)),
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)?;
            self.armed_ns = due;
        }
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(events),
            at_once.then_some(&now),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn wake(&mut self, waker: Waker, flags: EventFlags, buffer: &mut [u8]) -> io::Result<()> {
        match waker {
            Waker::Bell => silence(&self.bell),
            Waker::Timer => {
                silence(&self.timer);
                self.armed_ns = None;
            }
            Waker::Listener(port) => {
                for _ in 0..ACCEPT_BATCH {
                    if !self.accept(port)? {
                        break;
                    }
                }
            }
            Waker::Leg(id, side) => {
                let Some(connection) = self.connections.get_mut(&id) else {
                    return Ok(());
                };
                let directions = &self.crossings[connection.link].directions;
                let lost = EventFlags::ERR | EventFlags::HUP;
                let failed = flags.intersects(EventFlags::OUT | lost) && connection.take(side, directions);
                self.status.failed += u64::from(failed);
                if !failed && flags.intersects(EventFlags::IN | lost) {
                    connection.hear(side, directions, buffer);
                }
                self.settle(id)?;
            }
        }
        Ok(())
    }

    /// Accept one connection, if one waits; returns whether more may.
    fn accept(&mut self, port: u16) -> io::Result<bool> {
        let Some((_, listener)) = self.listeners.iter().find(|(listening, _)| *listening == port) else {
            return Ok(false);
        };
        let (near, from, to) = match socket::accept(listener) {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            // It was gone before it was accepted.
            Err(_) => return Ok(true),
        };
        let mut crossings = self.crossings.iter().enumerate();
        let found = crossings.find(|(_, crossing)| crossing.network.contains(*to.ip()));
        let Some((link, crossing)) = found else {
            socket::reset(near);
            return Ok(true);
        };
        if crossing.directions.refusal().is_some() {
            self.status.cut += 1;
            socket::reset(near);
            return Ok(true);
        }
        self.status.accepted += 1;
        if self.connections.len() >= self.connections_max {
            self.status.failed += 1;
            socket::reset(near);
            return Ok(true);
        }
        match Connection::accepted(near, (from, to), link, self.settings, &crossing.directions) {
            Ok(connection) => {
                self.last_id += 1;
                self.status.nodelay_near = Some(connection.nodelay_near);
                self.connections.insert(self.last_id, connection);
                self.settle(self.last_id)?;
            }
            Err(error) => self.mismatch(&error),
        }
        Ok(true)
    }

    /// Do what is due of a connection, then bring the watch on it up to date, or end it.
    fn settle(&mut self, id: u64) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let directions = &self.crossings[connection.link].directions;
        let delivered = connection.deliver(directions);
        if id == self.last_id {
            self.status.nodelay_far = connection.nodelay_far;
        }
        match delivered {
            Ok(done) => {
                self.status.portions += done.portions;
                self.status.lateness_sum_ns += done.lateness_sum_ns;
                self.status.lateness_max_ns = self.status.lateness_max_ns.max(done.lateness_max_ns);
                self.status.late += done.late;
                self.status.failed += u64::from(done.failed);
                self.watch(id)
            }
            Err(ending) => {
                let connection = self.connections.remove(&id).expect("it was there a moment ago");
                match ending {
                    Ending::Ended => connection.close(),
                    Ending::Reset => connection.reset(),
                    Ending::Nodelay(error) => {
                        connection.reset();
                        self.mismatch(&error);
                    }
                }
                Ok(())
            }
        }
    }

    fn mismatch(&mut self, error: &NodelayError) {
        self.status.mismatched += 1;
        eprintln!("relay: failed to set up a connection: {error}");
    }

    fn watch(&mut self, id: u64) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        for side in Side::BOTH {
            let Some(change) = connection.watch(side) else { continue };
            let Some(socket) = connection.socket(side) else {
                continue;
            };
            let data = Waker::Leg(id, side).data();
            match change {
                Watch::Add(flags) => epoll::add(&self.epoll, socket, data, flags)?,
                Watch::Change(flags) => epoll::modify(&self.epoll, socket, data, flags)?,
                Watch::Remove => epoll::delete(&self.epoll, socket)?,
            }
        }
        Ok(())
    }
}

fn timespec(at_ns: u64) -> Timespec {
    Timespec {
        tv_sec: (at_ns / NANOSECONDS).cast_signed(),
        tv_nsec: (at_ns % NANOSECONDS).cast_signed(),
    }
}

/// That it was silent already is no error.
fn silence(descriptor: &OwnedFd) {
    let _ = rustix::io::read(descriptor, &mut [0; 8]);
}

/// As many as the process may have descriptors for, two each.
fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let pairs = current.unwrap_or(u64::MAX).saturating_sub(SPARE_DESCRIPTORS) / 2;
    usize::try_from(pairs).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_woke_the_loop_is_told_apart() {
        let wakers = [
            Waker::Bell,
            Waker::Timer,
            Waker::Listener(6379),
            Waker::Leg(1, Side::Near),
            Waker::Leg(1, Side::Far),
            Waker::Leg(6379, Side::Near),
        ];
        for waker in wakers {
            assert_eq!(Waker::of(waker.data()), waker);
        }
    }
}
