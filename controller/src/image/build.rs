//! An image made from Debian packages: packages to tree, tree to layer, layer to archive, archive to engine.
//!
//! The label [`LABEL_RECIPE`] holds the hash of all that decides the content but the distribution's revisions; who finds
//! it on the engine need not build again. The exact package versions are written into the image and onto it. Postgres'
//! data is initialised in a one-off container of the engine, since initdb wants neither root nor this machine.

use super::apt::{Apt, AptError};
use super::archive::{self, ImageConfig, Layer};
use super::contents::{self, POSTGRES_STATE, SERVER_USER};
use super::packages::Package;
use super::tree::{Tree, TreeError};
use crate::docker::{Engine, EngineError, Images, Object};
use crate::names::{self, Kind, LABEL_DRAFT, LABEL_OWNER, LABEL_PACKAGES, LABEL_RECIPE, LABEL_RELEASE, OWNER};
use crate::plan::{ContainerSpec, VolumeSpec};
use crate::release::{Recipe, Release};
use crate::topology::EngineKind;
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Changed whenever what is built from the same recipe changes.
const BUILDER: u32 = 1;
/// Where an image tells its own packages.
const PACKAGE_LIST: &str = "usr/share/testbed/packages.json";
/// Enough for initdb, which starts its server with a buffer of 128 MiB.
const INITDB_MEMORY: u64 = 512 * 1024 * 1024;

/// Why an image cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Packages cannot be had.
    #[error(transparent)]
    Apt(#[from] AptError),
    /// The packages do not make a server.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The engine refused something.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The database could not be initialised.
    #[error("initialise the database: {words}")]
    Initdb {
        /// Exit code and last words.
        words: String,
    },
    /// The state of another architecture's server cannot be made.
    #[error("build for the engine's architecture `{0}`: no such architecture is known")]
    Architecture(String),
}

/// The hash of all that decides what is built, but for the distribution's revisions.
#[must_use]
pub fn recipe_hash(release: &Release, recipe: &Recipe, architecture: &str) -> String {
    let version = release.version.as_ref().map(ToString::to_string);
    let all = json!([BUILDER, release.name, release.engine, version, recipe, architecture]);
    archive::sha256(all.to_string().as_bytes())
}

/// Debian's name of an architecture that the engine names as the kernel does or as OCI does.
///
/// # Errors
/// It is none that servers are built for.
pub fn debian_architecture(engines: &str) -> Result<&'static str, BuildError> {
    match engines {
        "x86_64" | "amd64" => Ok("amd64"),
        "aarch64" | "arm64" => Ok("arm64"),
        other => Err(BuildError::Architecture(other.to_owned())),
    }
}

/// One image to build.
pub struct Build<'a, E> {
    /// Where it is loaded.
    pub engine: &'a E,
    /// Package lists of the recipe's suites.
    pub apt: &'a Apt,
    /// What it is.
    pub release: &'a Release,
    /// How it is made.
    pub recipe: &'a Recipe,
    /// Architecture as Debian and OCI write it.
    pub architecture: &'static str,
    /// Folder for downloads.
    pub cache: &'a Path,
}

/// A folder of one build alone, removed however the build ends.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Only what was downloaded: losing it costs nothing, keeping it some disk.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl<E: Engine + Images> Build<'_, E> {
    /// Builds and loads it; its packages.
    ///
    /// # Errors
    /// Whatever went wrong; nothing is left on the engine but the image itself.
    pub async fn run(&self) -> Result<Vec<Package>, BuildError> {
        let scratch = Scratch(self.cache.join(format!("build-{:016x}", fastrand::u64(..))));
        self.make(&scratch.0).await
    }

    async fn make(&self, scratch: &Path) -> Result<Vec<Package>, BuildError> {
        let kind = self.release.engine;
        let version = self
            .release
            .version
            .as_ref()
            .expect("a release with a recipe has a version");
        let packages = self.apt.resolve(self.recipe, version, contents::beside(kind)).await?;
        tracing::debug!("{}: {} packages", self.release, packages.len());
        let files = self.apt.download(&packages, scratch).await?;
        tracing::debug!("{}: downloaded", self.release);
        let list = package_list(&packages);
        let (everything, server, layer) = blocking(move || {
            let everything = unpack(&files)?;
            let mut server = everything.clone();
            contents::furnish(kind, &mut server)?;
            server.put_text(PACKAGE_LIST, &list);
            let layer = Layer::new(server.layer());
            Ok::<_, BuildError>((everything, server, layer))
        })
        .await?;
        tracing::debug!("{}: unpacked and reduced", self.release);
        let mut layers = vec![layer];
        if kind == EngineKind::Postgres {
            layers.push(self.postgres_state(everything, &server, &layers[0]).await?);
        }
        let config = contents::config(kind, &self.release.image, self.architecture, self.labels(&packages));
        tracing::debug!("{}: loading", self.release);
        self.load(config, layers).await?;
        Ok(packages)
    }

    fn labels(&self, packages: &[Package]) -> BTreeMap<String, String> {
        BTreeMap::from([
            (LABEL_OWNER.to_owned(), OWNER.to_owned()),
            (
                LABEL_RECIPE.to_owned(),
                recipe_hash(self.release, self.recipe, self.architecture),
            ),
            (LABEL_RELEASE.to_owned(), self.release.name.clone()),
            (LABEL_PACKAGES.to_owned(), package_list(packages)),
        ])
    }

    async fn load(&self, config: ImageConfig, layers: Vec<Layer>) -> Result<(), BuildError> {
        let archive = blocking(move || Ok::<_, BuildError>(archive::archive(&config, &layers))).await?;
        Ok(self.engine.load(archive).await?)
    }

    /// Layer with an initialised data folder.
    async fn postgres_state(&self, everything: Tree, server: &Tree, base: &Layer) -> Result<Layer, BuildError> {
        let (initdb, tools) = contents::initialiser(everything, server)?;
        let (reference, container, volume) = names::image_draft(fastrand::u64(..));
        // Not the recipe's label: this is not the image that others look for.
        let labels = draft_labels();
        let config = contents::config(EngineKind::Postgres, &reference, self.architecture, labels.clone());
        self.load(config, vec![base.clone(), Layer::new(tools.layer())]).await?;
        let volume = VolumeSpec { name: volume, labels };
        let container = initdb_container(container, reference.clone(), initdb, &volume);
        let mut made = Vec::new();
        let state = self.initialise(&container, &volume, &mut made).await;
        for object in made.iter().rev() {
            if let Err(error) = self.engine.remove(object).await {
                tracing::warn!("{} is left behind: failed to {error}", object.name);
            }
        }
        if let Err(error) = self.engine.remove_image(&reference).await {
            tracing::warn!("{reference} is left behind: failed to {error}");
        }
        let state = state?;
        blocking(move || {
            let mut tree = Tree::default();
            let below = POSTGRES_STATE.rsplit_once('/').map_or("", |(below, _)| below);
            tree.add_state(below, &state, SERVER_USER)?;
            contents::open_postgres(&mut tree)?;
            Ok(Layer::new(tree.layer()))
        })
        .await
    }

    async fn initialise(
        &self,
        container: &ContainerSpec,
        volume: &VolumeSpec,
        made: &mut Vec<Object>,
    ) -> Result<Bytes, BuildError> {
        made.push(self.engine.create_volume(volume).await?);
        let object = self.engine.create_container(container, &BTreeMap::new()).await?;
        made.push(object.clone());
        self.engine.start(&object.id).await?;
        match self.engine.wait(&object.id).await? {
            0 => Ok(self.engine.download(&object.id, POSTGRES_STATE).await?),
            _ => Err(BuildError::Initdb {
                words: self.engine.post_mortem(&object.id).await?,
            }),
        }
    }
}

/// Removes what builds of this process left on the engine when they were dropped half-way, e.g. by Ctrl-C. All is
/// tried before the first error is returned.
///
/// # Errors
/// Something is left.
pub async fn abandon<E: Engine + Images>(engine: &E) -> Result<(), EngineError> {
    let labels = draft_labels();
    let mut first = Ok(());
    let mut objects = engine.list(&labels).await?;
    // Containers before the volumes that they use.
    objects.sort_by_key(|object| object.sort);
    for object in &objects {
        first = first.and(engine.remove(object).await);
    }
    for image in engine.images(&labels).await? {
        for reference in &image.references {
            first = first.and(engine.remove_image(reference).await);
        }
    }
    first
}

fn draft_labels() -> BTreeMap<String, String> {
    static PROCESS: OnceLock<String> = OnceLock::new();
    let process = PROCESS.get_or_init(|| format!("{:016x}", fastrand::u64(..)));
    BTreeMap::from([
        (LABEL_OWNER.to_owned(), OWNER.to_owned()),
        (LABEL_DRAFT.to_owned(), process.clone()),
    ])
}

/// An image of one static program, by the digest of its file.
#[must_use]
pub fn program_image(program: &str, file: &[u8], architecture: &str) -> (String, Bytes) {
    let digest = archive::sha256(file);
    let reference = names::program_image(program, &digest);
    let mut tree = Tree::default();
    let bytes = Bytes::copy_from_slice(file);
    tree.put(
        program,
        super::tree::Entry::File {
            bytes,
            mode: 0o755,
            owner: 0,
        },
    );
    let labels = BTreeMap::from([
        (LABEL_OWNER.to_owned(), OWNER.to_owned()),
        (LABEL_RECIPE.to_owned(), digest),
        (LABEL_RELEASE.to_owned(), program.to_owned()),
    ]);
    let config = ImageConfig {
        reference: reference.clone(),
        architecture: architecture.to_owned(),
        user: String::new(),
        env: vec!["PATH=/".to_owned()],
        folder: "/".to_owned(),
        stop_signal: None,
        labels,
    };
    (reference, archive::archive(&config, &[Layer::new(tree.layer())]))
}

fn initdb_container(name: String, image: String, initdb: String, volume: &VolumeSpec) -> ContainerSpec {
    let user = SERVER_USER;
    let arguments = [
        "--no-sync",
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
    ];
    ContainerSpec {
        name,
        kind: Kind::State,
        image,
        entrypoint: vec![initdb],
        command: arguments.iter().map(|&word| word.to_owned()).collect(),
        env: vec![format!("PGDATA={POSTGRES_STATE}")],
        user: Some(format!("{user}:{user}")),
        endpoints: Vec::new(),
        extra_hosts: Vec::new(),
        cap_add: Vec::new(),
        devices: Vec::new(),
        sysctls: BTreeMap::new(),
        volumes: BTreeMap::from([(volume.name.clone(), POSTGRES_STATE.to_owned())]),
        mounts: BTreeMap::new(),
        tmpfs: BTreeMap::from([("/tmp".to_owned(), format!("uid={user},gid={user}"))]),
        files: BTreeMap::new(),
        memory_bytes: INITDB_MEMORY,
        pids: 64,
        publish: BTreeMap::new(),
        open_stdin: false,
        labels: volume.labels.clone(),
    }
}

fn package_list(packages: &[Package]) -> String {
    let versions: BTreeMap<_, _> = packages
        .iter()
        .map(|package| (&package.name, &package.version))
        .collect();
    json!(versions).to_string()
}

fn unpack(files: &[PathBuf]) -> Result<Tree, BuildError> {
    let mut tree = Tree::default();
    for file in files {
        add_package(&mut tree, file)?;
    }
    Ok(tree)
}

fn add_package(tree: &mut Tree, file: &Path) -> Result<(), BuildError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let failed = |words: String| AptError::Failed {
        step: format!("unpack {name}"),
        words,
    };
    let started = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = started.map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => AptError::NoProgram { program: "dpkg-deb" },
        _ => failed(source.to_string()),
    })?;
    let mut output = child.stdout.take().expect("stdout was asked for");
    let added = tree.add_archive(&name, &mut output, &contents::wanted);
    // The padding behind the last member, without which the program would end with a broken pipe.
    let drained = std::io::copy(&mut output, &mut std::io::sink());
    let ended = child.wait().map_err(|source| failed(source.to_string()))?;
    added?;
    drained.map_err(|source| failed(source.to_string()))?;
    if ended.success() {
        Ok(())
    } else {
        Err(failed(format!("dpkg-deb: {ended}")).into())
    }
}

/// Runs what takes the processor for long beside the engine's and apt's streams.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BuildError> + Send + 'static,
) -> Result<T, BuildError> {
    tokio::task::spawn_blocking(work)
        .await
        .expect("what builds images does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::Catalogue;

    #[test]
    fn the_hash_moves_with_whatever_decides_the_content() {
        let release = Catalogue::built_in().find("redis-7.0.15").expect("known");
        let recipe = release.recipe.clone().expect("a recipe");
        let hash = recipe_hash(&release, &recipe, "amd64");
        assert_eq!(hash, recipe_hash(&release, &recipe, "amd64"));
        assert_ne!(hash, recipe_hash(&release, &recipe, "arm64"));
        let other = Recipe {
            suites: vec!["trixie".to_owned()],
            ..recipe.clone()
        };
        assert_ne!(hash, recipe_hash(&release, &other, "amd64"));
        let newer = Catalogue::built_in().find("redis-8.0.2").expect("known");
        assert_ne!(hash, recipe_hash(&newer, &recipe, "amd64"));
    }

    #[test]
    fn a_program_image_is_named_by_its_file() {
        let (reference, archive) = program_image("relay", b"\x7fELF", "amd64");
        assert_eq!(reference, format!("tb/relay:{}", &archive::sha256(b"\x7fELF")[..12]));
        assert_eq!(program_image("relay", b"\x7fELF", "amd64").1, archive);
        assert_ne!(program_image("relay", b"other", "amd64").0, reference);
    }

    #[test]
    fn the_engines_architecture_is_known_by_both_names() {
        assert_eq!(debian_architecture("x86_64").expect("known"), "amd64");
        assert_eq!(debian_architecture("arm64").expect("known"), "arm64");
        assert!(debian_architecture("vax").is_err());
    }
}
