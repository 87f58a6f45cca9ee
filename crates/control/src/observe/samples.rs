//! What probes learn, for tests: what a test is about it changes.

use engine::Observation;

/// Of a server that is read-only and follows nobody.
pub(crate) fn observation() -> Observation {
    Observation {
        version: "10.11.6-MariaDB".to_owned(),
        uuid: None,
        server_id: 7,
        read_only: true,
        sql_mode: String::new(),
        logins_set_mode: false,
        gtid: String::new(),
        replica: None,
        acks: None,
    }
}
