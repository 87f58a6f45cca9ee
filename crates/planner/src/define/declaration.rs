//! The comments of a CREATE TABLE that declare what the table is: `/*heddle shard_map=… shard_key=…*/` or
//! `/*heddle global_map=…*/`. What they declare by mistake is an error: a table that is not on its map would be one
//! like any other, without a word.

use sqltext::{HINT_KEYS, Hints};

const DECLARES: &str = "a comment that declares a table is /*heddle shard_map=MAP shard_key=COLUMN*/ or \
                        /*heddle global_map=MAP*/";

/// What the comments of a text have declared so far.
#[derive(Default)]
pub(super) struct Declared {
    map: Option<String>,
    key: Option<String>,
    global: Option<String>,
}

impl Declared {
    /// Takes in the comments that lie between two tokens. An error is what they have by mistake, and the cure.
    pub fn read(&mut self, between: &[u8]) -> Result<(), String> {
        let mut rest = between;
        while let Some(start) = position(rest, b"/*") {
            let body = &rest[start + 2..];
            let length = position(body, b"*/").unwrap_or(body.len());
            self.comment(&[&b"/*"[..], &body[..length], b"*/"].concat())?;
            rest = body.get(length + 2..).unwrap_or_default();
        }
        Ok(())
    }

    fn comment(&mut self, comment: &[u8]) -> Result<(), String> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let hints = Hints::of_comments(comment);
        if let Some(word) = hints.malformed {
            let word = text(word.of(comment));
            return Err(format!(
                "the word '{word}' in a comment of Heddle's own is no NAME=VALUE; {DECLARES}"
            ));
        }
        for pair in &hints.heddle {
            let name = text(pair.key.of(comment)).to_ascii_lowercase();
            let place = match name.as_str() {
                "shard_map" => &mut self.map,
                "shard_key" => &mut self.key,
                "global_map" => &mut self.global,
                known if HINT_KEYS.contains(&known) => continue,
                _ => {
                    return Err(format!(
                        "a comment of Heddle's own has no {name}; {DECLARES}"
                    ));
                }
            };
            let value = text(pair.value.of(comment));
            let value = value.trim_matches(['\'', '"', '`']).to_owned();
            if value.is_empty() {
                return Err(format!("{name} has no value; {DECLARES}"));
            }
            if place.as_ref().is_some_and(|before| *before != value) {
                return Err(format!("a table has one {name}, not two; {DECLARES}"));
            }
            *place = Some(value);
        }
        Ok(())
    }

    /// A map, and the shard key of a sharded table. `None` where no comment is about maps.
    pub fn end(self) -> Result<Option<(String, Option<String>)>, String> {
        match (self.map, self.key, self.global) {
            (None, None, None) => Ok(None),
            (Some(map), Some(key), None) => Ok(Some((map, Some(key)))),
            (None, None, Some(map)) => Ok(Some((map, None))),
            _ => Err(DECLARES.to_owned()),
        }
    }
}

fn position(text: &[u8], mark: &[u8]) -> Option<usize> {
    text.windows(mark.len()).position(|bytes| bytes == mark)
}
