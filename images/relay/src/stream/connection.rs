//! One terminated connection: a socket to the node that dialled (near), one to the node that was dialled (far), and a
//! flow towards each.
//!
//! What must stay true: an end of either kind is passed on in its place behind the bytes, so that a half-closed
//! connection still gets its answer; nothing is read beyond the bound of a flow; once a cut has destroyed bytes, the
//! connection passes nothing more in that direction, ever, because there would be a hole in the stream.

use super::directions::{Directions, Side, nodelay_on};
use super::flow::{Due, Flow, Parcel};
use super::socket::{self, NodelayError};
use crate::router::kernel::now_ns;
use rustix::event::epoll::EventFlags;
use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4};
use wire::{CutKind, Nodelay, StreamSettings};

/// Bytes held per direction above which nothing more is read: as much as a socket buffer takes at most.
const HOLD_BYTES: usize = 4 << 20;
/// A portion that leaves so long after it was due is late.
const LATE_NS: u64 = 1_000_000;

/// The far leg's dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dial {
    /// The word that somebody dials is on its way.
    Waits {
        due_ns: u64,
    },
    Going,
    Made,
}

/// A connection is over.
#[derive(Debug)]
pub enum Ending {
    /// Both ends have said so, and been told.
    Ended,
    /// An end is gone.
    Reset,
    /// A socket option is not as asked.
    Nodelay(NodelayError),
}

#[derive(Debug)]
struct Leg {
    /// The far one comes to be when it is dialled.
    socket: Option<Socket>,
    /// What is on its way to it.
    coming: Flow,
    /// Nothing more will be read from it.
    heard_out: bool,
    /// It takes nothing more: it is gone, or its end was passed on to it.
    told_out: bool,
    /// Its peer is gone; an end of its stream is no orderly one.
    broken: bool,
    /// The other leg was told that its peer is gone.
    mourned: bool,
    /// Its buffer is full.
    full: bool,
    /// A cut destroyed what was on its way to it.
    cut_off: bool,
    /// A freeze holds up what is on its way to it.
    held_up: bool,
    /// Since when it can take something: what was due before could not leave.
    ready_ns: u64,
    /// What the loop waits for.
    watched: Option<EventFlags>,
}

impl Leg {
    fn new(socket: Option<Socket>, settings: StreamSettings) -> Self {
        Self {
            socket,
            coming: Flow::new(settings.order, HOLD_BYTES),
            heard_out: false,
            told_out: false,
            broken: false,
            mourned: false,
            full: false,
            cut_off: false,
            held_up: false,
            ready_ns: 0,
            watched: None,
        }
    }
}

/// What was done of what was due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Portions that have left whole.
    pub portions: u64,
    /// Sum of their lateness.
    pub lateness_sum_ns: u64,
    /// Largest lateness.
    pub lateness_max_ns: u64,
    /// Portions more than [`LATE_NS`] late.
    pub late: u64,
    /// The far end could not be dialled.
    pub failed: bool,
}

impl Done {
    fn add(&mut self, lateness_ns: u64) {
        self.portions += 1;
        self.lateness_sum_ns += lateness_ns;
        self.lateness_max_ns = self.lateness_max_ns.max(lateness_ns);
        self.late += u64::from(lateness_ns > LATE_NS);
    }
}

/// What the loop has to change about its watch on a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Begin.
    Add(EventFlags),
    /// Wait for something else.
    Change(EventFlags),
    /// End.
    Remove,
}

/// A terminated connection.
#[derive(Debug)]
pub struct Connection {
    /// Number of the link that it crosses.
    pub link: usize,
    /// TCP_NODELAY of the near leg, as read back.
    pub nodelay_near: bool,
    /// The same of the far leg, once it is dialled.
    pub nodelay_far: Option<bool>,
    nodelay: Nodelay,
    from: SocketAddrV4,
    to: SocketAddrV4,
    dial: Dial,
    near: Leg,
    far: Leg,
}

impl Connection {
    /// A connection that `from` dialled to `to` at `now_ns`; the far leg will be dialled after the delay.
    pub fn accepted(
        near: Socket,
        (from, to): (SocketAddrV4, SocketAddrV4),
        link: usize,
        settings: StreamSettings,
        directions: &Directions,
    ) -> Result<Self, NodelayError> {
        let nodelay_near = socket::set_nodelay(&near, nodelay_on(settings.nodelay, Side::Near))?;
        let due_ns = now_ns().saturating_add(directions.out.delay_ns);
        let mut made = Self {
            link,
            nodelay: settings.nodelay,
            nodelay_near,
            nodelay_far: None,
            from,
            to,
            dial: Dial::Waits { due_ns },
            near: Leg::new(Some(near), settings),
            far: Leg::new(None, settings),
        };
        for side in Side::BOTH {
            if directions.toward(side).cut == Some(CutKind::Drop) {
                made.cut_off(side);
            }
        }
        Ok(made)
    }

    fn leg(&self, side: Side) -> &Leg {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    fn leg_mut(&mut self, side: Side) -> &mut Leg {
        match side {
            Side::Near => &mut self.near,
            Side::Far => &mut self.far,
        }
    }

    /// The socket of a leg.
    pub fn socket(&self, side: Side) -> Option<&Socket> {
        self.leg(side).socket.as_ref()
    }

    /// A leg has something to say: bytes, or an end.
    pub fn hear(&mut self, side: Side, directions: &Directions, buffer: &mut [u8]) {
        let delay_ns = directions.toward(side.other()).delay_ns;
        let room = self.leg(side.other()).coming.has_room();
        let dialling = side == Side::Far && self.dial != Dial::Made;
        let leg = self.leg_mut(side);
        if leg.heard_out {
            // Woken though nothing more is to be read: the peer, whose stream has ended, is gone.
            self.mourn(side, directions);
            return;
        }
        let Some(socket) = leg.socket.as_mut().filter(|_| room && !dialling) else {
            return;
        };
        match socket.read(buffer) {
            Ok(0) if leg.broken => self.mourn(side, directions),
            Ok(0) => {
                leg.heard_out = true;
                self.send_on(side.other(), delay_ns, Parcel::End);
            }
            Ok(length) => self.send_on(side.other(), delay_ns, Parcel::Bytes(buffer[..length].into())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.mourn(side, directions),
        }
    }

    /// A leg's peer is gone, and nothing that it sent is left to be read: word of it goes to the other one.
    fn mourn(&mut self, side: Side, directions: &Directions) {
        let leg = self.leg_mut(side);
        if leg.mourned {
            return;
        }
        (leg.mourned, leg.broken, leg.heard_out, leg.told_out) = (true, true, true, true);
        leg.full = false;
        self.send_on(side.other(), directions.toward(side.other()).delay_ns, Parcel::Reset);
    }

    fn send_on(&mut self, side: Side, delay_ns: u64, parcel: Parcel) {
        let leg = self.leg_mut(side);
        if !leg.cut_off {
            leg.coming.push(now_ns(), delay_ns, parcel);
        }
    }

    /// A leg's buffer has room again, or its dial has come to an end. Returns whether the far end was not reached.
    pub fn take(&mut self, side: Side, directions: &Directions) -> bool {
        let leg = self.leg_mut(side);
        (leg.full, leg.ready_ns) = (false, now_ns());
        if side == Side::Near || self.dial != Dial::Going {
            return false;
        }
        self.dial = Dial::Made;
        let reached = self
            .far
            .socket
            .as_ref()
            .is_some_and(|socket| matches!(socket.take_error(), Ok(None)));
        if !reached {
            self.fail(directions);
        }
        !reached
    }

    /// Word that the far end was not reached goes back.
    fn fail(&mut self, directions: &Directions) {
        self.dial = Dial::Made;
        self.far.coming.clear();
        self.mourn(Side::Far, directions);
    }

    /// Do all that is due.
    pub fn deliver(&mut self, directions: &Directions) -> Result<Done, Ending> {
        let mut done = Done {
            failed: self.dial_if_due(directions)?,
            ..Done::default()
        };
        for side in Side::BOTH {
            let frozen = directions.toward(side).frozen;
            let leg = self.leg_mut(side);
            if leg.held_up && !frozen {
                leg.ready_ns = now_ns();
            }
            leg.held_up = frozen;
            if frozen {
                continue;
            }
            self.deliver_to(side, &mut done)?;
            let leg = self.leg(side);
            if leg.broken && leg.heard_out {
                self.mourn(side, directions);
            }
        }
        if self.near.told_out && self.far.told_out && self.near.heard_out && self.far.heard_out && self.is_empty() {
            return Err(Ending::Ended);
        }
        Ok(done)
    }

    fn is_empty(&self) -> bool {
        Side::BOTH
            .iter()
            .all(|side| self.leg(*side).coming.next_due_ns().is_none())
    }

    /// Dials the far end if it is time; returns whether that failed at once.
    fn dial_if_due(&mut self, directions: &Directions) -> Result<bool, Ending> {
        let Dial::Waits { due_ns } = self.dial else {
            return Ok(false);
        };
        if self.far.cut_off || directions.out.frozen || due_ns > now_ns() {
            return Ok(false);
        }
        let Ok(socket) = socket::dial(self.from, self.to, self.near.cut_off) else {
            self.fail(directions);
            return Ok(true);
        };
        let found = socket::set_nodelay(&socket, nodelay_on(self.nodelay, Side::Far));
        self.nodelay_far = Some(found.map_err(Ending::Nodelay)?);
        self.far.socket = Some(socket);
        self.dial = Dial::Going;
        Ok(false)
    }

    fn deliver_to(&mut self, side: Side, done: &mut Done) -> Result<(), Ending> {
        let made = side == Side::Near || self.dial == Dial::Made;
        let leg = self.leg_mut(side);
        while made && !leg.full {
            // The clock is read again after each write, which may have taken long.
            let now = now_ns();
            let Some((due, due_ns)) = leg.coming.due(now) else {
                break;
            };
            let (bytes, portion) = match due {
                Due::Reset => return Err(Ending::Reset),
                Due::End => {
                    leg.told_out = true;
                    // It fails if the peer is gone, of which there will be word.
                    if let Some(socket) = &leg.socket {
                        let _ = socket.shutdown(Shutdown::Write);
                    }
                    (0, false)
                }
                Due::Bytes(bytes) if leg.told_out => (bytes.len(), false),
                Due::Bytes(bytes) => match write(leg.socket.as_mut(), bytes) {
                    Ok(length) => (length, true),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        leg.full = true;
                        break;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => {
                        leg.broken = true;
                        leg.told_out = true;
                        continue;
                    }
                },
            };
            if leg.coming.sent(bytes, now) && portion {
                done.add(now.saturating_sub(due_ns.max(leg.ready_ns)));
            }
        }
        Ok(())
    }

    /// When the next thing is due, unless it cannot be done before something else happens.
    pub fn next_due_ns(&self, directions: &Directions) -> Option<u64> {
        let dial = match self.dial {
            Dial::Waits { due_ns } if !self.far.cut_off && !directions.out.frozen => Some(due_ns),
            _ => None,
        };
        let delivery = |side: Side| {
            let leg = self.leg(side);
            let made = side == Side::Near || self.dial == Dial::Made;
            if made && !leg.full && !directions.toward(side).frozen {
                leg.coming.next_due_ns()
            } else {
                None
            }
        };
        [dial, delivery(Side::Near), delivery(Side::Far)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Let what is on its way to the far end, and the dial, be due at once.
    pub fn hurry(&mut self) {
        self.far.coming.hurry();
        if let Dial::Waits { due_ns } = &mut self.dial {
            *due_ns = 0;
        }
    }

    /// A silent cut in the direction towards `side`: what is on its way is destroyed, and so is all that will come.
    pub fn cut_off(&mut self, side: Side) {
        let leg = self.leg_mut(side);
        leg.cut_off = true;
        leg.coming.clear();
        if let Some(socket) = self.socket(side.other()) {
            // Refused only for lack of memory; then its bytes are acknowledged and still go nowhere.
            let _ = socket::deafen(socket);
        }
    }

    /// Whether a silent cut was in the way towards `side`.
    pub fn is_cut_off(&self, side: Side) -> bool {
        self.leg(side).cut_off
    }

    /// How the loop's watch on a leg has to change.
    pub fn watch(&mut self, side: Side) -> Option<Watch> {
        let wanted = self.wanted(side);
        let leg = self.leg_mut(side);
        let change = match (leg.watched, wanted) {
            (None, Some(flags)) => Watch::Add(flags),
            (Some(old), Some(flags)) if old != flags => Watch::Change(flags),
            (Some(_), None) => Watch::Remove,
            _ => return None,
        };
        leg.watched = wanted;
        Some(change)
    }

    fn wanted(&self, side: Side) -> Option<EventFlags> {
        let leg = self.leg(side);
        leg.socket.as_ref()?;
        let mut flags = EventFlags::empty();
        if leg.full || (side == Side::Far && self.dial == Dial::Going) {
            flags |= EventFlags::OUT;
        }
        let dialling = side == Side::Far && self.dial != Dial::Made;
        let other = self.leg(side.other());
        let readable = !leg.heard_out && !other.cut_off && !dialling;
        if readable && other.coming.has_room() {
            flags |= EventFlags::IN;
        }
        // An error is always reported, so that a leg is only watched while something is done about it: it is read, it
        // is written, or its stream has ended and the news would be that its peer is gone.
        let news = leg.heard_out && !leg.told_out && !leg.broken && !other.cut_off;
        (!flags.is_empty() || news).then_some(flags)
    }

    /// End both legs in order.
    pub fn close(self) {
        for socket in [self.near.socket, self.far.socket].into_iter().flatten() {
            socket::close(socket);
        }
    }

    /// End both legs with a reset.
    pub fn reset(self) {
        for socket in [self.near.socket, self.far.socket].into_iter().flatten() {
            socket::reset(socket);
        }
    }
}

fn write(socket: Option<&mut Socket>, bytes: &[u8]) -> io::Result<usize> {
    socket.ok_or(ErrorKind::NotConnected)?.write(bytes)
}
