//! A memcached client for many gets.

use std::io::{BufRead, BufReader, Error, ErrorKind, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a key-value door.
pub struct Kv {
    stream: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Kv {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn connect(address: SocketAddr) -> Result<Kv> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Kv {
            stream: BufReader::with_capacity(64 << 10, stream),
            line: Vec::new(),
        })
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn say(&mut self, text: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(text)
    }

    fn read_line(&mut self) -> Result<()> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line)?;
        match self.line.strip_suffix(b"\r\n").map(<[u8]>::len) {
            Some(length) => {
                self.line.truncate(length);
                Ok(())
            }
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    /// A line, without its end.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn line(&mut self) -> Result<String> {
        self.read_line()?;
        Ok(String::from_utf8_lossy(&self.line).into_owned())
    }

    /// The items that answer a `get`, one by one; values have no line ends. `false` where an error came.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn items(&mut self, mut each: impl FnMut(&[u8], &[u8])) -> Result<bool> {
        let mut key = Vec::new();
        loop {
            self.read_line()?;
            match self.line.strip_prefix(b"VALUE ") {
                Some(head) => {
                    let length = head.iter().position(|byte| *byte == b' ');
                    key.clear();
                    key.extend_from_slice(&head[..length.unwrap_or(0)]);
                    self.read_line()?;
                    each(&key, &self.line);
                }
                None => return Ok(self.line == b"END"),
            }
        }
    }

    /// A key's value.
    ///
    /// # Errors
    /// The connection is gone, or an error came.
    pub fn get(&mut self, key: &str) -> Result<Option<String>> {
        self.say(format!("get {key}\r\n").as_bytes())?;
        let mut value = None;
        let good = self.items(|_, bytes| {
            value = Some(String::from_utf8_lossy(bytes).into_owned());
        })?;
        match good {
            true => Ok(value),
            false => Err(Error::other(String::from_utf8_lossy(&self.line))),
        }
    }

    /// What a `set` was answered.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn set(&mut self, key: &str, value: &str) -> Result<String> {
        let request = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
        self.say(request.as_bytes())?;
        self.line()
    }
}
