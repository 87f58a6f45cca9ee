//! What the flight recorder is told of a session, in the recorder's words.
//!
//! Must not know: sessions and their parts; it takes numbers and values.

use backend::{Connection, Target};
use farm::{Position, ServerId};
use mysql_wire::relay::Outcome;
use recorder::{Awaited, Moment, Retry, Server, Step, note};
use routing::{Plan, Reason, Refusal};
use sqltext::Digest;

use crate::client::end::End;

/// A statement came, or a command that is none.
#[inline]
pub fn statement(session: u32, command: u8, digest: Option<Digest>) {
    let digest = recorder::Digest(digest.map_or(0, Digest::half));
    note(session, Step::Statement { command, digest });
}

/// A server was chosen, to which the session's name goes along; or none.
#[inline]
pub(crate) fn routed(session: u32, routed: &mut Result<(Plan, Target), Refusal>) {
    match routed {
        Ok((plan, target)) => {
            target.session = session;
            let step = Step::Chosen {
                reason: Some(reason(plan.reason)),
                server: Server(plan.server.0),
                wait: plan.wait,
            };
            note(session, step);
        }
        Err(refusal) => {
            let error = refusal.error.number;
            note(session, Step::NoServer { error });
        }
    }
}

fn reason(of: Reason) -> recorder::Reason {
    match of {
        Reason::Held => recorder::Reason::Held,
        Reason::Hint => recorder::Reason::Hint,
        Reason::Read => recorder::Reason::Read,
        Reason::Rule => recorder::Reason::Rule,
        Reason::Strong => recorder::Reason::Strong,
        Reason::NoAutocommit => recorder::Reason::NoAutocommit,
        Reason::TooOld => recorder::Reason::TooOld,
        Reason::NoReplica => recorder::Reason::NoReplica,
        Reason::NotARead => recorder::Reason::NotARead,
    }
}

/// The session has this connection.
#[inline]
pub(crate) fn taken(session: u32, connection: &Connection, held: bool) {
    let step = Step::Taken {
        held,
        server: Server(connection.server.0),
        connection: connection.thread_id,
    };
    note(session, step);
}

/// It goes back to its pool.
#[inline]
pub(crate) fn given_back(session: u32, connection: &Connection) {
    let step = Step::GivenBack {
        server: Server(connection.server.0),
        connection: connection.thread_id,
    };
    note(session, step);
}

/// The statement goes to its server.
#[inline]
pub(crate) fn sent(session: u32, connection: &Connection) {
    let step = Step::Sent {
        server: Server(connection.server.0),
        connection: connection.thread_id,
    };
    note(session, step);
}

/// The server's reply is complete.
#[inline]
pub(crate) fn answered(session: u32, connection: &Connection, outcome: &Outcome) {
    let step = Step::Answered {
        server: Server(connection.server.0),
        error: outcome.error.unwrap_or(0),
    };
    note(session, step);
}

/// The statement is over.
#[inline]
pub(crate) fn finished(session: u32, error: Option<u16>, rows: u64) {
    let error = error.unwrap_or(0);
    note(session, Step::Finished { error, rows });
}

/// The statement may run again, or elsewhere: this server did not do it, if there is a reason.
#[cold]
pub(crate) fn retried(session: u32, server: ServerId, why: Option<Retry>) {
    let server = Server(server.0);
    if why.is_some() {
        note(session, Step::Retried { why, server });
    }
}

/// The connection broke under the statement, before or behind the beginning of the reply.
#[cold]
pub(crate) fn lost(session: u32, connection: &Connection, forwarded: bool) {
    let step = Step::Lost {
        forwarded,
        server: Server(connection.server.0),
        connection: connection.thread_id,
    };
    note(session, step);
}

/// A wait begins; to be told [`wait_ended`].
#[cold]
pub(crate) fn wait_began(session: u32, what: Awaited, server: u32) {
    let server = Server(server);
    note(
        session,
        Step::WaitBegins {
            what: Some(what),
            server,
        },
    );
}

/// The wait is over; `came`: what was waited for is there.
#[cold]
pub(crate) fn wait_ended(session: u32, what: Awaited, server: u32, came: bool) {
    let step = Step::WaitEnds {
        what: Some(what),
        server: Server(server),
        came,
    };
    note(session, step);
}

/// A moment of a distributed transaction on one of its groups.
#[cold]
pub fn distributed(connection: &Connection, moment: Moment) {
    let step = Step::Distributed {
        moment: Some(moment),
        server: Server(connection.server.0),
        connection: connection.thread_id,
    };
    note(connection.owner.session, step);
}

/// What the session has committed is acknowledged: GTIDs as the server told them, and what was read of them.
#[inline]
pub(crate) fn committed(session: u32, gtid: &[u8], position: Option<&Position>) {
    let only = match position {
        Some(Position::MariaDb(domains)) => domains.only(),
        _ => None,
    };
    let (source, number) = match only {
        Some((_, last)) => (last.server_id, last.sequence),
        None => last_of(gtid),
    };
    note(session, Step::Committed { source, number });
}

/// Of the last GTID: MariaDB's server id or the beginning of MySQL's UUID, and its number.
fn last_of(gtids: &[u8]) -> (u32, u64) {
    let last = gtids.rsplit(|&byte| byte == b',').next().unwrap_or_default();
    let number = |digits: &[u8]| {
        let digits = digits.iter().filter(|byte| byte.is_ascii_digit());
        digits.fold(0u64, |sum, byte| sum.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')))
    };
    match last.iter().position(|&byte| byte == b':') {
        Some(at) => {
            let end = last.rsplit(|byte| matches!(byte, b':' | b'-')).next().unwrap_or_default();
            let uuid = last[..at].trim_ascii().first_chunk::<8>().map_or(&[][..], |half| half);
            let hex = uuid.iter().filter_map(|&byte| char::from(byte).to_digit(16));
            (hex.fold(0, |sum, digit| sum << 4 | digit), number(end))
        }
        None => {
            let mut parts = last.rsplit(|&byte| byte == b'-');
            let end = number(parts.next().unwrap_or_default());
            let server = number(parts.next().unwrap_or_default());
            (u32::try_from(server).unwrap_or(0), end)
        }
    }
}

/// The session is over.
pub fn ended(session: u32, end: &End) {
    let (how, error) = end_of(end);
    note(
        session,
        Step::Ended {
            how: Some(how),
            error,
        },
    );
}

/// Who connected may not come in.
pub fn refused(session: u32, end: &End) {
    let (how, error) = end_of(end);
    note(
        session,
        Step::LoginRefused {
            how: Some(how),
            error,
        },
    );
}

fn end_of(end: &End) -> (recorder::End, u16) {
    match end {
        End::Quit => (recorder::End::Quit, 0),
        End::Gone => (recorder::End::Gone, 0),
        End::Refused(error) => (recorder::End::Refused, error.number),
        End::TornResult => (recorder::End::TornResult, 0),
        End::Killed => (recorder::End::Killed, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::last_of;

    #[test]
    fn the_last_gtid_is_told() {
        assert_eq!(last_of(b"0-7-25"), (7, 25));
        assert_eq!(last_of(b"0-1-3,1-2-18446744073709551615"), (2, u64::MAX));
        let uuid = b"3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let with = |end: &str| [&uuid[..], end.as_bytes()].concat();
        assert_eq!(last_of(&with(":23")), (0x3e11_fa47, 23));
        assert_eq!(last_of(&with(":1-3:5-77")), (0x3e11_fa47, 77));
        for odd in [&b""[..], b":", b"-", b"x:y", b"ab:"] {
            last_of(odd);
        }
        assert_eq!(last_of(b""), (0, 0));
    }
}
