//! Sinks: webhooks, files and message brokers, and what they are tested against.

mod brokers;
mod kafka;
mod logins;
mod nats;
mod parquet;
mod sinking;
mod topics;
