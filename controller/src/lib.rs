//! Two datacenters on one machine, measured and judged.
//!
//! `text -> topology::parse -> Topology -> plan::plan -> Plan -> lab::raise -> Lab -> block::run -> History
//! -> findings::judge -> Findings -> report::render -> text`. Everything before `raise` and after `run` is pure and
//! works without an engine. Modules stand in the order of that pipeline; imports point up this list only.

// -- decides: text and values in, values out --
pub mod address;
pub mod claim;
pub mod cluster;
pub mod compose;
pub mod conditions;
pub mod document;
pub mod findings;
pub mod history;
pub mod manifest;
pub mod matrix;
pub mod names;
pub mod pcapng;
pub mod picture;
pub mod plan;
pub mod release;
pub mod replication;
pub mod report;
pub mod sentinel;
pub mod stats;
pub mod topology;

// -- does: engine, containers, files, time --
pub mod block;
pub mod capture;
pub mod channel;
pub mod complete;
pub mod controller;
pub mod docker;
pub mod image;
pub mod instrument;
pub mod lab;
pub mod probe;
pub mod progress;
pub mod reaper;
pub mod relay;
pub mod stop;
pub mod store;

// -- chains the stages --
pub mod cli;
pub mod commands;
pub mod error;
pub mod exit;
pub mod log;
