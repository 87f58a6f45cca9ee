//! What `heddle binlog dump` is told on its command line.

use std::path::PathBuf;

use clap::Args;

/// Flags of `heddle binlog dump`.
#[derive(Args, Clone, Debug)]
pub struct BinlogDump {
    /// A file, or HOST:PORT of a server, whose binlog is read to its present end
    #[arg(value_name = "FILE|HOST:PORT")]
    pub of: String,
    /// Begins behind these transactions ; default: with the oldest that is there
    #[arg(long, value_name = "GTIDS")]
    pub from: Option<String>,
    /// Statements in place of lines of JSON
    #[arg(long)]
    pub sql: bool,
    /// Lines of JSON, as GET /v1/changes has them without tokens (the default)
    #[arg(long, conflicts_with = "sql")]
    pub json: bool,
    /// The events themselves, as one file that mysqlbinlog and mariadb-binlog read
    #[arg(long, conflicts_with_all = ["sql", "json", "database", "table"])]
    pub raw: bool,
    /// Where --sql writes the files of LOAD DATA statements whose rows were not logged; default: the system's directory
    /// for such files
    #[arg(long, value_name = "DIR", requires = "sql")]
    pub local_load: Option<PathBuf>,
    /// Only rows of this database; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub database: Vec<String>,
    /// Only rows of this table, NAME or DATABASE.NAME; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub table: Vec<String>,
    /// The account on the server
    #[arg(long, value_name = "NAME", default_value = "root")]
    pub user: String,
    /// A file with its password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}
