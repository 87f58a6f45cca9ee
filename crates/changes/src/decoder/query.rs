//! Events that hold a statement, as far as their parts are concerned.

use crate::rows::inflated;
use crate::table::Bytes;

/// Bytes in front of a statement's session, as far as every statement has them.
pub(super) const HEAD_BYTES: usize = 13;

/// What stands in front of a statement's text.
pub(super) struct Head<'a> {
    pub thread: u32,
    /// The session's variables.
    pub status: &'a [u8],
    pub database: &'a [u8],
    pub text: &'a [u8],
}

impl Head<'_> {
    /// Reads the head of an event, which has `more` bytes in front of the session.
    pub fn of(data: &[u8], more: usize) -> Option<Head<'_>> {
        let mut rest = Bytes(data);
        let thread = u32::try_from(rest.number(4)?).ok()?;
        rest.take(4)?;
        let database = usize::try_from(rest.number(1)?).ok()?;
        rest.take(2)?;
        let status = usize::try_from(rest.number(2)?).ok()?;
        rest.take(more)?;
        let status = rest.take(status)?;
        let database = rest.take(database)?;
        rest.take(1)?;
        Some(Head {
            thread,
            status,
            database,
            text: rest.0,
        })
    }
}

/// The text of a query event.
pub fn query_of(data: &[u8]) -> Option<&[u8]> {
    let database = usize::from(*data.get(8)?);
    let variables = usize::from(u16::from_le_bytes(data.get(11..13)?.try_into().ok()?));
    data.get(13 + variables + database + 1..)
}

/// A compressed query event of MariaDB as one whose text is not compressed; `None` for what is none.
pub fn query_inflated(data: &[u8]) -> Option<Vec<u8>> {
    let text = query_of(data)?;
    let mut whole = data[..data.len() - text.len()].to_vec();
    whole.extend(inflated(text)?);
    Some(whole)
}
