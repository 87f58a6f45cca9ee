//! What a session's last statements left on a connection: user variables, warnings, FOUND_ROWS().
//!
//! A connection that serves another session next is asked for it first, in one trip, in an order in
//! which no question spoils the answer to the next. User variables become expressions that give a
//! variable the same type, value, charset and collation on any other connection.

use std::collections::BTreeSet;
use std::rc::Rc;

use mysql_wire::Malformed;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::packet::payloads;
use mysql_wire::reply;
use mysql_wire::result::{Column, ColumnKind, FLAG_UNSIGNED, TextRow};

use crate::connection::{Connection, ConnectionError};

/// More than this in one variable stays on its connection: the session is pinned instead.
pub const VARIABLE_BYTES_MAX: usize = 65_536;

/// The user variables that may be set on a connection, and the session that they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    pub session: u32,
    /// How often the session's variables had changed when they were as they are here.
    pub version: u64,
    /// In lower case. Never empty.
    pub names: BTreeSet<Box<str>>,
}

/// What is to be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    pub warnings: bool,
    pub found_rows: bool,
    /// Names in lower case.
    pub variables: BTreeSet<Box<str>>,
}

impl Questions {
    /// Nothing is to be asked.
    pub fn is_empty(&self) -> bool {
        !self.warnings && !self.found_rows && self.variables.is_empty()
    }
}

/// The answer to SHOW WARNINGS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    /// The definitions of its columns, as the server sent them.
    pub columns: Vec<Box<[u8]>>,
    pub rows: Vec<Warning>,
}

/// One row of SHOW WARNINGS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub level: Vec<u8>,
    pub code: Vec<u8>,
    pub message: Vec<u8>,
}

/// What a variable holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// As if it had never been assigned.
    Unset,
    Set(Value),
    /// More than [`VARIABLE_BYTES_MAX`].
    TooLarge,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// An SQL expression of ASCII that gives the same value in every session.
    pub expression: Rc<[u8]>,
    /// The variable is NULL, and has the type and collation of the expression.
    pub null: bool,
}

/// The answers to [`Questions`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residue {
    pub warnings: Option<Warnings>,
    pub found_rows: Option<u64>,
    pub variables: Vec<(Box<str>, Variable)>,
}

impl Connection {
    /// Asks for what the last session left here. On an error nothing is known.
    pub async fn residue(&mut self, questions: &Questions) -> Result<Residue, ConnectionError> {
        let names: Vec<&str> = questions.variables.iter().map(|name| &**name).collect();
        let (types, values) = (ask_types(&names), ask_values(&names));
        let mut commands: Vec<(Command, &[u8])> = Vec::new();
        if questions.warnings {
            commands.push((Command::Query, b"SHOW WARNINGS"));
        }
        if questions.found_rows {
            commands.push((Command::Query, b"SELECT FOUND_ROWS() LIMIT 1"));
        }
        if !names.is_empty() {
            commands.push((Command::Query, types.as_bytes()));
            commands.push((Command::Query, values.as_bytes()));
        }
        let mut packets = Vec::new();
        self.run_rows(&commands, &mut packets).await?;
        let answers = answers(&packets, questions, &names, self.capabilities);
        answers.map_err(|source| ConnectionError::Protocol {
            operation: "reading what a session left",
            source,
        })
    }

    /// Gives user variables these values; `None` unsets.
    pub async fn set_variables(
        &mut self,
        values: &[(&str, Option<&Value>)],
    ) -> Result<(), ConnectionError> {
        let mut text = b"SET ".to_vec();
        for (name, value) in values {
            let expression = value.map_or(UNSET, |value| &value.expression);
            put_assignment(&mut text, name, expression);
            if value.is_none_or(|value| value.null) {
                // NULL keeps the type that the variable had.
                put_assignment(&mut text, name, b"NULL");
            }
        }
        text.pop();
        self.run(&[(Command::Query, &text)]).await.map(drop)
    }
}

/// A variable that was never assigned has this type.
const UNSET: &[u8] = b"_binary X''";

fn put_assignment(text: &mut Vec<u8>, name: &str, expression: &[u8]) {
    text.extend_from_slice(b"@`");
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"`=");
    text.extend_from_slice(expression);
    text.push(b',');
}

/// No row is wanted: the definitions of the columns tell the types.
fn ask_types(names: &[&str]) -> String {
    let items: Vec<String> = names.iter().map(|name| format!("@`{name}`")).collect();
    format!("SELECT {} LIMIT 0", items.join(","))
}

/// An explicit LIMIT, because `sql_select_limit` may be 0.
fn ask_values(names: &[&str]) -> String {
    let one = |name: &&str| {
        let most = VARIABLE_BYTES_MAX + 1;
        format!("LENGTH(@`{name}`),COLLATION(@`{name}`),HEX(LEFT(@`{name}`,{most}))")
    };
    let items: Vec<String> = names.iter().map(one).collect();
    format!("SELECT {} LIMIT 1", items.join(","))
}

fn answers(
    packets: &[u8],
    questions: &Questions,
    names: &[&str],
    capabilities: Capabilities,
) -> Result<Residue, Malformed> {
    let mut results = results(packets).into_iter();
    let mut next = || {
        results.next().ok_or(Malformed {
            what: "a question without an answer",
        })
    };
    let mut residue = Residue::default();
    if questions.warnings {
        residue.warnings = Some(warnings(&next()?)?);
    }
    if questions.found_rows {
        let row = next()?.rows.first().copied().unwrap_or_default();
        let value = TextRow::new(row).next().transpose()?.flatten();
        residue.found_rows = value.and_then(number);
    }
    if !names.is_empty() {
        let (types, values) = (next()?, next()?);
        let row: Vec<Option<&[u8]>> =
            TextRow::new(values.rows.first().copied().unwrap_or_default())
                .collect::<Result<_, _>>()?;
        for ((name, definition), cells) in names.iter().zip(&types.columns).zip(row.chunks(3)) {
            let column = Column::decode(definition, capabilities)?;
            residue
                .variables
                .push(((*name).into(), variable(&column, cells)));
        }
    }
    Ok(residue)
}

fn warnings(result: &ResultSet<'_>) -> Result<Warnings, Malformed> {
    let mut rows = Vec::with_capacity(result.rows.len());
    for row in &result.rows {
        let mut cells = TextRow::new(row);
        let mut next = || -> Result<Vec<u8>, Malformed> {
            Ok(cells
                .next()
                .transpose()?
                .flatten()
                .unwrap_or_default()
                .to_vec())
        };
        rows.push(Warning {
            level: next()?,
            code: next()?,
            message: next()?,
        });
    }
    let columns = result.columns.iter().map(|column| (*column).into());
    Ok(Warnings {
        columns: columns.collect(),
        rows,
    })
}

fn number(bytes: &[u8]) -> Option<u64> {
    str::from_utf8(bytes).ok()?.parse().ok()
}

/// The value behind a column's type and the cells of [`ask_values`].
fn variable(column: &Column<'_>, cells: &[Option<&[u8]>]) -> Variable {
    let [length, Some(collation), hex] = *cells else {
        return Variable::Unset;
    };
    if length
        .and_then(number)
        .is_some_and(|length| length > VARIABLE_BYTES_MAX as u64)
    {
        return Variable::TooLarge;
    }
    let null = hex.is_none();
    // `30` is the digit 0.
    let hex = hex.unwrap_or(match column.kind.is_number() {
        true => b"30",
        false => b"",
    });
    let expression = match column.kind {
        ColumnKind::LongLong | ColumnKind::Long if column.flags & FLAG_UNSIGNED != 0 => {
            format!("CAST({} AS UNSIGNED)", digits(hex))
        }
        ColumnKind::LongLong | ColumnKind::Long => digits(hex),
        ColumnKind::NewDecimal => match digits(hex) {
            fraction if fraction.contains('.') => fraction,
            // Without a point it would be an integer.
            whole => format!("CAST('{whole}' AS DECIMAL(65,0))"),
        },
        ColumnKind::Double => match digits(hex) {
            power if power.contains('e') => power,
            plain => format!("{plain}e0"),
        },
        _ => string(hex, &String::from_utf8_lossy(collation)),
    };
    let expression: Rc<[u8]> = expression.into_bytes().into();
    if null && *expression == *UNSET {
        return Variable::Unset;
    }
    Variable::Set(Value { expression, null })
}

/// A number whose characters came in hexadecimal, in a charset that may have wide characters.
fn digits(hex: &[u8]) -> String {
    let bytes = hex::decode(hex).unwrap_or_default();
    bytes
        .into_iter()
        .filter(|byte| *byte != 0)
        .map(char::from)
        .collect()
}

/// A string of these bytes, in hexadecimal, with a charset and collation of its own.
fn string(hex: &[u8], collation: &str) -> String {
    let hex = String::from_utf8_lossy(hex);
    // The charset is the first part of its collations' names.
    match collation.split_once('_') {
        Some((charset, _)) => format!("_{charset} X'{hex}' COLLATE {collation}"),
        None => format!("_binary X'{hex}'"),
    }
}

/// The expression for a string of ASCII in this collation.
pub fn text_expression(text: &[u8], collation: &str) -> Rc<[u8]> {
    string(hex::encode_upper(text).as_bytes(), collation)
        .into_bytes()
        .into()
}

pub(crate) struct ResultSet<'a> {
    pub columns: Vec<&'a [u8]>,
    pub rows: Vec<&'a [u8]>,
}

/// The result sets among the packets of replies without EOF packets.
pub(crate) fn results(packets: &[u8]) -> Vec<ResultSet<'_>> {
    let mut all = Vec::new();
    let mut packets = payloads(packets);
    while let Some(first) = packets.next() {
        let Some(&count) = first.first().filter(|_| !reply::is_ok(first)) else {
            continue;
        };
        let mut result = ResultSet {
            columns: Vec::new(),
            rows: Vec::new(),
        };
        // More than 250 columns have a longer count.
        let count = match count {
            0xFC => usize::from(u16::from_le_bytes([
                first.get(1).copied().unwrap_or(0),
                first.get(2).copied().unwrap_or(0),
            ])),
            count => usize::from(count),
        };
        result.columns.extend(packets.by_ref().take(count));
        for packet in packets.by_ref() {
            if reply::ends_rows(packet, Capabilities::DEPRECATE_EOF) {
                break;
            }
            result.rows.push(packet);
        }
        all.push(result);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: ColumnKind, flags: u16, cells: [&str; 3]) -> String {
        let column = Column {
            flags,
            ..Column::new("a", kind)
        };
        match variable(&column, &cells.map(|cell| Some(cell.as_bytes()))) {
            Variable::Set(value) => {
                let null = if value.null { " NULL" } else { "" };
                String::from_utf8_lossy(&value.expression).into_owned() + null
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn expressions_keep_type_and_collation() {
        use ColumnKind::{Double, LongBlob, LongLong, NewDecimal};
        assert_eq!(value(LongLong, 0, ["2", "binary", "2D35"]), "-5");
        assert_eq!(
            value(LongLong, FLAG_UNSIGNED, ["1", "binary", "35"]),
            "CAST(5 AS UNSIGNED)"
        );
        assert_eq!(value(NewDecimal, 0, ["4", "binary", "312E3530"]), "1.50");
        assert_eq!(
            value(NewDecimal, 0, ["1", "binary", "0037"]),
            "CAST('7' AS DECIMAL(65,0))"
        );
        assert_eq!(value(Double, 0, ["4", "binary", "31653135"]), "1e15");
        assert_eq!(value(Double, 0, ["3", "binary", "302E33"]), "0.3e0");
        assert_eq!(
            value(LongBlob, 0, ["2", "latin1_german1_ci", "C3A9"]),
            "_latin1 X'C3A9' COLLATE latin1_german1_ci"
        );
        assert_eq!(
            value(LongBlob, 0, ["2", "binary", "00FF"]),
            "_binary X'00FF'"
        );
        assert_eq!(value(LongBlob, 0, ["65537", "binary", "00"]), "TooLarge");
        let column = Column::new("a", LongBlob);
        assert_eq!(
            variable(&column, &[None, Some(b"binary"), None]),
            Variable::Unset
        );
        let typed = Value {
            expression: (*b"0").into(),
            null: true,
        };
        assert_eq!(
            variable(&Column::new("a", LongLong), &[None, Some(b"binary"), None]),
            Variable::Set(typed)
        );
        assert_eq!(
            &*text_expression(b"ab", "utf8mb4_bin"),
            b"_utf8mb4 X'6162' COLLATE utf8mb4_bin"
        );
    }
}
