//! The change stream (`GET /v1/changes`) of whole farms, subscriptions to it, and `heddle binlog dump`.

mod applier;
mod charsets;
mod door;
mod dump;
mod failover;
mod reading;
mod resume;
mod snapshot;
mod subscriptions;
mod values;
