//! What a block is: a numbered experiment that does things to a lab and records what happened. It never judges: what its
//! numbers mean is said in `findings`, from the history alone.
//!
//! A block leaves the lab as it found it, checked, or says that it consumed it. That holds when it fails or is stopped too:
//! links are healed, delays and settings put back, replicas attached again. One file per block below.

mod built_in;
mod calibration;
mod cast;
mod error;
mod far_cache;
mod fit;
mod flights;
mod formed;
mod found;
mod halves;
mod lost_writes;
mod means;
mod nodelay;
mod offset_gap;
mod price_of_wait;
mod reads_when_down;
mod scene;
mod serialising;
mod visibility_lag;
mod wait_and_distance;
mod waits;

pub use built_in::{BuiltIn, CLUSTER_A, CLUSTER_B, CLUSTER_C, TWO_DC};
pub use cast::{Cast, ClusterCast, Layout, Member, Needs, Part};
pub use error::BlockError;
pub use fit::LinkFound;
pub use means::{Cutting, Means, Method};

use crate::findings::card::{self, Card};
use crate::history::{BlockNumber, LabAfter, What};
use crate::lab::Lab;
use crate::plan::Plan;
use crate::stop::Stop;
use formed::{Formed, Found};
use found::AsFound;
use scene::{Scene, Watch};
use std::time::{Duration, Instant};
use wire::Path;

/// A numbered experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// 1: when is a write visible on a replica?
    VisibilityLag,
    /// 2: how many acknowledged writes are lost when the replica is promoted?
    LostWrites,
    /// 3: what does WAIT 1 cost?
    PriceOfWait,
    /// 4: which half of a cluster answers after a cut, with all masters in one datacenter?
    LayoutA,
    /// 5: and with a master in the other, its replica beside it?
    LayoutB,
    /// 6: and with that replica in the first?
    LayoutC,
    /// 7: is a cache in the other datacenter faster than the database at home?
    FarCache,
    /// 8: who decides about reads when the cluster is down?
    ReadsWhenDown,
    /// 9: what measures the window of loss, the round trip or the offset gap?
    OffsetGap,
    /// 10: how does the price of WAIT grow with distance?
    WaitAndDistance,
    /// 11: what does a relay that terminates TCP cost, and does TCP_NODELAY on it matter?
    Nodelay,
    /// 12: how many times does an operation pay the delay?
    Flights,
    /// 13: what does a link cost that delays one portion after the other?
    Serialising,
    /// 14: is the link as long as it was asked to be?
    Calibration,
}

/// How long after a failed step the engine may still say that a node's end was the cause.
const TOLD: Duration = Duration::from_secs(2);

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

impl Block {
    /// All that exist, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::VisibilityLag,
        Self::LostWrites,
        Self::PriceOfWait,
        Self::LayoutA,
        Self::LayoutB,
        Self::LayoutC,
        Self::FarCache,
        Self::ReadsWhenDown,
        Self::OffsetGap,
        Self::WaitAndDistance,
        Self::Nodelay,
        Self::Flights,
        Self::Serialising,
        Self::Calibration,
    ];

    /// Number, as in the record.
    #[must_use]
    pub fn number(self) -> BlockNumber {
        match self {
            Self::VisibilityLag => 1,
            Self::LostWrites => 2,
            Self::PriceOfWait => 3,
            Self::LayoutA => 4,
            Self::LayoutB => 5,
            Self::LayoutC => 6,
            Self::FarCache => 7,
            Self::ReadsWhenDown => 8,
            Self::OffsetGap => 9,
            Self::WaitAndDistance => 10,
            Self::Nodelay => 11,
            Self::Flights => 12,
            Self::Serialising => 13,
            Self::Calibration => 14,
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
            Self::LayoutA | Self::LayoutB | Self::LayoutC => halves::method(self, Method::Cut),
            Self::FarCache => far_cache::method(),
            Self::ReadsWhenDown => reads_when_down::method(),
            Self::OffsetGap => offset_gap::method(),
            Self::WaitAndDistance => wait_and_distance::method(),
            Self::Nodelay => nodelay::method(),
            Self::Flights => flights::method(),
            Self::Serialising => serialising::method(),
            Self::Calibration => calibration::method(),
        }
    }

    /// Every key that it writes, where all are known before.
    fn keys(self) -> Vec<String> {
        match self {
            Self::VisibilityLag => visibility_lag::keys(),
            Self::LostWrites => lost_writes::keys(),
            Self::PriceOfWait => price_of_wait::keys(),
            Self::FarCache => far_cache::keys(),
            Self::OffsetGap => offset_gap::keys(),
            Self::WaitAndDistance | Self::Nodelay | Self::Serialising => waits::keys(),
            Self::Flights => flights::keys(),
            // What parts a cluster looks for its keys by their prefix.
            Self::LayoutA | Self::LayoutB | Self::LayoutC | Self::ReadsWhenDown | Self::Calibration => Vec::new(),
        }
    }

    /// The topology that it is meant for.
    #[must_use]
    pub fn topology(self) -> BuiltIn {
        match self {
            Self::VisibilityLag
            | Self::LostWrites
            | Self::PriceOfWait
            | Self::FarCache
            | Self::OffsetGap
            | Self::WaitAndDistance
            | Self::Nodelay
            | Self::Flights
            | Self::Serialising
            | Self::Calibration => TWO_DC,
            Self::LayoutA => CLUSTER_A,
            Self::LayoutB | Self::ReadsWhenDown => CLUSTER_B,
            Self::LayoutC => CLUSTER_C,
        }
    }

    /// Which nodes of a plan play which part.
    ///
    /// # Errors
    /// Why the block does not apply to this plan.
    pub fn applies(self, plan: &Plan) -> Result<Cast, String> {
        if let Some(layout) = self.layout() {
            return Cast::halves(plan, Some(layout));
        }
        let needs = Needs {
            near: matches!(self, Self::VisibilityLag | Self::PriceOfWait),
            database: self.uses_database(),
        };
        Cast::fill(plan, needs)
    }

    /// Whether it is one of those that [`Method`] is for.
    #[must_use]
    pub fn parts_a_cluster(self) -> bool {
        matches!(self, Self::LayoutA | Self::LayoutB | Self::LayoutC)
    }

    /// Whether it measures a database too.
    #[must_use]
    pub fn uses_database(self) -> bool {
        matches!(self, Self::FarCache | Self::Flights)
    }

    /// How the cluster of a block is placed (`None`: it is about no cluster).
    fn layout(self) -> Option<Layout> {
        match self {
            Self::LayoutA => Some(Layout::A),
            Self::LayoutB | Self::ReadsWhenDown => Some(Layout::B),
            Self::LayoutC => Some(Layout::C),
            _ => None,
        }
    }
}

/// How a block ended.
#[derive(Debug)]
pub struct Ended {
    /// Whether the lab is as the block found it.
    pub lab: LabAfter,
    /// Why it could not be completed, if so.
    pub outcome: Result<(), BlockError>,
}

/// Runs a block on a lab, and puts the lab back as it was found whatever happened. What became of it is in the history
/// too, if that can be written.
pub async fn run(block: Block, means: Means, lab: &Lab, recorder: &mut dyn Recorder, stop: &Stop) -> Ended {
    let began = Instant::now();
    let method = match means.method {
        Method::Stop if block.parts_a_cluster() => halves::method(block, Method::Stop),
        _ => block.method(),
    };
    let started = recorder.record(What::BlockStarted {
        block: block.number(),
        method: Some(method),
    });
    let ended = match (started, block.applies(&lab.plan)) {
        (Err(error), _) => Ended::untouched(error.into()),
        (_, Err(lack)) => Ended::untouched(BlockError::DoesNotApply(lack)),
        (Ok(()), Ok(cast)) => {
            let mut scene = Scene::new(lab, &cast, block.number(), recorder);
            scene.means = means;
            perform(block, &mut scene, stop).await
        }
    };
    let recorded = recorder.record(What::BlockEnded {
        block: block.number(),
        lab: ended.lab,
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        error: ended.outcome.as_ref().err().map(ToString::to_string),
    });
    Ended {
        lab: ended.lab,
        outcome: ended.outcome.and(recorded.map_err(BlockError::from)),
    }
}

impl Ended {
    /// It did not begin.
    fn untouched(error: BlockError) -> Self {
        Self {
            lab: LabAfter::AsFound,
            outcome: Err(error),
        }
    }
}

/// The block's own steps between looking at the lab and putting it back.
async fn perform(block: Block, scene: &mut Scene<'_>, stop: &Stop) -> Ended {
    let found = tokio::select! {
        found = begin(block, scene) => found,
        signal = stop.stopped() => Err(BlockError::Stopped(signal)),
    };
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ended::untouched(error),
    };
    let mut watch = None;
    let outcome = tokio::select! {
        outcome = body(block, scene, &found, &mut watch) => outcome,
        signal = stop.stopped() => Err(BlockError::Stopped(signal)),
    };
    let broken = matches!(
        outcome,
        Err(BlockError::NodeEnded { .. } | BlockError::RelayLost { .. })
    );
    if matches!(outcome, Err(BlockError::Stopped(_))) {
        if !scene.lab.was_up() {
            // Whoever made it removes it now.
            return Ended {
                lab: LabAfter::Consumed,
                outcome,
            };
        }
        scene.progress("stopped: what is under way ends, then the lab is put back as it was found");
    }
    let watched = match watch {
        Some(watch) => scene.end_watch(watch).await,
        None => Ok(()),
    };
    // What stopped the block comes first; the watch may have failed for the same reason.
    let outcome = match outcome.and(watched) {
        Ok(()) => scene.peers_seen("end", true).await,
        failed => failed,
    };
    if broken && !scene.lab.was_up() {
        // What is broken is not put back but replaced; waiting for a node that is gone would take half a minute.
        return Ended {
            lab: LabAfter::Consumed,
            outcome,
        };
    }
    let lab = match put_back(block, scene, &found).await {
        Ok(()) => LabAfter::AsFound,
        Err(error) => {
            // A note that cannot be written shows in the next event, which cannot be written either.
            scene.progress(&format!("the lab is not as it was found: failed to {error}"));
            let _ = scene.note(format!(
                "The lab could not be put back as it was found: failed to {error}."
            ));
            LabAfter::Consumed
        }
    };
    Ended { lab, outcome }
}

/// Looks at the lab. Nothing is changed, and the keys of the block must be nobody's: they are removed afterwards.
async fn begin(block: Block, scene: &Scene<'_>) -> Result<Found, BlockError> {
    if block.layout().is_some() {
        return Ok(Found::Cluster(Formed::look(scene).await?));
    }
    let found = AsFound::look(scene).await?;
    let primary = &scene.cast.primary;
    match scene.existing_keys(primary, &block.keys()).await? {
        0 => Ok(Found::Set(found)),
        count => Err(BlockError::Occupied {
            count,
            server: primary.shown(),
        }),
    }
}

async fn put_back(block: Block, scene: &mut Scene<'_>, found: &Found) -> Result<(), BlockError> {
    let found = match found {
        Found::Cluster(formed) => return formed.put_back(scene).await,
        Found::Set(found) => found,
    };
    found.put_topology_back(scene).await?;
    // What was broken off goes on writing in its probe; with the link as it was it soon ends.
    scene.idle().await?;
    let keys = block.keys();
    scene.remove_keys(&keys).await?;
    match block {
        Block::FarCache => far_cache::drop_table(scene).await?,
        Block::Flights => flights::close_database(scene).await?,
        _ => {}
    }
    found.put_settings_back(scene).await?;
    found.check(scene, &keys).await
}

/// The block's steps between calibration and the last look. The watch is handed out, since it must be ended even where this
/// is broken off.
async fn body(block: Block, scene: &mut Scene<'_>, found: &Found, watch: &mut Option<Watch>) -> Result<(), BlockError> {
    let links = scene.links().await?;
    scene.link_changed(&links)?;
    scene.calibrate(&links).await?;
    scene.link_seen("start", links)?;
    scene.peers_seen("start", false).await?;
    let watch = watch.insert(scene.begin_watch().await?);
    tokio::select! {
        measured = measure(block, scene, found) => match measured {
            // What fails because a node or a relay is gone is told as that, even where it was noticed first.
            Err(error) => match tokio::time::timeout(TOLD, watch.broken()).await {
                Ok(broken) if !matches!(error, BlockError::Record(_)) => Err(broken),
                _ => Err(error),
            },
            measured => measured,
        },
        broken = watch.broken() => Err(broken),
    }?;
    let links = scene.links().await?;
    scene.link_seen("end", links)
}

async fn measure(block: Block, scene: &mut Scene<'_>, found: &Found) -> Result<(), BlockError> {
    let found = match found {
        Found::Cluster(formed) => return formed::measure(block, scene, formed).await,
        Found::Set(found) => found,
    };
    if found.path != Path::Tun {
        // What stream mode makes of a connection is the question of blocks 11, 13 and 14, which choose their own way.
        let replicas = scene.cast.replicas();
        scene.take_path(Path::Tun, &replicas).await?;
    }
    match block {
        Block::VisibilityLag => visibility_lag::measure(scene, found).await,
        Block::LostWrites => lost_writes::measure(scene, found).await,
        Block::PriceOfWait => price_of_wait::measure(scene, found).await,
        Block::FarCache => far_cache::measure(scene, found).await,
        Block::OffsetGap => offset_gap::measure(scene, found).await,
        Block::WaitAndDistance => wait_and_distance::measure(scene, found).await,
        Block::Nodelay => nodelay::measure(scene).await,
        Block::Flights => flights::measure(scene).await,
        Block::Serialising => serialising::measure(scene).await,
        Block::Calibration => calibration::measure(scene).await,
        Block::LayoutA | Block::LayoutB | Block::LayoutC | Block::ReadsWhenDown => {
            unreachable!("they were found as a cluster")
        }
    }
}

#[cfg(test)]
mod tests;
