//! How a branch of a distributed transaction begins on a connection.

use std::time::Instant;

use backend::{Connection, ConnectionError};
use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::Shape;
use execute::execution::profile::commands::OwnCommand;
use execute::transaction::distributed::{Part, is_serializable, work_of};
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use farm::Group;
use farm::dist_txn::Branch;
use faults::Point;
use mysql_wire::command::Command;
use sqltext::{Class, Facts, Verb};

/// The branch has begun on the current seat.
pub(crate) fn branch_began(
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    group: &Group,
    shape: &Shape,
    branch: Option<Branch>,
) {
    Point::Enlisted.pass();
    connections.current.replay = None;
    let part = Part {
        work: work_of(shape, is_serializable(variables)),
        branch,
        hurried: true,
        ..Part::plain(group)
    };
    if let Some(dist_txn) = &mut transaction.dist_txn {
        dist_txn.parts.push(part);
    }
}

/// What begins a branch.
pub(crate) struct Start {
    pub branch: Option<Branch>,
    pub texts: Vec<Vec<u8>>,
}

impl Start {
    /// Runs it, in one trip, and gives what a trace tells of that.
    ///
    /// # Errors
    /// A part of it may stand there.
    pub async fn run(
        &self,
        connection: &mut Connection,
    ) -> Result<Option<OwnCommand>, ConnectionError> {
        let texts = self.texts.iter();
        let commands: Vec<(Command, &[u8])> =
            texts.map(|text| (Command::Query, &text[..])).collect();
        if commands.is_empty() {
            return Ok(None);
        }
        let began = Instant::now();
        connection.run(&commands).await?;
        Ok(Some(OwnCommand {
            name: match self.branch {
                Some(_) => "XA START",
                None => "START TRANSACTION",
            },
            server: connection.server,
            began,
            ended: Instant::now(),
            failed: None,
        }))
    }
}

/// Without autocommit, such a statement opens a transaction.
pub(crate) fn may_open(shape: &Shape) -> bool {
    !matches!(
        shape.class,
        Class::Set | Class::Use | Class::Transaction | Class::Local | Class::Empty | Class::Lock
    ) && !shape.facts.contains(Facts::IMPLICIT_COMMIT)
}

/// Why a transaction over several groups cannot take such a statement: it might end one part alone.
/// `alone`: nobody else would refuse that.
pub(crate) fn unfit(shape: &Shape, alone: bool) -> Option<&'static str> {
    if shape.facts.contains(Facts::XA) {
        return Some("it is about an XA transaction of your own");
    }
    if shape.facts.contains(Facts::MULTIPLE) {
        return Some("it is one text of several statements: send them one by one");
    }
    if matches!(shape.verb, Verb::Execute | Verb::ExecuteImmediate) {
        return Some("what a statement prepared as text does cannot be told: send it itself");
    }
    let runs_others = shape.class == Class::Call || shape.facts.contains(Facts::COMPOUND);
    (alone && runs_others).then_some(
        "a routine might commit, or its text is not for the client's account to see: call it before the \
         transaction touches a second group, or outside",
    )
}
