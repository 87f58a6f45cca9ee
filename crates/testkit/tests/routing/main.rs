//! Which server runs a statement: the read/write split, rules, hooks, and how fresh a read is.

mod all_servers;
mod client_level;
mod consistency;
mod digests;
mod hooks;
mod live_settings;
mod marks;
mod rules;
mod server_counters;
mod split;
mod statistics;
mod traces;
