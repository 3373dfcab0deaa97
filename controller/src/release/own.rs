//! Servers of the user's own: `ENGINE=IMAGE` with any image, and `ENGINE=./DIR` with a folder that holds a build.

use super::{Release, ReleaseError};
use crate::names;
use crate::topology::EngineKind;
use std::path::Path;

/// The release that `ENGINE=IMAGE` or `ENGINE=FOLDER` means.
pub(super) fn release(argument: &str, engine: &str, image: &str) -> Result<Release, ReleaseError> {
    let kind = match engine {
        "redis" => EngineKind::Redis,
        "valkey" => EngineKind::Valkey,
        "postgres" => EngineKind::Postgres,
        _ => {
            return Err(ReleaseError::UnknownEngine {
                argument: argument.to_owned(),
                engine: engine.to_owned(),
            });
        }
    };
    if let Some((_, folder)) = folder_of(argument) {
        return user_build(argument, kind, folder);
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "./:@_-".contains(c);
    if !image.starts_with(|c: char| c.is_ascii_alphanumeric()) || !image.chars().all(legal) {
        return Err(ReleaseError::BadImage {
            argument: argument.to_owned(),
            image: image.to_owned(),
        });
    }
    Ok(Release {
        name: argument.to_owned(),
        engine: kind,
        version: None,
        image: image.to_owned(),
        official: None,
        recipe: None,
        folder: None,
    })
}

/// The folder that an argument like `redis=./DIR` names. An image reference begins with a letter or a digit.
#[must_use]
pub fn folder_of(argument: &str) -> Option<(&str, &Path)> {
    let (engine, path) = argument.split_once('=')?;
    let is_folder = ["./", "../", "/"].iter().any(|start| path.starts_with(start)) || [".", ".."].contains(&path);
    is_folder.then(|| (engine, Path::new(path)))
}

/// How a release is shown: as it was named, a folder by its own name.
#[must_use]
pub fn shown(argument: &str) -> &str {
    let folder = folder_of(argument).and_then(|(_, path)| path.file_name()?.to_str());
    folder.unwrap_or(argument)
}

fn user_build(argument: &str, engine: EngineKind, folder: &Path) -> Result<Release, ReleaseError> {
    let refused = |why| ReleaseError::BadFolder {
        argument: argument.to_owned(),
        why,
    };
    if !engine.is_cache() {
        return Err(refused("a build in a folder is one of Redis or Valkey"));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.is_empty() || !name.chars().all(legal) {
        return Err(refused(
            "the folder's name is shown as the release: letters, digits, `.`, `_`, `+` and `-`",
        ));
    }
    Ok(Release {
        name: name.to_owned(),
        engine,
        version: None,
        image: names::release_image(engine.as_str(), name),
        official: None,
        recipe: None,
        folder: Some(folder.to_owned()),
    })
}
