//! What a block is, and the blocks themselves, one file per family below. A block does and records; it never judges.
//!
//! Intended shape: `enum Block { VisibilityLag, LostWrites, PriceOfWait, FarCache }` with number, title, question, method, what it does not show,
//! the topology it needs, `applies(&Topology) -> Result<Cast, String>` (which nodes play which part; or why not), and
//! `run(block, &mut Lab, &mut dyn Recorder) -> Result<LabAfter, BlockError>`.
