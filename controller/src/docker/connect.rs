//! Makes the one client of an engine: endpoint, negotiated version, oldest version accepted, and hints for the ways in
//! which a connection fails on a real desk.
//!
//! The version is negotiated before the client is shared: negotiation hands out a new client in later releases of the
//! library, and a clone made before would speak the wrong version.

use super::endpoint::Surroundings;
use super::{Docker, EngineError};
use bollard::errors::Error;
use std::error::Error as _;
use std::io::ErrorKind;
use std::time::Duration;

/// Oldest API that the networks and containers of a lab were proven on (engine 20.10).
const OLDEST: (usize, usize) = (1, 41);
/// Seconds until the headers of an answer must be there where a call has no limit of its own (images are moved).
const ANSWER_TIMEOUT_S: u64 = 120;
/// Limit of a call unless another one is set. Starting a container on a busy disk takes seconds.
pub const CALL_LIMIT: Duration = Duration::from_secs(60);
/// Limit of the first answer, in which the engine has nothing to do but say its version.
const FIRST_LIMIT: Duration = Duration::from_secs(20);

impl Docker {
    /// The engine of `host` (`--host`), or the one that the Docker CLI would use.
    ///
    /// # Errors
    /// It cannot be reached, or is older than 20.10.
    pub async fn connect(host: Option<&str>) -> Result<Self, EngineError> {
        let endpoint = Surroundings::of_process(host).endpoint()?;
        let failed = |error: &Error| unreachable(&endpoint, error);
        let version = bollard::API_DEFAULT_VERSION;
        let api = if endpoint.starts_with("unix://") {
            bollard::Docker::connect_with_unix(&endpoint, ANSWER_TIMEOUT_S, version)
        } else {
            bollard::Docker::connect_with_http(&endpoint, ANSWER_TIMEOUT_S, version)
        };
        let api = api.map_err(|error| failed(&error))?;
        let api = within(FIRST_LIMIT, api.negotiate_version()).await;
        let api = api.map_err(|error| failed(&error))?;
        let docker = Self {
            api,
            endpoint,
            limit: CALL_LIMIT,
        };
        if docker.spoken() < OLDEST {
            let engine = within(FIRST_LIMIT, docker.api.version()).await;
            let engine = engine.ok().and_then(|version| version.version);
            return Err(EngineError::TooOld {
                version: engine.unwrap_or_else(|| "of unknown version".to_owned()),
                api_version: docker.api_version(),
            });
        }
        Ok(docker)
    }

    /// The same with another limit of one call, other than those that move images.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// A call that must be over, its whole answer read, within the limit.
    pub(in crate::docker) async fn timed<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        within(self.limit, call).await
    }

    /// The API that was agreed on.
    #[must_use]
    pub fn api_version(&self) -> String {
        let (major, minor) = self.spoken();
        format!("{major}.{minor}")
    }

    /// Whether the engine drops packets to containers that arrive on another bridge (28.0 and newer).
    #[must_use]
    pub fn guards_addresses(&self) -> bool {
        self.spoken() >= super::bodies::GUARDED_ADDRESSES
    }

    pub(in crate::docker) fn spoken(&self) -> (usize, usize) {
        let version = self.api.client_version();
        (version.major_version, version.minor_version)
    }

    /// Socket or address of the engine, as a URL.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Whether the engine's host is this one: then /proc and /dev here are the engine's.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.endpoint.starts_with("unix://")
            || ["tcp://127.", "tcp://localhost", "http://127.", "http://localhost"]
                .iter()
                .any(|start| self.endpoint.starts_with(start))
    }
}

async fn within<T>(limit: Duration, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    // The client's own limit ends with the headers of an answer.
    tokio::time::timeout(limit, call)
        .await
        .unwrap_or(Err(Error::RequestTimeoutError))
}

/// The error of an engine that does not answer at all.
pub(in crate::docker) fn unreachable(endpoint: &str, error: &Error) -> EngineError {
    let socket = endpoint.strip_prefix("unix://");
    let absent = matches!(error, Error::SocketNotFoundError(_));
    let hint = match (absent, io_kind(error)) {
        (true, _) | (_, Some(ErrorKind::NotFound)) => {
            "is Docker installed and running? Otherwise name the engine with --host or DOCKER_HOST".to_owned()
        }
        (_, Some(ErrorKind::PermissionDenied)) => format!(
            "this user may not use {}: add it to the socket's group (`sudo usermod -aG docker $USER`, then log in again), \
             or name another engine with DOCKER_HOST",
            socket.unwrap_or(endpoint)
        ),
        (_, Some(ErrorKind::ConnectionRefused)) => {
            "nothing listens there: start the engine (`sudo systemctl start docker`)".to_owned()
        }
        _ => "`docker version` with the same DOCKER_HOST shows whether the engine answers".to_owned(),
    };
    let cause = if absent {
        "there is no such socket".to_owned()
    } else {
        innermost(error)
    };
    EngineError::Unreachable {
        endpoint: endpoint.to_owned(),
        cause,
        hint,
    }
}

fn io_kind(error: &Error) -> Option<ErrorKind> {
    // A transparent variant passes on the sources of what it holds, not itself.
    if let Error::IOError { err } = error {
        return Some(err.kind());
    }
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        source = inner.source();
    }
    None
}

pub(in crate::docker) fn innermost(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_absent_socket_says_so_with_a_hint() {
        let error = Docker::connect(Some("unix:///nowhere/docker.sock")).await.unwrap_err();
        let EngineError::Unreachable { endpoint, cause, hint } = error else {
            panic!("{error:?}");
        };
        assert_eq!(endpoint, "unix:///nowhere/docker.sock");
        assert!(cause.contains("no such socket"), "{cause}");
        assert!(hint.contains("DOCKER_HOST"), "{hint}");
    }

    #[tokio::test]
    async fn a_socket_that_nobody_serves_is_refused_with_the_command_that_starts_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let error = Docker::connect(Some(&format!("unix://{}", path.display())))
            .await
            .unwrap_err();
        let EngineError::Unreachable { hint, .. } = error else {
            panic!("{error:?}");
        };
        assert!(hint.contains("start the engine"), "{hint}");
    }

    #[test]
    fn a_denied_socket_names_the_group() {
        let error = Error::IOError {
            err: std::io::Error::from(ErrorKind::PermissionDenied),
        };
        let EngineError::Unreachable { hint, .. } = unreachable("unix:///var/run/docker.sock", &error) else {
            panic!("not unreachable");
        };
        assert!(
            hint.contains("usermod -aG docker") && hint.contains("/var/run/docker.sock"),
            "{hint}"
        );
    }
}
