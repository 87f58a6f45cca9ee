//! Tables that each group of a statement is given, as the statements that make, fill and drop them. Of a table that is
//! divided each group is given its own rows.
//!
//! Their texts mean the same whatever the session's character sets and `sql_mode` are: names stand in backquotes,
//! values in ASCII. What a value needs else (`sql_mode`, `time_zone`) is set for its INSERT alone, so that nothing has to
//! be set back.

use std::collections::HashMap;
use std::sync::Arc;

use mysql_wire::Malformed;
use mysql_wire::result::TextRow;
use planner::{Division, Goes, Part, Volume, Written};
use sqltext::Dialect;

use crate::scatter::result_writer::Described;

/// An INSERT is ended when it is as long; servers read much longer ones.
const INSERT_BYTES: usize = 256 << 10;

/// What the values of an INSERT are stored by.
const MODE: &str = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES";
const ZONE: &str = "+00:00";

/// The tables of a statement.
#[derive(Debug)]
pub(crate) struct Carried {
    dialect: Dialect,
    /// What makes them.
    pub creates: Vec<Vec<u8>>,
    /// What fills them on every group; a server that warns of it has not stored what it was told.
    inserts: Vec<Vec<u8>>,
    /// The same of rows that are one group's.
    own_inserts: HashMap<Arc<str>, Vec<Vec<u8>>>,
    names: Vec<String>,
    /// The columns of the client's text, where a group has told them.
    pub described: Described,
}

impl Carried {
    pub fn new(dialect: Dialect) -> Carried {
        Carried {
            dialect,
            creates: Vec::new(),
            inserts: Vec::new(),
            own_inserts: HashMap::new(),
            names: Vec::new(),
            described: Described::default(),
        }
    }

    /// Takes up a table with its rows, which every group gets.
    ///
    /// # Errors
    /// A row is none of this table.
    pub fn take(&mut self, part: &Part, loading: &Loading) -> Result<(), Malformed> {
        self.make(part);
        let mut inserts = Inserts::of(self.dialect, part);
        for row in loading.rows() {
            inserts.put(row)?;
        }
        self.inserts.append(&mut inserts.end());
        Ok(())
    }

    /// The same with rows each of which is one group's.
    ///
    /// # Errors
    /// A row is none of this table, or it is not known whose it is.
    pub fn divide(
        &mut self,
        part: &Part,
        loading: &Loading,
        by: &Division,
    ) -> Result<(), Malformed> {
        self.make(part);
        let each = by.groups.iter().map(|_| Inserts::of(self.dialect, part));
        let mut each: Vec<Inserts<'_>> = each.collect();
        for row in loading.rows() {
            let key = TextRow::new(row).nth(by.column).ok_or(Malformed {
                what: "a row without its key",
            })??;
            match by.goes(key) {
                Goes::To(group) => each[group].put(row)?,
                Goes::Nowhere => {}
                Goes::Unknown => {
                    return Err(Malformed {
                        what: "a key without a shard",
                    });
                }
            }
        }
        for (group, inserts) in by.groups.iter().zip(each) {
            let own = self.own_inserts.entry(group.clone()).or_default();
            own.append(&mut inserts.end());
        }
        Ok(())
    }

    fn make(&mut self, part: &Part) {
        self.creates.push(part.create.clone().into_bytes());
        self.names.push(part.name.clone());
    }

    /// What fills the tables of a group.
    pub fn inserts(&self, group: &str) -> Vec<Vec<u8>> {
        let own = self.own_inserts.get(group);
        let all = self.inserts.iter().chain(own.into_iter().flatten());
        all.cloned().collect()
    }

    /// What takes them away.
    pub fn drops(&self) -> Vec<u8> {
        format!("DROP TEMPORARY TABLE IF EXISTS {}", self.names.join(", ")).into_bytes()
    }

    /// The bytes that so many groups are sent together.
    pub fn bytes(&self, groups: u64) -> u64 {
        let sum = |texts: &[Vec<u8>]| texts.iter().map(|text| text.len() as u64).sum::<u64>();
        let own: u64 = self.own_inserts.values().map(|it| sum(it)).sum();
        (sum(&self.creates) + sum(&self.inserts)) * groups + own
    }
}

/// The INSERTs of some rows.
struct Inserts<'p> {
    head: String,
    columns: &'p [Written],
    done: Vec<Vec<u8>>,
    rows: Vec<u8>,
}

impl Inserts<'_> {
    fn of(dialect: Dialect, part: &Part) -> Inserts<'_> {
        Inserts {
            head: head(dialect, &part.into),
            columns: &part.columns,
            done: Vec::new(),
            rows: Vec::new(),
        }
    }

    fn put(&mut self, row: &[u8]) -> Result<(), Malformed> {
        if self.rows.len() >= INSERT_BYTES {
            self.close();
        }
        put_row(&mut self.rows, self.columns, row)
    }

    fn close(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        self.done.push([self.head.as_bytes(), &rows].concat());
    }

    fn end(mut self) -> Vec<Vec<u8>> {
        if !self.rows.is_empty() {
            self.close();
        }
        self.done
    }
}

/// What an INSERT begins with.
fn head(dialect: Dialect, into: &str) -> String {
    match dialect {
        Dialect::MariaDb => format!(
            "SET STATEMENT sql_mode = '{MODE}', time_zone = '{ZONE}' FOR INSERT INTO {into} VALUES "
        ),
        Dialect::MySql => format!(
            "INSERT /*+ SET_VAR(sql_mode = '{MODE}') SET_VAR(time_zone = '{ZONE}') */ INTO {into} VALUES "
        ),
    }
}

/// The rows of one table, as they came.
pub(crate) struct Loading {
    /// Each behind the number of its bytes.
    raw: Vec<u8>,
    bytes_max: u64,
    pub volume: Volume,
}

impl Loading {
    /// Of no more bytes of rows than these.
    pub fn new(bytes_max: u64) -> Loading {
        Loading {
            raw: Vec::new(),
            bytes_max,
            volume: Volume::default(),
        }
    }

    /// Adds a text row; false where there are too many now.
    pub fn add(&mut self, row: &[u8]) -> bool {
        self.raw.extend_from_slice(&row.len().to_le_bytes());
        self.raw.extend_from_slice(row);
        self.volume.rows += 1;
        self.volume.bytes += row.len() as u64;
        self.volume.bytes <= self.bytes_max
    }

    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        let mut left = &self.raw[..];
        std::iter::from_fn(move || {
            let (length, rest) = left.split_first_chunk()?;
            let (row, rest) = rest.split_at_checked(usize::from_le_bytes(*length))?;
            left = rest;
            Some(row)
        })
    }
}

/// Writes a text row behind those that are there.
fn put_row(out: &mut Vec<u8>, columns: &[Written], row: &[u8]) -> Result<(), Malformed> {
    out.extend_from_slice(if out.is_empty() { b"(" } else { b",(" });
    let mut values = TextRow::new(row);
    for (at, how) in columns.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let value = values.next().ok_or(Malformed {
            what: "a row with too few columns",
        })??;
        match value {
            Some(value) => write(out, how, value),
            None => out.extend_from_slice(b"NULL"),
        }
    }
    if values.next().is_some() {
        return Err(Malformed {
            what: "a row with too many columns",
        });
    }
    out.push(b')');
    Ok(())
}

/// Writes a value as an expression in ASCII.
fn write(out: &mut Vec<u8>, how: &Written, value: &[u8]) {
    match how {
        Written::Plain => out.extend_from_slice(value),
        // Dates; the bytes of others are hardly ever of these letters alone, and mean the same then.
        Written::Quoted if is_plain(value) => {
            out.extend_from_slice(b"_binary'");
            out.extend_from_slice(value);
            out.push(b'\'');
        }
        Written::Quoted | Written::Hex => put_hex(out, value),
        Written::Text(charset) => {
            out.push(b'_');
            out.extend_from_slice(charset.as_bytes());
            out.push(b' ');
            put_hex(out, value);
        }
        Written::Seconds if value.iter().all(|byte| matches!(byte, b'0' | b'.')) => {
            out.extend_from_slice(b"'0000-00-00 00:00:00'");
        }
        Written::Seconds => {
            out.extend_from_slice(b"FROM_UNIXTIME(");
            out.extend_from_slice(value);
            out.push(b')');
        }
    }
}

/// Digits and signs as dates have them. What is empty is none: a `sql_mode` takes `''` for NULL.
fn is_plain(value: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_digit() || b"-:. ".contains(byte);
    !value.is_empty() && value.iter().all(plain)
}

fn put_hex(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(b"x'");
    out.extend_from_slice(hex::encode(value).as_bytes());
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_wire::result::encode_text_row;

    fn part(columns: Vec<Written>) -> Part {
        Part {
            name: "`heddle`.`h1_b0`".to_owned(),
            create: "CREATE TEMPORARY TABLE".to_owned(),
            loose: None,
            sorts_keys: false,
            drop: String::new(),
            into: "`heddle`.`h1_b0`".to_owned(),
            load: None,
            is_temporary: true,
            columns,
        }
    }

    #[test]
    fn rows_become_ascii() {
        let part = part(vec![
            Written::Plain,
            Written::Quoted,
            Written::Quoted,
            Written::Text("latin1".to_owned()),
            Written::Seconds,
            Written::Hex,
        ]);
        let mut loading = Loading::new(1000);
        let mut row = Vec::new();
        let values: [Option<&[u8]>; 6] = [
            Some(b"-1.5"),
            Some(b"2024-01-01 00:00:00.5"),
            Some(b"it's"),
            Some(b"\xE4'"),
            Some(b"0.000"),
            Some(b"\x00\xFF"),
        ];
        encode_text_row(&mut row, &values);
        assert!(loading.add(&row));
        row.clear();
        encode_text_row(&mut row, &[None, None, Some(b""), Some(b""), Some(b"1.5"), Some(b"")]);
        assert!(loading.add(&row));
        assert_eq!((loading.volume.rows, loading.rows().count()), (2, 2));
        let mut carried = Carried::new(Dialect::MySql);
        carried.take(&part, &loading).expect("its rows are well");
        let insert = String::from_utf8_lossy(&carried.inserts[0]).into_owned();
        let (head, values) = insert.split_once(" VALUES ").expect("an INSERT");
        assert!(head.starts_with("INSERT /*+ SET_VAR(sql_mode = "), "{head}");
        assert!(head.ends_with(" INTO `heddle`.`h1_b0`"), "{head}");
        assert_eq!(
            values,
            "(-1.5,_binary'2024-01-01 00:00:00.5',x'69742773',_latin1 x'e427',\
             '0000-00-00 00:00:00',x'00ff'),(NULL,NULL,x'',_latin1 x'',FROM_UNIXTIME(1.5),x'')"
        );
        assert_eq!(carried.drops(), b"DROP TEMPORARY TABLE IF EXISTS `heddle`.`h1_b0`");
        assert!(carried.bytes(2) > 200);
    }

    #[test]
    fn what_is_too_much_is_said() {
        let part = part(vec![Written::Plain]);
        let mut row = Vec::new();
        encode_text_row(&mut row, &[Some(b"12345")]);
        let mut loading = Loading::new(2 * row.len() as u64);
        assert!(loading.add(&row));
        assert!(loading.add(&row));
        // The row that is one too many is kept, too: it has left its server.
        assert!(!loading.add(&row));
        assert_eq!(loading.rows().collect::<Vec<_>>(), [&row[..]; 3]);
        let mut carried = Carried::new(Dialect::MariaDb);
        carried.take(&part, &Loading::new(100)).expect("it has no rows");
        assert!(carried.inserts.is_empty() && carried.creates.len() == 1);
        row.clear();
        encode_text_row(&mut row, &[]);
        let mut odd = Loading::new(100);
        odd.add(&row);
        assert!(carried.take(&part, &odd).is_err());
    }

    #[test]
    fn long_tables_take_several_inserts() {
        let part = part(vec![Written::Hex]);
        let mut row = Vec::new();
        encode_text_row(&mut row, &[Some(&[7; 100_000])]);
        let mut loading = Loading::new(1 << 20);
        for _ in 0..3 {
            assert!(loading.add(&row));
        }
        let mut carried = Carried::new(Dialect::MariaDb);
        carried.take(&part, &loading).expect("its rows are well");
        assert_eq!(carried.inserts.len(), 2);
        assert!(carried.inserts.iter().all(|it| it.starts_with(b"SET STATEMENT sql_mode = ")));
    }
}
