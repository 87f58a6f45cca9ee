//! Replication as operators of ordinary servers have it: replicas and other readers of binlogs follow a group of the
//! farm through the SQL door, and commits are measured.

mod bench_commit;
mod deaths;
mod reader;
mod replica;
mod safety;
mod tools;
