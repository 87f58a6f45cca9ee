//! What a client may see of sessions and servers, and what it may ask of the router: lists of sessions, KILL,
//! statistics, commands.

pub(crate) mod farm_tables;
pub(crate) mod kill;
pub(crate) mod listing;
pub(crate) mod local;
pub(crate) mod processlist;
pub(crate) mod rights;
pub(crate) mod rows_text;
pub(crate) mod shown;
pub(crate) mod views;
