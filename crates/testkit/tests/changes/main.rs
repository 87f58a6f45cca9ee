//! The change stream (`GET /v1/changes`) of whole farms, subscriptions to it, sinks, `heddle apply` and `heddle binlog dump`.

mod applier;
mod apply;
mod charsets;
mod door;
mod dump;
mod failover;
mod reading;
mod receiver;
mod resume;
mod sinking;
mod snapshot;
mod subscriptions;
mod values;
