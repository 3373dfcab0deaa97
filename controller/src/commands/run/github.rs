//! What a run leaves for a job of GitHub Actions: annotations on stderr, where they do not mix with the result, and the
//! summary of the step.

use crate::cli::GithubArgs;
use crate::error::{CommandError, ExitCode};
use crate::progress::say_as_it_is;
use crate::report::{self, Cell};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Tells what was asked for. A summary that cannot be written is an error: who asked for it would miss it.
pub(super) fn tell(args: &GithubArgs, cell: &Cell<'_>) -> Result<(), CommandError> {
    let cells = std::slice::from_ref(cell);
    tell_github(args, || report::annotations(cells), || report::step_summary(cells))
}

/// The same for what is no run.
pub(in crate::commands) fn tell_github(
    args: &GithubArgs,
    annotations: impl FnOnce() -> String,
    summary: impl FnOnce() -> String,
) -> Result<(), CommandError> {
    if args.annotate {
        say_as_it_is(annotations());
    }
    // Set to nothing is not set.
    match &args.step_summary {
        Some(path) if !path.is_empty() => append(Path::new(path), &summary()),
        _ => Ok(()),
    }
}

fn append(path: &Path, text: &str) -> Result<(), CommandError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| CommandError::new(ExitCode::Incomplete, format!("write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings;
    use crate::store;

    #[test]
    fn a_summary_is_appended_and_an_empty_name_asks_for_none() {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/run");
        let stored = store::load(&run).unwrap();
        let findings = findings::judge(&stored.history);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("summary.md");
        std::fs::write(&path, "before\n").unwrap();
        for name in ["".into(), path.clone().into_os_string()] {
            let args = GithubArgs {
                step_summary: Some(name),
                annotate: false,
            };
            tell(&args, &stored.cell(&findings)).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("before\n# testbed: two-dc\n"), "{text}");
    }
}
