//! The way of packets through the relays. A lab has one: all relays take the same.

use super::LinkSeen;
use crate::conditions::not_in_stream_mode;
use crate::lab::{Lab, LabError};
use futures_util::future::{join_all, try_join_all};
use wire::{Mirror, Path, RelayOrder, RelayStatus};

impl Lab {
    /// State of every relay, in the order of the datacenters' names.
    ///
    /// # Errors
    /// A relay failed.
    pub async fn relay_states(&self) -> Result<Vec<RelayStatus>, LabError> {
        let asked = self.relays.values().map(|relay| relay.order(RelayOrder::Show));
        Ok(try_join_all(asked).await?)
    }

    /// Gives all relays the same path. Before stream mode begins, every relay learns the state of the opposite directions.
    /// New settings of stream mode hold for new connections.
    ///
    /// # Errors
    /// Ports of a link are cut, it has a condition that stream mode cannot have, or a relay failed; the others were still ordered.
    pub async fn set_path(&self, path: Path) -> Result<(), LabError> {
        if path != Path::Tun {
            // Each relay refuses its own: they would be left in two modes.
            let links = self.links().await?;
            if let Some(seen) = links.iter().find(|seen| seen.status.port_cut().is_some()) {
                return Err(LabError::PortsCut {
                    link: format!("{}:{}", seen.from, seen.to),
                });
            }
        }
        if matches!(path, Path::Stream(_)) {
            let links = self.links().await?;
            for seen in &links {
                if let Some(key) = not_in_stream_mode(&seen.status.conditions).first() {
                    return Err(LabError::NotInStreamMode {
                        link: format!("{}:{}", seen.from, seen.to),
                        condition: key.as_str(),
                    });
                }
            }
            try_join_all(links.iter().map(|seen| self.mirror(seen))).await?;
        }
        let relays = self.relays.values();
        let ordered = relays.map(|relay| relay.order(RelayOrder::SetPath { path }));
        for outcome in join_all(ordered).await {
            outcome?;
        }
        Ok(())
    }

    /// Tells every relay the state of the directions that lead to it. Changes of a link in stream mode do that by themselves;
    /// a schedule does not.
    ///
    /// # Errors
    /// A relay failed.
    pub async fn mirror_all(&self) -> Result<(), LabError> {
        let links = self.links().await?;
        try_join_all(links.iter().map(|seen| self.mirror(seen))).await?;
        Ok(())
    }

    /// Tells the relay at the far end of a link in which state that is.
    pub(super) async fn mirror(&self, seen: &LinkSeen) -> Result<(), LabError> {
        let mirror = Mirror {
            delay_ns: seen.status.conditions.delay_ns,
            cut: seen.status.cut,
            frozen: seen.status.frozen,
        };
        let to = seen.from.to_string();
        self.relay(&seen.to).order(RelayOrder::Mirror { to, mirror }).await?;
        Ok(())
    }
}
