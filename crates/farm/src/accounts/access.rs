//! What somebody may ask of a router.

use serde::{Deserialize, Serialize};

/// The right that a command needs, or that somebody has. Each includes those before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Everybody: whether the router lives, and whether it is ready.
    #[default]
    Public,
    /// To read how the farm is: its servers, sessions without their texts, statistics.
    Monitor,
    /// Everything else: to change something, to connect anywhere, to scan tables, to see rules, hooks
    /// and other people's statements.
    Admin,
}

impl Access {
    /// The right's name, in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Access::Public => "public",
            Access::Monitor => "monitor",
            Access::Admin => "admin",
        }
    }
}
