//! What sessions go by and an operator may change at any time, and the cell that holds it.

pub mod dist_txn_terms;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use auth::entrance::LoginLimits;
use backend::Limits;
use memory::{Budget, Ceilings};
use routing::Preferences;
use statistics::Settings as Counting;

use crate::consistency::defaults::Consistency;
use crate::consistency::read_terms::Reads;
use crate::settings::dist_txn_terms::DistTxnTerms;

/// The settings of the SQL door that sessions read.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Clients at once, over all cores.
    pub clients_max: usize,
    pub pool: Limits,
    pub logins: LoginLimits,
    /// A login must be complete after this many seconds.
    pub handshake_timeout_s: u64,
    /// A client that says nothing for this many seconds is closed.
    pub idle_timeout_s: u64,
    /// A client that stops within a packet is ended after this many seconds, and one that does not
    /// take what is sent to it.
    pub client_read_timeout_s: u64,
    pub client_write_timeout_s: u64,
    /// A statement is ended after so long; 0 for never.
    pub statement_timeout_ms: u64,
    /// Statements and logins wait so long for a primary; 0 for not at all.
    pub failover_wait_ms: u64,
    /// So many wait at once; 0 for no limit.
    pub failover_waiters_max: u64,
    /// What clients may make the process keep.
    pub memory: Ceilings,
    /// The largest command of clients that connect from now on.
    pub packet_bytes_max: usize,
    /// Prepared statements per client.
    pub statements_max: usize,
    /// Their bytes.
    pub statements_bytes_max: usize,
    /// Clients of one account, where the account itself has no limit; 0 for no limit.
    pub user_connections_max: u32,
    /// Passwords that clients prove by sending them may be kept in memory.
    pub remember_passwords: bool,
    pub consistency: Consistency,
    /// Writes are marked, so that it can be found out what became of one whose answer was lost.
    pub marks: bool,
    /// What is kept of an open transaction, so that it can be done again; 0 keeps nothing.
    pub replay_bytes_max: usize,
    pub reads: Reads,
    pub dist_txns: DistTxnTerms,
    pub gathering: Gathering,
    /// What the result caches of all cores hold together.
    pub cache_bytes_max: usize,
}

/// All that is in force at one moment.
#[derive(Clone, Debug)]
pub struct InForce {
    pub settings: Settings,
    /// How reads are spread.
    pub preferences: Preferences,
    /// What is counted of statements.
    pub counting: Counting,
    /// The database `heddle` has tables about the farm.
    pub farm_tables: bool,
}

/// The cell that holds what is in force. A core keeps a copy and looks at the version only, which
/// costs a statement one read of memory that nobody writes.
#[derive(Debug)]
pub struct Live {
    version: AtomicU32,
    current: ArcSwap<InForce>,
    memory: Arc<Budget>,
}

impl Live {
    /// A cell with its first contents.
    pub fn new(in_force: InForce) -> Live {
        let memory = Budget::new(in_force.settings.memory.process);
        memory.set_ceilings(in_force.settings.memory);
        Live {
            version: AtomicU32::new(1),
            memory: Arc::new(memory),
            current: ArcSwap::from_pointee(in_force),
        }
    }

    /// What is in force now.
    pub fn load(&self) -> Arc<InForce> {
        self.current.load_full()
    }

    /// What is kept for clients is taken from this; its limits are the settings in force.
    pub fn memory(&self) -> &Arc<Budget> {
        &self.memory
    }

    /// Differs from what it was before whenever something was published since.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Puts other settings in force, for statements that begin from now on. Sessions look at the
    /// defaults of their users again, too: rules that were changed are published before.
    pub fn publish(&self, in_force: InForce) {
        self.memory.set_ceilings(in_force.settings.memory);
        self.current.store(Arc::new(in_force));
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// What a SELECT over rows that are fetched first may fetch, and for how long it may run.
#[derive(Clone, Copy, Debug)]
pub struct Gathering {
    pub rows_max: u64,
    pub bytes_max: u64,
    /// 0 for no limit.
    pub time_max_ms: u64,
    /// Tables of so many bytes of rows are sent to groups instead; 0 for none.
    pub broadcast_bytes_max: u64,
}

impl Default for Gathering {
    fn default() -> Gathering {
        Gathering {
            rows_max: 10_000_000,
            bytes_max: 4 << 30,
            time_max_ms: 600_000,
            broadcast_bytes_max: 4 << 20,
        }
    }
}

impl Gathering {
    /// # Errors
    /// It is too much: the setting's name and value.
    pub fn allow(self, rows: u64, bytes: u64) -> Result<(), (&'static str, u64)> {
        if rows > self.rows_max {
            return Err(("gather_rows_max", self.rows_max));
        }
        match bytes > self.bytes_max {
            true => Err(("gather_bytes_max", self.bytes_max)),
            false => Ok(()),
        }
    }
}
