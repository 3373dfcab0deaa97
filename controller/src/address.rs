//! Subnets and addresses of a lab, out of 198.18.0.0/15 (the benchmark range, RFC 2544), from a hash of the lab's
//! name, avoiding what is taken. Pure: what is taken is an argument.
//!
//! A lab takes one aligned block (a /22 unless it is large): the WAN first, then its datacenters in the order of the
//! file, a /26 or larger each. In a datacenter .1 is the default route, .2 the relay, .3 the probe, .10 and up are the
//! nodes in the order of the file, and the last usable address is the host's where it has one. On the WAN .1 belongs
//! to nobody, and the relays have .2 and up in the order of the file.

use crate::names::LabName;
use ipnet::Ipv4Net;
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::Ipv4Addr;

/// Where subnets are taken from: 198.18.0.0/15.
pub const POOL: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15);

/// Addresses of the smallest subnet, and of the smallest block of a lab.
const SMALLEST_SUBNET: u32 = 64;
const SMALLEST_BLOCK: u32 = 1024;
/// First node of a datacenter.
const FIRST_NODE: u32 = 10;

/// What a datacenter needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The subnet that the topology insists on.
    pub subnet: Option<Ipv4Net>,
    /// Number of its nodes.
    pub nodes: usize,
}

/// What of [`POOL`] may be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pool {
    /// Its parts (empty: all of it).
    parts: Vec<Ipv4Net>,
}

impl Pool {
    /// These parts.
    ///
    /// # Errors
    /// One does not lie in [`POOL`], or has no room for a lab.
    pub fn of(parts: &[Ipv4Net]) -> Result<Self, AddressError> {
        let parts: Vec<Ipv4Net> = parts.iter().map(Ipv4Net::trunc).collect();
        let wrong = |part: &&Ipv4Net| !POOL.contains(*part) || size_of(**part) < SMALLEST_BLOCK;
        match parts.iter().find(wrong) {
            Some(&part) => Err(AddressError::NotInPool { part }),
            None => Ok(Self { parts }),
        }
    }

    /// Everything that may not be used.
    #[must_use]
    pub fn outside(&self) -> Vec<Ipv4Net> {
        let mut outside = Vec::new();
        if !self.parts.is_empty() {
            without(POOL, &self.parts, &mut outside);
        }
        outside
    }

    /// How many of its blocks there are, each enough for a lab that is not large, and how many these subnets leave free.
    #[must_use]
    pub fn blocks(&self, taken: &[Ipv4Net]) -> (usize, usize) {
        let outside = self.outside();
        let prefix = net(0, SMALLEST_BLOCK).prefix_len();
        let blocks = POOL.subnets(prefix).expect("a block is smaller than the pool");
        let free_of = |block: &Ipv4Net, nets: &[Ipv4Net]| !nets.iter().any(|&other| overlap(*block, other));
        let inside: Vec<Ipv4Net> = blocks.filter(|block| free_of(block, &outside)).collect();
        (
            inside.len(),
            inside.iter().filter(|block| free_of(block, taken)).count(),
        )
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts.as_slice() {
            [] => POOL.fmt(f),
            parts => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                f.write_str(&parts.join(", "))
            }
        }
    }
}

/// What is left of a subnet without some others.
fn without(subnet: Ipv4Net, others: &[Ipv4Net], left: &mut Vec<Ipv4Net>) {
    if others.iter().any(|other| other.contains(&subnet)) {
        return;
    }
    if !others.iter().any(|&other| overlap(subnet, other)) {
        left.push(subnet);
        return;
    }
    let halves = subnet.subnets(subnet.prefix_len() + 1);
    for half in halves.expect("what overlaps and does not contain it is smaller") {
        without(half, others, left);
    }
}

/// Subnets of a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Between the relays.
    pub wan: Ipv4Net,
    /// In the order in which they were wanted.
    pub datacenters: Vec<Ipv4Net>,
}

/// Why a lab gets no addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No free block is left.
    #[error("find {addresses} free addresses in a row for lab `{lab}` in {POOL}")]
    Exhausted {
        /// The lab.
        lab: LabName,
        /// How many were looked for.
        addresses: u32,
    },
    /// A part of the pool that is none.
    #[error("take addresses from {part}: it is no part of {POOL} with room for a lab")]
    NotInPool {
        /// The part.
        part: Ipv4Net,
    },
    /// A subnet that the topology insists on is in use.
    #[error("use subnet {subnet}: {by} is in use on this engine")]
    Taken {
        /// What the topology wants.
        subnet: Ipv4Net,
        /// What is there.
        by: Ipv4Net,
    },
    /// A block that the user insists on is too small.
    #[error("fit the lab into {block}: its networks need {addresses} addresses in a row")]
    Narrow {
        /// What the user wants.
        block: Ipv4Net,
        /// What is needed.
        addresses: u32,
    },
    /// A subnet that the topology insists on is too small.
    #[error("use subnet {subnet}: it has no room for {nodes} nodes")]
    TooSmall {
        /// What the topology wants.
        subnet: Ipv4Net,
        /// Nodes that should fit.
        nodes: usize,
    },
}

impl AddressError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Exhausted { .. } => "bring down labs that are not needed: testbed down --all",
            Self::NotInPool { .. } => "a lab takes 1024 addresses: --pool 198.18.0.0/22, or a shorter prefix",
            Self::Taken { .. } => "leave `subnet` out of the topology to have a free one chosen",
            Self::Narrow { .. } => "take a shorter prefix",
            Self::TooSmall { .. } => "take a shorter prefix, or leave `subnet` out of the topology",
        }
    }
}

/// The lab's subnets: the same ones every time, unless something is in the way.
///
/// # Errors
/// Nothing is free, or what the topology insists on is not.
pub fn layout(lab: &LabName, wanted: &[Wanted], taken: &[Ipv4Net]) -> Result<Layout, AddressError> {
    for want in wanted {
        let Some(subnet) = want.subnet else { continue };
        if size_of(subnet) < room(want.nodes) {
            return Err(AddressError::TooSmall {
                subnet,
                nodes: want.nodes,
            });
        }
        if let Some(&by) = taken.iter().find(|&&other| overlap(subnet, other)) {
            return Err(AddressError::Taken { subnet, by });
        }
    }
    let (offsets, block) = offsets(wanted);
    let too_many = || AddressError::Exhausted {
        lab: lab.clone(),
        addresses: block,
    };
    let slots = size_of(POOL) / block;
    if slots == 0 {
        return Err(too_many());
    }
    let base_of = |slot: u32| u32::from(POOL.network()) + slot * block;
    let is_free = |slot: &u32| {
        let here = net(base_of(*slot), block);
        let insisted = wanted.iter().filter_map(|want| want.subnet);
        !taken.iter().copied().chain(insisted).any(|other| overlap(here, other))
    };
    let home = hash(lab) % slots;
    // Not the next one past what is in the way: labs that are raised at once would all meet there.
    let slot = if is_free(&home) {
        home
    } else {
        let free: Vec<u32> = (0..slots).filter(is_free).collect();
        let number = u32::try_from(free.len()).unwrap_or(u32::MAX);
        let chosen = hash(lab).checked_rem(number).and_then(|index| free.get(index as usize));
        *chosen.ok_or_else(too_many)?
    };
    let base = base_of(slot);
    let wan = net(base, offsets[0].1);
    let datacenters = wanted
        .iter()
        .zip(&offsets[1..])
        .map(|(want, &(offset, size))| want.subnet.unwrap_or_else(|| net(base + offset, size)))
        .collect();
    Ok(Layout { wan, datacenters })
}

/// The same in a block that the user insists on: nothing is looked for, and nothing moves.
///
/// # Errors
/// It is too small.
pub fn layout_in(block: Ipv4Net, wanted: &[Wanted]) -> Result<Layout, AddressError> {
    let (offsets, _) = offsets(wanted);
    let end = offsets.iter().map(|(offset, size)| offset + size).max();
    let addresses = end.unwrap_or_default().next_power_of_two();
    if size_of(block) < addresses {
        return Err(AddressError::Narrow { block, addresses });
    }
    let base = u32::from(block.network());
    let subnet = |&(offset, size): &(u32, u32)| net(base + offset, size);
    let own = wanted.iter().zip(&offsets[1..]);
    Ok(Layout {
        wan: subnet(&offsets[0]),
        datacenters: own
            .map(|(want, place)| want.subnet.unwrap_or_else(|| subnet(place)))
            .collect(),
    })
}

/// The subnets that a lab has already, if what is wanted now still fits into them.
#[must_use]
pub fn kept(wanted: &[Wanted], wan: Ipv4Net, datacenters: Vec<Ipv4Net>) -> Option<Layout> {
    let fits = wanted.iter().zip(&datacenters).all(|(want, &subnet)| {
        want.subnet.is_none_or(|insisted| insisted == subnet) && room(want.nodes) <= size_of(subnet)
    });
    let wan_fits = wan_room(wanted.len()) <= size_of(wan) && wanted.len() == datacenters.len();
    (fits && wan_fits).then_some(Layout { wan, datacenters })
}

/// Default route of a datacenter's containers; the relay answers to it.
#[must_use]
pub fn gateway(subnet: Ipv4Net) -> Ipv4Addr {
    at(subnet, 1)
}

/// The relay's own address in its datacenter.
#[must_use]
pub fn relay(subnet: Ipv4Net) -> Ipv4Addr {
    at(subnet, 2)
}

/// The probe of a datacenter.
#[must_use]
pub fn probe(subnet: Ipv4Net) -> Ipv4Addr {
    at(subnet, 3)
}

/// The n-th node of a datacenter, from 0.
#[must_use]
pub fn node(subnet: Ipv4Net, index: usize) -> Ipv4Addr {
    at(subnet, FIRST_NODE + count(index))
}

/// The host's address in a datacenter that publishes a port.
#[must_use]
pub fn host(subnet: Ipv4Net) -> Ipv4Addr {
    at(subnet, size_of(subnet) - 2)
}

/// The n-th datacenter's relay on the WAN, from 0.
#[must_use]
pub fn wan_relay(wan: Ipv4Net, index: usize) -> Ipv4Addr {
    at(wan, 2 + count(index))
}

/// Offset and size of the WAN and of each datacenter in the lab's block, and the block's size. A datacenter with a
/// subnet of its own takes no room.
fn offsets(wanted: &[Wanted]) -> (Vec<(u32, u32)>, u32) {
    let wan = wan_room(wanted.len());
    let mut offsets = vec![(0, wan)];
    let mut end = wan;
    for want in wanted {
        if want.subnet.is_some() {
            offsets.push((0, 0));
            continue;
        }
        let size = room(want.nodes);
        let offset = end.next_multiple_of(size);
        offsets.push((offset, size));
        end = offset + size;
    }
    (offsets, end.next_power_of_two().max(SMALLEST_BLOCK))
}

/// Addresses of a WAN with so many relays.
fn wan_room(datacenters: usize) -> u32 {
    (count(datacenters) + 4).next_power_of_two().max(SMALLEST_SUBNET)
}

/// Addresses of a subnet with so many nodes: the fixed ones before them, the host's and the broadcast after.
fn room(nodes: usize) -> u32 {
    (FIRST_NODE + count(nodes) + 2).next_power_of_two().max(SMALLEST_SUBNET)
}

fn count(number: usize) -> u32 {
    // The planner is told of hundreds at most; a number beyond the pool only has to stay beyond it.
    u32::try_from(number).map_or(1 << 20, |number| number.min(1 << 20))
}

fn size_of(net: Ipv4Net) -> u32 {
    1u32.checked_shl(32 - u32::from(net.prefix_len())).unwrap_or(u32::MAX)
}

fn net(base: u32, size: u32) -> Ipv4Net {
    let prefix = u8::try_from(size.leading_zeros() + 1).expect("at most 33");
    Ipv4Net::new(Ipv4Addr::from(base), prefix.min(32)).expect("at most 32")
}

fn at(subnet: Ipv4Net, offset: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(subnet.network()).saturating_add(offset))
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other.network()) || other.contains(&one.network())
}

fn hash(lab: &LabName) -> u32 {
    let digest = Sha256::digest(lab.as_str().as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(name: &str) -> LabName {
        LabName::new(name).expect("a legal name")
    }

    fn two(nodes: usize) -> [Wanted; 2] {
        [Wanted { subnet: None, nodes }; 2]
    }

    #[test]
    fn a_lab_keeps_its_subnets_and_all_lie_in_the_pool() {
        let first = layout(&lab("two-dc"), &two(3), &[]).expect("an empty engine has room");
        assert_eq!(Ok(first.clone()), layout(&lab("two-dc"), &two(3), &[]));
        let mut all = vec![first.wan];
        all.extend(&first.datacenters);
        for (index, net) in all.iter().enumerate() {
            assert!(POOL.contains(net), "{net}");
            assert_eq!(net.prefix_len(), 26);
            assert!(!all[..index].iter().any(|other| overlap(*net, *other)), "{all:?}");
        }
    }

    #[test]
    fn a_second_lab_moves_on_past_the_first() {
        let first = layout(&lab("a"), &two(3), &[]).expect("room");
        let moved = layout(&lab("a"), &two(3), &first.datacenters).expect("room");
        let block = |net: Ipv4Net| u32::from(net.network()) / SMALLEST_BLOCK;
        assert_ne!(block(moved.wan), block(first.wan));
        assert_eq!(Ok(moved), layout(&lab("a"), &two(3), &first.datacenters));
    }

    #[test]
    fn a_lab_takes_any_free_block_and_without_one_gives_up() {
        let half = |second: u8| Ipv4Net::new_assert(Ipv4Addr::new(198, second, 0, 0), 16);
        for name in ["a", "b", "c", "d"] {
            let upper = layout(&lab(name), &two(3), &[half(18)]).expect("the upper half is free");
            assert!(half(19).contains(&upper.wan));
            let lower = layout(&lab(name), &two(3), &[half(19)]).expect("the lower half is free");
            assert!(half(18).contains(&lower.wan));
            assert!(matches!(
                layout(&lab(name), &two(3), &[POOL]),
                Err(AddressError::Exhausted { addresses: 1024, .. })
            ));
        }
    }

    #[test]
    fn a_pool_of_ten_blocks_holds_ten_labs_and_no_eleventh() {
        let part = |third: u8, prefix: u8| Ipv4Net::new_assert(Ipv4Addr::new(198, 18, third, 0), prefix);
        let pool = Pool::of(&[part(0, 19), part(32, 21)]).expect("two parts");
        let mut taken = pool.outside();
        assert_eq!(pool.blocks(&[]), (10, 10));
        for number in 1..=10 {
            let next = layout(&lab(&format!("l{number}")), &two(3), &taken).expect("room");
            taken.push(next.wan);
            taken.extend(next.datacenters);
            assert_eq!(pool.blocks(&taken), (10, 10 - number));
        }
        assert!(layout(&lab("l11"), &two(3), &taken).is_err());
        assert_eq!(pool.to_string(), "198.18.0.0/19, 198.18.32.0/21");
    }

    #[test]
    fn a_part_of_the_pool_lies_in_it_and_has_room() {
        for wrong in ["10.0.0.0/16", "198.18.0.0/23", "198.0.0.0/8"] {
            let part = wrong.parse().expect("a subnet");
            assert_eq!(Pool::of(&[part]), Err(AddressError::NotInPool { part }));
        }
        assert_eq!(Pool::default().outside(), []);
        assert_eq!(Pool::default().blocks(&[]), (128, 128));
    }

    #[test]
    fn a_large_lab_gets_larger_subnets() {
        let wanted = [
            Wanted {
                subnet: None,
                nodes: 52,
            },
            Wanted {
                subnet: None,
                nodes: 53,
            },
            Wanted {
                subnet: None,
                nodes: 500,
            },
        ];
        let layout = layout(&lab("large"), &wanted, &[]).expect("room");
        let prefixes: Vec<u8> = layout.datacenters.iter().map(Ipv4Net::prefix_len).collect();
        assert_eq!(prefixes, [26, 25, 23]);
        for net in &layout.datacenters {
            assert_eq!(net.addr(), net.network(), "{net} is aligned");
        }
        let last = node(layout.datacenters[0], 51);
        assert!(last < host(layout.datacenters[0]));
    }

    #[test]
    fn what_the_topology_insists_on_is_used_or_refused() {
        let own = Ipv4Net::new_assert(Ipv4Addr::new(10, 7, 0, 0), 24);
        let mut wanted = two(3);
        wanted[1].subnet = Some(own);
        let layout_of = |taken: &[Ipv4Net]| layout(&lab("own"), &wanted, taken);
        assert_eq!(layout_of(&[]).expect("room").datacenters[1], own);
        let by = Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8);
        assert_eq!(layout_of(&[by]), Err(AddressError::Taken { subnet: own, by }));
        wanted[1].nodes = 250;
        assert!(matches!(
            layout(&lab("own"), &wanted, &[]),
            Err(AddressError::TooSmall { .. })
        ));
    }

    #[test]
    fn a_subnet_of_the_pool_that_the_topology_insists_on_is_avoided_by_the_rest() {
        let free = layout(&lab("own"), &two(3), &[]).expect("room");
        let mut wanted = two(3);
        wanted[0].subnet = Some(free.wan);
        let moved = layout(&lab("own"), &wanted, &[]).expect("room");
        assert!(!overlap(moved.wan, free.wan) && !overlap(moved.datacenters[1], free.wan));
    }
}
