//! `export`: a lab as a file for docker compose, which needs no engine, and the images that such a file names.

use super::{connect, prepare, screen, source};
use crate::cli::{ComposeArgs, ExportVerb, ExportedImages, Format, Global};
use crate::compose;
use crate::docker::{Console, Images as _};
use crate::error::{CommandError, ExitCode};
use crate::image::{self, Policy, Supply};
use crate::instrument;
use crate::names::program_of_version;
use crate::plan::{self, Images};
use crate::progress::Progress;
use crate::stop::Stop;
use std::path::Path;

/// Version in the references of relay and probe: the file is older than any build of them.
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) async fn run(global: &Global, verb: ExportVerb) -> Result<ExitCode, CommandError> {
    match verb {
        ExportVerb::Compose(args) => compose(global, &args),
        ExportVerb::Images(args) => images(global, &args).await,
    }
}

fn compose(global: &Global, args: &ComposeArgs) -> Result<ExitCode, CommandError> {
    if global.format == Format::Json {
        return Err(
            CommandError::new(ExitCode::Usage, "export a compose file as JSON: it is YAML")
                .hint("`testbed plan --format json` prints every object as JSON"),
        );
    }
    let source = source::read(&args.file, global.format, global.color)?;
    let lab = args.lab.as_ref().unwrap_or(&source.topology.name);
    let images = Images {
        relay: program_of_version(instrument::RELAY, VERSION),
        probe: program_of_version(instrument::PROBE, VERSION),
        releases: prepare::releases(&source.topology, &args.release)?,
    };
    let (topology, hash) = (&source.topology, &source.hash);
    let plan = match args.subnet {
        None => plan::plan(topology, hash, lab, None, &images, &[])?,
        Some(block) => plan::plan_in(block, topology, hash, lab, &images)?,
    };
    let text = compose::text(&plan, &images.probe, &made_by(args));
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => screen::print(&text)?,
        Some(path) => {
            std::fs::write(path, text).map_err(|error| {
                CommandError::new(ExitCode::Incomplete, format!("write {}: {error}", path.display()))
            })?;
            Progress::new(global.quiet).step(format_args!("{} written", path.display()));
        }
    }
    Ok(ExitCode::Success)
}

/// The arguments that make the same file again.
fn made_by(args: &ComposeArgs) -> Vec<String> {
    let mut words = vec![args.file.display().to_string()];
    if let Some(lab) = &args.lab {
        words.extend(["-p".to_owned(), lab.to_string()]);
    }
    if let Some(block) = &args.subnet {
        words.extend(["--subnet".to_owned(), block.to_string()]);
    }
    for release in &args.release.release {
        words.extend(["--release".to_owned(), release.clone()]);
    }
    words
}

async fn images(global: &Global, args: &ExportedImages) -> Result<ExitCode, CommandError> {
    let mut releases = Vec::new();
    for file in &args.files {
        let source = source::read(file, global.format, global.color)?;
        releases.extend(prepare::releases(&source.topology, &args.release)?.into_values());
    }
    let docker = connect(global).await?;
    let progress = Progress::new(global.quiet);
    let stop = Stop::on_signals().map_err(|error| CommandError::new(ExitCode::Host, error.to_string()))?;
    let architecture = docker.about().await?.architecture;
    let supply = Supply::new(&docker, &architecture, image::cache_folder())?.telling(&progress);
    let obtained = async {
        let instrument = instrument::find(&progress).await?;
        let obtained = supply.obtain(&releases, Policy::Auto).await?;
        let mut names: Vec<String> = Vec::new();
        for (name, program) in [
            (instrument::RELAY, &instrument.relay),
            (instrument::PROBE, &instrument.probe),
        ] {
            let built = supply.program(name, &program.bytes).await?;
            let reference = program_of_version(name, VERSION);
            docker.tag(&built, &reference).await?;
            names.push(reference);
        }
        names.extend(obtained.into_iter().map(|image| image.image));
        names.sort();
        names.dedup();
        Ok::<_, CommandError>(names)
    };
    tokio::select! {
        names = obtained => screen::print(&(names?.join("\n") + "\n"))?,
        signal = stop.stopped() => {
            image::abandon(&docker).await?;
            return Ok(signal.exit_code());
        }
    }
    Ok(ExitCode::Success)
}
