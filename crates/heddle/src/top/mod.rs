//! `heddle top`: the farm in a terminal, every second; and `heddle top --once`, the same once, for scripts.
//!
//! Three parts: [`state`] decides from keys and answers what is shown and asked (pure), [`screen`] draws it (pure), and
//! [`run`] reads keys and asks the router. All of it sees what the console sees: `GET /v1/live`, and commands.

mod columns;
mod once;
mod run;
mod screen;
mod state;
#[cfg(test)]
mod tests;

pub use run::{Options, run};
