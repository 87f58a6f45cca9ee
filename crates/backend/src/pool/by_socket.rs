//! Servers on this machine, reached by their Unix sockets where that is wished.
//!
//! A server's address stays what its replicas, its probes and other routers reach it by; the socket is
//! another way for the router beside it. No setting names it: a connection to the address asks the server for its
//! `@@socket`.
//!
//! Invariants: who answers at the socket is the server that answers at the address. It is proved by a
//! lock with a random name, taken at the address and seen at the socket, and from then on by the process
//! that listens there; before that nothing is said to it, unless it greets like the server and has given
//! the next connection ids. A login goes by the socket only where the accounts say that the server finds
//! the same account there, as `localhost`. Whatever does not fit goes to the address.
//!
//! Must not know: which servers the farm has, who wants a connection.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use farm::ServerId;
use rsa::rand_core::{OsRng, RngCore};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::connection::target::Target;
use crate::connection::{Connection, ConnectionError};
use crate::login::pass::Pass;
use crate::login::{self, Door, account};
use crate::pool::{Key, Pools};

/// The router looks for a socket that it did not find again after this time.
const AGAIN_S: u64 = 60;

/// Connections that others may open between one to the address and one to the socket.
const IDS_BETWEEN_MAX: u32 = 10_000;

/// Names of locks begin so.
const LOCK: &str = "heddle.socket.";

/// The sockets of servers, as one core knows them.
#[derive(Default)]
pub(crate) struct Sockets {
    known: RefCell<FxHashMap<ServerId, Known>>,
    /// Profiles that a server has refused at its socket. They go to addresses from then on.
    refused: RefCell<FxHashSet<u32>>,
}

#[derive(Clone)]
enum Known {
    Found(Rc<Found>),
    /// Not asked again before.
    Nowhere {
        until_s: u64,
    },
}

/// A socket that was proved to be the server's.
struct Found {
    host: Arc<str>,
    port: u16,
    path: PathBuf,
    process: i32,
}

impl Sockets {
    fn find(&self, target: &Target) -> Option<Rc<Found>> {
        match self.known.borrow().get(&target.server) {
            Some(Known::Found(found)) if found.host == target.host && found.port == target.port => {
                Some(found.clone())
            }
            _ => None,
        }
    }

    fn is_to_be_asked(&self, server: ServerId, now_s: u64) -> bool {
        match self.known.borrow().get(&server) {
            Some(Known::Nowhere { until_s }) => now_s >= *until_s,
            _ => true,
        }
    }

    fn note(&self, server: ServerId, known: Known) {
        self.known.borrow_mut().insert(server, known);
    }
}

impl Pools {
    /// Logs in to the server, by its socket where that is wished and known to be right.
    pub(super) async fn log_in(
        &self,
        target: &Target,
        key: Key,
        pass: &Pass,
        database: Option<&[u8]>,
    ) -> Result<Connection, ConnectionError> {
        let wanted = self.goes_by_socket(key, pass);
        if wanted && let Some(found) = self.sockets.find(target) {
            match self.enter_socket(&found, target, pass, database).await {
                Ok(connection) => return Ok(connection),
                Err(error) if is_refusal(&error) => self.refuse(key),
                // It has gone, and may come again. What else is wrong the address will say.
                Err(_) => drop(self.sockets.known.borrow_mut().remove(&target.server)),
            }
        }
        let mut connection = login::open(&self.terms, target, pass.profile(), database).await?;
        account::check(&mut connection, pass).await?;
        let now_s = self.now_s.get();
        if !wanted || !self.sockets.is_to_be_asked(target.server, now_s) || self.is_refused(key) {
            return Ok(connection);
        }
        let until_s = now_s + AGAIN_S;
        self.sockets.note(target.server, Known::Nowhere { until_s });
        match self
            .look_for_socket(&mut connection, target, pass, database)
            .await
        {
            Ok(Some((found, by_socket))) => {
                tracing::debug!(server = %target.host, path = %found.path.display(), "reached by its socket");
                self.sockets
                    .note(target.server, Known::Found(Rc::new(found)));
                Ok(by_socket)
            }
            Ok(None) => Ok(connection),
            Err(error) => {
                if is_refusal(&error) {
                    self.refuse(key);
                }
                Ok(connection)
            }
        }
    }

    /// TLS that is required, and words about where clients are, go to addresses. So do those for whom the
    /// servers may find another account at the socket.
    fn goes_by_socket(&self, key: Key, pass: &Pass) -> bool {
        let entitlement = &pass.profile().entitlement;
        self.terms.go_by_socket()
            && entitlement.is_same_locally
            && !entitlement.expired
            && !pass.is_stale()
            && !self.is_refused(key)
    }

    fn is_refused(&self, key: Key) -> bool {
        self.sockets.refused.borrow().contains(&key.profile)
    }

    fn refuse(&self, key: Key) {
        self.sockets.refused.borrow_mut().insert(key.profile);
    }

    async fn enter_socket(
        &self,
        found: &Found,
        target: &Target,
        pass: &Pass,
        database: Option<&[u8]>,
    ) -> Result<Connection, ConnectionError> {
        let door = Door {
            path: &found.path,
            is_right: &|process, _, _| process == found.process,
        };
        let mut connection =
            login::open_by_socket(&self.terms, &door, target, pass.profile(), database).await?;
        account::check(&mut connection, pass).await?;
        Ok(connection)
    }

    /// Asks the server at its address for its socket, and goes there. `None` where there is none, or
    /// another server has it.
    async fn look_for_socket(
        &self,
        connection: &mut Connection,
        target: &Target,
        pass: &Pass,
        database: Option<&[u8]>,
    ) -> Result<Option<(Found, Connection)>, ConnectionError> {
        if !connection.sock.is_near() {
            return Ok(None);
        }
        let mut random = [0; 16];
        OsRng.fill_bytes(&mut random);
        let name = format!("{LOCK}{:032x}", u128::from_le_bytes(random));
        let asked = connection.ask(b"SELECT @@socket").await?;
        let path = asked.first().map(|path| String::from_utf8_lossy(path));
        let Some(path) = path.filter(|path| path.starts_with('/')) else {
            return Ok(None);
        };
        let seen = connection.seen.clone();
        let first = connection.thread_id;
        let door = Door {
            path: Path::new(&*path),
            is_right: &|process, greeted, id| {
                let between = id.wrapping_sub(first);
                process != 0 && *greeted == seen && (1..=IDS_BETWEEN_MAX).contains(&between)
            },
        };
        let opened = login::open_by_socket(&self.terms, &door, target, pass.profile(), database);
        let mut by_socket = opened.await?;
        account::check(&mut by_socket, pass).await?;
        // It goes with the connection to the address, which is closed or, where the proof fails, freed of it.
        let lock = format!("SELECT GET_LOCK('{name}', 0)");
        connection.ask(lock.as_bytes()).await?;
        let asked = by_socket
            .ask(format!("SELECT IS_USED_LOCK('{name}')").as_bytes())
            .await;
        let holder = asked.ok().and_then(|row| row.into_iter().next());
        let process = by_socket.sock.peer_credentials().map_or(0, |it| it.process);
        if holder.as_deref() != Some(first.to_string().as_bytes()) || process == 0 {
            let free = format!("SELECT RELEASE_LOCK('{name}')");
            connection.ask(free.as_bytes()).await?;
            return Ok(None);
        }
        let found = Found {
            host: target.host.clone(),
            port: target.port,
            path: Path::new(&*path).to_owned(),
            process,
        };
        Ok(Some((found, by_socket)))
    }
}

/// The server refuses this login by its socket, though it may accept it by TCP: it takes another account there, or
/// demands TLS or another plugin.
fn is_refusal(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::Refused { number, .. } => matches!(number, 1045 | 1130 | 1698 | 1524),
        ConnectionError::Credential { .. } | ConnectionError::Untrusted { .. } => true,
        _ => false,
    }
}
