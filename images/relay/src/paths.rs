//! Which way packets take, and all that goes with it: the kernel's rules, the thread of stream mode while there is one, and
//! what it must know of the links.
//!
//! Refuses in stream mode what a relay that terminates TCP cannot do: every condition but a constant delay, and schedules,
//! since nobody would tell the far relay of their steps, and cuts of ports, since it knows one state of a link for all of its
//! connections. Refuses `close` outside it, and for ports everywhere. What must stay true: the rules lead to
//! the thread only while it listens, and when it is ended, its resets leave before the rules go.

use crate::router::UnknownLink;
use crate::routes::{Routes, RoutesError};
use crate::stream::directions::Directions;
use crate::stream::exchange::Crossing;
use crate::stream::socket::Network;
use crate::stream::{Order, Stream, StreamError};
use wire::{Conditions, CutKind, Defect, LinkStatus, Mirror, Path, RelayConfig, RelayOrder, StreamStatus};

/// The way cannot be changed, or not used so.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// The kernel refused a change of the rules.
    #[error("failed to {0}")]
    Routes(#[from] RoutesError),
    /// The thread failed.
    #[error("failed to {0}")]
    Stream(#[from] StreamError),
    /// There is no such link.
    #[error(transparent)]
    UnknownLink(#[from] UnknownLink),
    /// A condition of packets.
    #[error(
        "in stream mode a link has a constant delay at the default rate and no other condition; that to `{0}` would have one"
    )]
    NotJustDelay(String),
    /// A schedule.
    #[error("in stream mode no schedule is carried out; that of the link to `{0}` would be")]
    Schedule(String),
    /// A cut of stream mode.
    #[error("a cut of kind `close` needs stream mode: the relay ends no connection of others in order")]
    Close,
    /// A cut of ports where the relay does not carry packets.
    #[error("ports of a link are cut in packet mode only; those of the link to `{0}` would be in another")]
    Ports(String),
    /// A cut of ports of a kind that ends connections in order.
    #[error("ports are cut by `drop` or `reset`: the relay ends no connection of others in order")]
    ClosePorts,
}

struct Far {
    to: String,
    network: Network,
    mirror: Mirror,
    defect: Option<Defect>,
}

impl Far {
    /// What its connections see of the outgoing direction, whose state is `own`: that, but for a defect on purpose.
    fn out(&self, own: &LinkStatus) -> Mirror {
        let delay_ns = own.conditions.delay_ns;
        let (delay_ns, cut) = match self.defect {
            None => (delay_ns, own.cut),
            Some(Defect::ExtraDelay { delay_ns: extra_ns }) => (delay_ns.saturating_add(extra_ns), own.cut),
            Some(Defect::NoDelay) => (0, own.cut),
            Some(Defect::LeakyCut) => (delay_ns, None),
        };
        Mirror {
            delay_ns,
            cut,
            frozen: own.frozen,
        }
    }
}

/// The way of packets.
pub struct Paths {
    routes: Routes,
    ports: Vec<u16>,
    links: Vec<Far>,
    stream: Option<Stream>,
    /// Of the threads that have ended, and of the present one when last asked.
    totals: Option<StreamStatus>,
}

impl Paths {
    /// The TUN path, for which `routes` are set up.
    pub fn new(routes: Routes, config: &RelayConfig) -> Self {
        let links = config.links.iter().map(|link| Far {
            to: link.to.clone(),
            network: Network::new(link.network, link.prefix_len),
            mirror: Mirror {
                delay_ns: link.conditions.delay_ns,
                ..Mirror::default()
            },
            defect: None,
        });
        Self {
            routes,
            ports: config.ports.clone(),
            links: links.collect(),
            stream: None,
            totals: None,
        }
    }

    /// The way in force.
    pub fn path(&self) -> Path {
        self.routes.path()
    }

    /// Scheduling class of the thread of stream mode.
    pub fn scheduling(&self) -> Option<&'static str> {
        self.stream.as_ref().map(Stream::scheduling)
    }

    /// Whether an order makes sense on the way in force.
    pub fn check(&self, order: &RelayOrder) -> Result<(), PathsError> {
        let is_stream = matches!(self.path(), Path::Stream(_));
        match order {
            RelayOrder::Cut {
                kind: CutKind::Close, ..
            } if !is_stream => Err(PathsError::Close),
            RelayOrder::CutPorts {
                kind: CutKind::Close, ..
            } => Err(PathsError::ClosePorts),
            RelayOrder::CutPorts { to, ports, .. } if self.path() != Path::Tun && !ports.is_empty() => {
                Err(PathsError::Ports(to.clone()))
            }
            RelayOrder::Set { to, conditions, .. } if is_stream && !is_just_delay(conditions) => {
                Err(PathsError::NotJustDelay(to.clone()))
            }
            RelayOrder::Play { to, .. } if is_stream => Err(PathsError::Schedule(to.clone())),
            _ => Ok(()),
        }
    }

    /// TCP ports of the nodes.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Send packets another way from now on; `links` is the state of the links. Returns whether stream mode began.
    pub fn set_path(&mut self, path: Path, links: &[LinkStatus]) -> Result<bool, PathsError> {
        let was_stream = self.stream.is_some();
        for link in links {
            match path {
                Path::Kernel | Path::Stream(_) if link.port_cut().is_some() => {
                    return Err(PathsError::Ports(link.to.clone()));
                }
                Path::Tun | Path::Kernel if link.cut == Some(CutKind::Close) => return Err(PathsError::Close),
                Path::Tun | Path::Kernel => {}
                Path::Stream(_) if !is_just_delay(&link.conditions) => {
                    return Err(PathsError::NotJustDelay(link.to.clone()));
                }
                Path::Stream(_) if link.playing_since_ns.is_some() => {
                    return Err(PathsError::Schedule(link.to.clone()));
                }
                Path::Stream(_) => {}
            }
        }
        match (path, &self.stream) {
            (Path::Stream(settings), Some(stream)) => {
                stream.ask(Some(Order::Adopt(settings)))?;
            }
            (Path::Stream(settings), None) => {
                let crossings = self.links.iter().zip(self.directions(links));
                let crossings = crossings.map(|(far, directions)| Crossing {
                    network: far.network,
                    directions,
                });
                let totals = self.totals.unwrap_or_default();
                self.stream = Some(Stream::begin(
                    self.ports.clone(),
                    crossings.collect(),
                    settings,
                    totals,
                )?);
            }
            (Path::Tun | Path::Kernel, _) => self.end_stream()?,
        }
        if let Err(error) = self.routes.set_path(path) {
            // Half the rules of stream mode lead to a thread that must not serve them.
            self.end_stream()?;
            return Err(error.into());
        }
        Ok(!was_stream && self.stream.is_some())
    }

    fn end_stream(&mut self) -> Result<(), PathsError> {
        if let Some(stream) = self.stream.take() {
            self.totals = Some(stream.ask(Some(Order::Leave))?);
        }
        Ok(())
    }

    /// The state of a direction that leads here.
    pub fn set_mirror(&mut self, to: &str, mirror: Mirror) -> Result<(), PathsError> {
        self.far(to)?.mirror = mirror;
        Ok(())
    }

    /// Be wrong on purpose in stream mode too.
    pub fn sabotage(&mut self, to: &str, defect: Option<Defect>) -> Result<(), PathsError> {
        self.far(to)?.defect = defect;
        Ok(())
    }

    fn far(&mut self, to: &str) -> Result<&mut Far, UnknownLink> {
        let known = || {
            self.links
                .iter()
                .map(|far| far.to.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let unknown = UnknownLink {
            to: to.to_owned(),
            known: known(),
        };
        self.links.iter_mut().find(|far| far.to == to).ok_or(unknown)
    }

    /// Let stream mode do as the links do: `links` is their state. What is in flight to `hurried` is due at once.
    pub fn follow(&mut self, links: &[LinkStatus], hurried: Option<&str>) -> Result<(), PathsError> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let order = Order::Follow {
            directions: self.directions(links),
            hurried: hurried.and_then(|to| self.links.iter().position(|far| far.to == to)),
        };
        self.totals = Some(stream.ask(Some(order))?);
        Ok(())
    }

    /// Counters of stream mode, if there ever was one.
    pub fn status(&mut self) -> Result<Option<StreamStatus>, PathsError> {
        if let Some(stream) = &self.stream {
            self.totals = Some(stream.ask(None)?);
        }
        Ok(self.totals)
    }

    /// Both directions of every link.
    fn directions(&self, links: &[LinkStatus]) -> Vec<Directions> {
        let of = |far: &Far| {
            let own = links.iter().find(|link| link.to == far.to);
            Directions {
                out: own.map_or_else(Mirror::default, |own| far.out(own)),
                back: far.mirror,
            }
        };
        self.links.iter().map(of).collect()
    }
}

fn is_just_delay(conditions: &Conditions) -> bool {
    *conditions == Conditions::delay(conditions.delay_ns)
}
