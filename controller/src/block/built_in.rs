//! Topologies that come with the program. A test checks that each is one, and that the blocks meant for it apply.

/// A topology that comes with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Name of its file.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Two datacenters, a primary with a near and a far replica, a database beside the far one.
pub const TWO_DC: BuiltIn = BuiltIn {
    file: "topologies/two-dc.yaml",
    text: include_str!("../../../topologies/two-dc.yaml"),
};

/// A cluster of six over two datacenters, all masters in the first one.
pub const CLUSTER_A: BuiltIn = BuiltIn {
    file: "topologies/cluster-a.yaml",
    text: include_str!("../../../topologies/cluster-a.yaml"),
};

/// The same, three nodes each; the replica of the second one's master is beside it.
pub const CLUSTER_B: BuiltIn = BuiltIn {
    file: "topologies/cluster-b.yaml",
    text: include_str!("../../../topologies/cluster-b.yaml"),
};

/// The same with that replica in the first one.
pub const CLUSTER_C: BuiltIn = BuiltIn {
    file: "topologies/cluster-c.yaml",
    text: include_str!("../../../topologies/cluster-c.yaml"),
};
