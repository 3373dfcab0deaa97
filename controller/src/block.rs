//! What a block is: a numbered experiment that does things to a lab and records what happened. It never judges: what its
//! numbers mean is said in `findings`, from the history alone.
//!
//! A block leaves the lab as it found it, checked, or says that it consumed it. That holds when it fails or is stopped too:
//! links are healed, delays and settings put back, replicas attached again. One file per block below.

mod cast;
mod far_cache;
mod found;
mod lost_writes;
mod price_of_wait;
mod scene;
mod visibility_lag;

pub use cast::{Cast, Needs, Part};

use crate::channel::ChannelError;
use crate::findings::card::{self, Card};
use crate::history::{BlockNumber, LabAfter, What};
use crate::lab::{Lab, LabError};
use crate::plan::Plan;
use crate::stop::{Signal, Stop};
use found::AsFound;
use scene::Scene;
use std::time::{Duration, Instant};

/// A numbered experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// 1: when is a write visible on a replica?
    VisibilityLag,
    /// 2: how many acknowledged writes are lost when the replica is promoted?
    LostWrites,
    /// 3: what does WAIT 1 cost?
    PriceOfWait,
    /// 7: is a cache in the other datacenter faster than the database at home?
    FarCache,
}

/// A topology that comes with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Name of its file.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Two datacenters, a primary with a near and a far replica, a database beside the far one.
pub const TWO_DC: BuiltIn = BuiltIn {
    file: "topologies/two-dc.yaml",
    text: include_str!("../../topologies/two-dc.yaml"),
};

/// Where a block writes what happened.
pub trait Recorder: Send {
    /// Appends to the history, at once.
    ///
    /// # Errors
    /// The history could not be written.
    fn record(&mut self, what: What) -> std::io::Result<()>;

    /// Tells people what is being done.
    fn progress(&mut self, text: &str);
}

/// Why a block could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// The lab lacks a part.
    #[error("cast the block: {0}")]
    DoesNotApply(String),
    /// A relay or a probe did not do what it was told.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A link could not be changed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A server refused a command.
    #[error("send {command} to {server}: {reply}")]
    Refused {
        /// The server.
        server: String,
        /// The command.
        command: String,
        /// Its reply.
        reply: String,
    },
    /// A probe gave an answer of another kind than the order has.
    #[error("read the answer to {order}: it is of another kind")]
    OtherAnswer {
        /// The order.
        order: &'static str,
    },
    /// The link was cut before the block began.
    #[error("begin: the link from {from} to {to} is cut")]
    FoundCut {
        /// Sending side.
        from: String,
        /// Receiving side.
        to: String,
    },
    /// A condition did not come true in time.
    #[error("see {wanted} within {limit:?}: last seen {seen}")]
    NotSeen {
        /// The condition.
        wanted: String,
        /// How long it was waited for.
        limit: Duration,
        /// What was there instead.
        seen: String,
    },
    /// The history could not be written.
    #[error("write the history: {0}")]
    Record(#[from] std::io::Error),
    /// It was told to stop.
    #[error("finish: stopped by a signal")]
    Stopped(Signal),
}

impl Block {
    /// All that exist, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::VisibilityLag, Self::LostWrites, Self::PriceOfWait, Self::FarCache];

    /// Number, as in the record.
    #[must_use]
    pub fn number(self) -> BlockNumber {
        match self {
            Self::VisibilityLag => 1,
            Self::LostWrites => 2,
            Self::PriceOfWait => 3,
            Self::FarCache => 7,
        }
    }

    /// The block of a number.
    #[must_use]
    pub fn numbered(number: BlockNumber) -> Option<Self> {
        Self::ALL.into_iter().find(|block| block.number() == number)
    }

    /// Title, question, and what it does not show.
    #[must_use]
    pub fn card(self) -> &'static Card {
        card::of(self.number()).expect("every block has a card")
    }

    /// How it is done, with its parameters.
    #[must_use]
    pub fn method(self) -> String {
        match self {
            Self::VisibilityLag => visibility_lag::method(),
            Self::LostWrites => lost_writes::method(),
            Self::PriceOfWait => price_of_wait::method(),
            Self::FarCache => far_cache::method(),
        }
    }

    /// The topology that it is meant for.
    #[must_use]
    pub fn topology(self) -> BuiltIn {
        match self {
            Self::VisibilityLag | Self::LostWrites | Self::PriceOfWait | Self::FarCache => TWO_DC,
        }
    }

    /// Which nodes of a plan play which part.
    ///
    /// # Errors
    /// Why the block does not apply to this plan.
    pub fn applies(self, plan: &Plan) -> Result<Cast, String> {
        let needs = match self {
            Self::VisibilityLag | Self::PriceOfWait => Needs {
                near: true,
                database: false,
            },
            Self::LostWrites => Needs {
                near: false,
                database: false,
            },
            Self::FarCache => Needs {
                near: false,
                database: true,
            },
        };
        Cast::fill(plan, needs)
    }
}

/// Runs a block on a lab, and puts the lab back as it was found whatever happened.
///
/// # Errors
/// Why it could not be completed; that is in the history too.
pub async fn run(block: Block, lab: &Lab, recorder: &mut dyn Recorder, stop: &Stop) -> Result<LabAfter, BlockError> {
    let began = Instant::now();
    let cast = block.applies(&lab.plan).map_err(BlockError::DoesNotApply)?;
    recorder.record(What::BlockStarted {
        block: block.number(),
        method: Some(block.method()),
    })?;
    let mut scene = Scene::new(lab, &cast, block.number(), recorder);
    let (outcome, after) = perform(block, &mut scene, stop).await;
    recorder.record(What::BlockEnded {
        block: block.number(),
        lab: after,
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        error: outcome.as_ref().err().map(ToString::to_string),
    })?;
    outcome.map(|()| after)
}

/// The block's own steps between looking at the lab and putting it back.
async fn perform(block: Block, scene: &mut Scene<'_>, stop: &Stop) -> (Result<(), BlockError>, LabAfter) {
    let found = match AsFound::look(scene).await {
        Ok(found) => found,
        // Nothing was done yet, but a lab that cannot be looked at is of no use to the next block either.
        Err(error) => return (Err(error), LabAfter::Consumed),
    };
    let outcome = tokio::select! {
        outcome = body(block, scene, &found) => outcome,
        signal = stop.stopped() => Err(BlockError::Stopped(signal)),
    };
    let after = match put_back(block, scene, &found).await {
        Ok(()) => LabAfter::AsFound,
        Err(error) => {
            // A note that cannot be written shows in the next event, which cannot be written either.
            let _ = scene.note(format!(
                "The lab could not be put back as it was found: failed to {error}."
            ));
            LabAfter::Consumed
        }
    };
    (outcome, after)
}

async fn put_back(block: Block, scene: &mut Scene<'_>, found: &AsFound) -> Result<(), BlockError> {
    found.put_topology_back(scene).await?;
    match block {
        Block::VisibilityLag => visibility_lag::tidy(scene).await,
        Block::LostWrites => lost_writes::tidy(scene).await,
        Block::PriceOfWait => price_of_wait::tidy(scene).await,
        Block::FarCache => far_cache::tidy(scene).await,
    }?;
    found.put_settings_back(scene).await
}

async fn body(block: Block, scene: &mut Scene<'_>, found: &AsFound) -> Result<(), BlockError> {
    let links = scene.links().await?;
    scene.link_seen("start", links)?;
    match block {
        Block::VisibilityLag => visibility_lag::measure(scene, found).await,
        Block::LostWrites => lost_writes::measure(scene, found).await,
        Block::PriceOfWait => price_of_wait::measure(scene, found).await,
        Block::FarCache => far_cache::measure(scene, found).await,
    }?;
    let links = scene.links().await?;
    scene.link_seen("end", links)
}
