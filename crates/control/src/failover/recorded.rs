//! What the flight recorder is told of changes of primary, in the recorder's words.
//!
//! Must not know: the machine, and what its wishes lead to.

use catalog::record::Records;
use farm::ServerId;
use machines::failover::{Action, Ask, Event, Kind};
use recorder::{Group, Question, Server, Step, Told, note};

/// What happened to a machine, where that is the answer to a question of its own.
pub(super) fn heard(group: Group, event: &Event) {
    if let Event::Done { answer, .. } = event {
        let done = answer.is_ok();
        note(0, Step::FailoverAnswer { done, group });
    }
}

/// What a machine wants, where that matters to who looks back.
pub(super) fn wanted(group: Group, action: &Action) {
    match action {
        Action::Ask { what, .. } => {
            let (what, server) = (Some(question(what)), server(what.server()));
            note(
                0,
                Step::FailoverAsks {
                    what,
                    server,
                    group,
                },
            );
        }
        Action::Publish { primary, .. } => {
            let server = server(*primary);
            note(0, Step::PrimaryPublished { server, group });
        }
        Action::Tell {
            kind, server: of, ..
        } => {
            let (told, server) = (Some(told(*kind)), server(*of));
            note(
                0,
                Step::Failover {
                    told,
                    server,
                    group,
                },
            );
        }
        Action::Rejoin { .. }
        | Action::Vote { .. }
        | Action::Reply { .. }
        | Action::Wake { .. } => {}
    }
}

fn server(id: Option<ServerId>) -> Server {
    Server(id.map_or(0, |id| id.0))
}

/// The group of this name.
pub(super) fn group(records: &Records, name: &str) -> Group {
    Group(records.groups.get(name).map_or(0, |kept| kept.value.number))
}

/// The word for a question.
pub(super) fn question(ask: &Ask) -> Question {
    match ask {
        Ask::Confirm { .. } => Question::Confirm,
        Ask::Cut { .. } => Question::Cut,
        Ask::Fence { .. } => Question::Fence,
        Ask::Halt { .. } => Question::Halt,
        Ask::Look { .. } => Question::Look,
        Ask::Reach { .. } => Question::Reach,
        Ask::Lead { .. } => Question::Lead,
        Ask::Open { .. } => Question::Open,
        Ask::Point { .. } => Question::Point,
        Ask::Follow { .. } => Question::Follow,
        Ask::Pause { .. } => Question::Pause,
        Ask::Close { .. } => Question::Close,
        Ask::Record(_) => Question::Record,
    }
}

fn told(kind: Kind) -> Told {
    match kind {
        Kind::Suspected => Told::Suspected,
        Kind::Cleared => Told::Cleared,
        Kind::Lost => Told::Lost,
        Kind::Unreachable => Told::Unreachable,
        Kind::Waiting => Told::Waiting,
        Kind::Lossy => Told::Lossy,
        Kind::Promoted => Told::Promoted,
        Kind::Restored => Told::Restored,
        Kind::Demoted => Told::Demoted,
        Kind::StepFailed => Told::StepFailed,
        Kind::ReplicaLost => Told::ReplicaLost,
    }
}
