//! The command line of `heddle doctor`.

use catalog::Call;
use clap::Args;

use crate::cli::ask::{Question, RouterFlags};

/// Flags of `heddle doctor`.
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// Only these groups, servers (HOST:PORT) and routers; default: all
    #[arg(value_name = "GROUP|HOST:PORT|ROUTER")]
    pub names: Vec<String>,
    /// Looks at a server that is not in the farm yet; a group beside it is what it is compared with
    #[arg(long, value_name = "HOST:PORT", alias = "before_add")]
    pub before_add: Option<String>,
    /// Mends what can be mended without a risk; asks before what has one, and says why the rest is left
    #[arg(long, conflicts_with_all = ["before_add", "watch"])]
    pub fix: bool,
    /// With --fix: agrees to what would be asked
    #[arg(long, requires = "fix")]
    pub yes: bool,
    /// Looks again and again until it is ended, and prints what has changed
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", require_equals = true,
          value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub watch: Option<u64>,
    /// Ends with 0 where nothing is wrong, 1 where the gravest is a warning, 2 where it is an error, 3 where
    /// nobody could look; --watch does so by itself
    #[arg(long)]
    pub exit_code: bool,
    /// Prints JSON: one array of row objects, with --watch one object a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub router: RouterFlags,
}

impl Flags {
    /// What the router is asked to look at.
    pub fn look(&self) -> Question {
        let mut call = Call::new("manage", "doctor", &[]);
        if !self.names.is_empty() {
            call.options.insert("of".to_owned(), self.names.join(","));
        }
        if let Some(address) = &self.before_add {
            call.options
                .insert("before_add".to_owned(), address.clone());
        }
        self.question(call)
    }

    /// What the router is asked to mend.
    pub fn mend(&self, check: &str, server: &str, sure: bool) -> Question {
        let mut call = Call::new("manage", "mend", &[check, server]);
        call.options.insert("sure".to_owned(), sure.to_string());
        self.question(call)
    }

    fn question(&self, call: Call) -> Question {
        Question {
            call,
            json: self.json,
            router: self.router.clone(),
        }
    }
}
