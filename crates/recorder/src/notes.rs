//! What a dump says beside its steps: the names of servers and groups, and what it was made for.

use std::collections::BTreeMap;

use crate::format::{Head, KIND_NOTES};

/// A word of a note is cut to so many bytes.
const WORD_BYTES_MAX: usize = 300;

/// Names that go with numbers of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Address and group by the server's number.
    pub servers: BTreeMap<u32, (String, String)>,
    pub groups: BTreeMap<u32, String>,
    /// Why the dump was made; empty in notes of a router that runs.
    pub cause: String,
    /// The release of the router.
    pub version: String,
}

impl Notes {
    /// As a section of a trace.
    pub fn section(&self) -> Vec<u8> {
        let mut body = String::new();
        let word = |text: &str| -> String {
            let plain = text
                .chars()
                .map(|letter| if letter.is_whitespace() { '_' } else { letter });
            plain.take(WORD_BYTES_MAX / 4).collect()
        };
        for (kind, text) in [("cause", &self.cause), ("version", &self.version)] {
            if !text.is_empty() {
                body += &format!("{kind} {}\n", word(text));
            }
        }
        for (number, name) in &self.groups {
            body += &format!("group {number} {}\n", word(name));
        }
        for (number, (address, group)) in &self.servers {
            body += &format!("server {number} {} {}\n", word(address), word(group));
        }
        let head = Head {
            kind: KIND_NOTES,
            body_bytes: body.len() as u64,
            core: 0,
            process: 0,
            origin_us: 0,
        };
        let mut bytes: Vec<u8> = head
            .words()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        bytes.extend(body.as_bytes());
        bytes
    }

    /// Adds what a section says. What it says otherwise is passed over.
    pub(crate) fn take(&mut self, body: &[u8]) {
        for line in body.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let words: Vec<&str> = line
                .split(' ')
                .filter(|word| word.len() <= WORD_BYTES_MAX)
                .collect();
            match words[..] {
                ["cause", word] => self.cause = word.to_owned(),
                ["version", word] => self.version = word.to_owned(),
                ["group", number, name] => {
                    if let Ok(number) = number.parse() {
                        self.groups.insert(number, name.to_owned());
                    }
                }
                ["server", number, address, group] => {
                    if let Ok(number) = number.parse() {
                        self.servers
                            .insert(number, (address.to_owned(), group.to_owned()));
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds what another file says of the same router.
    pub(crate) fn join(&mut self, other: Notes) {
        self.servers.extend(other.servers);
        self.groups.extend(other.groups);
        for (own, others) in [
            (&mut self.cause, other.cause),
            (&mut self.version, other.version),
        ] {
            if own.is_empty() {
                *own = others;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::read;

    #[test]
    fn notes_come_back_as_they_were() {
        let mut notes = Notes {
            cause: "signal".to_owned(),
            version: "0.1.0".to_owned(),
            ..Notes::default()
        };
        notes.groups.insert(1, "g1".to_owned());
        notes
            .servers
            .insert(3, ("db1:3306".to_owned(), "g1".to_owned()));
        let trace = read(&notes.section()).expect("a trace");
        assert_eq!((&trace.notes, trace.is_cut), (&notes, false));
        let mut odd = Notes::default();
        odd.take(b"group x y\nserver 1\n\xff\ncause a b\ngroup 7 seven");
        assert_eq!(odd.groups.len(), 1);
        odd.join(notes);
        assert_eq!((odd.groups.len(), odd.cause.as_str()), (2, "signal"));
    }
}
