//! What a snapshot has not read of a group, as a part of a token.

use std::fmt;

/// All tables from one on; all of them without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    pub from: Option<UnreadTable>,
}

/// The first table of which something is unread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadTable {
    pub database: String,
    pub name: String,
    /// The primary key up to which rows were read, as the server sends its values; `None` in front of the first row.
    pub behind: Option<Vec<Vec<u8>>>,
}

const ALL: &str = "*";
const BETWEEN: char = '.';
const NO_KEY: &str = "-";

impl Unread {
    /// Reads what it is written as; `None` for anything else.
    pub fn parse(text: &str) -> Option<Unread> {
        if text == ALL {
            return Some(Unread::default());
        }
        let mut pieces = text.split(BETWEEN);
        let mut name = || String::from_utf8(hex::decode(pieces.next()?).ok()?).ok();
        let (database, name) = (name()?, name()?);
        let values: Vec<&str> = pieces.collect();
        let behind = match values[..] {
            [] => return None,
            [NO_KEY] => None,
            _ => {
                let values = values.into_iter().map(|value| hex::decode(value).ok());
                Some(values.collect::<Option<_>>()?)
            }
        };
        Some(Unread {
            from: Some(UnreadTable {
                database,
                name,
                behind,
            }),
        })
    }

    /// True when rows of the table may be unread, or are.
    pub fn has(&self, database: &str, name: &str) -> bool {
        let first = self.from.as_ref();
        first.is_none_or(|it| (database, name) >= (&*it.database, &*it.name))
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(table) = &self.from else {
            return f.write_str(ALL);
        };
        let (database, name) = (hex::encode(&table.database), hex::encode(&table.name));
        write!(f, "{database}{BETWEEN}{name}{BETWEEN}")?;
        match &table.behind {
            None => f.write_str(NO_KEY),
            Some(values) => {
                let values: Vec<String> = values.iter().map(hex::encode).collect();
                f.write_str(&values.join(&BETWEEN.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(behind: Option<&[&[u8]]>) -> Unread {
        let behind = behind.map(|values| values.iter().map(|value| value.to_vec()).collect());
        Unread {
            from: Some(UnreadTable {
                database: "d".to_owned(),
                name: "\u{f6};.".to_owned(),
                behind,
            }),
        }
    }

    #[test]
    fn it_comes_back_as_it_was_written() {
        let keys: [Option<&[&[u8]]>; 4] =
            [None, Some(&[b"7"]), Some(&[b"", b"\xFF"]), Some(&[b""])];
        for unread in keys.map(of).into_iter().chain([Unread::default()]) {
            let text = unread.to_string();
            assert_eq!(Unread::parse(&text), Some(unread), "{text}");
        }
        for wrong in ["", "64", "64.65", "64.65.x", "6.65.-", "64.ff.-"] {
            assert_eq!(Unread::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tables_behind_the_first_one_are_unread() {
        let unread = of(None);
        assert!(unread.has("d", "\u{f6};.") && unread.has("e", "a"));
        assert!(!unread.has("d", "a") && Unread::default().has("d", "a"));
    }
}
