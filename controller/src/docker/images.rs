//! Images on the engine: seen by label or reference, loaded from archives, pulled, tagged, removed; and the two calls by
//! which something is made in a one-off container (its end, and a folder of it).
//!
//! A registry that does not answer is told apart from one that refuses, within seconds: a lab must not wait for it.
//! Removal never forces: an image that a container uses stays.

use super::refusal::is_gone;
use super::{Docker, EngineError, ImageSeen, Images, Refusal, bodies};
use async_trait::async_trait;
use bollard::errors::Error;
use bollard::models::{ImageInspect, ImageSummary};
use bollard::query_parameters::{
    CreateImageOptions, DownloadFromContainerOptions, ImportImageOptions, ListImagesOptions, RemoveImageOptions,
    TagImageOptions, WaitContainerOptions,
};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, TryStreamExt};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How long the first word of a registry may take. Nothing of the image itself has been sent by then.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long loading an archive may take: 130 MB on a slow disk.
const LOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of an archive handed to the connection at once.
const CHUNK: usize = 256 * 1024;

#[async_trait]
impl Images for Docker {
    async fn images(&self, labels: &BTreeMap<String, String>) -> Result<Vec<ImageSeen>, EngineError> {
        let options = ListImagesOptions {
            filters: Some(bodies::label_filters(labels)),
            ..ListImagesOptions::default()
        };
        let listed = self.timed(self.api.list_images(Some(options))).await;
        let listed = listed.map_err(|error| self.refused("list", "images", &error))?;
        Ok(listed.into_iter().map(listed_image).collect())
    }

    async fn image(&self, reference: &str) -> Result<Option<ImageSeen>, EngineError> {
        match self.timed(self.api.inspect_image(reference)).await {
            Ok(image) => Ok(Some(inspected_image(image))),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
            Err(error) => Err(self.refused("inspect image", reference, &error)),
        }
    }

    async fn load(&self, archive: Bytes) -> Result<(), EngineError> {
        let chunks = (0..archive.len()).step_by(CHUNK).map(move |start| {
            let end = archive.len().min(start + CHUNK);
            Ok::<_, std::io::Error>(archive.slice(start..end))
        });
        let api = self.api.clone().with_timeout(LOAD_TIMEOUT);
        let options = ImportImageOptions {
            quiet: true,
            ..ImportImageOptions::default()
        };
        let mut answers = std::pin::pin!(api.import_image_stream(options, futures_util::stream::iter(chunks), None));
        // The answer is complete only at its end; an error can be its last line.
        while let Some(answer) = answers.next().await {
            answer.map_err(|error| self.refused("load", "an image archive", &error))?;
        }
        Ok(())
    }

    async fn pull(&self, reference: &str) -> Result<(), EngineError> {
        // Without a tag the engine would fetch all of them.
        let options = CreateImageOptions {
            from_image: Some(with_tag(reference)),
            ..CreateImageOptions::default()
        };
        let mut progress = std::pin::pin!(self.api.create_image(Some(options), None, None));
        let mut first = true;
        loop {
            let next = if first {
                let Ok(next) = tokio::time::timeout(REGISTRY_TIMEOUT, progress.next()).await else {
                    return Err(silent_registry(reference));
                };
                next
            } else {
                progress.next().await
            };
            first = false;
            match next {
                None => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(unanswered(self.refused("pull", reference, &error))),
            }
        }
    }

    async fn tag(&self, reference: &str, new: &str) -> Result<(), EngineError> {
        let (repository, tag) = new.rsplit_once(':').unwrap_or((new, "latest"));
        let options = TagImageOptions {
            repo: Some(repository.to_owned()),
            tag: Some(tag.to_owned()),
        };
        let tagged = self.timed(self.api.tag_image(reference, Some(options))).await;
        tagged.map_err(|error| self.refused("tag image", reference, &error))
    }

    async fn remove_image(&self, reference: &str) -> Result<(), EngineError> {
        match self
            .timed(self.api.remove_image(reference, None::<RemoveImageOptions>, None))
            .await
        {
            Err(error) if !is_gone(&error) => Err(self.refused("remove image", reference, &error)),
            _ => Ok(()),
        }
    }

    async fn download(&self, container: &str, path: &str) -> Result<Bytes, EngineError> {
        let options = DownloadFromContainerOptions { path: path.to_owned() };
        let chunks = self.api.download_from_container(container, Some(options));
        let whole = chunks.try_fold(BytesMut::new(), |mut whole, chunk| async move {
            whole.extend_from_slice(&chunk);
            Ok(whole)
        });
        let whole = whole
            .await
            .map_err(|error| self.refused("read a folder of", container, &error))?;
        Ok(whole.freeze())
    }

    async fn wait(&self, container: &str) -> Result<i64, EngineError> {
        let mut ends = std::pin::pin!(self.api.wait_container(container, None::<WaitContainerOptions>));
        match ends.next().await {
            Some(Ok(end)) => Ok(end.status_code),
            // The client makes an error of every exit code but 0.
            Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code),
            Some(Err(error)) => Err(self.refused("wait for", container, &error)),
            None => Err(EngineError::Refused {
                verb: "wait for",
                object: container.to_owned(),
                status: 0,
                cause: "the engine ended its answer without an exit code".to_owned(),
                refusal: Refusal::Other,
            }),
        }
    }
}

fn with_tag(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    if name.contains([':', '@']) {
        reference.to_owned()
    } else {
        format!("{reference}:latest")
    }
}

fn silent_registry(reference: &str) -> EngineError {
    EngineError::Refused {
        verb: "pull",
        object: reference.to_owned(),
        status: 0,
        cause: format!("the registry said nothing within {} s", REGISTRY_TIMEOUT.as_secs()),
        refusal: Refusal::NoRegistry,
    }
}

/// Marks the failures in which no registry was reached at all.
fn unanswered(mut error: EngineError) -> EngineError {
    if let EngineError::Refused { cause, refusal, .. } = &mut error {
        let words = [
            "no such host",
            "server misbehaving",
            "connection refused",
            "network is unreachable",
            "no route to host",
            "i/o timeout",
            "client.timeout exceeded",
            "request canceled",
            "context deadline exceeded",
            "tls handshake timeout",
            "proxyconnect",
            "temporary failure in name resolution",
        ];
        let cause = cause.to_lowercase();
        if words.iter().any(|word| cause.contains(word)) {
            *refusal = Refusal::NoRegistry;
        }
    }
    error
}

fn listed_image(image: ImageSummary) -> ImageSeen {
    ImageSeen {
        id: image.id,
        references: named(image.repo_tags),
        digest: digest(&image.repo_digests),
        labels: sorted(image.labels),
        size_bytes: u64::try_from(image.size).unwrap_or(0),
    }
}

fn inspected_image(image: ImageInspect) -> ImageSeen {
    ImageSeen {
        id: image.id.unwrap_or_default(),
        references: named(image.repo_tags.unwrap_or_default()),
        digest: digest(&image.repo_digests.unwrap_or_default()),
        labels: sorted(image.config.and_then(|config| config.labels).unwrap_or_default()),
        size_bytes: image.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
    }
}

/// References without the place holders of old engines for an image that has none.
fn named(references: Vec<String>) -> Vec<String> {
    references
        .into_iter()
        .filter(|reference| !reference.contains("<none>"))
        .collect()
}

/// `sha256:...` of the first `name@sha256:...`.
fn digest(digests: &[String]) -> Option<String> {
    digests
        .iter()
        .filter(|digest| !digest.contains("<none>"))
        .find_map(|digest| Some(digest.split_once('@')?.1.to_owned()))
}

fn sorted(labels: HashMap<String, String>) -> BTreeMap<String, String> {
    labels.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(cause: &str) -> Refusal {
        let error = EngineError::Refused {
            verb: "pull",
            object: "redis".to_owned(),
            status: 500,
            cause: cause.to_owned(),
            refusal: Refusal::Other,
        };
        match unanswered(error) {
            EngineError::Refused { refusal, .. } => refusal,
            _ => unreachable!("it stays a refusal"),
        }
    }

    #[test]
    fn a_registry_that_is_not_there_is_told_from_one_that_refuses() {
        for cause in [
            "Get \"https://registry.example/v2/\": dial tcp: lookup registry.example on 192.0.2.1:53: no such host",
            "Get \"https://registry.example/v2/\": dial tcp 192.0.2.1:443: connect: connection refused",
            "Get \"https://registry.example/v2/\": net/http: request canceled while waiting for connection \
             (Client.Timeout exceeded while awaiting headers)",
        ] {
            assert_eq!(refusal(cause), Refusal::NoRegistry, "{cause}");
        }
        for cause in [
            "manifest for redis:0 not found: manifest unknown",
            "pull access denied for x, repository does not exist",
        ] {
            assert_eq!(refusal(cause), Refusal::Other, "{cause}");
        }
    }

    #[test]
    fn a_reference_without_a_tag_means_latest() {
        assert_eq!(
            with_tag("registry.example:5000/redis"),
            "registry.example:5000/redis:latest"
        );
        for whole in ["redis:7", "registry.example:5000/redis:7", "redis@sha256:abc"] {
            assert_eq!(with_tag(whole), whole);
        }
    }

    #[test]
    fn place_holders_are_no_references() {
        assert_eq!(named(vec!["<none>:<none>".to_owned(), "a:b".to_owned()]), ["a:b"]);
        assert_eq!(digest(&["<none>@<none>".to_owned()]), None);
        assert_eq!(digest(&["redis@sha256:ab".to_owned()]).as_deref(), Some("sha256:ab"));
    }
}
