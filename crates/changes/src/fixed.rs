//! MariaDB's types UUID, INET4 and INET6. They are logged as a BINARY of as many bytes, so a log alone does not tell
//! them; whoever has the table's definition says which columns they are.

use std::collections::HashMap;
use std::fmt::Write;

use crate::cell::char_bytes;
use crate::charset::Charset;
use crate::table::{Column, Table, code};

/// The name of each type, its code, and its bytes.
const TYPES: [(&str, u8, usize); 3] = [
    ("inet4", code::INET4, 4),
    ("inet6", code::INET6, 16),
    ("uuid", code::UUID, 16),
];

/// The types of a table's columns, by their names in the servers' words and in lower case.
pub type Types = HashMap<String, String>;

/// The code of the type of this name.
pub(crate) fn code_of(name: &str) -> Option<u8> {
    let named = TYPES.iter().find(|(of, _, _)| *of == name);
    named.map(|(_, code, _)| *code)
}

/// The name of the type that has this code.
pub(crate) fn name_of(code: u8) -> Option<&'static str> {
    let coded = TYPES.iter().find(|(_, of, _)| *of == code);
    coded.map(|(name, _, _)| *name)
}

/// A value as a SELECT shows it; `None` for bytes that are none. Zeros at its end are not logged.
pub(crate) fn text(of: u8, logged: &[u8]) -> Option<String> {
    let (_, _, bytes) = TYPES.iter().find(|(_, code, _)| *code == of)?;
    let mut whole = [0; 16];
    let whole = whole.get_mut(..*bytes)?;
    whole.get_mut(..logged.len())?.copy_from_slice(logged);
    Some(match of {
        code::INET4 => inet4(whole),
        code::INET6 => inet6(whole),
        _ => uuid(whole),
    })
}

fn inet4(bytes: &[u8]) -> String {
    let parts: Vec<String> = bytes.iter().map(u8::to_string).collect();
    parts.join(".")
}

/// As MariaDB writes it: the first of the longest runs of zeros is left out, also one of a single group, and an address of IPv4
/// stands as one.
fn inet6(bytes: &[u8]) -> String {
    let groups: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|two| u16::from_be_bytes([two[0], two[1]]))
        .collect();
    let (mut gap, mut gap_groups) = (groups.len(), 0);
    for from in 0..groups.len() {
        let zeros = groups[from..].iter().take_while(|it| **it == 0).count();
        if zeros > gap_groups {
            (gap, gap_groups) = (from, zeros);
        }
    }
    let is_inet4 = gap == 0 && (gap_groups == 6 || gap_groups == 5 && groups[5] == 0xFFFF);
    let mut text = String::new();
    let mut at = 0;
    while at < groups.len() {
        if at == gap {
            text.push_str(if at == 0 { "::" } else { ":" });
            at += gap_groups;
            continue;
        }
        if at == 6 && is_inet4 {
            return text + &inet4(&bytes[12..]);
        }
        let _ = write!(text, "{:x}", groups[at]);
        at += 1;
        if at < groups.len() {
            text.push(':');
        }
    }
    text
}

/// The servers swap the parts of a UUID where they store it, and not where they log it.
fn uuid(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Column {
    /// The bytes of a BINARY.
    fn binary_bytes(&self) -> Option<usize> {
        let is_binary = self.code == code::STRING && self.charset() == Some(Charset::Binary);
        is_binary.then(|| usize::from(char_bytes(self.metadata & 0xFF, self.metadata >> 8)))
    }
}

impl Table {
    /// A column may have one of these types: it is logged as they are.
    pub(crate) fn may_hide_types(&self) -> bool {
        let mut columns = self.columns.iter().filter_map(Column::binary_bytes);
        columns.any(|bytes| TYPES.iter().any(|(_, _, of)| *of == bytes))
    }

    /// Takes over which columns have one of these types. What the log contradicts is passed over.
    pub(crate) fn tell_types(&mut self, types: &Types) {
        for column in &mut self.columns {
            let told = column.name.as_ref().and_then(|name| types.get(name));
            let found = TYPES
                .iter()
                .find(|(name, _, _)| told.is_some_and(|told| told == name));
            if let Some((_, code, bytes)) = found
                && column.binary_bytes() == Some(*bytes)
            {
                column.code = *code;
                column.collation = None;
            }
        }
    }
}

/// Of the tables of a log: what is known of their types, and what is asked for.
#[derive(Default)]
pub(crate) struct Hidden {
    known: HashMap<(String, String), Types>,
    /// The id of a table whose types nobody has told.
    pub untold: Option<u64>,
}

impl Hidden {
    /// A table map has come.
    pub fn take(&mut self, id: u64, table: &mut Table) {
        self.untold = None;
        if !table.may_hide_types() {
            return;
        }
        match self
            .known
            .get(&(table.database.clone(), table.name.clone()))
        {
            Some(types) => table.tell_types(types),
            None => self.untold = Some(id),
        }
    }

    pub fn tell(&mut self, table: &mut Table, types: Types) {
        self.untold = None;
        table.tell_types(&types);
        let name = (table.database.clone(), table.name.clone());
        self.known.insert(name, types);
    }

    /// A definition has changed.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;
    use crate::table::table;

    #[test]
    fn addresses_are_written_as_mariadb_does() {
        for (groups, expected) in [
            ([0x2001, 0xDB8, 0, 0, 0, 0, 0, 1], "2001:db8::1"),
            ([0; 8], "::"),
            ([0, 0, 0, 0, 0, 0, 0, 1], "::1"),
            ([0, 0, 0, 0, 0, 0xFFFF, 0x102, 0x304], "::ffff:1.2.3.4"),
            ([0, 0, 0, 0, 0, 0, 0x102, 0x304], "::1.2.3.4"),
            ([1, 0, 2, 3, 4, 5, 6, 7], "1::2:3:4:5:6:7"),
            ([1, 0, 0, 2, 0, 0, 3, 0], "1::2:0:0:3:0"),
            ([0xFF, 0, 0, 0, 0, 0, 0, 0], "ff::"),
            ([1, 2, 3, 4, 5, 6, 7, 0], "1:2:3:4:5:6:7::"),
        ] {
            let bytes: Vec<u8> = groups
                .iter()
                .flat_map(|it: &u16| it.to_be_bytes())
                .collect();
            assert_eq!(inet6(&bytes), expected);
        }
        assert_eq!(text(code::INET4, &[10]).as_deref(), Some("10.0.0.0"));
        assert_eq!(text(code::INET4, &[1; 5]), None);
        let uuid: Vec<u8> = (0x10..0x1F).collect();
        let shown = "10111213-1415-1617-1819-1a1b1c1d1e00";
        assert_eq!(text(code::UUID, &uuid).as_deref(), Some(shown));
    }

    #[test]
    fn types_are_told_by_definitions() {
        // `d.t (a BINARY(16), b BINARY(16), c BINARY(4))`.
        let mut data = vec![7, 0, 0, 0, 0, 0, 1, 0];
        data.extend(b"\x01d\0\x01t\0");
        data.extend([3, 254, 254, 254, 6, 254, 16, 254, 16, 254, 4, 0b111]);
        data.extend([4, 6, 1, b'a', 1, b'b', 1, b'c', 2, 1, 63]);
        let mut read = table(&data, Engine::MariaDb).expect("a table map").1;
        let mut hidden = Hidden::default();
        hidden.take(7, &mut read);
        assert_eq!(hidden.untold, Some(7));
        let types = [("a", "uuid"), ("c", "inet6"), ("z", "uuid")];
        let types = types.map(|(name, of)| (name.to_owned(), of.to_owned()));
        hidden.tell(&mut read, types.into_iter().collect());
        let names: Vec<_> = read.columns.iter().map(Column::type_name).collect();
        assert_eq!(names, ["uuid", "binary", "binary"]);
        let mut again = table(&data, Engine::MariaDb).expect("a table map").1;
        hidden.take(8, &mut again);
        assert_eq!((hidden.untold, &again), (None, &read));
        hidden.forget();
        hidden.take(9, &mut again);
        assert_eq!(
            hidden.untold,
            Some(9),
            "b and c may be something else by now"
        );
    }
}
