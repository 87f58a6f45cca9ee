//! Connections parked: what a session's last statement left there (warnings, FOUND_ROWS(), user
//! variables) can still be asked for, without a question while nobody else needs the connection.
//!
//! When somebody does, the connection is asked first, by a task of its own, and only then given
//! back. So what a session left is never lost to others, and costs a trip only under contention.

pub mod reclaim;

use backend::{Lease, Questions, Residue, Variable};
use futures_channel::oneshot;

/// A connection is given back after this time without a statement.
const PARKED_S_MAX: u64 = 30;

/// What GET DIAGNOSTICS asks for cannot be kept elsewhere: sessions that use it keep their
/// connection for this time, even when others wait.
const FIRM_S: u64 = 1;

/// The connection that one session has parked.
#[derive(Default)]
pub enum Parked {
    #[default]
    Nothing,
    Kept(Box<Kept>),
    /// It is being asked, or has been; the answer waits here.
    Asked(oneshot::Receiver<Asked>),
}

pub struct Kept {
    pub lease: Lease,
    pub since_s: u64,
    pub questions: Questions,
    /// Not to be taken in its first second.
    pub(crate) firm: bool,
}

/// What became of a connection that was asked.
pub struct Asked {
    /// `None`: the connection broke, and what was there is lost.
    pub residue: Option<Residue>,
    /// Given back to the session because something there is too large to be moved.
    pub lease: Option<Lease>,
}

impl Asked {
    /// Asks a connection.
    pub async fn ask(lease: &mut Lease, questions: &Questions) -> Option<Residue> {
        lease.connection_mut().residue(questions).await.ok()
    }
}

impl Parked {
    /// The answer is there, or on its way.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(self, Parked::Asked(_))
    }
}

/// Something there must stay on its connection.
fn too_large(residue: &Residue) -> bool {
    let large = |(_, value): &(Box<str>, Variable)| *value == Variable::TooLarge;
    residue.variables.iter().any(large)
}
