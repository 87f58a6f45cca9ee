//! What a file has: up to where it is whole, and the token of its last line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use serde::Deserialize;
use zstd::stream::read::Decoder;

use crate::spec::Compression;

/// What a file has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Behind these bytes is what a writer did not end.
    pub(super) whole_bytes: u64,
    /// Of the last whole line that says one.
    pub(super) token: Option<String>,
    /// The whole lines.
    pub(super) lines: u64,
}

/// How a line begins that is no event: it repeats what the columns of a table are.
pub(super) const REPEATED: &[u8] = b"{\"event\":\"columns\"";

#[derive(Deserialize)]
struct Line {
    token: String,
}

/// Reads a file.
pub(super) fn scan(path: &Path, compress: Compression) -> io::Result<Found> {
    let file = BufReader::new(File::open(path)?);
    let (whole_bytes, lines, last) = match compress {
        Compression::None | Compression::Gzip => lines(file)?,
        Compression::Zstd => frames(file)?,
    };
    let token = match last {
        None => None,
        Some(line) => {
            let line: Result<Line, _> = serde_json::from_slice(&line);
            Some(line.map_err(io::Error::other)?.token)
        }
    };
    Ok(Found {
        whole_bytes,
        token,
        lines,
    })
}

/// Up to where lines are whole, how many there are, and the last one that is an event.
fn lines(mut from: impl BufRead) -> io::Result<(u64, u64, Option<Vec<u8>>)> {
    let (mut whole, mut count, mut last, mut line) = (0, 0, None, Vec::new());
    loop {
        line.clear();
        let read = from.read_until(b'\n', &mut line)?;
        if read == 0 || line.pop() != Some(b'\n') {
            return Ok((whole, count, last));
        }
        whole += u64::try_from(read).unwrap_or(u64::MAX);
        count += 1;
        if !line.starts_with(REPEATED) {
            last = Some(std::mem::take(&mut line));
        }
    }
}

/// Up to where frames are whole, each of which has whole lines, how many lines there are, and the last one.
fn frames(mut from: BufReader<File>) -> io::Result<(u64, u64, Option<Vec<u8>>)> {
    let (mut whole, mut count, mut last) = (0, 0, None);
    while !from.fill_buf()?.is_empty() {
        let mut text = Vec::new();
        let mut decoder = Decoder::with_buffer(&mut from)?.single_frame();
        if decoder.read_to_end(&mut text).is_err() {
            break;
        }
        drop(decoder);
        let (read, more, line) = lines(&*text)?;
        if read != u64::try_from(text.len()).unwrap_or(u64::MAX) {
            break;
        }
        last = line.or(last);
        count += more;
        whole = from.stream_position()?;
    }
    Ok((whole, count, last))
}
