//! Where the servers that plans name are reached.

use backend::Target;
use farm::{GroupKind, ServerId, Snapshot};

/// Where a server of the snapshot is reached.
pub fn target(snapshot: &Snapshot, id: ServerId, read_only: bool) -> Option<Target> {
    let server = snapshot.server(id)?;
    let galera = snapshot.group(&server.group).is_some_and(|group| group.kind == GroupKind::Galera);
    Some(Target {
        server: id,
        host: server.host.clone(),
        port: server.port,
        term: server.term,
        key: server.key,
        read_only,
        causal: read_only && galera,
        at_login: false,
        session: 0,
    })
}

/// Stands for a server in errors that came before one was chosen.
pub fn nowhere() -> Target {
    Target {
        server: ServerId(0),
        host: "primary".into(),
        port: 0,
        term: 0,
        key: None,
        read_only: false,
        causal: false,
        at_login: true,
        session: 0,
    }
}
