//! A binlog as a file: its events one after the other, those of compressed transactions, too.
//!
//! Lengths are believed only as far as the bytes are there.

use std::io::Read;

use farm::Engine;

use crate::code;
use crate::decoder::RawEvent;
use crate::table::Bytes;

const MAGIC: [u8; 4] = *b"\xFEbin";
const HEADER_BYTES: usize = 19;
const CHECKSUM_BYTES: usize = 4;

/// Of the server's version in the first event, and what stands in front of it.
const VERSION_AT: usize = 2;
const VERSION_BYTES: usize = 50;

/// The servers write no longer event.
const EVENT_BYTES_MAX: usize = 2 << 30;

/// Why a file cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum NoLogFile {
    #[error("it is no binlog: it does not begin as one")]
    NotOne,
    #[error(
        "it is an encrypted binlog; read it from its server (`heddle binlog dump ADDRESS`), which has the key"
    )]
    Encrypted,
    #[error("the event at byte {at} is none: {what}")]
    Event { at: u64, what: &'static str },
    #[error("it cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

/// The header of an event, and its own bytes behind it.
struct Raw {
    kind: u8,
    server_id: u32,
    time_s: u32,
    end: u32,
    flags: u16,
    data: Vec<u8>,
}

/// Reads a file from its beginning.
pub struct LogFile<R> {
    from: R,
    at: u64,
    engine: Engine,
    has_checksums: bool,
    /// Events of a compressed transaction that come before the file goes on.
    inner: Option<(Vec<u8>, usize)>,
    current: Raw,
    /// What was read and nobody has taken; `None` where nobody asks.
    bytes: Option<Vec<u8>>,
}

impl<R: Read> LogFile<R> {
    /// Reads the beginning.
    ///
    /// # Errors
    /// It is no binlog, or cannot be read.
    pub fn open(from: R) -> Result<LogFile<R>, NoLogFile> {
        LogFile::opened(from, None)
    }

    /// The same for who wants the bytes; see [`LogFile::take_bytes`].
    ///
    /// # Errors
    /// It is no binlog, or cannot be read.
    pub fn open_for_bytes(from: R) -> Result<LogFile<R>, NoLogFile> {
        LogFile::opened(from, Some(MAGIC.to_vec()))
    }

    fn opened(mut from: R, bytes: Option<Vec<u8>>) -> Result<LogFile<R>, NoLogFile> {
        let mut magic = [0; 4];
        from.read_exact(&mut magic).map_err(|_| NoLogFile::NotOne)?;
        if magic != MAGIC {
            return Err(NoLogFile::NotOne);
        }
        let mut file = LogFile {
            from,
            at: 4,
            engine: Engine::MySql,
            has_checksums: false,
            inner: None,
            current: Raw {
                kind: 0,
                server_id: 0,
                time_s: 0,
                end: 0,
                flags: 0,
                data: Vec::new(),
            },
            bytes,
        };
        match file.read()? {
            Some(first) if first.kind == code::FORMAT => file.current = first,
            _ => return Err(NoLogFile::NotOne),
        }
        file.describe();
        Ok(file)
    }

    /// The engine of the server that wrote it.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Where in the file the next event begins.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The bytes of the file that were read since this was called, as they stand there. They end with an event; those of a
    /// compressed transaction come with the first event in it.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        self.bytes.as_mut().map_or(Vec::new(), std::mem::take)
    }

    /// The next event; `None` at the end, and where the server has not written an event whole.
    ///
    /// # Errors
    /// What comes is no event, or cannot be read.
    pub fn read_event(&mut self) -> Result<Option<RawEvent<'_>>, NoLogFile> {
        self.current = loop {
            if let Some(event) = self.unpacked()? {
                break event;
            }
            let Some(event) = self.read()? else {
                return Ok(None);
            };
            match event.kind {
                code::START_ENCRYPTION => return Err(NoLogFile::Encrypted),
                code::TRANSACTION_PAYLOAD => {
                    let payload = payload(&event.data);
                    let what = "a compressed transaction that cannot be unpacked";
                    let whole = payload.ok_or_else(|| self.wrong(what))?;
                    self.inner = Some((whole, 0));
                }
                _ => break event,
            }
        };
        let Raw {
            kind,
            server_id,
            time_s,
            end,
            flags,
            ref data,
        } = self.current;
        Ok(Some(RawEvent {
            kind,
            server_id,
            time_s,
            end,
            flags,
            data,
        }))
    }

    /// The next event of a compressed transaction that is being read.
    fn unpacked(&mut self) -> Result<Option<Raw>, NoLogFile> {
        let Some((bytes, at)) = &mut self.inner else {
            return Ok(None);
        };
        let mut rest = &bytes[*at..];
        if rest.is_empty() {
            self.inner = None;
            return Ok(None);
        }
        let Some(event) = raw(&mut rest) else {
            return Err(self.wrong("a compressed transaction that ends too early"));
        };
        *at = bytes.len() - rest.len();
        Ok(Some(event))
    }

    fn wrong(&self, what: &'static str) -> NoLogFile {
        NoLogFile::Event { at: self.at, what }
    }

    /// The next event of the file, without its checksum.
    fn read(&mut self) -> Result<Option<Raw>, NoLogFile> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        let limit = HEADER_BYTES as u64;
        self.from.by_ref().take(limit).read_to_end(&mut header)?;
        if header.len() < HEADER_BYTES {
            return Ok(None);
        }
        let (mut event, bytes) = head(&header).ok_or_else(|| self.wrong("its header"))?;
        let body = bytes.checked_sub(HEADER_BYTES);
        let body = body.filter(|_| bytes <= EVENT_BYTES_MAX);
        let body = body.ok_or_else(|| self.wrong("its length"))?;
        let limit = body as u64;
        self.from
            .by_ref()
            .take(limit)
            .read_to_end(&mut event.data)?;
        if event.data.len() < body {
            return Ok(None);
        }
        self.at += bytes as u64;
        if let Some(bytes) = &mut self.bytes {
            bytes.extend_from_slice(&header);
            bytes.extend_from_slice(&event.data);
        }
        // The first event says whether the others have one, and always has one itself.
        if self.has_checksums && event.kind != code::FORMAT {
            let without = body.checked_sub(CHECKSUM_BYTES);
            let without = without.ok_or_else(|| self.wrong("it has no checksum"))?;
            event.data.truncate(without);
        }
        Ok(Some(event))
    }

    /// Takes over what the first event says of the others.
    fn describe(&mut self) {
        /// In front of a checksum stands how it is made.
        const KIND_FROM_END: usize = CHECKSUM_BYTES + 1;
        let data = &self.current.data;
        let version = data.get(VERSION_AT..VERSION_AT + VERSION_BYTES);
        let version = String::from_utf8_lossy(version.unwrap_or_default());
        if version.contains("MariaDB") {
            self.engine = Engine::MariaDb;
        }
        let kind = data.len().checked_sub(KIND_FROM_END).map(|at| data[at]);
        self.has_checksums = kind == Some(1);
    }
}

/// An event that is to have its data yet, and its length.
fn head(header: &[u8]) -> Option<(Raw, usize)> {
    let mut rest = Bytes(header);
    let time_s = u32::try_from(rest.number(4)?).ok()?;
    let kind = u8::try_from(rest.number(1)?).ok()?;
    let server_id = u32::try_from(rest.number(4)?).ok()?;
    let bytes = usize::try_from(rest.number(4)?).ok()?;
    let end = u32::try_from(rest.number(4)?).ok()?;
    let flags = u16::try_from(rest.number(2)?).ok()?;
    let event = Raw {
        kind,
        server_id,
        time_s,
        end,
        flags,
        data: Vec::new(),
    };
    Some((event, bytes))
}

/// The event at the front of these bytes, which has no checksum.
fn raw(from: &mut &[u8]) -> Option<Raw> {
    let (mut event, bytes) = head(from.get(..HEADER_BYTES)?)?;
    let (whole, rest) = from.split_at_checked(bytes.max(HEADER_BYTES))?;
    event.data = whole[HEADER_BYTES..].to_vec();
    *from = rest;
    Some(event)
}

/// The events of a compressed transaction: fields with a number, a length and what they hold, a zero, and the
/// compressed bytes.
fn payload(data: &[u8]) -> Option<Vec<u8>> {
    const END: u64 = 0;
    const COMPRESSION: u64 = 2;
    const ZSTD: u64 = 0;
    const NONE: u64 = 255;
    let mut rest = Bytes(data);
    let mut way = ZSTD;
    loop {
        let field = rest.length()?;
        if field == END {
            break;
        }
        let mut held = Bytes(rest.text()?);
        if field == COMPRESSION {
            way = held.length()?;
        }
    }
    let compressed = rest.0;
    match way {
        NONE => Some(compressed.to_vec()),
        ZSTD => {
            let mut whole = Vec::new();
            let reader = zstd::Decoder::new(compressed).ok()?;
            let limit = EVENT_BYTES_MAX as u64;
            reader.take(limit).read_to_end(&mut whole).ok()?;
            Some(whole)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u8, data: &[u8]) -> Vec<u8> {
        let mut out = 7_u32.to_le_bytes().to_vec();
        out.push(kind);
        out.extend(3_u32.to_le_bytes());
        let bytes = u32::try_from(HEADER_BYTES + data.len()).expect("short");
        out.extend(bytes.to_le_bytes());
        out.extend([0; 6]);
        out.extend(data);
        out
    }

    fn file(version: &str, checksums: bool, events: &[Vec<u8>]) -> Vec<u8> {
        let mut format = vec![4, 0];
        format.extend(version.as_bytes());
        format.resize(VERSION_AT + VERSION_BYTES, 0);
        format.extend([0; 4]);
        format.extend([19, 0, 0, u8::from(checksums), 1, 2, 3, 4]);
        let mut out = MAGIC.to_vec();
        out.extend(event(code::FORMAT, &format));
        out.extend(events.concat());
        out
    }

    /// Kinds and data of the events behind the first.
    fn read(bytes: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, NoLogFile> {
        let mut file = LogFile::open(bytes)?;
        let mut found = Vec::new();
        while let Some(event) = file.read_event()? {
            assert_eq!((event.time_s, event.server_id), (7, 3));
            found.push((event.kind, event.data.to_vec()));
        }
        Ok(found)
    }

    #[test]
    fn events_come_one_after_the_other() {
        let events = [event(16, b"12345678"), event(3, b"")];
        let bytes = file("8.0.45", false, &events);
        let found = read(&bytes).expect("a file");
        assert_eq!(found, [(16, b"12345678".to_vec()), (3, Vec::new())]);
        let with = [event(16, b"12345678ssss")];
        let bytes = file("10.11.6-MariaDB", true, &with);
        assert_eq!(read(&bytes).expect("a file"), [(16, b"12345678".to_vec())]);
        assert_eq!(
            LogFile::open(&bytes[..]).expect("one").engine(),
            Engine::MariaDb
        );
        // What the server has not written whole is not there yet.
        assert_eq!(read(&bytes[..bytes.len() - 1]).expect("a file"), []);
    }

    #[test]
    fn compressed_transactions_are_unpacked() {
        let inner = [event(16, b"12345678"), event(3, b"")].concat();
        let packed = zstd::encode_all(&inner[..], 0).expect("zstd");
        let mut data = vec![2, 1, 0, 3, 1, 46, 0];
        data.extend(&packed);
        let found = read(&file("8.0.45", false, &[event(40, &data), event(4, b"x")]));
        let kinds: Vec<u8> = found.expect("a file").iter().map(|it| it.0).collect();
        assert_eq!(kinds, [16, 3, 4]);
        let bytes = file("8.0.45", false, &[event(40, &data), event(4, b"x")]);
        let mut whole = LogFile::open_for_bytes(&bytes[..]).expect("a file");
        let mut taken = vec![whole.take_bytes()];
        while whole.read_event().expect("an event").is_some() {
            taken.push(whole.take_bytes());
        }
        let empty: Vec<bool> = taken.iter().map(Vec::is_empty).collect();
        assert_eq!(empty, [false, false, true, false]);
        assert_eq!(taken.concat(), bytes);
        data[8] ^= 0xFF;
        assert!(read(&file("8.0.45", false, &[event(40, &data)])).is_err());
    }

    #[test]
    fn what_is_no_binlog_is_refused() {
        assert!(matches!(
            LogFile::open(&b"\xFEbi"[..]),
            Err(NoLogFile::NotOne)
        ));
        assert!(matches!(
            LogFile::open(&b"#!/bin/sh"[..]),
            Err(NoLogFile::NotOne)
        ));
        let encrypted = file("8.0.45", false, &[event(code::START_ENCRYPTION, b"")]);
        assert!(matches!(read(&encrypted), Err(NoLogFile::Encrypted)));
        let mut short = event(16, b"");
        short[9] = 5;
        assert!(matches!(
            read(&file("8.0.45", false, &[short])),
            Err(NoLogFile::Event { .. })
        ));
    }
}
