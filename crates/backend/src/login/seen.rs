//! What a server says of itself before anybody logs in.

use farm::Engine;
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::Greeting;

/// What a server said of itself when it greeted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// With the `5.5.5-` that MariaDB 10 puts in front.
    pub version: Box<str>,
    /// What the version says.
    pub engine: Engine,
    pub capabilities: Capabilities,
    /// The server's default collation.
    pub collation: u8,
}

impl Seen {
    pub(crate) fn of(greeting: &Greeting<'_>) -> Seen {
        Seen {
            version: greeting.version.into(),
            engine: match greeting.version.contains("MariaDB") {
                true => Engine::MariaDb,
                false => Engine::MySql,
            },
            capabilities: greeting.capabilities,
            collation: greeting.collation,
        }
    }
}
