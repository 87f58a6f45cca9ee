//! What a client sends, and the packets that it gets, are those of a straight connection.

mod attributes;
mod binlog;
mod commands;
mod diagnostics;
mod load_local;
mod many_prepared;
mod pipeline;
mod pipeline_groups;
mod prepared;
mod text;
