//! A cluster as a block found it, and putting it back: link, settings, every node in its place. Keys are the user's own but for
//! those of the block, which must be gone.

use super::found::AsFound;
use super::scene::{SETTLE, Scene};
use super::{Block, BlockError, Member, Method, halves, reads_when_down};
use crate::lab::LinkSeen;
use wire::Path;

/// Settings that blocks touch, put back afterwards.
const TOUCHED: [&str; 4] = [
    "cluster-require-full-coverage",
    "cluster-allow-reads-when-down",
    "cluster-replica-validity-factor",
    "repl-ping-replica-period",
];
/// Settings that could decide and are told.
const DECIDING: [&str; 5] = [
    "cluster-require-full-coverage",
    "cluster-allow-reads-when-down",
    "cluster-replica-validity-factor",
    "repl-ping-replica-period",
    "cluster-allow-replica-migration",
];

/// See the top of the file.
#[derive(Debug, Clone)]
pub struct Formed {
    /// `cluster-node-timeout`, milliseconds.
    pub node_timeout_ms: u64,
    /// The way of packets.
    pub path: Path,
    delays_ns: [u64; 2],
    /// Per node the settings that are touched.
    settings: Vec<Vec<(&'static str, String)>>,
}

/// The lab as a block found it.
#[derive(Debug)]
pub enum Found {
    /// A primary with its replicas.
    Set(AsFound),
    /// A cluster.
    Cluster(Formed),
}

/// The steps of a block on a cluster.
pub async fn measure(block: Block, scene: &mut Scene<'_>, formed: &Formed) -> Result<(), BlockError> {
    if formed.path != Path::Tun {
        scene.set_path(Path::Tun).await?;
    }
    match block {
        Block::ReadsWhenDown => reads_when_down::measure(scene, formed).await,
        _ => halves::measure(block, scene, formed).await,
    }
}

impl Formed {
    /// Looks at the lab, once every node sits in its place. Nothing is changed.
    pub async fn look(scene: &Scene<'_>) -> Result<Self, BlockError> {
        let links = scene.links().await?;
        for link in &links {
            if let Some(state) = super::found::closed(link) {
                return Err(BlockError::FoundClosed {
                    from: link.from.to_string(),
                    to: link.to.to_string(),
                    state,
                });
            }
        }
        let members = scene.members();
        scene.seated(&members).await?;
        let count = halves::keys_left(scene, &members).await?;
        if count > 0 {
            return Err(BlockError::Occupied {
                count: i64::try_from(count).unwrap_or(i64::MAX),
                server: "the cluster".to_owned(),
            });
        }
        Self::snapshot(scene, &members, &links).await
    }

    async fn snapshot(scene: &Scene<'_>, members: &[Member], links: &[LinkSeen; 2]) -> Result<Self, BlockError> {
        let mut settings = Vec::new();
        for member in members {
            let mut own = Vec::new();
            for name in TOUCHED {
                if let Some(value) = scene.setting(&member.part, name).await? {
                    own.push((name, value));
                }
            }
            settings.push(own);
        }
        let timeout = scene.setting(&members[0].part, "cluster-node-timeout").await?;
        let timeout_ms = timeout.as_ref().and_then(|value| value.parse().ok());
        Ok(Self {
            node_timeout_ms: timeout_ms.ok_or_else(|| BlockError::Refused {
                server: members[0].part.shown(),
                command: "CONFIG GET cluster-node-timeout".to_owned(),
                reply: format!("{timeout:?}"),
            })?,
            path: links[0].path,
            delays_ns: links.each_ref().map(|link| link.status.conditions.delay_ns),
            settings,
        })
    }

    /// Gives a setting of every node a value for the time of the block.
    pub async fn set(&self, scene: &Scene<'_>, name: &str, value: &str) -> Result<(), BlockError> {
        debug_assert!(TOUCHED.contains(&name), "{name} would not be put back");
        for member in scene.members() {
            scene.command(&member.part, &["CONFIG", "SET", name, value]).await?;
        }
        Ok(())
    }

    /// Values of the settings that could decide, of the first node: a topology gives all of them the same. What a server
    /// does not know is left out.
    pub async fn deciding(&self, scene: &Scene<'_>) -> Result<Vec<(String, String)>, BlockError> {
        let members = scene.members();
        let mut told = Vec::new();
        for name in DECIDING {
            if let Some(value) = scene.setting(&members[0].part, name).await? {
                told.push((name.to_owned(), value));
            }
        }
        Ok(told)
    }

    /// Puts the settings back that blocks touch.
    pub async fn put_settings_back(&self, scene: &Scene<'_>, members: &[Member]) -> Result<(), BlockError> {
        for (member, settings) in members.iter().zip(&self.settings) {
            for (name, value) in settings {
                if scene.setting(&member.part, name).await?.as_ref() != Some(value) {
                    scene.command(&member.part, &["CONFIG", "SET", name, value]).await?;
                }
            }
        }
        Ok(())
    }

    /// Puts everything back that differs, and looks again.
    ///
    /// # Errors
    /// Something could not be put back.
    pub async fn put_back(&self, scene: &mut Scene<'_>) -> Result<(), BlockError> {
        let members = scene.members();
        let links = scene.links().await?;
        if links.iter().any(|link| super::found::closed(link).is_some()) {
            scene.heal("put back").await?;
        }
        if scene.means.method == Method::Stop {
            for half in [scene.cast.home.clone(), scene.cast.away.clone()] {
                scene.resume_half(&half).await?;
            }
        }
        // What was broken off goes on in its probe.
        scene.idle().await?;
        self.put_settings_back(scene, &members).await?;
        scene.seat(&members).await?;
        if links[0].path != self.path {
            scene.set_path(self.path).await?;
            scene.seated(&members).await?;
        }
        halves::remove_keys(scene, &members).await?;
        let now = Self::snapshot(scene, &members, &scene.links().await?).await?;
        let left = halves::keys_left(scene, &members).await?;
        let mut differences = Vec::new();
        if now.settings != self.settings {
            differences.push(format!("settings {:?} instead of {:?}", now.settings, self.settings));
        }
        if (now.delays_ns, now.path) != (self.delays_ns, self.path) {
            differences.push("the link has other conditions".to_owned());
        }
        if left > 0 {
            differences.push(format!("{left} keys of the block are left"));
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
}
