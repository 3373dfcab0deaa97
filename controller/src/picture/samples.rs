//! Pictures for the tests of all ways of drawing.

use super::{Datacenter, Link, Node, Passage, Picture};

pub fn node(name: &str, what: &str, upstream: Option<&str>) -> Node {
    Node {
        name: name.to_owned(),
        what: what.to_owned(),
        slots: None,
        upstream: upstream.map(str::to_owned),
        trouble: None,
    }
}

pub fn link(from: &str, to: &str, conditions: &str, state: Passage) -> Link {
    Link {
        from: from.to_owned(),
        to: to.to_owned(),
        conditions: conditions.to_owned(),
        state,
    }
}

fn datacenter(name: &str, nodes: Vec<Node>) -> Datacenter {
    Datacenter {
        name: name.to_owned(),
        nodes,
    }
}

/// The usual lab, cut outward, with a node that stands still.
pub fn two() -> Picture {
    let mut far = node("redis-far", "redis 7.0.15 replica", Some("redis-primary"));
    far.trouble = Some("paused".to_owned());
    let nodes = vec![
        node("redis-primary", "redis 7.0.15 primary", None),
        node("redis-near", "redis 7.0.15 replica", Some("redis-primary")),
    ];
    Picture {
        title: "two-dc".to_owned(),
        datacenters: vec![
            datacenter("dc1", nodes),
            datacenter("dc2", vec![far, node("postgres", "postgres 15.18 database", None)]),
        ],
        links: vec![
            link("dc1", "dc2", "delay=20ms", Passage::Cut("drop".to_owned())),
            link("dc2", "dc1", "delay=20ms jitter=2ms loss=1%", Passage::Open),
        ],
    }
}

/// A small cluster over two datacenters.
pub fn cluster() -> Picture {
    let master = |name: &str, slots: &str| Node {
        slots: Some(slots.to_owned()),
        ..node(name, "redis primary", None)
    };
    let replica = |name: &str, upstream: &str| node(name, "redis replica", Some(upstream));
    Picture {
        title: "cluster".to_owned(),
        datacenters: vec![
            datacenter("dc1", vec![master("a", "0-8191"), replica("c", "b")]),
            datacenter("dc2", vec![master("b", "8192-16383"), replica("d", "a")]),
        ],
        links: vec![
            link("dc1", "dc2", "delay=20ms", Passage::Open),
            link("dc2", "dc1", "delay=20ms", Passage::Open),
        ],
    }
}

/// Four datacenters, all linked, with two sets that span them, and text that must be escaped.
pub fn four() -> Picture {
    let mut picture = Picture {
        title: "four <&\"'>".to_owned(),
        ..Picture::default()
    };
    for (i, name) in ["north", "east", "south", "west"].into_iter().enumerate() {
        let upstream = |set: &str| (i > 0).then(|| format!("{set}-north"));
        let nodes = ["a", "b"].map(|set| node(&format!("{set}-{name}"), "valkey", upstream(set).as_deref()));
        picture.datacenters.push(datacenter(name, nodes.to_vec()));
    }
    let names = ["north", "east", "south", "west"];
    for from in names {
        for to in names.into_iter().filter(|to| *to != from) {
            let state = if from == "south" {
                Passage::Frozen
            } else {
                Passage::Open
            };
            picture
                .links
                .push(link(from, to, "delay=20ms jitter=normal:1ms rate=100mbit", state));
        }
    }
    picture
}
