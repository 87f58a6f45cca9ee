//! The change stream (`GET /v1/changes`) of whole farms, subscriptions to it, sinks, `heddle apply` and `heddle binlog dump`.

mod applier;
mod apply;
mod apply_statements;
mod applying;
mod bounds;
mod charsets;
mod corpus;
mod debezium;
mod decoding;
mod delivery;
mod door;
mod dump;
mod failover;
mod filters;
mod in_order;
mod reading;
mod resume;
mod sharing;
mod snapshot;
mod subscriptions;
mod values;
