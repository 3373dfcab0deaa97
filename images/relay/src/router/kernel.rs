//! What the data path asks of the kernel besides packets: the time, a precise sleep that an order can end, the
//! best scheduling class to be had, and the signals that end the relay.

#![allow(
    unsafe_code,
    reason = "clock, ppoll, eventfd, scheduling and signals have no safe wrapper in std"
)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::{from_ref, null, null_mut};
use std::sync::Arc;

const NANOSECONDS: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which `now` is. The clock exists on every Linux, so that the call
    // cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * NANOSECONDS + now.tv_nsec.cast_unsigned()
}

/// Wakes the data path. Clones ring the same bell.
#[derive(Debug, Clone)]
pub struct Alarm {
    event: Arc<File>,
}

impl Alarm {
    /// A silent alarm.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointer is passed.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and nothing else owns it.
        let event = unsafe { File::from_raw_fd(descriptor) };
        Ok(Self { event: Arc::new(event) })
    }

    /// End the sleep, or the next one if none is going on.
    pub fn ring(&self) {
        // It can only fail when the counter is full, and then the bell is ringing already.
        let _ = (&*self.event).write(&1u64.to_ne_bytes());
    }

    /// Sleep until `device` or `timer` can be read, the alarm is rung, or `span_ns` has passed (`None`: for ever). A signal
    /// counts as a ring.
    pub fn wait(&self, device: &File, timer: Option<&File>, span_ns: Option<u64>) -> io::Result<Ended> {
        let watch = |file: Option<&File>| libc::pollfd {
            // The kernel passes over what is negative.
            fd: file.map_or(-1, AsRawFd::as_raw_fd),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut watched = [watch(Some(device)), watch(Some(&self.event)), watch(timer)];
        let span = span_ns.map(timespec);
        let span = span.as_ref().map_or(null(), from_ref);
        // SAFETY: `watched` and what `span` points to live through the call (null is no limit), the length is that of
        // `watched`, and a null mask leaves the signals as they are.
        let result = unsafe { libc::ppoll(watched.as_mut_ptr(), 3, span, null()) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted {
                Ok(Ended::Event)
            } else {
                Err(error)
            };
        }
        if watched[1].revents != 0 {
            // Silence it; that it was silent already is no error.
            let _ = (&*self.event).read(&mut [0; 8]);
        }
        Ok(match result {
            0 => Ended::Time,
            _ if watched[2].revents != 0 => Ended::Timer,
            _ => Ended::Event,
        })
    }
}

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its time had passed.
    Time,
    /// A packet came, or a ring.
    Event,
    /// The timer can be read, whatever else there is.
    Timer,
}

/// Sleep so long, whatever comes; a signal ends it.
pub fn nap(span_ns: u64) {
    let span = timespec(span_ns);
    // SAFETY: `span` lives through the call, and null is allowed for what is left of it.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const span, null_mut()) };
}

pub(super) fn timespec(span_ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (span_ns / NANOSECONDS).cast_signed(),
        tv_nsec: (span_ns % NANOSECONDS).cast_signed(),
    }
}

/// Let the allocator keep what the data path gives back, up to 64 MiB. By default it returns memory as soon as 128
/// KiB are free at the end and faults it in again for the next packet, a tenth of the processor time of bulk
/// traffic.
pub fn keep_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointer is passed; the allocator takes its own lock.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
    }
}

/// Give the calling thread the best scheduling that the kernel grants, and timers without slack; returns the
/// name of the class. Under load only a deadline keeps the error of a delay below a millisecond.
pub fn schedule() -> &'static str {
    // SAFETY: no pointer is passed; 1 ns is the smallest slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    if set_deadline() {
        return "deadline";
    }
    // SAFETY: no pointer is passed; 0 is the calling thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    if result == 0 { "nice -20" } else { "other" }
}

/// Give back a deadline: the thread has the best priority of the ordinary class from now on.
pub fn relax() {
    const SCHED_OTHER: u32 = 0;
    // That it is refused leaves the thread as it was, which is dearer and no less true.
    set_attributes(SCHED_OTHER, 0, -20, 0);
}

/// `struct sched_attr` in its first version.
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Budgets that are tried, the largest first: time in each millisecond. All of a machine's are promised together, 0.9 of
/// each core at most. More would not make a delay truer, but refuse the third relay of two cores.
const BUDGETS_NS: [u64; 3] = [200_000, 100_000, 50_000];

/// Refused without SYS_NICE, in a cpuset, and when the cores are promised already.
fn set_deadline() -> bool {
    const SCHED_DEADLINE: u32 = 6;
    // What others were promised and do not use may be used too. Without it a relay that is busy for longer than its
    // budget is put to sleep; a sleep of 8 ms was seen where the kernel counts by ticks of four.
    const RECLAIM: u64 = 2;
    BUDGETS_NS
        .iter()
        .any(|budget_ns| set_attributes(SCHED_DEADLINE, RECLAIM, 0, *budget_ns))
}

/// Class of the calling thread, with the budget in each millisecond where the class has one; returns whether it was
/// granted.
fn set_attributes(policy: u32, flags: u64, nice: i32, budget_ns: u64) -> bool {
    let span_ns = if budget_ns == 0 { 0 } else { 1_000_000 };
    let attributes = SchedulingAttributes {
        size: 48,
        policy,
        flags,
        nice,
        priority: 0,
        runtime_ns: budget_ns,
        deadline_ns: span_ns,
        period_ns: span_ns,
    };
    // SAFETY: the kernel reads `size` bytes of `attributes`, which has that size and lives through the call; 0 is the
    // calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// SIGTERM and SIGINT, held back from every thread that is started after this. The first process of a container
/// gets no default action, so without this a stop would take ten seconds.
pub struct EndSignals {
    set: libc::sigset_t,
}

impl EndSignals {
    /// Hold the signals back in the calling thread and its future children.
    pub fn hold() -> Self {
        // SAFETY: sigset_t is plain old data; sigemptyset makes it valid before anything else reads it, and all
        // pointers are to a live value of the right type or null where that is allowed.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, null_mut());
            Self { set }
        }
    }

    /// Sleep until one of them comes.
    pub fn wait(&self) {
        let mut signal = 0;
        // SAFETY: both pointers are to live values of the right type. The only error is a set with an invalid
        // signal, and `hold` made this one.
        unsafe { libc::sigwait(&raw const self.set, &raw mut signal) };
    }
}
