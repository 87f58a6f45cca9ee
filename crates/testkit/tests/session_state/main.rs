//! What a session has set and begun is its own, on whichever pooled connection it runs.

mod pins;
mod servers_variables;
mod state;
mod tracking;
mod transactions;
mod user_variables;
mod variables;
