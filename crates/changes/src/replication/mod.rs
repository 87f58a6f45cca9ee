//! Replication in four stages, each of which may be somebody's own: a [`Generator`] tells events, a [`Filter`] says
//! which of them are wanted, a [`Transport`] brings their lines, an [`Applier`] carries out what they say.
//!
//! Job: what a stage has to do ([`Generator`], [`Filter`], [`Transport`], [`Applier`]), and how they follow one another
//! ([`carry`]). Here is a generator that reads a file ([`LogReader`]), and a transport that crosses no network ([`Local`]).
//!
//! Invariants: an applier gets transactions whole, and in the order of the transport; what cannot be told ends
//! everything with its reason, and is never passed over.
//!
//! Must not know: what is applied where, and how lines are brought from one machine to another.

mod carrying;
mod local;
mod log_reader;

pub use carrying::{Stopped, carry};
pub use local::Local;
pub use log_reader::{LogReader, Unreadable};

use std::fmt::Display;
use std::future::{Future, pending, ready};

use farm::Position;

use crate::apply::Transaction;
use crate::event::{Event, Logged};
use crate::rows::{Change, Image, Kind};
use crate::table::{Column, Table};

/// Tells the events of one server, in the order of its binlog.
pub trait Generator {
    type Error: Display;

    /// What comes next; `None` at the end of what there is. Dropped before it is done, it loses nothing.
    ///
    /// # Errors
    /// After one the generator is of no more use.
    fn next(&mut self) -> impl Future<Output = Result<Option<Event>, Self::Error>> + Send;

    /// All transactions whose end was told.
    fn position(&self) -> &Position;

    /// The file from which events come, and where in it the last one ended.
    fn place(&self) -> (&str, u64);

    /// What the log says of the transaction that began last.
    fn logged(&self) -> Logged;
}

impl<G: Generator> Generator for &mut G {
    type Error = G::Error;

    fn next(&mut self) -> impl Future<Output = Result<Option<Event>, G::Error>> + Send {
        (**self).next()
    }

    fn position(&self) -> &Position {
        (**self).position()
    }

    fn place(&self) -> (&str, u64) {
        (**self).place()
    }

    fn logged(&self) -> Logged {
        (**self).logged()
    }
}

/// Says which changes are wanted, and what of them. A method that is left out wants everything.
///
/// Definitions are told anyway. A change that is not wanted is counted all the same, so a token holds for every filter.
pub trait Filter {
    /// Changes of this table.
    fn has_table(&self, _database: &str, _table: &str) -> bool {
        true
    }

    /// Changes of this kind by a statement with this source tag; the tag is empty where the statement has none.
    fn has_rows(&self, _kind: Kind, _tag: &str) -> bool {
        true
    }

    /// This change. All columns of the table have their names.
    ///
    /// # Errors
    /// Nobody can say; the text has the reason, with which the stream ends.
    fn has_change(&self, _table: &Table, _change: &Change<'_>) -> Result<bool, String> {
        Ok(true)
    }

    /// This row, which was read for a snapshot.
    ///
    /// # Errors
    /// As with [`Filter::has_change`].
    fn has_read(&self, _table: &Table, _row: &Image<'_>) -> Result<bool, String> {
        Ok(true)
    }

    /// Whether this column is told. Those of the key are told as the key in any case. Records of Debezium have all columns.
    fn shows(&self, _column: &Column) -> bool {
        true
    }

    /// True where no column is held back, so that nobody has to ask for each of them.
    fn shows_all(&self) -> bool {
        false
    }
}

/// What both want.
impl<A: Filter, B: Filter> Filter for (A, B) {
    fn has_table(&self, database: &str, table: &str) -> bool {
        self.0.has_table(database, table) && self.1.has_table(database, table)
    }

    fn has_rows(&self, kind: Kind, tag: &str) -> bool {
        self.0.has_rows(kind, tag) && self.1.has_rows(kind, tag)
    }

    fn has_change(&self, table: &Table, change: &Change<'_>) -> Result<bool, String> {
        Ok(self.0.has_change(table, change)? && self.1.has_change(table, change)?)
    }

    fn has_read(&self, table: &Table, row: &Image<'_>) -> Result<bool, String> {
        Ok(self.0.has_read(table, row)? && self.1.has_read(table, row)?)
    }

    fn shows(&self, column: &Column) -> bool {
        self.0.shows(column) && self.1.shows(column)
    }

    fn shows_all(&self) -> bool {
        self.0.shows_all() && self.1.shows_all()
    }
}

/// Brings the lines of one stream, in their order.
pub trait Transport {
    type Error;

    /// The next line without its end; `None` when no more come. Dropped before it is done, it loses nothing.
    ///
    /// # Errors
    /// After one the transport is of no more use.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, Self::Error>>;
}

/// Carries out what transactions did. Only [`Applier::apply`] has to be there; an applier that is done with a transaction
/// when that method returns needs no more.
pub trait Applier {
    type Error;

    /// The token up to which everything was carried out before this applier began.
    fn reached(&self) -> Option<&str> {
        None
    }

    /// Carries a transaction out, or begins to. Its token is behind it.
    fn apply(&mut self, transaction: Transaction) -> impl Future<Output = Result<(), Self::Error>>;

    /// Nothing is between this token and what came before.
    fn alive(&mut self, _token: String) -> impl Future<Output = Result<(), Self::Error>> {
        ready(Ok(()))
    }

    /// The rows that a snapshot reads of this group have all come.
    fn complete(
        &mut self,
        _group: String,
        _token: String,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        ready(Ok(()))
    }

    /// False while too much is under way: no more comes until [`Applier::due`] has been there.
    fn has_room(&self) -> bool {
        true
    }

    /// Waits until something under way wants to go on. Dropped before it is done, it loses nothing.
    fn due(&mut self) -> impl Future<Output = ()> {
        pending()
    }

    /// Does what has become due.
    fn go_on(&mut self) -> impl Future<Output = Result<(), Self::Error>> {
        ready(Ok(()))
    }

    /// Ends what is under way: no more comes.
    fn finish(&mut self) -> impl Future<Output = Result<(), Self::Error>> {
        ready(Ok(()))
    }
}
