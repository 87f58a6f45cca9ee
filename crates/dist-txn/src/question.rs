//! What one group is asked while a transaction ends, and what its answer means.

use std::sync::Arc;

use backend::{Connection, ConnectionError, Told};
use enginesql::decision::{self, SIGNALLED};
use enginesql::seal::Sealed;
use execute::recorded;
use faults::{Plant, Point};
use machines::xa::commit::Refusal;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use recorder::Moment;

/// The account has not been given the right to decide, or what it needs for it is not there:
/// ER_PROCACCESS_DENIED_ERROR, ER_SP_DOES_NOT_EXIST, ER_BAD_DB_ERROR, ER_DBACCESS_DENIED_ERROR, and what
/// routines of an older form say.
pub(super) const NOT_ALLOWED: [u16; 5] = [1370, 1305, 1049, 1044, SIGNALLED];

/// Errors after which a statement that ends a branch or a transaction has surely not done so:
/// ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT, ER_OPTION_PREVENTS_STATEMENT, ER_READ_ONLY_MODE,
/// ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, XAER_RMFAIL, XA_RBTIMEOUT, XA_RBDEADLOCK.
const SURE: [u16; 8] = [1213, 1205, 1290, 1836, 1792, 1399, 1613, 1614];

/// XA_RBROLLBACK: the branch is gone.
const ROLLED_BACK: u16 = 1402;

/// XAER_NOTA: there is no such branch.
const NOT_THERE: u16 = 1397;

/// Ends of plain transactions, whatever the client's completion type is.
pub const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE";
pub const ROLLBACK: &str = "ROLLBACK AND NO CHAIN NO RELEASE";

/// An XA transaction's name, as statements write it.
pub(super) type Name = Arc<str>;

/// How a question ended.
#[derive(Debug)]
pub(super) enum Said {
    Done,
    Refused(Refusal),
    /// The account may not decide yet; nothing was done.
    NotAllowed,
    /// It may have been done or not, and the connection must be closed.
    Lost,
}

/// What a group is asked.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// XA END, XA PREPARE.
    Prepare(Name),
    /// The same of the client's own transaction, behind the row that names the groups of all branches.
    Hold { xid: Name, row: Option<String> },
    /// The row that names the groups of all branches, and COMMIT of the plain transaction, or XA END,
    /// XA COMMIT ONE PHASE of the client's own.
    Decide {
        id: Sealed,
        groups: Vec<u32>,
        own: Option<Name>,
    },
    /// XA END, XA COMMIT ONE PHASE; COMMIT where it is no branch. With a row of its own before it, by
    /// which it passes the commit barrier, and which tells what became of it when the answer is lost.
    Single {
        branch: Option<Name>,
        row: Option<Sealed>,
    },
    /// XA COMMIT of a prepared branch.
    Commit(Name),
    /// XA ROLLBACK; XA END before it while the branch is not prepared. ROLLBACK where it is no branch.
    Rollback(Option<Name>, bool),
}

impl Question {
    /// Asks it; `behind` is run in the same trip, whatever the answer.
    pub(super) async fn ask(
        &self,
        connection: &mut Connection,
        behind: Option<&[u8]>,
        told: &mut Told,
    ) -> Said {
        let (before, behind_it) = self.points();
        before.pass();
        let (begins, done) = self.moments();
        recorded::distributed(connection, begins);
        let said = self.put(connection, behind, told).await;
        let came_to = match &said {
            Said::Done => done,
            Said::Refused(_) | Said::NotAllowed => Moment::Refused,
            Said::Lost => Moment::Unknown,
        };
        recorded::distributed(connection, came_to);
        if matches!(said, Said::Done) {
            behind_it.pass();
        }
        said
    }

    /// What a trace calls it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Question::Prepare(_) | Question::Hold { .. } => "XA PREPARE",
            Question::Decide { own: None, .. } | Question::Single { branch: None, .. } => "COMMIT",
            Question::Decide { .. } | Question::Single { .. } | Question::Commit(_) => "XA COMMIT",
            Question::Rollback(None, _) => "ROLLBACK",
            Question::Rollback(Some(_), _) => "XA ROLLBACK",
        }
    }

    /// The moments before and behind it.
    fn points(&self) -> (Point, Point) {
        match self {
            Question::Prepare(_) | Question::Hold { .. } => (Point::Prepare, Point::Prepared),
            Question::Decide { .. } | Question::Single { .. } => (Point::Decide, Point::Decided),
            Question::Commit(_) => (Point::Finish, Point::Finished),
            Question::Rollback(..) => (Point::Undo, Point::Undone),
        }
    }

    /// The same for the flight recorder.
    fn moments(&self) -> (Moment, Moment) {
        match self {
            Question::Prepare(_) | Question::Hold { .. } => (Moment::Prepare, Moment::Prepared),
            Question::Decide { .. } | Question::Single { .. } => (Moment::Decide, Moment::Decided),
            Question::Commit(_) => (Moment::Commit, Moment::Committed),
            Question::Rollback(..) => (Moment::Undo, Moment::Undone),
        }
    }

    async fn put(
        &self,
        connection: &mut Connection,
        behind: Option<&[u8]>,
        told: &mut Told,
    ) -> Said {
        let texts = self.texts();
        let mut commands: Vec<(Command, &[u8])> = Vec::with_capacity(texts.len() + 3);
        let several =
            self.calls() && !connection.capabilities.contains(Capabilities::MULTI_STATEMENTS);
        if several {
            commands.push((Command::SetOption, &[0, 0]));
        }
        commands.extend(texts.iter().map(|text| (Command::Query, text.as_bytes())));
        if several {
            commands.push((Command::SetOption, &[1, 0]));
        }
        commands.extend(behind.map(|text| (Command::Query, text)));
        let said = match connection.run_telling(&commands, told).await {
            Ok(_) => Said::Done,
            Err(ConnectionError::Refused {
                number, message, ..
            }) => {
                let before = told.before_error.saturating_sub(usize::from(several));
                let text = String::from_utf8_lossy(&message).into_owned();
                self.judge(number, before, text)
            }
            Err(_) => Said::Lost,
        };
        match (self, said) {
            // XA END may be refused for a branch that the server has rolled back already.
            (Question::Rollback(Some(branch), false), Said::Refused(_)) => {
                let text = format!("XA ROLLBACK {branch}");
                let again = connection.run(&[(Command::Query, text.as_bytes())]).await;
                match again {
                    Ok(_) => Said::Done,
                    Err(ConnectionError::Refused {
                        number: ROLLED_BACK | NOT_THERE,
                        ..
                    }) => Said::Done,
                    Err(_) => Said::Lost,
                }
            }
            (_, said) => said,
        }
    }

    fn texts(&self) -> Vec<String> {
        match self {
            Question::Prepare(branch) if Plant::CommitsBeforeDecision.is_made() => vec![
                format!("XA END {branch}"),
                format!("XA COMMIT {branch} ONE PHASE"),
            ],
            Question::Prepare(branch) => {
                vec![format!("XA END {branch}"), format!("XA PREPARE {branch}")]
            }
            // One text: where the first statement fails, the second is not run.
            Question::Decide { id, groups, own } => {
                let row = decision::decide(id, groups.iter().copied());
                vec![match own {
                    Some(xid) => format!("{row};XA END {xid};XA COMMIT {xid} ONE PHASE"),
                    None => format!("{row};{COMMIT}"),
                }]
            }
            Question::Hold {
                xid,
                row: Some(row),
            } => vec![format!("{row};XA END {xid};XA PREPARE {xid}")],
            Question::Hold { xid, row: None } => {
                vec![format!("XA END {xid}"), format!("XA PREPARE {xid}")]
            }
            Question::Single { branch, row } => {
                let mut texts = match branch {
                    Some(branch) => vec![
                        format!("XA END {branch}"),
                        format!("XA COMMIT {branch} ONE PHASE"),
                    ],
                    None => vec![COMMIT.to_owned()],
                };
                if let Some(id) = row {
                    texts.insert(0, decision::decide(id, []));
                    texts = vec![texts.join(";")];
                }
                texts
            }
            Question::Commit(branch) => vec![format!("XA COMMIT {branch}")],
            Question::Rollback(Some(branch), true) => vec![format!("XA ROLLBACK {branch}")],
            Question::Rollback(Some(branch), false) => {
                vec![format!("XA END {branch}"), format!("XA ROLLBACK {branch}")]
            }
            Question::Rollback(None, _) => vec![ROLLBACK.to_owned()],
        }
    }

    /// It begins with a call of a routine, in one text with what comes behind: where that fails, the
    /// rest is not run.
    fn calls(&self) -> bool {
        matches!(
            self,
            Question::Decide { .. }
                | Question::Single { row: Some(_), .. }
                | Question::Hold { row: Some(_), .. }
        )
    }

    /// So many statements come before the one that counts.
    fn preludes(&self) -> usize {
        match self {
            Question::Prepare(_) => 1,
            Question::Decide { own, .. } => 1 + usize::from(own.is_some()),
            Question::Hold { row, .. } => 1 + usize::from(row.is_some()),
            Question::Single { branch, row } => {
                usize::from(branch.is_some()) + usize::from(row.is_some())
            }
            Question::Commit(_) | Question::Rollback(..) => 0,
        }
    }

    /// What an error means behind so many statements that went well. One before the statement that
    /// counts keeps that from being run, or from doing anything.
    fn judge(&self, number: u16, before: usize, text: String) -> Said {
        let refused = Said::Refused(Refusal { number, text });
        match self {
            _ if self.calls() && before == 0 && NOT_ALLOWED.contains(&number) => Said::NotAllowed,
            _ if before < self.preludes() => refused,
            // It changed nothing, and is gone with that.
            Question::Commit(_) if number == ROLLED_BACK => Said::Done,
            Question::Rollback(Some(_), true) if matches!(number, ROLLED_BACK | NOT_THERE) => {
                Said::Done
            }
            Question::Commit(_) | Question::Rollback(..) => refused,
            Question::Prepare(_)
            | Question::Hold { .. }
            | Question::Single { .. }
            | Question::Decide { own: Some(_), .. }
                if number == ROLLED_BACK =>
            {
                refused
            }
            _ if SURE.contains(&number) => refused,
            _ => Said::Lost,
        }
    }
}
