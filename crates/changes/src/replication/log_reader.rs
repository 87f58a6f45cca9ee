//! A binlog as a file, as a generator: it ends where the file does.

use std::io::Read;

use farm::{Engine, Position};

use super::Generator;
use crate::decoder::{Decoder, Trouble};
use crate::event::{Event, Logged, Note};
use crate::file::{LogFile, NoLogFile};

/// Why a file cannot be read on; [`LogReader::at`] says where.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error(transparent)]
    File(#[from] NoLogFile),
    #[error(transparent)]
    Event(#[from] Trouble),
}

/// Reads a file from its beginning.
pub struct LogReader<R> {
    log: LogFile<R>,
    decoder: Decoder,
    /// Where the last event begins.
    at: u64,
}

impl<R: Read> LogReader<R> {
    /// Reads the beginning.
    ///
    /// # Errors
    /// It is no binlog, or cannot be read.
    pub fn open(from: R) -> Result<LogReader<R>, NoLogFile> {
        let log = LogFile::open(from)?;
        let decoder = Decoder::new(log.engine(), Position::empty(log.engine()));
        Ok(LogReader {
            log,
            decoder,
            at: 0,
        })
    }

    /// Takes note of what the log says of itself, too.
    #[must_use]
    pub fn with_notes(mut self) -> LogReader<R> {
        self.decoder = self.decoder.with_notes();
        self
    }

    /// What the log has said of itself in front of the last event.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.decoder.take_notes()
    }

    /// The engine that has written it.
    pub fn engine(&self) -> Engine {
        self.log.engine()
    }

    /// Where in the file the last event begins that was read.
    pub fn at(&self) -> u64 {
        self.at
    }

    fn read(&mut self) -> Result<Option<Event>, Unreadable> {
        loop {
            if let Some(end) = self.decoder.due() {
                return Ok(Some(end));
            }
            self.at = self.log.at();
            let Some(raw) = self.log.read_event()? else {
                return Ok(None);
            };
            if let Some(event) = self.decoder.take(raw)? {
                return Ok(Some(event));
            }
        }
    }
}

impl<R: Read + Send> Generator for LogReader<R> {
    type Error = Unreadable;

    async fn next(&mut self) -> Result<Option<Event>, Unreadable> {
        self.read()
    }

    fn position(&self) -> &Position {
        self.decoder.position()
    }

    fn place(&self) -> (&str, u64) {
        self.decoder.place()
    }

    fn logged(&self) -> Logged {
        self.decoder.logged()
    }
}
