//! The help of `testbed` itself: verbs in groups, by what they are for. A verb that stands in no group is a failing test.

use super::Cli;
use clap::{Command, CommandFactory};

/// Verbs by what they are for, in the order in which they are told.
const GROUPS: &[(&str, &[&str])] = &[
    ("Labs", &["init", "up", "ps", "top", "exec", "logs", "graph", "down"]),
    ("Links and faults", &["link", "fault"]),
    (
        "Measuring",
        &["run", "blocks", "matrix", "compare", "reproduce", "judge", "report"],
    ),
    ("Files", &["validate", "plan", "export", "schema"]),
    ("Machine", &["doctor", "images", "completions", "man", "help"]),
];

/// Widest line of the groups.
const WIDTH: usize = 80;
/// Where a verb's sentence begins.
const INDENT: usize = 15;

/// The command line with verbs in groups.
#[must_use]
pub fn command() -> Command {
    let command = Cli::command();
    let verbs = groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{verbs}\nOptions:\n{{options}}{{after-help}}\n"
    ))
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, verbs) in GROUPS {
        text += &format!("\n{title}:\n");
        for verb in *verbs {
            let about = match command.find_subcommand(verb).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None if *verb == "help" => "Print the help of a verb".to_owned(),
                None => panic!("a test sees to it that every verb of a group exists: {verb}"),
            };
            text += &entry(verb, &about);
        }
    }
    text
}

/// A verb and its sentence, wrapped beside it.
fn entry(verb: &str, about: &str) -> String {
    let mut lines = vec![format!("  {verb:<width$}", width = INDENT - 2)];
    for word in about.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{:INDENT$}{word}", ""));
        } else {
            if !line.ends_with(' ') {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_stands_in_one_group() {
        let command = Cli::command();
        let told: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let hidden = |verb: &&Command| verb.is_hide_set();
        for verb in command.get_subcommands().filter(|verb| !hidden(verb)) {
            let times = told.iter().filter(|told| **told == verb.get_name()).count();
            assert_eq!(times, 1, "{}", verb.get_name());
        }
    }

    #[test]
    fn the_groups_fit_80_columns() {
        let text = groups(&Cli::command());
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert!(text.contains("\nMeasuring:\n  run "), "{text}");
    }
}
