//! The table of a container as it is now: what its columns can hold, and the statements on it.

use farm::Container;
use rustc_hash::FxHashMap;
use session::Param;
use sqltext::ticked;

use crate::item::{Layout, Row};
use crate::op::Refusal;
use crate::sure::{Sure, Takes};
use crate::table::{Found, of_container};

/// What a column is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Text,
    Bytes,
    /// Other types are written as text is, and the server reads them.
    Other,
}

/// How keys of text are told apart by their column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alike {
    /// Byte by byte.
    Bytes,
    /// ASCII without case; the rest as the collation has it.
    NoCase,
    /// As the collation has it.
    Collation,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    kind: Kind,
}

/// A container's columns, found on its table.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    key: Column,
    values: Vec<Column>,
    flags: Option<Column>,
    cas: Option<Column>,
    expiry: Option<Column>,
    table: String,
    pub alike: Alike,
    pub layout: Layout,
    /// What the table takes for sure; `None` where nobody asked, or it may refuse for other reasons.
    pub sure: Option<Sure>,
}

pub(crate) fn kind_of(full_type: &str) -> Kind {
    // Its numbers are texts with zeros in front.
    if full_type.contains("zerofill") {
        return Kind::Other;
    }
    let word: String = full_type
        .chars()
        .take_while(char::is_ascii_alphabetic)
        .collect();
    match word.to_ascii_lowercase().as_str() {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Kind::Integer,
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Kind::Text,
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Kind::Bytes,
        "bit" | "geometry" | "point" | "linestring" | "polygon" | "multipoint"
        | "multilinestring" | "multipolygon" | "geometrycollection" | "geomcollection" => {
            Kind::Bytes
        }
        _ => Kind::Other,
    }
}

impl Columns {
    /// What a container makes of the columns that its table has, by their names in lower case.
    pub fn of(
        container: &Container,
        found: &FxHashMap<String, Found>,
        table: String,
    ) -> Result<Columns, Refusal> {
        let column = |name: &String| {
            let found = found.get(&name.to_ascii_lowercase());
            let lacks = || of_container(container, &format!("its table has no column {name}"));
            found.ok_or_else(lacks)
        };
        let made = |found: &Found| Column {
            name: ticked(&found.name),
            kind: found.kind,
        };
        // A name that is no column, as the plugin's own "0", keeps nothing.
        let side = |name: &Option<String>| {
            let found = name.as_ref().and_then(|name| column(name).ok());
            found.filter(|found| found.kind == Kind::Integer).map(made)
        };
        let key = column(&container.key)?;
        let alike = match (key.kind, key.collation.as_str()) {
            (Kind::Integer | Kind::Bytes, _) => Alike::Bytes,
            (_, collation) if collation.ends_with("_bin") => Alike::Bytes,
            (_, collation) if collation.ends_with("_ci") => Alike::NoCase,
            _ => Alike::Collation,
        };
        let values: Vec<&Found> = container
            .values
            .iter()
            .map(column)
            .collect::<Result<_, _>>()?;
        let (flags, cas) = (side(&container.flags), side(&container.cas));
        let expiry = side(&container.expiry);
        Ok(Columns {
            layout: Layout {
                nullable: values.iter().map(|found| found.nullable).collect(),
                integers: values
                    .iter()
                    .map(|found| found.kind == Kind::Integer)
                    .collect(),
                separator: container.separator.clone().into_bytes(),
                escape: container.escape,
                keeps_flags: flags.is_some(),
                keeps_cas: cas.is_some(),
                keeps_expiry: expiry.is_some(),
                value_bytes_max: container.value_bytes_max as usize,
            },
            key: made(key),
            values: values.into_iter().map(made).collect(),
            flags,
            cas,
            expiry,
            table,
            alike,
            sure: None,
        })
    }

    /// What its columns take, where that can be told of all of them.
    pub fn sure_of(container: &Container, found: &FxHashMap<String, Found>) -> Option<Sure> {
        let named = |name: &String| found.get(&name.to_ascii_lowercase());
        let value = |name| {
            let found = named(name)?;
            Some((Takes::of(found)?, found.nullable))
        };
        let sides = [&container.flags, &container.cas, &container.expiry];
        // A name that is no integer column keeps nothing, so that nothing is written there.
        let side = |name: &Option<String>| {
            let found = named(name.as_ref()?)?;
            Takes::of(found).filter(|_| found.kind == Kind::Integer)
        };
        let all = [&container.key].into_iter().chain(&container.values);
        let ours: Vec<String> = all
            .chain(sides.into_iter().flatten())
            .map(|name| name.to_ascii_lowercase())
            .collect();
        let lacking = |(name, found): (&String, &Found)| found.demands && !ours.contains(name);
        if found.iter().any(lacking) {
            return None;
        }
        Some(Sure {
            key: Takes::of(named(&container.key)?)?,
            values: container.values.iter().map(value).collect::<Option<_>>()?,
            sides: sides.map(side),
        })
    }

    /// All columns in the order in which they are read and written: the key, the value's, then those
    /// of flags, cas and expiry that there are.
    fn all(&self) -> impl Iterator<Item = &Column> {
        let sides = [&self.flags, &self.cas, &self.expiry];
        let first = std::iter::once(&self.key).chain(&self.values);
        first.chain(sides.into_iter().flatten())
    }

    /// Whether a client's key can be one of the column's; else nothing is there.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_key(&self, key: &[u8]) -> Result<(), String> {
        match self.key.kind {
            Kind::Bytes => Ok(()),
            Kind::Integer => match is_integer(key) {
                true => Ok(()),
                false => Err(format!("keys of {} are integers", self.key.name)),
            },
            Kind::Text | Kind::Other => match std::str::from_utf8(key) {
                Ok(_) => Ok(()),
                Err(_) => Err(format!("keys of {} are UTF-8", self.key.name)),
            },
        }
    }

    /// Whether the parts of a value can be stored.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check_row(&self, row: &Row) -> Result<(), String> {
        for (column, part) in self.values.iter().zip(&row.parts) {
            let Some(part) = part else { continue };
            let fits = match column.kind {
                Kind::Bytes => true,
                Kind::Integer => is_integer(part),
                Kind::Text | Kind::Other => std::str::from_utf8(part).is_ok(),
            };
            if !fits {
                let wanted = match column.kind {
                    Kind::Integer => "is for integers",
                    _ => "is for UTF-8",
                };
                return Err(format!("column {} {wanted}", column.name));
            }
        }
        Ok(())
    }

    /// Reads rows of these keys; `locked` until the transaction ends.
    pub fn select<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, locked: bool) -> Vec<u8> {
        let mut text = self.select_all();
        self.put_keys(&mut text, keys);
        if locked {
            text.extend_from_slice(b" FOR UPDATE");
        }
        text
    }

    /// The same of so many keys that are parameters; `None` where values would look otherwise than in
    /// the answer to a text.
    pub fn prepared(&self, keys: usize) -> Option<Vec<u8>> {
        if self.all().any(|column| column.kind == Kind::Other) {
            return None;
        }
        let mut text = self.select_all();
        text.extend_from_slice(format!(" WHERE {} IN (?", self.key.name).as_bytes());
        for _ in 1..keys {
            text.extend_from_slice(b",?");
        }
        text.push(b')');
        Some(text)
    }

    /// A key as a parameter; `None` for a number that no server knows.
    pub fn param<'k>(&self, key: &'k [u8]) -> Option<Param<'k>> {
        Some(match self.key.kind {
            Kind::Integer => {
                let digits = std::str::from_utf8(key).ok()?;
                let signed = digits.parse().map(Param::Signed);
                signed
                    .or_else(|_| digits.parse().map(Param::Unsigned))
                    .ok()?
            }
            Kind::Bytes => Param::Bytes(key),
            Kind::Text | Kind::Other => Param::Text(key),
        })
    }

    fn select_all(&self) -> Vec<u8> {
        let mut text = b"SELECT ".to_vec();
        for (at, column) in self.all().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            text.extend_from_slice(column.name.as_bytes());
        }
        text.extend_from_slice(format!(" FROM {}", self.table).as_bytes());
        text
    }

    /// Deletes the rows of these keys.
    pub fn delete<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<u8> {
        let mut text = format!("DELETE FROM {}", self.table).into_bytes();
        self.put_keys(&mut text, keys);
        text
    }

    /// Deletes rows that expired before the second `now_s`; `None` where none does.
    pub fn purge(&self, now_s: u64, rows_max: u32) -> Option<Vec<u8>> {
        let expiry = &self.expiry.as_ref()?.name;
        let table = &self.table;
        let text = format!(
            "DELETE FROM {table} WHERE {expiry} > 0 AND {expiry} < {now_s} LIMIT {rows_max}"
        );
        Some(text.into_bytes())
    }

    /// Deletes all rows.
    pub fn flush(&self) -> Vec<u8> {
        format!("DELETE FROM {}", self.table).into_bytes()
    }

    /// Inserts rows. With `over`, a row that is there gets their columns instead; one that only shares
    /// another unique key refuses with error 1242, since it is not the row that was meant.
    pub fn insert<'r>(
        &self,
        rows: impl Iterator<Item = (&'r [u8], &'r Row)>,
        over: bool,
    ) -> Vec<u8> {
        let mut text = format!("INSERT INTO {} (", self.table).into_bytes();
        for (at, column) in self.all().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            text.extend_from_slice(column.name.as_bytes());
        }
        text.extend_from_slice(b") VALUES ");
        for (at, (key, row)) in rows.enumerate() {
            text.extend_from_slice(if at > 0 { b",(" } else { b"(" });
            put(&mut text, self.key.kind, Some(key));
            self.put_row(&mut text, row, |text, _| text.push(b','));
            text.push(b')');
        }
        if over {
            text.extend_from_slice(b" ON DUPLICATE KEY UPDATE ");
            for column in self.all().skip(1) {
                let name = &column.name;
                text.extend_from_slice(format!("{name}=VALUES({name}),").as_bytes());
            }
            let key = &self.key.name;
            let guard = format!("{key}=IF({key}=VALUES({key}),{key},(SELECT 1 UNION SELECT 2))");
            text.extend_from_slice(guard.as_bytes());
        }
        text
    }

    /// Gives a row that is there other columns.
    pub fn update(&self, key: &[u8], row: &Row) -> Vec<u8> {
        let mut text = format!("UPDATE {} SET ", self.table).into_bytes();
        let mut first = true;
        self.put_row(&mut text, row, |text, column| {
            if !std::mem::take(&mut first) {
                text.push(b',');
            }
            text.extend_from_slice(format!("{}=", column.name).as_bytes());
        });
        self.put_keys(&mut text, std::iter::once(key));
        text
    }

    /// The columns of a row but for its key, each behind what `before` puts there.
    fn put_row(
        &self,
        text: &mut Vec<u8>,
        row: &Row,
        mut before: impl FnMut(&mut Vec<u8>, &Column),
    ) {
        for (column, part) in self.values.iter().zip(&row.parts) {
            before(text, column);
            put(text, column.kind, part.as_deref());
        }
        let sides = [
            (&self.flags, u64::from(row.flags)),
            (&self.cas, row.cas),
            (&self.expiry, row.expiry),
        ];
        for (column, number) in sides {
            if let Some(column) = column {
                before(text, column);
                text.extend_from_slice(number.to_string().as_bytes());
            }
        }
    }

    fn put_keys<'k>(&self, text: &mut Vec<u8>, keys: impl Iterator<Item = &'k [u8]>) {
        text.extend_from_slice(format!(" WHERE {} IN (", self.key.name).as_bytes());
        for (at, key) in keys.enumerate() {
            if at > 0 {
                text.push(b',');
            }
            put(text, self.key.kind, Some(key));
        }
        text.push(b')');
    }

    /// A row of [`Columns::select`]: its key, and the rest.
    pub fn read(&self, cells: Vec<Option<Vec<u8>>>) -> Option<(Vec<u8>, Row)> {
        let mut cells = cells.into_iter();
        let key = cells.next()??;
        let parts: Vec<Option<Vec<u8>>> = cells.by_ref().take(self.values.len()).collect();
        let mut number = |column: &Option<Column>| -> Option<u64> {
            if column.is_none() {
                return Some(0);
            }
            // NULL keeps nothing, and neither do numbers below 0.
            let cell = cells.next()?.unwrap_or_default();
            Some(std::str::from_utf8(&cell).ok()?.parse().unwrap_or(0))
        };
        let row = Row {
            parts,
            flags: u32::try_from(number(&self.flags)?).unwrap_or(u32::MAX),
            cas: number(&self.cas)?,
            expiry: number(&self.expiry)?,
        };
        Some((key, row))
    }
}

/// Digits as the servers write them, so that no two texts are one key.
fn is_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => digits.len() <= 20 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// A value as a literal, for a session whose `sql_mode` knows backslashes.
fn put(text: &mut Vec<u8>, kind: Kind, value: Option<&[u8]>) {
    let Some(value) = value else {
        text.extend_from_slice(b"NULL");
        return;
    };
    match kind {
        Kind::Integer if is_integer(value) => return text.extend_from_slice(value),
        Kind::Bytes => text.extend_from_slice(b"_binary"),
        _ => {}
    }
    text.push(b'\'');
    for &byte in value {
        match byte {
            b'\'' => text.extend_from_slice(b"''"),
            b'\\' => text.extend_from_slice(b"\\\\"),
            0 => text.extend_from_slice(b"\\0"),
            _ => text.push(byte),
        }
    }
    text.push(b'\'');
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn column(name: &str, full_type: &str, collation: &str) -> (String, Found) {
        let found = Found {
            name: name.to_owned(),
            kind: kind_of(full_type),
            nullable: true,
            collation: collation.to_owned(),
            full_type: full_type.to_owned(),
            demands: false,
        };
        (name.to_owned(), found)
    }

    pub(crate) fn columns(key_type: &str, collation: &str) -> Columns {
        let found = [
            column("k", key_type, collation),
            column("v", "varchar(100)", "utf8mb4_general_ci"),
            column("n", "int(11)", ""),
            column("f", "int(10) unsigned", ""),
            column("e", "bigint(20)", ""),
        ];
        let mut container = Container::new("c", "d", "t", "k", &["v", "n"]);
        container.flags = Some("f".to_owned());
        container.cas = Some("0".to_owned());
        container.expiry = Some("e".to_owned());
        let table = "`d`.`t`".to_owned();
        match Columns::of(&container, &found.into_iter().collect(), table) {
            Ok(columns) => columns,
            Err(why) => panic!("{why:?}"),
        }
    }

    fn row() -> Row {
        Row {
            parts: vec![Some(b"it's \\".to_vec()), None],
            flags: 3,
            cas: 0,
            expiry: 9,
        }
    }

    #[test]
    fn statements_are_written_with_their_values() {
        let columns = columns("varbinary(50)", "");
        let shown = |text: Vec<u8>| String::from_utf8_lossy(&text).into_owned();
        let keys = || [&b"a"[..], b"b'"].into_iter();
        assert_eq!(
            shown(columns.select(keys(), true)),
            "SELECT `k`,`v`,`n`,`f`,`e` FROM `d`.`t` WHERE `k` IN (_binary'a',_binary'b''') FOR UPDATE"
        );
        assert_eq!(
            shown(columns.insert([(&b"a"[..], &row())].into_iter(), true)),
            "INSERT INTO `d`.`t` (`k`,`v`,`n`,`f`,`e`) VALUES (_binary'a','it''s \\\\',NULL,3,9) \
             ON DUPLICATE KEY UPDATE `v`=VALUES(`v`),`n`=VALUES(`n`),`f`=VALUES(`f`),`e`=VALUES(`e`),\
             `k`=IF(`k`=VALUES(`k`),`k`,(SELECT 1 UNION SELECT 2))"
        );
        assert_eq!(
            shown(columns.update(b"a", &row())),
            "UPDATE `d`.`t` SET `v`='it''s \\\\',`n`=NULL,`f`=3,`e`=9 WHERE `k` IN (_binary'a')"
        );
        assert_eq!(
            columns.purge(50, 10).map(shown).as_deref(),
            Some("DELETE FROM `d`.`t` WHERE `e` > 0 AND `e` < 50 LIMIT 10")
        );
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let columns = columns("int(11)", "");
        let cell = |text: &str| Some(text.as_bytes().to_vec());
        let cells = vec![cell("7"), cell("it's \\"), None, cell("3"), cell("9")];
        assert_eq!(columns.read(cells), Some((b"7".to_vec(), row())));
        assert_eq!(columns.read(vec![None]), None);
        let odd = vec![cell("7"), None, None, None, cell("-4")];
        let read = columns.read(odd).map(|(_, row)| (row.flags, row.expiry));
        assert_eq!(read, Some((0, 0)));
    }

    #[test]
    fn keys_and_values_must_fit_their_columns() {
        let numbers = columns("int(11)", "");
        for key in ["7", "-7", "0", "18446744073709551615"] {
            assert_eq!(numbers.check_key(key.as_bytes()), Ok(()), "{key}");
        }
        for key in ["07", "-0", "", "1e1", "7x", "+7"] {
            assert!(numbers.check_key(key.as_bytes()).is_err(), "{key}");
        }
        let text = columns("varchar(9)", "utf8mb4_bin");
        assert_eq!(text.alike, Alike::Bytes);
        assert!(text.check_key(b"\xff").is_err());
        assert!(
            text.check_row(&Row {
                parts: vec![Some(vec![0xFF]), None],
                ..row()
            })
            .is_err()
        );
        assert!(
            text.check_row(&Row {
                parts: vec![None, Some(b"x".to_vec())],
                ..row()
            })
            .is_err()
        );
        assert_eq!(text.check_row(&row()), Ok(()));
        assert_eq!(columns("char(9)", "latin1_swedish_ci").alike, Alike::NoCase);
        assert_eq!(
            columns("char(9)", "utf8mb4_0900_as_cs").alike,
            Alike::Collation
        );
    }
}
