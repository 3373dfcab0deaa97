//! What the host of the engine gives: device, kernel switches, clock, routes, room, programs. Looks only; values come from
//! /proc and /sys, and what a text there means is decided by pure functions.

use super::Check;
use crate::address::POOL;
use ipnet::Ipv4Net;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Room for the images and a few labs.
const ENOUGH_ROOM_BYTES: u64 = 2 << 30;
/// Clock sources that are read without leaving user space.
const FAST_CLOCKS: [&str; 4] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];

/// Value of a kernel switch or attribute.
pub(super) fn value(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// The TUN device that a relay reads packets from.
pub(super) fn tun() -> Check {
    let name = "tun device";
    let path = "/dev/net/tun";
    let fix = "sudo modprobe tun (in a virtual machine or container: ask for /dev/net/tun there)";
    match std::fs::metadata(path) {
        Ok(seen) if seen.file_type().is_char_device() => Check::ok(name, path),
        Ok(_) => Check::fail(name, format!("{path} is no device"), fix),
        Err(error) => Check::fail(name, format!("{path}: {error}"), fix),
    }
}

/// Forwarding on the host. Relays forward in a namespace of their own; the host's switch matters to published ports.
pub(super) fn forwarding() -> Check {
    let name = "forwarding";
    match value("/proc/sys/net/ipv4/ip_forward").as_deref() {
        Some("1") => Check::ok(name, "on"),
        _ => Check::warn(
            name,
            "off on the host: labs work, published ports may not answer from elsewhere",
            "sudo sysctl -w net.ipv4.ip_forward=1",
        ),
    }
}

/// Whether bridged frames pass through iptables, and whether the engine has rules that they then meet.
pub(super) fn bridge_netfilter(of_engine: bool, guards_addresses: bool) -> Check {
    let name = "bridge netfilter";
    let on = value("/proc/sys/net/bridge/bridge-nf-call-iptables").map_or(of_engine, |value| value == "1");
    let found = if on {
        "on: bridged frames pass through iptables; labs work either way"
    } else {
        "off: bridged frames do not pass through iptables; labs work either way"
    };
    if on && guards_addresses {
        return Check::warn(
            name,
            "on: engines since 28.0 then drop what comes from another datacenter for one that publishes a port",
            "publish no port, or: sudo sysctl -w net.bridge.bridge-nf-call-iptables=0",
        );
    }
    Check::ok(name, found)
}

/// The kernel's clock source.
pub(super) fn clock() -> Check {
    let name = "clock source";
    let seen = value("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match seen.as_deref() {
        Some(source) if FAST_CLOCKS.contains(&source) => Check::ok(name, source),
        Some(source) => Check::warn(
            name,
            format!("{source}: reading it can take microseconds"),
            format!(
                "boot with a faster one if `dmesg` does not call it unstable ({})",
                FAST_CLOCKS.join(", ")
            ),
        ),
        None => Check::warn(name, "unknown", "nothing to do: numbers say how precise they are"),
    }
}

/// Whether the CPUs are told to save power.
pub(super) fn governor() -> Option<Check> {
    let name = "cpu governor";
    let seen = value("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")?;
    Some(if seen == "powersave" {
        let fix = "for steadier numbers: sudo cpupower frequency-set -g performance";
        Check::warn(name, seen, fix)
    } else {
        Check::ok(name, seen)
    })
}

/// Room where the engine keeps images and volumes.
pub(super) fn room(storage: &Path) -> Check {
    let name = "disk space";
    // The folder itself may be root's; its file system is that of the nearest folder we may look at.
    let room = storage.ancestors().find_map(|folder| {
        let seen = rustix::fs::statvfs(folder).ok()?;
        Some((folder, seen.f_bavail.saturating_mul(seen.f_frsize)))
    });
    let Some((folder, free)) = room else {
        return Check::warn(name, "unknown", format!("look with `df -h {}`", storage.display()));
    };
    #[allow(clippy::cast_precision_loss)] // printed with one decimal
    let found = format!(
        "{:.1} GiB free below {}",
        free as f64 / f64::from(1 << 30),
        folder.display()
    );
    if free < ENOUGH_ROOM_BYTES {
        return Check::warn(name, found, "free some: `docker system df` shows what takes it");
    }
    Check::ok(name, found)
}

/// Subnets of the pool that the host routes elsewhere, beside those of the engine's own networks.
pub(super) fn foreign_routes(of_engine: &[Ipv4Net]) -> Vec<Ipv4Net> {
    let text = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let mut routes = routes(&text);
    // Wider ones (a default route, a tunnel's halves) give way to a bridge's own.
    routes.retain(|route| POOL.contains(route) && !of_engine.iter().any(|own| own.contains(route)));
    routes.sort();
    routes.dedup();
    routes
}

/// Destinations in the text of /proc/net/route.
fn routes(text: &str) -> Vec<Ipv4Net> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let destination = number(words.next()?)?;
            let mask = number(words.nth(5)?)?;
            let prefix = u8::try_from(mask.leading_ones()).ok()?;
            Ipv4Net::new(Ipv4Addr::from(destination), prefix).ok()
        })
        .collect()
}

/// Programs of this machine that build images and the instrument.
pub(super) fn programs() -> Vec<Check> {
    let missing: Vec<&str> = ["apt-get", "dpkg-deb"]
        .into_iter()
        .filter(|name| on_path(name).is_none())
        .collect();
    let packages = if missing.is_empty() {
        Check::ok("build images", "apt-get and dpkg-deb are here")
    } else {
        Check::warn(
            "build images",
            format!("no {}: images can only be pulled", missing.join(", no ")),
            "nothing, if a registry answers; otherwise use a Debian machine, or name an image: --release redis=IMAGE",
        )
    };
    let cargo = match on_path("cargo") {
        Some(path) => Check::ok("build instrument", path.display().to_string()),
        None => Check::warn(
            "build instrument",
            "no cargo: relay and probe must lie beside testbed",
            "install Rust, see README.md",
        ),
    };
    vec![packages, cargo]
}

fn on_path(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Whether a `testbed run` is under way on this machine.
pub(super) fn a_run_is_under_way() -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return false;
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(|c: char| c.is_ascii_digit())
        })
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| is_a_run(&line))
}

/// Whether a command line (words end with a zero byte) is `testbed ... run ...`.
fn is_a_run(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let program = words.next().unwrap_or_default();
    Path::new(&*program).file_name().is_some_and(|name| name == "testbed") && words.any(|word| word == "run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_as_the_kernel_writes_them() {
        let text = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                    eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                    tun0\t000012C6\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
                    eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let seen: Vec<String> = routes(text).iter().map(ToString::to_string).collect();
        assert_eq!(seen, ["0.0.0.0/0", "198.18.0.0/16", "172.17.0.0/16"]);
    }

    #[test]
    fn a_run_is_known_by_its_words() {
        assert!(is_a_run(b"/usr/bin/testbed\0-q\0run\0--only\x001\0"));
        assert!(!is_a_run(b"/usr/bin/testbed\0up\0"));
        assert!(!is_a_run(b"cargo\0run\0"));
        assert!(!is_a_run(b""));
    }
}
