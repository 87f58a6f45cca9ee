//! How the replication of a server stands to the primary of its group.
//!
//! Pure: judged from what the server last said, the primary's record, and whether a change of primary halted the server.

use engine::{Observation, Thread};

use catalog::record::ServerRecord;

/// How a server's replication stands to the primary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stance {
    Follows,
    /// Somebody stopped it, or a statement did; not ours to start.
    Stopped(String),
    /// A change of primary stopped it, and failed to start it again.
    Halted,
    /// It lacks what its own log says it has: only a copy mends that.
    Torn(String),
    /// It follows nobody, or the wrong one, or cannot go on from where it is.
    Astray,
}

/// Judges what a server said of its replication. Whom it follows, and how, counts before its errors: one that
/// follows somebody else is astray, whatever its threads say.
pub(crate) fn stance(seen: &Observation, primary: &ServerRecord, halted: bool) -> Stance {
    let Some(replica) = &seen.replica else {
        return Stance::Astray;
    };
    let right = replica.by_gtid
        && replica.primary_host == primary.host
        && replica.primary_port == primary.port;
    if !right {
        return Stance::Astray;
    }
    let stopped = |thread: Thread| thread == Thread::Stopped;
    if let Some(error) = replica.sql_error.as_ref().filter(|_| stopped(replica.sql)) {
        // A crash took the branch that is to be ended.
        if error.branch_is_unknown() {
            return Stance::Torn(error.text.clone());
        }
        // After a crash it has logged more than it remembers.
        if error.is_out_of_order() {
            return Stance::Astray;
        }
        return Stance::Stopped(error.text.clone());
    }
    if stopped(replica.io) && replica.io_error.is_some() {
        return Stance::Astray;
    }
    if stopped(replica.io) || stopped(replica.sql) {
        return match halted {
            true => Stance::Halted,
            false => Stance::Stopped("an operator stopped its replication".to_owned()),
        };
    }
    Stance::Follows
}

#[cfg(test)]
mod tests {
    use engine::{Replica, ThreadError};
    use farm::Status;

    use super::*;
    use crate::observe::samples::observation;
    use catalog::record::samples::server;

    type Seen<'a> = (Thread, u32, &'a str);

    fn seen(port: u16, io: Seen<'_>, sql: Seen<'_>) -> Observation {
        let error = |(_, number, text): Seen<'_>| {
            let text = text.to_owned();
            (number != 0).then_some(ThreadError { number, text })
        };
        Observation {
            replica: Some(Replica {
                primary_host: "127.0.0.1".to_owned(),
                primary_port: port,
                by_gtid: true,
                io: io.0,
                sql: sql.0,
                io_error: error(io),
                sql_error: error(sql),
                received: String::new(),
            }),
            ..observation()
        }
    }

    #[test]
    fn what_an_operator_stopped_is_left_alone() {
        use Thread::{Connecting, Running, Stopped};
        let primary = server("g", 1, Status::Primary);
        let stance = |port, io, sql| stance(&seen(port, io, sql), &primary, false);
        let fine = (Running, 0, "");
        assert_eq!(stance(1, fine, fine), Stance::Follows);
        let connecting = (Connecting, 2003, "error connecting to master");
        assert_eq!(stance(1, connecting, fine), Stance::Follows);
        assert_eq!(stance(2, fine, fine), Stance::Astray);
        let gone = (Stopped, 1236, "Got fatal error 1236 from master");
        assert_eq!(stance(1, gone, fine), Stance::Astray);
        let order = "would create an out-of-order sequence number";
        assert_eq!(stance(1, fine, (Stopped, 1950, order)), Stance::Astray);
        for (io, sql) in [
            ((Stopped, 0, ""), (Stopped, 0, "")),
            (fine, (Stopped, 0, "")),
            (fine, (Stopped, 1062, "Duplicate entry 'XAER_NOTA'")),
            (fine, (Stopped, 1062, "Duplicate entry 'out-of-order'")),
        ] {
            assert!(
                matches!(stance(1, io, sql), Stance::Stopped(_)),
                "{io:?} {sql:?}"
            );
        }
        // Where several threads apply, the text does not name the branch's error.
        for text in [
            "Error 'XAER_NOTA: Unknown XID' on query",
            "Coordinator stopped because there were error(s) in the worker(s)",
        ] {
            let torn = stance(1, fine, (Stopped, 1397, text));
            assert!(matches!(torn, Stance::Torn(_)), "{torn:?}");
        }
        let nobody = Observation {
            replica: None,
            ..seen(1, fine, fine)
        };
        assert_eq!(super::stance(&nobody, &primary, false), Stance::Astray);
    }

    #[test]
    fn what_a_change_of_primary_stopped_is_started() {
        use Thread::{Running, Stopped};
        let primary = server("g", 1, Status::Primary);
        let stance = |port, io, sql| stance(&seen(port, io, sql), &primary, true);
        let (fine, halted) = ((Running, 0, ""), (Stopped, 0, ""));
        assert_eq!(stance(1, halted, fine), Stance::Halted);
        assert_eq!(stance(1, halted, halted), Stance::Halted);
        assert_eq!(stance(1, fine, fine), Stance::Follows);
        assert_eq!(stance(2, halted, halted), Stance::Astray);
        let broken = stance(1, halted, (Stopped, 1062, "Duplicate entry"));
        assert!(matches!(broken, Stance::Stopped(_)), "{broken:?}");
    }
}
