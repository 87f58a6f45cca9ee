//! What a document of the farm's configuration says of groups and servers.

use std::collections::BTreeMap;

use farm::{GroupKind, Mode};
use serde::{Deserialize, Serialize};

/// The largest weight; far above it, sums of weights would lose precision.
pub const WEIGHT_MAX: f64 = 1e6;

/// The number of a wrong line in a document, and what is wrong with it. 0: the document as a whole.
pub type Wrong = (usize, String);

/// Groups by name, as a document has them.
pub type Groups = BTreeMap<String, GroupPart>;

/// What a document says of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupPart {
    /// Where the document says it.
    #[serde(skip)]
    pub line: usize,
    /// `None` leaves it as it is.
    pub kind: Option<GroupKind>,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub active: bool,
    /// Who was the primary when the version was made: told, never changed by a document.
    #[serde(default)]
    pub primary: Option<String>,
    /// By name.
    #[serde(default)]
    pub servers: BTreeMap<String, ServerPart>,
}

/// What a document says of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerPart {
    #[serde(skip)]
    pub line: usize,
    pub weight: f64,
    /// `None` for what is usual: READ_WRITE for a primary, READ_ONLY for others.
    #[serde(default)]
    pub mode: Option<Mode>,
    #[serde(default)]
    pub spare: bool,
    /// It never becomes the primary.
    #[serde(default)]
    pub never_primary: bool,
}

impl Default for ServerPart {
    fn default() -> ServerPart {
        ServerPart {
            line: 0,
            weight: 1.0,
            mode: None,
            spare: false,
            never_primary: false,
        }
    }
}
