//! Applications: containers of the user's own. Where they stand, what they run, what they see of the host.
//!
//! A topology can come from a stranger, so what reaches into the host is refused here as text, and by
//! [`MountCheck`] as what it is on the disk: paths that are absolute or climb, targets that hide what the engine or the kernel put
//! there, sockets of an engine.

use super::check::declared;
use super::file::{ApplicationFile, File};
use super::nodes::name;
use super::problem::{Code, Problems, quote};
use super::tree::At;
use super::{Application, Mount, MountCheck};
use crate::names::DatacenterName;
use std::collections::BTreeMap;

/// Most entries of a list, and longest of them in bytes: far above any use, far below what the engine would choke on.
const MOST: usize = 256;
const LONGEST: usize = 4096;
/// Paths of a container that are the kernel's or the engine's: nothing is mounted on them, below them, or above them.
const NOT_OURS: &[&str] = &[
    "/proc",
    "/sys",
    "/dev",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/.dockerenv",
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd",
];

/// All applications that are right, in the order of the file.
pub(super) fn applications(file: &File, mount: MountCheck, problems: &mut Problems) -> Vec<Application> {
    let mut applications = Vec::new();
    for (key, written) in &file.applications {
        let name = name(key, problems);
        if file.nodes.iter().any(|(node, _)| node.value == key.value) {
            problems
                .add(
                    key.place,
                    Code::Duplicate,
                    format!("{} is a node already", quote(&key.value)),
                )
                .hint("nodes and applications know each other by name, so each has one of its own");
        }
        let datacenter = datacenter(key, written, file, problems);
        let image = image(key, written, problems);
        for (what, words) in [("entrypoint", &written.entrypoint), ("command", &written.command)] {
            self::words(what, words, problems);
        }
        let environment = environment(written, problems);
        let user = written.user.as_ref().and_then(|user| self::user(user, problems));
        let mut taken: Vec<String> = Vec::new();
        let mounts = mounts(written, mount, &mut taken, problems);
        let tmpfs = folders(written, &mut taken, problems);
        let ready = written.ready.as_ref().and_then(|port| self::port(port, problems));
        if let (Some(name), Some(datacenter), Some(image)) = (name, datacenter, image) {
            let texts = |list: &[At<String>]| list.iter().map(|text| text.value.clone()).collect();
            applications.push(Application {
                name,
                datacenter,
                image,
                entrypoint: texts(&written.entrypoint),
                command: texts(&written.command),
                environment,
                user,
                mounts,
                tmpfs,
                ready,
            });
        }
    }
    applications
}

fn datacenter(
    key: &At<String>,
    written: &ApplicationFile,
    file: &File,
    problems: &mut Problems,
) -> Option<DatacenterName> {
    match &written.datacenter {
        Some(datacenter) if declared(&datacenter.value, datacenter.place, file, problems) => {
            DatacenterName::new(&datacenter.value).ok()
        }
        Some(_) => None,
        None => {
            missing(key, written, "datacenter", "NAME", problems);
            None
        }
    }
}

fn image(key: &At<String>, written: &ApplicationFile, problems: &mut Problems) -> Option<String> {
    let Some(image) = &written.image else {
        missing(key, written, "image", "NAME:TAG", problems);
        return None;
    };
    let text = image.value.as_str();
    let legal = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 255
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@".contains(c))
        && !["//", "..", "::", ":/"].iter().any(|bad| text.contains(bad));
    if !legal {
        problems
            .add(
                image.place,
                Code::BadApplication,
                format!("{} is no name of an image", quote(text)),
            )
            .hint("write it as `docker pull` takes it: registry.example/app:1");
        return None;
    }
    Some(image.value.clone())
}

fn missing(key: &At<String>, written: &ApplicationFile, what: &str, form: &str, problems: &mut Problems) {
    if !written.broken.contains(&what) {
        problems
            .add(
                key.place,
                Code::Missing,
                format!("application {} has no {what}", quote(&key.value)),
            )
            .hint(format!("write `{what}: {form}`"));
    }
}

fn words(what: &str, words: &[At<String>], problems: &mut Problems) {
    if let Some(first) = words.get(MOST) {
        problems.add(
            first.place,
            Code::TooLarge,
            format!("`{what}` has more than {MOST} words"),
        );
    }
    for word in words {
        // A script has lines; nothing else that moves a terminal's cursor is part of a command.
        let strange = |c: char| c.is_control() && c != '\n' && c != '\t';
        if word.value.len() > LONGEST || word.value.chars().any(strange) {
            problems
                .add(
                    word.place,
                    Code::BadApplication,
                    format!("a word of `{what}` is no text"),
                )
                .hint("at most 4096 bytes, without control characters but line breaks and tabs");
        }
    }
}

fn environment(written: &ApplicationFile, problems: &mut Problems) -> BTreeMap<String, String> {
    if let Some((key, _)) = written.environment.get(MOST) {
        problems.add(
            key.place,
            Code::TooLarge,
            format!("`environment` has more than {MOST} variables"),
        );
    }
    for (key, value) in &written.environment {
        let name = key.value.as_str();
        let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !first || name.len() > 64 || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            problems
                .add(
                    key.place,
                    Code::BadApplication,
                    format!("{} is no name of a variable", quote(name)),
                )
                .hint("letters, digits and `_`, and no digit first");
        }
        if value.value.chars().any(char::is_control) || value.value.len() > LONGEST {
            problems
                .add(
                    value.place,
                    Code::BadApplication,
                    format!("the value of {} is no single line of text", quote(name)),
                )
                .hint("one line, at most 4096 bytes; mount a file for more");
        }
    }
    let pairs = written.environment.iter();
    pairs
        .map(|(key, value)| (key.value.clone(), value.value.clone()))
        .collect()
}

fn user(user: &At<String>, problems: &mut Problems) -> Option<String> {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() <= 32
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
            && !part.starts_with('-')
    };
    let mut parts = user.value.split(':');
    if parts.by_ref().take(2).all(part) && parts.next().is_none() {
        return Some(user.value.clone());
    }
    problems
        .add(
            user.place,
            Code::BadApplication,
            format!("{} is no user", quote(&user.value)),
        )
        .hint("write a name or a number of the image, or \"1000:1000\"");
    None
}

fn mounts(
    written: &ApplicationFile,
    check: MountCheck,
    taken: &mut Vec<String>,
    problems: &mut Problems,
) -> Vec<Mount> {
    let mut mounts = Vec::new();
    if let Some(first) = written.mounts.get(MOST) {
        problems.add(first.place, Code::TooLarge, format!("more than {MOST} mounts"));
        return mounts;
    }
    for mount in &written.mounts {
        let refuse = |message: String, hint: String, problems: &mut Problems| {
            problems.add(mount.place, Code::BadMount, message).hint(hint);
        };
        let form = "write SOURCE:TARGET, e.g. ./conf:/etc/app; mounts are read-only";
        let text = mount.value.as_str();
        let two = text.split_once(':').filter(|(_, target)| !target.contains(':'));
        let Some((source, target)) = two.filter(|_| text.len() <= LONGEST && !text.chars().any(char::is_control))
        else {
            refuse(format!("{} is no mount", quote(text)), form.to_owned(), problems);
            continue;
        };
        let below = source.strip_prefix("./").unwrap_or("");
        if below.is_empty()
            || below
                .split('/')
                .any(|part| part.is_empty() || part == "." || part == "..")
        {
            refuse(
                format!("{} is no path below the topology's folder", quote(source)),
                "begin with ./ and name a file or folder there, without `..`: ./conf:/etc/app".to_owned(),
                problems,
            );
            continue;
        }
        if let Err((message, hint)) = free(target, taken) {
            refuse(message, hint, problems);
            continue;
        }
        match check(source) {
            Ok(source) => mounts.push(Mount {
                source,
                target: target.to_owned(),
            }),
            Err((message, hint)) => refuse(message, hint.unwrap_or_else(|| form.to_owned()), problems),
        }
    }
    mounts
}

fn folders(written: &ApplicationFile, taken: &mut Vec<String>, problems: &mut Problems) -> Vec<String> {
    let mut folders = Vec::new();
    for folder in written.tmpfs.iter().take(MOST) {
        // The engine would take what follows a colon for options of the mount.
        let told = if folder.value.contains([':', ',']) || folder.value.chars().any(char::is_control) {
            Err((
                format!("{} is no folder", quote(&folder.value)),
                "write a path of the container: /tmp".to_owned(),
            ))
        } else {
            free(&folder.value, taken)
        };
        match told {
            Ok(()) => folders.push(folder.value.clone()),
            Err((message, hint)) => {
                problems.add(folder.place, Code::BadMount, message).hint(hint);
            }
        }
    }
    folders
}

/// Whether something may be mounted at a path of a container; then it is taken.
fn free(target: &str, taken: &mut Vec<String>) -> Result<(), (String, String)> {
    let parts = || target.split('/').skip(1);
    if !target.starts_with('/') || parts().any(|part| part.is_empty() || part == "." || part == "..") {
        let hint = "write an absolute path below `/`, without `.`, `..` and `//`";
        return Err((format!("nothing can be mounted at {}", quote(target)), hint.to_owned()));
    }
    let within = |inner: &str, outer: &str| {
        inner == outer || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
    };
    let overlap = |other: &str| within(target, other) || within(other, target);
    if let Some(other) = NOT_OURS.iter().find(|other| overlap(other)) {
        let message = format!("nothing can be mounted at {}", quote(target));
        return Err((message, format!("{other} belongs to the kernel or to the engine")));
    }
    if let Some(other) = taken.iter().find(|other| overlap(other)) {
        let message = format!("{} is mounted on already, by {}", quote(target), quote(other));
        return Err((message, "paths of one application do not contain each other".to_owned()));
    }
    taken.push(target.to_owned());
    Ok(())
}

fn port(port: &At<String>, problems: &mut Problems) -> Option<u16> {
    let digits = port.value.chars().all(|c| c.is_ascii_digit());
    let number = port.value.parse::<u16>().ok().filter(|&number| digits && number > 0);
    if number.is_none() {
        problems
            .add(
                port.place,
                Code::BadApplication,
                format!("{} is no TCP port", quote(&port.value)),
            )
            .hint("a port is a whole number from 1 to 65535");
    }
    number
}

#[cfg(test)]
mod tests {
    use crate::topology::{Code, Problem, Topology, parse_with};

    fn read(application: &str) -> Result<Topology, Vec<Problem>> {
        let text = format!(
            "version: 1\nname: t\ndatacenters:\n  dc1:\nnodes:\n  a: {{ datacenter: dc1, engine: redis }}\napplications:\n  {application}\n"
        );
        parse_with("t.yaml", &text, &|_, _| Ok(()), &|path| match path {
            "./out" => Err(("it leads out".to_owned(), None)),
            path => Ok(path.replacen('.', "/folder", 1)),
        })
    }

    fn codes(application: &str) -> Vec<Code> {
        let problems = read(application).expect_err("something is wrong");
        problems.iter().map(|problem| problem.code).collect()
    }

    #[test]
    fn an_application_is_read_as_it_is_written() {
        let topology = read(
            "app: { datacenter: dc1, image: \"reg.example:5000/a/b:1\", command: [serve, 80], environment: { K: no }, mounts: [\"./conf:/etc/app\"], tmpfs: [/tmp], ready: 8080, user: \"1000:1000\" }",
        )
        .expect("a right topology");
        let [app] = topology.applications.as_slice() else {
            panic!("{topology:?}")
        };
        assert_eq!(app.command, ["serve", "80"]);
        assert_eq!(app.environment["K"], "no", "as written, no truth value");
        assert_eq!(
            (app.mounts[0].source.as_str(), app.mounts[0].target.as_str()),
            ("/folder/conf", "/etc/app")
        );
        assert_eq!((app.ready, app.user.as_deref()), (Some(8080), Some("1000:1000")));
        assert_eq!(topology.nodes.len(), 1, "it is no server");
    }

    #[test]
    fn what_leaves_the_folder_of_the_topology_is_refused() {
        for source in [
            "/etc",
            "../x",
            "./a/../../x",
            ".",
            "./",
            "~/x",
            "conf",
            "./a//b",
            "./.",
            "./out",
            "$HOME/x",
        ] {
            let written = format!("app: {{ datacenter: dc1, image: a, mounts: [\"{source}:/x\"] }}");
            assert_eq!(codes(&written), [Code::BadMount], "{source}");
        }
    }

    #[test]
    fn targets_of_the_kernel_and_the_engine_are_refused_and_so_are_collisions() {
        for target in [
            "/",
            "x",
            "/proc",
            "/proc/1/mem",
            "/sys/fs",
            "/dev",
            "/etc",
            "/etc/hosts",
            "/run",
            "/var",
            "/var/run",
            "/var/run/docker.sock",
            "/a/../proc",
            "//proc",
            "/a/",
            "/x:rw",
            "/x:ro,shared",
        ] {
            let written = format!("app: {{ datacenter: dc1, image: a, mounts: [\"./c:{target}\"] }}");
            assert_eq!(codes(&written), [Code::BadMount], "{target}");
            let written = format!("app: {{ datacenter: dc1, image: a, tmpfs: [\"{target}\"] }}");
            assert_eq!(codes(&written), [Code::BadMount], "tmpfs {target}");
        }
        let twice = "app: { datacenter: dc1, image: a, mounts: [\"./c:/x\", \"./d:/x/y\"], tmpfs: [/x] }";
        assert_eq!(codes(twice), [Code::BadMount, Code::BadMount]);
    }

    #[test]
    fn everything_wrong_with_an_application_is_said_at_once() {
        let found = codes(
            "a: { datacenter: dc9, image: \"../x\", environment: { \"1=2\": x }, user: \"a:b:c\", ready: 0, command: \"one two\", privileged: true }",
        );
        for code in [
            Code::Duplicate,
            Code::Absent,
            Code::BadApplication,
            Code::WrongType,
            Code::UnknownKey,
        ] {
            assert!(found.contains(&code), "{found:?}");
        }
        assert_eq!(
            found.iter().filter(|code| **code == Code::BadApplication).count(),
            4,
            "{found:?}"
        );
        assert_eq!(codes("b:"), [Code::Missing]);
        assert_eq!(codes("b: { image: a }"), [Code::Missing]);
    }

    #[test]
    fn templates_and_control_characters_stay_text_or_are_refused() {
        let written = "app: { datacenter: dc1, image: a, environment: { K: \"${HOME} $(id) {{ x }}\" } }";
        let topology = read(written).expect("a right topology");
        assert_eq!(topology.applications[0].environment["K"], "${HOME} $(id) {{ x }}");
        let escape = "app: { datacenter: dc1, image: a, command: [\"\\e[2J\"], environment: { K: \"a\\nb\" } }";
        assert_eq!(codes(escape), [Code::BadApplication, Code::BadApplication]);
        let problems = read("\"\\e[31mred\": { datacenter: dc1, image: a }").expect_err("no name");
        assert!(
            problems.iter().all(|problem| !problem.message.contains('\u{1b}')),
            "{problems:?}"
        );
    }
}
