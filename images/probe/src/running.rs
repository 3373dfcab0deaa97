//! Orders under way, by id, so that one order can end another early.
//!
//! Ending is a wish: an order that looks at its [`Stop`] gives its answer soon after, with what it has until then, and
//! says what it left out; one that never looks ends as it would have.

use crate::clock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::Id;

/// Longest sleep before an order looks whether it was ended.
const LOOK_NS: u64 = 20_000_000;

/// Cause of what an order left out because it was ended.
pub const ENDED: &str = "not tried: the order was ended";

/// Whether an order was told to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether it was.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps until the clock shows `at_ns`; `false` if the order was ended before.
    pub fn sleep_until(&self, at_ns: u64) -> bool {
        loop {
            if self.is_set() {
                return false;
            }
            let now_ns = clock::now_ns();
            if now_ns >= at_ns {
                return true;
            }
            // The last part goes to the kernel as it is: looking makes no sleep less exact.
            clock::sleep_until(at_ns.min(now_ns + LOOK_NS));
        }
    }

    /// Tells the order to end.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All orders under way.
#[derive(Debug, Clone, Default)]
pub struct Running(Arc<Mutex<HashMap<Id, Stop>>>);

impl Running {
    /// Enters an order, until the entry is dropped.
    pub fn enter(&self, id: Id) -> Entry {
        let stop = Stop::default();
        self.lock().insert(id, stop.clone());
        Entry {
            id,
            stop,
            running: self.clone(),
        }
    }

    /// Tells an order to end; `false` if it is not under way (any more).
    pub fn stop(&self, id: Id) -> bool {
        self.lock().get(&id).map(Stop::set).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Stop>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One order under way.
#[derive(Debug)]
pub struct Entry {
    id: Id,
    stop: Stop,
    running: Running,
}

impl Entry {
    /// What the order has to look at.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// All orders, this one among them.
    pub fn all(&self) -> &Running {
        &self.running
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.running.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_can_be_ended_while_it_runs_and_not_after() {
        let running = Running::default();
        let entry = running.enter(7);
        assert!(!running.stop(8) && !entry.stop().is_set());
        assert!(running.stop(7) && entry.stop().is_set());
        drop(entry);
        assert!(!running.stop(7));
    }

    #[test]
    fn a_long_sleep_ends_with_its_order() {
        let stop = Stop::default();
        let sleeper = stop.clone();
        let began_ns = clock::now_ns();
        let thread = std::thread::spawn(move || sleeper.sleep_until(began_ns + 600_000_000_000));
        stop.set();
        assert!(!thread.join().unwrap());
        let whole = Stop::default();
        assert!(whole.sleep_until(clock::now_ns() + 3_000_000));
    }
}
