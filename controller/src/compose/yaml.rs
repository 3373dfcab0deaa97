//! The few forms of YAML that a compose file needs. Every text is quoted unless it is plainly a word, `$` is doubled, since
//! compose replaces variables in all texts, and what has a control character is written with escapes.

/// A text as a scalar.
pub fn quote(text: &str) -> String {
    let text = text.replace('$', "$$");
    if text
        .chars()
        .any(|letter| letter.is_control() || letter == '\u{2028}' || letter == '\u{2029}')
    {
        // JSON's escapes are YAML's.
        return serde_json::to_string(&text).expect("a text is JSON");
    }
    if is_word(&text) {
        return text;
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// Texts in one line.
pub fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// Keys and values in one line.
pub fn map(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(key, value)| format!("{key}: {}", quote(value)))
        .collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// Whether YAML 1.1 and 1.2 take it for a text as it stands: a letter or a slash first, and none of their words.
fn is_word(text: &str) -> bool {
    const OTHERS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf"];
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text.chars().all(plain)
        && !OTHERS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_yaml_or_compose_would_take_for_something_else_is_quoted() {
        assert_eq!(quote("redis-server"), "redis-server");
        assert_eq!(quote("/data/sentinel.conf"), "/data/sentinel.conf");
        for word in [
            "", "no", "ON", "6379", "0.0.0.0", "1e3", "--port", "a: b", "~", "0:0", "a#b", "Null",
        ] {
            assert_eq!(quote(word), format!("'{word}'"));
        }
        assert_eq!(quote("it's"), "'it''s'");
        assert_eq!(quote("$HOME"), "'$$HOME'");
        assert_eq!(quote("a\n$b\"\t"), r#""a\n$$b\"\t""#);
    }

    #[test]
    fn every_quoted_text_is_read_back_as_it_was() {
        for text in [
            "",
            "no",
            "x: y",
            "it's",
            "- a",
            "a\nb",
            "{\"a\":[1,'2']}",
            "tab\tend ",
            "ä\u{2028}b",
            "0x1f",
            "%",
        ] {
            let read: String = serde_yaml::from_str(&quote(text)).unwrap();
            assert_eq!(read, text);
        }
    }
}
