//! The lab as a block found it, and putting it back: link conditions, the way of packets, settings, who replicates from whom.
//! Keys are the user's own but for those of the block, which must be gone.
//!
//! Putting back does only what differs, so it can follow a block that cleaned up after itself, one that failed and one
//! that was stopped. It ends by looking again: what still differs is an error.

use super::BlockError;
use super::cast::Part;
use super::scene::{SETTLE, Scene};
use crate::lab::LinkSeen;
use std::net::Ipv4Addr;
use wire::Path;

/// Settings that blocks touch. A first synchronisation waits 5 s for more replicas unless told otherwise
/// (`repl-diskless-sync-delay`); a watch needs `notify-keyspace-events`.
const SETTINGS: [&str; 2] = ["notify-keyspace-events", "repl-diskless-sync-delay"];

/// See the top of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsFound {
    /// One-way delay of the link outward and back, nanoseconds.
    pub delays_ns: [u64; 2],
    /// The way of packets.
    pub path: Path,
    servers: Vec<ServerFound>,
}

/// A server as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ServerFound {
    part: Part,
    upstream: Option<Ipv4Addr>,
    settings: Vec<(&'static str, String)>,
}

impl AsFound {
    /// Looks at the lab, once all replicas are in sync.
    pub async fn look(scene: &Scene<'_>) -> Result<Self, BlockError> {
        let links = scene.links().await?;
        for link in &links {
            if let Some(state) = closed(link) {
                return Err(BlockError::FoundClosed {
                    from: link.from.to_string(),
                    to: link.to.to_string(),
                    state,
                });
            }
        }
        scene.in_sync(&scene.cast.replicas()).await?;
        Self::snapshot(scene, &links).await
    }

    async fn snapshot(scene: &Scene<'_>, links: &[LinkSeen; 2]) -> Result<Self, BlockError> {
        let mut servers = Vec::new();
        for part in scene.cast.caches() {
            let mut settings = Vec::new();
            for name in SETTINGS {
                if let Some(value) = scene.setting(part, name).await? {
                    settings.push((name, value));
                }
            }
            servers.push(ServerFound {
                part: part.clone(),
                upstream: scene.replication(part).await?.upstream,
                settings,
            });
        }
        Ok(Self {
            delays_ns: links.each_ref().map(|link| link.status.conditions.delay_ns),
            // A lab has one.
            path: links[0].path,
            servers,
        })
    }

    /// Delay of the link for a block that does not vary it: the larger of the two directions.
    #[must_use]
    pub fn delay_ns(&self) -> u64 {
        self.delays_ns[0].max(self.delays_ns[1])
    }

    /// Gives a setting of a server a value for the time of the block.
    pub async fn set(scene: &Scene<'_>, part: &Part, name: &str, value: &str) -> Result<(), BlockError> {
        debug_assert!(SETTINGS.contains(&name), "{name} would not be put back");
        scene.command(part, &["CONFIG", "SET", name, value]).await?;
        Ok(())
    }

    /// Puts the link and the replicas back, so that the block can remove what it wrote.
    pub async fn put_topology_back(&self, scene: &mut Scene<'_>) -> Result<(), BlockError> {
        self.put_link_back(scene).await?;
        for server in &self.servers {
            if scene.replication(&server.part).await?.upstream != server.upstream {
                match server.upstream {
                    Some(_) => scene.attach(&server.part).await?,
                    None => scene.promote(&server.part).await?,
                }
            }
        }
        let replicas = scene.cast.replicas();
        scene.in_sync(&replicas).await?;
        if scene.links().await?.iter().any(|link| link.path != self.path) {
            scene.take_path(self.path, &replicas).await?;
        }
        Ok(())
    }

    /// Puts the settings back.
    pub async fn put_settings_back(&self, scene: &mut Scene<'_>) -> Result<(), BlockError> {
        for server in &self.servers {
            for (name, value) in &server.settings {
                if scene.setting(&server.part, name).await?.as_ref() != Some(value) {
                    scene.command(&server.part, &["CONFIG", "SET", name, value]).await?;
                }
            }
        }
        Ok(())
    }

    /// Looks whether the lab is as it was found and none of these keys is left anywhere.
    ///
    /// # Errors
    /// Something differs.
    pub async fn check(&self, scene: &Scene<'_>, keys: &[String]) -> Result<(), BlockError> {
        scene.in_sync(&scene.cast.replicas()).await?;
        let links = scene.links().await?;
        let now = Self::snapshot(scene, &links).await?;
        let mut differences = self.differences(&now);
        for link in &links {
            if let Some(state) = closed(link) {
                differences.push(format!("the link from {} to {} is {state}", link.from, link.to));
            }
        }
        for server in &self.servers {
            let left = scene.existing_keys(&server.part, keys).await?;
            if left > 0 {
                differences.push(format!("{left} keys of the block are left on {}", server.part.node));
            }
        }
        if differences.is_empty() {
            return Ok(());
        }
        Err(BlockError::NotSeen {
            wanted: "the lab as it was found".to_owned(),
            limit: SETTLE,
            seen: differences.join(", "),
        })
    }

    async fn put_link_back(&self, scene: &mut Scene<'_>) -> Result<(), BlockError> {
        let links = scene.links().await?;
        if links.iter().any(|link| closed(link).is_some()) {
            scene.heal("put back").await?;
        }
        if links.each_ref().map(|link| link.status.conditions.delay_ns) == self.delays_ns {
            return Ok(());
        }
        for (link, delay_ns) in links.iter().zip(self.delays_ns) {
            let changed = scene.lab.set_delay(&link.from, &link.to, delay_ns).await?;
            scene.link_changed(&[changed])?;
        }
        let link = scene.cast.link();
        scene.fault(format!("set {link} as it was found"))
    }

    fn differences(&self, now: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.path != now.path {
            found.push(format!("path {:?} instead of {:?}", now.path, self.path));
        }
        if self.delays_ns != now.delays_ns {
            found.push(format!("delays {:?} ns instead of {:?}", now.delays_ns, self.delays_ns));
        }
        for (was, is) in self.servers.iter().zip(&now.servers) {
            let node = &was.part.node;
            if was.upstream != is.upstream {
                found.push(format!(
                    "{node} follows {:?} instead of {:?}",
                    is.upstream, was.upstream
                ));
            }
            if was.settings != is.settings {
                found.push(format!("{node} has {:?} instead of {:?}", is.settings, was.settings));
            }
        }
        found
    }
}

/// Why nothing passes a link, or not everything, if so.
pub(super) fn closed(link: &LinkSeen) -> Option<String> {
    match (link.status.cut.is_some(), link.status.frozen) {
        (true, _) => Some("cut".to_owned()),
        (_, true) => Some("frozen".to_owned()),
        _ => link.only.as_ref().map(|only| format!("cut ({only})")),
    }
}
