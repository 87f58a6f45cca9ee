//! The connections of a session: which of them it keeps, why, and for how long.

pub mod group_connections;
pub(crate) mod hedge;
pub mod hold;
pub mod home;
pub mod parked;
pub mod pin;
pub mod renew;
pub mod target;
pub mod ties;
