//! `images`: what the engine has of every release, and how to have more or less of it.

use super::connect;
use super::screen::{self, plain_table};
use crate::cli::{Format, Global, ImagesVerb};
use crate::docker::Console;
use crate::document::document;
use crate::error::{CommandError, ExitCode};
use crate::image::{self, Listed, Obtained, Policy, Pruned, Source, Supply};
use crate::progress::Progress;
use crate::release::{Catalogue, Release, ReleaseError};
use crate::stop::Stop;
use crate::topology::EngineKind;
use schemars::JsonSchema;
use serde::Serialize;

/// What `images list --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImagesDocument {
    /// Every release of the catalogue.
    pub releases: Vec<Listed>,
}

/// What `images pull` and `images build` print with `--format json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ObtainedDocument {
    /// In the order in which they were asked for.
    pub images: Vec<Obtained>,
}

pub(super) async fn run(global: &Global, verb: ImagesVerb) -> Result<ExitCode, CommandError> {
    let catalogue = Catalogue::built_in();
    // A name that means nothing is an error whether or not there is an engine.
    let (policy, releases) = match &verb {
        ImagesVerb::List | ImagesVerb::Prune => (Policy::Auto, Vec::new()),
        ImagesVerb::Pull { releases } => (Policy::Pull, wanted(&catalogue, releases)?),
        ImagesVerb::Build { releases } => (Policy::Build, wanted(&catalogue, releases)?),
    };
    let docker = connect(global).await?;
    let architecture = docker.about().await?.architecture;
    let progress = Progress::new(global.quiet);
    let supply = Supply::new(&docker, &architecture, image::cache_folder())?.telling(&progress);
    let (text, json) = match verb {
        ImagesVerb::List => {
            let releases = supply.list(&catalogue).await?;
            (list_table(&releases), document("images", &ImagesDocument { releases }))
        }
        ImagesVerb::Prune => {
            let pruned = supply.prune().await?;
            (pruned_text(&pruned), document("images-pruned", &pruned))
        }
        ImagesVerb::Pull { .. } | ImagesVerb::Build { .. } => {
            let stop = Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?;
            let images = tokio::select! {
                images = supply.obtain(&releases, policy) => images?,
                signal = stop.stopped() => {
                    image::abandon(&docker).await?;
                    return Ok(signal.exit_code());
                }
            };
            (
                obtained_table(&images),
                document("images-obtained", &ObtainedDocument { images }),
            )
        }
    };
    screen::print(if global.format == Format::Json { &json } else { &text })?;
    Ok(ExitCode::Success)
}

fn wanted(catalogue: &Catalogue, names: &[String]) -> Result<Vec<Release>, ReleaseError> {
    if names.is_empty() {
        let engines = [EngineKind::Redis, EngineKind::Valkey, EngineKind::Postgres];
        return Ok(engines
            .iter()
            .map(|engine| catalogue.default_of(*engine).clone())
            .collect());
    }
    names.iter().map(|name| catalogue.find(name)).collect()
}

fn list_table(releases: &[Listed]) -> String {
    let header = ["RELEASE", "VERSION", "PRESENT", "SIZE", "OFFICIAL IMAGE", "DEBIAN"];
    plain_table(
        header,
        releases.iter().map(|release| {
            let present = release.present.as_ref();
            [
                release.release.clone(),
                release.version.clone().unwrap_or_default(),
                present.map_or("-".to_owned(), |image| origin(image, &release.release)),
                present.map_or("-".to_owned(), |image| megabytes(image.size_bytes)),
                release.official.clone().unwrap_or_else(|| "-".to_owned()),
                match release.suites.as_slice() {
                    [] => "-".to_owned(),
                    suites => suites.join(", "),
                },
            ]
        }),
    )
}

fn obtained_table(images: &[Obtained]) -> String {
    let header = ["RELEASE", "IMAGE", "FROM", "SIZE", "NEW"];
    plain_table(
        header,
        images.iter().map(|image| {
            let new = if image.fetched { "yes" } else { "no" };
            [
                image.release.clone(),
                image.image.clone(),
                origin(image, &image.release),
                megabytes(image.size_bytes),
                new.to_owned(),
            ]
        }),
    )
}

fn pruned_text(pruned: &Pruned) -> String {
    let line = |what: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("{what}: {}\n", names.join(", ")),
    };
    let text = line("removed", &pruned.removed) + &line("in use", &pruned.in_use);
    if text.is_empty() {
        "no image of ours is there\n".to_owned()
    } else {
        text
    }
}

/// Where an image came from, and for one of packages the server's own version.
fn origin(image: &Obtained, release: &str) -> String {
    match image.source {
        Source::Registry => "registry".to_owned(),
        Source::User => "as it is".to_owned(),
        Source::Folder => "folder".to_owned(),
        Source::Packages => {
            let engine = release.split('-').next().unwrap_or(release);
            let server = |name: &str| name == format!("{engine}-server") || is_postgres_server(name);
            let version = image
                .packages
                .iter()
                .find(|(name, _)| server(name))
                .map_or("", |(_, version)| version);
            format!("packages {version}").trim_end().to_owned()
        }
    }
}

/// `postgresql-15` and not `postgresql-client-15`.
fn is_postgres_server(package: &str) -> bool {
    package
        .strip_prefix("postgresql-")
        .is_some_and(|major| major.parse::<u32>().is_ok())
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(source: Source, packages: &[(&str, &str)]) -> Obtained {
        Obtained {
            release: "postgres-15".to_owned(),
            image: "testbed/postgres:15".to_owned(),
            id: "sha256:0".to_owned(),
            digest: None,
            source,
            fetched: false,
            packages: packages
                .iter()
                .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()))
                .collect(),
            size_bytes: 122_900_000,
        }
    }

    #[test]
    fn the_origin_names_the_servers_package_and_not_its_clients() {
        let packages = [
            ("libc6", "2.36"),
            ("postgresql-15", "15.18-0+deb12u1"),
            ("postgresql-client-15", "1"),
        ];
        let built = image(Source::Packages, &packages);
        assert_eq!(origin(&built, "postgres-15"), "packages 15.18-0+deb12u1");
        assert_eq!(origin(&image(Source::Registry, &[]), "postgres-15"), "registry");
    }

    #[test]
    fn the_list_has_a_line_for_what_is_absent_too() {
        let listed = |present| Listed {
            release: "redis-8.10.1".to_owned(),
            engine: "redis",
            version: Some("8.10.1".to_owned()),
            official: Some("redis:8.10.1".to_owned()),
            suites: Vec::new(),
            present,
        };
        let table = list_table(&[listed(None), listed(Some(image(Source::Registry, &[])))]);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["redis-8.10.1", "8.10.1", "-", "-", "redis:8.10.1", "-"]);
        assert_eq!(
            lines[2],
            ["redis-8.10.1", "8.10.1", "registry", "122", "MB", "redis:8.10.1", "-"]
        );
    }

    #[test]
    fn without_names_the_default_releases_are_meant() {
        let names = |wanted: Vec<Release>| wanted.into_iter().map(|release| release.name).collect::<Vec<_>>();
        let catalogue = Catalogue::built_in();
        assert_eq!(
            names(wanted(&catalogue, &[]).expect("defaults")),
            ["redis-7.0.15", "valkey-9.1", "postgres-15"]
        );
        assert!(wanted(&catalogue, &["redis-9".to_owned()]).is_err());
    }

    #[test]
    fn nothing_removed_is_said_in_words() {
        assert_eq!(pruned_text(&Pruned::default()), "no image of ours is there\n");
        let pruned = Pruned {
            removed: vec!["a".to_owned(), "b".to_owned()],
            in_use: Vec::new(),
        };
        assert_eq!(pruned_text(&pruned), "removed: a, b\n");
    }
}
