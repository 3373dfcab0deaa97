//! The ways to an image, tried in their order; and the list and the removal of what is there.
//!
//! A registry that did not answer is not asked again by this process. Every image asked for is brought to its end before
//! an error is returned, so that a failure beside it leaves nothing half-made.

use super::apt::Apt;
use super::archive;
use super::build::{self, BuildError};
use super::folder;
use super::{ImageError, Listed, Obtained, Policy, Pruned, Source};
use crate::docker::{Engine, EngineError, ImageSeen, Images, Object, Refusal};
use crate::names::{LABEL_OWNER, LABEL_PACKAGES, LABEL_RECIPE, OWNER};
use crate::progress::Progress;
use crate::release::{Catalogue, Recipe, Release};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Images had at once. Two processors unpack and hash; the engine loads one after the other anyway.
const AT_ONCE: usize = 3;

/// Where images come from, for one engine and one run of the program.
pub struct Supply<'a, E> {
    engine: &'a E,
    architecture: &'static str,
    cache: PathBuf,
    progress: Progress,
    /// Registry -> why it was not reached: not asked twice.
    silent: Mutex<BTreeMap<String, String>>,
    /// Suites -> their lists, fetched once.
    lists: Mutex<BTreeMap<Vec<String>, Arc<OnceCell<Apt>>>>,
}

impl<'a, E: Engine + Images> Supply<'a, E> {
    /// For an engine of this architecture (as the engine names it), with a folder for downloads.
    ///
    /// # Errors
    /// No server is built for the architecture.
    pub fn new(engine: &'a E, architecture: &str, cache: PathBuf) -> Result<Self, ImageError> {
        let known = build::debian_architecture(architecture);
        let architecture = known.map_err(|source| ImageError::Build {
            release: "any release".to_owned(),
            pulled: None,
            source: Box::new(source),
        })?;
        Ok(Self {
            engine,
            architecture,
            cache,
            progress: Progress::silent(),
            silent: Mutex::default(),
            lists: Mutex::default(),
        })
    }

    /// The same, telling its steps.
    #[must_use]
    pub fn telling(self, progress: &Progress) -> Self {
        Self {
            progress: progress.clone(),
            ..self
        }
    }

    /// Sees to it that the engine has these releases; in their order, one for each. All are tried before an error is
    /// returned, so that nothing is left half-made.
    ///
    /// # Errors
    /// The first that cannot be had.
    pub async fn obtain(&self, releases: &[Release], policy: Policy) -> Result<Vec<Obtained>, ImageError> {
        let mut distinct: Vec<&Release> = Vec::new();
        for release in releases {
            if !distinct.iter().any(|other| other.image == release.image) {
                distinct.push(release);
            }
        }
        let all = futures_util::stream::iter(distinct).map(|release| self.obtain_one(release, policy));
        let all: Vec<_> = all.buffered(AT_ONCE).collect().await;
        let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
        let of = |release: &Release| all.iter().find(|obtained| obtained.image == release.image);
        Ok(releases
            .iter()
            .map(|release| Obtained {
                release: release.name.clone(),
                ..of(release).cloned().expect("every image was obtained")
            })
            .collect())
    }

    /// Every release of the catalogue with what the engine has of it.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn list(&self, catalogue: &Catalogue) -> Result<Vec<Listed>, ImageError> {
        let mut all = Vec::new();
        for release in &catalogue.releases {
            all.push(Listed {
                release: release.name.clone(),
                engine: release.engine.as_str(),
                version: release.version.as_ref().map(ToString::to_string),
                official: release.official.clone(),
                suites: release
                    .recipe
                    .as_ref()
                    .map(|recipe| recipe.suites.clone())
                    .unwrap_or_default(),
                present: self.present(release, Policy::Auto).await?,
            });
        }
        Ok(all)
    }

    /// Removes every image that carries our label and that no container uses, and what a build that was killed left.
    ///
    /// # Errors
    /// The engine refuses for another reason.
    pub async fn prune(&self) -> Result<Pruned, ImageError> {
        let ours = BTreeMap::from([(LABEL_OWNER.to_owned(), OWNER.to_owned())]);
        let mut pruned = Pruned::default();
        for object in self
            .engine
            .list(&ours)
            .await?
            .iter()
            .filter(|object| is_dead_draft(object))
        {
            self.engine.remove(object).await?;
            pruned.removed.push(object.name.clone());
        }
        for image in self.engine.images(&ours).await? {
            let names = if image.references.is_empty() {
                vec![image.id]
            } else {
                image.references
            };
            for name in names {
                match self.engine.remove_image(&name).await {
                    Ok(()) => pruned.removed.push(name),
                    Err(EngineError::Refused {
                        refusal: Refusal::InUse,
                        ..
                    }) => pruned.in_use.push(name),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(pruned)
    }

    /// Sees to it that the engine has an image with this static program and nothing else, as `/<program>`; its
    /// reference.
    ///
    /// # Errors
    /// The engine refuses it.
    pub async fn program(&self, program: &str, file: &[u8]) -> Result<String, ImageError> {
        let (reference, archive) = build::program_image(program, file, self.architecture);
        let digest = archive::sha256(file);
        let seen = self.engine.image(&reference).await?;
        if seen.is_none_or(|seen| seen.labels.get(LABEL_RECIPE) != Some(&digest)) {
            self.engine.load(archive).await?;
        }
        Ok(reference)
    }

    /// Sees to it that the engine has an image of the user's own: what is there is taken, else it is pulled.
    ///
    /// # Errors
    /// It is not there and no registry gives it.
    pub async fn own(&self, reference: &str) -> Result<(), ImageError> {
        if self.engine.image(reference).await?.is_some() {
            return Ok(());
        }
        self.progress.step(format_args!("pulling {reference}"));
        self.engine.pull(reference).await.map_err(|error| match error {
            EngineError::Refused { cause, .. } => ImageError::NoOwn {
                image: reference.to_owned(),
                cause,
            },
            error => error.into(),
        })
    }

    async fn obtain_one(&self, release: &Release, policy: Policy) -> Result<Obtained, ImageError> {
        if let Some(present) = self.present(release, policy).await? {
            return Ok(present);
        }
        if release.folder.is_some() {
            return self.build_folder(release).await;
        }
        let buildable = release.recipe.is_some();
        match policy {
            Policy::Build => self.build(release, None).await,
            Policy::Pull => self.pull(release).await,
            Policy::Auto => match self.pull(release).await {
                Err(ImageError::Pull { cause, .. }) if buildable => self.build(release, Some(cause)).await,
                Err(ImageError::NoWay { .. }) if buildable => self.build(release, None).await,
                other => other,
            },
        }
    }

    async fn present(&self, release: &Release, policy: Policy) -> Result<Option<Obtained>, ImageError> {
        let seen = self.engine.image(&release.image).await?;
        let source = seen.as_ref().and_then(|seen| self.source_of(release, seen));
        if let (Some(seen), Some(source)) = (seen, source)
            && is_allowed(source, policy)
        {
            return Ok(Some(obtained(release, seen, source, false)));
        }
        let Some(official) = release.official.as_deref().filter(|_| policy != Policy::Build) else {
            return Ok(None);
        };
        // The user may have pulled it already.
        let Some(seen) = self.engine.image(official).await? else {
            return Ok(None);
        };
        self.engine.tag(official, &release.image).await?;
        Ok(Some(obtained(release, seen, Source::Registry, false)))
    }

    /// Where an image of the release's name came from; `None` if it is of another recipe.
    fn source_of(&self, release: &Release, seen: &ImageSeen) -> Option<Source> {
        if release.is_user_image() {
            return Some(Source::User);
        }
        if release.folder.is_some() {
            // Its name has the digest of what it holds.
            return Some(Source::Folder);
        }
        let Some(label) = seen.labels.get(LABEL_RECIPE) else {
            return Some(Source::Registry);
        };
        let recipe = release.recipe.as_ref()?;
        (*label == build::recipe_hash(release, recipe, self.architecture)).then_some(Source::Packages)
    }

    async fn pull(&self, release: &Release) -> Result<Obtained, ImageError> {
        let own = release.is_user_image().then_some(&release.image);
        let Some(reference) = release.official.as_ref().or(own) else {
            return Err(ImageError::NoWay {
                way: "pull",
                release: release.name.clone(),
                why: "it has no official image",
            });
        };
        let failed = |cause: String| ImageError::Pull {
            release: release.name.clone(),
            cause,
            buildable: release.recipe.is_some(),
        };
        let registry = registry(reference);
        if let Some(cause) = self.silent.lock().unwrap_or_else(PoisonError::into_inner).get(registry) {
            return Err(failed(cause.clone()));
        }
        self.progress.step(format_args!("pulling {reference}"));
        match self.engine.pull(reference).await {
            Ok(()) => {}
            Err(EngineError::Refused { cause, refusal, .. }) => {
                if refusal == Refusal::NoRegistry {
                    let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
                    silent.insert(registry.to_owned(), cause.clone());
                }
                return Err(failed(cause));
            }
            Err(error) => return Err(error.into()),
        }
        let Some(seen) = self.engine.image(reference).await? else {
            return Err(failed("the engine does not have it afterwards".to_owned()));
        };
        if release.is_user_image() {
            return Ok(obtained(release, seen, Source::User, true));
        }
        self.engine.tag(reference, &release.image).await?;
        Ok(obtained(release, seen, Source::Registry, true))
    }

    async fn build_folder(&self, release: &Release) -> Result<Obtained, ImageError> {
        self.progress.step(format_args!("building {release} from its folder"));
        let (wanted, architecture) = (release.clone(), self.architecture);
        let read = tokio::task::spawn_blocking(move || folder::image(&wanted, architecture));
        let archive = read.await.expect("what builds images does not panic")?;
        self.engine.load(archive).await?;
        Ok(obtained(release, self.loaded(release).await?, Source::Folder, true))
    }

    /// The image that was just loaded.
    async fn loaded(&self, release: &Release) -> Result<ImageSeen, EngineError> {
        let seen = self.engine.image(&release.image).await?;
        seen.ok_or_else(|| EngineError::Refused {
            verb: "find",
            object: release.image.clone(),
            status: 404,
            cause: "the engine loaded the archive and does not have the image".to_owned(),
            refusal: Refusal::NotFound,
        })
    }

    async fn build(&self, release: &Release, pulled: Option<String>) -> Result<Obtained, ImageError> {
        let Some(recipe) = &release.recipe else {
            return Err(ImageError::NoWay {
                way: "build",
                release: release.name.clone(),
                why: "Debian does not have it",
            });
        };
        let suites = recipe.suites.join(", ");
        self.progress
            .step(format_args!("building {release} from packages of Debian {suites}"));
        if let Err(source) = self.build_from(release, recipe).await {
            return Err(ImageError::Build {
                release: release.name.clone(),
                pulled,
                source: Box::new(source),
            });
        }
        self.progress.step(format_args!("built {release}"));
        Ok(obtained(release, self.loaded(release).await?, Source::Packages, true))
    }

    async fn build_from(&self, release: &Release, recipe: &Recipe) -> Result<(), BuildError> {
        let cell = {
            let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
            lists.entry(recipe.suites.clone()).or_default().clone()
        };
        let apt = cell
            .get_or_try_init(|| Apt::open(&self.cache, &recipe.suites, self.architecture))
            .await?;
        let build = build::Build {
            engine: self.engine,
            apt,
            release,
            recipe,
            architecture: self.architecture,
            cache: &self.cache,
        };
        build.run().await.map(|_| ())
    }
}

fn is_allowed(source: Source, policy: Policy) -> bool {
    match policy {
        Policy::Auto => true,
        Policy::Pull => !matches!(source, Source::Packages | Source::Folder),
        Policy::Build => matches!(source, Source::Packages | Source::Folder),
    }
}

fn obtained(release: &Release, seen: ImageSeen, source: Source, fetched: bool) -> Obtained {
    let packages = seen
        .labels
        .get(LABEL_PACKAGES)
        .and_then(|list| serde_json::from_str(list).ok())
        .unwrap_or_default();
    Obtained {
        release: release.name.clone(),
        image: release.image.clone(),
        id: seen.id,
        digest: seen.digest,
        source,
        fetched,
        packages,
        size_bytes: seen.size_bytes,
    }
}

/// Something that a build made on its way and did not live to remove.
fn is_dead_draft(object: &Object) -> bool {
    object.name.starts_with("tb-draft-") && object.state != "running"
}

/// The registry that a reference belongs to; Docker's own has no name in it.
fn registry(reference: &str) -> &str {
    match reference.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "",
    }
}

#[cfg(test)]
mod tests;
