//! A server's binlog as it grows: transactions with the rows that they changed.
//!
//! What is read is in the order in which the server committed it, and begins behind a position, so
//! it goes on at any server of a group that has the position. An event may arrive before the server
//! itself shows the change (it waits for a replica in between), and a transaction that was begun
//! counts only when its end has arrived.
//!
//! The statements behind rows are told by MySQL. MariaDB has them in events that its servers send only
//! to those who ask for them, as [`Reader::with_sources`] does.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use changes::replication::Generator;
use changes::{Decoder, Event, Logged, Note, RawEvent, Trouble, code};
use enginesql::quoted;
use farm::{Engine, Position};
use futures_util::StreamExt;
use mysql_async::binlog::events::TransactionPayloadEvent;
use mysql_async::{BinlogStream, BinlogStreamRequest};

use super::column_types::column_types;
use super::raw::RawLog;
use super::sids::sids;
use super::{OPERATION, unreadable};
use crate::error::Error;
use crate::link::{Link, Login};

/// So many heartbeats may fail to come.
const SILENT_HEARTBEATS: u32 = 3;

/// A reader of one server's binlog.
pub struct Reader {
    stream: BinlogStream,
    server: String,
    decoder: Decoder,
    silence: Duration,
    /// The events as a file has them, where somebody asks.
    raw: Option<RawLog>,
    /// Whom to ask for what the log does not tell of columns, and for how long.
    definitions: Option<(Login, u64)>,
}

/// A number by which a server knows a reader. Two readers with one number end each other, also those
/// of other routers, so it is made by chance, and far from what people give their servers.
pub(super) fn reader_id() -> u32 {
    let chance = RandomState::new().hash_one(std::process::id());
    0xF000_0000 | u32::try_from(chance & 0x0FFF_FFFF).unwrap_or(0)
}

/// True when a reader cannot begin at its position on this server: the server has purged what comes
/// behind it, or has not got it itself.
pub fn is_gap(error: &Error) -> bool {
    /// ER_MASTER_FATAL_ERROR_READING_BINLOG.
    const FATAL: u16 = 1236;
    error.number() == Some(FATAL)
}

impl Reader {
    /// Begins behind `from`. The server says that it is there every `heartbeat_ms`.
    ///
    /// # Errors
    /// It cannot be reached or asked. That the position cannot be had there is said by
    /// [`Reader::next`]; see [`is_gap`].
    pub async fn open(
        login: &Login,
        from: &Position,
        heartbeat_ms: u64,
        timeout_ms: u64,
    ) -> Result<Reader, Error> {
        let link = Link::open_for_rows(login, timeout_ms).await?;
        Reader::on(link, from, heartbeat_ms, timeout_ms).await
    }

    /// The same with the statements behind rows, of MariaDB, too, and with the types of columns that it does not log.
    ///
    /// # Errors
    /// As with [`Reader::open`].
    pub async fn with_sources(
        login: &Login,
        from: &Position,
        heartbeat_ms: u64,
        timeout_ms: u64,
    ) -> Result<Reader, Error> {
        let link = Link::open_for_sources(login, timeout_ms).await?;
        let mut reader = Reader::on(link, from, heartbeat_ms, timeout_ms).await?;
        reader.definitions = Some((login.clone(), timeout_ms));
        Ok(reader)
    }

    async fn on(
        mut link: Link,
        from: &Position,
        heartbeat_ms: u64,
        timeout_ms: u64,
    ) -> Result<Reader, Error> {
        let (server, engine) = (link.address().to_owned(), link.version().engine);
        let nanos = heartbeat_ms.saturating_mul(1_000_000);
        let mut settings =
            format!("SET @master_heartbeat_period={nanos}, @source_heartbeat_period={nanos}");
        if engine == Engine::MariaDb {
            let position = quoted(&from.to_string());
            settings.push_str(&format!(
                ", @mariadb_slave_capability=4, @slave_gtid_strict_mode=1, \
                 @slave_gtid_ignore_duplicates=0, @slave_connect_state={position}"
            ));
        }
        link.run(OPERATION, &settings, timeout_ms).await?;
        let mut request = BinlogStreamRequest::new(reader_id()).with_pos(4);
        if engine == Engine::MySql {
            let sids = sids(from).map_err(|error| unreadable(&server, &error))?;
            request = request.with_gtid().with_gtid_set(sids);
        }
        let failed = |error: &mysql_async::Error| Error::from_driver(OPERATION, &server, error);
        let stream = link.into_driver().get_binlog_stream(request).await;
        let stream = stream.map_err(|error| failed(&error))?;
        Ok(Reader {
            stream,
            server,
            decoder: Decoder::new(engine, from.clone()),
            silence: Duration::from_millis(heartbeat_ms) * SILENT_HEARTBEATS,
            raw: None,
            definitions: None,
        })
    }

    /// For who wants to know what the log says of itself; to be called before anything is read. See
    /// [`Reader::take_notes`].
    #[must_use]
    pub fn with_notes(mut self) -> Reader {
        self.decoder = self.decoder.with_notes();
        self
    }

    /// What the log has said of itself in front of the last event.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.decoder.take_notes()
    }

    /// For who wants the events as a file has them; to be called before anything is read. See [`Reader::take_bytes`].
    #[must_use]
    pub fn with_bytes(mut self) -> Reader {
        self.raw = Some(RawLog::new());
        self
    }

    /// What has been read since this was called, as a binlog's file has it. The first bytes are a file's beginning.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        let raw = self.raw.as_mut();
        raw.map_or(Vec::new(), |raw| std::mem::take(&mut raw.bytes))
    }

    /// All transactions whose end was told: where to go on, here or elsewhere.
    pub fn position(&self) -> &Position {
        self.decoder.position()
    }

    /// The file of the server's from which events come, and where in it the last one ended; a server
    /// may not say it of events within a transaction.
    pub fn place(&self) -> (&str, u64) {
        self.decoder.place()
    }

    /// When the last event was logged, by its server's clock; seconds since 1970.
    pub fn time_s(&self) -> u32 {
        self.decoder.time_s()
    }

    /// What the log says of the transaction that began last.
    pub fn logged(&self) -> Logged {
        self.decoder.logged()
    }

    /// What comes next. Dropped before it is done, nothing is lost.
    ///
    /// # Errors
    /// After an error the reader is of no more use: [`Error::Timeout`] when the server said nothing for
    /// three heartbeats, [`Error::Reply`] for what cannot be read, others as the server told them.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(end) = self.decoder.due() {
                return Ok(end);
            }
            if let (Some((login, timeout_ms)), Some(table)) =
                (&self.definitions, self.decoder.untold())
            {
                let types = column_types(login, table, *timeout_ms).await?;
                self.decoder.tell_types(types);
            }
            let raw = match tokio::time::timeout(self.silence, self.stream.next()).await {
                Ok(Some(raw)) => raw,
                Ok(None) => return Err(self.lost("the server ended the stream")),
                Err(_) => {
                    return Err(Error::Timeout {
                        operation: OPERATION,
                        server: self.server.clone(),
                        timeout_ms: u64::try_from(self.silence.as_millis()).unwrap_or(u64::MAX),
                    });
                }
            };
            let raw = raw.map_err(|error| Error::from_driver(OPERATION, &self.server, &error))?;
            if let Some(log) = &mut self.raw {
                log.take(&raw)
                    .map_err(|error| unreadable(&self.server, &error))?;
            }
            let header = raw.header();
            let kind = header.event_type_raw();
            // The driver passes over what it cannot unpack.
            if kind == code::TRANSACTION_PAYLOAD
                && raw.read_event::<TransactionPayloadEvent<'_>>().is_err()
            {
                return Err(unreadable(
                    &self.server,
                    &"a compressed transaction that is none",
                ));
            }
            let told = self.decoder.take(RawEvent {
                kind,
                server_id: header.server_id(),
                time_s: header.timestamp(),
                end: header.log_pos(),
                flags: header.flags_raw(),
                data: raw.data(),
            });
            match told {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(Trouble::Incident) => return Err(self.lost(&Trouble::Incident.to_string())),
                Err(trouble) => return Err(unreadable(&self.server, &trouble)),
            }
        }
    }

    fn lost(&self, reason: &str) -> Error {
        Error::Lost {
            operation: OPERATION,
            server: self.server.clone(),
            reason: reason.to_owned(),
        }
    }
}

impl Generator for Reader {
    type Error = Error;

    async fn next(&mut self) -> Result<Option<Event>, Error> {
        Reader::next(self).await.map(Some)
    }

    fn position(&self) -> &Position {
        Reader::position(self)
    }

    fn place(&self) -> (&str, u64) {
        Reader::place(self)
    }

    fn logged(&self) -> Logged {
        Reader::logged(self)
    }
}
