//! A client of the change stream (`GET /v1/changes`): plain HTTP, line by line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A line comes at least every five seconds: a stream that is silent for so long hangs.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A request and the head of its answer: the status, and the connection. The headers have their ends.
///
/// # Errors
/// Nobody listens, the connection ends, or nothing comes for [`SILENCE_MAX`].
pub fn ask(
    http: SocketAddr,
    query: &str,
    bearer: Option<&str>,
    headers: &str,
) -> io::Result<(u16, BufReader<TcpStream>)> {
    let mut stream = TcpStream::connect(http)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let bearer = bearer.map(|it| format!("Authorization: Bearer {it}\r\n"));
    let request = format!(
        "GET /v1/changes?{query} HTTP/1.1\r\nHost: localhost\r\n{headers}{}\r\n",
        bearer.unwrap_or_default()
    );
    stream.write_all(request.as_bytes())?;
    let mut from = BufReader::new(stream);
    let mut status = None;
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        status = status.or_else(|| line.split(' ').nth(1)?.parse().ok());
    }
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    Ok((status, from))
}

/// The lines of an answer that goes on.
pub struct Lines {
    from: BufReader<TcpStream>,
    /// What came of the current line.
    line: Vec<u8>,
    /// Bytes of the current chunk that have not come.
    chunk: usize,
}

impl Lines {
    pub fn new(from: BufReader<TcpStream>) -> Lines {
        Lines {
            from,
            line: Vec::new(),
            chunk: 0,
        }
    }

    /// The next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// The connection breaks, nothing comes for [`SILENCE_MAX`], or what comes is no line of JSON.
    pub fn read(&mut self) -> io::Result<Option<Value>> {
        loop {
            if self.chunk == 0 {
                let mut size = String::new();
                self.from.read_line(&mut size)?;
                if size.is_empty() || size == "0\r\n" {
                    return Ok(None);
                }
                let size = usize::from_str_radix(size.trim(), 16);
                self.chunk = size.map_err(|_| io::ErrorKind::InvalidData)?;
            }
            let limit = u64::try_from(self.chunk).unwrap_or(u64::MAX);
            let mut within = (&mut self.from).take(limit);
            let read = within.read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.chunk -= read;
            if self.chunk == 0 {
                let mut end = [0; 2];
                self.from.read_exact(&mut end)?;
            }
            if self.line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let parsed = serde_json::from_slice(&line);
                return parsed.map(Some).map_err(|error| {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    io::Error::new(io::ErrorKind::InvalidData, format!("{error}: {text}"))
                });
            }
        }
    }
}
