//! The committed catalogue, and arguments good and bad.

use super::*;
use std::path::Path;

fn find(argument: &str) -> Result<Release, ReleaseError> {
    Catalogue::built_in().find(argument)
}

#[test]
fn the_committed_catalogue_is_legal_and_has_the_records_own_servers() {
    let catalogue = Catalogue::parse(CATALOGUE).expect("legal");
    for name in ["redis-7.0.15", "redis-8.6", "valkey-9.1", "valkey-8.1", "postgres-15"] {
        assert!(catalogue.find(name).expect(name).recipe.is_some(), "{name}");
    }
    for name in ["redis-8.10.1", "postgres-16.13"] {
        let release = catalogue.find(name).expect(name);
        assert!(release.recipe.is_none() && release.official.is_some(), "{name}");
    }
}

#[test]
fn the_catalogue_names_no_host() {
    assert!(!CATALOGUE.contains("://"));
}

#[test]
fn a_name_gives_a_release_with_an_image_of_our_own_name() {
    let release = find("valkey-9.1").expect("known");
    assert_eq!(release.image, "testbed/valkey:9.1");
    assert_eq!(release.official.as_deref(), Some("valkey/valkey:9.1"));
    assert_eq!(
        release.version.map(|version| version.to_string()).as_deref(),
        Some("9.1.x")
    );
}

#[test]
fn a_wrong_name_suggests_the_nearest_and_lists_all() {
    let error = find("redis-7.0.14").expect_err("unknown");
    let hint = error.hint().expect("a hint");
    assert!(hint.contains("did you mean `redis-7.0.15`?"), "{hint}");
    assert!(hint.contains("postgres-17") && hint.contains("ENGINE=IMAGE"), "{hint}");
}

#[test]
fn an_engine_with_an_image_is_used_as_it_is() {
    let release = find("redis=registry.example:5000/team/redis@sha256:abc").expect("legal");
    assert_eq!(release.image, "registry.example:5000/team/redis@sha256:abc");
    assert!(release.is_user_image() && release.version.is_none());
    assert_eq!(release.start().entrypoint, ["redis-server"]);
    assert_eq!(find("valkey=a").expect("legal").start().entrypoint, ["valkey-server"]);
}

#[test]
fn an_image_of_another_engine_or_of_no_image_is_refused() {
    assert!(matches!(find("mysql=a"), Err(ReleaseError::UnknownEngine { .. })));
    for bad in ["redis=", "redis=-x", "redis=a b", "redis=a\n"] {
        assert!(matches!(find(bad), Err(ReleaseError::BadImage { .. })), "{bad}");
    }
}

#[test]
fn redis_and_valkey_are_one_kind() {
    let catalogue = Catalogue::built_in();
    let choice = catalogue.choose(&["valkey-9.1", "postgres-17"]).expect("one of each");
    let cache = catalogue.resolve(EngineKind::Redis, None, &choice).expect("chosen");
    assert_eq!((cache.name.as_str(), cache.engine), ("valkey-9.1", EngineKind::Valkey));
    let database = catalogue.resolve(EngineKind::Postgres, None, &choice).expect("chosen");
    assert_eq!(database.name, "postgres-17");
    assert!(matches!(
        catalogue.choose(&["redis-7.0.15", "valkey-9.1"]),
        Err(ReleaseError::Twice { kind: "cache", .. })
    ));
}

#[test]
fn a_pin_beats_the_choice_and_the_choice_beats_the_default() {
    let catalogue = Catalogue::built_in();
    let choice = catalogue.choose(&["redis-8.6"]).expect("legal");
    let name = |pin, choice: &Choice| catalogue.resolve(EngineKind::Redis, pin, choice).expect("legal").name;
    assert_eq!(name(Some("redis-8.0.2"), &choice), "redis-8.0.2");
    assert_eq!(name(None, &choice), "redis-8.6");
    assert_eq!(name(None, &Choice::default()), "redis-7.0.15");
    assert!(matches!(
        catalogue.resolve(EngineKind::Redis, Some("postgres-15"), &choice),
        Err(ReleaseError::WrongKind { .. })
    ));
}

#[test]
fn postgres_18_has_its_state_one_folder_higher() {
    let path = |argument| find(argument).expect("legal").start().state_path;
    assert_eq!(path("postgres-15"), "/var/lib/postgresql/data");
    assert_eq!(path("postgres-18"), "/var/lib/postgresql");
    assert_eq!(path("postgres=postgres:17-bookworm"), "/var/lib/postgresql/data");
    assert_eq!(path("postgres=postgres"), "/var/lib/postgresql");
}

#[test]
fn a_malformed_catalogue_says_what_is_wrong() {
    let text = |change: fn(&str) -> String| Catalogue::parse(&change(CATALOGUE)).expect_err("malformed").to_string();
    assert!(text(|t| t.replace("suites: [bookworm]", "suites: []")).contains("needs a suite"));
    assert!(text(|t| t.replace("redis: redis-7.0.15", "redis: redis-7")).contains("default of redis"));
    assert!(text(|t| t.replace("name: redis-8.6", "name: redis-8.0")).contains("two releases"));
    assert!(text(|t| t.replace("official:", "offical:")).contains("offical"));
}

#[test]
fn a_folder_is_a_build_of_the_users_and_shown_by_its_name() {
    let release = find("redis=./builds/unstable").expect("legal");
    assert_eq!((release.name.as_str(), release.engine), ("unstable", EngineKind::Redis));
    assert_eq!(release.folder.as_deref(), Some(Path::new("./builds/unstable")));
    assert!(!release.is_user_image() && release.version.is_none());
    for argument in ["valkey=/srv/mine", "valkey=../mine", "valkey=/srv/mine/"] {
        assert_eq!(find(argument).expect("legal").name, "mine", "{argument}");
        assert_eq!(shown(argument), "mine");
    }
    assert_eq!(shown("redis=registry/x:1"), "redis=registry/x:1");
    for bad in ["redis=..", "redis=./", "redis=./a b", "redis=/", "postgres=./pg"] {
        assert!(matches!(find(bad), Err(ReleaseError::BadFolder { .. })), "{bad}");
    }
    let pinned = Catalogue::built_in().resolve(EngineKind::Redis, Some("redis=./x"), &Choice::default());
    assert!(matches!(pinned, Err(ReleaseError::FolderPinned { .. })));
}

#[test]
fn only_a_build_with_settings_starts_with_them() {
    let mut release = find("redis=./x").expect("legal");
    release.image = crate::names::build_image("redis", "0123456789abcdef", false);
    assert_eq!(release.start().entrypoint, ["redis-server"]);
    release.image = crate::names::build_image("redis", "0123456789abcdef", true);
    assert_eq!(release.start().entrypoint, ["redis-server", SETTINGS]);
    let again = find(&format!("redis={}", release.image)).expect("legal");
    assert_eq!(again.start(), release.start(), "the image alone is enough");
}
