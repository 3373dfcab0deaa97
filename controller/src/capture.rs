//! Packet captures of links: orders to the relays and what they tell, into one file (see `trace` for its order).
//!
//! A relay keeps copies in a bounded room and drops newcomers; this takes them away several times a second. What must stay
//! true: a capture that was begun is ended on every path, failures included. If this program is killed, the relays end
//! the capture themselves, ten seconds after they were last asked.

mod trace;

pub use trace::{Counts, Direction};

use crate::channel::ChannelError;
use crate::lab::{Lab, LabError};
use crate::names::DatacenterName;
use crate::relay::RelayClient;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use trace::{Seen, Trace};
use wire::{Captured, RelayOrder};

/// Between two looks. A relay's room of 8 MiB holds what 1 Gbit/s sends in half of it, twice: at arrival and departure.
const PAUSE: Duration = Duration::from_millis(50);
/// Most bytes of packets in one answer: a relay answers no other order while it writes one.
const PORTION_BYTES: u32 = 1 << 20;
/// Most portions of one link in one look: more than a relay has room for, so that a look takes all that was there when it
/// began, and bounded, so that a busy link does not keep the others waiting.
const PORTIONS: usize = 16;

/// Why a capture could not be begun, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is no such link, or its relay failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Somebody else captures the link.
    #[error("capture {from}:{to}: it is being captured already")]
    GoingOn {
        /// Sending side.
        from: DatacenterName,
        /// Receiving side.
        to: DatacenterName,
    },
    /// A relay refused, or failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A relay told of a packet in a way that is not ours.
    #[error("read a packet that the relay of {datacenter} captured: {cause}")]
    Packet {
        /// The relay's datacenter.
        datacenter: DatacenterName,
        /// What is wrong with its bytes.
        cause: base64::DecodeError,
    },
    /// The file could not be written.
    #[error("write the capture: {0}")]
    Write(#[from] std::io::Error),
}

/// A capture that is going on. It must be followed, or ended: nobody else ends it.
#[must_use = "the relays go on until it is ended"]
pub struct Capture {
    taps: Vec<Tap>,
    trace: Trace,
    /// What the file has not got yet.
    bytes: Vec<u8>,
}

/// A directed link that is captured.
struct Tap {
    from: DatacenterName,
    to: DatacenterName,
    relay: RelayClient,
}

impl Capture {
    /// Begins to capture the first `snap_bytes` of each packet on these directed links of a lab.
    ///
    /// # Errors
    /// There is no such link, a capture of it is going on already, or a relay failed. Nothing is left captured.
    pub async fn begin(
        lab: &Lab,
        links: &[(&DatacenterName, &DatacenterName)],
        snap_bytes: u32,
    ) -> Result<Self, CaptureError> {
        for &(from, to) in links {
            if lab.link(from, to).await?.status.capturing {
                return Err(CaptureError::GoingOn {
                    from: from.clone(),
                    to: to.clone(),
                });
            }
        }
        let mut taps: Vec<Tap> = Vec::new();
        let mut directions: Vec<Direction> = Vec::new();
        for &(from, to) in links {
            let tap = Tap {
                from: from.clone(),
                to: to.clone(),
                relay: lab.relay(from).clone(),
            };
            let began_ns = match tap.begin(snap_bytes).await {
                Ok(epoch_ns) => epoch_ns,
                Err(error) => {
                    // What is reported is why it could not begin.
                    let _ = end(&taps).await;
                    return Err(error.into());
                }
            };
            // Relays of one engine have one clock: what two measurements of it differ by would put packets out of order.
            let known = directions.iter().find(|known| lab.share_engine(&known.from, from));
            directions.push(Direction {
                from: from.clone(),
                to: to.clone(),
                epoch_ns: known.map_or(began_ns, |known| known.epoch_ns),
            });
            taps.push(tap);
        }
        let named: Vec<String> = links.iter().map(|(from, to)| format!("{from}:{to}")).collect();
        let subject = format!("Links {} of lab {}", named.join(", "), lab.name());
        let mut bytes = Vec::new();
        let trace = Trace::begin(directions, &subject, snap_bytes, &mut bytes);
        Ok(Self { taps, trace, bytes })
    }

    /// Writes what the links see to `file` until `until` is ready, whose value it returns. The capture is ended whatever
    /// happens; what is in the file can be read even if it failed.
    ///
    /// # Errors
    /// A relay failed, or the file could not be written.
    pub async fn follow<T>(
        &mut self,
        file: &mut (impl AsyncWrite + Unpin),
        until: impl Future<Output = T>,
    ) -> Result<T, CaptureError> {
        let followed = self.rounds(file, until).await;
        let ended = end(&self.taps).await;
        self.trace.end(&mut self.bytes);
        let written = self.write(file).await;
        let value = followed?;
        ended?;
        written?;
        Ok(value)
    }

    /// Ends a capture that nobody follows.
    ///
    /// # Errors
    /// A relay failed; the others were still told.
    pub async fn end(self) -> Result<(), CaptureError> {
        Ok(end(&self.taps).await?)
    }

    /// What is in the file of each link.
    pub fn counts(&self) -> impl Iterator<Item = (&Direction, &Counts)> {
        self.trace.counts()
    }

    async fn rounds<T>(
        &mut self,
        file: &mut (impl AsyncWrite + Unpin),
        until: impl Future<Output = T>,
    ) -> Result<T, CaptureError> {
        let mut until = std::pin::pin!(until);
        self.write(file).await?;
        loop {
            // A round is never broken off: what a relay has told once it does not tell again.
            let over = tokio::select! {
                biased;
                value = &mut until => Some(value),
                () = tokio::time::sleep(PAUSE) => None,
            };
            self.round().await?;
            self.write(file).await?;
            if let Some(value) = over {
                return Ok(value);
            }
        }
    }

    /// One look at every link.
    async fn round(&mut self) -> Result<(), CaptureError> {
        let takes = self.taps.iter().map(Tap::take);
        let taken = futures_util::future::try_join_all(takes).await?;
        for (direction, portions) in taken.into_iter().enumerate() {
            for portion in portions {
                let datacenter = &self.taps[direction].from;
                let packets = portion.packets.into_iter().map(|packet| seen(packet, datacenter));
                let packets = packets.collect::<Result<Vec<_>, _>>()?;
                self.trace.hear(direction, packets, portion.lost);
            }
        }
        self.trace.end_round(&mut self.bytes);
        Ok(())
    }

    async fn write(&mut self, file: &mut (impl AsyncWrite + Unpin)) -> Result<(), std::io::Error> {
        if !self.bytes.is_empty() {
            file.write_all(&self.bytes).await?;
            file.flush().await?;
            self.bytes.clear();
        }
        Ok(())
    }
}

impl Tap {
    /// Begins; what makes nanoseconds since 1970 of the relay's times.
    async fn begin(&self, snap_bytes: u32) -> Result<u64, ChannelError> {
        let order = RelayOrder::Capture {
            to: self.to.to_string(),
            snap_bytes: Some(snap_bytes),
        };
        let before = SystemTime::now();
        let status = self.relay.order(order).await?;
        let halfway = before + before.elapsed().unwrap_or_default() / 2;
        let halfway = halfway.duration_since(UNIX_EPOCH).unwrap_or_default();
        let halfway_ns = u64::try_from(halfway.as_nanos()).unwrap_or(u64::MAX);
        Ok(halfway_ns.saturating_sub(status.now_ns))
    }

    /// What there is, in portions.
    async fn take(&self) -> Result<Vec<Captured>, ChannelError> {
        let mut portions = Vec::new();
        while portions.len() < PORTIONS && portions.last().is_none_or(|last: &Captured| last.more) {
            portions.push(self.relay.take_captured(self.to.as_str(), PORTION_BYTES).await?);
        }
        Ok(portions)
    }
}

/// Ends all, whatever becomes of the others.
async fn end(taps: &[Tap]) -> Result<(), ChannelError> {
    let ends = taps.iter().map(|tap| {
        tap.relay.order(RelayOrder::Capture {
            to: tap.to.to_string(),
            snap_bytes: None,
        })
    });
    let ended = futures_util::future::join_all(ends).await;
    ended.into_iter().try_for_each(|ended| ended.map(drop))
}

fn seen(packet: wire::CapturedPacket, datacenter: &DatacenterName) -> Result<Seen, CaptureError> {
    let bytes = STANDARD.decode(&packet.bytes).map_err(|cause| CaptureError::Packet {
        datacenter: datacenter.clone(),
        cause,
    })?;
    Ok(Seen {
        at_ns: packet.at_ns,
        fate: packet.fate,
        length: packet.length,
        bytes,
    })
}
