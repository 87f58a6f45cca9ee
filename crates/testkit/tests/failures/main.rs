//! Sessions while servers die, freeze, restart or change their roles.

mod acks;
mod hold;
mod outcomes;
mod resume;
mod shutdown;
mod signs;
mod silence;
