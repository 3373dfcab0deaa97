//! The order of the ways to an image, on an engine in memory that knows images only.

use super::*;
use crate::docker::Attached;
use crate::plan::{ContainerSpec, NetworkSpec, VolumeSpec};
use async_trait::async_trait;
use bytes::Bytes;

/// Images by reference; what registries have; every call that changes something.
#[derive(Default)]
struct Shelf {
    images: Mutex<BTreeMap<String, ImageSeen>>,
    registry: Option<Vec<&'static str>>,
    used: Vec<&'static str>,
    calls: Mutex<Vec<String>>,
}

fn seen(reference: &str, labels: &[(&str, &str)]) -> ImageSeen {
    ImageSeen {
        id: format!("id of {reference}"),
        references: vec![reference.to_owned()],
        digest: None,
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        size_bytes: 1,
    }
}

impl Shelf {
    fn put(&self, reference: &str, labels: &[(&str, &str)]) {
        self.images
            .lock()
            .expect("one thread")
            .insert(reference.to_owned(), seen(reference, labels));
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().expect("one thread"))
    }

    fn note(&self, call: String) {
        self.calls.lock().expect("one thread").push(call);
    }
}

fn refused(refusal: Refusal) -> EngineError {
    EngineError::Refused {
        verb: "pull",
        object: "x".to_owned(),
        status: 500,
        cause: "no".to_owned(),
        refusal,
    }
}

#[async_trait]
impl Images for Shelf {
    async fn images(&self, labels: &BTreeMap<String, String>) -> Result<Vec<ImageSeen>, EngineError> {
        let has = |seen: &&ImageSeen| labels.iter().all(|(key, value)| seen.labels.get(key) == Some(value));
        Ok(self
            .images
            .lock()
            .expect("one thread")
            .values()
            .filter(has)
            .cloned()
            .collect())
    }
    async fn image(&self, reference: &str) -> Result<Option<ImageSeen>, EngineError> {
        Ok(self.images.lock().expect("one thread").get(reference).cloned())
    }
    async fn load(&self, archive: Bytes) -> Result<(), EngineError> {
        self.note(format!("load {} bytes", if archive.is_empty() { "no" } else { "some" }));
        Ok(())
    }
    async fn pull(&self, reference: &str) -> Result<(), EngineError> {
        self.note(format!("pull {reference}"));
        match &self.registry {
            None => Err(refused(Refusal::NoRegistry)),
            Some(known) if known.contains(&reference) => {
                self.put(reference, &[]);
                Ok(())
            }
            Some(_) => Err(refused(Refusal::Other)),
        }
    }
    async fn tag(&self, reference: &str, new: &str) -> Result<(), EngineError> {
        self.note(format!("tag {reference} {new}"));
        self.put(new, &[]);
        Ok(())
    }
    async fn remove_image(&self, reference: &str) -> Result<(), EngineError> {
        if self.used.contains(&reference) {
            return Err(refused(Refusal::InUse));
        }
        self.images.lock().expect("one thread").remove(reference);
        Ok(())
    }
    async fn download(&self, _: &str, _: &str) -> Result<Bytes, EngineError> {
        unreachable!("no database is built here")
    }
    async fn wait(&self, _: &str) -> Result<i64, EngineError> {
        unreachable!("no database is built here")
    }
}

#[async_trait]
impl Engine for Shelf {
    async fn create_network(&self, _: &NetworkSpec) -> Result<Object, EngineError> {
        unreachable!("images only")
    }
    async fn create_volume(&self, _: &VolumeSpec) -> Result<Object, EngineError> {
        unreachable!("images only")
    }
    async fn create_container(&self, _: &ContainerSpec, _: &BTreeMap<String, String>) -> Result<Object, EngineError> {
        unreachable!("images only")
    }
    async fn create_lookout(&self, _: &crate::docker::Lookout, _: &str) -> Result<Object, EngineError> {
        unreachable!("images only")
    }
    async fn start(&self, _: &str) -> Result<(), EngineError> {
        unreachable!("images only")
    }
    async fn remove(&self, _: &Object) -> Result<(), EngineError> {
        unreachable!("images only")
    }
    async fn list(&self, _: &BTreeMap<String, String>) -> Result<Vec<Object>, EngineError> {
        Ok(Vec::new())
    }
    async fn attach(&self, _: &str) -> Result<Attached, EngineError> {
        unreachable!("images only")
    }
    async fn subnets(&self) -> Result<Vec<ipnet::Ipv4Net>, EngineError> {
        unreachable!("images only")
    }
    async fn post_mortem(&self, _: &str) -> Result<String, EngineError> {
        unreachable!("images only")
    }
    async fn ended(&self, _: &str) -> Result<String, EngineError> {
        unreachable!("images only")
    }
}

fn supply(shelf: &Shelf) -> Supply<'_, Shelf> {
    Supply::new(shelf, "x86_64", PathBuf::from("/nonexistent/testbed")).expect("a known architecture")
}

fn release(name: &str) -> Release {
    Catalogue::built_in().find(name).expect("known")
}

fn hash(release: &Release) -> String {
    build::recipe_hash(release, release.recipe.as_ref().expect("a recipe"), "amd64")
}

#[tokio::test]
async fn an_image_of_the_same_recipe_is_present_and_nothing_is_done() {
    let shelf = Shelf::default();
    let redis = release("redis-7.0.15");
    let hash = hash(&redis);
    shelf.put(
        &redis.image,
        &[
            (LABEL_RECIPE, &hash),
            (LABEL_PACKAGES, r#"{"redis-server":"5:7.0.15-1"}"#),
        ],
    );
    for policy in [Policy::Auto, Policy::Build] {
        let had = supply(&shelf)
            .obtain(&[redis.clone(), redis.clone()], policy)
            .await
            .expect("present");
        assert_eq!(had.len(), 2);
        assert_eq!((had[0].source, had[0].fetched), (Source::Packages, false));
        assert_eq!(had[0].packages["redis-server"], "5:7.0.15-1");
    }
    assert!(shelf.calls().is_empty());
}

#[tokio::test]
async fn an_image_of_another_recipe_is_not_present() {
    let shelf = Shelf {
        registry: Some(vec!["redis:7.0.15"]),
        ..Shelf::default()
    };
    let redis = release("redis-7.0.15");
    shelf.put(&redis.image, &[(LABEL_RECIPE, "of an older builder")]);
    let had = supply(&shelf)
        .obtain(std::slice::from_ref(&redis), Policy::Auto)
        .await
        .expect("pulled");
    assert_eq!((had[0].source, had[0].fetched), (Source::Registry, true));
    assert_eq!(
        shelf.calls(),
        ["pull redis:7.0.15", "tag redis:7.0.15 testbed/redis:7.0.15"]
    );
    supply(&shelf)
        .obtain(&[redis], Policy::Auto)
        .await
        .expect("present now");
    assert!(shelf.calls().is_empty());
}

#[tokio::test]
async fn an_official_image_that_the_user_has_is_not_pulled_again() {
    let shelf = Shelf::default();
    shelf.put("valkey/valkey:9.1", &[]);
    let had = supply(&shelf)
        .obtain(&[release("valkey-9.1")], Policy::Auto)
        .await
        .expect("present");
    assert_eq!((had[0].source, had[0].fetched), (Source::Registry, false));
    assert_eq!(shelf.calls(), ["tag valkey/valkey:9.1 testbed/valkey:9.1"]);
}

#[tokio::test]
async fn what_was_built_does_not_count_when_the_official_image_is_asked_for() {
    let shelf = Shelf {
        registry: Some(vec!["redis:7.0.15"]),
        ..Shelf::default()
    };
    let redis = release("redis-7.0.15");
    let hash = hash(&redis);
    shelf.put(&redis.image, &[(LABEL_RECIPE, &hash)]);
    let had = supply(&shelf).obtain(&[redis], Policy::Pull).await.expect("pulled");
    assert_eq!(had[0].source, Source::Registry);
}

#[tokio::test]
async fn a_registry_that_did_not_answer_is_asked_once() {
    let shelf = Shelf::default();
    let supply = supply(&shelf);
    for name in ["redis-8.10.1", "postgres-16.13"] {
        let error = supply
            .obtain(&[release(name)], Policy::Auto)
            .await
            .expect_err("nowhere");
        assert!(
            matches!(error, ImageError::Pull { buildable: false, .. }) && error.is_host(),
            "{error}"
        );
    }
    assert_eq!(shelf.calls(), ["pull redis:8.10.1"]);
    supply
        .obtain(&[release("redis=other.example/redis:7")], Policy::Auto)
        .await
        .expect_err("nowhere");
    assert_eq!(shelf.calls(), ["pull other.example/redis:7"]);
}

#[tokio::test]
async fn a_release_without_a_recipe_cannot_be_built() {
    let shelf = Shelf::default();
    let error = supply(&shelf)
        .obtain(&[release("redis-8.10.1")], Policy::Build)
        .await
        .expect_err("no recipe");
    assert_eq!(error.to_string(), "build redis-8.10.1: Debian does not have it");
}

#[tokio::test]
async fn an_image_of_the_users_is_used_as_it_is_whatever_its_labels() {
    let shelf = Shelf {
        registry: Some(vec!["mine:2"]),
        ..Shelf::default()
    };
    shelf.put("mine:1", &[(LABEL_RECIPE, "theirs")]);
    let both = [release("redis=mine:1"), release("postgres=mine:2")];
    let had = supply(&shelf)
        .obtain(&both, Policy::Auto)
        .await
        .expect("one present, one pulled");
    assert_eq!(
        had.iter().map(|had| (had.source, had.fetched)).collect::<Vec<_>>(),
        [(Source::User, false), (Source::User, true)]
    );
    assert_eq!(shelf.calls(), ["pull mine:2"]);
}

#[tokio::test]
async fn a_program_is_loaded_once() {
    let shelf = Shelf::default();
    let reference = supply(&shelf).program("relay", b"program").await.expect("loaded");
    assert_eq!(shelf.calls(), ["load some bytes"]);
    shelf.put(&reference, &[(LABEL_RECIPE, &archive::sha256(b"program"))]);
    assert_eq!(
        supply(&shelf).program("relay", b"program").await.expect("present"),
        reference
    );
    assert!(shelf.calls().is_empty());
}

#[tokio::test]
async fn only_our_unused_images_are_removed() {
    let shelf = Shelf {
        used: vec!["testbed/redis:8.6"],
        ..Shelf::default()
    };
    shelf.put("testbed/redis:8.6", &[(LABEL_OWNER, OWNER)]);
    shelf.put("tb/relay:0123", &[(LABEL_OWNER, OWNER)]);
    shelf.put("redis:7.0.15", &[]);
    let pruned = supply(&shelf).prune().await.expect("pruned");
    assert_eq!(pruned.removed, ["tb/relay:0123"]);
    assert_eq!(pruned.in_use, ["testbed/redis:8.6"]);
    assert!(shelf.image("redis:7.0.15").await.expect("a shelf").is_some());
}

#[tokio::test]
async fn the_list_shows_what_is_there_of_every_release() {
    let shelf = Shelf::default();
    let redis = release("redis-8.0");
    let hash = hash(&redis);
    shelf.put(&redis.image, &[(LABEL_RECIPE, &hash)]);
    let listed = supply(&shelf).list(&Catalogue::built_in()).await.expect("listed");
    let present: Vec<&str> = listed
        .iter()
        .filter(|one| one.present.is_some())
        .map(|one| one.release.as_str())
        .collect();
    assert_eq!(present, ["redis-8.0"]);
    assert_eq!(listed.len(), Catalogue::built_in().releases.len());
}
