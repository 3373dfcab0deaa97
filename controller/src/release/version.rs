//! Versions: the pattern that a release pins, and what a live server says of itself.
//!
//! Valkey reports a Redis version for the sake of old clients; its own stands in `valkey_version` and is the one that
//! counts. Pure.

use crate::topology::EngineKind;
use std::fmt;

/// What a live server must report: an exact version, or a line (`9.1.x`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionPattern {
    numbers: Vec<u64>,
    line: bool,
}

/// What a live server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// Which server it is.
    pub engine: EngineKind,
    /// Its own version, without the distribution's words.
    pub version: String,
}

/// A live server is not what the release says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("find {wanted} in the running server: it reports {found}")]
pub struct VersionMismatch {
    /// Engine and pattern.
    pub wanted: String,
    /// Engine and version.
    pub found: String,
}

impl VersionPattern {
    /// From `7.0.15` or `9.1.x`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (numbers, line) = text.strip_suffix(".x").map_or((text, false), |numbers| (numbers, true));
        let numbers = numbers
            .split('.')
            .map(|part| part.parse().ok())
            .collect::<Option<Vec<u64>>>()?;
        Some(Self { numbers, line })
    }

    /// Whether a version is of this pattern.
    #[must_use]
    pub fn accepts(&self, version: &str) -> bool {
        let Some(numbers) = numbers(version) else { return false };
        if self.line {
            numbers.starts_with(&self.numbers)
        } else {
            numbers == self.numbers
        }
    }

    /// Checks what a live server said against a release's engine and this pattern.
    ///
    /// # Errors
    /// It is another server or another version.
    pub fn check(&self, engine: EngineKind, found: &Reported) -> Result<(), VersionMismatch> {
        if found.engine == engine && self.accepts(&found.version) {
            return Ok(());
        }
        Err(VersionMismatch {
            wanted: format!("{} {self}", engine.as_str()),
            found: format!("{} {}", found.engine.as_str(), found.version),
        })
    }
}

impl fmt::Display for VersionPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(u64::to_string).collect();
        write!(f, "{}{}", numbers.join("."), if self.line { ".x" } else { "" })
    }
}

/// What a server says of itself: the text of `INFO server`, or the value of `SHOW server_version`.
#[must_use]
pub fn reported(engine: EngineKind, text: &str) -> Option<Reported> {
    if engine == EngineKind::Postgres {
        let version = text.split_whitespace().next()?.to_owned();
        return numbers(&version).map(|_| Reported { engine, version });
    }
    let field = |key: &str| {
        text.lines()
            .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'))
            .map(str::to_owned)
    };
    match field("valkey_version") {
        Some(version) => Some(Reported {
            engine: EngineKind::Valkey,
            version,
        }),
        None => field("redis_version").map(|version| Reported {
            engine: EngineKind::Redis,
            version,
        }),
    }
}

/// The upstream part of a Debian version: no epoch, no revision, nothing that a repacker added.
#[must_use]
pub fn upstream_of_debian(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    let version = version.rsplit_once('-').map_or(version, |(upstream, _)| upstream);
    version.split(['+', '~']).next().unwrap_or(version)
}

/// The number that a text starts with.
pub(super) fn leading_number(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

fn numbers(version: &str) -> Option<Vec<u64>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> VersionPattern {
        VersionPattern::parse(text).expect("legal")
    }

    #[test]
    fn a_line_accepts_its_patches_and_an_exact_version_only_itself() {
        assert!(pattern("9.1.x").accepts("9.1.2") && pattern("15.x").accepts("15.18"));
        for other in ["9.10.2", "9.2.0", "8.1.2", "19.1.2", "9.1.x", ""] {
            assert!(!pattern("9.1.x").accepts(other), "{other}");
        }
        assert!(pattern("7.0.15").accepts("7.0.15"));
        assert!(!pattern("7.0.15").accepts("7.0.1") && !pattern("7.0.1").accepts("7.0.15"));
    }

    #[test]
    fn a_pattern_is_printed_as_it_was_written() {
        for text in ["7.0.15", "9.1.x", "15.x", "16.13"] {
            assert_eq!(pattern(text).to_string(), text);
        }
        for bad in ["", "x", "7.x.1", "v7", "7.0.15-rc1", "7..1"] {
            assert!(VersionPattern::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn valkey_is_known_by_its_own_version() {
        let valkey = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n";
        let found = reported(EngineKind::Redis, valkey).expect("a version");
        assert_eq!(
            found,
            Reported {
                engine: EngineKind::Valkey,
                version: "9.1.2".to_owned()
            }
        );
        assert!(pattern("9.1.x").check(EngineKind::Valkey, &found).is_ok());
        let error = pattern("7.2.4")
            .check(EngineKind::Redis, &found)
            .expect_err("another server");
        assert_eq!(
            error.to_string(),
            "find redis 7.2.4 in the running server: it reports valkey 9.1.2"
        );
    }

    #[test]
    fn redis_and_postgres_report_their_version() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\n";
        assert_eq!(
            reported(EngineKind::Valkey, redis).map(|r| r.engine),
            Some(EngineKind::Redis)
        );
        let postgres = reported(EngineKind::Postgres, "15.18 (Debian 15.18-0+deb12u1)").expect("a version");
        assert_eq!(postgres.version, "15.18");
        assert_eq!(reported(EngineKind::Redis, "-NOAUTH"), None);
        assert_eq!(reported(EngineKind::Postgres, ""), None);
    }

    #[test]
    fn the_upstream_part_of_a_debian_version_is_found() {
        for (debian, upstream) in [
            ("5:7.0.15-1~deb12u7", "7.0.15"),
            ("8.1.1+dfsg1-3+deb13u3", "8.1.1"),
            ("15.18-0+deb12u1", "15.18"),
            ("19~rc1-1", "19"),
        ] {
            assert_eq!(upstream_of_debian(debian), upstream);
        }
    }
}
