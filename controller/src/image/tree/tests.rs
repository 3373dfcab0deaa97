//! Trees of made-up servers and archives.

use super::super::elf::tests::program;
use super::*;

fn file(bytes: Vec<u8>) -> Entry {
    Entry::File {
        bytes: bytes.into(),
        mode: 0o755,
        owner: 0,
    }
}

fn archive(members: &[(&str, Entry)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, entry) in members {
        append(&mut tar, path, entry).expect("memory");
    }
    tar.into_inner().expect("memory")
}

fn server() -> Tree {
    let mut tree = Tree::default();
    tree.put("/lib64/ld.so", file(program(None, &[])));
    tree.put("usr/bin/check", file(program(Some("/lib64/ld.so"), &["libdeep.so.1"])));
    tree.put_link("usr/bin/server", "check");
    tree.put(
        "lib/x86_64-linux-gnu/libdeep.so.1.2",
        file(program(None, &["libc.so.6"])),
    );
    tree.put_link("usr/lib/x86_64-linux-gnu/libdeep.so.1", "libdeep.so.1.2");
    tree.put("lib/x86_64-linux-gnu/libc.so.6", file(program(None, &[])));
    tree.put("usr/lib/x86_64-linux-gnu/libother.so", file(program(None, &[])));
    tree
}

#[test]
fn reducing_keeps_programs_with_their_links_loader_and_deep_libraries() {
    let mut tree = server();
    tree.reduce_to(["/usr/bin/server".to_owned()]).expect("complete");
    let kept: Vec<&str> = tree.paths().collect();
    assert_eq!(
        kept,
        [
            "usr/bin/check",
            "usr/bin/server",
            "usr/lib/x86_64-linux-gnu/libc.so.6",
            "usr/lib/x86_64-linux-gnu/libdeep.so.1",
            "usr/lib/x86_64-linux-gnu/libdeep.so.1.2",
            "usr/lib64/ld.so",
        ]
    );
}

#[test]
fn a_library_that_nothing_supplies_is_named_with_who_needs_it() {
    let mut tree = server();
    tree.put("usr/bin/check", file(program(None, &["libgone.so.3"])));
    let error = tree.reduce_to(["usr/bin/server".to_owned()]).expect_err("incomplete");
    assert_eq!(
        error.to_string(),
        "find the libraries libgone.so.3 (needed by /usr/bin/check) in the packages"
    );
}

#[test]
fn a_program_that_is_absent_or_a_link_in_a_circle_is_an_error() {
    let mut tree = server();
    tree.put_link("usr/bin/a", "b");
    tree.put_link("usr/bin/b", "/bin/a");
    for path in ["usr/bin/a", "usr/bin/nothing"] {
        assert!(
            matches!(tree.reduce_to([path.to_owned()]), Err(TreeError::Absent { .. })),
            "{path}"
        );
    }
}

#[test]
fn an_archive_fills_the_tree_through_the_merged_folders_without_set_uid() {
    let tar = archive(&[
        (
            "./bin/ping",
            Entry::File {
                bytes: Bytes::from_static(b"x"),
                mode: 0o4755,
                owner: 7,
            },
        ),
        ("./usr/share/doc/ping/copyright", file(b"c".to_vec())),
    ]);
    let mut tree = Tree::default();
    tree.add_archive("a.deb", tar.as_slice(), &|path| !path.starts_with("usr/share/doc/"))
        .expect("legal");
    tree.merge_usr();
    assert_eq!(
        tree.at("usr/bin/ping"),
        Some(&Entry::File {
            bytes: Bytes::from_static(b"x"),
            mode: 0o755,
            owner: 0
        })
    );
    assert_eq!(tree.paths().collect::<Vec<_>>(), ["bin", "usr/bin/ping"]);
}

#[test]
fn a_path_out_of_the_root_is_refused() {
    assert!(inside("a.deb", b"./usr/../../etc/passwd").is_err());
    assert_eq!(inside("a.deb", b"./usr/../etc/passwd").expect("inside"), "etc/passwd");
    assert_eq!(beside("usr/bin/a", "../../../x"), None);
}

#[test]
fn a_damaged_archive_is_an_error() {
    let mut tar = archive(&[("a", file(vec![1; 2000]))]);
    tar.truncate(1000);
    let error = Tree::default()
        .add_archive("a.deb", tar.as_slice(), &|_| true)
        .expect_err("damaged");
    assert_eq!(error.to_string(), "read a.deb");
}

#[test]
fn a_layer_has_parents_first_no_time_and_is_always_the_same() {
    let mut tree = server();
    tree.put_folder("data", 0o700, 999);
    let layer = tree.layer();
    assert_eq!(layer, server_with_data_put_first().layer());
    let mut seen = BTreeSet::from([String::new()]);
    for member in tar::Archive::new(layer.as_slice()).entries().expect("a tar") {
        let member = member.expect("whole");
        let path = member
            .path()
            .expect("text")
            .to_string_lossy()
            .trim_end_matches('/')
            .to_owned();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        assert!(seen.contains(&parent), "{path} before its folder");
        assert_eq!(member.header().mtime().expect("a number"), 0);
        let owner = if path == "data" { 999 } else { 0 };
        assert_eq!(member.header().uid().expect("a number"), owner, "{path}");
        seen.insert(path);
    }
    assert!(seen.contains("usr/lib/x86_64-linux-gnu"));
}

fn server_with_data_put_first() -> Tree {
    let mut tree = Tree::default();
    tree.put_folder("data", 0o700, 999);
    tree.entries.extend(server().entries);
    tree
}

#[test]
fn state_keeps_its_modes_and_gets_its_owner() {
    let tar = archive(&[
        ("data/", Entry::Folder { mode: 0o700, owner: 5 }),
        (
            "data/PG_VERSION",
            Entry::File {
                bytes: Bytes::from_static(b"15\n"),
                mode: 0o600,
                owner: 5,
            },
        ),
    ]);
    let mut tree = Tree::default();
    tree.add_state("var/lib/postgresql", &tar, 999).expect("legal");
    assert_eq!(
        tree.at("var/lib/postgresql/data"),
        Some(&Entry::Folder {
            mode: 0o700,
            owner: 999
        })
    );
    assert!(matches!(
        tree.at("/var/lib/postgresql/data/PG_VERSION"),
        Some(Entry::File {
            mode: 0o600,
            owner: 999,
            ..
        })
    ));
}
