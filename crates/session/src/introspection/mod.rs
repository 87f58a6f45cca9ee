//! What a client may see of sessions and servers, and what it may ask of the router: lists of sessions, KILL,
//! statistics, commands.

pub(crate) mod farm_statistics;
pub(crate) mod farm_tables;
pub(crate) mod kill;
pub(crate) mod listing;
pub(crate) mod local;
pub(crate) mod operator;
pub(crate) mod peers;
pub(crate) mod processlist;
pub(crate) mod recorded;
pub(crate) mod registry;
pub(crate) mod rights;
pub(crate) mod rows_text;
pub(crate) mod statistics;
pub(crate) mod view;
pub(crate) mod views;
