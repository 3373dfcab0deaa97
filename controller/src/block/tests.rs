//! What is true of all blocks together.

use super::*;
use crate::names::LabName;
use crate::plan::Images;
use crate::release::Catalogue;
use crate::topology;

/// The plan of a topology, on any images.
pub(super) fn plan_of(text: &str) -> Plan {
    let topology = topology::parse("test", text).unwrap();
    let catalogue = Catalogue::built_in();
    let nodes = topology.nodes.iter();
    let releases = nodes.map(|node| (node.name.clone(), catalogue.default_of(node.engine).clone()));
    let images = Images {
        relay: "relay".to_owned(),
        probe: "probe".to_owned(),
        releases: releases.collect(),
    };
    let lab = LabName::new("test").unwrap();
    crate::plan::plan(&topology, "hash", &lab, None, &images, &[]).unwrap()
}

fn two_datacenters(nodes: &str) -> Plan {
    plan_of(&format!(
        "version: 1\nname: test\ndatacenters:\n  dc1:\n  dc2:\nlinks:\n  dc1-dc2: {{ delay: 5ms }}\ndefaults:\n  engine: redis\nnodes:\n{nodes}"
    ))
}

fn lack(block: Block, nodes: &str) -> String {
    block.applies(&two_datacenters(nodes)).unwrap_err()
}

#[test]
fn every_block_applies_to_its_own_topology() {
    for block in Block::ALL {
        let cast = block.applies(&plan_of(block.topology().text)).unwrap();
        assert_eq!((cast.home.as_str(), cast.away.as_str()), ("dc1", "dc2"));
        assert_eq!(cast.link(), "dc1-dc2");
    }
}

#[test]
fn every_block_has_a_card_a_method_and_a_number_of_its_own() {
    for block in Block::ALL {
        assert_eq!(Block::numbered(block.number()), Some(block));
        assert_eq!(block.card().number, block.number());
        assert!(block.method().len() > 100 && block.card().does_not_show.len() > 50);
    }
    assert_eq!(Block::numbered(0), None);
}

#[test]
fn parts_are_filled_from_the_roles() {
    let cast = Block::FarCache.applies(&plan_of(TWO_DC.text)).unwrap();
    let name = |part: &Part| part.node.to_string();
    assert_eq!(name(&cast.primary), "redis-primary");
    assert_eq!(name(&cast.far), "redis-far");
    assert_eq!(cast.others.iter().map(name).collect::<Vec<_>>(), ["redis-near"]);
    assert_eq!(cast.database.as_ref().map(|part| part.target.port()), Some(5432));
    assert_eq!(cast.near, None, "this block needs none");
    assert_eq!(cast.caches().count(), 3);
}

#[test]
fn the_clusters_that_come_along_have_the_layouts_of_their_names() {
    for (built_in, layout) in [(CLUSTER_A, Layout::A), (CLUSTER_B, Layout::B), (CLUSTER_C, Layout::C)] {
        let plan = plan_of(built_in.text);
        let cast = Cast::halves(&plan, Some(layout)).unwrap();
        assert_eq!((cast.home.as_str(), cast.away.as_str()), ("dc1", "dc2"));
        assert_eq!(cast.caches().count(), 6);
        let cluster = cast.cluster.unwrap();
        assert_eq!(cluster.half(&cast.home).count(), 3);
        let counts = (cluster.masters().count(), cluster.replicas().count());
        assert_eq!(counts, (3, 3));
        let owner = cluster.master_of(crate::cluster::slot_of(b"foo"));
        assert_eq!(owner.part.node.as_str(), "node-3");
        let replicas: Vec<&str> = cluster
            .replicas_of(&owner.part.node)
            .map(|replica| replica.part.node.as_str())
            .collect();
        assert_eq!(replicas, ["node-6"]);
    }
    let lack = Cast::halves(&plan_of(CLUSTER_B.text), Some(Layout::C)).unwrap_err();
    assert!(lack.contains("layout C") && lack.contains("has layout B"), "{lack}");
    assert!(
        Cast::halves(&plan_of(TWO_DC.text), None)
            .unwrap_err()
            .contains("a cluster")
    );
    // What is in a cluster is no set, and follows nobody by a setting of its own.
    assert!(Block::LostWrites.applies(&plan_of(CLUSTER_A.text)).is_err());
}

#[test]
fn layouts_b_and_c_differ_in_one_swapped_replica() {
    let lines = |text: &'static str| text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines(CLUSTER_B.text).zip(lines(CLUSTER_C.text));
    let differing: Vec<_> = pairs.filter(|(b, c)| b != c).map(|(b, _)| b.trim()).collect();
    assert_eq!(differing.len(), 2, "{differing:?}");
    assert!(
        differing.iter().all(|line| line.contains("replica-of")),
        "{differing:?}"
    );
    assert_eq!(lines(CLUSTER_B.text).count(), lines(CLUSTER_C.text).count());
}

#[test]
fn what_is_missing_is_said() {
    let far_only = "  a: { datacenter: dc1 }\n  b: { datacenter: dc2, replica-of: a }\n";
    assert!(Block::LostWrites.applies(&two_datacenters(far_only)).is_ok());
    assert!(lack(Block::PriceOfWait, far_only).contains("its own datacenter"));
    assert!(lack(Block::FarCache, far_only).contains("a Postgres"));
    let near_only = "  a: { datacenter: dc1 }\n  b: { datacenter: dc1, replica-of: a }\n  c: { datacenter: dc2 }\n";
    assert!(lack(Block::LostWrites, near_only).contains("another datacenter"));
    let database_only = "  p: { datacenter: dc2, engine: postgres }\n";
    assert!(lack(Block::LostWrites, database_only).contains("a Redis or Valkey primary"));
}

#[test]
fn a_second_set_that_fits_is_found_behind_one_that_does_not() {
    let nodes = "  a: { datacenter: dc1 }\n  b: { datacenter: dc1, replica-of: a }\n  c: { datacenter: dc2 }\n  \
                     d: { datacenter: dc1, replica-of: c }\n  e: { datacenter: dc2, replica-of: c }\n";
    let cast = Block::VisibilityLag.applies(&two_datacenters(nodes)).unwrap();
    assert_eq!((cast.home.as_str(), cast.away.as_str()), ("dc2", "dc1"));
    assert_eq!(cast.near.map(|near| near.node.to_string()).as_deref(), Some("e"));
}
