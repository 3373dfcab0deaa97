//! The cluster that a block cuts in halves: its members, where they stand, which slots they serve and which of the layouts
//! of the record it has. Said of the plan; what has become of it is asked of the lab.

use super::{Cast, Part, linked_both_ways};
use crate::cluster::Slots;
use crate::names::{ClusterName, DatacenterName, NodeName};
use crate::plan::{Plan, PlannedNode};

/// How masters and replicas are spread over the two halves. The half with most masters has the votes; whether it covers
/// all slots once the other one is gone is decided by the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All masters in one half, all replicas in the other.
    A,
    /// Masters in both; one of the smaller half has no replica in the larger one.
    B,
    /// Masters in both; every one of the smaller half has a replica in the larger one.
    C,
}

impl Layout {
    /// For people: `layout B`, with what makes it one.
    #[must_use]
    pub fn shown(self) -> &'static str {
        match self {
            Self::A => "layout A (all masters in one datacenter, all replicas in the other)",
            Self::B => "layout B (a master of the smaller half has no replica in the larger one)",
            Self::C => "layout C (every master of the smaller half has a replica in the larger one)",
        }
    }
}

/// See the top of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterCast {
    /// Its name.
    pub name: ClusterName,
    /// Its layout.
    pub layout: Layout,
    /// Its nodes, in the order of the topology.
    pub members: Vec<Member>,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Who it is.
    pub part: Part,
    /// Slots of a master; a replica has none.
    pub slots: Slots,
    /// The master that it copies (`None`: it is one).
    pub master: Option<NodeName>,
}

impl Member {
    /// Whether it is a master at the start.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.master.is_none()
    }
}

impl ClusterCast {
    /// Masters at the start.
    pub fn masters(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_master())
    }

    /// Replicas at the start.
    pub fn replicas(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.is_master())
    }

    /// Nodes in a datacenter.
    pub fn half<'c>(&'c self, datacenter: &'c DatacenterName) -> impl Iterator<Item = &'c Member> {
        self.members
            .iter()
            .filter(move |member| member.part.datacenter == *datacenter)
    }

    /// Replicas of a master at the start.
    pub fn replicas_of<'c>(&'c self, master: &'c NodeName) -> impl Iterator<Item = &'c Member> {
        self.members
            .iter()
            .filter(move |member| member.master.as_ref() == Some(master))
    }

    /// The master of a slot at the start.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub fn master_of(&self, slot: u16) -> &Member {
        let owner = self.members.iter().find(|member| member.slots.contains(slot));
        owner.expect("every slot of a planned cluster has a master")
    }
}

impl Cast {
    /// Casts a block that cuts a cluster in halves. `home` is the datacenter with most of its masters, `away` the other
    /// one; `primary` is the first master at home, `far` the first node that is away, `others` are all other members.
    ///
    /// # Errors
    /// What the plan lacks: the reason of the first cluster that does not fit.
    pub fn halves(plan: &Plan, wanted: Option<Layout>) -> Result<Self, String> {
        let mut lack = "it needs a cluster over two datacenters".to_owned();
        let clusters = plan.clusters().into_iter();
        for (number, cluster) in clusters.enumerate() {
            match Self::half_of(plan, cluster, wanted) {
                Ok(cast) => return Ok(cast),
                Err(reason) if number == 0 => lack = reason,
                Err(_) => {}
            }
        }
        Err(lack)
    }

    fn half_of(plan: &Plan, name: &ClusterName, wanted: Option<Layout>) -> Result<Self, String> {
        let nodes: Vec<&PlannedNode> = plan.members(name).collect();
        let mut datacenters: Vec<&DatacenterName> = nodes.iter().map(|node| &node.datacenter).collect();
        datacenters.sort_by_key(|name| {
            let mut order = plan.datacenters.iter();
            order.position(|datacenter| datacenter.name == **name)
        });
        datacenters.dedup();
        let [one, other] = datacenters[..] else {
            let count = datacenters.len();
            return Err(format!("it needs cluster `{name}` in two datacenters, not {count}"));
        };
        if !linked_both_ways(plan, one, other) {
            return Err(format!("it needs a link between {one} and {other} both ways"));
        }
        let members: Vec<Member> = nodes.iter().map(|node| member(node)).collect();
        let masters = |datacenter: &DatacenterName| {
            let here = members.iter().filter(|member| member.part.datacenter == *datacenter);
            here.filter(|member| member.is_master()).count()
        };
        let (home, away) = match masters(one).cmp(&masters(other)) {
            std::cmp::Ordering::Greater => (one, other),
            std::cmp::Ordering::Less => (other, one),
            std::cmp::Ordering::Equal => {
                return Err(format!(
                    "it needs most masters of cluster `{name}` in one datacenter; {one} and {other} have as many"
                ));
            }
        };
        let layout = layout(&members, home, away)?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != layout) {
            let (wanted, has) = (wanted.shown(), layout.shown());
            return Err(format!("it needs {wanted}; cluster `{name}` has {has}"));
        }
        let here = |datacenter: &DatacenterName, master: bool| {
            let mut members = members.iter();
            members.find(|member| member.part.datacenter == *datacenter && (member.is_master() || !master))
        };
        let primary = here(home, true).expect("home has most masters").part.clone();
        let far = here(away, false).expect("the cluster stands in both").part.clone();
        let others = members.iter().map(|member| &member.part);
        let others = others.filter(|part| **part != primary && **part != far).cloned();
        Ok(Self {
            home: home.clone(),
            away: away.clone(),
            others: others.collect(),
            primary,
            near: None,
            far,
            database: None,
            cluster: Some(ClusterCast {
                name: name.clone(),
                layout,
                members,
            }),
        })
    }
}

fn member(node: &PlannedNode) -> Member {
    Member {
        part: Part::of(node),
        slots: node.slots(),
        master: node.upstream().cloned(),
    }
}

fn layout(members: &[Member], home: &DatacenterName, away: &DatacenterName) -> Result<Layout, String> {
    let far_masters: Vec<&Member> = members
        .iter()
        .filter(|member| member.is_master() && member.part.datacenter == *away)
        .collect();
    if far_masters.is_empty() {
        let at_home = members
            .iter()
            .find(|member| !member.is_master() && member.part.datacenter == *home);
        return match at_home {
            None => Ok(Layout::A),
            Some(replica) => Err(format!(
                "all masters are in {home}, but so is replica `{}`: that is none of layouts A, B and C",
                replica.part.node
            )),
        };
    }
    let covered = |master: &&Member| {
        let mut replicas = members
            .iter()
            .filter(|member| member.master.as_ref() == Some(&master.part.node));
        replicas.any(|replica| replica.part.datacenter == *home)
    };
    Ok(if far_masters.iter().all(covered) {
        Layout::C
    } else {
        Layout::B
    })
}
