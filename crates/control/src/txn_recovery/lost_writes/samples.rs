//! Lost writes for the tests beside.

use farm::{LostWrite, ServerId};

/// A write of server 1 that was sent at 59 s.
pub(super) fn lost(tag: &str, after: &str) -> LostWrite {
    LostWrite {
        group: "g".to_owned(),
        server: ServerId(1),
        thread_id: 9,
        tag: tag.to_owned(),
        after: after.to_owned(),
        sent_us: 59_000_000,
        opened_s: 1,
    }
}
