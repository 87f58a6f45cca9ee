//! A server as the control plane sees it: administrative connections, for tests without one.

use std::net::SocketAddr;

use engine::{Link, LinkTls, Login};
use enginesql::seal::Key;

/// Generous: two cores run several servers and their clients.
const LIMIT_MS: u64 = 20_000;

/// The id of a farm that has doors and no control plane.
pub const FARM_ID: &str = "test";

/// A new connection as `root`, who has no password.
///
/// # Panics
/// When the server does not answer.
pub async fn link(server: SocketAddr) -> Link {
    let login = Login {
        host: server.ip().to_string(),
        port: server.port(),
        user: "root".to_owned(),
        password: String::new(),
        tls: LinkTls::Off,
        known: ::engine::Known::Nothing,
        engine: None,
    };
    let link = Link::open(&login, LIMIT_MS).await;
    link.expect("the server answers")
}

/// What ids of transactions over several groups are sealed with where no control plane is.
pub fn decision_key() -> Key {
    Key::new("no control plane is here", FARM_ID)
}

/// Does something on such a connection, from a thread that has no runtime.
pub fn with_link<T>(server: SocketAddr, work: impl AsyncFnOnce(Link) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async { work(link(server).await).await })
}
