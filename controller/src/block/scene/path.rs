//! The way of packets through the relays while a block runs. What was dialled on one way does not go on on another: stream
//! mode ends what it terminates, and terminates only what is dialled after it began, with the settings of that moment. So a
//! replica across the link is detached before a change and dials anew after it, and the primary has heard of the one before
//! the other begins: a connection whose end never reached it would be kept for its timeout of a minute.

use super::Scene;
use crate::block::found::AsFound;
use crate::block::{BlockError, Part};
use wire::{Nodelay, Path, RelayOrder, RelayStatus, StreamOrder, StreamSettings};

impl Scene<'_> {
    /// Takes another way with only these replicas attached, and waits until they are in sync over it.
    pub async fn take_path(&mut self, path: Path, attached: &[&Part]) -> Result<(), BlockError> {
        let home = &self.cast.home;
        let (beside, across): (Vec<&Part>, Vec<&Part>) =
            attached.iter().partition(|replica| replica.datacenter == *home);
        // The primary would wait 5 s for further replicas before it synchronises one.
        AsFound::set(self, &self.cast.primary, "repl-diskless-sync-delay", "0").await?;
        for replica in &across {
            self.promote(replica).await?;
        }
        self.in_sync(&beside).await?;
        self.set_path(path).await?;
        for replica in &across {
            self.attach(replica).await?;
        }
        self.in_sync(attached).await?;
        Ok(())
    }

    /// Takes another way. What is dialled may have to be dialled anew, see the top of the file.
    pub async fn set_path(&mut self, path: Path) -> Result<(), BlockError> {
        self.lab.set_path(path).await?;
        let links = self.links().await?;
        self.link_changed(&links)?;
        self.fault(format!("path {}", words(path)))
    }

    /// State of the relays of both ends, that of the primary's datacenter first.
    pub async fn relays(&self) -> Result<[RelayStatus; 2], BlockError> {
        let [home, away] = [&self.cast.home, &self.cast.away].map(|datacenter| self.lab.relay(datacenter));
        Ok(tokio::try_join!(home.order(RelayOrder::Show), away.order(RelayOrder::Show))?.into())
    }
}

/// `stream pipelined nodelay=off`.
fn words(path: Path) -> String {
    let StreamSettings { order, nodelay } = match path {
        Path::Tun => return "tun".to_owned(),
        Path::Kernel => return "kernel".to_owned(),
        Path::Stream(settings) => settings,
    };
    let order = match order {
        StreamOrder::Pipelined => "pipelined",
        StreamOrder::Serialising => "serialising",
    };
    let nodelay = match nodelay {
        Nodelay::On => "on",
        Nodelay::Off => "off",
        Nodelay::NearLeg => "near-leg",
        Nodelay::FarLeg => "far-leg",
    };
    format!("stream {order} nodelay={nodelay}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_said_in_words() {
        assert_eq!(words(Path::Kernel), "kernel");
        let settings = StreamSettings {
            order: StreamOrder::Serialising,
            nodelay: Nodelay::FarLeg,
        };
        assert_eq!(words(Path::Stream(settings)), "stream serialising nodelay=far-leg");
    }
}
