//! What came of a stream, cut into batches.

use sinks::{Message, Read, read};

/// A batch has no more events, and no more bytes unless one event has.
const EVENTS_MAX: usize = 500;
const BYTES_MAX: usize = 256 << 10;

/// What came and is not delivered.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    messages: Vec<Message>,
    bytes: usize,
    /// The stream is behind all of this.
    pub(super) token: Option<String>,
    /// The stream ended with it: the event's name, and why.
    pub(super) end: Option<(String, String)>,
}

impl Gathered {
    /// Takes whole lines.
    ///
    /// # Errors
    /// One of them is no line of a change stream.
    pub(super) fn take(&mut self, lines: &[u8]) -> Result<(), String> {
        let lines = lines.split(|&byte| byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            match read(line)? {
                Read::Message(message) => {
                    self.bytes += message.line.len();
                    self.token = Some(message.token.clone());
                    self.messages.push(*message);
                }
                Read::Position(token) => self.token = Some(token),
                Read::End(event, why) => self.end = Some((event, why)),
            }
        }
        Ok(())
    }

    /// More may come into the same batch.
    pub(super) fn has_room(&self) -> bool {
        self.end.is_none() && self.messages.len() < EVENTS_MAX && self.bytes < BYTES_MAX
    }

    /// The events in their order, in batches.
    pub(super) fn batches(&self) -> Vec<&[Message]> {
        let (mut all, mut begin, mut bytes) = (Vec::new(), 0, 0);
        for (at, message) in self.messages.iter().enumerate() {
            let is_full = at - begin >= EVENTS_MAX || bytes + message.line.len() > BYTES_MAX;
            if is_full && at > begin {
                all.push(&self.messages[begin..at]);
                (begin, bytes) = (at, 0);
            }
            bytes += message.line.len();
        }
        if begin < self.messages.len() {
            all.push(&self.messages[begin..]);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize, bytes: usize) -> String {
        let text = "x".repeat(bytes);
        format!(r#"{{"token":"{number}","event":"ddl","group":"g","gtid":"0-1-1","sql":"{text}"}}"#)
    }

    fn sizes(lines: &[String]) -> Vec<usize> {
        let mut gathered = Gathered::default();
        gathered.take(lines.join("\n").as_bytes()).expect("lines");
        gathered.batches().iter().map(|it| it.len()).collect()
    }

    #[test]
    fn batches_have_so_many_events_and_bytes() {
        assert!(sizes(&[]).is_empty());
        let many: Vec<String> = (0..EVENTS_MAX + 1).map(|number| line(number, 1)).collect();
        assert_eq!(sizes(&many), [EVENTS_MAX, 1]);
        let half = BYTES_MAX / 2;
        let long = [half, half, BYTES_MAX * 2, 1].map(|bytes| line(1, bytes));
        assert_eq!(sizes(&long), [1, 1, 1, 1]);
    }

    #[test]
    fn a_heartbeat_moves_the_token_and_an_end_ends() {
        let mut gathered = Gathered::default();
        let text = "{\"token\":\"a\",\"event\":\"heartbeat\"}\n";
        assert_eq!(gathered.take(text.as_bytes()), Ok(()));
        assert!(gathered.has_room() && gathered.batches().is_empty());
        assert_eq!(gathered.token.as_deref(), Some("a"));
        let text = "{\"token\":null,\"event\":\"gap\",\"error\":\"w\"}\n";
        assert_eq!(gathered.take(text.as_bytes()), Ok(()));
        assert_eq!(gathered.end, Some(("gap".to_owned(), "w".to_owned())));
        assert!(!gathered.has_room());
        assert!(gathered.take(b"no line").is_err());
    }
}
