//! Decisions that take time: step machines without a clock, a socket or a task.
//!
//! Job: [`failover`] decides when a group's primary is lost, who takes its place and in which order
//! of steps; [`reshard`] how a part of a shard map changes its group; each answers every event with actions, which a dull loop carries out.
//! [`order`] decides in which order the transactions of several groups are told.
//!
//! Invariants: the same events at the same moments give the same actions; nothing is decided from
//! an answer to a question that is no longer open.
//!
//! Must not know: sockets, tasks, clocks, SQL text, the state store's format.

pub mod failover;
pub mod order;
pub mod reshard;
pub mod xa;
