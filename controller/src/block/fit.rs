//! Whether a block has something to say on the links as they are. Said before it begins, from the conditions alone: a block that
//! would be refused in its middle does not apply, and one that would measure what a schedule happens to do does not either.
//! A link that loses, varies or limits is no obstacle to a block that only delays and cuts it; what that makes of its numbers is
//! said by the trust.

use super::{Block, Cast};
use crate::conditions::{Condition, not_in_stream_mode};
use crate::lab::LinkSeen;
use crate::names::DatacenterName;
use crate::plan::{Plan, PlannedLink};
use wire::Conditions;

/// A directed link, as a block would find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFound {
    /// Sending side.
    pub from: DatacenterName,
    /// Receiving side.
    pub to: DatacenterName,
    /// What it does to packets.
    pub conditions: Conditions,
    /// Whether a schedule changes it.
    pub scheduled: bool,
}

impl LinkFound {
    /// Those of a lab that is made from this plan.
    #[must_use]
    pub fn planned(plan: &Plan) -> Vec<Self> {
        plan.links.iter().map(Self::from).collect()
    }

    fn name(&self) -> String {
        format!("{}:{}", self.from, self.to)
    }
}

impl From<&PlannedLink> for LinkFound {
    fn from(link: &PlannedLink) -> Self {
        Self {
            from: link.from.clone(),
            to: link.to.clone(),
            conditions: link.conditions.clone(),
            scheduled: link.schedule.is_some(),
        }
    }
}

impl From<&LinkSeen> for LinkFound {
    fn from(link: &LinkSeen) -> Self {
        Self {
            from: link.from.clone(),
            to: link.to.clone(),
            conditions: link.status.conditions.clone(),
            scheduled: link.status.playing_since_ns.is_some(),
        }
    }
}

impl Block {
    /// Whether it puts the relays into stream mode, all of them.
    fn takes_stream_mode(self) -> bool {
        matches!(self, Self::Nodelay | Self::Serialising | Self::Calibration)
    }

    /// Whether it can be run on these links, all those of the lab.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub fn fits(self, cast: &Cast, links: &[LinkFound]) -> Result<(), String> {
        let everywhere = self.takes_stream_mode();
        let ends = [&cast.home, &cast.away];
        let used = |link: &&LinkFound| everywhere || (ends.contains(&&link.from) && ends.contains(&&link.to));
        for link in links.iter().filter(used) {
            if link.scheduled {
                return Err(format!(
                    "it needs links that only it changes, and a schedule changes {name}; `testbed link stop {name}` ends that of a \
                     lab that is up",
                    name = link.name()
                ));
            }
            let odd = not_in_stream_mode(&link.conditions);
            if let Some(key) = odd.first().filter(|_| everywhere) {
                return Err(format!(
                    "it needs links with a delay and nothing else, since relays that terminate TCP know no other condition, and {} \
                     has `{}={}`",
                    link.name(),
                    key.as_str(),
                    Condition::of(*key, &link.conditions).value()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Loss;

    fn dc(name: &str) -> DatacenterName {
        DatacenterName::new(name).unwrap()
    }

    fn cast() -> Cast {
        let plan = super::super::tests::plan_of(super::super::TWO_DC.text);
        Block::LostWrites.applies(&plan).unwrap()
    }

    fn link(from: &str, to: &str) -> LinkFound {
        LinkFound {
            from: dc(from),
            to: dc(to),
            conditions: Conditions::delay(20_000_000),
            scheduled: false,
        }
    }

    fn lossy(mut link: LinkFound) -> LinkFound {
        link.conditions.loss = Some(Loss {
            ppm: 10_000,
            burst_milli: 1000,
        });
        link
    }

    fn scheduled(mut link: LinkFound) -> LinkFound {
        link.scheduled = true;
        link
    }

    /// Blocks that do not apply, and what the first one says.
    fn refused(links: &[LinkFound]) -> (Vec<u8>, String) {
        let refusals = Block::ALL
            .into_iter()
            .filter_map(|block| Some((block.number(), block.fits(&cast(), links).err()?)));
        let refusals: Vec<_> = refusals.collect();
        let text = refusals.first().map(|(_, text)| text.clone()).unwrap_or_default();
        (refusals.into_iter().map(|(number, _)| number).collect(), text)
    }

    #[test]
    fn plain_links_fit_every_block() {
        assert!(refused(&[link("dc1", "dc2"), link("dc2", "dc1")]).0.is_empty());
    }

    #[test]
    fn what_stream_mode_cannot_have_only_stops_the_blocks_that_take_it_wherever_it_is() {
        let near = refused(&[lossy(link("dc1", "dc2")), link("dc2", "dc1")]);
        assert_eq!(near.0, [11u8, 13, 14]);
        assert!(near.1.contains("dc1:dc2 has `loss=1%`"), "{}", near.1);
        let elsewhere = refused(&[link("dc1", "dc2"), lossy(link("dc2", "dc3"))]);
        assert_eq!(elsewhere.0, [11u8, 13, 14]);
    }

    #[test]
    fn a_schedule_on_a_link_that_it_uses_stops_every_block() {
        let (numbers, text) = refused(&[link("dc1", "dc2"), scheduled(link("dc2", "dc1"))]);
        assert_eq!(numbers.len(), Block::ALL.len());
        assert!(text.contains("link stop dc2:dc1"), "{text}");
        let elsewhere = refused(&[link("dc1", "dc2"), scheduled(link("dc2", "dc3"))]);
        assert_eq!(elsewhere.0, [11u8, 13, 14]);
    }
}
