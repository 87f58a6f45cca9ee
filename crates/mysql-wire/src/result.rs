//! Result sets: how many columns, their definitions, and rows as text or in binary form.

mod column;
mod row;
mod write;

pub use column::{
    Column, ColumnCount, ColumnKind, FLAG_BINARY, FLAG_NOT_NULL, FLAG_NUMBER, FLAG_UNSIGNED,
};
pub use row::{TextRow, decode_binary_row, encode_binary_row, encode_text_row, is_binary_row};
pub use write::{write_columns, write_text_result};

pub use crate::value::{DateTime, TimeSpan, Value, ValueKind};
