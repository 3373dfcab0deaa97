//! The machine's own Debian archive: found in its apt sources, and written down again for another suite.
//!
//! Pure: texts in, text out. No host name is known here; mirror and keyring are what the machine already trusts. An
//! entry that switches signatures off is not taken over: what is built here is always verified.

/// Where the machine gets Debian from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// Addresses, separated by blanks.
    pub uris: String,
    /// Keyring path or an armoured key (lines below the first begin with a blank); `None`: apt's trusted keys.
    pub signed_by: Option<String>,
}

/// Suites of Debian by code name and alias. A mirror of another distribution has other names.
const SUITES: [&str; 13] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "experimental",
    "stable",
    "oldstable",
    "oldoldstable",
    "testing",
    "unstable",
    "rc-buggy",
];

#[derive(Default)]
struct Stanza {
    fields: Vec<(String, String)>,
}

/// The first Debian archive among a machine's apt sources, given as (file name, text).
#[must_use]
pub fn debian(files: &[(String, String)]) -> Option<Archive> {
    files.iter().find_map(|(name, text)| {
        let entries = if name.ends_with(".sources") {
            stanzas(text)
        } else {
            one_line_entries(text)
        };
        entries.iter().find_map(Stanza::archive)
    })
}

impl Archive {
    /// As the text of a `.sources` file with these suites. `expired`: accept a release file whose time is over.
    #[must_use]
    pub fn sources(&self, suites: &[String], expired: bool) -> String {
        let mut text = format!(
            "Types: deb\nURIs: {}\nSuites: {}\nComponents: main\n",
            self.uris,
            suites.join(" ")
        );
        // Said either way, so that the machine's own setting does not hide an expired file.
        text.push_str("Check-Date: yes\n");
        text.push_str(if expired {
            "Check-Valid-Until: no\n"
        } else {
            "Check-Valid-Until: yes\n"
        });
        if let Some(signed_by) = &self.signed_by {
            text.push_str(&format!("Signed-By: {signed_by}\n"));
        }
        text
    }
}

impl Stanza {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str, word: &str) -> bool {
        self.field(name)
            .is_some_and(|value| value.split_whitespace().any(|found| found == word))
    }

    fn archive(&self) -> Option<Archive> {
        let off = self
            .field("Enabled")
            .is_some_and(|value| ["no", "false", "0"].contains(&value));
        let debian = self
            .field("Suites")?
            .split_whitespace()
            .any(|suite| SUITES.contains(&suite));
        let uris = self.field("URIs")?;
        if off || !debian || uris.starts_with("cdrom:") || !self.has("Types", "deb") || !self.has("Components", "main")
        {
            return None;
        }
        Some(Archive {
            uris: uris.to_owned(),
            signed_by: self.field("Signed-By").map(str::to_owned),
        })
    }
}

/// Stanzas of a deb822 file.
fn stanzas(text: &str) -> Vec<Stanza> {
    let mut all = vec![Stanza::default()];
    for line in text.lines() {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            all.push(Stanza::default());
            continue;
        }
        let fields = &mut all.last_mut().expect("there is always one").fields;
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((key, value)) = line.split_once(':') {
            fields.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    all
}

/// Entries of a file with one line each: `deb [signed-by=KEYRING arch=...] URI suite component...`.
fn one_line_entries(text: &str) -> Vec<Stanza> {
    text.lines().filter_map(one_line_entry).collect()
}

fn one_line_entry(line: &str) -> Option<Stanza> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let mut fields = vec![
        ("Types".to_owned(), "deb".to_owned()),
        ("URIs".to_owned(), words.next()?.to_owned()),
        ("Suites".to_owned(), words.next()?.to_owned()),
        ("Components".to_owned(), words.collect::<Vec<_>>().join(" ")),
    ];
    for option in options.split_whitespace() {
        if let Some(keyring) = option.strip_prefix("signed-by=") {
            fields.push(("Signed-By".to_owned(), keyring.replace(',', " ")));
        }
    }
    Some(Stanza { fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Option<Archive> {
        debian(&[(name.to_owned(), text.to_owned())])
    }

    const SOURCES: &str = "\
# a comment
Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main

Types: deb deb-src
URIs: http://mirror.example/debian
# another
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/some.gpg
";

    #[test]
    fn a_sources_file_gives_mirror_and_keyring_of_the_suite_itself() {
        let archive = found("debian.sources", SOURCES).expect("found");
        assert_eq!(archive.uris, "http://mirror.example/debian");
        assert_eq!(archive.signed_by.as_deref(), Some("/usr/share/keyrings/some.gpg"));
    }

    #[test]
    fn a_one_line_file_does_the_same() {
        let text = "# deb http://old.example/debian bookworm main\ndeb-src http://src.example/debian bookworm main\n\
            deb [ arch=amd64 signed-by=/k.gpg ] http://mirror.example/debian bookworm main contrib # why\n";
        let archive = found("sources.list", text).expect("found");
        assert_eq!(
            archive,
            Archive {
                uris: "http://mirror.example/debian".to_owned(),
                signed_by: Some("/k.gpg".to_owned())
            }
        );
        assert_eq!(
            found("a.list", "deb http://m.example/debian sid main")
                .expect("found")
                .signed_by,
            None
        );
    }

    #[test]
    fn other_distributions_and_disabled_entries_are_no_debian_archive() {
        for text in [
            "deb http://mirror.example/ubuntu noble main",
            "deb http://mirror.example/debian bookworm contrib",
            "deb cdrom:[Debian]/ bookworm main",
            "deb",
            "",
        ] {
            assert_eq!(found("a.list", text), None, "{text}");
        }
        assert_eq!(
            found(
                "a.sources",
                &SOURCES.replace("Types: deb deb-src", "Enabled: no\nTypes: deb")
            ),
            None
        );
    }

    #[test]
    fn an_armoured_key_is_taken_over_with_its_lines() {
        let key = "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----";
        let text = SOURCES.replace(" /usr/share/keyrings/some.gpg", key);
        let archive = found("debian.sources", &text).expect("found");
        assert!(
            archive
                .sources(&["trixie".to_owned()], false)
                .contains(&format!("Signed-By: {key}\n"))
        );
    }

    #[test]
    fn switched_off_signatures_are_not_taken_over() {
        let archive = found("a.list", "deb [trusted=yes] http://m.example/debian sid main").expect("found");
        let text = archive.sources(&["experimental".to_owned(), "forky".to_owned()], true);
        assert_eq!(
            text,
            "Types: deb\nURIs: http://m.example/debian\nSuites: experimental forky\nComponents: main\nCheck-Date: yes\nCheck-Valid-Until: no\n"
        );
    }
}
