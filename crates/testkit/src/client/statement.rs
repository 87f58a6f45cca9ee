//! Prepared statements: prepare, execute with values, fetch, close.

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::reply;
use mysql_wire::scalar::{Reader, put_lenenc_bytes, put_u16, put_u32};

use super::reply::column;
use super::{Client, Column, Failure, Reply, Rows};

/// A value of a parameter or of a binary result.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    UInt(u64),
    Float(f32),
    Double(f64),
    /// Strings, decimals, blobs.
    Bytes(Vec<u8>),
    /// DATE, DATETIME, TIMESTAMP and TIME as the bytes behind their length byte.
    Temporal(Vec<u8>),
}

impl Value {
    /// For comparison with text results; `None` for NULL. Temporal values show their bytes.
    pub fn text(&self) -> Option<String> {
        match self {
            Value::Null => None,
            Value::Int(value) => Some(value.to_string()),
            Value::UInt(value) => Some(value.to_string()),
            Value::Float(value) => Some(value.to_string()),
            Value::Double(value) => Some(value.to_string()),
            Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Value::Temporal(bytes) => Some(format!("{bytes:?}")),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

/// What the server said to COM_STMT_PREPARE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub id: u32,
    pub params: Vec<Column>,
    pub columns: Vec<Column>,
    pub warnings: u16,
}

impl Client {
    /// COM_STMT_PREPARE.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Failure> {
        self.send_command(Command::StmtPrepare, sql.as_bytes())?;
        let payload = self.read_packet()?;
        if reply::is_err(&payload) {
            return Err(self.server_failure(&payload));
        }
        let mut reader = Reader::new(&payload);
        reader.u8()?;
        let id = reader.u32()?;
        let (columns, params) = (reader.u16()?, reader.u16()?);
        reader.u8()?;
        let warnings = reader.u16()?;
        let optional = Capabilities::OPTIONAL_RESULTSET_METADATA;
        let described = !self.capabilities.contains(optional) || reader.u8()? == 1;
        let params = self.read_columns(params, described)?;
        let columns = self.read_columns(columns, described)?;
        Ok(Statement {
            id,
            params,
            columns,
            warnings,
        })
    }

    /// Definitions, as many as there are or none where they are left out, and their end.
    fn read_columns(&mut self, count: u16, described: bool) -> Result<Vec<Column>, Failure> {
        let columns = (0..if described { count } else { 0 })
            .map(|_| column(&self.read_packet()?, self.capabilities))
            .collect();
        if count > 0 && !self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            self.read_packet()?;
        }
        columns
    }

    /// COM_STMT_EXECUTE without a cursor.
    pub fn execute(
        &mut self,
        statement: &Statement,
        values: &[Value],
    ) -> Result<Vec<Reply>, Failure> {
        self.send_execute(statement.id, 0, values)?;
        self.known_columns.clone_from(&statement.columns);
        self.read_results(true)
    }

    /// COM_STMT_EXECUTE; `flags` 1 asks for a read-only cursor.
    pub fn send_execute(&mut self, id: u32, flags: u8, values: &[Value]) -> Result<(), Failure> {
        let mut payload = Vec::new();
        put_u32(&mut payload, id);
        payload.push(flags);
        put_u32(&mut payload, 1);
        if !values.is_empty() {
            let mut nulls = vec![0u8; values.len().div_ceil(8)];
            for (i, value) in values.iter().enumerate() {
                nulls[i / 8] |= u8::from(*value == Value::Null) << (i % 8);
            }
            payload.extend_from_slice(&nulls);
            payload.push(1);
            for value in values {
                put_u16(&mut payload, type_of(value));
            }
            for value in values {
                put_value(&mut payload, value);
            }
        }
        self.send_command(Command::StmtExecute, &payload)
    }

    /// COM_STMT_BULK_EXECUTE of these rows, with `types` or with those of the last execution; every
    /// row has a value for each parameter, and a value of type Null is NULL.
    pub fn execute_bulk(
        &mut self,
        statement: &Statement,
        flags: u16,
        types: Option<&[Value]>,
        rows: &[&[Value]],
    ) -> Result<Vec<Reply>, Failure> {
        let mut payload = Vec::new();
        put_u32(&mut payload, statement.id);
        put_u16(&mut payload, flags | if types.is_some() { 128 } else { 0 });
        for value in types.unwrap_or_default() {
            put_u16(&mut payload, type_of(value));
        }
        for value in rows.iter().flat_map(|row| row.iter()) {
            payload.push(u8::from(*value == Value::Null));
            put_value(&mut payload, value);
        }
        self.send_command(Command::StmtBulkExecute, &payload)?;
        self.known_columns.clone_from(&statement.columns);
        self.read_results(true)
    }

    /// COM_STMT_FETCH on an open cursor.
    pub fn fetch(&mut self, statement: &Statement, rows: u32) -> Result<Rows, Failure> {
        let mut payload = Vec::new();
        put_u32(&mut payload, statement.id);
        put_u32(&mut payload, rows);
        self.send_command(Command::StmtFetch, &payload)?;
        self.read_rows(statement.columns.clone(), true)
    }

    /// COM_STMT_SEND_LONG_DATA, which has no answer.
    pub fn send_long_data(&mut self, id: u32, param: u16, data: &[u8]) -> Result<(), Failure> {
        let mut payload = Vec::new();
        put_u32(&mut payload, id);
        put_u16(&mut payload, param);
        payload.extend_from_slice(data);
        self.send_command(Command::StmtSendLongData, &payload)
    }

    /// COM_STMT_RESET.
    pub fn reset_statement(&mut self, id: u32) -> Result<super::Done, Failure> {
        self.send_command(Command::StmtReset, &id.to_le_bytes())?;
        self.read_done()
    }

    /// COM_STMT_CLOSE, which has no answer.
    pub fn close(&mut self, statement: Statement) -> Result<(), Failure> {
        self.send_command(Command::StmtClose, &statement.id.to_le_bytes())
    }
}

/// The type byte and, in the high byte, whether it is unsigned.
fn type_of(value: &Value) -> u16 {
    match value {
        Value::Null => 6,
        Value::Int(_) => 8,
        Value::UInt(_) => 0x8008,
        Value::Float(_) => 4,
        Value::Double(_) => 5,
        Value::Bytes(_) => 253,
        Value::Temporal(_) => 12,
    }
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => {}
        Value::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::UInt(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Bytes(bytes) | Value::Temporal(bytes) => put_lenenc_bytes(out, bytes),
    }
}

/// Reads a row of the binary protocol: a zero byte, the null bitmap from bit 2 on, the values.
pub(super) fn binary_row(payload: &[u8], columns: &[Column]) -> Result<Vec<Value>, Failure> {
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let nulls = reader.bytes((columns.len() + 9) / 8)?;
    let mut row = Vec::with_capacity(columns.len());
    for (i, column) in columns.iter().enumerate() {
        if nulls[(i + 2) / 8] & (1 << ((i + 2) % 8)) != 0 {
            row.push(Value::Null);
        } else {
            row.push(binary_value(&mut reader, column)?);
        }
    }
    Ok(row)
}

fn binary_value(reader: &mut Reader<'_>, column: &Column) -> Result<Value, Failure> {
    const UNSIGNED: u16 = 32;
    let unsigned = column.flags & UNSIGNED != 0;
    let integer = |signed: i64, bits: u32| {
        if unsigned {
            Value::UInt(signed as u64 & (u64::MAX >> (64 - bits)))
        } else {
            Value::Int(signed)
        }
    };
    Ok(match column.kind {
        1 => integer(i64::from(reader.u8()? as i8), 8),
        2 | 13 => integer(i64::from(reader.u16()? as i16), 16),
        3 | 9 => integer(i64::from(reader.u32()? as i32), 32),
        8 => integer(reader.u64()? as i64, 64),
        4 => Value::Float(f32::from_le_bytes(reader.array()?)),
        5 => Value::Double(f64::from_le_bytes(reader.array()?)),
        6 => Value::Null,
        7 | 10 | 11 | 12 => {
            let length = reader.u8()?;
            Value::Temporal(reader.bytes(length.into())?.to_vec())
        }
        _ => Value::Bytes(reader.lenenc_bytes()?.to_vec()),
    })
}
