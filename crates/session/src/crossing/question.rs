//! What one group is asked while a transaction ends, and what its answer means.

use backend::{Connection, ConnectionError, Told};
use engine::decisions;
use farm::crossing::{Branch, GlobalId};
use machines::xa::commit::Refusal;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;

/// The account has not been given the right to decide, or what it needs for it is not there:
/// ER_PROCACCESS_DENIED_ERROR, ER_SP_DOES_NOT_EXIST, ER_BAD_DB_ERROR, ER_DBACCESS_DENIED_ERROR.
const NOT_ALLOWED: [u16; 4] = [1370, 1305, 1049, 1044];

/// Errors after which a statement that ends a branch or a transaction has surely not done so:
/// ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT, ER_OPTION_PREVENTS_STATEMENT, ER_READ_ONLY_MODE,
/// ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, XAER_RMFAIL, XA_RBTIMEOUT, XA_RBDEADLOCK.
const SURE: [u16; 8] = [1213, 1205, 1290, 1836, 1792, 1399, 1613, 1614];

/// XA_RBROLLBACK: the branch is gone.
const ROLLED_BACK: u16 = 1402;

/// XAER_NOTA: there is no such branch.
const NOT_THERE: u16 = 1397;

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
    Prepare(Branch),
    /// COMMIT of the plain transaction; behind the row that names the groups of all branches.
    Decide(Option<(GlobalId, Vec<u32>)>),
    /// XA END, XA COMMIT ONE PHASE; COMMIT where it is no branch.
    Single(Option<Branch>),
    /// XA COMMIT of a prepared branch.
    Commit(Branch),
    /// XA ROLLBACK; XA END before it while the branch is not prepared. ROLLBACK where it is no branch.
    Rollback(Option<Branch>, bool),
}

impl Question {
    /// Asks it; `behind` is run in the same trip, whatever the answer.
    pub(super) async fn ask(
        &self,
        connection: &mut Connection,
        behind: Option<&[u8]>,
        told: &mut Told,
    ) -> Said {
        let texts = self.texts();
        let mut commands: Vec<(Command, &[u8])> = Vec::with_capacity(texts.len() + 3);
        let several = matches!(self, Question::Decide(Some(_)))
            && !connection
                .capabilities
                .contains(Capabilities::MULTI_STATEMENTS);
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
                let first = told.before_error == usize::from(several);
                let text = String::from_utf8_lossy(&message).into_owned();
                self.judge(number, first, text)
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
            Question::Prepare(branch) => {
                vec![format!("XA END {branch}"), format!("XA PREPARE {branch}")]
            }
            // One text: where the first statement fails, the second is not run.
            Question::Decide(Some((id, groups))) => {
                let row = decisions::decide(id, groups.iter().copied());
                vec![format!("{row};COMMIT")]
            }
            Question::Decide(None) | Question::Single(None) => vec!["COMMIT".to_owned()],
            Question::Single(Some(branch)) => vec![
                format!("XA END {branch}"),
                format!("XA COMMIT {branch} ONE PHASE"),
            ],
            Question::Commit(branch) => vec![format!("XA COMMIT {branch}")],
            Question::Rollback(Some(branch), true) => vec![format!("XA ROLLBACK {branch}")],
            Question::Rollback(Some(branch), false) => {
                vec![format!("XA END {branch}"), format!("XA ROLLBACK {branch}")]
            }
            Question::Rollback(None, _) => vec!["ROLLBACK".to_owned()],
        }
    }

    /// What an error means; `first`: it is that of the first statement, and those behind it have not
    /// been run, or could not do anything.
    fn judge(&self, number: u16, first: bool, text: String) -> Said {
        let refused = Said::Refused(Refusal { number, text });
        match self {
            Question::Decide(Some(_)) if first && NOT_ALLOWED.contains(&number) => Said::NotAllowed,
            Question::Decide(Some(_)) | Question::Prepare(_) | Question::Single(Some(_))
                if first =>
            {
                refused
            }
            // It changed nothing, and is gone with that.
            Question::Commit(_) if number == ROLLED_BACK => Said::Done,
            Question::Rollback(Some(_), true) if matches!(number, ROLLED_BACK | NOT_THERE) => {
                Said::Done
            }
            Question::Commit(_) | Question::Rollback(..) => refused,
            Question::Prepare(_) | Question::Single(_) if number == ROLLED_BACK => refused,
            _ if SURE.contains(&number) => refused,
            _ => Said::Lost,
        }
    }
}
