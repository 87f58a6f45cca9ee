//! Sending the copies.

use std::rc::Rc;

use backend::{Connection, Target};
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::packet;
use mysql_wire::query::{NO_ATTRIBUTES, Query};
use mysql_wire::relay::{BUFFER_BYTES, Expect, Relay};
use mysql_wire::reply::SessionChange;
use mysql_wire::status::Status;
use routing::rules::ServerName;
use sqltext::Class;

use crate::connections::target::target;
use crate::counters::count;
use crate::execution::exec::{Job, Shape};
use crate::execution::mirror::{COPY_MAX, Copy, RUNNING_MAX, WAITING_MAX, What};
use crate::execution::pipe::make_room;
use crate::per_core::Core;
use crate::prepared::prepared_packets;
use crate::session::context::StatementContext;

impl StatementContext<'_> {
    /// Has a copy of the statement run elsewhere, when it stands for itself: a plain read or write.
    /// What another one leaves on its connection nobody could use there.
    pub fn mirror(&self, to: &ServerName, shape: &Shape, job: Job) {
        let plain = matches!(shape.class, Class::Read | Class::Write) && shape.facts.is_empty();
        let what = match job {
            Job::Execute(id) => prepared_packets::execution(self.client, self.prepared, id)
                .map(|(key, payload)| What::Execute(key, payload)),
            _ => Some(What::Text(packet::joined(self.client.request.frame()).split_off(1))),
        };
        let Some(what) = what.filter(|_| plain) else {
            count(&self.core.counters.mirrors_skipped);
            return;
        };
        send_copy(
            self.core,
            Copy {
                to: to.clone(),
                pass: self.user.identity.pass.clone(),
                state: self.variables.state.clone(),
                what,
            },
        );
    }
}

fn send_copy(core: &Rc<Core>, copy: Copy) {
    let mirrors = &core.statements.mirrors;
    if mirrors.waiting.borrow().len() >= WAITING_MAX {
        count(&core.counters.mirrors_dropped);
        return;
    }
    mirrors.waiting.borrow_mut().push_back(copy);
    if mirrors.running.get() < RUNNING_MAX {
        mirrors.running.set(mirrors.running.get() + 1);
        let core = core.clone();
        reactor::spawn(async move { send_copies(core).await }).detach();
    }
}

/// Sends copies for as long as some wait.
async fn send_copies(core: Rc<Core>) {
    loop {
        let next = core.statements.mirrors.waiting.borrow_mut().pop_front();
        let Some(copy) = next.filter(|_| !core.is_draining()) else {
            break;
        };
        let sent = reactor::timeout(COPY_MAX, run_copy(&core, copy)).await;
        match sent {
            Some(Some(())) => count(&core.counters.statements_mirrored),
            _ => count(&core.counters.mirrors_failed),
        }
    }
    core.statements.mirrors.running.set(core.statements.mirrors.running.get() - 1);
}

/// Runs one copy; `None` when the server is not there or refused it.
async fn run_copy(core: &Core, copy: Copy) -> Option<()> {
    let target = mirror_target(core, &copy.to)?;
    let key = core.pools.key(target.server, target.read_only, &copy.pass);
    let taken = core.pools.take(&target, key, &copy.state, 0).await;
    let mut lease = taken.ok()?;
    let connection = lease.connection_mut();
    let accepted = match copy.what {
        What::Text(text) => run(connection, query(connection, &text)).await?,
        What::Execute(key, mut payload) => {
            let id = connection.prepare(&key, "").await.ok()?;
            payload[1..5].copy_from_slice(&id.to_le_bytes());
            let mut command = Vec::with_capacity(payload.len() + 4);
            packet::write(&mut command, &mut 0, &payload);
            run(connection, command).await?
        }
    };
    connection.renew().await.ok()?;
    lease.release();
    accepted.then_some(())
}

/// The server of this name, or the primary of the group of this name.
fn mirror_target(core: &Core, name: &ServerName) -> Option<Target> {
    let snapshot = core.snapshot();
    let mut servers = snapshot.groups.iter().flat_map(|group| &group.servers);
    let group = snapshot.group(name.as_str());
    let server = match group.and_then(|group| group.primary()) {
        Some(primary) => primary,
        None => servers.find(|server| name.is(server))?,
    };
    let alive = server.health.alive;
    target(&snapshot, server.id, !server.serves_writes()).filter(|_| alive)
}

/// COM_QUERY of a text, as the connection's server takes it.
fn query(connection: &Connection, text: &[u8]) -> Vec<u8> {
    let attributes = &NO_ATTRIBUTES[..];
    let takes = connection.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
    let mut command = Vec::with_capacity(text.len() + 16);
    packet::write_with(&mut command, &mut 0, |out| {
        out.push(Command::Query as u8);
        match takes {
            true => Query { attributes, text }.encode(out),
            false => out.extend_from_slice(text),
        }
    });
    command
}

/// Sends a command and reads its whole reply. Whether the server accepted it; `None` when the
/// connection is of no use any more.
async fn run(connection: &mut Connection, command: Vec<u8>) -> Option<bool> {
    let bytes = command.len();
    connection.send(command, 0..bytes).await.0.ok()?;
    let capabilities = connection.capabilities;
    let own = capabilities | Capabilities::DEPRECATE_EOF;
    let mut relay = Relay::new(Expect::Results, own, own, Status::AUTOCOMMIT);
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let walked = relay.advance(&mut buffer, 0, &mut |_: SessionChange<'_>| {});
        let progress = walked.ok().filter(|progress| !progress.wants_file)?;
        if progress.done {
            return Some(relay.outcome().error.is_none());
        }
        buffer.drain(..progress.forward);
        make_room(&mut buffer, progress.need, true);
        let (received, filled) = connection.recv(buffer).await;
        buffer = filled;
        received.ok()?;
    }
}
