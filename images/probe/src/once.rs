//! What the probe does once and then ends, where no controller is: files for a server's first start, and the forming of a
//! cluster. A lab that plain `docker compose` raises has services of this kind.
//!
//! What is there already stays as it is: such a service runs again whenever the lab is started again. A cluster counts as
//! formed only when every node says so; anything else, when the limit has passed, is exit code 1 with what is missing.

use crate::redis::reply::to_wire;
use crate::redis::{Connection, RedisError, pack};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use wire::{FirstFile, FirstSeat, OnceOrder, Reply};

/// Between two looks at a cluster.
const PAUSE: Duration = Duration::from_millis(100);
/// Limit of a connection and of a reply.
const ANSWER: Duration = Duration::from_secs(2);

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
enum OnceError {
    /// Not an order.
    #[error("read the order: {0}")]
    Order(#[from] serde_json::Error),
    /// A file could not be put where it belongs.
    #[error("put {}: {cause}", .path.display())]
    Put { path: PathBuf, cause: io::Error },
    /// A replica of nobody.
    #[error("seat {node}: its master {master} is not in the order")]
    NoMaster { node: String, master: String },
    /// The limit passed.
    #[error("form the cluster within {0} s: {1}")]
    Unformed(u64, String),
}

/// Why a node is not where it should be yet.
type NotYet = String;

/// Does it on a thread of its own, which ends the process; the caller waits for signals.
pub fn begin(order: &str) -> io::Result<()> {
    let order = order.to_owned();
    let work = move || {
        let code = match obey(&order) {
            Ok(told) => {
                println!("probe: {told}");
                0
            }
            Err(error) => {
                eprintln!("probe: failed to {error}");
                1
            }
        };
        std::process::exit(code);
    };
    thread::Builder::new().name("once".into()).spawn(work).map(drop)
}

fn obey(order: &str) -> Result<String, OnceError> {
    match serde_json::from_str(order)? {
        OnceOrder::Put { files } => {
            let put = files.iter().map(put).collect::<Result<Vec<bool>, _>>()?;
            let new = put.iter().filter(|&&new| new).count();
            Ok(format!("{new} files put, {} were there", put.len() - new))
        }
        OnceOrder::Form { seats, timeout_ns } => form(&seats, Duration::from_nanos(timeout_ns)),
    }
}

/// Whether it was new.
fn put(file: &FirstFile) -> Result<bool, OnceError> {
    let path = Path::new(&file.path);
    let owner = (Some(file.uid), Some(file.gid));
    let put = || -> io::Result<bool> {
        if path.try_exists()? {
            return Ok(false);
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        // Whole or not at all: one that was interrupted is done again.
        let draft = path.with_extension("draft");
        let mut options = fs::OpenOptions::new();
        let mut written = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        written.write_all(file.text.as_bytes())?;
        written.sync_all()?;
        chown(&draft, owner.0, owner.1)?;
        fs::rename(&draft, path)?;
        chown(folder, owner.0, owner.1)?;
        Ok(true)
    };
    put().map_err(|cause| OnceError::Put {
        path: path.to_owned(),
        cause,
    })
}

/// Brings the nodes together and waits until each says that all is well.
fn form(seats: &[FirstSeat], limit: Duration) -> Result<String, OnceError> {
    for seat in seats {
        if let Some(master) = &seat.master
            && !seats.iter().any(|other| &other.node == master)
        {
            return Err(OnceError::NoMaster {
                node: seat.node.clone(),
                master: master.clone(),
            });
        }
    }
    let deadline = Instant::now() + limit;
    let until = |step: &dyn Fn() -> Result<(), NotYet>| loop {
        match step() {
            Ok(()) => return Ok(()),
            Err(missing) if Instant::now() >= deadline => {
                return Err(OnceError::Unformed(limit.as_secs(), missing));
            }
            Err(_) => thread::sleep(PAUSE),
        }
    };
    // Every node answers before it is decided whether the cluster is there: one that comes late is no new node.
    let mut known = Vec::new();
    for seat in seats {
        until(&|| known_nodes(seat).map(drop))?;
        known.push(known_nodes(seat).map_err(|missing| OnceError::Unformed(limit.as_secs(), missing))?);
    }
    if known.iter().all(|&known| known >= seats.len()) {
        return Ok("the cluster is there already".to_owned());
    }
    for (epoch, seat) in (1..).zip(seats) {
        until(&|| take(seat, epoch))?;
    }
    for (i, seat) in seats.iter().enumerate() {
        until(&|| meet(seat, &seats[..i]))?;
    }
    for seat in seats.iter().filter(|seat| seat.master.is_some()) {
        until(&|| copy(seat, seats))?;
    }
    for seat in seats {
        until(&|| is_well(seat, seats.len()))?;
    }
    Ok(format!("a cluster of {} nodes is formed", seats.len()))
}

/// The replies to some commands on a connection of their own.
fn ask(seat: &FirstSeat, commands: &[&[&str]]) -> Result<Vec<Reply>, NotYet> {
    let said = |error: RedisError| format!("{} ({}): {error}", seat.node, seat.target);
    let mut connection = Connection::open(seat.target, ANSWER).map_err(said)?;
    let ask = |command: &&[&str]| {
        let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        let reply = connection.ask(&pack(&words), ANSWER).map_err(said)?;
        Ok(to_wire(reply.value))
    };
    commands.iter().map(ask).collect()
}

/// The text of a reply that is one.
fn text(seat: &FirstSeat, reply: Reply) -> Result<String, NotYet> {
    match reply {
        Reply::Text(text) => Ok(text),
        Reply::Error(refused) => Err(format!("{}: {refused}", seat.node)),
        other => Err(format!("{}: unexpected reply {other:?}", seat.node)),
    }
}

/// Value of a `key:value` line.
fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let values = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    values.filter(|(name, _)| *name == key).map(|(_, value)| value).next()
}

fn asked(seat: &FirstSeat, command: &[&str]) -> Result<String, NotYet> {
    let reply = ask(seat, &[command])?.remove(0);
    text(seat, reply)
}

fn known_nodes(seat: &FirstSeat) -> Result<usize, NotYet> {
    let state = asked(seat, &["CLUSTER", "INFO"])?;
    let known = field(&state, "cluster_known_nodes").and_then(|known| known.parse().ok());
    known.ok_or_else(|| format!("{} does not say how many nodes it knows", seat.node))
}

/// Epoch and slots. A node that has them from an earlier attempt refuses them, and says by its slots that it has.
fn take(seat: &FirstSeat, epoch: u32) -> Result<(), NotYet> {
    let epoch = epoch.to_string();
    let mut slots = vec!["CLUSTER".to_owned(), "ADDSLOTSRANGE".to_owned()];
    for (first, last) in &seat.slots {
        slots.extend([first.to_string(), last.to_string()]);
    }
    let slots: Vec<&str> = slots.iter().map(String::as_str).collect();
    let epoch = ["CLUSTER", "SET-CONFIG-EPOCH", &epoch];
    let mut commands: Vec<&[&str]> = vec![&epoch];
    if !seat.slots.is_empty() {
        commands.push(&slots);
    }
    match ask(seat, &commands)?.pop() {
        Some(Reply::Error(refused)) if !seat.slots.is_empty() && !refused.contains("already busy") => {
            Err(format!("{}: {refused}", seat.node))
        }
        _ => Ok(()),
    }
}

fn meet(seat: &FirstSeat, others: &[FirstSeat]) -> Result<(), NotYet> {
    for other in others {
        let (ip, port) = (other.target.ip().to_string(), other.target.port().to_string());
        asked(seat, &["CLUSTER", "MEET", &ip, &port])?;
    }
    Ok(())
}

/// A replica can copy its master as soon as it has heard of it.
fn copy(seat: &FirstSeat, seats: &[FirstSeat]) -> Result<(), NotYet> {
    let master = seats.iter().find(|other| Some(&other.node) == seat.master.as_ref());
    let master = master.expect("the order has the master of every replica");
    let id = asked(master, &["CLUSTER", "MYID"])?;
    asked(seat, &["CLUSTER", "REPLICATE", &id]).map(drop)
}

fn is_well(seat: &FirstSeat, nodes: usize) -> Result<(), NotYet> {
    let replies = ask(seat, &[&["CLUSTER", "INFO"], &["INFO", "replication"]])?;
    let texts = replies.into_iter().map(|reply| text(seat, reply));
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let wanted = [
        (0, "cluster_state", "ok".to_owned()),
        (0, "cluster_known_nodes", nodes.to_string()),
        (0, "cluster_slots_ok", "16384".to_owned()),
    ];
    let linked = seat
        .master
        .is_some()
        .then(|| (1, "master_link_status", "up".to_owned()));
    for (which, key, wanted) in wanted.into_iter().chain(linked) {
        let seen = field(&texts[which], key).unwrap_or("absent");
        if seen != wanted {
            return Err(format!("{} says {key} {seen}, not {wanted}", seat.node));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(path: &Path, text: &str) -> String {
        use std::os::unix::fs::MetadataExt;
        let seen = fs::metadata(path.parent().unwrap()).unwrap();
        let files = vec![FirstFile {
            path: path.to_str().unwrap().to_owned(),
            text: text.to_owned(),
            uid: seen.uid(),
            gid: seen.gid(),
        }];
        serde_json::to_string(&OnceOrder::Put { files }).unwrap()
    }

    #[test]
    fn a_file_is_put_once_and_what_a_server_made_of_it_stays() {
        let folder = std::env::temp_dir().join(format!("probe-once-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("sentinel.conf");
        let told = obey(&own(&path, "port 26379\n")).unwrap();
        assert_eq!(told, "1 files put, 0 were there");
        assert_eq!(fs::read_to_string(&path).unwrap(), "port 26379\n");
        let told = obey(&own(&path, "other\n")).unwrap();
        assert_eq!(told, "0 files put, 1 were there");
        assert_eq!(fs::read_to_string(&path).unwrap(), "port 26379\n");
        let absent = folder.join("absent/file");
        let order = own(&path, "").replace(path.to_str().unwrap(), absent.to_str().unwrap());
        assert!(obey(&order).unwrap_err().to_string().starts_with("put "));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_cluster_that_does_not_come_says_which_node_and_why() {
        let seat = |node: &str, master: Option<&str>| FirstSeat {
            node: node.to_owned(),
            target: "127.0.0.1:1".parse().unwrap(),
            slots: vec![],
            master: master.map(str::to_owned),
        };
        let form = |seats| {
            let order = OnceOrder::Form { seats, timeout_ns: 1 };
            obey(&serde_json::to_string(&order).unwrap()).unwrap_err().to_string()
        };
        let silent = form(vec![seat("node-1", None)]);
        assert!(
            silent.starts_with("form the cluster within 0 s: node-1 (127.0.0.1:1): "),
            "{silent}"
        );
        let nobody = form(vec![seat("node-1", Some("node-9"))]);
        assert_eq!(nobody, "seat node-1: its master node-9 is not in the order");
        assert!(obey("{}").unwrap_err().to_string().starts_with("read the order: "));
    }

    #[test]
    fn fields_are_whole_lines() {
        let text = "# Replication\r\nrole:slave\r\nmaster_link_status:up\r\n";
        assert_eq!(field(text, "master_link_status"), Some("up"));
        assert_eq!(field(text, "link_status"), None);
    }
}
