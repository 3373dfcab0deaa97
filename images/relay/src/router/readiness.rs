//! Keeps the cores of the machine from falling asleep while packets are under way: what a core takes to wake from its idle
//! states is the largest part of the error of a delay on an idle machine, in the relay and in everything behind it. The
//! kernel's interface for this is the one that latency tests use: whoever holds its device open says how slow a wake-up may
//! be, for the whole machine, and the wish ends with the process.
//!
//! Without the device, or without the right to it, nothing is asked for, and the status says so. A core that is kept awake
//! takes power and, in a virtual machine, time of its host; so the wish ends shortly after the last packet.

#![allow(unsafe_code, reason = "timerfd has no safe wrapper in std")]

use super::kernel::timespec;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::null_mut;
use wire::AWAKE_DEVICE;

/// How long the wish outlasts the last packet: a client that pauses for less meets a machine that is awake at every delay.
const LINGER_NS: u64 = 25_000_000;
/// No wish: longer than any wake-up.
const NO_WISH_US: i32 = 2_000_000_000;

/// The wish of this process.
#[derive(Debug)]
pub struct Readiness {
    /// The device while it is not refused, and what ends the wish: a timer that is set some forty times a second at most,
    /// since setting one costs more than to carry a packet.
    granted: Option<(File, File)>,
    wished: bool,
    last_ns: u64,
}

impl Readiness {
    /// Without a wish yet, on a kernel that may not grant one.
    pub fn open() -> Self {
        let granted = OpenOptions::new().write(true).open(AWAKE_DEVICE).and_then(|device| {
            wish(&device, NO_WISH_US)?;
            Ok((device, timer()?))
        });
        Self {
            granted: granted.ok(),
            wished: false,
            last_ns: 0,
        }
    }

    /// Whether the kernel takes wishes.
    pub fn is_granted(&self) -> bool {
        self.granted.is_some()
    }

    /// What can be read when `review` is due.
    pub fn timer(&self) -> Option<&File> {
        self.granted.as_ref().map(|(_, timer)| timer)
    }

    /// Packets are under way at `now_ns`.
    pub fn keep(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
        if self.wished {
            return;
        }
        if let Some((device, timer)) = &self.granted {
            if wish(device, 0).and_then(|()| set(timer, LINGER_NS)).is_ok() {
                self.wished = true;
            } else {
                // Closing the device ends any wish.
                self.granted = None;
            }
        }
    }

    /// The timer can be read: ends the wish if it has outlasted the last packet.
    pub fn review(&mut self, now_ns: u64) {
        let Some((device, timer)) = &self.granted else { return };
        // Silence it; that it was silent already is no error.
        let _ = (&mut &*timer).read(&mut [0; 8]);
        let left_ns = LINGER_NS.saturating_sub(now_ns.saturating_sub(self.last_ns));
        let done = if left_ns > 0 {
            set(timer, left_ns)
        } else {
            self.wished = false;
            wish(device, NO_WISH_US)
        };
        if done.is_err() {
            self.granted = None;
            self.wished = false;
        }
    }
}

fn timer() -> io::Result<File> {
    // SAFETY: no pointer is passed.
    let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

fn set(timer: &File, span_ns: u64) -> io::Result<()> {
    let span = libc::itimerspec {
        it_interval: timespec(0),
        it_value: timespec(span_ns),
    };
    // SAFETY: `span` lives through the call, and null is allowed for the span before.
    let result = unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const span, null_mut()) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Slowest wake-up that is wished for, microseconds.
fn wish(mut device: &File, us: i32) -> io::Result<()> {
    device.write_all(&us.to_ne_bytes())
}
