//! The wish to stop: SIGINT, SIGTERM and SIGHUP as a value that waits can be raced against, so that every path ends in an
//! orderly teardown. The second signal ends the process at once and says how to clean up by hand.

use crate::exit::ExitCode;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Which signal asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, Ctrl-C.
    Interrupt,
    /// SIGTERM, or SIGHUP.
    Terminate,
}

impl Signal {
    /// Exit code of a command that was stopped by it, after teardown.
    #[must_use]
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Interrupt => ExitCode::Interrupted,
            Self::Terminate => ExitCode::Terminated,
        }
    }
}

/// Whether the user wants the command to stop. Cheap to clone.
#[derive(Clone)]
pub struct Stop {
    asked: watch::Receiver<Option<Signal>>,
    advice: Arc<Mutex<String>>,
}

/// The hand that asks a [`Stop`] to stop, for tests and for commands that stop for reasons of their own.
pub struct Brake {
    ask: watch::Sender<Option<Signal>>,
}

impl Stop {
    /// Listens for signals from now on; the process no longer dies of the first one.
    ///
    /// # Errors
    /// The signals cannot be listened for.
    pub fn on_signals() -> std::io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // The terminal was closed: what is being made still has to go.
        let mut hangup = signal(SignalKind::hangup())?;
        let (brake, stop) = Self::by_hand();
        let advice = Arc::clone(&stop.advice);
        tokio::spawn(async move {
            loop {
                let asked = tokio::select! {
                    _ = interrupt.recv() => Signal::Interrupt,
                    _ = terminate.recv() => Signal::Terminate,
                    _ = hangup.recv() => Signal::Terminate,
                };
                if brake.ask.borrow().is_some() {
                    let advice = advice.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let hint = if advice.is_empty() {
                        advice
                    } else {
                        format!("hint: {advice}\n")
                    };
                    // Whether anybody can read it or not.
                    let _gone = write!(std::io::stderr(), "stopped at once, without teardown\n{hint}");
                    std::process::exit(asked.exit_code().number().into());
                }
                brake.ask(asked);
            }
        });
        Ok(stop)
    }

    /// One that only its [`Brake`] asks to stop; it never stops once the brake is gone.
    #[must_use]
    pub fn by_hand() -> (Brake, Self) {
        let (ask, asked) = watch::channel(None);
        let advice = Arc::default();
        (Brake { ask }, Self { asked, advice })
    }

    /// One that never stops.
    #[must_use]
    pub fn never() -> Self {
        Self::by_hand().1
    }

    /// What the second signal prints as the next step, e.g. the `down` command of a lab that is being made.
    pub fn advise(&self, advice: impl Into<String>) {
        *self.advice.lock().unwrap_or_else(PoisonError::into_inner) = advice.into();
    }

    /// Who asked, if anybody did.
    #[must_use]
    pub fn asked(&self) -> Option<Signal> {
        *self.asked.borrow()
    }

    /// Waits until somebody asks.
    pub async fn stopped(&self) -> Signal {
        let mut asked = self.asked.clone();
        let signal = asked.wait_for(Option::is_some).await.ok().and_then(|signal| *signal);
        match signal {
            Some(signal) => signal,
            // Nobody is left who could ask.
            None => std::future::pending().await,
        }
    }
}

impl Brake {
    /// Asks to stop.
    pub fn ask(&self, signal: Signal) {
        self.ask.send_replace(Some(signal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stop_tells_who_asked_and_goes_on_telling() {
        let (brake, stop) = Stop::by_hand();
        assert_eq!(stop.asked(), None);
        brake.ask(Signal::Terminate);
        assert_eq!(stop.stopped().await, Signal::Terminate);
        assert_eq!(stop.asked(), Some(Signal::Terminate));
        drop(brake);
        assert_eq!(stop.stopped().await, Signal::Terminate);
    }

    #[tokio::test]
    async fn a_stop_without_brake_never_stops() {
        let stop = Stop::never();
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), stop.stopped()).await;
        assert!(waited.is_err());
    }
}
