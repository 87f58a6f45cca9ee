//! The command line: `up`, `serve`, and a verb for every row of the command table.
//!
//! Job: read the words into an action ([`read`]); carry out those that need no router of their own: questions to a
//! running one ([`ask`], [`mysqlfabric`]), stores ([`relocate`]), binlogs, GRANT statements.
//!
//! Invariants: a usage error is exit 2, every other error exit 1 with its cure.
//!
//! Must not know: the inside of a running router. It is asked over HTTP.

pub(crate) mod ask;
pub(crate) mod binlog;
pub(crate) mod grants;
pub mod login;
pub(crate) mod mysqlfabric;
pub(crate) mod relocate;
pub(crate) mod trace;

use std::net::SocketAddr;
use std::path::PathBuf;

use catalog::command::{CommandSpec, TABLE};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::apply::Apply;
use crate::bench_commit::BenchCommit;
use crate::cli::ask::{Question, RouterFlags};
use crate::cli::binlog::BinlogDump;
use crate::settings::Listens;
use crate::{diagnosis, settings, top};

/// What the program is asked to do.
pub enum Action {
    Up(Up),
    Serve(Serve),
    Import(Import),
    Move(Move),
    Grants(Grants),
    Binlog(BinlogDump),
    Trace(trace::Show),
    Doctor(diagnosis::Flags),
    Apply(Apply),
    BenchCommit(BenchCommit),
    /// In the words of `mysqlfabric`.
    Fabric(Vec<String>),
    Top(top::Options),
    Ask(Question),
}

/// Flags of `heddle up`.
#[derive(Args, Clone, Debug)]
pub struct Up {
    /// Directory of the servers' data and the farm's state; a second start takes up what is there
    #[arg(long, value_name = "DIR", default_value = "heddle-data")]
    pub data: PathBuf,
    /// Groups of servers, called g1, g2, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub groups: u32,
    /// Replicas of each group's primary. With 0 there is no semi-sync; with 1, writes go on without
    /// the replica after 1000 ms (--set last_replica_wait_ms=N)
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=8))]
    pub replicas: u32,
    /// Where MySQL clients connect: HOST:PORT, the path of a Unix socket, or both with a comma between
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6306")]
    pub sql: Listens,
    /// Where memcached clients connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6211")]
    pub kv: Listens,
    /// Where the console, metrics and commands are
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6080")]
    pub http: SocketAddr,
    /// Where clients of MySQL Fabric ask by XML-RPC; by CALLs they ask at the next port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:32274")]
    pub fabric: SocketAddr,
    /// Software of the servers
    #[arg(long, value_parser = ["mariadb", "mysql"], default_value = "mariadb")]
    pub engine: String,
    /// The server program, or the directory that holds it; default: from PATH
    #[arg(long, value_name = "PATH")]
    pub mysqld: Option<PathBuf>,
    /// Starts no scratch server: SELECTs whose rows come from several groups run on a primary
    #[arg(long)]
    pub no_scratch: bool,
    #[command(flatten)]
    pub common: Common,
}

/// Flags of `heddle serve`.
#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// The file with the settings
    #[arg(long, value_name = "FILE", default_value = "heddle.toml")]
    pub config: PathBuf,
    /// Reads the file, says what is wrong with it, and ends
    #[arg(long)]
    pub check: bool,
    /// Client URLs of an etcd cluster that keeps the state of a farm of several routers
    #[arg(long, value_name = "URL,…")]
    pub etcd: Option<String>,
    #[command(flatten)]
    pub common: Common,
}

/// Which store, for commands that run while no router does.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// The file with the router's settings
    #[arg(long, value_name = "FILE", default_value = "heddle.toml")]
    pub config: PathBuf,
    /// Client URLs of the etcd cluster, where the file names none
    #[arg(long, value_name = "URL,…")]
    pub etcd: Option<String>,
    /// Sets any setting, as for serve; may be given more than once
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

/// Flags of `heddle meta import`.
#[derive(Args, Clone, Debug)]
pub struct Import {
    /// What `heddle meta export --json` wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub place: Place,
}

/// Flags of `heddle meta move`.
#[derive(Args, Clone, Debug)]
pub struct Move {
    /// The store to move to; the farm is taken from the other one
    #[arg(long, value_name = "STORE", value_parser = ["etcd", "embedded"])]
    pub to: String,
    #[command(flatten)]
    pub place: Place,
}

/// Flags of `heddle grants`.
#[derive(Args, Clone, Debug)]
pub struct Grants {
    /// What SELECT VERSION() says on the servers, for example 10.11.6-MariaDB or 8.0.45
    #[arg(value_name = "VERSION")]
    pub version: String,
    /// The account, with its host behind an @
    #[arg(long, value_name = "USER@HOST", default_value = "heddle@%")]
    pub account: String,
    /// The account with which replicas connect to their primary
    #[arg(long, value_name = "USER@HOST", default_value = "heddle_replication@%")]
    pub replication: String,
    /// Only what these features need besides what every farm does: essential, clone, shards, kv,
    /// relaxed_replicas; default: all
    #[arg(long = "for", value_name = "FEATURE,…", value_delimiter = ',')]
    pub features: Vec<String>,
}

/// Flags of both.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// How the kernel moves bytes: auto, io_uring or epoll
    #[arg(long, value_name = "IO")]
    pub io: Option<String>,
    /// Threads that carry clients; 0 takes one per processor core
    #[arg(long, value_name = "N")]
    pub threads: Option<u64>,
    /// Sets any setting of the list below; may be given more than once
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

impl Common {
    /// Applies the flags to the settings. The error is for people.
    pub fn apply(&self, settings: &mut settings::Settings) -> Result<(), String> {
        let io = self.io.iter().map(|io| format!("io={io}"));
        let threads = self
            .threads
            .iter()
            .map(|threads| format!("threads={threads}"));
        for assignment in io.chain(threads).chain(self.set.iter().cloned()) {
            settings.assign(&assignment)?;
        }
        Ok(())
    }
}

/// Reads the program's arguments. Wrong ones end the program with exit 2, `--help` with exit 0.
pub fn read() -> Action {
    let mut arguments = std::env::args_os();
    let own = arguments.next().map(PathBuf::from);
    let is_fabrics = own.as_ref().and_then(|path| path.file_name()) == Some("mysqlfabric".as_ref());
    let matches = match is_fabrics {
        // Scripts of Fabric call the program by its name.
        true => program().get_matches_from(
            ["heddle", FABRIC]
                .map(Into::into)
                .into_iter()
                .chain(arguments),
        ),
        false => program().get_matches(),
    };
    let (name, matches) = matches.subcommand().expect("clap demands a subcommand");
    match name {
        "up" => Action::Up(Up::from_arg_matches(matches).unwrap_or_else(|error| error.exit())),
        "serve" => {
            Action::Serve(Serve::from_arg_matches(matches).unwrap_or_else(|error| error.exit()))
        }
        "meta" => match matches.subcommand() {
            Some(("import", matches)) => Action::Import(
                Import::from_arg_matches(matches).unwrap_or_else(|error| error.exit()),
            ),
            Some(("move", matches)) => {
                Action::Move(Move::from_arg_matches(matches).unwrap_or_else(|error| error.exit()))
            }
            _ => Action::Ask(question(name, matches)),
        },
        TRACE => match matches.subcommand() {
            Some(("show", matches)) => Action::Trace(
                trace::Show::from_arg_matches(matches).unwrap_or_else(|error| error.exit()),
            ),
            _ => Action::Ask(question(name, matches)),
        },
        "grants" => {
            Action::Grants(Grants::from_arg_matches(matches).unwrap_or_else(|error| error.exit()))
        }
        BINLOG => {
            let (_, matches) = matches.subcommand().expect("clap demands a subcommand");
            Action::Binlog(
                BinlogDump::from_arg_matches(matches).unwrap_or_else(|error| error.exit()),
            )
        }
        DOCTOR => Action::Doctor(
            diagnosis::Flags::from_arg_matches(matches).unwrap_or_else(|error| error.exit()),
        ),
        TOP => Action::Top(
            top::Options::from_arg_matches(matches).unwrap_or_else(|error| error.exit()),
        ),
        "apply" => {
            Action::Apply(Apply::from_arg_matches(matches).unwrap_or_else(|error| error.exit()))
        }
        BENCH_COMMIT => Action::BenchCommit(
            BenchCommit::from_arg_matches(matches).unwrap_or_else(|error| error.exit()),
        ),
        FABRIC => {
            let words = matches.get_many::<String>(WORDS).into_iter().flatten();
            Action::Fabric(words.cloned().collect())
        }
        group => Action::Ask(question(group, matches)),
    }
}

const BENCH_COMMIT: &str = "bench-commit";

fn bench_commit() -> Command {
    BenchCommit::augment_args(Command::new(BENCH_COMMIT)).about(
        "Measures commits per second of servers of yours, and their replicas' lag (docs/REPLICATION.md)",
    )
}

const BINLOG: &str = "binlog";

fn binlog() -> Command {
    let dump = BinlogDump::augment_args(Command::new("dump"))
        .about("Shows a binlog's transactions, of a file or of a server (docs/CHANGES.md)");
    Command::new(BINLOG)
        .about("Reads binlogs")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(dump)
}

/// The command line of MySQL Fabric, whose words are its own.
const FABRIC: &str = "fabric";
const WORDS: &str = "WORD";

fn fabric() -> Command {
    let words = Arg::new(WORDS)
        .num_args(0..)
        .trailing_var_arg(true)
        .allow_hyphen_values(true);
    Command::new(FABRIC)
        .about("Takes the words of mysqlfabric, and prints its tables; `fabric help` says more")
        .disable_help_flag(true)
        .arg(words)
}

/// The farm in a terminal.
const TOP: &str = "top";
const TOP_ABOUT: &str = "Shows the farm in the terminal, live (docs/CONSOLE.md#in-a-terminal)";

const DOCTOR: &str = "doctor";

fn doctor() -> Command {
    diagnosis::Flags::augment_args(Command::new(DOCTOR)).about(
        "Shows what is wrong with the farm, what it breaks and what mends it (docs/DOCTOR.md)",
    )
}

fn spec_of(group: &str, name: &str) -> &'static CommandSpec {
    let mut specs = TABLE.iter();
    let spec = specs.find(|spec| spec.group == group && spec.command == name);
    spec.expect("clap knows only the table's commands")
}

fn program() -> Command {
    let up = Up::augment_args(Command::new("up"))
        .about("Starts a farm on this machine: real servers that replicate, behind one address")
        .after_long_help(UP_HELP.to_owned() + &settings::help());
    let serve = Serve::augment_args(Command::new("serve"))
        .about("Serves a farm of your own servers, as a settings file says")
        .after_long_help(settings::help());
    let program = Command::new("heddle")
        .version(env!("CARGO_PKG_VERSION"))
        .about("One address for a farm of MySQL and MariaDB servers")
        .after_help(AFTER_HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(up)
        .subcommand(serve)
        .subcommand(Grants::augment_args(Command::new("grants")).about(GRANTS_ABOUT))
        .subcommand(binlog())
        .subcommand(top::Options::augment_args(Command::new(TOP)).about(TOP_ABOUT))
        .subcommand(doctor())
        .subcommand(Apply::augment_args(Command::new("apply")).about(APPLY_ABOUT))
        .subcommand(bench_commit())
        .subcommand(fabric());
    let mut groups: Vec<&str> = TABLE.iter().map(|spec| spec.group).collect();
    groups.dedup();
    groups.into_iter().fold(program, |program, group| {
        let command = group_command(group);
        program.subcommand(match group {
            "meta" => command.subcommands(offline_commands()),
            TRACE => command.subcommand(show_trace()),
            _ => command,
        })
    })
}

const GRANTS_ABOUT: &str =
    "Prints the GRANT statements for the accounts by which Heddle logs in to servers of a release";

const APPLY_ABOUT: &str = "Applies the farm's changes to another MySQL or MariaDB server, until it is stopped (docs/CHANGES.md)";

const AFTER_HELP: &str = "\
Try it: `heddle up`, and in another terminal `mariadb -h 127.0.0.1 -P 6306 -u root`.
Every command but `up`, `serve`, `grants`, `binlog dump`, `trace show`, `meta import` and `meta move` talks to a running router: the one at --http, or at $HEDDLE_HTTP,
or at 127.0.0.1:6080. Commands need its token: $HEDDLE_TOKEN, or the file
`token` in --data.";

const UP_HELP: &str = "\
When everything serves, one line says so: `heddle: ready sql=ADDR kv=ADDR http=ADDR`. DIR/farm.json
tells where the servers are. Ctrl-C stops the servers and ends; the data stays. A server that dies is
started again. After kill -9 of `heddle up` itself the servers run on, and the next `heddle up` with
the same DIR finds them.

";

/// What the flight recorder kept.
const TRACE: &str = "trace";

/// What reads dumps and rings, whether or not a router runs.
fn show_trace() -> Command {
    trace::Show::augment_args(Command::new("show"))
        .about("Shows the last steps of a router, as dumps and rings have them (docs/TRACES.md)")
}

/// What writes a store itself, while no router does.
fn offline_commands() -> [Command; 2] {
    let import = Import::augment_args(Command::new("import"));
    let relocate = Move::augment_args(Command::new("move"));
    [
        import.about("Writes an export into the store of the settings, while no router runs"),
        relocate.about("Moves the farm between the state file and etcd, while no router runs"),
    ]
}

/// `heddle group …`: the table's commands of one group.
fn group_command(group: &'static str) -> Command {
    let specs = TABLE.iter().filter(|spec| spec.group == group);
    let commands = specs.map(command);
    let names: Vec<&str> = TABLE
        .iter()
        .filter(|spec| spec.group == group)
        .map(|spec| spec.command)
        .collect();
    Command::new(group)
        .about(format!("Commands: {}", names.join(", ")))
        .subcommand_required(true)
        .arg_required_else_help(true)
        // `manage help` is a command of the router.
        .disable_help_subcommand(true)
        .subcommands(commands)
}

/// `heddle group add …`: arguments in order; optional ones also by name.
fn command(spec: &'static CommandSpec) -> Command {
    let mut command = Command::new(spec.command)
        .about(spec.help)
        .after_help("Optional arguments may also be given by name, for example --timeout=5.")
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Prints one JSON array of row objects"),
        );
    command = RouterFlags::augment_args(command);
    if takes_document(spec) {
        let file = Arg::new(FILE).long(FILE).value_name("PATH");
        command = command.arg(file.help("Takes the document from this file; - is stdin"));
    }
    for (place, arg) in spec.args.iter().enumerate() {
        let shown = Arg::new(format!("at {place}"))
            .value_name(arg.name.to_ascii_uppercase())
            .required(!arg.optional)
            .help(arg.help);
        command = command.arg(shown);
        if arg.optional {
            let named = Arg::new(arg.name).long(arg.name).value_name("VALUE");
            let named = match arg.name.contains('_') {
                true => named.alias(arg.name.replace('_', "-")),
                false => named,
            };
            // What follows a switch is an argument of its own.
            let named = match arg.switch {
                true => named
                    .num_args(0..=1)
                    .default_missing_value("true")
                    .require_equals(true),
                false => named.num_args(1).allow_negative_numbers(true),
            };
            command = command.arg(named.hide(true));
        }
    }
    command
}

/// The flag of commands that take a document.
const FILE: &str = "file";

fn takes_document(spec: &CommandSpec) -> bool {
    spec.args.iter().any(|arg| arg.name == DOCUMENT)
}

const DOCUMENT: &str = "document";

/// The text of `--file`, if it was given; a file that cannot be read ends the program.
fn document(matches: &ArgMatches) -> Option<String> {
    let path = matches.get_one::<String>(FILE)?;
    let read = match path.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()),
        path => std::fs::read_to_string(path),
    };
    let text = read.unwrap_or_else(|error| {
        let text = format!("cannot read {path}: {error}; name another with --file=PATH\n");
        program().error(clap::error::ErrorKind::Io, text).exit()
    });
    // An empty argument would be none.
    Some(if text.is_empty() {
        "\n".to_owned()
    } else {
        text
    })
}

fn question(group: &str, matches: &ArgMatches) -> Question {
    let (name, matches) = matches.subcommand().expect("clap demands a command");
    asked(spec_of(group, name), matches)
}

fn asked(spec: &'static CommandSpec, matches: &ArgMatches) -> Question {
    let text = |id: &str| matches.get_one::<String>(id).cloned();
    let places = 0..spec.args.len();
    let mut call = catalog::Call::new(spec.group, spec.command, &[]);
    call.args = places
        .filter_map(|place| text(&format!("at {place}")))
        .collect();
    for arg in spec.args.iter().filter(|arg| arg.optional) {
        if let Some(value) = text(arg.name) {
            call.options.insert(arg.name.to_owned(), value);
        }
    }
    if takes_document(spec)
        && let Some(text) = document(matches)
    {
        call.options.insert(DOCUMENT.to_owned(), text);
    }
    Question {
        call,
        json: matches.get_flag("json"),
        router: RouterFlags::from_arg_matches(matches).unwrap_or_else(|error| error.exit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        program().debug_assert();
    }

    #[test]
    fn words_become_calls() {
        let words = [
            "heddle",
            "group",
            "add",
            "g1",
            "127.0.0.1:3306",
            "--name=one",
            "--json",
        ];
        let matches = program().try_get_matches_from(words).expect("right");
        let (group, matches) = matches.subcommand().expect("a group");
        let question = question(group, matches);
        assert_eq!(question.call.args, ["g1", "127.0.0.1:3306"]);
        assert_eq!(question.call.options["name"], "one");
        assert!(question.json);
    }

    #[test]
    fn a_value_may_stand_behind_its_name_and_a_switch_needs_none() {
        let words = "heddle kv create --table d.t --flush users --key=k --values a,b";
        let matches = program()
            .try_get_matches_from(words.split(' '))
            .expect("right");
        let (group, matches) = matches.subcommand().expect("a group");
        let call = question(group, matches).call;
        assert_eq!(call.args, ["users"]);
        let given = |name: &str| call.options.get(name).map(String::as_str);
        assert_eq!(given("table"), Some("d.t"));
        assert_eq!(given("values"), Some("a,b"));
        assert_eq!((given("flush"), given("escape")), (Some("true"), None));
        let same = catalog::Call::parse(&words.split(' ').skip(1).collect::<Vec<_>>());
        assert_eq!(
            same.map(|same| (same.args, same.options)),
            Ok((call.args, call.options))
        );
    }

    #[test]
    fn the_doctor_is_asked_without_a_group() {
        let flags = |words: &str| {
            let matches = program().try_get_matches_from(words.split(' '))?;
            let (_, matches) = matches.subcommand().expect("a verb");
            diagnosis::Flags::from_arg_matches(matches)
        };
        let call = flags("heddle doctor g1 10.0.0.5:3306").expect("right");
        let call = call.look().call;
        assert_eq!((&*call.group, &*call.command), ("manage", "doctor"));
        assert_eq!(call.options["of"], "g1,10.0.0.5:3306");
        let call = flags("heddle doctor --before-add 10.0.0.6:3306").expect("right");
        assert_eq!(call.look().call.options["before_add"], "10.0.0.6:3306");
        let watch = |words: &str| flags(words).expect("right").watch;
        assert_eq!(watch("heddle doctor --watch g1"), Some(60));
        assert_eq!(watch("heddle doctor --watch=5"), Some(5));
        assert!(flags("heddle doctor --fix --watch").is_err());
        assert!(flags("heddle doctor --yes").is_err());
    }

    #[test]
    fn a_missing_argument_is_a_usage_error() {
        let error = program().try_get_matches_from(["heddle", "group", "add", "g1"]);
        assert_eq!(error.expect_err("the address is missing").exit_code(), 2);
    }
}
