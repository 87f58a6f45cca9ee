//! How commands become batches: what waits for what, and for how long.

pub(crate) mod changes;
pub(crate) mod linger;
pub(crate) mod shared_commit;
pub(crate) mod side;
