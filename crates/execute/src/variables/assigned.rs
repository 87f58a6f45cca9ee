//! What a SET has changed and the server does not report, or reports under another name.
//!
//! Session tracking has gaps: MariaDB says nothing of `SET @@name = …` without a scope, from 11 on it
//! confuses variables that share their storage (every on/off setting), neither engine reports the
//! collation that SET NAMES chose, and what SET STATEMENT changed back is said one reply too late.
//! So what a text assigns is compared with what the reply said, and the server is asked for the rest.

use backend::{Connection, ConnectionError, Tracked};
use mysql_wire::command::Command;
use sqltext::{Class, Facts, Mode, Scope, Verb};

use crate::client::request::Request;
use crate::execution::exec::{Job, Shape};
use crate::prepared::statements::PreparedStatements;
use crate::variables::changes::Changes;
use crate::variables::session_variables::SessionVariables;

/// Each changes the other one.
const COLLATION: [&str; 2] = ["character_set_connection", "collation_connection"];

/// Written as `@@name`, an assignment to these holds for the next transaction only.
const ONE_SHOT: [&str; 4] = [
    "transaction_isolation",
    "transaction_read_only",
    "tx_isolation",
    "tx_read_only",
];

/// What a SET makes of a switch of its session's, by its last word on it: `None` where it does not name
/// it, `Some(None)` where the value is no literal.
pub fn switched(text: &[u8], name: &str, mode: &Mode) -> Option<Option<bool>> {
    let items = sqltext::assignments(text, mode);
    let own = |scope| matches!(scope, Scope::Default | Scope::Session);
    let item = items.filter(|it| own(it.scope) && it.name == name).last()?;
    let value = sqltext::unquote(item.value.of(text), mode).to_ascii_lowercase();
    Some(match &*value {
        b"1" | b"on" | b"true" => Some(true),
        b"0" | b"off" | b"false" => Some(false),
        _ => None,
    })
}

impl SessionVariables {
    /// The session variables that the text assigns, in lower case.
    fn assigned(&self, text: &[u8], shape: &Shape) -> Vec<String> {
        let mut names = self.assigned_first(text);
        if shape.facts.contains(Facts::MULTIPLE) {
            let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b';');
            for (at, _) in ends {
                let rest = text[at + 1..].trim_ascii_start();
                // A comment may hide a SET; `assignments` reads over it.
                if rest.starts_with(b"/")
                    || rest.starts_with(b"#")
                    || rest.starts_with(b"-")
                    || rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"set"))
                {
                    names.extend(self.assigned_first(rest));
                }
            }
        }
        names
    }

    /// Of the first statement.
    fn assigned_first(&self, text: &[u8]) -> Vec<String> {
        let mut names = Vec::new();
        for item in sqltext::assignments(text, &self.mode) {
            match item.scope {
                Scope::Default | Scope::Session if !item.name.contains('.') => {
                    names.push(item.name.into_owned());
                }
                Scope::Names | Scope::Charset => names.extend(COLLATION.map(str::to_owned)),
                _ => {}
            }
        }
        names
    }
}

/// After a text with a SET ROLE, which the server does not report. The session stays where the
/// server cannot be asked, and where its database is closed to it now.
pub(crate) async fn learn_role(connection: &mut Connection, changes: &mut Changes) {
    let state = changes.state.as_ref().unwrap_or(connection.state()).clone();
    match connection.ask_role(&state).await {
        Ok(Some(state)) => changes.state = Some(state),
        Ok(None) | Err(_) => changes.pins = true,
    }
}

/// Completes what a reply said about the session's state. On an error the connection is broken.
pub(crate) async fn learn_assigned(
    request: &Request,
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    connection: &mut Connection,
    shape: &Shape,
    job: Job,
    changes: &mut Changes,
) -> Result<(), ConnectionError> {
    if matches!(shape.verb, Verb::SetStatement) {
        // What was changed is changed back; the next reply, whoever gets it, would say so.
        *changes = Changes::default();
        return connection.run(&[(Command::Query, b"DO 1")]).await.map(drop);
    }
    let text = match job {
        Job::Execute(id) => prepared.statement_text(id),
        _ => request.payload().get(1..).unwrap_or_default(),
    };
    let names = variables.assigned(text, shape);
    let mut ask: Vec<String> = Vec::new();
    for name in names {
        let told = changes.told.contains(&name);
        match connection.classify(&name) {
            // Reported, it may stand for another switch; named, it marks what the session writes.
            Tracked::Ignored => changes.pins |= name == "skip_replication",
            _ if told || ask.contains(&name) => {}
            Tracked::Pins => changes.pins = true,
            Tracked::State if ONE_SHOT.contains(&&*name) => {
                changes.one_shot |= !other_name_told(changes, &name)
            }
            Tracked::State => ask.push(name),
        }
    }
    if COLLATION.iter().any(|&name| ask.iter().chain(&changes.told).any(|n| n == name)) {
        ask.retain(|name| !COLLATION.contains(&&**name));
        ask.extend(COLLATION.map(str::to_owned));
    }
    if ask.is_empty() {
        return Ok(());
    }
    let items: Vec<String> = ask.iter().map(|name| format!("@@session.{name}")).collect();
    let query = format!("SELECT {}", items.join(", "));
    match connection.ask(query.as_bytes()).await {
        Ok(values) => {
            for (name, value) in ask.iter().zip(values) {
                let state = changes.state.as_ref().unwrap_or(connection.state());
                changes.state = Some(state.with_variable(name, &value));
            }
            changes.told.extend(ask);
            Ok(())
        }
        // A name that cannot be asked for, such as one in a text that only looked like a SET.
        Err(ConnectionError::Refused { .. }) => {
            changes.pins = true;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// True for texts that may assign session variables.
pub(crate) fn may_assign(shape: &Shape) -> bool {
    shape.class == Class::Set
        || matches!(shape.verb, Verb::SetStatement)
        || shape.facts.contains(Facts::MULTIPLE)
}

/// Character sets and collations change one another, and are known to be set as they are reported.
fn is_charset(name: &str) -> bool {
    name.starts_with("character_set_") || name.starts_with("collation_")
}

/// What was assigned for the first time on this server is set once more as the server tells it: if that
/// is refused, it will be refused on every other connection, and the session stays here. It spoils
/// warnings, and what several statements have counted.
pub(crate) async fn try_to_repeat(
    connection: &mut Connection,
    changes: &mut Changes,
) -> Result<(), ConnectionError> {
    for name in &changes.told {
        let known = connection.is_settable(name) || is_charset(name);
        if known || connection.classify(name) != Tracked::State {
            continue;
        }
        let Some(state) = &changes.state else { break };
        let Some(value) = state.variable(name).map(<[u8]>::to_vec) else {
            continue;
        };
        if connection.try_to_set(name, &value).await? {
            continue;
        }
        match connection.classify(name) {
            Tracked::Ignored => {
                changes.state = Some(state.without_variables(&[name.as_str().into()]));
            }
            _ => changes.pins = true,
        }
    }
    Ok(())
}

/// The servers call these by their newer name, whichever was written.
fn other_name_told(changes: &Changes, name: &str) -> bool {
    let other = match name.strip_prefix("tx_") {
        Some(rest) => format!("transaction_{rest}"),
        None => name.replacen("transaction_", "tx_", 1),
    };
    changes.told.contains(&other)
}
