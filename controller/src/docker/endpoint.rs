//! Which engine is meant, as the Docker CLI decides it: an explicit host or DOCKER_HOST, then DOCKER_CONTEXT, then
//! `currentContext` of the CLI's configuration, then the default socket.
//!
//! A context that is named and absent is an error: falling back would act on another engine. TLS and ssh endpoints are
//! refused in words, never tried. Falls away when the client library looks contexts up itself.

use super::EngineError;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Where an engine listens when nothing says otherwise.
pub const DEFAULT: &str = "unix:///var/run/docker.sock";

/// What the choice depends on; a value, so that tests need no environment.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `--host`, else DOCKER_HOST.
    pub host: Option<String>,
    /// DOCKER_CONTEXT.
    pub context: Option<String>,
    /// DOCKER_TLS_VERIFY is set.
    pub tls_verify: bool,
    /// Folder of the Docker CLI's configuration.
    pub configuration: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process, with the host that the command line names.
    pub fn of_process(host: Option<&str>) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            host: host
                .filter(|host| !host.is_empty())
                .map(str::to_owned)
                .or_else(|| variable("DOCKER_HOST")),
            context: variable("DOCKER_CONTEXT"),
            tls_verify: variable("DOCKER_TLS_VERIFY").is_some(),
            configuration: variable("DOCKER_CONFIG")
                .map(PathBuf::from)
                .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".docker"))),
        }
    }

    /// The URL of the engine, `unix://` or `tcp://`.
    pub fn endpoint(&self) -> Result<String, EngineError> {
        let (url, tls) = match &self.host {
            Some(host) => (host.clone(), self.tls_verify),
            None => match self.context_name() {
                Some(name) if name != "default" => self.context_endpoint(&name)?,
                _ => (DEFAULT.to_owned(), false),
            },
        };
        supported(url, tls)
    }

    fn context_name(&self) -> Option<String> {
        if self.context.is_some() {
            return self.context.clone();
        }
        let text = std::fs::read_to_string(self.configuration.as_ref()?.join("config.json")).ok()?;
        let settings: serde_json::Value = serde_json::from_str(&text).ok()?;
        let name = settings["currentContext"].as_str()?;
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// URL of a context, and whether it comes with TLS files.
    fn context_endpoint(&self, name: &str) -> Result<(String, bool), EngineError> {
        let refused = |cause: String| EngineError::Unreachable {
            endpoint: format!("context `{name}`"),
            cause,
            hint:
                "`docker context ls` lists the contexts; --host, DOCKER_HOST or DOCKER_CONTEXT=default choose another \
                   engine"
                    .to_owned(),
        };
        let folder = self
            .configuration
            .as_ref()
            .ok_or_else(|| refused("there is no Docker CLI configuration".to_owned()))?
            .join("contexts");
        let hash = hex(&Sha256::digest(name.as_bytes()));
        let file = folder.join("meta").join(&hash).join("meta.json");
        let text = std::fs::read_to_string(&file)
            .map_err(|error| refused(format!("no such context ({}: {error})", file.display())))?;
        let meta: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| refused(format!("{}: {error}", file.display())))?;
        let host = meta["Endpoints"]["docker"]["Host"]
            .as_str()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| refused(format!("{} names no docker endpoint", file.display())))?;
        let tls = folder.join("tls").join(&hash).join("docker").exists();
        Ok((host.to_owned(), tls))
    }
}

fn supported(url: String, tls: bool) -> Result<String, EngineError> {
    let refused = |what: &str| {
        Err(EngineError::Unreachable {
            endpoint: url.clone(),
            cause: format!("{what} is not supported"),
            hint: "use unix:///path/to/docker.sock or tcp://host:port; `ssh -L /tmp/docker.sock:/var/run/docker.sock HOST` \
                   brings a remote engine's socket here"
                .to_owned(),
        })
    };
    if url.starts_with("unix://") {
        return Ok(url);
    }
    if url.starts_with("tcp://") || url.starts_with("http://") {
        return if tls { refused("TLS") } else { Ok(url) };
    }
    if url.starts_with("https://") {
        return refused("TLS");
    }
    match url.split_once("://") {
        Some((scheme, _)) => refused(&format!("{scheme}://")),
        None if url.starts_with('/') => Ok(format!("unix://{url}")),
        None => refused("an endpoint without a scheme"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string can be written");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_context(name: &str, meta: &str) -> (tempfile::TempDir, Surroundings) {
        let folder = tempfile::tempdir().unwrap();
        let hash = hex(&Sha256::digest(name.as_bytes()));
        let place = folder.path().join("contexts/meta").join(hash);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("meta.json"), meta).unwrap();
        let surroundings = Surroundings {
            configuration: Some(folder.path().to_owned()),
            ..Surroundings::default()
        };
        (folder, surroundings)
    }

    const META: &str = r#"{"Name":"desk","Endpoints":{"docker":{"Host":"unix:///desk.sock","SkipTLSVerify":false}}}"#;

    #[test]
    fn without_anything_it_is_the_default_socket() {
        assert_eq!(Surroundings::default().endpoint().unwrap(), DEFAULT);
    }

    #[test]
    fn the_current_context_of_the_configuration_is_used() {
        let (folder, surroundings) = with_context("desk", META);
        std::fs::write(folder.path().join("config.json"), r#"{"currentContext":"desk"}"#).unwrap();
        assert_eq!(surroundings.endpoint().unwrap(), "unix:///desk.sock");
    }

    #[test]
    fn a_host_beats_a_context_and_a_named_context_beats_the_configuration() {
        let (folder, mut surroundings) = with_context("desk", META);
        std::fs::write(folder.path().join("config.json"), r#"{"currentContext":"gone"}"#).unwrap();
        surroundings.context = Some("desk".to_owned());
        assert_eq!(surroundings.endpoint().unwrap(), "unix:///desk.sock");
        surroundings.context = Some("default".to_owned());
        assert_eq!(surroundings.endpoint().unwrap(), DEFAULT);
        surroundings.host = Some("tcp://127.0.0.1:2375".to_owned());
        assert_eq!(surroundings.endpoint().unwrap(), "tcp://127.0.0.1:2375");
    }

    #[test]
    fn an_absent_context_is_an_error_and_no_fallback() {
        let (_folder, mut surroundings) = with_context("desk", META);
        surroundings.context = Some("other".to_owned());
        let error = surroundings.endpoint().unwrap_err().to_string();
        assert!(
            error.contains("context `other`") && error.contains("no such context"),
            "{error}"
        );
    }

    #[test]
    fn ssh_and_tls_are_refused_in_words() {
        for (url, tls, word) in [
            ("ssh://host", false, "ssh://"),
            ("tcp://host:2376", true, "TLS"),
            ("https://host", false, "TLS"),
            ("docker.sock", false, "without a scheme"),
        ] {
            let error = supported(url.to_owned(), tls).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("not supported"), "{error}");
        }
    }
}
