//! What a failed engine call means: the engine's status and words become one of our kinds of refusal.
//!
//! Engines tell most things by text only, and 403 means five different things; the texts were seen on 20.10. A text
//! that nobody knows is `Other` with the engine's words kept, never guessed.

use super::connect::innermost;
use super::{Docker, EngineError, Refusal};
use bollard::errors::Error;

impl Docker {
    /// Our error for a failed call. `verb` is what was tried, e.g. `create network`.
    pub(in crate::docker) fn refused(&self, verb: &'static str, object: &str, error: &Error) -> EngineError {
        let (status, cause) = match error {
            Error::DockerResponseServerError { status_code, message } => (*status_code, message.trim().to_owned()),
            Error::DockerStreamError { error } => (0, error.trim().to_owned()),
            Error::DockerContainerWaitError { error, code } => {
                (0, format!("exit code {code} {error}").trim().to_owned())
            }
            Error::HyperLegacyError { .. }
            | Error::HyperResponseError { .. }
            | Error::IOError { .. }
            | Error::RequestTimeoutError
            | Error::SocketNotFoundError(_) => {
                return EngineError::Lost {
                    verb,
                    object: object.to_owned(),
                    endpoint: self.endpoint.clone(),
                    cause: match error {
                        Error::RequestTimeoutError => format!("it was waited for {:?}", self.limit),
                        Error::SocketNotFoundError(_) => "there is no such socket any more".to_owned(),
                        _ => innermost(error),
                    },
                };
            }
            other => (0, other.to_string()),
        };
        EngineError::Refused {
            verb,
            object: object.to_owned(),
            status,
            refusal: classify(status, &cause),
            cause,
        }
    }
}

/// The kind of a refusal, from the HTTP status (0: none) and the engine's words.
pub(in crate::docker) fn classify(status: u16, cause: &str) -> Refusal {
    let cause = cause.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| cause.contains(word));
    if says(&["pool overlaps", "overlaps with other one", "conflicts with network"]) && !says(&["bridge name"]) {
        return Refusal::Overlap;
    }
    // "networks have same bridge name" and "conflicts with network ID (br..): networks have overlapping IPv4" come in
    // one sentence each; the bridge is asked first so that only the second counts as an overlap.
    if says(&[
        "bridge name",
        "already in use",
        "already exists",
        "is already allocated",
        "already taken",
    ]) {
        return Refusal::Taken;
    }
    if says(&[
        "active endpoints",
        "is in use",
        "is being used",
        "using its referenced image",
    ]) {
        return Refusal::InUse;
    }
    if status == 404
        || says(&[
            "no such container",
            "no such network",
            "no such volume",
            "no such image",
        ])
    {
        return Refusal::NotFound;
    }
    Refusal::Other
}

/// Whether a failed removal has in truth removed the object, or is about to.
pub(in crate::docker) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
        || matches!(error, Error::DockerResponseServerError { status_code: 409, message }
            if message.contains("is already in progress"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_words_become_kinds() {
        for (status, text, refusal) in [
            (
                403,
                "Pool overlaps with other one on this address space",
                Refusal::Overlap,
            ),
            (
                403,
                "cannot create network 0a (tb12): conflicts with network 0b (tb12): networks have same bridge name",
                Refusal::Taken,
            ),
            (
                403,
                "cannot create network 0a (br-0a): conflicts with network 0b (br-0b): networks have overlapping IPv4",
                Refusal::Overlap,
            ),
            (403, "Address already in use", Refusal::Taken),
            (
                409,
                "Conflict. The container name \"/x\" is already in use by container \"1\".",
                Refusal::Taken,
            ),
            (
                500,
                "driver failed programming external connectivity on endpoint x: Bind for 127.0.0.1:6379 failed: port is \
                 already allocated",
                Refusal::Taken,
            ),
            (
                403,
                "error while removing network: network x id 1 has active endpoints",
                Refusal::InUse,
            ),
            (409, "remove x: volume is in use - [1]", Refusal::InUse),
            (404, "No such container: x", Refusal::NotFound),
            (404, "No such image: x:latest", Refusal::NotFound),
            (500, "invalid CIDR address", Refusal::Other),
        ] {
            assert_eq!(classify(status, text), refusal, "{text}");
        }
    }

    #[test]
    fn a_removal_in_progress_is_done() {
        let said = |status_code, message: &str| Error::DockerResponseServerError {
            status_code,
            message: message.to_owned(),
        };
        assert!(is_gone(&said(404, "No such container: x")));
        assert!(is_gone(&said(409, "removal of container x is already in progress")));
        assert!(!is_gone(&said(409, "You cannot remove a running container")));
        assert!(!is_gone(&said(500, "x")));
    }
}
