//! Minutes of digests as bytes, for a file that outlives the process.
//!
//! A minute is its end, then its rows: the digest, the names, the text where none of the minutes before in the same file
//! had it, then the numbers. Numbers take seven bits a byte, the lowest first. Whoever keeps the bytes checks them: what
//! was damaged is refused where that shows, and is wrong numbers where it does not.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sqltext::Digest;

use crate::history::{Minute, Past};
use crate::table::TEXT_BYTES_MAX;

/// A name of more bytes was not written by us.
const NAME_BYTES_MAX: usize = 4096;

/// Writes the minutes of one file, one behind the other.
#[derive(Debug, Default)]
pub struct MinuteWriter {
    /// Whose texts stand in the file.
    known: HashSet<Digest>,
}

/// Reads the minutes of one file, in their order.
#[derive(Debug, Default)]
pub struct MinuteReader {
    texts: HashMap<Digest, Arc<str>>,
}

impl MinuteWriter {
    /// The bytes of the minute that ended then, in milliseconds since 1970.
    pub fn encode(&mut self, end_ms: u64, rows: &[Past]) -> Vec<u8> {
        let mut out = Vec::with_capacity(rows.len() * 96);
        put(&mut out, end_ms);
        put(&mut out, rows.len() as u64);
        for row in rows {
            out.extend_from_slice(&row.digest.to_bytes());
            for name in [
                &row.user[..],
                &row.database,
                row.group.as_bytes(),
                row.tag.as_bytes(),
            ] {
                put(&mut out, name.len() as u64);
                out.extend_from_slice(name);
            }
            // One that is not known yet may be with the next minute.
            let is_new = !row.text.is_empty() && self.known.insert(row.digest);
            put(&mut out, if is_new { row.text.len() as u64 } else { 0 });
            if is_new {
                out.extend_from_slice(row.text.as_bytes());
            }
            put_minute(&mut out, &row.minute);
        }
        out
    }
}

impl MinuteReader {
    /// The end of a minute, and its rows; `None` for what [`MinuteWriter::encode`] did not write.
    pub fn decode(&mut self, bytes: &[u8]) -> Option<(u64, Vec<Past>)> {
        let mut rest = bytes;
        let end_ms = take(&mut rest)?;
        let count = take(&mut rest)?;
        let mut rows = Vec::new();
        for _ in 0..count {
            rows.push(self.row(&mut rest)?);
        }
        rest.is_empty().then_some((end_ms, rows))
    }

    fn row(&mut self, rest: &mut &[u8]) -> Option<Past> {
        let (digest, behind) = rest.split_first_chunk()?;
        let digest = Digest::from_bytes(*digest);
        *rest = behind;
        let user = take_bytes(rest, NAME_BYTES_MAX)?.into();
        let database = take_bytes(rest, NAME_BYTES_MAX)?.into();
        let group = str::from_utf8(take_bytes(rest, NAME_BYTES_MAX)?)
            .ok()?
            .into();
        let tag = str::from_utf8(take_bytes(rest, NAME_BYTES_MAX)?)
            .ok()?
            .into();
        let text = str::from_utf8(take_bytes(rest, TEXT_BYTES_MAX)?).ok()?;
        if !text.is_empty() {
            self.texts.insert(digest, text.into());
        }
        let text = self.texts.get(&digest).cloned();
        Some(Past {
            digest,
            user,
            database,
            group,
            tag,
            text: text.unwrap_or_else(|| "".into()),
            minute: take_minute(rest)?,
        })
    }
}

fn put_minute(out: &mut Vec<u8>, minute: &Minute) {
    for number in [
        u64::from(minute.calls),
        u64::from(minute.errors),
        minute.rows_sent,
        minute.rows_changed,
        minute.bytes,
        minute.total_us,
        minute.waiting_us,
        minute.most_us,
    ] {
        put(out, number);
    }
    let filled = minute
        .times
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0);
    put(out, filled.clone().count() as u64);
    for (at, count) in filled {
        put(out, at as u64);
        put(out, u64::from(*count));
    }
}

fn take_minute(rest: &mut &[u8]) -> Option<Minute> {
    let mut minute = Minute {
        calls: u32::try_from(take(rest)?).ok()?,
        errors: u32::try_from(take(rest)?).ok()?,
        rows_sent: take(rest)?,
        rows_changed: take(rest)?,
        bytes: take(rest)?,
        total_us: take(rest)?,
        waiting_us: take(rest)?,
        most_us: take(rest)?,
        ..Minute::default()
    };
    for _ in 0..take(rest)? {
        let at = usize::try_from(take(rest)?).ok()?;
        *minute.times.get_mut(at)? = u16::try_from(take(rest)?).ok()?;
    }
    Some(minute)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7F) as u8);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_bytes<'a>(rest: &mut &'a [u8], max: usize) -> Option<&'a [u8]> {
    let length = usize::try_from(take(rest)?).ok()?;
    let (bytes, behind) = rest.split_at_checked(length).filter(|_| length <= max)?;
    *rest = behind;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Call;

    fn past(tag: &str, text: &str) -> Past {
        let mut minute = Minute::default();
        for server_us in [1, 300, 70_000_000, u64::from(u32::MAX)] {
            minute.add(&Call {
                server_us,
                error: Some(1062),
                rows_sent: 5,
                bytes: 1 << 40,
                ..Call::default()
            });
        }
        Past {
            digest: Digest::of_normal(text),
            user: b"u\xFF"[..].into(),
            database: b""[..].into(),
            group: "g1".into(),
            tag: tag.into(),
            text: text.into(),
            minute,
        }
    }

    #[test]
    fn minutes_come_back_and_texts_stand_once() {
        let minutes = [
            (60_000, vec![past("a", "SELECT ?"), past("", "SELECT ä")]),
            (120_000, vec![past("b", "SELECT ?")]),
            (180_000, Vec::new()),
        ];
        let mut writer = MinuteWriter::default();
        let all: Vec<_> = minutes
            .iter()
            .map(|(end_ms, rows)| writer.encode(*end_ms, rows))
            .collect();
        let mut reader = MinuteReader::default();
        for (bytes, minute) in all.iter().zip(&minutes) {
            assert_eq!(reader.decode(bytes).as_ref(), Some(minute));
        }
        let has_text = |bytes: &[u8]| bytes.windows(8).any(|part| part == b"SELECT ?");
        assert!(has_text(&all[0]) && !has_text(&all[1]));
    }

    #[test]
    fn what_is_cut_or_longer_is_refused() {
        let bytes = MinuteWriter::default().encode(60_000, &[past("a", "SELECT ?")]);
        for end in 0..bytes.len() {
            assert_eq!(MinuteReader::default().decode(&bytes[..end]), None, "{end}");
        }
        let longer = [&bytes[..], b"\0"].concat();
        assert_eq!(MinuteReader::default().decode(&longer), None);
        // Nothing may come of any bytes but rows or a refusal.
        for at in 0..bytes.len() {
            let mut odd = bytes.clone();
            odd[at] ^= 0xFF;
            MinuteReader::default().decode(&odd);
        }
    }
}
