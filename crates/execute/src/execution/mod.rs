//! How one command runs: the choice of a server, the attempts on it, the relay of its reply, and what may
//! answer or decide in a server's place.

pub mod attempt;
pub mod cache;
pub mod choice;
pub mod exec;
pub mod hook;
pub mod measure;
pub(crate) mod mirror;
pub mod pipe;
pub(crate) mod pipeline;
pub mod point;
pub mod profile;
pub(crate) mod relayed;
pub mod route;
pub mod ruled;
pub mod rules;
pub mod servers;
pub mod servers_tried;
pub mod statement_run;
pub mod without;
