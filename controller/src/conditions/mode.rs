//! The way of packets through relays, in words.

use wire::{Path, StreamSettings};

/// As the command line writes it: `packet`, `stream order=pipelined nodelay=on`, or `kernel`, which no file asks for.
#[must_use]
pub fn mode_text(path: Path) -> String {
    match path {
        Path::Tun => "packet".to_owned(),
        Path::Kernel => "kernel (no condition applies)".to_owned(),
        Path::Stream(StreamSettings { order, nodelay }) => {
            format!("stream order={} nodelay={}", order.word(), nodelay.word())
        }
    }
}
