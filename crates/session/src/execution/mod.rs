//! How one command runs: the choice of a server, the attempts on it, the relay of its reply, and what may
//! answer or decide in a server's place.

pub(crate) mod attempt;
pub(crate) mod cache;
pub(crate) mod choice;
pub(crate) mod exec;
pub(crate) mod hook;
pub(crate) mod measure;
pub(crate) mod mirror;
pub(crate) mod pipe;
pub(crate) mod pipeline;
pub(crate) mod point;
pub(crate) mod profile;
pub(crate) mod relayed;
pub(crate) mod route;
pub(crate) mod ruled;
pub(crate) mod rules;
pub(crate) mod servers;
pub(crate) mod servers_tried;
pub(crate) mod statement_run;
pub(crate) mod without;
