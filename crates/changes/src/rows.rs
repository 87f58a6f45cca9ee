//! Events of rows: which table, and each row as it was and as it became.

use std::io::Read;
use std::sync::Arc;

use flate2::read::ZlibDecoder;

use crate::cell::Cell;
use crate::code;
use crate::jsonb;
use crate::table::{Bytes, Column, Table, bit, code as column};

/// What became of the rows of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Insert,
    Update,
    Delete,
}

/// A row's cells by the places of their columns; `None` for a column that the server did not log,
/// where its `binlog_row_image` is not FULL.
pub type Image<'a> = Vec<Option<Cell<'a>>>;

/// One row's change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change<'a> {
    /// None of an insert.
    pub before: Option<Image<'a>>,
    /// None of a delete.
    pub after: Option<Image<'a>>,
}

impl Change<'_> {
    /// An image lacks columns.
    pub(crate) fn is_partial(&self) -> bool {
        let mut images = [&self.before, &self.after].into_iter().flatten();
        images.any(|image| image.iter().any(Option::is_none))
    }
}

/// Rows of one table that were changed in the same way.
#[derive(Clone, Debug)]
pub struct Rows {
    pub table: Arc<Table>,
    pub kind: Kind,
    /// Which columns are in the image before, and in the one after.
    before: Vec<u8>,
    after: Vec<u8>,
    data: Vec<u8>,
    /// The images after may tell of JSON documents what has changed, only.
    is_partial: bool,
}

/// True for events that hold rows.
pub(crate) fn are_rows(event: u8) -> bool {
    form(event).is_some()
}

/// What an event of this kind has: its rows' kind, whether bytes of no interest stand in front, and
/// whether it is compressed.
fn form(event: u8) -> Option<(Kind, bool, bool)> {
    let plain = |kinds: [u8; 2]| kinds.contains(&event).then_some(event == kinds[1]);
    if let Some(extra) = plain(code::WRITE) {
        return Some((Kind::Insert, extra, false));
    }
    if let Some(extra) = plain(code::UPDATE) {
        return Some((Kind::Update, extra, false));
    }
    if let Some(extra) = plain(code::DELETE) {
        return Some((Kind::Delete, extra, false));
    }
    if event == code::PARTIAL_UPDATE {
        return Some((Kind::Update, true, false));
    }
    let at = code::COMPRESSED_ROWS
        .iter()
        .position(|kind| *kind == event)?;
    let kind = [Kind::Insert, Kind::Update, Kind::Delete][at % 3];
    Some((kind, at > 2, true))
}

/// The id of the table that an event's rows are of. A made-up one ends a statement and has no rows.
pub(crate) fn table_id(data: &[u8]) -> Option<u64> {
    Bytes(data).number(6)
}

impl Rows {
    /// From an event of rows.
    pub(crate) fn of(event: u8, data: &[u8], table: Arc<Table>) -> Option<Rows> {
        let (kind, extra, compressed) = form(event)?;
        let mut rest = Bytes(data);
        rest.take(8)?;
        if extra {
            let bytes = usize::try_from(rest.number(2)?).ok()?;
            rest.take(bytes.checked_sub(2)?)?;
        }
        let columns = usize::try_from(rest.length()?).ok()?;
        if columns != table.columns.len() {
            return None;
        }
        let map = columns.div_ceil(8);
        let (before, after) = match kind {
            Kind::Insert => (&[][..], rest.take(map)?),
            Kind::Update => (rest.take(map)?, rest.take(map)?),
            Kind::Delete => (rest.take(map)?, &[][..]),
        };
        let data = match compressed {
            true => inflated(rest.0)?,
            false => rest.0.to_vec(),
        };
        Some(Rows {
            table,
            kind,
            before: before.to_vec(),
            after: after.to_vec(),
            data,
            is_partial: event == code::PARTIAL_UPDATE,
        })
    }

    /// What it takes in memory, besides its table.
    pub fn bytes(&self) -> usize {
        self.data.len() + self.before.len() + self.after.len()
    }

    /// The changes, one row after the other. An error is the last item: what is behind it cannot be
    /// read, and the text says why.
    pub fn changes(&self) -> impl Iterator<Item = Result<Change<'_>, String>> {
        let mut rest = Bytes(&self.data);
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed || rest.0.is_empty() {
                return None;
            }
            let left = rest.0.len();
            let change = self.change(&mut rest).and_then(|change| {
                // A row without a byte would come again and again.
                (rest.0.len() < left)
                    .then_some(change)
                    .ok_or_else(|| self.unread())
            });
            failed = change.is_err();
            Some(change)
        })
    }

    fn change<'a>(&'a self, rest: &mut Bytes<'a>) -> Result<Change<'a>, String> {
        if self.is_partial {
            return self.partial(rest);
        }
        let mut image = |map: &[u8]| self.image(map, rest, |_, column, rest| column.read(rest));
        let mut image = |map: &[u8]| image(map).ok_or_else(|| self.unread());
        Ok(match self.kind {
            Kind::Insert => Change {
                before: None,
                after: Some(image(&self.after)?),
            },
            Kind::Update => Change {
                before: Some(image(&self.before)?),
                after: Some(image(&self.after)?),
            },
            Kind::Delete => Change {
                before: Some(image(&self.before)?),
                after: None,
            },
        })
    }

    /// An update that may tell of JSON documents what has changed, only: the image before has what they were.
    fn partial<'a>(&'a self, rest: &mut Bytes<'a>) -> Result<Change<'a>, String> {
        /// Among the options of an image: documents may be told by what has changed.
        const DOCUMENTS: u64 = 1;
        let unread = || self.unread();
        let columns = &self.table.columns;
        let mut documents = vec![None; columns.len()];
        let before = self.image(&self.before, rest, |at, column, rest| {
            if column.code == column::JSON {
                documents[at] = column.document(&mut rest.clone());
            }
            column.read(rest)
        });
        let before = before.ok_or_else(unread)?;
        let options = rest.length().ok_or_else(unread)?;
        // Each JSON column has a bit, also one that is not logged.
        let json = |upto: usize| {
            columns[..upto]
                .iter()
                .filter(|it| it.code == column::JSON)
                .count()
        };
        let by_changes = match options {
            0 => &[],
            DOCUMENTS => rest
                .take(json(columns.len()).div_ceil(8))
                .ok_or_else(unread)?,
            _ => return Err(self.unread()),
        };
        let mut lacks = false;
        let after = self.image(&self.after, rest, |at, column, rest| {
            if column.code != column::JSON || !bit(by_changes, json(at)) {
                return column.read(rest);
            }
            let changes = column.document(rest)?;
            match documents[at] {
                Some(document) => Some(Cell::Json(jsonb::changed(document, changes)?)),
                None => {
                    lacks = before[at].is_none();
                    None
                }
            }
        });
        if lacks {
            return Err(format!(
                "rows of {}.{} tell only what changed in their JSON documents, and not what these were; set \
                 binlog_row_image=FULL, or binlog_row_value_options='', on the servers",
                self.table.database, self.table.name
            ));
        }
        Ok(Change {
            before: Some(before),
            after: Some(after.ok_or_else(unread)?),
        })
    }

    fn unread(&self) -> String {
        format!(
            "rows of {}.{} are not what their table map says",
            self.table.database, self.table.name
        )
    }

    /// An image whose cells that are not NULL `read` reads; it is given their columns, and the places of these.
    fn image<'a>(
        &'a self,
        map: &[u8],
        rest: &mut Bytes<'a>,
        mut read: impl FnMut(usize, &Column, &mut Bytes<'a>) -> Option<Cell<'a>>,
    ) -> Option<Image<'a>> {
        let columns = &self.table.columns;
        let present = (0..columns.len()).filter(|&at| bit(map, at)).count();
        let nulls = rest.take(present.div_ceil(8))?;
        let mut place = 0;
        let mut cells = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            if !bit(map, at) {
                cells.push(None);
                continue;
            }
            cells.push(Some(match bit(nulls, place) {
                true => Cell::Null,
                false => read(at, column, rest)?,
            }));
            place += 1;
        }
        Some(cells)
    }
}

/// What MariaDB has compressed: a byte that says how long the length is, the length, and a stream of
/// zlib.
pub(crate) fn inflated(raw: &[u8]) -> Option<Vec<u8>> {
    let mut rest = Bytes(raw);
    let head = rest.number(1)?;
    // Only zlib, which is 0, is known.
    if head & 0x70 != 0 {
        return None;
    }
    let bytes = usize::try_from(rest.big(usize::try_from(head & 7).ok()?)?).ok()?;
    let mut whole = Vec::new();
    let limit = u64::try_from(bytes).ok()?;
    let read = ZlibDecoder::new(rest.0).take(limit).read_to_end(&mut whole);
    (read.ok()? == bytes).then_some(whole)
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;
    use crate::table::table;

    /// A table map of `d.t (a INT, b VARCHAR(10))`.
    fn map() -> Vec<u8> {
        let mut data = vec![7, 0, 0, 0, 0, 0, 1, 0];
        data.extend(b"\x01d\0\x01t\0");
        data.extend([2, 3, 15, 2, 10, 0, 0b10]);
        // The sign of `a`, and both names.
        data.extend([1, 1, 0x80, 4, 4, 1, b'a', 1, b'b']);
        data
    }

    #[test]
    fn rows_are_read_by_their_table_map() {
        let (id, table) = table(&map(), Engine::MySql).expect("a table map");
        assert_eq!((id, &*table.database, &*table.name), (7, "d", "t"));
        let names: Vec<_> = table.columns.iter().map(|c| c.name.as_deref()).collect();
        assert_eq!(names, [Some("a"), Some("b")]);
        assert_eq!(table.columns[0].unsigned, Some(true));
        assert!(table.columns[1].nullable && !table.columns[0].nullable);
        let mut event = vec![7, 0, 0, 0, 0, 0, 1, 0, 2, 0, 2, 3, 3];
        event.extend([0b00, 1, 0, 0, 0, 1, b'x']);
        event.extend([0b10, 0xFE, 0xFF, 0xFF, 0xFF]);
        let rows = Rows::of(31, &event, Arc::new(table)).expect("an update");
        let changes: Vec<_> = rows.changes().collect();
        let [Ok(change)] = &changes[..] else {
            panic!("{changes:?}")
        };
        let before = change.before.as_ref().expect("it was there");
        assert_eq!(before[0], Some(Cell::Integer(1)));
        assert_eq!(before[1], Some(Cell::Bytes(b"x"[..].into())));
        let after = change.after.as_ref().expect("it is there");
        assert_eq!(after[..], [Some(Cell::Integer(-2)), Some(Cell::Null)]);
    }

    #[test]
    fn rows_that_end_too_early_are_an_error() {
        let (_, table) = table(&map(), Engine::MySql).expect("a table map");
        let table = Arc::new(table);
        let event = [7, 0, 0, 0, 0, 0, 1, 0, 2, 3, 0, 1, 0];
        let rows = Rows::of(23, &event, table.clone()).expect("an insert");
        let all: Vec<_> = rows.changes().collect();
        assert!(matches!(&all[..], [Err(why)] if why.contains("d.t")));
        let nothing = [7, 0, 0, 0, 0, 0, 1, 0, 2, 0, 9, 9];
        let rows = Rows::of(23, &nothing, table.clone()).expect("no column is logged");
        assert_eq!(rows.changes().filter(Result::is_err).count(), 1);
        assert!(Rows::of(23, &event[..8], table).is_none());
    }
}
