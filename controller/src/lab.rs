//! A lab: a plan that is up and ready. Raised whole or not at all, lowered by explicit call on every path.
//!
//! Intended shape (what `block` and `commands` build on):
//! - `raise(engine: EngineHandle, plan: Plan, origin: Origin, progress: &Progress) -> Result<Lab, LabError>`: everything made
//!   concurrently, ready, versions read back and compared; on failure what was made is lowered and the error returned.
//! - `find(engine, Option<LabName>) -> Result<Lab, LabError>`: attach to a lab that is up (plan read from the relays' label).
//! - `lab.plan: Plan`, `lab.relay(&DatacenterName) -> &RelayClient`, `lab.probe(&DatacenterName) -> &ProbeClient`,
//!   `lab.node(&NodeName) -> &PlannedNode`, `lab.servers() -> Vec<history::ServerSeen>`.
//! - links: `lab.set_delay(a, b, delay_ns)`, `lab.cut(a, b, CutKind)`, `lab.heal(a, b)`, each directed; `both(...)` variants act on
//!   both directions at one instant (concurrently).
//! - `lab.wait_ready(deadline)` (also used by blocks after a heal or a re-attachment): replica links up and offsets moving.
//! - `lab.lower() -> Result<Lowered, LabError>` collects all failures; `sweep(engine, labels)` removes by label.
