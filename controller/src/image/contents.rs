//! What each kind of server needs in its image: packages beside those of the recipe, files, user, folders. Pure.
//!
//! A server gets its programs, its clients and what these need, and nothing else: no shell, no package system, no
//! documentation. The user is 999, as in the official images, so that one way of starting fits both.

use super::archive::ImageConfig;
use super::tree::{Entry, Tree, TreeError};
use crate::topology::EngineKind;
use std::collections::BTreeMap;

/// User and group of every server.
pub const SERVER_USER: u32 = 999;
/// Folder of Postgres' data, initialised when the image is built.
pub const POSTGRES_STATE: &str = "/var/lib/postgresql/data";
/// Programs of Redis and of Valkey, behind the engine's name.
pub const CACHE_PROGRAMS: [&str; 3] = ["server", "cli", "benchmark"];
/// Clients and tools of Postgres that people and blocks use.
const POSTGRES_PROGRAMS: [&str; 9] = [
    "postgres",
    "psql",
    "pgbench",
    "pg_isready",
    "pg_basebackup",
    "pg_ctl",
    "pg_dump",
    "pg_receivewal",
    "pg_rewind",
];
/// Where the packages put what nobody reads inside a container. The bitcode and its library are for the just-in-time
/// compiler, whose LLVM is larger than all the rest: without them the server runs every query without it.
const UNWANTED: [&str; 12] = [
    "usr/share/doc/",
    "usr/share/man/",
    "usr/share/locale/",
    "usr/share/lintian/",
    "usr/share/bug/",
    "usr/share/bash-completion/",
    "usr/share/zoneinfo/posix/",
    "usr/share/zoneinfo/right/",
    "usr/lib/systemd/",
    "/bitcode/",
    "/llvmjit",
    "/gconv/",
];

/// Packages that every server of a kind needs beside its own.
#[must_use]
pub fn beside(engine: EngineKind) -> &'static [&'static str] {
    match engine {
        EngineKind::Redis | EngineKind::Valkey => &[],
        // The locale C.UTF-8, time zones, and the shell that initdb runs its server through.
        EngineKind::Postgres => &["libc-bin", "tzdata", "dash"],
    }
}

/// Whether a file of a package is looked at at all.
#[must_use]
pub fn wanted(path: &str) -> bool {
    !UNWANTED.iter().any(|unwanted| match unwanted.strip_prefix('/') {
        Some(_) => path.contains(unwanted),
        None => path.starts_with(unwanted),
    })
}

/// Makes the root of a server out of everything that its packages brought.
///
/// # Errors
/// The packages lack one of its programs or libraries.
pub fn furnish(engine: EngineKind, tree: &mut Tree) -> Result<(), TreeError> {
    let roots = match engine {
        EngineKind::Redis | EngineKind::Valkey => CACHE_PROGRAMS.map(|program| cache_program(engine, program)).to_vec(),
        EngineKind::Postgres => postgres_roots(tree)?,
    };
    furnish_with(engine, tree, roots)
}

/// Path of a program of Redis or Valkey in its image.
#[must_use]
pub fn cache_program(engine: EngineKind, program: &str) -> String {
    format!("usr/bin/{}-{program}", engine.as_str())
}

/// The same with these files and what they need.
///
/// # Errors
/// One of them, or a library, is not in the tree.
pub fn furnish_with(engine: EngineKind, tree: &mut Tree, mut roots: Vec<String>) -> Result<(), TreeError> {
    // The C library loads this one by itself when a thread is cancelled.
    roots.extend(
        tree.paths()
            .filter(|path| path.ends_with("/libgcc_s.so.1"))
            .map(str::to_owned),
    );
    tree.reduce_to(roots)?;
    let name = engine.as_str();
    let home = if engine.is_cache() {
        "/data"
    } else {
        "/var/lib/postgresql"
    };
    let user = SERVER_USER;
    tree.put_text(
        "etc/passwd",
        &format!("root:x:0:0:root:/:/nonexistent\n{name}:x:{user}:{user}:{name}:{home}:/nonexistent\n"),
    );
    tree.put_text("etc/group", &format!("root:x:0:\n{name}:x:{user}:\n"));
    tree.put_text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
    tree.put_folder("tmp", 0o1777, 0);
    match engine {
        EngineKind::Redis | EngineKind::Valkey => tree.put_folder("data", 0o755, user),
        EngineKind::Postgres => furnish_postgres(tree)?,
    }
    tree.merge_usr();
    Ok(())
}

/// What initdb needs beside the root of the server itself: made from everything that the packages brought.
///
/// # Errors
/// The packages lack it.
pub fn initialiser(mut everything: Tree, server: &Tree) -> Result<(String, Tree), TreeError> {
    let initdb = format!("{}/initdb", postgres_programs(&everything)?);
    everything.put_link("usr/bin/sh", "dash");
    everything.reduce_to([initdb.clone(), "usr/bin/sh".to_owned()])?;
    everything.subtract(server);
    Ok((format!("/{initdb}"), everything))
}

/// Lets the initialised database take connections of the lab.
///
/// # Errors
/// It has no configuration.
pub fn open_postgres(tree: &mut Tree) -> Result<(), TreeError> {
    // A lab has no secrets, and its networks no way out.
    let rules = "host all all all trust\nhost replication all all trust\n";
    tree.append_text(&format!("{POSTGRES_STATE}/pg_hba.conf"), rules)?;
    tree.append_text(&format!("{POSTGRES_STATE}/postgresql.conf"), "listen_addresses = '*'\n")
}

/// What the image says of itself.
#[must_use]
pub fn config(
    engine: EngineKind,
    reference: &str,
    architecture: &str,
    labels: BTreeMap<String, String>,
) -> ImageConfig {
    let cache = engine.is_cache();
    let mut env = vec!["PATH=/usr/local/bin:/usr/bin:/bin".to_owned()];
    if !cache {
        env.extend([format!("PGDATA={POSTGRES_STATE}"), "LANG=C.UTF-8".to_owned()]);
    }
    ImageConfig {
        reference: reference.to_owned(),
        architecture: architecture.to_owned(),
        user: format!("{SERVER_USER}:{SERVER_USER}"),
        env,
        folder: if cache { "/data" } else { "/" }.to_owned(),
        // Postgres waits for its clients on SIGTERM.
        stop_signal: (!cache).then(|| "SIGINT".to_owned()),
        labels,
    }
}

fn postgres_roots(tree: &Tree) -> Result<Vec<String>, TreeError> {
    let programs = postgres_programs(tree)?;
    let home = programs.trim_end_matches("/bin");
    let share = home.replacen("usr/lib/", "usr/share/", 1);
    let below = [
        format!("{home}/lib/"),
        format!("{share}/"),
        "usr/share/zoneinfo/".to_owned(),
        "usr/lib/locale/C.".to_owned(),
    ];
    let mut roots: Vec<String> = POSTGRES_PROGRAMS
        .iter()
        .map(|program| format!("{programs}/{program}"))
        .collect();
    roots.extend(
        tree.paths()
            .filter(|path| below.iter().any(|below| path.starts_with(below.as_str())))
            .filter(|path| !path.contains("/man/") && !path.contains("/pgxs/") && !leads_nowhere(tree, path))
            .map(str::to_owned),
    );
    Ok(roots)
}

/// Some data packages link to files outside of themselves, such as the machine's own time.
fn leads_nowhere(tree: &Tree, path: &str) -> bool {
    matches!(tree.at(path), Some(Entry::Link { target }) if target.starts_with("/etc/"))
}

/// `usr/lib/postgresql/N/bin` of whichever N the packages have.
fn postgres_programs(tree: &Tree) -> Result<String, TreeError> {
    let server = tree
        .paths()
        .find(|path| path.starts_with("usr/lib/postgresql/") && path.ends_with("/bin/postgres"));
    let server = server.and_then(|path| path.strip_suffix("/postgres"));
    server.map(str::to_owned).ok_or_else(|| TreeError::Absent {
        path: "usr/lib/postgresql/N/bin/postgres".to_owned(),
    })
}

fn furnish_postgres(tree: &mut Tree) -> Result<(), TreeError> {
    let programs = postgres_programs(tree)?;
    for program in POSTGRES_PROGRAMS {
        tree.put_link(&format!("usr/bin/{program}"), &format!("/{programs}/{program}"));
    }
    // Started by the same words as the official image, whose script of this name hands its options to the server.
    tree.put_link("usr/local/bin/docker-entrypoint.sh", &format!("/{programs}/postgres"));
    tree.put_link("var/run", "../run");
    tree.put_folder("run/postgresql", 0o755, SERVER_USER);
    tree.put_folder("var/lib/postgresql", 0o755, SERVER_USER);
    tree.put_folder(POSTGRES_STATE, 0o700, SERVER_USER);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::elf::tests::program;

    fn file(needs: &[&str]) -> Entry {
        Entry::File {
            bytes: program(None, needs).into(),
            mode: 0o755,
            owner: 0,
        }
    }

    fn postgres_packages() -> Tree {
        let mut tree = Tree::default();
        for name in POSTGRES_PROGRAMS.iter().chain(&["initdb", "pg_upgrade"]) {
            tree.put(&format!("usr/lib/postgresql/15/bin/{name}"), file(&["libpq.so.5"]));
        }
        tree.put("usr/lib/x86_64-linux-gnu/libpq.so.5", file(&[]));
        tree.put("usr/lib/postgresql/15/lib/plpgsql.so", file(&[]));
        tree.put("usr/bin/dash", file(&[]));
        tree.put_text("usr/share/postgresql/15/postgres.bki", "x");
        tree.put_text("usr/share/zoneinfo/UTC", "x");
        tree.put_link("usr/share/zoneinfo/localtime", "/etc/localtime");
        tree
    }

    #[test]
    fn a_cache_has_server_and_clients_and_no_shell() {
        let mut tree = Tree::default();
        for name in [
            "valkey-server",
            "valkey-cli",
            "valkey-benchmark",
            "valkey-check-aof",
            "sh",
        ] {
            tree.put(&format!("usr/bin/{name}"), file(&["libc.so.6"]));
        }
        tree.put("lib/x86_64-linux-gnu/libc.so.6", file(&[]));
        tree.put("lib/x86_64-linux-gnu/libgcc_s.so.1", file(&[]));
        furnish(EngineKind::Valkey, &mut tree).expect("complete");
        for there in [
            "usr/bin/valkey-server",
            "usr/bin/valkey-cli",
            "usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
            "etc/passwd",
            "bin",
            "lib",
        ] {
            assert!(tree.at(there).is_some(), "{there}");
        }
        assert!(tree.at("usr/bin/sh").is_none() && tree.at("usr/bin/valkey-check-aof").is_none());
        assert_eq!(
            tree.at("data"),
            Some(&Entry::Folder {
                mode: 0o755,
                owner: 999
            })
        );
    }

    #[test]
    fn a_cache_without_its_client_is_refused() {
        let mut tree = Tree::default();
        tree.put("usr/bin/redis-server", file(&[]));
        assert!(matches!(
            furnish(EngineKind::Redis, &mut tree),
            Err(TreeError::Absent { .. })
        ));
    }

    #[test]
    fn postgres_is_started_by_the_official_name_and_finds_its_state_folder() {
        let mut tree = postgres_packages();
        furnish(EngineKind::Postgres, &mut tree).expect("complete");
        assert_eq!(
            tree.at("usr/local/bin/docker-entrypoint.sh"),
            Some(&Entry::Link {
                target: "/usr/lib/postgresql/15/bin/postgres".to_owned()
            })
        );
        assert_eq!(
            tree.at(POSTGRES_STATE),
            Some(&Entry::Folder {
                mode: 0o700,
                owner: 999
            })
        );
        for absent in [
            "usr/bin/dash",
            "usr/lib/postgresql/15/bin/initdb",
            "usr/share/zoneinfo/localtime",
        ] {
            assert!(tree.at(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn the_initialiser_has_a_shell_and_nothing_that_the_server_has() {
        let everything = postgres_packages();
        let mut server = everything.clone();
        furnish(EngineKind::Postgres, &mut server).expect("complete");
        let (initdb, tree) = initialiser(everything, &server).expect("complete");
        assert_eq!(initdb, "/usr/lib/postgresql/15/bin/initdb");
        let paths: Vec<&str> = tree.paths().collect();
        assert_eq!(
            paths,
            ["usr/bin/dash", "usr/bin/sh", "usr/lib/postgresql/15/bin/initdb"]
        );
    }

    #[test]
    fn documentation_and_the_just_in_time_compiler_are_not_wanted() {
        assert!(wanted("usr/lib/postgresql/15/lib/plpgsql.so") && wanted("usr/bin/redis-server"));
        for path in [
            "usr/share/doc/redis/copyright",
            "usr/lib/postgresql/15/lib/llvmjit.so",
            "usr/lib/postgresql/15/lib/bitcode/postgres/a.bc",
            "usr/share/zoneinfo/right/UTC",
        ] {
            assert!(!wanted(path), "{path}");
        }
    }

    #[test]
    fn an_initialised_database_is_opened_to_the_lab() {
        let mut tree = Tree::default();
        assert!(open_postgres(&mut tree).is_err());
        tree.put_text("var/lib/postgresql/data/pg_hba.conf", "local all all trust\n");
        tree.put_text("var/lib/postgresql/data/postgresql.conf", "max_connections = 100\n");
        open_postgres(&mut tree).expect("configured");
        let Some(Entry::File { bytes, .. }) = tree.at("var/lib/postgresql/data/pg_hba.conf") else {
            panic!("a file")
        };
        assert!(bytes.starts_with(b"local all all trust\nhost all all all trust\n"));
    }
}
