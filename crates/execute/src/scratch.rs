//! Where the scratch server is: a server beside the farm on which SELECTs run whose rows come from
//! several groups. Heddle logs in to it by an account of its own.

pub mod learned;
pub mod pass;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use backend::{Credential, Profile, Secret, Target};
use farm::ServerId;
use mysql_wire::capability::Capabilities;

use crate::own_account::{AT_SCRATCH, own_entitlement};

/// Stands for the scratch server where others have their numbers; the store never gives it.
pub(crate) const SCRATCH: ServerId = ServerId(u32::MAX);

pub type Values = Vec<(&'static str, Vec<u8>)>;

/// The farm's global values, as a core knows them.
#[derive(Clone, Debug)]
pub struct Beginnings {
    /// How often globals had been set through this router.
    pub edition: u64,
    pub until_s: u64,
    pub values: Rc<Values>,
}

/// A server that reads no client's files is asked again after so long.
const REFUSED_S: u64 = 60;

/// The cell that says where it is; empty while there is none.
#[derive(Debug, Default)]
pub struct Scratch {
    /// What fetches gave that were to go there.
    pub learned: learned::Learned,
    server: ArcSwapOption<ScratchServer>,
    /// Somebody starts it whenever it is not there.
    guarded: AtomicBool,
    /// It may be asked to read a client's file from then on, by the cores' clock.
    files_from_s: AtomicU64,
}

/// How the scratch server is reached.
pub struct ScratchServer {
    pub host: Arc<str>,
    pub port: u16,
    pub user: String,
    pub password: String,
}

/// The password stays out of logs.
impl fmt::Debug for ScratchServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScratchServer({}@{}:{})", self.user, self.host, self.port)
    }
}

impl Scratch {
    /// From now on it is there, or nowhere.
    pub fn set(&self, server: Option<ScratchServer>) {
        self.server.store(server.map(Arc::new));
        self.files_from_s.store(0, Ordering::Relaxed);
    }

    /// Where it is.
    pub fn server(&self) -> Option<Arc<ScratchServer>> {
        self.server.load_full()
    }

    /// Whether somebody starts it whenever it is not there: whoever needs it may wait for it.
    pub fn set_guarded(&self, guarded: bool) {
        self.guarded.store(guarded, Ordering::Relaxed);
    }

    pub fn is_guarded(&self) -> bool {
        self.guarded.load(Ordering::Relaxed)
    }

    /// It may read a client's file, as far as is known.
    pub fn takes_files(&self, now_s: u64) -> bool {
        now_s >= self.files_from_s.load(Ordering::Relaxed)
    }

    /// It has refused to read one.
    pub fn refuse_files(&self, now_s: u64) {
        self.files_from_s.store(now_s + REFUSED_S, Ordering::Relaxed);
    }
}

impl ScratchServer {
    pub fn target(&self) -> Target {
        Target {
            server: SCRATCH,
            host: self.host.clone(),
            port: self.port,
            term: 0,
            key: None,
            read_only: false,
            causal: false,
            at_login: false,
            session: 0,
        }
    }

    /// As whom connections log in that answer such a client: its flags and its collation decide what
    /// answers look like. Rows come to it as a file.
    fn profile(&self, client: &Profile) -> Profile {
        Profile {
            user: Rc::from(self.user.as_bytes()),
            credential: match self.password.is_empty() {
                true => Credential::Empty,
                false => Credential::Password(Secret::new(self.password.as_bytes())),
            },
            collation: client.collation,
            flags: client.flags | Capabilities::LOCAL_FILES,
            client: None,
            entitlement: own_entitlement(&self.user, AT_SCRATCH),
        }
    }
}
