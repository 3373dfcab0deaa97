//! The kernel settings that a relay cannot work without.
//!
//! In an unprivileged container /proc/sys is read-only and whoever made the container has set them: a setting
//! that is already right is left alone, and only a wrong one that cannot be written is an error.

use std::{fs, io};

/// A setting is wrong and cannot be put right.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// It could not be read.
    #[error("read sysctl {name}: {source}")]
    Read {
        /// Dotted name.
        name: String,
        /// Cause.
        source: io::Error,
    },
    /// It has another value and could not be written.
    #[error("set sysctl {name} from {found} to {wanted}: {source} (the container needs it set)")]
    Write {
        /// Dotted name.
        name: String,
        /// Value found.
        found: String,
        /// Value needed.
        wanted: &'static str,
        /// Cause.
        source: io::Error,
    },
}

/// Bring the settings of the network namespace to what routing through a TUN device needs: forwarding, and no
/// check of the way back, as packets of a node come in through two interfaces.
pub fn require() -> Result<(), SysctlError> {
    require_one("net.ipv4.ip_forward", "1")?;
    require_one("net.ipv4.conf.all.rp_filter", "0")?;
    require_one("net.ipv4.conf.default.rp_filter", "0")?;
    require_one("net.ipv4.conf.all.send_redirects", "0")?;
    require_one("net.ipv4.conf.default.send_redirects", "0")
}

fn require_one(name: &str, wanted: &'static str) -> Result<(), SysctlError> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let found = fs::read_to_string(&path).map_err(|source| SysctlError::Read {
        name: name.to_owned(),
        source,
    })?;
    let found = found.trim();
    if found == wanted {
        return Ok(());
    }
    fs::write(&path, wanted).map_err(|source| SysctlError::Write {
        name: name.to_owned(),
        found: found.to_owned(),
        wanted,
        source,
    })
}
