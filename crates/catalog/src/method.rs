//! The ways to fill a server with a group's data.

use farm::Engine;

/// One way to fill a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// MySQL's clone plugin.
    Clone,
    /// mariadb-backup.
    Backup,
    /// Over SQL.
    Copy,
}

impl Method {
    pub const NAMES: &str = "clone, backup or copy";

    pub fn parse(text: &str) -> Option<Method> {
        [Method::Clone, Method::Backup, Method::Copy]
            .into_iter()
            .find(|method| method.name() == text.to_ascii_lowercase())
    }

    pub fn name(self) -> &'static str {
        match self {
            Method::Clone => "clone",
            Method::Backup => "backup",
            Method::Copy => "copy",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Method::Clone => "the clone plugin",
            Method::Backup => "mariadb-backup",
            Method::Copy => "a copy over SQL",
        }
    }

    /// The method of this engine that copies files.
    pub fn fast(engine: Engine) -> Method {
        match engine {
            Engine::MySql => Method::Clone,
            Engine::MariaDb => Method::Backup,
        }
    }
}
