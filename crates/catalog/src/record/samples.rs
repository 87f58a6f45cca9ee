//! Records for tests, of this crate and of those that use it.
//!
//! Nothing but tests uses them. They are compiled always, so that tests and the program are linked with one build of
//! the crates above.

use farm::{Engine, Mode, Status};

use super::{GroupRecord, Kept, Records, ServerRecord};

/// A server of a group, on this port.
pub fn server(group: &str, port: u16, status: Status) -> ServerRecord {
    ServerRecord {
        uuid: format!("00000000-0000-4000-8000-{port:012}"),
        name: format!("s{port}"),
        group: group.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
        status,
        mode: if status == Status::Primary {
            Mode::ReadWrite
        } else {
            Mode::ReadOnly
        },
        weight: 1.0,
        engine: Engine::MariaDb,
        version: "10.11.6-MariaDB".to_owned(),
        never_primary: false,
        being_filled: false,
        certificate: None,
    }
}

/// Records with one group and these servers, as if read from a store.
pub fn records(group: &str, servers: &[ServerRecord]) -> Records {
    let mut records = Records {
        farm_id: "farm".to_owned(),
        ..Records::default()
    };
    let kept = Kept {
        value: GroupRecord::default(),
        revision: 1,
    };
    records.groups.insert(group.to_owned(), kept);
    for (id, server) in (1..).zip(servers) {
        records.servers.insert(
            id,
            Kept {
                value: server.clone(),
                revision: 1,
            },
        );
    }
    records
}
