//! The end of a session of this core, or of its running statement.
//!
//! Must not know: who may end whom.

use std::rc::Rc;

use mysql_wire::command::Command;

use crate::connections::target::target;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::per_core::message::How;
use crate::scratch::SCRATCH;
use crate::scratch::pass::scratch_pass;

impl Core {
    /// Ends a session of this core, or its running statement.
    pub fn kill(self: &Rc<Self>, id: u32, how: How) {
        let Some(handle) = self.handles.borrow().get(&id).cloned() else {
            if !how.query {
                self.door_clients.end(id);
            }
            return;
        };
        recorder::note(id, recorder::Step::Killed {});
        if !how.query {
            // As on the servers: the client finds its connection closed, whatever it waits for.
            handle.killed.set(true);
            handle.end();
            self.waits.acks.interrupt(handle.id);
        }
        self.waits.waiting.interrupt(handle.waiting.get());
        // What a killed session has sent ahead must not run either.
        let all = !how.query && handle.at_servers.in_pipeline.get();
        let soft = how.soft && self.home_engine() == farm::Engine::MariaDb;
        let soft = if soft { "SOFT " } else { "" };
        let what = if all { "CONNECTION" } else { "QUERY" };
        let elsewhere = handle.at_servers.running_elsewhere.borrow().clone();
        for (server, thread_id) in handle.at_servers.running.get().into_iter().chain(elsewhere) {
            handle.at_servers.killing.set(handle.at_servers.killing.get() + 1);
            let (core, handle) = (self.clone(), handle.clone());
            let text = format!("KILL {soft}{what} {thread_id}");
            reactor::spawn(async move {
                core.kill_at_server(&handle, server, &text).await;
                handle.at_servers.killing.set(handle.at_servers.killing.get() - 1);
            })
            .detach();
        }
    }

    /// Runs a KILL on a connection of its own, which waits for nobody.
    pub async fn kill_at_server(&self, handle: &Handle, server: farm::ServerId, text: &str) {
        let mut pass = handle.pass.borrow().clone();
        let target = match self.shared.scratch.server() {
            Some(scratch) if server == SCRATCH => {
                pass = scratch_pass(self, &scratch, &pass);
                Some(scratch.target())
            }
            _ => target(&self.snapshot(), server, false),
        };
        let Some(target) = target else { return };
        let opened = self.pools.open_extra(&target, &pass).await;
        let done = match opened {
            Ok(mut connection) => {
                connection.run(&[(Command::Query, text.as_bytes())]).await.map(|_| ())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(session = handle.id, %error, "KILL did not reach the server");
        }
    }
}
