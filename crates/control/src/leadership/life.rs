//! Noticing at once that a router's process is gone, instead of waiting until its lease runs out.
//!
//! The leader keeps a connection to the HTTP door of each follower, and each follower one to the
//! leader's: when it breaks, and the machine there refuses a new one, the process is gone. Any doubt
//! is left to the lease. An address at which nobody was ever reached proves nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};

use super::presence::RouterRecord;
use crate::leadership::election::Election;
use crate::peers::transport::{is_gone, is_refusal};
use catalog::record::Kept;

/// Before a connection that ended is made anew.
const AGAIN: Duration = Duration::from_millis(500);

/// Between the end of a connection and the next one.
const BREATH: Duration = Duration::from_millis(5);

/// Who is looked after: the leader looks after all, the others after the leader.
type Attended = HashMap<(u8, String), AbortHandle>;

impl Election {
    /// Looks after the others for as long as the router lives.
    pub(crate) async fn attend_routers(self: Arc<Self>) {
        if self.context.leadership.is_alone() {
            return;
        }
        let mut role = self.context.leadership.watch_role();
        let mut tasks = JoinSet::new();
        let mut attended = Attended::new();
        loop {
            let wanted = self.to_attend();
            attended.retain(|key, task| {
                let stays = wanted.iter().any(|(slot, kept)| {
                    key.0 == *slot && key.1 == kept.value.id && !task.is_finished()
                });
                if !stays {
                    task.abort();
                }
                stays
            });
            for (slot, kept) in wanted {
                let key = (slot, kept.value.id.clone());
                let begin = || tasks.spawn(Arc::clone(&self).attend_router(slot, kept));
                attended.entry(key).or_insert_with(begin);
            }
            tokio::select! {
                changed = role.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(AGAIN) => {}
                Some(_) = tasks.join_next() => {}
            }
            self.see_expired_routers_off().await;
        }
    }

    /// A router whose lease is over may still serve, until its machine refuses a connection.
    async fn see_expired_routers_off(&self) {
        let expired_routers = self.context.leadership.inner().expired_routers.clone();
        for (at, expired_router) in expired_routers {
            if is_gone(&expired_router.http, AGAIN).await {
                self.context.leadership.inner().expired_routers.remove(&at);
                self.presence_changed();
            }
        }
    }

    fn to_attend(&self) -> Vec<(u8, Kept<RouterRecord>)> {
        let leads = self.context.leadership.role().leads.is_some();
        let inner = self.context.leadership.inner();
        let leader = inner.presence.leader.as_ref().map(|it| &it.value.id);
        let wanted = |record: &RouterRecord| {
            record.id != self.context.leadership.id && (leads || leader == Some(&record.id))
        };
        let routers = inner.presence.routers.iter();
        let wanted = routers.filter(|(_, kept)| wanted(&kept.value));
        wanted.map(|(slot, kept)| (*slot, kept.clone())).collect()
    }

    /// Waits until one is gone, and takes it out.
    async fn attend_router(self: Arc<Self>, slot: u8, kept: Kept<RouterRecord>) {
        let http = kept.value.http.as_str();
        let mut reached = false;
        loop {
            match TcpStream::connect(http).await {
                Ok(mut stream) => {
                    reached = true;
                    let mut byte = [0_u8; 1];
                    // Nothing is asked, so nothing but the end can come.
                    let _ = stream.read(&mut byte).await;
                    // A process that ends closes its connections before its listener.
                    tokio::time::sleep(BREATH).await;
                }
                Err(error) => {
                    if reached && is_refusal(&error) {
                        tracing::info!(router = kept.value.name, "its process is gone");
                        self.context.leadership.inner().gone.insert(kept.revision);
                        match self.unseat(slot, kept.revision, &kept.value.id).await {
                            Ok(()) => return,
                            Err(error) => tracing::debug!(%error, "a router was not taken out"),
                        }
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}
