//! Keys of the blocks that part a cluster: for each range of slots a few hash tags that lie in it, and the names made with
//! them.

use crate::block::Member;
use crate::cluster::{Slots, slot_of};
use crate::names::{DatacenterName, NodeName};

/// Prefix of every key of these blocks.
pub const PREFIX: &str = "testbed:half:";
/// Tags of a range, each in another part of it: nothing is concluded from one slot.
const TAGS: u16 = 4;

/// The slots of a master, and tags in them.
#[derive(Debug, Clone)]
pub struct Range {
    /// Its slots.
    pub slots: Slots,
    /// The master.
    pub master: NodeName,
    /// Hash tags.
    pub tags: Vec<String>,
}

/// One range per master.
pub fn ranges(members: &[Member]) -> Vec<Range> {
    let masters = members.iter().filter(|member| member.is_master());
    masters
        .map(|member| Range {
            slots: member.slots.clone(),
            master: member.part.node.clone(),
            tags: tags(&member.slots),
        })
        .collect()
}

/// Numbers whose slots lie in these, spread over them.
fn tags(slots: &Slots) -> Vec<String> {
    let all: Vec<u16> = slots.ranges().iter().flat_map(|&(first, last)| first..=last).collect();
    let part = all.len().div_ceil(usize::from(TAGS)).max(1);
    let found = all.chunks(part).filter_map(|some| {
        let mut numbers = (0_u32..).map(|number| number.to_string());
        numbers.find(|number| some.contains(&slot_of(number.as_bytes())))
    });
    found.collect()
}

/// Nodes in a datacenter, in the order in which its probe numbers them.
pub fn nodes_of<'m>(members: &'m [Member], datacenter: &DatacenterName) -> impl Iterator<Item = &'m Member> {
    let datacenter = datacenter.clone();
    members
        .iter()
        .filter(move |member| member.part.datacenter == datacenter)
}

/// Prefix of the keys of one half in one row: no two rows or halves share a key.
pub fn prefix(row: &str, datacenter: &DatacenterName) -> String {
    let row: String = row
        .split([' ', ','])
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    format!("{PREFIX}{row}:{datacenter}:")
}

/// The key that is read.
pub fn read(prefix: &str, tag: &str) -> String {
    format!("{prefix}read{{{tag}}}")
}

/// The key of a write, as the probe makes it.
pub fn written(prefix: &str, node: usize, range: usize, number: u32, tags: &[String]) -> String {
    let tag = &tags[number as usize % tags.len()];
    format!("{prefix}{node}-{range}-{number}{{{tag}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_lie_in_their_range_and_are_spread_over_it() {
        let slots = Slots::parse("5461-10922").unwrap();
        let found: Vec<u16> = tags(&slots).iter().map(|tag| slot_of(tag.as_bytes())).collect();
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|&slot| slots.contains(slot)));
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
        let key = written("p:", 1, 2, 6, &tags(&slots));
        assert_eq!(slot_of(key.as_bytes()), found[2], "{key}");
        let one = tags(&Slots::parse("7").unwrap());
        assert_eq!((one.len(), slot_of(one[0].as_bytes())), (1, 7));
    }

    #[test]
    fn rows_and_halves_share_no_key() {
        let [dc1, dc2] = ["dc1", "dc2"].map(|name| DatacenterName::new(name).unwrap());
        assert_eq!(
            prefix("cut, partial coverage", &dc1),
            "testbed:half:cut-partial-coverage:dc1:"
        );
        assert_ne!(prefix("cut", &dc1), prefix("cut", &dc2));
    }
}
