//! The flags of `heddle bench-commit`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `heddle bench-commit`.
#[derive(Args, Clone, Debug)]
pub struct BenchCommit {
    /// HOST:PORT of the primary that commits
    #[arg(value_name = "HOST:PORT")]
    pub primary: String,
    /// HOST:PORT of a replica of it whose lag is measured, with parallel apply off and on; may be given more than
    /// once
    #[arg(long, value_name = "HOST:PORT")]
    pub replica: Vec<String>,
    /// The account on the servers
    #[arg(long, value_name = "NAME", default_value = "root")]
    pub user: String,
    /// A file with its password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// How many connections commit at the same time, one case each
    #[arg(long, value_name = "N,…", default_value = "1,4,16,64", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=512))]
    pub threads: Vec<u32>,
    /// How long each case lasts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// How long a commit waits for others where group commit is on
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 500,
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub wait_us: u64,
    /// The schema that is written to. One that is there has to be empty
    #[arg(long, value_name = "NAME", default_value = "heddle_bench")]
    pub schema: String,
    /// Changes the servers' settings meanwhile, and makes the schema where it is not there. Not needed where the
    /// schema is there and empty: whoever made it has agreed
    #[arg(long)]
    pub yes: bool,
    /// Measures a server that others use, too
    #[arg(long)]
    pub force: bool,
    /// One JSON array of the rows
    #[arg(long)]
    pub json: bool,
}
