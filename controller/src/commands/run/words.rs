//! What to type for a run: the command as it took effect, whatever of it came from the environment. Manifests keep it, so that a
//! run can be typed again on another machine.

use crate::block::{Cutting, Method};
use crate::cli::{Keep, Run};
use clap::ValueEnum;

/// Words of the command; the run directory and what is printed are not of it.
pub(in crate::commands) fn words(run: &Run) -> Vec<String> {
    let mut words = vec!["testbed".to_owned(), "run".to_owned()];
    let mut say = |option: &str, value: String| words.extend([option.to_owned(), value]);
    if !run.only.is_empty() {
        let blocks: Vec<String> = run.only.iter().map(ToString::to_string).collect();
        say("--only", blocks.join(","));
    }
    if !run.release.release.is_empty() {
        say("--release", run.release.release.join(","));
    }
    if let Some(file) = &run.file {
        say("--file", file.display().to_string());
    }
    if let Some(lab) = &run.lab {
        say("--lab", lab.to_string());
    }
    if run.method != Method::default() {
        say("--method", word(run.method));
    }
    if run.cut_by != Cutting::default() {
        say("--cut-by", word(run.cut_by));
    }
    if run.keep != Keep::Never {
        say("--keep", word(run.keep));
    }
    say("--seed", run.seed.to_string());
    if run.capture {
        words.push("--capture".to_owned());
    }
    words
}

/// The word for a value of the command line.
fn word(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Verb};
    use clap::Parser;

    fn run(words: &[&str]) -> Run {
        match Cli::try_parse_from([&["testbed", "run"], words].concat()).unwrap().verb {
            Verb::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_typed_again_is_the_same_run() {
        for given in [
            &[][..],
            &["--only", "1,3", "--seed", "7", "--release", "valkey-9.1,postgres-17"],
            &["--only", "4", "--method", "stop", "--keep", "failed", "--capture"],
            &["-f", "my lab.yaml", "--cut-by", "freeze"],
            &["-p", "mine"],
        ] {
            let once = run(given);
            let typed = words(&once);
            let again = run(&typed[2..].iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(format!("{again:?}"), format!("{once:?}"), "{typed:?}");
        }
    }
}
