//! What a topology may mount of the host: files and folders below its own folder, looked at as they are on the disk. The
//! topology can come from a stranger.
//!
//! Refuses what a symbolic link leads out of the folder to, and folders that hold a socket or a device: a read-only mount does
//! not keep anybody from talking to those. Links below a mounted folder are followed inside the container only, and lead to its own
//! files.

use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Most entries that are looked at below one mount.
const MOST_ENTRIES: usize = 20_000;

/// What is wrong, and what to do about it.
type Refused = (String, Option<String>);

/// The absolute path of what a topology in this folder calls `written` (`./...`).
///
/// # Errors
/// It is absent, or no file or folder below this folder (`None`: the topology has no folder), or holds what is none.
pub fn resolve(folder: Option<&Path>, written: &str) -> Result<String, Refused> {
    let refuse = |message: String, hint: &str| Err((message, Some(hint.to_owned())));
    let Some(folder) = folder else {
        return refuse(
            "a topology that is read from stdin has no folder to mount from".to_owned(),
            "save it as a file beside what it mounts",
        );
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let unreadable = |error: std::io::Error| (format!("`{written}` cannot be mounted: {error}"), None);
    let folder = folder.canonicalize().map_err(unreadable)?;
    let found = match folder.join(written).canonicalize() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return refuse(
                format!("there is no `{written}` in the topology's folder"),
                "paths are relative to the folder of the topology's file",
            );
        }
        Err(error) => return Err(unreadable(error)),
    };
    if found == folder || !found.starts_with(&folder) {
        return refuse(
            format!("`{written}` leads out of the topology's folder"),
            "a symbolic link is followed, and what it leads to must be below that folder",
        );
    }
    harmless(&found, written)?;
    match found.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => refuse(
            format!("the path of `{written}` is no UTF-8"),
            "move the topology to a folder with another name",
        ),
    }
}

/// Only files, folders and links are at a path and below it.
fn harmless(path: &Path, written: &str) -> Result<(), Refused> {
    let unreadable = |error: std::io::Error| (format!("`{written}` cannot be looked through: {error}"), None);
    let mut open: Vec<PathBuf> = vec![path.to_owned()];
    let mut seen = 0;
    while let Some(path) = open.pop() {
        let kind = path.symlink_metadata().map_err(unreadable)?.file_type();
        if let Some(what) = harm(kind) {
            let hint = "a read-only mount keeps nobody from using it; name what is needed alone".to_owned();
            return Err((format!("`{written}` is or holds {what}"), Some(hint)));
        }
        if !kind.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&path).map_err(unreadable)? {
            seen += 1;
            if seen > MOST_ENTRIES {
                let hint = "name what is needed alone".to_owned();
                return Err((format!("`{written}` has more than {MOST_ENTRIES} entries"), Some(hint)));
            }
            open.push(entry.map_err(unreadable)?.path());
        }
    }
    Ok(())
}

fn harm(kind: FileType) -> Option<&'static str> {
    if kind.is_socket() {
        Some("a socket")
    } else if kind.is_fifo() {
        Some("a pipe")
    } else if kind.is_block_device() || kind.is_char_device() {
        Some("a device")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_is_below_the_folder_is_mounted_by_its_absolute_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("conf")).unwrap();
        std::fs::write(folder.path().join("conf/a"), "a").unwrap();
        symlink("conf", folder.path().join("link")).unwrap();
        let real = folder.path().canonicalize().unwrap().join("conf");
        for written in ["./conf", "./link"] {
            assert_eq!(resolve(Some(folder.path()), written).unwrap(), real.to_str().unwrap());
        }
    }

    #[test]
    fn links_that_lead_out_sockets_pipes_and_what_is_absent_are_refused() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        let folder = tempfile::tempdir().unwrap();
        symlink(outside.path(), folder.path().join("out")).unwrap();
        symlink("..", folder.path().join("up")).unwrap();
        symlink(".", folder.path().join("self")).unwrap();
        std::fs::create_dir_all(folder.path().join("deep/er")).unwrap();
        let _socket = UnixListener::bind(folder.path().join("deep/er/s")).unwrap();
        let told = |written: &str| resolve(Some(folder.path()), written).unwrap_err().0;
        assert!(told("./out/secret").contains("leads out"));
        assert!(told("./up").contains("leads out"));
        assert!(
            told("./self").contains("leads out"),
            "the whole folder is not below itself"
        );
        assert!(told("./deep").contains("a socket"));
        assert!(told("./deep/er/s").contains("a socket"));
        assert!(told("./none").contains("there is no"));
        assert!(resolve(None, "./x").unwrap_err().0.contains("stdin"));
    }

    #[test]
    fn links_below_a_mounted_folder_are_left_to_the_container() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("conf")).unwrap();
        symlink("/etc/shadow", folder.path().join("conf/shadow")).unwrap();
        assert!(
            resolve(Some(folder.path()), "./conf").is_ok(),
            "it leads to the container's own file"
        );
    }
}
