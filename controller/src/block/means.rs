//! By which means a block makes its faults: what the command line chooses.

/// How a block that cuts the link does it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Cutting {
    /// By a cut: what is in flight is destroyed.
    #[default]
    Drop,
    /// By a freeze, which is none: a negative control, that must come out as a block in which no cut took place.
    Freeze,
}

/// How the blocks that part the halves of a cluster do it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// By a cut: both halves are asked.
    #[default]
    Cut,
    /// By a cut, and then the record's own way: one half stopped, the other asked, a fresh cluster for each half.
    Stop,
}

/// How faults are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Means {
    /// How the link is cut.
    pub cutting: Cutting,
    /// How the halves of a cluster are parted.
    pub method: Method,
}
