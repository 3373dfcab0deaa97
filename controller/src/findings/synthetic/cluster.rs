//! Made-up partings of a cluster of six in the record's layouts: what the probes of both halves would have recorded. What nodes
//! answer is written down here from the servers' own rules, range by range, and not taken from what judges it.

use super::Story;
use crate::history::{BlockNumber, ClusterPlaced, HalfWatched, Kept, NodePlaced, Parting, RangePlaced, What};
use wire::{Access, Answers, HalfSeen, LookRun, NodeLooks, NodeState, Outcome, OutcomeRun, Passing, PeerState};

const S: u64 = 1_000_000_000;
/// When the halves are parted and meet, seconds.
const PARTED: u64 = 10;
const JOINED: u64 = 22;
/// When nodes have noticed, and when all is well again.
const NOTICED: u64 = 13;
const WELL: u64 = 23;
const END: u64 = 25;

const SLOTS: [&str; 3] = ["0-5460", "5461-10922", "10923-16383"];

/// Placement of layout B.
pub fn cluster_b(block: BlockNumber, row: &str) -> ClusterPlaced {
    placed(block, row, 'B')
}

fn placed(block: BlockNumber, row: &str, layout: char) -> ClusterPlaced {
    let away: &[usize] = match layout {
        'A' => &[4, 5, 6],
        'B' => &[3, 5, 6],
        _ => &[3, 4, 5],
    };
    let nodes = (1..=6).map(|i| {
        let (datacenter, subnet) = if away.contains(&i) { ("dc2", 2) } else { ("dc1", 0) };
        NodePlaced {
            node: format!("node-{i}"),
            datacenter: datacenter.to_owned(),
            address: format!("198.18.{subnet}.{i}:6379"),
            slots: SLOTS.get(i - 1).unwrap_or(&"").to_string(),
            of: (i > 3).then(|| format!("node-{}", i - 3)),
        }
    });
    let ranges = SLOTS.iter().zip(1..).map(|(slots, i)| RangePlaced {
        slots: slots.to_string(),
        master: format!("node-{i}"),
        tags: vec!["t".to_owned()],
    });
    let settings = [
        ("cluster-replica-validity-factor", "10"),
        ("repl-ping-replica-period", "10"),
    ];
    ClusterPlaced {
        block,
        row: row.to_owned(),
        parting: Parting::Cut,
        home: "dc1".to_owned(),
        away: "dc2".to_owned(),
        nodes: nodes.collect(),
        ranges: ranges.collect(),
        node_timeout_ms: 2000,
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    }
}

/// A parting under way.
#[derive(Clone)]
pub struct Play {
    placed: ClusterPlaced,
    /// Who serves each range in dc1 once settled (`None`: it is down); redirects go there.
    home: Option<[usize; 3]>,
    away: Option<[usize; 3]>,
    /// Node that is promoted.
    promoted: Option<usize>,
    /// Who serves each range in the end.
    last: [usize; 3],
    /// Acknowledged writes that are lost: node, range, numbers from.
    lost: Option<(usize, u32, u32)>,
    /// Whether the bus goes on across the cut.
    bus_left: bool,
    /// Whether a half that is stopped answers all the same.
    answering: bool,
    /// For how long every replica has heard nothing from its master, seconds.
    age_s: i64,
}

impl Play {
    /// As the record has it.
    pub fn record(block: BlockNumber, row: &str, layout: char) -> Self {
        let own = [1, 2, 3];
        let promotes = layout == 'C';
        let served = if promotes { [1, 2, 6] } else { own };
        Self {
            placed: placed(block, row, layout),
            home: (layout != 'B').then_some(served),
            away: None,
            promoted: promotes.then_some(6),
            last: served,
            // 10 writes a second to node-3; those after the cut are lost.
            lost: promotes.then_some((3, 2, 99)),
            bus_left: false,
            answering: false,
            age_s: 2,
        }
    }

    pub fn home(mut self, served: Option<[usize; 3]>) -> Self {
        self.home = served;
        self
    }

    pub fn away(mut self, served: Option<[usize; 3]>) -> Self {
        self.away = served;
        self
    }

    pub fn promoted(mut self, node: Option<usize>) -> Self {
        self.promoted = node;
        self
    }

    pub fn lost(mut self, lost: Option<(usize, u32, u32)>) -> Self {
        self.lost = lost;
        self
    }

    pub fn bus_left(mut self) -> Self {
        self.bus_left = true;
        self
    }

    pub fn answering(mut self) -> Self {
        self.answering = true;
        self
    }

    /// Replicas have heard nothing for so long, and may have for 3 s beyond the node timeout of 2 s.
    pub fn stale(mut self, age_s: i64) -> Self {
        self.age_s = age_s;
        self.placed.settings = [
            ("cluster-replica-validity-factor", "1"),
            ("repl-ping-replica-period", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        self
    }

    pub fn last(mut self, last: [usize; 3]) -> Self {
        self.last = last;
        self
    }

    pub fn stopped(mut self, parting: Parting) -> Self {
        self.placed.parting = parting;
        self
    }

    /// Adds it to a story.
    pub fn tell(self, story: Story) -> Story {
        let row = self.placed.row.clone();
        let mut story = story
            .fact(&row, "parted_at_ns", i64::try_from(PARTED * S).unwrap())
            .fact(&row, "joined_at_ns", i64::try_from(JOINED * S).unwrap());
        let placed = Box::new(self.placed.clone());
        story = story.event(What::ClusterPlaced(placed));
        for datacenter in ["dc1", "dc2"] {
            let half = self.half(datacenter);
            for answers in half.seen.answers.iter().filter(|all| all.access == Access::Write) {
                story = story.event(What::Kept(Box::new(self.kept(datacenter, answers))));
            }
            story = story.event(What::HalfWatched(Box::new(half)));
        }
        story
    }

    fn node(&self, i: usize) -> &NodePlaced {
        &self.placed.nodes[i - 1]
    }

    fn half(&self, datacenter: &str) -> HalfWatched {
        let nodes: Vec<usize> = (1..=6).filter(|&i| self.node(i).datacenter == datacenter).collect();
        let mut answers = Vec::new();
        for &i in &nodes {
            for range in 0..3 {
                for access in [Access::Read, Access::Write] {
                    answers.push(self.answers(datacenter, i, range, access));
                }
            }
        }
        HalfWatched {
            block: self.placed.block,
            row: self.placed.row.clone(),
            datacenter: datacenter.to_owned(),
            seen: HalfSeen {
                from_ns: 0,
                to_ns: END * S,
                answers,
                nodes: nodes.iter().map(|&i| self.looks(datacenter, i)).collect(),
            },
        }
    }

    /// Whether a datacenter is one whose nodes say nothing while the halves are parted.
    fn silent(&self, datacenter: &str) -> bool {
        self.placed.stopped() == Some(datacenter) && !self.answering
    }

    /// What a node answers if these serve (`None`: the cluster is down).
    fn outcome(&self, i: usize, range: usize, served: Option<[usize; 3]>) -> Outcome {
        match served {
            None => Outcome::Refused("CLUSTERDOWN The cluster is down".to_owned()),
            Some(served) if served[range] == i => Outcome::Served,
            Some(served) => Outcome::Moved(self.node(served[range]).address.clone()),
        }
    }

    fn answers(&self, datacenter: &str, i: usize, range: usize, access: Access) -> Answers {
        let settled = if datacenter == "dc1" { self.home } else { self.away };
        let times = [
            (0, NOTICED, Some([1, 2, 3])),
            (NOTICED, WELL, settled),
            (WELL, END, Some(self.last)),
        ];
        let runs = times.map(|(from, to, served)| OutcomeRun {
            first: u32::try_from(from * 10).unwrap(),
            count: u32::try_from((to - from) * 10).unwrap(),
            from_ns: from * S,
            to_ns: to * S - 1,
            longest_ns: 1,
            outcome: match from == NOTICED && self.silent(datacenter) {
                true => Outcome::Silent("no reply".to_owned()),
                false => self.outcome(i, range, served),
            },
        });
        Answers {
            node: super::super::halves::address_of(self.node(i)),
            range: u32::try_from(range).unwrap(),
            access,
            runs: runs.to_vec(),
            missed: 0,
        }
    }

    fn looks(&self, datacenter: &str, i: usize) -> NodeLooks {
        let settled = if datacenter == "dc1" { self.home } else { self.away };
        let run = |from: u64, to: u64, served: Option<[usize; 3]>, promoted: bool| LookRun {
            count: 5,
            from_ns: from * S,
            to_ns: to * S - 1,
            seen: match from == NOTICED && self.silent(datacenter) {
                true => Err("no reply".to_owned()),
                false => Ok(self.state(i, served, promoted, from == NOTICED && !self.bus_left)),
            },
            last: Passing {
                down_since_s: Some(self.age_s),
                ..Passing::default()
            },
        };
        let promoted = self.promoted == Some(i);
        NodeLooks {
            node: super::super::halves::address_of(self.node(i)),
            runs: vec![
                run(0, NOTICED, Some([1, 2, 3]), false),
                run(NOTICED, WELL, settled, promoted),
                run(WELL, END, Some(self.last), promoted),
            ],
        }
    }

    fn state(&self, i: usize, served: Option<[usize; 3]>, promoted: bool, parted: bool) -> NodeState {
        let master = self.node(i).of.is_none() || promoted;
        let peers = (1..=6).map(|peer| {
            let slots = served.and_then(|served| served.iter().position(|&server| server == peer));
            PeerState {
                address: self.node(peer).address.clone(),
                flags: match self.node(peer).datacenter == self.node(i).datacenter {
                    _ if peer == i => "myself,master",
                    // Only the half with most masters can be sure.
                    false if parted && self.node(i).datacenter == "dc1" => "master,fail",
                    false if parted => "master,fail?",
                    _ => "master",
                }
                .to_owned(),
                of: None,
                epoch: 1,
                connected: true,
                slots: slots.map_or("", |range| SLOTS[range]).to_owned(),
            }
        });
        NodeState {
            cluster_state: if served.is_some() { "ok" } else { "fail" }.to_owned(),
            current_epoch: 6 + u64::from(promoted),
            role: if master { "master" } else { "slave" }.to_owned(),
            upstream: None,
            link_up: true,
            peers: peers.collect(),
        }
    }

    fn kept(&self, datacenter: &str, answers: &Answers) -> Kept {
        let node = (1..=6)
            .find(|&i| super::super::halves::address_of(self.node(i)) == answers.node)
            .unwrap();
        let served = answers.runs.iter().filter(|run| run.outcome == Outcome::Served);
        let numbers: Vec<u32> = served.flat_map(|run| run.first..run.first + run.count).collect();
        let lost = |number: u32| {
            let lost = self.lost.filter(|lost| (lost.0, lost.1) == (node, answers.range));
            lost.is_some_and(|(_, _, from)| number >= from)
        };
        Kept {
            block: self.placed.block,
            row: self.placed.row.clone(),
            datacenter: datacenter.to_owned(),
            node: format!("node-{node}"),
            range: answers.range,
            looked_for: u32::try_from(numbers.len()).unwrap(),
            found: Kept::stretches(numbers.into_iter().filter(|&number| !lost(number))),
        }
    }
}
