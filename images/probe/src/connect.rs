//! A TCP connection opened, again and again: what a new connection costs before a server has said anything.

use crate::load::{Client, Outcome};
use crate::socket::{DialError, dial, reset};
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::Load;

/// Dials for each operation and closes, untimed, with a reset.
pub struct ConnectClient {
    target: SocketAddrV4,
    limit: Duration,
    /// Of the last connection; nothing was opened without it before the first.
    nodelay: bool,
}

impl Client for ConnectClient {
    type Error = DialError;

    fn open(load: &Load) -> Result<Self, DialError> {
        Ok(Self {
            target: load.target,
            limit: Duration::from_nanos(load.timeout_ns),
            nodelay: true,
        })
    }

    fn nodelay(&self) -> bool {
        self.nodelay
    }

    fn warm(&mut self, i: u32) -> Result<(), DialError> {
        self.perform(i).map(|_| ())
    }

    fn perform(&mut self, _: u32) -> Result<Outcome, DialError> {
        let dialled = dial(self.target, self.limit)?;
        self.nodelay = dialled.nodelay;
        reset(dialled.stream);
        Ok(Outcome {
            started_ns: dialled.began_ns,
            ended_ns: dialled.connected_ns,
            outcome: 0,
        })
    }

    fn breaks(_: &DialError) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use crate::running::Stop;
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener};
    use wire::{Operation, Pace, ProbeAnswer};

    fn load(target: SocketAddrV4) -> Load {
        Load {
            target,
            operation: Operation::Connect,
            connections: 1,
            warmup: 1,
            count: 4,
            for_ns: None,
            pace: Pace::Closed { pause_ns: 0 },
            timeout_ns: 5_000_000_000,
        }
    }

    #[test]
    fn each_operation_is_a_connection_of_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(target) = listener.local_addr().unwrap() else {
            unreachable!("bound to a v4 address")
        };
        let accepted = std::thread::spawn(move || {
            for _ in 0..5 {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(
                    stream.read(&mut [0; 8]).is_err(),
                    "nothing is said, and it ends with a reset"
                );
            }
        });
        let Ok(ProbeAnswer::Samples {
            samples,
            failures,
            nodelay: Some(true),
        }) = load::run::<ConnectClient>(&load(target), &Stop::default())
        else {
            panic!("no samples")
        };
        assert_eq!((samples.len(), failures), (4, vec![]));
        accepted.join().unwrap();
        let refused = load::run::<ConnectClient>(&load(target), &Stop::default()).unwrap_err();
        assert!(refused.to_string().contains("refused"), "{refused}");
    }
}
