//! Finds out what the manifest says of this host and of files. The only place that reads the wall clock; a fact that
//! the system does not tell is `None`.

use crate::manifest::Host;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Now, RFC 3339, UTC, whole seconds.
#[must_use]
pub fn utc_now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// This host.
#[must_use]
pub fn host() -> Host {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let cpus = read("/proc/cpuinfo");
    Host {
        kernel: (!kernel.is_empty()).then_some(kernel),
        cpu_model: cpu_model(&cpus),
        cpus: cpu_count(&cpus),
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
    }
}

/// SHA-256 of a file, hex; `None` if it cannot be read.
#[must_use]
pub fn sha256_of_file(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| hex(&Sha256::digest(bytes)))
}

/// SHA-256 of a text, hex.
#[must_use]
pub fn sha256_of_text(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    value_of(cpuinfo, "model name").map(str::to_owned)
}

fn cpu_count(cpuinfo: &str) -> Option<u32> {
    let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    u32::try_from(count).ok().filter(|count| *count > 0)
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kibibytes = value_of(meminfo, "MemTotal")?.strip_suffix("kB")?.trim();
    kibibytes.parse().ok().map(|kibibytes: u64| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_and_memory_are_read_as_the_kernel_writes_them() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A: B @ 2.0GHz\n\nprocessor\t: 1\nmodel name\t: A: B @ 2.0GHz\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("A: B @ 2.0GHz"));
        assert_eq!(cpu_count(cpuinfo), Some(2));
        assert_eq!(
            memory_bytes("MemTotal:        2048 kB\nMemFree: 1 kB\n"),
            Some(2_097_152)
        );
        assert_eq!((cpu_model(""), cpu_count(""), memory_bytes("")), (None, None, None));
    }

    #[test]
    fn a_digest_is_the_well_known_one() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256_of_text(""), empty);
        assert_eq!(sha256_of_file(Path::new("/dev/null")).as_deref(), Some(empty));
        assert_eq!(sha256_of_file(Path::new("/absent")), None);
    }

    #[test]
    fn the_clock_is_written_as_rfc_3339() {
        let now = utc_now();
        assert_eq!((now.len(), &now[10..11], &now[19..]), (20, "T", "Z"), "{now}");
    }
}
