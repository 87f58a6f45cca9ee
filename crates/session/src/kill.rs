//! KILL by the ids that clients know: the router's own, over all its cores.

use std::rc::Rc;

use farm::error;
use mysql_wire::command::Command;

use crate::Message;
use crate::end::End;
use crate::exec::target;
use crate::per_core::{Core, Handle};
use crate::session::Session;

impl Session {
    /// COM_PROCESS_KILL.
    pub(crate) async fn process_kill(&mut self) -> Result<(), End> {
        let id = self
            .client
            .payload()
            .get(1..5)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        match id {
            Some(id) => self.kill(id, false).await,
            None => {
                self.client
                    .error(&error::MALFORMED_PACKET, &["COM_PROCESS_KILL"])
                    .await
            }
        }
    }

    /// KILL [CONNECTION | QUERY] id. Other forms (by user, by query id) are refused: sent to a
    /// server they would hit another client's statement.
    pub(crate) async fn kill_statement(&mut self) -> Result<(), End> {
        let text = &self.client.payload()[1..];
        let Some(kill) = sqltext::kill_target(text, &self.mode) else {
            let text = "only KILL [CONNECTION|QUERY] id is carried, with an id as SELECT \
                        CONNECTION_ID() of Heddle's sessions shows it";
            return self.client.error(&error::COMMAND_REFUSED, &[text]).await;
        };
        let id = u32::try_from(kill.connection_id).unwrap_or(0);
        self.kill(id, kill.query).await
    }

    async fn kill(&mut self, id: u32, query: bool) -> Result<(), End> {
        let Some(entry) = self.core.shared.registry.find(id) else {
            return self
                .client
                .error(&error::UNKNOWN_THREAD, &[&id.to_string()])
                .await;
        };
        let own = entry.user.as_bytes() == &*self.identity.pass.profile().user;
        if !own && !self.identity.admin {
            return self
                .client
                .error(&error::NOT_YOUR_THREAD, &[&id.to_string()])
                .await;
        }
        self.core
            .dealer
            .send(entry.core, Message::Kill { id, query });
        self.client.ok(self.status_now()).await
    }
}

impl Core {
    /// Ends a session of this core, or its running statement.
    pub fn kill(self: &Rc<Self>, id: u32, query: bool) {
        let Some(handle) = self.handles.borrow().get(&id).cloned() else {
            return;
        };
        if !query {
            handle.killed.set(true);
            handle.closer.close_receive();
        }
        let Some((server, thread_id)) = handle.running.get() else {
            return;
        };
        handle.killing.set(handle.killing.get() + 1);
        let core = self.clone();
        // What a killed session has sent ahead must not run either.
        let all = !query && handle.in_train.get();
        reactor::spawn(async move {
            core.kill_at_server(&handle, server, thread_id, all).await;
            handle.killing.set(handle.killing.get() - 1);
        })
        .detach();
    }

    /// Ends the statement that runs on a server's connection, or `all` of the connection.
    async fn kill_at_server(
        &self,
        handle: &Handle,
        server: farm::ServerId,
        thread_id: u32,
        all: bool,
    ) {
        let target = target(&self.snapshot(), server, false);
        let Some(target) = target else { return };
        let pass = handle.pass.borrow().clone();
        let opened = self.pools.open_extra(&target, &pass).await;
        let what = if all { "CONNECTION" } else { "QUERY" };
        let text = format!("KILL {what} {thread_id}");
        let done = match opened {
            Ok(mut connection) => connection
                .run(&[(Command::Query, text.as_bytes())])
                .await
                .map(|_| ()),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(session = handle.id, %error, "KILL did not reach the server");
        }
    }
}
