//! Primary keys as literals, equal text for the same row whether it was read from the table or from the
//! binary log.

use enginesql::quoted;
use sqltext::ticked;

use crate::binlog::{Cell, Column};
use crate::error::Error;
use crate::link::{Link, text_at};

/// The literals of a row's primary key, in its order.
pub type Key = Vec<String>;

/// How a column's values are written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// As they are.
    Number {
        unsigned: bool,
    },
    /// Between quotes: dates.
    Quoted,
    /// TIMESTAMP, by the time zone `+00:00`.
    Instant,
    /// Bytes in this character set.
    Text(String),
    /// Bytes; of a BINARY filled up with zeros to so many.
    Bytes(Option<usize>),
    Unknown,
}

/// A column of a primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPart {
    pub name: String,
    pub data_type: String,
    /// Its place in the table, from 0.
    pub place: usize,
    kind: Kind,
}

impl KeyPart {
    /// Its values can be written as literals.
    pub fn is_known(&self) -> bool {
        self.kind != Kind::Unknown
    }

    /// The literal of a value that the source sent as text.
    pub(super) fn of_text(&self, value: &[u8]) -> String {
        match &self.kind {
            Kind::Number { .. } => String::from_utf8_lossy(value).into_owned(),
            Kind::Quoted | Kind::Instant => quoted(&String::from_utf8_lossy(value)),
            Kind::Text(charset) => format!("_{charset} X'{}'", hex::encode_upper(value)),
            Kind::Bytes(_) | Kind::Unknown => format!("X'{}'", hex::encode_upper(value)),
        }
    }

    /// The same of a value that somebody keeps; `None` when it is none of the column's kind.
    pub(crate) fn of_sent(&self, value: &[u8]) -> Option<String> {
        let is_number = |byte: &u8| byte.is_ascii_digit() || b"-.".contains(byte);
        let is_right = match &self.kind {
            Kind::Number { .. } => !value.is_empty() && value.iter().all(is_number),
            Kind::Unknown => false,
            _ => true,
        };
        is_right.then(|| self.of_text(value))
    }

    /// The literal of a value in the binary log, whose column is this one there; `None` where the log
    /// has none.
    pub fn of_cell(&self, cell: &Cell<'_>, column: &Column) -> Option<String> {
        Some(match (cell, &self.kind) {
            (Cell::Integer(_), Kind::Number { unsigned }) => written(cell, *unsigned, column),
            (Cell::Text(text), Kind::Number { .. }) => text.clone(),
            (Cell::Text(_), Kind::Quoted) | (Cell::Instant(..), Kind::Instant) => {
                written(cell, false, column)
            }
            (Cell::Bytes(bytes), Kind::Text(charset)) => {
                format!("_{charset} X'{}'", hex::encode_upper(bytes))
            }
            (Cell::Bytes(bytes), Kind::Bytes(length)) => {
                let mut bytes = bytes.to_vec();
                bytes.resize(bytes.len().max(length.unwrap_or(0)), 0);
                format!("X'{}'", hex::encode_upper(&bytes))
            }
            _ => return None,
        })
    }
}

fn written(cell: &Cell<'_>, unsigned: bool, column: &Column) -> String {
    let mut text = Vec::new();
    cell.literal(unsigned, column, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The columns of a table's primary key.
pub(crate) async fn parts(
    link: &mut Link,
    database: &str,
    table: &str,
    timeout_ms: u64,
) -> Result<Vec<KeyPart>, Error> {
    let sql = format!(
        "SELECT c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, c.CHARACTER_SET_NAME, c.ORDINAL_POSITION, \
         c.CHARACTER_OCTET_LENGTH FROM information_schema.STATISTICS s \
         JOIN information_schema.COLUMNS c ON c.TABLE_SCHEMA=s.TABLE_SCHEMA \
         AND c.TABLE_NAME=s.TABLE_NAME AND c.COLUMN_NAME=s.COLUMN_NAME \
         WHERE s.TABLE_SCHEMA={} AND s.TABLE_NAME={} AND s.INDEX_NAME='PRIMARY' \
         ORDER BY s.SEQ_IN_INDEX",
        quoted(database),
        quoted(table)
    );
    let mut all = Vec::new();
    for row in link.rows("look at a primary key", &sql, timeout_ms).await? {
        let cell = |at| text_at(&row, at).unwrap_or_default();
        let number = |at| cell(at).parse::<usize>().unwrap_or(0);
        let data_type = cell(1).to_ascii_lowercase();
        let kind = match data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Kind::Number {
                unsigned: cell(2).contains("unsigned"),
            },
            "decimal" => Kind::Number { unsigned: false },
            "date" | "datetime" | "time" | "year" => Kind::Quoted,
            "timestamp" => Kind::Instant,
            "char" | "varchar" | "tinytext" | "text" => Kind::Text(cell(3)),
            "binary" => Kind::Bytes(Some(number(5))),
            "varbinary" | "tinyblob" | "blob" => Kind::Bytes(None),
            _ => Kind::Unknown,
        };
        all.push(KeyPart {
            name: cell(0),
            data_type,
            place: number(4).saturating_sub(1),
            kind,
        });
    }
    Ok(all)
}

/// True for the rows that have one of these keys.
pub(super) fn among<'k>(parts: &[KeyPart], keys: impl Iterator<Item = &'k Key>) -> String {
    if let [only] = parts {
        let values: Vec<&str> = keys
            .filter_map(|key| key.first().map(String::as_str))
            .collect();
        return format!("{} IN ({})", ticked(&only.name), values.join(","));
    }
    let one = |key: &Key| {
        let pairs = parts.iter().zip(key);
        let pairs: Vec<String> = pairs
            .map(|(part, value)| format!("{}={value}", ticked(&part.name)))
            .collect();
        format!("({})", pairs.join(" AND "))
    };
    let all: Vec<String> = keys.map(one).collect();
    format!("({})", all.join(" OR "))
}

/// True for the rows whose keys are behind this one, or up to it.
pub(crate) fn compared(parts: &[KeyPart], key: &Key, behind: bool) -> String {
    let mut all = Vec::new();
    for last in 0..parts.len().min(key.len()) {
        let mut terms: Vec<String> = (0..last)
            .map(|at| format!("{}={}", ticked(&parts[at].name), key[at]))
            .collect();
        let sign = match (behind, last + 1 == parts.len()) {
            (true, _) => ">",
            (false, true) => "<=",
            (false, false) => "<",
        };
        terms.push(format!("{}{sign}{}", ticked(&parts[last].name), key[last]));
        all.push(format!("({})", terms.join(" AND ")));
    }
    format!("({})", all.join(" OR "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, kind: Kind) -> KeyPart {
        KeyPart {
            name: name.to_owned(),
            data_type: "int".to_owned(),
            place: 0,
            kind,
        }
    }

    #[test]
    fn keys_are_compared_part_by_part() {
        let parts = ["a", "b"].map(|name| part(name, Kind::Number { unsigned: false }));
        let key = vec!["1".to_owned(), "2".to_owned()];
        assert_eq!(
            compared(&parts, &key, true),
            "((`a`>1) OR (`a`=1 AND `b`>2))"
        );
        assert_eq!(
            compared(&parts, &key, false),
            "((`a`<1) OR (`a`=1 AND `b`<=2))"
        );
        assert_eq!(among(&parts, [&key].into_iter()), "((`a`=1 AND `b`=2))");
        assert_eq!(among(&parts[..1], [&key].into_iter()), "`a` IN (1)");
    }

    #[test]
    fn texts_have_their_character_set() {
        let text = part("a", Kind::Text("latin1".to_owned()));
        assert_eq!(text.of_text(b"\xe9"), "_latin1 X'E9'");
        let number = part("a", Kind::Number { unsigned: true });
        assert_eq!(number.of_text(b"4294967295"), "4294967295");
        assert_eq!(number.of_sent(b"1 OR 1"), None);
    }
}
