//! The TUN device: opened with a header before each packet and with segmentation offload, so that the kernel
//! hands over up to 64 KiB of a flow at once and takes it back unchanged. Without offload it cuts everything to
//! the MTU, which costs a factor of ten.
//!
//! Refuses to look into the header: it belongs to the kernel on both sides.

#![allow(unsafe_code, reason = "ioctls of the TUN device have no safe wrapper in std")]

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Bytes of the header (`struct virtio_net_hdr`) before each packet.
pub const HEADER_LEN: usize = 10;

const NODE: &str = "/dev/net/tun";
const NAME: &str = "relay0";
const STATISTICS: &str = "/proc/self/net/dev";

/// Offloads in the order in which they are tried: with UDP segmentation (Linux 6.2), without, none.
const OFFLOADS: [libc::c_uint; 3] = [TCP_OFFLOADS | UDP_OFFLOADS, TCP_OFFLOADS, 0];
const TCP_OFFLOADS: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const UDP_OFFLOADS: libc::c_uint = 0x20 | 0x40;

/// The device could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// Its node could not be opened.
    #[error("open {NODE}: {source} (the container needs the device)")]
    Open {
        /// Cause.
        source: io::Error,
    },
    /// An ioctl failed.
    #[error("{step} TUN device {NAME}: {source} (the container needs NET_ADMIN)")]
    Refused {
        /// What was to be done.
        step: &'static str,
        /// Cause.
        source: io::Error,
    },
}

/// A TUN device; it exists as long as this value.
#[derive(Debug)]
pub struct Tun {
    file: File,
    index: u32,
    offload: bool,
}

impl Tun {
    /// Make the device in the network namespace of the calling thread.
    pub fn open() -> Result<Self, TunError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(NODE)
            .map_err(|source| TunError::Open { source })?;
        attach(&file).map_err(|source| TunError::Refused { step: "create", source })?;
        let offload = set_offload(&file).map_err(|source| TunError::Refused {
            step: "set offloads of",
            source,
        })?;
        let index = index_of(NAME).map_err(|source| TunError::Refused { step: "find", source })?;
        Ok(Self { file, index, offload })
    }

    /// The device, non-blocking: a read gives one packet with its header, a write takes one.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Interface number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Interface name.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Whether segmentation offload is active.
    pub fn offload(&self) -> bool {
        self.offload
    }
}

/// The kernel's counters of the device cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StatisticsError {
    /// The file cannot be read.
    #[error("read {STATISTICS}: {0}")]
    Read(#[from] io::Error),
    /// The device is not in it, or not as expected.
    #[error("find device {0} in {STATISTICS}")]
    NotFound(String),
}

/// Packets that the kernel dropped because the device's queue was full.
pub fn dropped_unread(name: &str) -> Result<u64, StatisticsError> {
    let text = fs::read_to_string(STATISTICS)?;
    transmit_drops(&text, name).ok_or_else(|| StatisticsError::NotFound(name.to_owned()))
}

/// What the kernel transmits on a TUN device is what its owner reads.
fn transmit_drops(statistics: &str, name: &str) -> Option<u64> {
    // Eight columns of the receiving side, then bytes, packets, errors and drops of the transmitting one.
    const COLUMN: usize = 11;
    let columns = statistics
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    columns.split_ascii_whitespace().nth(COLUMN)?.parse().ok()
}

fn attach(file: &File) -> io::Result<()> {
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    // SAFETY: ifreq is plain old data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open for the call, and the kernel reads and writes one ifreq, which `request` is.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Set the best offloads that the kernel has; returns whether segmentation is among them.
fn set_offload(file: &File) -> io::Result<bool> {
    let mut last = None;
    for offloads in OFFLOADS {
        // SAFETY: the descriptor is open for the call; the argument is a number, not a pointer.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) };
        if result >= 0 {
            return Ok(offloads != 0);
        }
        last = Some(io::Error::last_os_error());
    }
    Err(last.expect("at least one set of offloads was tried"))
}

fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a string that ends in a zero byte and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATISTICS_TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
relay01:      0       0    0    0    0     0          0         0        0       0    0   99    0     0       0          0
relay0: 800     10    0    0    0     0          0         0     5000      60    0   17    0     0       0          0
";

    #[test]
    fn drops_of_the_device_are_found_by_its_whole_name() {
        assert_eq!(transmit_drops(STATISTICS_TEXT, "relay0"), Some(17));
        assert_eq!(transmit_drops(STATISTICS_TEXT, "lo"), Some(12));
        assert_eq!(transmit_drops(STATISTICS_TEXT, "relay"), None);
        assert_eq!(transmit_drops("", "relay0"), None);
    }
}
