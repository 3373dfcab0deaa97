//! Parses the command line, starts logging, calls one command and maps its outcome to an exit code.

use clap::FromArgMatches;
use testbed::cli::{Cli, Color, Format};
use testbed::document::document;
use testbed::error::{CommandError, ExitCode};
use testbed::progress::say;

fn main() -> std::process::ExitCode {
    clap_complete::CompleteEnv::with_factory(testbed::cli::command)
        .var(testbed::commands::man::COMPLETE)
        .complete();
    let given = testbed::cli::command().get_matches();
    let parsed = Cli::from_arg_matches(&given).and_then(Cli::settled);
    let cli = parsed.unwrap_or_else(|error| error.exit());
    start_logging(&cli);
    let format = cli.global.format;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a tokio runtime can be made");
    let code = match runtime.block_on(testbed::commands::run(cli)) {
        Ok(code) => code,
        Err(error) => {
            tell(&error, format);
            error.code
        }
    };
    // Readers of stdin can block a worker for ever; they must not hold up the exit.
    runtime.shutdown_background();
    code_of(code)
}

/// On stderr, as text or as a document.
fn tell(error: &CommandError, format: Format) {
    if format == Format::Json {
        say(document("error", &error.document()).trim_end());
        return;
    }
    say(format_args!("error: failed to {}", error.text));
    if let Some(hint) = &error.hint {
        say(format_args!("hint: {hint}"));
    }
}

fn code_of(code: ExitCode) -> std::process::ExitCode {
    std::process::ExitCode::from(code.number())
}

fn start_logging(cli: &Cli) {
    use std::io::IsTerminal;
    let colour = match cli.global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    };
    testbed::log::start(cli.global.verbose, colour);
}
