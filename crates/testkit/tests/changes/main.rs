//! The change stream (`GET /v1/changes`) of whole farms, subscriptions to it, sinks, `heddle apply` and `heddle binlog dump`.

mod applier;
mod apply;
mod brokers;
mod charsets;
mod debezium;
mod door;
mod dump;
mod failover;
mod in_order;
mod kafka;
mod nats;
mod reading;
mod receiver;
mod resume;
mod sharing;
mod sinking;
mod snapshot;
mod subscriptions;
mod values;
