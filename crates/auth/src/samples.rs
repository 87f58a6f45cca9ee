//! Accounts for the tests of this crate.

use farm::{Account, TlsDemand};

/// `app@'%'` without a password, a limit or a right.
pub(crate) fn account() -> Account {
    Account {
        user: "app".into(),
        host: "%".into(),
        ways: Vec::new(),
        locked: false,
        expired: false,
        tls: TlsDemand::None,
        connections_max: 0,
        locking: None,
        admin: false,
        privileges: 0,
        rights: 0,
    }
}
