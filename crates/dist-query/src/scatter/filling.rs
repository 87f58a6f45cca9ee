//! A scratch table while it is filled: by INSERTs while its rows are few, then by a file that its server
//! reads as the rows come, which takes it a quarter of the time.
//!
//! A server leaves rows of a client's file out that it does not like, and only warns of it. So a file counts
//! when each of its rows is there and the server has nothing to say; else the table is to be filled again
//! by INSERTs alone, whose errors are errors.

mod load;
pub(super) mod seen;

use backend::{Connection, ConnectionError, Upload};
use mysql_wire::command::Command;
use planner::Part;

use self::load::Loader;
use self::seen::Seen;
use super::pour::Stop;

/// The keys of a table with more bytes of rows are made when all rows are there.
const SORTED_BYTES_MIN: u64 = 1 << 20;

/// One table, and how its rows get there.
pub(super) struct Filling<'p> {
    pub loader: Loader<'p>,
    may_upload: bool,
    /// The server has refused to.
    pub refused: bool,
    /// The file that the server reads, and how many rows were there before it.
    upload: Option<(Upload, u64)>,
    /// The table's keys are made when all rows are there.
    keys_wait: bool,
}

impl<'p> Filling<'p> {
    /// `may_upload`: the server may be asked to read a file.
    pub fn new(part: &'p Part, may_upload: bool) -> Filling<'p> {
        Filling {
            loader: Loader::new(part, may_upload && part.load.is_some()),
            may_upload,
            refused: false,
            upload: None,
            keys_wait: false,
        }
    }

    /// The whole numbers of these columns are taken up while rows pass.
    pub fn seeing(mut self, columns: impl Iterator<Item = usize>) -> Filling<'p> {
        for column in columns {
            if self.loader.seen.iter().all(|it| it.column != column) {
                self.loader.seen.push(Seen::of(column));
            }
        }
        self
    }

    /// Sends the rows that wait. When there are more than one INSERT takes, the rest comes as a file; and when there
    /// are many, keys are made by sorting at the end, which takes half the time of making them row by row.
    pub async fn store(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        if let Some((upload, _)) = &mut self.upload {
            connection.upload(upload, self.loader.text()).await.map_err(Stop::Scratch)?;
            self.loader.clear();
            if self.keys_are_to_wait() {
                self.end_upload(connection).await?;
                self.let_keys_wait(connection).await?;
                self.may_upload = true;
                self.begin_upload(connection).await?;
            }
            return Ok(());
        }
        run(connection, self.loader.text()).await?;
        let more = self.loader.is_full();
        self.loader.clear();
        if more && self.keys_are_to_wait() {
            self.let_keys_wait(connection).await?;
        }
        match more && self.may_upload {
            true => self.begin_upload(connection).await,
            false => Ok(()),
        }
    }

    fn keys_are_to_wait(&self) -> bool {
        self.loader.part.sorts_keys && !self.keys_wait && self.loader.bytes >= SORTED_BYTES_MIN
    }

    async fn let_keys_wait(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        self.switch_keys(connection, "DISABLE").await?;
        self.keys_wait = true;
        Ok(())
    }

    async fn begin_upload(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        self.may_upload = false;
        let Some(load) = &self.loader.part.load else {
            return Ok(());
        };
        match connection.begin_upload(load.text.as_bytes()).await {
            Ok(upload) => {
                self.upload = Some((upload, self.loader.rows));
                self.loader.begin_file();
            }
            Err(ConnectionError::Refused { number, .. }) => {
                tracing::debug!(number, "the scratch server reads no file");
                self.refused = true;
                self.loader.give_up_file();
            }
            Err(why) => return Err(Stop::Scratch(why)),
        }
        Ok(())
    }

    /// All rows have come: they are in the table, or it is told why not.
    pub async fn finish(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        if !self.loader.is_empty() {
            self.store(connection).await?;
        }
        self.end_upload(connection).await?;
        match self.keys_wait {
            true => self.switch_keys(connection, "ENABLE").await,
            false => Ok(()),
        }
    }

    /// The file is over: its rows are in the table.
    async fn end_upload(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        let Some((upload, before)) = self.upload.take() else {
            return Ok(());
        };
        let read = connection.end_upload(upload).await;
        if let Some(forget) = self.loader.part.load.as_ref().and_then(|it| it.forget.as_ref()) {
            run(connection, forget.as_bytes()).await?;
        }
        let sent = self.loader.rows - before;
        match read {
            Ok(read) if read.affected_rows == sent && read.warnings == 0 => Ok(()),
            Ok(_) | Err(ConnectionError::Refused { .. }) => Err(Stop::Inexact),
            Err(why) => Err(Stop::Scratch(why)),
        }
    }

    /// The rows are not wanted any more: the connection can be used for what comes next, or breaks.
    pub async fn give_up(&mut self, connection: &mut Connection) {
        if let Some((upload, _)) = self.upload.take() {
            let ended = connection.end_upload(upload).await;
            if ended.is_ok()
                && let Some(forget) =
                    self.loader.part.load.as_ref().and_then(|it| it.forget.as_ref())
            {
                let _ = run(connection, forget.as_bytes()).await;
            }
        }
    }

    async fn switch_keys(&self, connection: &mut Connection, how: &str) -> Result<(), Stop> {
        let text = format!("ALTER TABLE {} {how} KEYS", self.loader.part.name);
        run(connection, text.as_bytes()).await
    }
}

async fn run(connection: &mut Connection, text: &[u8]) -> Result<(), Stop> {
    let done = connection.run(&[(Command::Query, text)]).await;
    done.map(drop).map_err(Stop::Scratch)
}
