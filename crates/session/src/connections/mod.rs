//! The connections of a session: which of them it keeps, why, and for how long.

pub(crate) mod group_connections;
pub(crate) mod hedge;
pub(crate) mod hold;
pub(crate) mod home;
pub(crate) mod parked;
pub(crate) mod pin;
pub(crate) mod renew;
pub(crate) mod target;
pub(crate) mod ties;
