//! Filling a server with the files of another one, by whoever can reach both data directories.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use engine::copy::Progress;

/// One backup of a donor, made straight into the recipient's data directory.
#[derive(Clone, Debug)]
pub struct BackupOrder {
    /// `host:port`.
    pub donor: String,
    pub recipient: String,
    /// 0 for no limit.
    pub mib_per_s_max: u64,
    /// Whoever carries it out writes down how far it is.
    pub progress: Arc<Progress>,
}

/// What a recipient has then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// The GTID position of the backup.
    pub gtids: String,
    /// Its binary logs are the donor's, up to this position.
    pub has_logs: bool,
}

/// The future of [`Backup::fill`]: what the recipient has, or why it has not.
pub type Filling = Pin<Box<dyn Future<Output = Result<Filled, String>> + Send>>;

/// Files and processes of servers, as far as the router can reach them.
pub trait Backup: Send + Sync + Debug {
    /// Why it cannot fill this recipient from this donor (`host:port` each); `None` when it can.
    fn objection(&self, donor: &str, recipient: &str) -> Option<String>;

    /// A server that ends by itself is surely started again.
    fn restarts(&self, address: &str) -> bool;

    /// Fills the recipient, which is started again with the donor's data. Dropped, it ends whatever it
    /// began. The recipient keeps what it had when it fails. Called on the control thread: must not
    /// block it.
    fn fill(&self, order: BackupOrder) -> Filling;
}

/// No means at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBackup;

impl Backup for NoBackup {
    fn objection(&self, _donor: &str, _recipient: &str) -> Option<String> {
        Some(
            "this router did not start the servers; `heddle up` fills its own by mariadb-backup"
                .to_owned(),
        )
    }

    fn restarts(&self, _address: &str) -> bool {
        false
    }

    fn fill(&self, order: BackupOrder) -> Filling {
        Box::pin(async move { Err(format!("{} is out of reach", order.recipient)) })
    }
}
