//! The key-value door: its commands, values, containers, cache, limits and early writes.

mod cache;
mod containers;
mod cores;
mod door;
mod early;
mod early_losses;
mod limits;
mod moves;
mod revoked;
mod store;
mod values;
