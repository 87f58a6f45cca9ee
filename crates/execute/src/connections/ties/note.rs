//! Taking note of statements that tie a session to its connection.

use std::collections::BTreeSet;

use backend::Connection;
use sqltext::{Class, Facts, Tie, Verb};

use crate::connections::group_connections::GroupConnections;
use crate::connections::pin::Pins;
use crate::connections::ties::FOLLOWED;
use crate::execution::exec::Shape;
use crate::per_core::Core;
use crate::variables::session_variables::SessionVariables;

impl GroupConnections {
    /// After such a statement: which pins have nothing to hold any more. `text` is `None` where it has not been
    /// kept whole.
    pub(crate) async fn note_ties(
        &mut self,
        core: &Core,
        variables: &SessionVariables,
        connection: &mut Connection,
        shape: &Shape,
        text: Option<&[u8]>,
        failed: bool,
    ) -> Pins {
        let made = Pins::of(shape.class, shape.verb, shape.facts) & FOLLOWED;
        let several = shape.facts.intersects(Facts::MULTIPLE | Facts::COMPOUND);
        let tie = text.filter(|_| !several).and_then(|text| sqltext::tie(text, &variables.mode));
        let tie = tie.map(|tie| in_database(tie, variables.state.database()));
        let harmless = match &tie {
            Some(Tie::Prepares(_, Some(text))) => is_harmless(core, variables, text),
            _ => false,
        };
        let ties = self.ties.get_or_insert_default();
        match tie {
            // A lock may have been taken before something else failed.
            Some(tie @ Tie::Locks(_)) => {
                ties.note(tie, harmless);
                ask_locks(connection, &mut ties.locks).await;
            }
            Some(Tie::Prepares(name, _)) if failed => drop(ties.prepared.remove(&name)),
            Some(tie) if !failed => ties.note(tie, harmless),
            None if !failed || several => {
                let reads = matches!(shape.verb, Verb::Handler);
                ties.unsure |= if reads { made - Pins::HANDLER } else { made };
            }
            _ => {}
        }
        ties.ended()
    }
}

impl GroupConnections {
    /// True for a definition of temporary tables of the session alone; of ALTER TABLE the first name
    /// is what it is about.
    pub fn has_made(&self, names: &[(String, String)], verb: Verb) -> bool {
        let Some(ties) = &self.ties else {
            return false;
        };
        let has = |(database, table): &(String, String)| {
            let name = [database.as_bytes(), table.as_bytes()].join(&b'.');
            ties.tables.contains(&name)
        };
        match verb {
            Verb::Alter => names.first().is_some_and(has),
            _ => !names.is_empty() && names.iter().all(has),
        }
    }

    /// True when [`GroupConnections::note_ties`] must hear of the statement.
    pub(crate) fn may_tie(&self, shape: &Shape) -> bool {
        let made = Pins::of(shape.class, shape.verb, shape.facts);
        made.intersects(FOLLOWED) || (self.ties.is_some() && matches!(shape.verb, Verb::Drop))
    }
}

/// To run this text leaves nothing on its connection.
fn is_harmless(core: &Core, variables: &SessionVariables, text: &[u8]) -> bool {
    let shape = core.shape(text, &variables.mode);
    let facts = Facts::USER_VARIABLE | Facts::MULTIPLE | Facts::COMPOUND;
    matches!(shape.class, Class::Read | Class::Write)
        && !shape.facts.intersects(facts)
        && Pins::of(shape.class, shape.verb, shape.facts).is_empty()
}

/// Names of tables with their database, for the session may change its own.
fn in_database(tie: Tie, database: Option<&[u8]>) -> Tie {
    let full = |name: Vec<u8>| match name.contains(&b'.') {
        true => name,
        false => [database.unwrap_or_default(), &name].join(&b'.'),
    };
    match tie {
        Tie::MakesTable(name) => Tie::MakesTable(full(name)),
        Tie::DropsTables(names) => Tie::DropsTables(names.into_iter().map(full).collect()),
        other => other,
    }
}

/// Keeps those locks that the connection holds.
async fn ask_locks(connection: &mut Connection, locks: &mut BTreeSet<Vec<u8>>) {
    if locks.is_empty() {
        return;
    }
    let one = |name: &Vec<u8>| {
        format!("IS_USED_LOCK('{}') <=> CONNECTION_ID()", String::from_utf8_lossy(name))
    };
    let items: Vec<String> = locks.iter().map(one).collect();
    let query = format!("SELECT {}", items.join(", "));
    // A connection that breaks here is found out by its next user.
    if let Ok(values) = connection.ask(query.as_bytes()).await {
        let mut values = values.iter();
        locks.retain(|_| values.next().is_none_or(|value| value == b"1"));
    }
}
