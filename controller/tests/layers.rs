//! Keeps the house in order: which module may import which, that the deciding modules stay pure, that files stay short
//! and open with a word about themselves, and that names use the vocabulary.
//!
//! Reads source text, no compiler: `crate::x` anywhere outside a comment counts as an import of `x`. Tests at the bottom of a
//! file, and files called `tests.rs`, may import anything.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Modules of the controller, lowest first; a module imports only from lines above its own. `|` parts the names of a line.
const LAYERS: &[&str] = &[
    // -- decides --
    "names | stats | document | replication | conditions | pcapng | picture",
    "cluster | sentinel",
    "topology | history | manifest",
    "release",
    "address | claim",
    "plan",
    "findings | compose",
    "matrix",
    "report",
    "exit",
    // -- does --
    "docker | stop | progress | log | controller",
    "image | channel | instrument",
    "relay | probe | reaper",
    "lab",
    "block | store | capture | complete",
    "error | cli",
    // -- chains the stages --
    "commands",
    "main",
];

/// The last line of [`LAYERS`] that is pure.
const LAST_PURE: &str = "exit";

/// What a pure module cannot name: time, files, the environment, the network, the engine.
const IMPURE: &[&str] = &[
    "tokio",
    "bollard",
    "std::fs",
    "std::env",
    "std::io",
    "std::process",
    "std::thread",
    "Instant",
    "SystemTime",
    "TcpStream",
    "UdpSocket",
    "println!",
    "eprintln!",
    "tracing",
];

/// Most lines of a file without its tests.
const LONGEST_FILE: usize = 500;

/// Words that say nothing.
const FORBIDDEN_WORDS: &[&str] = &[
    "manager", "helper", "helpers", "util", "utils", "common", "handler", "service", "context", "data", "info",
    "process", "do", "get",
];

/// Where such a word is the domain's own: start of a path, the word, why.
const ALLOWED_WORDS: &[(&str, &str, &str)] = &[
    (
        "controller/src/docker/",
        "context",
        "the Docker CLI's word for a stored endpoint",
    ),
    (
        "controller/src/docker/endpoint.rs",
        "process",
        "the environment of this process",
    ),
    ("controller/src/block/", "info", "the servers' INFO command"),
    ("images/relay/", "data", "the data path, as against the control path"),
];

struct Source {
    /// Path from the workspace's root.
    path: String,
    /// Whole text.
    text: String,
    /// Lines of code: no tests at the bottom, no comments.
    code: Vec<(usize, String)>,
    /// Lines before the tests.
    length: usize,
}

fn root() -> PathBuf {
    let controller = Path::new(env!("CARGO_MANIFEST_DIR"));
    controller
        .parent()
        .expect("the controller lies in the workspace")
        .to_owned()
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.expect("the directory can be listed").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    for member in ["controller", "images"] {
        rust_files(&root().join(member), &mut paths);
    }
    paths.sort();
    assert!(paths.len() > 30, "the sources are where they are looked for");
    paths.iter().map(|path| source(path)).collect()
}

fn source(path: &Path) -> Source {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let relative = path.strip_prefix(root()).expect("it was found below the root");
    let before_tests = text.find("\n#[cfg(test)]").map_or(text.as_str(), |at| &text[..at]);
    let code = before_tests
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split("//").next().unwrap_or_default().to_owned()))
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    Source {
        path: relative.to_string_lossy().into_owned(),
        length: before_tests.lines().count(),
        code,
        text,
    }
}

impl Source {
    /// Top module of the controller to which it belongs (`None`: not the controller's, or only tests).
    fn module(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("controller/src/")?;
        if inside == "lib.rs" || self.is_test() {
            return None;
        }
        inside.split('/').next().map(|first| first.trim_end_matches(".rs"))
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/") || self.path.contains("/benches/")
    }
}

fn layer(module: &str) -> Option<usize> {
    LAYERS
        .iter()
        .position(|line| line.split('|').any(|name| name.trim() == module))
}

/// Whether `code` names `word` as a whole word.
fn names(code: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let goes_on = word.ends_with(part_of_name) && after.is_some_and(part_of_name);
        !goes_on && !before.is_some_and(part_of_name)
    })
}

/// Modules that a line imports with `crate::`, `crate::{a::b, c}` included.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        if name.is_empty() {
            found.push("{ (one `use` per module, so that this test can read it)".to_owned());
        } else {
            found.push(name);
        }
    }
    // In the binary, which is a crate of its own.
    for (at, _) in code.match_indices("testbed::") {
        let rest = &code[at + "testbed::".len()..];
        found.push(
            rest.chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect(),
        );
    }
    found
}

/// Fails with every complaint at once.
fn none(rule: &str, complaints: &str) {
    assert!(complaints.is_empty(), "{rule}:\n{complaints}");
}

#[test]
fn imports_point_down() {
    let mut complaints = String::new();
    for source in sources() {
        let Some(module) = source.module() else { continue };
        let Some(own) = layer(module) else {
            let _ = writeln!(complaints, "{}: `{module}` stands in no line of LAYERS", source.path);
            continue;
        };
        for (line, code) in &source.code {
            for import in imports(code) {
                let allowed = import == module || layer(&import).is_some_and(|layer| layer < own);
                if !allowed {
                    let _ = writeln!(complaints, "{}:{line}: {module} imports {import}", source.path);
                }
            }
        }
    }
    none("imports point down (see LAYERS)", &complaints);
}

#[test]
fn what_decides_is_pure() {
    let last_pure = layer(LAST_PURE).expect("the last pure module stands in LAYERS");
    let mut complaints = String::new();
    for source in sources() {
        let Some(own) = source.module().and_then(layer) else {
            continue;
        };
        if own > last_pure {
            continue;
        }
        for (line, code) in &source.code {
            for word in IMPURE.iter().filter(|word| names(code, word)) {
                let _ = writeln!(complaints, "{}:{line}: names {word}", source.path);
            }
        }
    }
    none(
        "pure modules know no clock, files, environment, network or engine",
        &complaints,
    );
}

#[test]
fn only_docker_imports_bollard() {
    let mut complaints = String::new();
    for source in sources() {
        if source.module() == Some("docker") || source.path.ends_with("tests/layers.rs") {
            continue;
        }
        for (line, code) in source.code.iter().filter(|(_, code)| names(code, "bollard")) {
            let _ = writeln!(complaints, "{}:{line}: {}", source.path, code.trim());
        }
    }
    none("bollard stays behind docker.rs", &complaints);
}

#[test]
fn files_are_short_and_open_with_a_word_about_themselves() {
    let mut complaints = String::new();
    for source in sources() {
        if source.length > LONGEST_FILE && !source.is_test() {
            let _ = writeln!(complaints, "{}: {} lines without tests", source.path, source.length);
        }
        if !source.text.starts_with("//! ") {
            let _ = writeln!(complaints, "{}: does not open with `//!`", source.path);
        }
        if source.path.ends_with("/mod.rs") {
            let _ = writeln!(complaints, "{}: is called mod.rs", source.path);
        }
    }
    none(
        "files have at most 500 lines without tests, open with `//!`, and none is mod.rs",
        &complaints,
    );
}

/// Words of a name, `LinkStatus` and `link_status` alike.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_ascii_uppercase() {
            words.push(String::new());
        }
        if c != '_' {
            let last = words.last_mut().expect("there is always a word");
            last.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Name of the item that a line defines.
fn defined(code: &str) -> Option<&str> {
    let mut before = "";
    for word in code
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
    {
        if ["fn", "struct", "enum", "trait", "mod", "type"].contains(&before) {
            return Some(word);
        }
        if ![
            "pub", "crate", "super", "async", "const", "unsafe", "in", "fn", "struct", "enum", "trait", "mod", "type",
        ]
        .contains(&word)
        {
            return None;
        }
        before = word;
    }
    None
}

fn is_empty(word: &str, path: &str) -> bool {
    let of_domain = |(place, allowed, _): &(&str, &str, &str)| path.starts_with(place) && *allowed == word;
    FORBIDDEN_WORDS.contains(&word) && !ALLOWED_WORDS.iter().any(of_domain)
}

#[test]
fn names_say_something() {
    let mut complaints = String::new();
    // A test's name is a sentence and may have any word.
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (line, code) in &source.code {
            let Some(name) = defined(code) else { continue };
            let words = words(name);
            let mut empty = words
                .iter()
                .enumerate()
                .filter(|(_, word)| is_empty(word, &source.path));
            // `get` and `do` are only forbidden as the verb, at the front.
            if let Some((_, word)) = empty.find(|(i, word)| *i == 0 || word.len() > 3) {
                let _ = writeln!(complaints, "{}:{line}: `{name}` has the word `{word}`", source.path);
            }
        }
    }
    none("names use the vocabulary and no empty words", &complaints);
}

#[test]
fn this_test_can_see() {
    assert!(names("use tokio::time;", "tokio") && !names("use tokio_util::x;", "tokio"));
    assert!(names("let x = std::fs::read(y)", "std::fs") && !names("Instantly", "Instant"));
    assert_eq!(imports("use crate::claim::{Finding, Verdict};"), ["claim"]);
    assert_eq!(
        imports("fn x(y: crate::plan::Plan) -> crate::lab::Lab"),
        ["plan", "lab"]
    );
    assert_eq!(imports("use crate::{a, b};").len(), 1, "and no module has such a name");
    assert_eq!(words("LinkStatus"), ["link", "status"]);
    assert_eq!(defined("    pub(crate) async fn link_status<T>("), Some("link_status"));
    assert_eq!(defined("    let get = 1;"), None);
}
