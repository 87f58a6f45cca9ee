//! The program `heddle`: reads its command line, builds the router from the crates below, and ends it
//! in order.
//!
//! Job: settings, command line, wiring, start and drain; `up`, which runs a farm of its own servers;
//! the command-line verbs and `top`, which talk to a running router over HTTP.
//!
//! Invariants: what starts here ends here, in the order that [`router`] writes down; an error is one
//! line with its cure on stderr, exit 1; a usage error is exit 2; only this crate prints.
//!
//! Must not know: protocols, statements, how servers replicate. Those are the crates below.

mod apply;
mod bench_commit;
mod cli;
mod configuration;
mod data_plane;
mod diagnosis;
mod doors;
mod failure;
mod flight;
mod handover;
mod host;
mod printing;
mod router;
mod serve;
mod settings;
mod store;
mod top;
mod traces;
mod up;

use std::process::ExitCode;

use cli::Action;
use failure::Failure;

fn main() -> ExitCode {
    let outcome = match cli::read() {
        Action::Up(options) => on_control_thread(|| up::run(options)),
        Action::Serve(options) => on_control_thread(|| serve::run(options)),
        Action::Import(flags) => cli::relocate::import(&flags),
        Action::Move(flags) => cli::relocate::relocate(&flags),
        Action::Grants(flags) => cli::grants::run(&flags),
        Action::Binlog(flags) => cli::binlog::run(&flags),
        Action::Trace(flags) => cli::trace::run(&flags),
        Action::Doctor(flags) => diagnosis::run(&flags),
        Action::Apply(flags) => apply::run(&flags),
        Action::BenchCommit(flags) => bench_commit::run(&flags),
        Action::Fabric(words) => cli::mysqlfabric::run(&words),
        Action::Top(options) => top::run(&options),
        Action::Ask(question) => cli::ask::run(&question),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            printing::complain(&failure.text);
            ExitCode::from(failure.code)
        }
    }
}

/// Runs the router on a thread that is named after what it does, so that `top -H` can be read.
fn on_control_thread(
    run: impl FnOnce() -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let thread = std::thread::Builder::new()
        .name("control".to_owned())
        .stack_size(reactor::STACK_BYTES)
        .spawn(run);
    let thread = thread.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    thread
        .join()
        .unwrap_or_else(|_| Err(Failure::new("the control thread panicked")))
}
