//! Releases: which server builds exist, what `--release` means, and whether a live server is the one that was asked for.
//!
//! Pure: the catalogue is `images/releases.yaml`, compiled in. A release says how an image *may* be had and how its
//! server is started; whether it is present is the business of `image`. An image of the user's is a release without a
//! version: its version is only recorded. Redis and Valkey are one kind of server, Postgres the other.

use crate::names;
use crate::topology::EngineKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

mod own;
mod version;

pub use own::{folder_of, shown};
pub use version::{Reported, VersionMismatch, VersionPattern, reported, upstream_of_debian};

/// The catalogue that this program was built with.
const CATALOGUE: &str = include_str!("../../images/releases.yaml");

/// Where the image of a build has the settings that its servers start with.
pub const SETTINGS: &str = "/etc/testbed/server.conf";

/// All known releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// In the order of the file.
    pub releases: Vec<Release>,
    defaults: BTreeMap<EngineKind, String>,
}

/// One server build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Name as `--release` takes it: `redis-7.0.15`, or `redis=IMAGE` for an image of the user's; of a folder with a build of the
    /// user's the folder's name.
    pub name: String,
    /// What it runs.
    pub engine: EngineKind,
    /// What the live server must report (`None`: an image of the user's, any version).
    pub version: Option<VersionPattern>,
    /// Image reference that containers use, however the image was had.
    pub image: String,
    /// Reference at its registry.
    pub official: Option<String>,
    /// How to build it.
    pub recipe: Option<Recipe>,
    /// Folder with a server that the user built. Its image is named by what it holds, which is known once somebody has read it.
    pub folder: Option<PathBuf>,
}

/// How to build a release from Debian packages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Debian suites: the first has the server, the others what it depends on.
    pub suites: Vec<String>,
    /// Packages, all at the server's version; the first one decides it.
    pub packages: Vec<String>,
}

/// How a server is started; the same words for the official image and for ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStart {
    /// Whole entrypoint; arguments follow it directly.
    pub entrypoint: Vec<String>,
    /// `uid:gid`.
    pub user: &'static str,
    /// Environment, `KEY=value`.
    pub env: Vec<String>,
    /// Where the volume with the node's state goes; the image's content is copied up into it.
    pub state_path: &'static str,
    /// Path -> tmpfs options.
    pub tmpfs: BTreeMap<String, String>,
}

/// Why an argument or the catalogue is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The catalogue is not what it should be.
    #[error("read the list of releases: {0}")]
    Malformed(String),
    /// No such name.
    #[error("find release `{asked}`: there is none of that name")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// All names.
        known: Vec<String>,
        /// The one that was probably meant.
        nearest: Option<String>,
    },
    /// `ENGINE=IMAGE` with another engine.
    #[error("use `{argument}`: `{engine}` is no engine")]
    UnknownEngine {
        /// The whole argument.
        argument: String,
        /// What stands before `=`.
        engine: String,
    },
    /// `ENGINE=IMAGE` with something that is no image reference.
    #[error("use `{argument}`: `{image}` is no image reference")]
    BadImage {
        /// The whole argument.
        argument: String,
        /// What stands behind `=`.
        image: String,
    },
    /// `ENGINE=FOLDER` with a folder that has no name, or for a server that is not built that way.
    #[error("use `{argument}`: {why}")]
    BadFolder {
        /// The whole argument.
        argument: String,
        /// Why not.
        why: &'static str,
    },
    /// A topology names a folder.
    #[error("run `{release}`: a topology names no folder")]
    FolderPinned {
        /// The release.
        release: String,
    },
    /// Two arguments for one kind of server.
    #[error("use both `{first}` and `{second}`: both are a {kind}")]
    Twice {
        /// First release.
        first: String,
        /// Second release.
        second: String,
        /// `cache` or `database`.
        kind: &'static str,
    },
    /// A node pins a release of the other kind.
    #[error("run `{release}` on a node with engine `{engine}`")]
    WrongKind {
        /// The release.
        release: String,
        /// The node's engine.
        engine: &'static str,
    },
}

impl ReleaseError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Malformed(_) => None,
            Self::Unknown { known, nearest, .. } => {
                let list = known.join(", ");
                Some(match nearest {
                    Some(nearest) => format!("did you mean `{nearest}`? Known: {list}; or ENGINE=IMAGE"),
                    None => format!("known: {list}; or ENGINE=IMAGE"),
                })
            }
            Self::UnknownEngine { .. } => Some("redis=IMAGE, valkey=IMAGE or postgres=IMAGE".to_owned()),
            Self::BadImage { .. } => Some("a reference is like registry.example/name:tag, without spaces".to_owned()),
            Self::BadFolder { .. } => {
                Some("a folder with a build of Redis or Valkey is like redis=./my-build".to_owned())
            }
            Self::FolderPinned { .. } => {
                Some("--release takes it: what is in a folder differs from machine to machine".to_owned())
            }
            Self::Twice { .. } => Some("one release for Redis and Valkey together, one for Postgres".to_owned()),
            Self::WrongKind { .. } => {
                Some("Redis and Valkey can stand for each other, Postgres only for itself".to_owned())
            }
        }
    }
}

/// What a run's `--release` arguments mean: at most one release for each kind of server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// For Redis and Valkey nodes.
    pub cache: Option<Release>,
    /// For Postgres nodes.
    pub database: Option<Release>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    defaults: BTreeMap<EngineKind, String>,
    releases: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    engine: EngineKind,
    version: String,
    official: Option<String>,
    debian: Option<Recipe>,
}

impl Catalogue {
    /// The catalogue that this program was built with.
    ///
    /// # Panics
    /// If `images/releases.yaml` was committed broken; a test reads it.
    #[must_use]
    pub fn built_in() -> Self {
        Self::parse(CATALOGUE).expect("images/releases.yaml is checked by a test")
    }

    /// A catalogue from its text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ReleaseError> {
        let file: File = serde_yaml::from_str(text).map_err(|error| ReleaseError::Malformed(error.to_string()))?;
        let releases = file
            .releases
            .into_iter()
            .map(Entry::release)
            .collect::<Result<Vec<_>, _>>()?;
        for (index, release) in releases.iter().enumerate() {
            if releases[..index].iter().any(|other| other.name == release.name) {
                return Err(ReleaseError::Malformed(format!(
                    "two releases are called `{}`",
                    release.name
                )));
            }
        }
        for engine in [EngineKind::Redis, EngineKind::Valkey, EngineKind::Postgres] {
            let name = file.defaults.get(&engine).map_or("", String::as_str);
            if !releases
                .iter()
                .any(|release| release.name == name && release.engine == engine)
            {
                return Err(ReleaseError::Malformed(format!(
                    "the default of {} is no release of it",
                    engine.as_str()
                )));
            }
        }
        Ok(Self {
            releases,
            defaults: file.defaults,
        })
    }

    /// What a node of this engine runs if nobody says otherwise.
    ///
    /// # Panics
    /// Never: `parse` has seen a default for every engine.
    #[must_use]
    pub fn default_of(&self, engine: EngineKind) -> &Release {
        self.releases
            .iter()
            .find(|release| release.name == self.defaults[&engine])
            .expect("parse has checked every default")
    }

    /// The release that one argument means: a name of the catalogue, or `ENGINE=IMAGE`.
    ///
    /// # Errors
    /// The argument means none.
    pub fn find(&self, argument: &str) -> Result<Release, ReleaseError> {
        if let Some((engine, image)) = argument.split_once('=') {
            return own::release(argument, engine, image);
        }
        if let Some(release) = self.releases.iter().find(|release| release.name == argument) {
            return Ok(release.clone());
        }
        let known: Vec<String> = self.releases.iter().map(|release| release.name.clone()).collect();
        Err(ReleaseError::Unknown {
            asked: argument.to_owned(),
            nearest: nearest(argument, &known),
            known,
        })
    }

    /// What all `--release` arguments of a run mean together.
    ///
    /// # Errors
    /// One of them means nothing, or two are of one kind.
    pub fn choose<S: AsRef<str>>(&self, arguments: &[S]) -> Result<Choice, ReleaseError> {
        let mut choice = Choice::default();
        for argument in arguments {
            let release = self.find(argument.as_ref())?;
            let cache = release.engine.is_cache();
            let slot = if cache { &mut choice.cache } else { &mut choice.database };
            if let Some(first) = slot {
                let kind = if cache { "cache" } else { "database" };
                return Err(ReleaseError::Twice {
                    first: first.name.clone(),
                    second: release.name,
                    kind,
                });
            }
            *slot = Some(release);
        }
        Ok(choice)
    }

    /// What a node runs: its own pin, else the run's choice for its kind, else the default of its engine.
    ///
    /// # Errors
    /// The pin means nothing, or is of the other kind.
    pub fn resolve(&self, engine: EngineKind, pin: Option<&str>, choice: &Choice) -> Result<Release, ReleaseError> {
        let Some(pin) = pin else {
            let chosen = if engine.is_cache() {
                &choice.cache
            } else {
                &choice.database
            };
            return Ok(chosen.as_ref().unwrap_or_else(|| self.default_of(engine)).clone());
        };
        let release = self.find(pin)?;
        if release.folder.is_some() {
            return Err(ReleaseError::FolderPinned {
                release: pin.to_owned(),
            });
        }
        if release.engine.is_cache() == engine.is_cache() {
            Ok(release)
        } else {
            Err(ReleaseError::WrongKind {
                release: release.name,
                engine: engine.as_str(),
            })
        }
    }
}

impl Entry {
    fn release(self) -> Result<Release, ReleaseError> {
        let malformed = |what: &str| ReleaseError::Malformed(format!("release `{}`: {what}", self.name));
        let prefix = format!("{}-", self.engine.as_str());
        let Some(tag) = self.name.strip_prefix(&prefix).filter(|tag| !tag.is_empty()) else {
            return Err(malformed(&format!("its name must start with `{prefix}`")));
        };
        let version =
            VersionPattern::parse(&self.version).ok_or_else(|| malformed("version is like 7.0.15 or 9.1.x"))?;
        if self.official.is_none() && self.debian.is_none() {
            return Err(malformed("there is no way to have it"));
        }
        if self
            .debian
            .as_ref()
            .is_some_and(|recipe| recipe.suites.is_empty() || recipe.packages.is_empty())
        {
            return Err(malformed("a recipe needs a suite and a package"));
        }
        Ok(Release {
            image: names::release_image(self.engine.as_str(), tag),
            name: self.name,
            engine: self.engine,
            version: Some(version),
            official: self.official,
            recipe: self.debian,
            folder: None,
        })
    }
}

impl Release {
    /// Whether it is an image of the user's, used as it is.
    #[must_use]
    pub fn is_user_image(&self) -> bool {
        self.official.is_none() && self.recipe.is_none() && self.folder.is_none()
    }

    /// How its server is started.
    #[must_use]
    pub fn start(&self) -> ServerStart {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        match self.engine {
            EngineKind::Redis | EngineKind::Valkey => ServerStart {
                entrypoint: self.cache_entrypoint(),
                user: "999:999",
                env: Vec::new(),
                state_path: "/data",
                tmpfs: BTreeMap::new(),
            },
            // The official image's script takes options only, and ours links its name to the server: one start for
            // both, though ours has no shell. The official image initialises an empty state at its first start, ours
            // brings it along.
            EngineKind::Postgres => ServerStart {
                entrypoint: words(&["docker-entrypoint.sh"]),
                user: "999:999",
                env: words(&["PGDATA=/var/lib/postgresql/data", "POSTGRES_HOST_AUTH_METHOD=trust"]),
                state_path: self.postgres_state_path(),
                tmpfs: BTreeMap::from([("/var/run/postgresql".to_owned(), "uid=999,gid=999,mode=0755".to_owned())]),
            },
        }
    }

    /// The server, and settings of the image's own, which those of the command line override.
    fn cache_entrypoint(&self) -> Vec<String> {
        let server = format!("{}-server", self.engine.as_str());
        match names::has_settings(&self.image) {
            true => vec![server, SETTINGS.to_owned()],
            false => vec![server],
        }
    }

    /// The official image of Postgres 18 moved its volume up by one folder; a mount below it finds no folder to copy up
    /// and belongs to root. A tag that does not tell is taken for a new one: on an old image that only costs an unused
    /// anonymous volume.
    fn postgres_state_path(&self) -> &'static str {
        match self
            .image
            .rsplit_once(':')
            .and_then(|(_, tag)| version::leading_number(tag))
        {
            Some(major) if major < 18 => "/var/lib/postgresql/data",
            _ => "/var/lib/postgresql",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The name that is most like `asked`, if one is like it at all.
fn nearest(asked: &str, known: &[String]) -> Option<String> {
    let score = |name: &String| strsim::jaro_winkler(&asked.to_lowercase(), name);
    known
        .iter()
        .map(|name| (score(name), name))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests;
