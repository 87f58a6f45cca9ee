//! Streams, subscriptions and sinks while primaries and routers die, and what a failover takes back.

mod deaths;
mod routers;
mod undone;
