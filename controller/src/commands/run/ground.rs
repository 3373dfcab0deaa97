//! Where blocks run: a topology that comes with the program, the user's own file, or a lab that is up. Gives out one lab at a
//! time, fresh where it may make one, and takes care of its end.

use super::chronicle::Chronicle;
use crate::address::Pool;
use crate::block::{Block, LinkFound, Method};
use crate::cli::{Global, Keep, Run};
use crate::commands::prepare::{self, Ground};
use crate::commands::source::{self, Source};
use crate::docker::{Docker, EngineHandle};
use crate::error::{CommandError, ExitCode};
use crate::history::{LabAfter, What};
use crate::image;
use crate::lab::{self, Engines, Lab, Life};
use crate::names::{LabName, NodeName};
use crate::plan::Plan;
use crate::reaper::Reaper;
use crate::release::Release;
use crate::stop::Stop;
use crate::store;
use crate::topology;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit of raising a lab, and of a lab that is up to be ready.
const READY: Duration = Duration::from_secs(60);
/// Longest name of a lab.
const LONGEST_NAME: usize = 32;

/// A place, and the blocks that are to run there.
pub(super) struct Place {
    blocks: Vec<Block>,
    kind: Kind,
}

enum Kind {
    /// Labs are made from this.
    Topology {
        source: Source,
        releases: BTreeMap<NodeName, Release>,
    },
    /// The lab is there.
    Up(LabName),
}

impl Place {
    /// For the run's name.
    pub(super) fn name(&self) -> &str {
        match &self.kind {
            Kind::Topology { source, .. } => source.topology.name.as_str(),
            Kind::Up(lab) => lab.as_str(),
        }
    }
}

/// Where these blocks run: all in one place that the user names, or each on its own topology.
pub(super) fn places(global: &Global, args: &Run, blocks: &[Block]) -> Result<Vec<Place>, CommandError> {
    if args.method == Method::Stop {
        if !blocks.iter().any(|block| block.parts_a_cluster()) {
            let text = "part the halves of a cluster by --method stop: no block of these does it";
            return Err(CommandError::new(ExitCode::Usage, text).hint("blocks 4, 5 and 6 do: --only 4,5,6"));
        }
        if let Some(lab) = &args.lab {
            let text = format!(
                "part the halves of lab `{lab}` by --method stop: each half gets a fresh cluster, and what is in it would be lost"
            );
            return Err(CommandError::new(ExitCode::Usage, text).hint("leave out -p: the run makes labs of its own"));
        }
    }
    if let Some(lab) = &args.lab {
        if !args.release.release.is_empty() {
            let text = format!("run other releases on lab `{lab}`: it is up and has its own");
            return Err(CommandError::new(ExitCode::Usage, text).hint("leave out --release, or -p"));
        }
        return Ok(vec![Place {
            blocks: blocks.to_vec(),
            kind: Kind::Up(lab.clone()),
        }]);
    }
    let made_from = |source: Source, blocks: Vec<Block>| {
        let releases = prepare::releases(&source.topology, &args.release)?;
        Ok::<_, CommandError>(Place {
            blocks,
            kind: Kind::Topology { source, releases },
        })
    };
    if let Some(file) = &args.file {
        return Ok(vec![made_from(
            source::read(file, global.format, global.color)?,
            blocks.to_vec(),
        )?]);
    }
    let mut topologies: Vec<crate::block::BuiltIn> = Vec::new();
    for topology in blocks.iter().map(|block| block.topology()) {
        // Blocks of one topology share a lab, wherever they stand in the list.
        if !topologies.contains(&topology) {
            topologies.push(topology);
        }
    }
    let places = topologies.into_iter().map(|built_in| {
        let source = Source {
            topology: topology::parse(built_in.file, built_in.text).expect("a test checks what comes with the program"),
            hash: topology::hash(built_in.text),
            text: built_in.text.to_owned(),
        };
        let of_it = blocks.iter().copied().filter(|block| block.topology() == built_in);
        made_from(source, of_it.collect())
    });
    places.collect()
}

/// How labs are made.
pub(super) struct Making {
    /// Who removes them if this process is killed.
    pub(super) reaper: Option<Arc<Reaper>>,
    /// Whether they stay.
    pub(super) keep: Keep,
    /// Where their addresses are from.
    pub(super) pool: Pool,
}

/// The labs of a place, one at a time.
pub(super) struct Labs<'a> {
    pub(super) stop: &'a Stop,
    docker: &'a Docker,
    place: Place,
    making: Making,
    ground: Option<Ground>,
    /// What a block is cast from before there is a lab.
    plan: Option<Plan>,
    lab: Option<Lab>,
    /// Blocks that ran on this lab.
    seen: Vec<Block>,
    /// Labs made so far.
    made: u32,
    /// Why the lab that was up can be used no more.
    spoilt: Option<String>,
}

impl<'a> Labs<'a> {
    pub(super) fn new(docker: &'a Docker, place: Place, stop: &'a Stop, making: Making) -> Self {
        Self {
            stop,
            docker,
            place,
            making,
            ground: None,
            plan: None,
            lab: None,
            seen: Vec::new(),
            made: 0,
            spoilt: None,
        }
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        self.place.blocks.clone()
    }

    /// Sees to the images, or attaches to the lab that is up.
    pub(super) async fn prepare(&mut self, chronicle: &mut Chronicle) -> Result<(), CommandError> {
        match &self.place.kind {
            Kind::Topology { source, releases } => {
                let progress = chronicle.progress().clone();
                let prepared = Ground::prepare(self.docker.clone(), source.clone(), releases.clone(), &progress);
                let ground = tokio::select! {
                    ground = prepared => ground?,
                    signal = self.stop.stopped() => {
                        image::abandon(self.docker).await?;
                        return Err(super::stopped(signal));
                    }
                };
                // A killed run has not been completed: who keeps the labs of such a one keeps this one.
                let life = match self.making.keep {
                    Keep::Never => Life::OfController,
                    Keep::Failed | Keep::Always => Life::OfItsOwn,
                };
                let Making { reaper, pool, .. } = &self.making;
                let ground = ground.reaped(reaper.clone(), life).within(pool.clone());
                chronicle.learn(self.docker, Some(&ground.instrument)).await?;
                let name = self.name(chronicle.run());
                self.plan = Some(ground.plan(&name, Some(chronicle.run()), &[])?);
                self.ground = Some(ground);
                Ok(())
            }
            Kind::Up(name) => {
                chronicle.learn(self.docker, None).await?;
                let engine: EngineHandle = Arc::new(self.docker.clone());
                let engines = Engines::from(engine);
                let found = async {
                    let mut lab = lab::find(&engines, Some(name)).await?;
                    lab.wait_ready(READY).await?;
                    Ok::<_, CommandError>(lab)
                };
                let lab = tokio::select! {
                    lab = found => lab?,
                    signal = self.stop.stopped() => return Err(super::stopped(signal)),
                };
                self.plan = Some(lab.plan.clone());
                self.enter(chronicle, lab, None).await
            }
        }
    }

    /// Why a block is not run here, if so.
    pub(super) async fn skips(&self, block: Block) -> Option<String> {
        if let Some(reason) = &self.spoilt {
            return Some(reason.clone());
        }
        let plan = self.plan.as_ref().expect("a place is prepared before blocks are cast");
        let cast = match block.applies(plan) {
            Ok(cast) => cast,
            Err(lack) => return Some(lack),
        };
        let links = match (&self.place.kind, &self.lab) {
            // Its links may have been changed since it was made. One that does not answer fails the block, with the reason.
            (Kind::Up(_), Some(lab)) => lab.links().await.ok()?.iter().map(LinkFound::from).collect(),
            _ => LinkFound::planned(plan),
        };
        block.fits(&cast, &links).err()
    }

    /// Blocks that ran on the lab that there is now.
    pub(super) fn seen(&self) -> &[Block] {
        &self.seen
    }

    /// The lab for a block, made if there is none.
    pub(super) async fn ready(&mut self, chronicle: &mut Chronicle, block: Block) -> Result<&Lab, CommandError> {
        if self.lab.is_none() {
            let name = self.name(chronicle.run());
            let run = chronicle.run().to_owned();
            let progress = chronicle.progress().clone();
            let ground = self.ground.as_ref().expect("only a place with a topology has no lab");
            progress.step(format_args!("raising lab {name}"));
            let lab = ground.raise(&name, Some(&run), &progress, self.stop, READY).await?;
            if self.making.keep != Keep::Never {
                lab.stays().await;
            }
            self.made += 1;
            self.seen.clear();
            let text = ground.source.text.clone();
            self.enter(chronicle, lab, Some(text)).await?;
        }
        self.seen.push(block);
        Ok(self.lab.as_ref().expect("it was there or has just been made"))
    }

    /// Writes down a lab that is ready.
    async fn enter(&mut self, chronicle: &mut Chronicle, lab: Lab, text: Option<String>) -> Result<(), CommandError> {
        let topology = self.place.name().to_owned();
        let plan = lab.plan.clone();
        let ready = What::LabReady {
            lab: lab.name().to_string(),
            topology: topology.clone(),
            took_ms: u64::try_from(lab.took().as_millis()).unwrap_or(u64::MAX),
            servers: lab.servers().to_vec(),
        };
        let used = store::lab_used(&lab, self.docker, &topology).await;
        // From here on the lab is ours to remove, whatever cannot be written.
        self.lab = Some(lab);
        chronicle.write(ready)?;
        Ok(chronicle.lab(&plan, text.as_deref(), used)?)
    }

    /// What a block leaves behind: a lab that is used up, or on which it failed, is replaced by a fresh one for the next
    /// block; one that is not ours cannot be replaced, and is used no more if it is not as it was found.
    pub(super) async fn used(
        &mut self,
        chronicle: &mut Chronicle,
        block: Block,
        after: LabAfter,
        failed: bool,
        keep: Keep,
    ) -> Result<(), CommandError> {
        let used_up = after == LabAfter::Consumed;
        match &self.place.kind {
            Kind::Topology { .. } if used_up || failed => self.end(chronicle, super::kept(keep, true)).await,
            Kind::Up(lab) if used_up => {
                let number = block.number();
                self.spoilt = Some(format!("block {number} could not put lab `{lab}` back"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Removes the lab if this run made it and nobody wants it.
    pub(super) async fn end(&mut self, chronicle: &mut Chronicle, keep: bool) -> Result<(), CommandError> {
        let Some(lab) = self.lab.take() else { return Ok(()) };
        let name = lab.name().to_string();
        if matches!(self.place.kind, Kind::Up(_)) {
            return match self.spoilt.take() {
                None => Ok(()),
                Some(reason) => Err(CommandError::new(
                    ExitCode::Incomplete,
                    format!("leave lab `{name}` as it was found: {reason}"),
                )
                .hint(format!(
                    "`testbed ps -p {name}` shows it; `testbed down -p {name}` removes it"
                ))),
            };
        }
        if keep {
            chronicle.progress().step(format_args!(
                "lab {name} is left up: `testbed ps -p {name}`, `testbed exec -p {name} NODE COMMAND`, and at the end \
                 `testbed down -p {name}`"
            ));
            return Ok(());
        }
        let begun = Instant::now();
        lab.lower().await.map_err(|error| {
            let error = CommandError::from(error);
            error.hint(format!(
                "`testbed down -p {name}` removes what is left, once the engine answers"
            ))
        })?;
        chronicle.progress().step(format_args!("lab {name} is gone"));
        chronicle.write(What::LabLowered {
            lab: name,
            took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Name of the next lab: the topology's, and the run's id, so that it meets no lab of the same topology that is up.
    fn name(&self, run: &str) -> LabName {
        let suffix = match self.made {
            0 => format!("-{run}"),
            made => format!("-{run}-{}", made + 1),
        };
        let stem: String = self.place.name().chars().take(LONGEST_NAME - suffix.len()).collect();
        let name = format!("{}{suffix}", stem.trim_end_matches('-'));
        LabName::new(&name).expect("a topology's name with a hexadecimal suffix is a name")
    }
}
