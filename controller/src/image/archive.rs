//! An image as a file that `docker load` takes: written by hand, the same input always the same bytes.
//!
//! Both layouts in one tar: `manifest.json`, which is all that engines before 25 read, and an OCI layout that points
//! at the same blobs, which engines with a containerd store prefer. The image's id is not ours to predict (it differs
//! between the stores), so whoever looks for an image compares a label.

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What an image says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageConfig {
    /// References (`name:tag`).
    pub reference: String,
    /// Architecture as OCI writes it (`amd64`).
    pub architecture: String,
    /// `uid:gid`.
    pub user: String,
    /// Environment, `KEY=value`.
    pub env: Vec<String>,
    /// Folder that programs start in.
    pub folder: String,
    /// Signal that ends the server properly (`None`: SIGTERM).
    pub stop_signal: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// A layer with its digest.
#[derive(Debug, Clone)]
pub struct Layer {
    digest: String,
    tar: Bytes,
}

impl Layer {
    /// From an uncompressed tar.
    #[must_use]
    pub fn new(tar: Vec<u8>) -> Self {
        Self {
            digest: sha256(&tar),
            tar: tar.into(),
        }
    }
}

/// The image as a loadable tar.
///
/// # Panics
/// Never: writing to memory does not fail.
#[must_use]
pub fn archive(config: &ImageConfig, layers: &[Layer]) -> Bytes {
    let mut blobs: BTreeMap<String, Bytes> = layers
        .iter()
        .map(|layer| (layer.digest.clone(), layer.tar.clone()))
        .collect();
    let mut blob = |value: &Value| {
        let bytes = Bytes::from(value.to_string());
        let digest = sha256(&bytes);
        let length = bytes.len();
        blobs.insert(digest.clone(), bytes);
        (digest, length)
    };
    let (config_digest, config_length) = blob(&config_json(config, layers));
    let (manifest_digest, manifest_length) = blob(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": format!("sha256:{config_digest}"),
            "size": config_length,
        },
        "layers": layers.iter().map(|layer| json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": format!("sha256:{}", layer.digest),
            "size": layer.tar.len(),
        })).collect::<Vec<_>>(),
    }));
    let tag = config.reference.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": format!("sha256:{manifest_digest}"),
            "size": manifest_length,
            "annotations": {
                "io.containerd.image.name": format!("docker.io/{}", config.reference),
                "org.opencontainers.image.ref.name": tag,
            },
            "platform": { "architecture": config.architecture, "os": "linux" },
        }],
    });
    let legacy = json!([{
        "Config": format!("blobs/sha256/{config_digest}"),
        "RepoTags": [config.reference],
        "Layers": layers.iter().map(|layer| format!("blobs/sha256/{}", layer.digest)).collect::<Vec<_>>(),
    }]);
    let mut files: BTreeMap<String, Bytes> = blobs
        .into_iter()
        .map(|(digest, bytes)| (format!("blobs/sha256/{digest}"), bytes))
        .collect();
    files.insert("index.json".to_owned(), index.to_string().into());
    files.insert("manifest.json".to_owned(), legacy.to_string().into());
    files.insert(
        "oci-layout".to_owned(),
        json!({ "imageLayoutVersion": "1.0.0" }).to_string().into(),
    );
    write(&files).expect("writing to memory does not fail").into()
}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to memory does not fail");
            text
        })
}

fn config_json(config: &ImageConfig, layers: &[Layer]) -> Value {
    let mut value = json!({
        "architecture": config.architecture,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        // Neither entrypoint nor command: who starts a container says both in full.
        "config": {
            "User": config.user,
            "Env": config.env,
            "WorkingDir": config.folder,
            "Labels": config.labels,
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": layers.iter().map(|layer| format!("sha256:{}", layer.digest)).collect::<Vec<_>>(),
        },
        "history": layers.iter().map(|_| json!({
            "created": "1970-01-01T00:00:00Z",
            "created_by": "testbed",
        })).collect::<Vec<_>>(),
    });
    if let Some(signal) = &config.stop_signal {
        value["config"]["StopSignal"] = json!(signal);
    }
    value
}

fn write(files: &BTreeMap<String, Bytes>) -> std::io::Result<Vec<u8>> {
    let size: usize = files.values().map(|bytes| bytes.len() + 1024).sum();
    let mut tar = tar::Builder::new(Vec::with_capacity(size + 8192));
    let header = |sort, mode, size: usize| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(sort);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(size as u64);
        header
    };
    for folder in ["blobs/", "blobs/sha256/"] {
        tar.append_data(
            &mut header(tar::EntryType::Directory, 0o755, 0),
            folder,
            std::io::empty(),
        )?;
    }
    for (path, bytes) in files {
        tar.append_data(
            &mut header(tar::EntryType::Regular, 0o644, bytes.len()),
            path,
            bytes.as_ref(),
        )?;
    }
    tar.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn config() -> ImageConfig {
        ImageConfig {
            reference: "testbed/redis:7.0.15".to_owned(),
            architecture: "amd64".to_owned(),
            user: "999:999".to_owned(),
            env: vec!["PATH=/usr/bin".to_owned()],
            folder: "/data".to_owned(),
            stop_signal: None,
            labels: BTreeMap::from([("testbed.recipe".to_owned(), "abc".to_owned())]),
        }
    }

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for member in tar::Archive::new(archive).entries().expect("a tar") {
            let mut member = member.expect("whole");
            let path = member.path().expect("text").to_string_lossy().into_owned();
            let mut bytes = Vec::new();
            member.read_to_end(&mut bytes).expect("whole");
            files.insert(path, bytes);
        }
        files
    }

    fn parsed(files: &BTreeMap<String, Vec<u8>>, path: &str) -> Value {
        serde_json::from_slice(&files[path]).expect("JSON")
    }

    #[test]
    fn both_layouts_lead_to_the_same_config_and_layers() {
        let layers = [Layer::new(vec![0; 1024]), Layer::new(vec![1; 2048])];
        let files = files(&archive(&config(), &layers));
        let legacy = &parsed(&files, "manifest.json")[0];
        let index = parsed(&files, "index.json");
        let blob = |digest: &Value| {
            format!(
                "blobs/sha256/{}",
                digest.as_str().expect("text").trim_start_matches("sha256:")
            )
        };
        let manifest = parsed(&files, &blob(&index["manifests"][0]["digest"]));
        assert_eq!(legacy["Config"], blob(&manifest["config"]["digest"]));
        for (index, layer) in layers.iter().enumerate() {
            assert_eq!(legacy["Layers"][index], blob(&manifest["layers"][index]["digest"]));
            assert_eq!(files[legacy["Layers"][index].as_str().expect("text")], layer.tar);
            assert_eq!(manifest["layers"][index]["size"], layer.tar.len());
        }
        let config = parsed(&files, legacy["Config"].as_str().expect("text"));
        assert_eq!(config["rootfs"]["diff_ids"][1], format!("sha256:{}", layers[1].digest));
        assert_eq!(config["config"]["Labels"]["testbed.recipe"], "abc");
        assert!(config["config"].get("Entrypoint").is_none());
    }

    #[test]
    fn every_blob_has_the_name_of_its_content() {
        let files = files(&archive(&config(), &[Layer::new(b"layer".to_vec())]));
        let blobs: Vec<_> = files
            .iter()
            .filter(|(path, _)| path.len() > "blobs/sha256/".len())
            .collect();
        let blobs: Vec<_> = blobs
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix("blobs/sha256/")?, bytes)))
            .collect();
        assert_eq!(blobs.len(), 3);
        for (name, bytes) in blobs {
            assert_eq!(name, sha256(bytes));
        }
    }

    #[test]
    fn the_same_image_is_the_same_bytes() {
        let layers = [Layer::new(vec![7; 100])];
        assert_eq!(archive(&config(), &layers), archive(&config(), &layers));
    }

    #[test]
    fn a_digest_is_that_of_the_standard() {
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
