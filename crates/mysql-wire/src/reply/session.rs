//! Session tracking: the changes of the session's state that an OK packet reports.

use crate::Malformed;
use crate::scalar::{Reader, put_lenenc_bytes};

const VARIABLE: u8 = 0;
const SCHEMA: u8 = 1;
const STATE: u8 = 2;
const GTIDS: u8 = 3;
const CHARACTERISTICS: u8 = 4;
const TRANSACTION: u8 = 5;

/// The only encoding of [`SessionChange::Gtids`] that exists.
const GTIDS_AS_TEXT: u8 = 0;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange<'a> {
    /// A system variable that `session_track_system_variables` lists has this value now. MariaDB
    /// reports `last_gtid` this way.
    Variable { name: &'a [u8], value: &'a [u8] },
    /// The default database has this name now.
    Schema(&'a [u8]),
    /// Whether something of the session changed, by `session_track_state_change`.
    StateChanged(bool),
    /// GTIDs of this statement or session, by `session_track_gtids` (MySQL), as text.
    Gtids(&'a [u8]),
    /// The statements that would start such a transaction again, by
    /// `session_track_transaction_info=CHARACTERISTICS`.
    TransactionCharacteristics(&'a [u8]),
    /// Eight letters, by `session_track_transaction_info`: kind of transaction, what it read and
    /// wrote, whether it made a result set and locked tables; `_` for no.
    TransactionState(&'a [u8]),
    /// A kind that this version does not know, as it travels.
    Other { kind: u8, data: &'a [u8] },
}

/// Walks through the block of an OK packet. Ends at the first error.
pub fn session_changes(block: &[u8]) -> impl Iterator<Item = Result<SessionChange<'_>, Malformed>> {
    let mut entries = Reader::new(block);
    // One entry of variables may hold several pairs; what is left of it waits here.
    let mut variables = Reader::new(&[]);
    std::iter::from_fn(move || {
        if variables.is_empty() && entries.is_empty() {
            return None;
        }
        let change = next(&mut entries, &mut variables);
        if change.is_err() {
            entries.rest();
            variables.rest();
        }
        Some(change)
    })
}

/// Takes the next change off the block.
fn next<'a>(
    entries: &mut Reader<'a>,
    variables: &mut Reader<'a>,
) -> Result<SessionChange<'a>, Malformed> {
    if variables.is_empty() {
        let kind = entries.u8()?;
        let data = entries.lenenc_bytes()?;
        if kind != VARIABLE {
            return other(kind, data);
        }
        *variables = Reader::new(data);
    }
    let name = variables.lenenc_bytes()?;
    Ok(SessionChange::Variable {
        name,
        value: variables.lenenc_bytes()?,
    })
}

/// Reads an entry that holds one change.
fn other(kind: u8, data: &[u8]) -> Result<SessionChange<'_>, Malformed> {
    let mut reader = Reader::new(data);
    Ok(match kind {
        SCHEMA => SessionChange::Schema(reader.lenenc_bytes()?),
        // Unlike the others, the digit has no length of its own.
        STATE => SessionChange::StateChanged(data == b"1"),
        GTIDS => {
            if reader.u8()? != GTIDS_AS_TEXT {
                return Ok(SessionChange::Other { kind, data });
            }
            SessionChange::Gtids(reader.lenenc_bytes()?)
        }
        CHARACTERISTICS => SessionChange::TransactionCharacteristics(reader.lenenc_bytes()?),
        TRANSACTION => SessionChange::TransactionState(reader.lenenc_bytes()?),
        _ => SessionChange::Other { kind, data },
    })
}

impl SessionChange<'_> {
    /// Appends the change as one entry of a block.
    pub fn encode(&self, block: &mut Vec<u8>) {
        let mut data = Vec::new();
        let kind = match *self {
            SessionChange::Variable { name, value } => {
                put_lenenc_bytes(&mut data, name);
                put_lenenc_bytes(&mut data, value);
                VARIABLE
            }
            SessionChange::Schema(name) => {
                put_lenenc_bytes(&mut data, name);
                SCHEMA
            }
            SessionChange::StateChanged(changed) => {
                data.push(if changed { b'1' } else { b'0' });
                STATE
            }
            SessionChange::Gtids(gtids) => {
                data.push(GTIDS_AS_TEXT);
                put_lenenc_bytes(&mut data, gtids);
                GTIDS
            }
            SessionChange::TransactionCharacteristics(statements) => {
                put_lenenc_bytes(&mut data, statements);
                CHARACTERISTICS
            }
            SessionChange::TransactionState(letters) => {
                put_lenenc_bytes(&mut data, letters);
                TRANSACTION
            }
            SessionChange::Other { kind, data: raw } => {
                data.extend_from_slice(raw);
                kind
            }
        };
        block.push(kind);
        put_lenenc_bytes(block, &data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_changes_read_back() {
        let changes = [
            SessionChange::Variable {
                name: b"autocommit",
                value: b"OFF",
            },
            SessionChange::Schema(b"shop"),
            SessionChange::StateChanged(true),
            SessionChange::StateChanged(false),
            SessionChange::Gtids(b"3e11fa47-71ca-11e1-9e33-c80aa9429562:5"),
            SessionChange::TransactionCharacteristics(b"START TRANSACTION;"),
            SessionChange::TransactionState(b"T_______"),
            SessionChange::Other {
                kind: 9,
                data: b"?",
            },
        ];
        let mut block = Vec::new();
        for change in &changes {
            change.encode(&mut block);
        }
        let read: Result<Vec<_>, _> = session_changes(&block).collect();
        assert_eq!(read, Ok(changes.to_vec()));
    }

    #[test]
    fn the_digit_of_a_state_change_has_no_length_of_its_own() {
        let read: Vec<_> = session_changes(b"\x02\x01\x31").collect();
        assert_eq!(read, [Ok(SessionChange::StateChanged(true))]);
    }

    #[test]
    fn one_entry_may_hold_several_variables() {
        let block = b"\x00\x08\x01a\x01b\x01c\x01d\x01\x02\x01x";
        let read: Result<Vec<_>, _> = session_changes(block).collect();
        let expected = vec![
            SessionChange::Variable {
                name: b"a",
                value: b"b",
            },
            SessionChange::Variable {
                name: b"c",
                value: b"d",
            },
            SessionChange::Schema(b"x"),
        ];
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn a_torn_block_gives_what_is_whole_and_one_error() {
        let read: Vec<_> = session_changes(b"\x01\x02\x01x\x00\x03\x01a").collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0], Ok(SessionChange::Schema(b"x")));
        assert!(read[1].is_err());
        assert!(
            session_changes(b"\x00\x00")
                .next()
                .is_some_and(|change| change.is_err())
        );
    }
}
