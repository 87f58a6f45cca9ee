//! The flags of `heddle apply`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `heddle apply`.
#[derive(Args, Clone, Debug)]
pub struct Apply {
    /// HOST:PORT of the server that gets the changes
    #[arg(long, value_name = "HOST:PORT")]
    pub to: String,
    /// The account there
    #[arg(long, value_name = "NAME", default_value = "root")]
    pub user: String,
    /// A file with its password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// What this stream is called on the server, where up to where it has been applied is kept
    #[arg(long, value_name = "NAME", default_value = "farm")]
    pub name: String,
    /// The farm's subscription of this name is acknowledged up to where the server has the stream: the farm shows how far it
    /// is behind, and has binlogs kept for it. It is made where there is none
    #[arg(long, value_name = "NAME")]
    pub subscription: Option<String>,
    /// Applies the rows that are there first, and makes tables that the server does not have
    #[arg(long)]
    pub snapshot: bool,
    /// In one order over all groups; a transaction over several groups is one transaction at the server
    #[arg(long, value_name = "ORDER", value_parser = ["global"])]
    pub order: Option<String>,
    /// Only this group; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub group: Vec<String>,
    /// Only this database; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub database: Vec<String>,
    /// Only this table, NAME or DATABASE.NAME; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub table: Vec<String>,
    /// Runs statements again whose rows were not logged (binlog_format=STATEMENT or MIXED). The target has to have the
    /// same tables, triggers and functions
    #[arg(long)]
    pub statements: bool,
    /// Transactions that are applied at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: u32,
    /// Leaves out the definition of this GTID, which you have carried out yourself; may be given more than once
    #[arg(long, value_name = "GTID")]
    pub pass: Vec<String>,
    /// The routers' HTTP addresses; with https:// in front, inside TLS
    #[arg(
        long,
        value_name = "ADDR,…",
        env = "HEDDLE_HTTP",
        default_value = "127.0.0.1:6080",
        value_delimiter = ','
    )]
    pub http: Vec<String>,
    /// PEM file with the routers' certificate, or with its authority's, for https://
    #[arg(long, value_name = "FILE", env = "HEDDLE_CA")]
    pub ca: Option<PathBuf>,
    /// Where the router's token is, and its own certificate
    #[arg(long, value_name = "DIR", default_value = "heddle-data")]
    pub data: PathBuf,
}
