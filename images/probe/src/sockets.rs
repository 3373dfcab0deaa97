//! The kernel's own list of connections in the network of this process, and of the networks that it reaches without a
//! router. The probe can stand in the network of a server (a container that shares it), where no program of the server's
//! image is needed to read it.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use wire::SocketsSeen;

/// Connections over IPv4, and over sockets that take both.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// Routes.
const ROUTES: &str = "/proc/net/route";
/// An established connection, as the kernel writes it.
const ESTABLISHED: &str = "01";

/// Why the kernel's lists could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SocketsError {
    /// A file cannot be read.
    #[error("read {file}: {source}")]
    Read {
        /// The file.
        file: &'static str,
        /// Cause.
        source: io::Error,
    },
    /// It is not what kernels write.
    #[error("understand {file}: {line}")]
    Malformed {
        /// The file.
        file: &'static str,
        /// The line.
        line: String,
    },
}

/// Looks.
pub fn look() -> Result<SocketsSeen, SocketsError> {
    let mut established = Vec::new();
    for file in TABLES {
        match std::fs::read_to_string(file) {
            Ok(text) => established.extend(connections(file, &text)?),
            // A kernel without IPv6 has no such table.
            Err(error) if file == TABLES[1] && error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(SocketsError::Read { file, source }),
        }
    }
    let text = std::fs::read_to_string(ROUTES).map_err(|source| SocketsError::Read { file: ROUTES, source })?;
    Ok(SocketsSeen {
        established,
        networks: networks(&text)?,
    })
}

/// Established connections, this end first. Those of IPv6 proper are none of a lab's.
fn connections(file: &'static str, table: &str) -> Result<Vec<(SocketAddrV4, SocketAddrV4)>, SocketsError> {
    let mut connections = Vec::new();
    for line in table.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        let [_, local, remote, state] = words.as_slice() else {
            return Err(malformed(file, line));
        };
        if *state != ESTABLISHED {
            continue;
        }
        let ends = [local, remote].map(|end| {
            end.split_once(':')
                .map(|(address, port)| (address, u16::from_str_radix(port, 16)))
        });
        let [Some((local, Ok(local_port))), Some((remote, Ok(remote_port)))] = ends else {
            return Err(malformed(file, line));
        };
        let (Some(local), Some(remote)) = (address(local), address(remote)) else {
            return Err(malformed(file, line));
        };
        if let (Some(local), Some(remote)) = (local, remote) {
            connections.push((
                SocketAddrV4::new(local, local_port),
                SocketAddrV4::new(remote, remote_port),
            ));
        }
    }
    Ok(connections)
}

/// An address as the kernel writes it, words in the byte order of the machine (inner `None`: it is not of IPv4).
fn address(hex: &str) -> Option<Option<Ipv4Addr>> {
    let words: Vec<[u8; 4]> = hex
        .as_bytes()
        .chunks(8)
        .map(|word| {
            Some(
                u32::from_str_radix(std::str::from_utf8(word).ok()?, 16)
                    .ok()?
                    .to_ne_bytes(),
            )
        })
        .collect::<Option<_>>()?;
    match words.as_slice() {
        [v4] => Some(Some(Ipv4Addr::from(*v4))),
        [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0xff, 0xff], v4] => Some(Some(Ipv4Addr::from(*v4))),
        [_, _, _, _] => Some(None),
        _ => None,
    }
}

/// Networks that are reached without a router: address and prefix length.
fn networks(routes: &str) -> Result<Vec<(Ipv4Addr, u8)>, SocketsError> {
    let mut networks = Vec::new();
    for line in routes.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().take(8).collect();
        let [_, destination, gateway, _, _, _, _, mask] = words.as_slice() else {
            return Err(malformed(ROUTES, line));
        };
        let [Some(Some(destination)), Some(Some(gateway)), Some(Some(mask))] =
            [destination, gateway, mask].map(|word| address(word))
        else {
            return Err(malformed(ROUTES, line));
        };
        if gateway.is_unspecified() {
            let length = u8::try_from(u32::from(mask).leading_ones()).expect("a word has 32 bits");
            networks.push((destination, length));
        }
    }
    Ok(networks)
}

fn malformed(file: &'static str, line: &str) -> SocketsError {
    SocketsError::Malformed {
        file,
        line: line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// As a kernel of this byte order writes it.
    fn written(address: [u8; 4]) -> String {
        format!("{:08X}", u32::from_ne_bytes(address))
    }

    #[test]
    fn an_open_connection_is_listed_from_both_ends_and_a_listener_is_not() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let seen = look().unwrap();
        let ends = [stream.local_addr().unwrap(), stream.peer_addr().unwrap()];
        let [local, remote] = ends.map(|end| match end {
            std::net::SocketAddr::V4(end) => end,
            std::net::SocketAddr::V6(end) => panic!("{end}"),
        });
        assert!(seen.established.contains(&(local, remote)), "{seen:?}");
        assert!(seen.established.contains(&(remote, local)), "{seen:?}");
        assert!(seen.established.iter().all(|(_, remote)| remote.port() != 0));
    }

    #[test]
    fn only_established_connections_count_and_mapped_addresses_are_those_of_ipv4() {
        let [one, other] = [written([198, 18, 0, 2]), written([198, 18, 1, 2])];
        let line = |local: &str, remote: &str, state: &str| {
            format!("   0: {local}:18EB {remote}:C000 {state} 00000000:00000000\n")
        };
        let table = format!("head\n{}{}", line(&one, &other, "01"), line(&one, &other, "06"));
        let expected = ("198.18.0.2:6379".parse().unwrap(), "198.18.1.2:49152".parse().unwrap());
        assert_eq!(connections(TABLES[0], &table).unwrap(), [expected]);
        let mapped = |address: &str| {
            format!(
                "{}{address}",
                written([0; 4]) + &written([0; 4]) + &written([0, 0, 255, 255])
            )
        };
        let proper = format!("{0}{0}{0}{1}", written([0x20, 1, 0, 1]), one);
        let table = format!(
            "head\n{}{}",
            line(&mapped(&one), &mapped(&other), "01"),
            line(&proper, &proper, "01")
        );
        assert_eq!(connections(TABLES[1], &table).unwrap(), [expected]);
        assert!(connections(TABLES[0], "head\nrubbish\n").is_err());
        assert!(connections(TABLES[0], "head\n 0: 1:1 2:zz 01\n").is_err());
    }

    #[test]
    fn networks_are_those_without_a_router() {
        let none = written([0; 4]);
        let line = |destination: &str, gateway: &str, mask: &str| {
            format!("eth0 {destination} {gateway} 0001 0 0 0 {mask} 0 0 0\n")
        };
        let routes = format!(
            "head\n{}{}",
            line(&none, &written([198, 18, 0, 62]), &none),
            line(&written([198, 18, 0, 0]), &none, &written([255, 255, 255, 192]))
        );
        assert_eq!(networks(&routes).unwrap(), [(Ipv4Addr::new(198, 18, 0, 0), 26)]);
        assert!(networks("head\neth0 0\n").is_err());
    }
}
