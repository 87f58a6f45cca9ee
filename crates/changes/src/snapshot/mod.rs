//! A snapshot of tables beside the change stream: what of a group has not been read, and cells of rows that a
//! SELECT gave, in the form in which the binlog has them.
//!
//! Rows are read in the order of their tables' names and, within a table, of its primary key, a chunk at a time. So
//! one table and one key say what has been read.

mod definition;
mod unread;

pub use definition::{Definition, cell};
pub use unread::{Unread, UnreadTable};
