//! The machine that the router runs on: its memory, its service manager, its log, its signals, the
//! operator's programs.
//!
//! Job: ask the machine, and tell it; each file knows one neighbour.
//!
//! Invariants: a neighbour that is missing, slow or silent never stops the router.
//!
//! Must not know: the farm, settings beyond those that are handed in.

pub(crate) mod logging;
pub(crate) mod machine;
pub(crate) mod outside;
pub(crate) mod signals;
pub(crate) mod systemd;
