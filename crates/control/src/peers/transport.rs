//! How a question reaches another router, as a door implements it, and what can go wrong on the way.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::peers::roster::Peer;
use crate::peers::way::Way;
use catalog::{Call, CommandError, Table};

/// The future of a peer's answer.
pub type Asking<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One question to one peer.
#[derive(Clone, Debug)]
pub struct Question {
    pub peer: Peer,
    pub way: Way,
    pub call: Call,
    /// The whole of it may take so long, the connection included.
    pub limit: Duration,
}

/// Asks other routers. Implementations know how to reach them.
pub trait Peers: Debug + Send + Sync {
    /// Asks one. The future may be dropped; what was asked may be done all the same.
    fn ask(&self, question: Question) -> Asking<Result<Table, PeerError>>;
}

/// Whether the router at this HTTP address (`host:port`) is surely gone: its machine answers within
/// `limit` and refuses the connection. Any doubt, silence among them, is false.
pub async fn is_gone(http: &str, limit: Duration) -> bool {
    let tried = tokio::time::timeout(limit, TcpStream::connect(http)).await;
    matches!(tried, Ok(Err(error)) if is_refusal(&error))
}

/// The machine answered that nobody listens there.
pub fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

/// A router that has no way to others: one that is alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

impl Peers for NoPeers {
    fn ask(&self, _question: Question) -> Asking<Result<Table, PeerError>> {
        let why = "this router has no way to others".to_owned();
        Box::pin(async move { Err(PeerError::Unreached(why)) })
    }
}

/// Why a peer gave no answer, or what it answered instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Its machine refuses the connection, so nothing was asked: the process is gone.
    #[error("its process is gone (the connection was refused)")]
    Gone,
    /// It could not be reached, so nothing was asked.
    #[error("it cannot be reached ({0})")]
    Unreached(String),
    /// It was asked and did not answer. What it was asked may have been done, or may yet be.
    #[error("it did not answer ({0})")]
    Silent(String),
    /// What answers at its address is no router of this farm, or one that speaks otherwise.
    #[error("what answers there is not a router of this farm, or of another version: {0}")]
    Strange(String),
    /// The command's own error.
    #[error("{0}")]
    Command(CommandError),
}
