//! A TCP connection opened, again and again: what a new connection costs before a server has said anything.

use crate::anew::{Anew, Beginning};
use crate::load::Outcome;
use crate::socket::{DialError, dial, reset};
use std::net::SocketAddrV4;
use std::time::Duration;
use wire::Load;

/// A load of connections.
pub type ConnectClient = Anew<Connect>;

/// Dials and closes, untimed, with a reset.
pub struct Connect;

impl Beginning for Connect {
    type Error = DialError;

    fn of(_: &Load) -> Self {
        Self
    }

    fn perform(&self, target: SocketAddrV4, limit: Duration) -> Result<(Outcome, bool), DialError> {
        let dialled = dial(target, limit)?;
        reset(dialled.stream);
        let outcome = Outcome {
            started_ns: dialled.began_ns,
            ended_ns: dialled.connected_ns,
            outcome: 0,
        };
        Ok((outcome, dialled.nodelay))
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
