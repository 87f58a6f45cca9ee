//! The server that a stream comes from: what of its binlog is as safe as an acknowledged commit.
//!
//! A transaction is safe when its primary shows it, a replica has it where that is the router's task, and the
//! server is still the primary after it has said so: what a server shows while clients are being cut off
//! from it, it may show of commits that no replica has.

use std::rc::Rc;
use std::time::Duration;

use backend::{Connection, ConnectionError, Lease, Pass, SessionState};
use changes::Shown;
use execute::connections::home::group_of;
use execute::connections::target::target;
use execute::consistency::acks::wait::Copies;
use execute::consistency::promises::executed;
use execute::per_core::Core;
use farm::{Engine, Position, ServerId};
use mysql_wire::command::Command;

/// After a question that failed, or that nobody may answer now.
const PAUSE: Duration = Duration::from_millis(20);

/// How a server stands to its group.
enum Standing {
    Leads,
    /// It is being exchanged; it may come out of that as the primary.
    Waits,
    Lost,
}

/// Asks the primary what it shows, over a connection beside the stream's.
pub(super) struct Source {
    pub core: Rc<Core>,
    pub pass: Pass,
    /// The number of its group, as sessions know it.
    pub seat: u32,
    pub server: ServerId,
    /// Under which the stream's connection was opened.
    pub term: u32,
    pub copies: Copies,
    lease: Option<Lease>,
}

impl Source {
    /// Of the stream that this connection gives.
    pub fn new(
        core: &Rc<Core>,
        pass: &Pass,
        seat: u32,
        stream: &Connection,
        copies: Copies,
    ) -> Source {
        Source {
            core: Rc::clone(core),
            pass: pass.clone(),
            seat,
            server: stream.server,
            term: stream.term,
            copies,
            lease: None,
        }
    }

    fn standing(&self) -> Standing {
        let snapshot = self.core.glance();
        let Some(group) = group_of(&snapshot, self.seat) else {
            return Standing::Lost;
        };
        match group.primary() {
            Some(it) if it.id == self.server && it.term <= self.term => match group.paused {
                true => Standing::Waits,
                false => Standing::Leads,
            },
            Some(_) => Standing::Lost,
            None => Standing::Waits,
        }
    }

    /// Waits until the server surely leads; false when another one does, or the server has come back since.
    async fn leads(&self) -> bool {
        loop {
            match self.standing() {
                Standing::Leads => return true,
                Standing::Lost => return false,
                Standing::Waits => reactor::sleep(PAUSE).await,
            }
        }
    }

    /// What the server shows; `None` when it is the primary no longer.
    pub async fn shown(&mut self) -> Option<Shown> {
        loop {
            if !self.leads().await {
                return None;
            }
            if self.lease.is_none() {
                self.lease = self.connect().await;
            }
            let asked = match &mut self.lease {
                Some(lease) => ask(lease.connection_mut()).await,
                None => None,
            };
            match asked {
                Some(shown) if self.leads().await => return Some(shown),
                Some(_) => return None,
                None => {
                    self.lease = None;
                    reactor::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn connect(&self) -> Option<Lease> {
        let target = target(&self.core.glance(), self.server, false)?;
        let key = self.core.pools.key(self.server, false, &self.pass);
        let state = Rc::new(SessionState::new(None));
        let mut lease = self.core.pools.take(&target, key, &state, 0).await.ok()?;
        if lease.connection().term > self.term {
            lease.release();
            return None;
        }
        lease.connection_mut().owner.statement = 0;
        Some(lease)
    }

    /// Waits until these transactions, which the server has shown, are safe. False when that cannot be said any
    /// more: another server leads.
    pub async fn is_safe(&self, position: &Position) -> bool {
        let Some(lease) = &self.lease else {
            return false;
        };
        let position = position.to_string();
        let have = self.copies.have(self.seat, lease.connection(), position.as_bytes());
        have.await && self.leads().await
    }

    /// Gives its connection back.
    pub fn end(self) {
        if let Some(lease) = self.lease {
            lease.release();
        }
    }
}

/// What the server of this connection shows; `None` when it cannot be asked.
async fn ask(connection: &mut Connection) -> Option<Shown> {
    if connection.engine() == Engine::MySql {
        return executed(connection).await.map(Shown::Executed);
    }
    snapshot_of(connection).await.ok().flatten()
}

/// MariaDB tells a place in its binlog to a transaction with a snapshot.
async fn snapshot_of(connection: &mut Connection) -> Result<Option<Shown>, ConnectionError> {
    const BEGIN: &[u8] = b"START TRANSACTION WITH CONSISTENT SNAPSHOT";
    connection.run(&[(Command::Query, BEGIN)]).await?;
    let said = connection.table(b"SHOW STATUS LIKE 'binlog\\_snapshot\\_%'").await?;
    connection.run(&[(Command::Query, b"COMMIT")]).await?;
    let text = |cell: &Option<Vec<u8>>| {
        String::from_utf8_lossy(cell.as_deref().unwrap_or_default()).into_owned()
    };
    let rows = said.rows.iter().filter_map(|row| Some((text(row.first()?), text(row.get(1)?))));
    let rows: Vec<(String, String)> = rows.collect();
    let rows = rows.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Ok(Shown::of_snapshot(rows))
}
