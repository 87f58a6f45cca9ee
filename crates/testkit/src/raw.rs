//! A connection on which bytes are said, and compared with what comes back.
//!
//! All of it panics when it goes otherwise than a test expects.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that says bytes and compares bytes.
pub struct Raw(pub TcpStream);

impl Raw {
    /// Connects.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).expect("the door listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket has time limits");
        Raw(stream)
    }

    /// Sends bytes.
    #[track_caller]
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).expect("the door takes it");
    }

    /// Reads as many bytes as are expected, and compares.
    #[track_caller]
    pub fn hears(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut heard = vec![0; expected.len()];
        if let Err(error) = self.0.read_exact(&mut heard) {
            let heard = String::from_utf8_lossy(&heard).into_owned();
            panic!("{error}: only {heard:?} of {:?}", show(expected));
        }
        assert_eq!(show(&heard), show(expected));
    }

    /// Sends bytes, and compares what comes.
    #[track_caller]
    pub fn asks(&mut self, bytes: impl AsRef<[u8]>, expected: impl AsRef<[u8]>) {
        self.say(bytes);
        self.hears(expected);
    }

    /// A line, without its end.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte).expect("a line comes");
            line.push(byte[0]);
        }
        show(&line[..line.len() - 2])
    }

    /// The door has closed the connection, and said nothing more.
    #[track_caller]
    pub fn is_closed(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end, too.
        let _ = self.0.read_to_end(&mut rest);
        assert_eq!(show(&rest), "");
    }
}

/// Bytes for people.
pub fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
