//! The key-value door: its commands, values, containers, cache and limits.

mod cache;
mod containers;
mod door;
mod limits;
mod moves;
mod revoked;
mod store;
mod values;
