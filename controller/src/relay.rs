//! Client of a relay: orders out, its own answers back, over the container's stdin and stdout (see `channel`).
//! Cheap to clone, callable concurrently; dropping the last clone detaches and leaves the relay as it is.

use crate::channel::{Channel, ChannelError};
use crate::docker::EngineHandle;
use std::net::SocketAddrV4;
use std::time::Duration;
use tokio::time::Instant;
use wire::{Captured, FromRelay, RelayAnswer, RelayOrder, RelayStatus, ToRelay};

/// Limit of one order: a relay answers in well under a millisecond, a busy host gets the rest.
const ORDER: Duration = Duration::from_secs(5);

/// A relay that can be given orders.
#[derive(Clone)]
pub struct RelayClient {
    channel: Channel,
}

impl RelayClient {
    /// Attaches to a relay's container; the relay may still be starting.
    ///
    /// # Errors
    /// The engine refused, or was silent until `deadline`.
    pub async fn attach(engine: EngineHandle, container: &str, deadline: Duration) -> Result<Self, ChannelError> {
        Ok(Self {
            channel: Channel::attach(engine, container, deadline).await?,
        })
    }

    /// Gives an order; the relay's state right after it.
    ///
    /// # Errors
    /// The relay refused it, ended, or did not answer in time.
    pub async fn order(&self, order: RelayOrder) -> Result<RelayStatus, ChannelError> {
        self.order_within(order, ORDER).await
    }

    /// As [`order`](Self::order) with another limit: the first order also waits for the relay's start.
    ///
    /// # Errors
    /// The relay refused it, ended, or did not answer in time.
    pub async fn order_within(&self, order: RelayOrder, limit: Duration) -> Result<RelayStatus, ChannelError> {
        let answer = self.ask(order, limit, |answer| match answer {
            RelayAnswer::Status(status) => Some(*status),
            RelayAnswer::Captured(_) | RelayAnswer::Flows(_) => None,
        });
        answer.await
    }

    /// Takes away what the relay captured on its link to `to` since the last time.
    ///
    /// # Errors
    /// No capture is going on, or the relay ended, or did not answer in time.
    pub async fn take_captured(&self, to: &str, most_bytes: u32) -> Result<Captured, ChannelError> {
        let order = RelayOrder::TakeCapture {
            to: to.to_owned(),
            most_bytes,
        };
        let answer = self.ask(order, ORDER, |answer| match answer {
            RelayAnswer::Captured(captured) => Some(captured),
            RelayAnswer::Status(_) | RelayAnswer::Flows(_) => None,
        });
        answer.await
    }

    /// TCP connections that the relay's link to `to` knows, the end in its datacenter first.
    ///
    /// # Errors
    /// The relay ended, or did not answer in time.
    pub async fn flows(&self, to: &str) -> Result<Vec<(SocketAddrV4, SocketAddrV4)>, ChannelError> {
        let order = RelayOrder::Flows { to: to.to_owned() };
        let answer = self.ask(order, ORDER, |answer| match answer {
            RelayAnswer::Flows(flows) => Some(flows),
            RelayAnswer::Status(_) | RelayAnswer::Captured(_) => None,
        });
        answer.await
    }

    /// Gives an order and waits for the answer that is `wanted`.
    async fn ask<T>(
        &self,
        order: RelayOrder,
        limit: Duration,
        wanted: impl FnOnce(RelayAnswer) -> Option<T>,
    ) -> Result<T, ChannelError> {
        let deadline = Instant::now() + limit;
        let id = fastrand::u64(..);
        let shown = serde_json::to_string(&order).expect("an order is always JSON");
        let line = serde_json::to_string(&ToRelay { id, order }).expect("an order is always JSON");
        let mut pending = self.channel.send(id, shown, line, deadline).await?;
        let answer = pending.next(deadline).await?;
        match serde_json::from_str::<FromRelay>(&answer).map(|answer| answer.result) {
            Ok(Ok(told)) => wanted(told).ok_or_else(|| pending.strange(&answer)),
            Ok(Err(cause)) => Err(pending.refused(cause)),
            Err(_) => Err(pending.strange(&answer)),
        }
    }
}
