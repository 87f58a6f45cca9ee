//! Root's account on a server of the tests.

use engine::{Link, LinkTls, Login};
use testkit::Server;

/// Generous: two cores run several servers and their clients.
pub const MS: u64 = 20_000;

/// The server, and root, who has no password.
pub fn login(server: &Server) -> Login {
    Login {
        host: server.address().ip().to_string(),
        port: server.address().port(),
        user: "root".to_owned(),
        password: String::new(),
        tls: LinkTls::Off,
        known: engine::Known::Nothing,
        engine: None,
    }
}

/// A connection of root's.
pub async fn link(server: &Server) -> Link {
    let link = Link::open(&login(server), MS).await;
    link.expect("root has no password")
}
