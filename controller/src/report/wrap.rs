//! Breaks lines of prose between words. Counts characters, since our texts hold none that is wider than one column.

/// Lines of at most `width` characters; the first begins with `first`, the others with `rest`. A longer word stands
/// alone on its line.
#[must_use]
pub fn wrap(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let longer = line.chars().count() + usize::from(!empty) + word.chars().count();
        if !empty && longer > width {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_keep_their_indent() {
        let lines = wrap("one two three four", 11, "✓ ", "  ");
        assert_eq!(lines, ["✓ one two", "  three", "  four"]);
        assert_eq!(wrap("", 11, "- ", "  "), ["- "]);
    }

    #[test]
    fn a_word_that_is_too_long_stands_alone() {
        assert_eq!(wrap("a verylongword b", 6, "", ""), ["a", "verylongword", "b"]);
    }
}
