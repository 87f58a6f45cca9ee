//! Variables that no server tells of and no state carries (`timestamp`, `insert_id`, …), in a session
//! that uses several groups: what was set on one group's connection holds on all.
//!
//! The SET itself is kept, and runs on each connection that the session takes from then on; these
//! connections are kept like the first one. A farm with one group never comes here.

use backend::{Connection, ConnectionError};
use mysql_wire::command::Command;
use sqltext::{Class, Verb};

use crate::client::request::Request;
use crate::connections::group_connections::GroupConnections;
use crate::connections::pin::Pins;
use crate::execution::exec::Shape;
use crate::per_core::Core;
use crate::variables::assigned::switched;
use crate::variables::session_variables::SessionVariables;

/// Who sets more has its first ones run no more on new connections.
const KEPT_MAX: usize = 32;

impl SessionVariables {
    /// The session may have set the time of its statements itself.
    pub fn has_own_clock(&self) -> bool {
        let named = |text: &[u8]| text.to_ascii_lowercase().windows(9).any(|at| at == b"timestamp");
        self.lasting.iter().any(|text| named(text))
    }

    /// The session's changes are in no binlog: it has switched `sql_log_bin` off.
    pub fn is_unlogged(&self) -> bool {
        let said = |text: &[u8]| switched(text, "sql_log_bin", &self.mode);
        let mut said = self.lasting.iter().rev().filter_map(|text| said(text));
        said.next().is_some_and(|on| on != Some(true))
    }

    /// Brings what was set to a connection that the session has just taken; the pins that it has
    /// from then on.
    pub async fn bring_lasting(
        &self,
        connection: &mut Connection,
    ) -> Result<Pins, ConnectionError> {
        for text in &self.lasting {
            connection.run(&[(Command::Query, text)]).await?;
        }
        Ok(match self.lasting.is_empty() {
            true => Pins::empty(),
            false => Pins::VARIABLE,
        })
    }
}

/// After a command on the current seat: one that set such a variable is kept, and runs on the
/// other connections that the session holds. One of them that fails is closed.
pub async fn spread(
    core: &Core,
    request: &Request,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    shape: &Shape,
) {
    if note_next_transaction(request, variables, connections, shape) {
        return;
    }
    let pinned = |pins: Pins| pins.contains(Pins::VARIABLE);
    let sets = shape.class == Class::Set && request.payload().len() < 4096;
    if !sets || !connections.current.held.as_ref().is_some_and(|held| pinned(held.pins)) {
        return;
    }
    if core.glance().sharding.is_none() {
        return;
    }
    let text: Box<[u8]> = request.payload()[1..].into();
    for seat in &mut connections.others {
        let Some(held) = &mut seat.held else { continue };
        let connection = held.lease.connection_mut();
        match connection.run(&[(Command::Query, &text)]).await {
            Ok(_) => held.pins |= Pins::VARIABLE,
            Err(_) => connection.condemn(),
        }
    }
    if variables.lasting.len() >= KEPT_MAX {
        variables.lasting.remove(0);
    }
    variables.lasting.push(text);
}

/// SET TRANSACTION for the next one only: another group's part of that is begun behind it, too.
fn note_next_transaction(
    request: &Request,
    variables: &mut SessionVariables,
    connections: &GroupConnections,
    shape: &Shape,
) -> bool {
    let once = Verb::SetTransaction {
        session: false,
        global: false,
    };
    let next = Pins::NEXT_TRANSACTION;
    let tied = connections.current.held.as_ref().is_some_and(|it| it.pins.contains(next));
    if shape.verb == once && tied && variables.next_transaction.len() < KEPT_MAX {
        let text = request.payload()[1..].into();
        variables.next_transaction.push(text);
    }
    shape.verb == once
}
