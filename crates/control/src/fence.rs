//! Making sure that a server takes no write any more, from outside of it.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// The server to be fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceTarget {
    pub uuid: String,
    pub name: String,
    pub host: String,
    pub port: u16,
    pub group: String,
}

impl FenceTarget {
    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// What became of the wish to fence a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// It takes no write any more: its process has ended, or its power or network is off.
    Surely,
    /// This router has no means to do it.
    NoMeans,
    /// It was tried; the text says why it is not sure.
    Failed(String),
}

/// The future of [`Fence::fence`].
pub type Fencing = Pin<Box<dyn Future<Output = Fenced> + Send>>;

/// Power, network or process of a server, as far as the router can reach them.
pub trait Fence: Send + Sync + Debug {
    /// Fences a server; may be called again for one that is fenced. Called on the control thread:
    /// must not block it, and ends within the deadline that the settings give it.
    fn fence(&self, target: FenceTarget) -> Fencing;
}

/// No means at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFence;

impl Fence for NoFence {
    fn fence(&self, _target: FenceTarget) -> Fencing {
        Box::pin(async { Fenced::NoMeans })
    }
}
