//! The instrument while a block runs: beacons between the probes through every direction of the link, and looks at the
//! relays. Begun before the first step and ended after the last, whatever becomes of the block.
//!
//! It must not disturb what it watches: a beacon is 48 bytes every 20 ms each way, and a look at a relay is answered
//! beside its data path; for the end of a node the engine is asked once, and answers when it comes. Nothing is judged here,
//! with one exception: without a relay, or without a node of its cast, a block has nothing left to measure.

use super::Scene;
use crate::block::BlockError;
use crate::docker::EngineError;
use crate::history::{Beacon, BeaconTimes, NodeLost, RelayLost, RelaySeen, Watched, What};
use crate::names::{DatacenterName, NodeName};
use crate::probe::{Beaconed, Beaconing, nanoseconds};
use crate::relay::RelayClient;
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wire::{CutKind, Path, PortCut, RelayOrder, RelayStatus};

/// Between two beacons of a direction.
const INTERVAL: Duration = Duration::from_millis(20);
/// Between two looks at a relay.
const LOOK: Duration = Duration::from_millis(500);
/// Limit of ending the beacons.
const END: Duration = Duration::from_secs(10);

/// A watch that goes on.
pub struct Watch {
    beacons: BTreeMap<DatacenterName, Beaconing>,
    looks: Vec<JoinHandle<Looked>>,
    end: watch::Sender<bool>,
    lost: watch::Receiver<Option<(DatacenterName, String)>>,
    /// Each waits for the end of a node.
    ends: Vec<JoinHandle<()>>,
    ended: watch::Receiver<Vec<(NodeName, String)>>,
}

/// What became of the looks at a relay.
struct Looked {
    datacenter: DatacenterName,
    /// The first, the last, and those in between that differ from the one before.
    seen: Vec<(u32, RelayStatus)>,
    lost: Option<String>,
}

impl Watch {
    /// Waits until a relay is lost or a node has ended.
    pub async fn broken(&self) -> BlockError {
        let mut ended = self.ended.clone();
        let first = async {
            let told = ended.wait_for(|ended| !ended.is_empty()).await;
            told.ok().and_then(|ended| ended.first().cloned())
        };
        tokio::select! {
            broken = self.relay_lost() => broken,
            Some((node, cause)) = first => BlockError::NodeEnded { node: node.to_string(), cause },
        }
    }

    async fn relay_lost(&self) -> BlockError {
        let mut lost = self.lost.clone();
        let told = lost.wait_for(Option::is_some).await.map(|told| told.clone());
        match told {
            Ok(Some((datacenter, cause))) => BlockError::RelayLost {
                datacenter: datacenter.to_string(),
                cause,
            },
            // All looks ended well: nothing will break any more.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.looks.iter().for_each(JoinHandle::abort);
        self.ends.iter().for_each(JoinHandle::abort);
    }
}

impl Scene<'_> {
    /// Begins to watch the link.
    pub async fn begin_watch(&mut self) -> Result<Watch, BlockError> {
        let (home, away) = (&self.cast.home, &self.cast.away);
        let mut beacons = BTreeMap::new();
        if self.lab.has_one_clock() {
            for (from, to) in [(home, away), (away, home)] {
                let target = self.lab.datacenter(to).probe_address;
                let sent = self.lab.probe(from).beacons(vec![target], INTERVAL).await?;
                beacons.insert(from.clone(), sent);
            }
        }
        let (end, ended) = watch::channel(false);
        let (tell_lost, lost) = watch::channel(None);
        let looks = [home, away].map(|datacenter| {
            let relay = self.lab.relay(datacenter).clone();
            tokio::spawn(look(datacenter.clone(), relay, ended.clone(), tell_lost.clone()))
        });
        let (tell_ended, ended) = watch::channel(Vec::new());
        let ends = self.cast.nodes().into_iter().map(|node| {
            let ending = {
                let lab = self.lab;
                move || lab.ending(node)
            };
            tokio::spawn(end_of(node.clone(), [ending(), ending(), ending()], tell_ended.clone()))
        });
        Ok(Watch {
            beacons,
            looks: looks.into(),
            end,
            lost,
            ends: ends.collect(),
            ended,
        })
    }

    /// Ends the watch and records what it saw.
    pub async fn end_watch(&mut self, mut watch: Watch) -> Result<(), BlockError> {
        // The tasks may have ended by themselves.
        let _ = watch.end.send(true);
        for look in std::mem::take(&mut watch.looks) {
            if let Ok(looked) = look.await {
                self.looked(looked)?;
            }
        }
        for (node, cause) in watch.ended.borrow().clone() {
            self.write(What::NodeLost(NodeLost {
                block: self.block,
                node: node.to_string(),
                cause,
            }))?;
        }
        self.host_seen("end").await?;
        let stopped = std::mem::take(&mut watch.beacons)
            .into_iter()
            .map(|(from, beacons)| async {
                let beaconed = beacons.stop(END).await?;
                Ok::<_, BlockError>((from, beaconed))
            });
        let beaconed = futures_util::future::try_join_all(stopped).await?;
        self.beaconed(&beaconed.into_iter().collect())
    }

    fn looked(&mut self, looked: Looked) -> Result<(), BlockError> {
        let last = looked.seen.len().saturating_sub(1);
        for (i, (looks, status)) in looked.seen.into_iter().enumerate() {
            let row = match i {
                0 => "start",
                i if i == last && looked.lost.is_none() => "end",
                _ => "changed",
            };
            self.write(What::RelaySeen(Box::new(RelaySeen {
                block: self.block,
                row: row.to_owned(),
                looks,
                status,
            })))?;
        }
        match looked.lost {
            None => Ok(()),
            Some(cause) => self.write(What::RelayLost(RelayLost {
                block: self.block,
                datacenter: looked.datacenter.to_string(),
                cause,
            })),
        }
    }

    fn beaconed(&mut self, beaconed: &BTreeMap<DatacenterName, Beaconed>) -> Result<(), BlockError> {
        let cast = self.cast;
        if beaconed.is_empty() {
            return self.write(What::Unwatched {
                block: self.block,
                reason: "its two ends are on engines with clocks of their own".to_owned(),
            });
        }
        for (from, to) in [(&cast.home, &cast.away), (&cast.away, &cast.home)] {
            let address = |datacenter| self.lab.datacenter(datacenter).probe_address;
            let (sender, receiver) = (&beaconed[from], &beaconed[to]);
            let own = receiver.sent.iter().map(|&(_, _, sent_ns)| sent_ns);
            let watched = Watched {
                block: self.block,
                from: from.to_string(),
                to: to.to_string(),
                interval_ns: nanoseconds(INTERVAL),
                // It listens before it sends its first, and when it sends its last.
                heard_from_ns: own.clone().min().unwrap_or(u64::MAX),
                heard_until_ns: own.max().unwrap_or_default(),
                beacons: matched(sender, address(to), receiver, address(from)),
            };
            self.write(What::Watched(watched))?;
        }
        Ok(())
    }
}

/// Beacons to `to` with their receptions by its probe; of one that came twice the first.
fn matched(sender: &Beaconed, to: Ipv4Addr, receiver: &Beaconed, from: Ipv4Addr) -> Vec<Beacon> {
    let mut received: HashMap<(u64, u64), u64> = HashMap::new();
    for heard in receiver.heard.iter().filter(|heard| heard.from == from) {
        let first = received
            .entry((heard.intended_ns, heard.sent_ns))
            .or_insert(heard.received_ns);
        *first = heard.received_ns.min(*first);
    }
    let sent = sender.sent.iter().filter(|&&(target, ..)| target == to);
    Watched::pack(sent.map(|&(_, intended_ns, sent_ns)| BeaconTimes {
        intended_ns,
        sent_ns,
        received_ns: received.get(&(intended_ns, sent_ns)).copied(),
    }))
}

/// Looks at a relay again and again until it is told to end, or the relay does not answer.
async fn look(
    datacenter: DatacenterName,
    relay: RelayClient,
    mut end: watch::Receiver<bool>,
    lost: watch::Sender<Option<(DatacenterName, String)>>,
) -> Looked {
    let mut looked = Looked {
        datacenter,
        seen: Vec::new(),
        lost: None,
    };
    let mut looks = 0;
    loop {
        let last = *end.borrow_and_update();
        match relay.order(RelayOrder::Show).await {
            Ok(status) => {
                looks += 1;
                let differs = looked.seen.last().is_none_or(|(_, before)| key(before) != key(&status));
                if differs || last {
                    looked.seen.push((looks, status));
                }
            }
            Err(error) => {
                let cause = error.to_string();
                // Nobody may care any more.
                let _ = lost.send(Some((looked.datacenter.clone(), cause.clone())));
                looked.lost = Some(cause);
                return looked;
            }
        }
        if last {
            return looked;
        }
        // Its sender lives as long as the watch, and a watch that is dropped aborts this.
        let _ = tokio::time::timeout(LOOK, end.changed()).await;
    }
}

/// Waits for the end of a node. A question that is lost is asked again, as often as there are `attempts`.
async fn end_of(
    node: NodeName,
    attempts: impl IntoIterator<Item = impl Future<Output = Result<String, EngineError>>>,
    ended: watch::Sender<Vec<(NodeName, String)>>,
) {
    let mut cause = String::new();
    for attempt in attempts {
        match attempt.await {
            Ok(words) => {
                cause = words;
                break;
            }
            Err(error) => cause = format!("whether it runs cannot be seen any more: failed to {error}"),
        }
        tokio::time::sleep(LOOK).await;
    }
    ended.send_modify(|ended| ended.push((node, cause)));
}

/// What of a link makes a look worth keeping.
type LinkKey<'a> = (
    &'a wire::Conditions,
    Option<CutKind>,
    Option<&'a PortCut>,
    bool,
    Option<u64>,
    u64,
);

/// What makes a look worth keeping: everything but what passes all the time.
fn key(status: &RelayStatus) -> (u64, Path, &str, u64, Vec<LinkKey<'_>>) {
    let links = status.links.iter().map(|link| {
        let counters = &link.counters;
        let dropped = counters.dropped_queue
            + counters.dropped_rate
            + counters.dropped_frozen
            + counters.dropped_write
            + counters.overloaded_tenths;
        (
            &link.conditions,
            link.cut,
            link.port_cut(),
            link.frozen,
            link.playing_since_ns,
            dropped,
        )
    });
    (
        status.since_ns,
        status.path,
        &status.scheduling,
        status.dropped_unread,
        links.collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beacons_meet_their_receptions_and_strangers_are_left_out() {
        let [here, there, elsewhere] = [1, 2, 3].map(|last| Ipv4Addr::new(198, 18, 0, last));
        let heard = |from, intended_ns, received_ns| wire::Beacon {
            from,
            intended_ns,
            sent_ns: intended_ns + 1,
            received_ns,
        };
        let sender = Beaconed {
            sent: vec![(there, 10, 11), (elsewhere, 10, 12), (there, 30, 31)],
            heard: Vec::new(),
        };
        let receiver = Beaconed {
            sent: Vec::new(),
            heard: vec![heard(elsewhere, 30, 99), heard(here, 10, 50), heard(here, 10, 45)],
        };
        let beacons = matched(&sender, there, &receiver, here);
        assert_eq!(beacons, [Beacon(10, 1, Some(34)), Beacon(20, 1, None)]);
    }
}
