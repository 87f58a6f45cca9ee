//! The tables of one group, read in chunks beside its part of the stream: its snapshot.
//!
//! The low watermark of a chunk is what the stream had told when the reading began, the high one what the server
//! shows when it is over. From the one to the other the keys of rows that the stream tells are noted; when it has told
//! everything up to the high watermark, the chunk is told without these rows, which the stream told better. So each
//! row of a chunk is told as it is at that moment of the stream, and nothing is locked or written.
//!
//! A statement that defines something may change how the table is read: a chunk that was under way is read anew, and
//! the table from its beginning; after a RENAME all tables, since tables are read in the order of their names.

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use changes::{Kind, Part, Rows, Unread, UnreadTable, Wanted, defines, is_harmless, key_of};
use engine::chunk::{Chunk, ChunkReader, Unreadable, tables};
use engine::{Error, Link, Login};
use farm::Position;
use tokio::task::JoinSet;

/// The first chunk of a stream has so many rows, the others as many as fit the bytes below.
const ROWS_FIRST: usize = 200;
const ROWS_MAX: usize = 2_000;
const CHUNK_BYTES: usize = 2 << 20;

/// With more keys noted the chunk is read anew.
const NOTED_MAX: usize = 1_000_000;

/// A table that has changed is looked at again after this time.
const PAUSE: Duration = Duration::from_millis(50);

/// What a reading task ends with.
pub(super) struct Done {
    reader: Option<ChunkReader>,
    tables: Option<Vec<(String, String)>>,
    /// `None` when nothing is unread.
    outcome: Result<Option<(UnreadTable, Chunk)>, Unreadable>,
}

pub(super) struct Reading {
    wanted: Wanted,
    unread: Unread,
    login: Option<Login>,
    timeout_ms: u64,
    /// All that may be read, when they were listed.
    tables: Option<Vec<(String, String)>>,
    reader: Option<ChunkReader>,
    running: JoinSet<Done>,
    rows_max: usize,
    /// What has been read and was not told.
    chunk: Option<(UnreadTable, Chunk)>,
    /// Keys of rows that were told since the chunk under way was begun.
    noted: HashSet<String>,
    is_spoiled: bool,
}

impl Reading {
    pub(super) fn new(unread: Unread, wanted: Wanted, timeout_ms: u64) -> Reading {
        Reading {
            wanted,
            unread,
            login: None,
            timeout_ms,
            tables: None,
            reader: None,
            running: JoinSet::new(),
            rows_max: ROWS_FIRST,
            chunk: None,
            noted: HashSet::new(),
            is_spoiled: false,
        }
    }

    pub(super) fn unread(&self) -> &Unread {
        &self.unread
    }

    /// Reads this server from here on. What another one said counts for nothing: it may be lost.
    pub(super) fn read_from(&mut self, login: &Login) {
        self.login = Some(login.clone());
        self.tables = None;
        self.reader = None;
        self.running = JoinSet::new();
        self.chunk = None;
    }

    /// Begins to read the next chunk, unless one is under way. Everything up to here has been told. True when
    /// it begins.
    pub(super) fn go_on(&mut self) -> bool {
        let Some(login) = self.login.clone() else {
            return false;
        };
        if self.chunk.is_some() || !self.running.is_empty() {
            return false;
        }
        self.noted.clear();
        self.is_spoiled = false;
        let next = Next {
            login,
            timeout_ms: self.timeout_ms,
            wanted: self.wanted.clone(),
            unread: self.unread.clone(),
            rows_max: self.rows_max,
        };
        let (tables, reader) = (self.tables.take(), self.reader.take());
        self.running.spawn(next.read(tables, reader));
        true
    }

    /// What was told cannot be noted row by row: the chunk is read anew.
    pub(super) fn spoil(&mut self) {
        self.is_spoiled = true;
    }

    /// Waits until a chunk has been read. Dropped before, nothing is lost.
    pub(super) async fn done(&mut self) -> Done {
        match self.running.join_next().await {
            Some(Ok(done)) => done,
            Some(Err(error)) => Done {
                reader: None,
                tables: None,
                outcome: Err(Unreadable::Table(format!(
                    "the reading of a table ended: {error}; please report it"
                ))),
            },
            None => pending().await,
        }
    }

    /// Takes over what was read; true when nothing is unread any more.
    pub(super) fn take(&mut self, done: Done) -> Result<bool, Unreadable> {
        self.reader = done.reader;
        self.tables = done.tables;
        match done.outcome {
            Ok(Some(read)) => self.chunk = Some(read),
            Ok(None) if self.is_spoiled => {}
            Ok(None) => return Ok(true),
            Err(Unreadable::Changed) => {
                self.tables = None;
                self.begin_table_again();
            }
            Err(unreadable) => return Err(unreadable),
        }
        Ok(false)
    }

    /// The chunk that may be told when so much has been, and the names of its rows that are not to be told: see
    /// [`name_of`].
    pub(super) fn due(&mut self, told: &Position) -> Option<(Chunk, HashSet<String>)> {
        let has_all = |(_, chunk): &mut (UnreadTable, Chunk)| told.covers(&chunk.position);
        let (of, mut chunk) = self.chunk.take_if(has_all)?;
        if self.is_spoiled {
            return None;
        }
        self.rows_max = fitting(chunk.bytes, chunk.read.rows.len());
        self.unread.from = Some(match chunk.last.take() {
            Some(last) => UnreadTable {
                behind: Some(last),
                ..of
            },
            None => next_name(of),
        });
        Some((chunk, std::mem::take(&mut self.noted)))
    }

    /// Notes what is told; true when the unread part has become more.
    ///
    /// # Errors
    /// The rows are not told whole; the text says which.
    pub(super) fn note(&mut self, part: &Part) -> Result<bool, String> {
        match part {
            Part::Rows(rows) => self.note_rows(rows).map(|()| false),
            Part::Statement(it) if defines(&it.text) && !is_harmless(&it.text) => {
                Ok(self.note_definition(&it.text))
            }
            // Which rows it changed is not known: what is being read may have them as they were before.
            Part::Statement(it) if !is_harmless(&it.text) => {
                self.is_spoiled = true;
                Ok(false)
            }
            Part::Statement(_) | Part::Source(_) | Part::Block(_) => Ok(false),
        }
    }

    fn note_rows(&mut self, rows: &Rows) -> Result<(), String> {
        let (database, name) = (&rows.table.database, &rows.table.name);
        if !self.wanted.has(database, name) || !self.unread.has(database, name) {
            return Ok(());
        }
        for change in rows.changes() {
            let change = change?;
            let mut images = [&change.before, &change.after].into_iter().flatten();
            if rows.kind != Kind::Delete && !images.all(|it| it.iter().all(Option::is_some)) {
                return Err(format!(
                    "the binlog has only some columns of {database}.{name}, and a snapshot needs all; set \
                     binlog_row_image=FULL on every server of the group"
                ));
            }
            for image in [&change.before, &change.after].into_iter().flatten() {
                if let Some(key) = key_of(image, &rows.table) {
                    self.noted.insert(name_of(database, name, &key));
                }
            }
        }
        self.is_spoiled |= self.noted.len() > NOTED_MAX;
        Ok(())
    }

    fn note_definition(&mut self, text: &[u8]) -> bool {
        self.is_spoiled = true;
        let text = String::from_utf8_lossy(text).to_lowercase();
        if text.contains("rename") {
            self.tables = None;
            self.unread = Unread::default();
            return true;
        }
        let current = self.unread.from.as_ref();
        let is_meant = current.is_some_and(|it| text.contains(&it.name.to_lowercase()));
        if is_meant {
            self.begin_table_again();
        }
        is_meant
    }

    fn begin_table_again(&mut self) {
        self.is_spoiled = true;
        if let Some(table) = &mut self.unread.from {
            table.behind = None;
        }
    }
}

/// A row's name among those of all tables.
pub(super) fn name_of(database: &str, table: &str, key: &str) -> String {
    format!("{database}.{table} {key}")
}

/// In front of all tables but this one and those before it.
fn next_name(table: UnreadTable) -> UnreadTable {
    UnreadTable {
        name: table.name + "\0",
        behind: None,
        ..table
    }
}

/// How many rows like these fit the bytes of a chunk.
fn fitting(bytes: usize, rows: usize) -> usize {
    let row_bytes = bytes.checked_div(rows).unwrap_or(0).max(1);
    (CHUNK_BYTES / row_bytes).clamp(1, ROWS_MAX)
}

/// The reading of one chunk.
struct Next {
    login: Login,
    timeout_ms: u64,
    wanted: Wanted,
    unread: Unread,
    rows_max: usize,
}

impl Next {
    async fn read(
        self,
        mut tables: Option<Vec<(String, String)>>,
        mut reader: Option<ChunkReader>,
    ) -> Done {
        let outcome = self.try_read(&mut tables, &mut reader).await;
        match &outcome {
            Ok(_) => {}
            Err(Unreadable::Changed) => tokio::time::sleep(PAUSE).await,
            // It may be in the middle of an answer.
            Err(_) => reader = None,
        }
        Done {
            reader,
            tables,
            outcome,
        }
    }

    async fn try_read(
        &self,
        known: &mut Option<Vec<(String, String)>>,
        reader: &mut Option<ChunkReader>,
    ) -> Result<Option<(UnreadTable, Chunk)>, Unreadable> {
        let all = match known {
            Some(all) => all,
            None => known.insert(self.list().await?),
        };
        let is_next = |(database, name): &&(String, String)| self.unread.has(database, name);
        let Some((database, name)) = all.iter().find(is_next) else {
            return Ok(None);
        };
        let begun = self.unread.from.as_ref();
        let begun = begun.filter(|it| it.database == *database && it.name == *name);
        let behind = begun.and_then(|it| it.behind.as_deref());
        let reader = match reader {
            Some(reader) => reader,
            None => reader.insert(ChunkReader::open(&self.login, self.timeout_ms).await?),
        };
        let chunk = reader.read((database, name), behind, self.rows_max).await?;
        let of = UnreadTable {
            database: database.clone(),
            name: name.clone(),
            behind: None,
        };
        Ok(Some((of, chunk)))
    }

    /// The tables that are wanted.
    async fn list(&self) -> Result<Vec<(String, String)>, Error> {
        let mut link = Link::open(&self.login, self.timeout_ms).await?;
        let mut all = tables(&mut link, self.timeout_ms).await?;
        all.retain(|(database, name)| self.wanted.has(database, name));
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use changes::Statement;

    use super::*;

    fn reading(unread: &str) -> Reading {
        let unread = Unread::parse(unread).expect("it is one");
        Reading::new(unread, Wanted::default(), 1)
    }

    fn definition(text: &str) -> Part {
        Part::Statement(Statement {
            database: "d".to_owned(),
            text: text.as_bytes().to_vec(),
            ..Statement::default()
        })
    }

    #[test]
    fn definitions_have_tables_read_again() {
        // d.tt, up to the key 7.
        let of = "64.7474.37";
        let mut one = reading(of);
        assert_eq!(
            one.note(&definition("ALTER TABLE other ADD a INT")),
            Ok(false)
        );
        assert!(one.is_spoiled && one.unread.to_string() == of);
        assert_eq!(one.note(&definition("ALTER TABLE TT ADD a INT")), Ok(true));
        assert_eq!(one.unread.to_string(), "64.7474.-");
        assert_eq!(one.note(&definition("RENAME TABLE a TO b")), Ok(true));
        assert_eq!(one.unread, Unread::default());
        let mut one = reading(of);
        let harmless = definition("DROP TEMPORARY TABLE tt");
        assert_eq!(one.note(&harmless), Ok(false));
        assert!(!one.is_spoiled);
        let change = definition("INSERT INTO tt VALUES (1)");
        assert_eq!(one.note(&change), Ok(false));
        assert!(one.is_spoiled && one.unread.to_string() == of);
    }

    #[test]
    fn chunks_have_as_many_rows_as_fit() {
        assert_eq!(fitting(0, 0), ROWS_MAX);
        assert_eq!(fitting(100 * 200, 200), ROWS_MAX);
        assert_eq!(fitting(10 << 20, 10), 2);
        assert_eq!(fitting(1 << 30, 10), 1);
    }

    #[test]
    fn a_table_that_was_read_is_behind() {
        let unread = Unread {
            from: Some(next_name(UnreadTable {
                database: "d".to_owned(),
                name: "t".to_owned(),
                behind: None,
            })),
        };
        assert!(!unread.has("d", "t") && unread.has("d", "t0") && unread.has("e", "a"));
    }
}
