//! From a topology file to a lab: the stages that `up` and `run` share. Chooses releases, sees to the images, plans on free subnets and raises; plans again if the engine refuses a subnet after all.

use super::source::Source;
use crate::address::Pool;
use crate::cli::ReleaseArg;
use crate::docker::{Console, Docker, Engine, EngineHandle};
use crate::error::{CommandError, ExitCode};
use crate::image::{self, Policy, Supply};
use crate::instrument::{self, Instrument};
use crate::lab::{self, Engines, Lab, Life};
use crate::names::{LabName, NodeName};
use crate::plan::{self, Images, Plan};
use crate::progress::Progress;
use crate::reaper::Reaper;
use crate::release::{Catalogue, Release};
use crate::stop::Stop;
use crate::topology::Topology;
use ipnet::Ipv4Net;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Everything that a plan needs but addresses.
pub struct Ground {
    /// The engine of all datacenters.
    pub docker: Docker,
    /// The topology.
    pub source: Source,
    /// What the containers run.
    pub images: Images,
    /// Relay and probe, with their digests.
    pub instrument: Instrument,
    /// Who removes a lab if this process is killed.
    pub reaper: Option<Arc<Reaper>>,
    /// How long its labs live.
    pub life: Life,
    /// Where their addresses are from.
    pub pool: Pool,
}

/// What every node runs: its own pin, else the command line's choice, else the default.
///
/// # Errors
/// A release that does not exist or does not fit, or a folder that holds no build.
pub fn releases(topology: &Topology, asked: &ReleaseArg) -> Result<BTreeMap<NodeName, Release>, CommandError> {
    let catalogue = Catalogue::built_in();
    let mut choice = catalogue.choose(&asked.release)?;
    for release in choice.cache.iter_mut().chain(&mut choice.database) {
        image::settle(release)?;
    }
    let nodes = topology.nodes.iter();
    nodes
        .map(|node| {
            let release = catalogue.resolve(node.engine, node.release.as_deref(), &choice)?;
            Ok((node.name.clone(), release))
        })
        .collect()
}

impl Ground {
    /// Sees to it that the engine has every image.
    ///
    /// # Errors
    /// One cannot be had.
    pub async fn prepare(
        docker: Docker,
        source: Source,
        releases: BTreeMap<NodeName, Release>,
        progress: &Progress,
    ) -> Result<Self, CommandError> {
        let about = docker.about().await?;
        let instrument = instrument::find(progress).await?;
        let supply = Supply::new(&docker, &about.architecture, image::cache_folder())?.telling(progress);
        let wanted: Vec<Release> = releases.values().cloned().collect();
        let (relay, probe, _) = tokio::try_join!(
            supply.program(instrument::RELAY, &instrument.relay.bytes),
            supply.program(instrument::PROBE, &instrument.probe.bytes),
            supply.obtain(&wanted, Policy::Auto),
        )?;
        for application in &source.topology.applications {
            supply.own(&application.image).await?;
        }
        Ok(Self {
            docker,
            source,
            images: Images { relay, probe, releases },
            instrument,
            reaper: None,
            life: Life::OfItsOwn,
            pool: Pool::default(),
        })
    }

    /// The same, with a reaper for its labs.
    #[must_use]
    pub fn reaped(mut self, reaper: Option<Arc<Reaper>>, life: Life) -> Self {
        self.reaper = reaper;
        self.life = life;
        self
    }

    /// The same, with the addresses of its labs from this pool.
    #[must_use]
    pub fn within(mut self, pool: Pool) -> Self {
        self.pool = pool;
        self
    }

    /// The engines of the lab's datacenters.
    #[must_use]
    pub fn engines(&self) -> Engines {
        let engine: EngineHandle = Arc::new(self.docker.clone());
        Engines::from(engine).reaped(self.reaper.clone(), self.life)
    }

    /// The plan that avoids these subnets.
    ///
    /// # Errors
    /// There are no addresses left, or a release does not fit its node.
    pub fn plan(&self, lab: &LabName, run: Option<&str>, taken: &[Ipv4Net]) -> Result<Plan, CommandError> {
        let Source { topology, hash, .. } = &self.source;
        let taken = [taken, &self.pool.outside()].concat();
        Ok(plan::plan(topology, hash, lab, run, &self.images, &taken)?)
    }

    /// Raises the lab on free subnets.
    ///
    /// # Errors
    /// The lab could not be raised; what was made is gone.
    pub async fn raise(
        &self,
        lab: &LabName,
        run: Option<&str>,
        progress: &Progress,
        stop: &Stop,
        limit: Duration,
    ) -> Result<Lab, CommandError> {
        let engines = self.engines();
        let full = Cell::new(false);
        let plan = |taken: &[Ipv4Net]| {
            let planned = self.plan(lab, run, taken);
            full.set(planned.is_err());
            planned
        };
        let raised = lab::raise_on_free_subnets(&engines, plan, progress, stop, limit).await;
        match raised {
            Err(error) if full.get() => Err(self.without_room(lab, error).await),
            raised => raised,
        }
    }

    /// The same error with what fills the pool, if that is the reason and the engine tells.
    async fn without_room(&self, lab: &LabName, error: CommandError) -> CommandError {
        let seen = async {
            let taken = self.docker.subnets().await?;
            Ok::<_, CommandError>((taken, lab::labs(&self.engines()).await?))
        };
        let Ok((taken, labs)) = seen.await else { return error };
        let (blocks, free) = self.pool.blocks(&taken);
        if free > 0 {
            return error;
        }
        let names: Vec<String> = labs.into_iter().map(|found| found.lab).collect();
        let by = match names.as_slice() {
            [] => "networks that are no lab's".to_owned(),
            names => format!(
                "{} labs ({}) and networks of others, if any",
                names.len(),
                names.join(", ")
            ),
        };
        let text = format!(
            "find addresses for lab `{lab}`: the pool {} has {blocks} blocks of 1024 addresses, one for a lab, and all are in use by {by}",
            self.pool
        );
        CommandError::new(ExitCode::Host, text)
            .hint("`testbed down -p NAME` removes a lab, `testbed down --older-than 1h` those that are old")
    }
}
