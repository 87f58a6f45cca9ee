//! `heddle apply`: carries a farm's change stream out on another server.
//!
//! Job: reads the stream of a router over HTTP, and carries its transactions out on a MySQL or MariaDB server by an
//! account of its own, several at the same time where they change different rows.
//!
//! Invariants: up to where the server has the stream stands on the server itself and is written with the changes,
//! so that each transaction is carried out once, whatever dies; two transactions that change the same row keep their
//! order; what the server had otherwise than the stream says is reported, never passed over.
//!
//! Must not know: the farm's servers, and how a transaction is carried out.

mod flags;
mod report;
mod session;
mod source;
mod subscription;
mod workers;

use std::time::Duration;

use engine::Login;

use crate::cli::login;
use crate::failure::Failure;
use crate::printing;
use crate::router::runtime;
pub use flags::Apply;
use report::Report;

/// For a connection.
const TIMEOUT_MS: u64 = 30_000;

/// After something broke.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a reading of the stream ended.
enum Ended {
    /// An operator has to do something.
    Fatal(String),
    /// It is tried again.
    Later(String),
}

fn later(text: impl Into<String>) -> Ended {
    Ended::Later(text.into())
}

/// Applies until something breaks that does not mend itself.
///
/// # Errors
/// What that is, and what to do.
pub fn run(flags: &Apply) -> Result<(), Failure> {
    let login = login_of(flags)?;
    runtime()?.block_on(apply(flags, &login))
}

async fn apply(flags: &Apply, login: &Login) -> Result<(), Failure> {
    let mut report = Report::new();
    for http in flags.http.iter().cycle() {
        match session::run(flags, http, login, &mut report).await {
            Ok(()) => break,
            Err(Ended::Fatal(text)) => return Err(Failure::new(text)),
            Err(Ended::Later(text)) => {
                printing::complain(&format!("apply tries again: {text}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    Ok(())
}

fn login_of(flags: &Apply) -> Result<Login, Failure> {
    let place = login::place_of(&flags.to);
    let place = place
        .ok_or_else(|| Failure::usage(format!("--to {}: no HOST:PORT of a server", flags.to)))?;
    login::login(place, &flags.user, flags.password_file.as_deref())
}
