//! Which changes somebody wants. A filter leaves out what is surely not meant, and nothing else.

use std::cmp::Ordering;

use crate::cell::Cell;
use crate::debezium::Types;
use crate::own::DATABASE as OWN_DATABASE;
use crate::replication::Filter;
use crate::rows::{Change, Image, Kind};
use crate::table::{Column, Table};

/// Which changes somebody wants: those of any of the databases, of any of the tables, and so on, where some are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub databases: Vec<String>,
    /// `TABLE` or `DATABASE.TABLE`.
    pub tables: Vec<String>,
    /// What became of rows; those that a snapshot reads are wanted anyway.
    pub kinds: Vec<Kind>,
    /// Source tags of the statements that changed rows.
    pub sources: Vec<String>,
    /// Only these columns are told, beside the key; an UPDATE that changes none of them is not.
    pub columns: Vec<String>,
    /// Rows whose key was or is in it.
    pub keys: KeyRange,
}

/// From one value of a primary key's first column to another one, both among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    pub from: Option<String>,
    pub to: Option<String>,
}

impl Kind {
    /// The kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        match name {
            "insert" => Some(Kind::Insert),
            "update" => Some(Kind::Update),
            "delete" => Some(Kind::Delete),
            _ => None,
        }
    }
}

impl Wanted {
    /// Whether changes of this table are wanted.
    pub fn has(&self, database: &str, table: &str) -> bool {
        let in_database =
            self.databases.is_empty() || self.databases.iter().any(|it| it == database);
        let named = |it: &String| match it.split_once('.') {
            Some((of, name)) => of == database && name == table,
            None => it == table,
        };
        let is_table = self.tables.is_empty() || self.tables.iter().any(named);
        in_database && is_table && database != OWN_DATABASE
    }

    /// Why this cannot be told in a form.
    pub fn objection(&self, types: &Types) -> Option<&'static str> {
        let is_own = *types == Types::Heddle;
        (!is_own && !self.columns.is_empty())
            .then_some("records of Debezium have all columns: leave column out, or types")
    }

    fn changes_shown(&self, table: &Table, before: &Image<'_>, after: &Image<'_>) -> bool {
        let mut columns = table.columns.iter().enumerate();
        columns.any(|(at, column)| {
            let counts = self.shows(column) || table.key.contains(&at);
            counts && before.get(at) != after.get(at)
        })
    }

    /// A row whose key is in the range. Without a key it is nowhere, so it is not left out.
    ///
    /// # Errors
    /// The range is none for this table; the text says why.
    fn has_key(&self, table: &Table, image: &Image<'_>) -> Result<bool, String> {
        let KeyRange { from, to } = &self.keys;
        if from.is_none() && to.is_none() {
            return Ok(true);
        }
        let place = table.key.first().copied();
        let found = place.and_then(|at| {
            let cell = image.get(at)?.as_ref()?;
            Some((cell, table.columns.get(at)?))
        });
        let Some((cell, column)) = found else {
            return Ok(true);
        };
        let against = |bound: &Option<String>, outside: Ordering| match bound {
            Some(bound) => compared(cell, column, bound).map(|it| it != outside),
            None => Ok(true),
        };
        let of_table = |why| format!("{why} ({}.{})", table.database, table.name);
        let is_in = against(from, Ordering::Less)
            .and_then(|is_in| Ok(is_in && against(to, Ordering::Greater)?));
        is_in.map_err(of_table)
    }
}

impl Filter for Wanted {
    fn has_table(&self, database: &str, table: &str) -> bool {
        self.has(database, table)
    }

    fn has_rows(&self, kind: Kind, tag: &str) -> bool {
        let has_kind = self.kinds.is_empty() || self.kinds.contains(&kind);
        let has_source = self.sources.is_empty() || self.sources.iter().any(|it| it == tag);
        has_kind && has_source
    }

    /// # Errors
    /// The range of keys is none for this table; the text says why.
    fn has_change(&self, table: &Table, change: &Change<'_>) -> Result<bool, String> {
        if let (Some(before), Some(after)) = (&change.before, &change.after)
            && !self.columns.is_empty()
            && !self.changes_shown(table, before, after)
        {
            return Ok(false);
        }
        let mut images = [&change.before, &change.after].into_iter().flatten();
        images.try_fold(false, |any, image| Ok(any || self.has_key(table, image)?))
    }

    /// # Errors
    /// As with changes.
    fn has_read(&self, table: &Table, row: &Image<'_>) -> Result<bool, String> {
        self.has_key(table, row)
    }

    fn shows(&self, column: &Column) -> bool {
        let name = column.name.as_deref().unwrap_or_default();
        self.columns.is_empty() || self.columns.iter().any(|it| it.eq_ignore_ascii_case(name))
    }

    fn shows_all(&self) -> bool {
        self.columns.is_empty()
    }
}

/// A key's value against a bound of the same kind: numbers as numbers, texts and times byte by byte.
fn compared(cell: &Cell<'_>, column: &Column, bound: &str) -> Result<Ordering, String> {
    let name = column.name.as_deref().unwrap_or_default();
    let kind = column.type_name();
    Ok(match cell {
        Cell::Integer(number) => {
            let bound: i128 = bound
                .parse()
                .map_err(|_| format!("{bound:?} is no number, as the key {name} is"))?;
            let mask = u64::MAX >> (64 - column.integer_bits());
            let number = match column.unsigned {
                Some(true) => i128::from(*number as u64 & mask),
                _ => i128::from(*number),
            };
            number.cmp(&bound)
        }
        Cell::Text(text) if kind != "decimal" => (**text).cmp(bound),
        Cell::Bytes(bytes) => {
            let words = column.charset().and_then(|charset| charset.decode(bytes));
            match words {
                Some(words) => (*words).cmp(bound),
                None => (**bytes).cmp(bound.as_bytes()),
            }
        }
        _ => return Err(format!("keys like {name} ({kind}) have no ranges")),
    })
}
