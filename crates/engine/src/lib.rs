//! What differs between MariaDB and MySQL.

pub mod replication;
