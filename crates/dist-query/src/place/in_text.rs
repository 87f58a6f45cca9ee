//! PREPARE, EXECUTE and DEALLOCATE in SQL, of statements that several groups may have to run: the text is
//! kept here, and each EXECUTE runs it with the values of its variables, as if the client had sent it.

pub(crate) mod steps;

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::Shape;
use execute::per_core::Core;
use execute::prepared::statements::PreparedStatements;
use execute::prepared::texts::Kept;
use execute::session;
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use farm::error;
use mysql_wire::reply::OkPacket;
use sqltext::{PieceKind, Verb, pieces};

use super::{Names, Where, group};
use crate::place;
use crate::place::names;

/// Statements that one session keeps.
const TEXTS_MAX: usize = 1000;

/// PREPARE, EXECUTE, DEALLOCATE PREPARE or EXECUTE IMMEDIATE.
#[derive(Debug)]
pub(crate) struct InText {
    verb: Verb,
    /// In lower case; empty for EXECUTE IMMEDIATE.
    name: Vec<u8>,
    /// What is prepared: a string or a variable, as it is written.
    source: Option<Vec<u8>>,
    /// What USING names, as it is written.
    values: Vec<Vec<u8>>,
}

async fn keep_text(
    core: &Core,
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    transaction: &Transaction,
    prepared: &mut PreparedStatements,
    found: &InText,
    text: Vec<u8>,
) -> Result<(), End> {
    let texts = prepared.texts.get_or_insert_default();
    // The one of this name is gone in every case, as on the servers.
    texts.remove(&*found.name);
    if texts.len() >= TEXTS_MAX {
        return client.error(&error::TOO_MANY_STATEMENTS, &[]).await;
    }
    let bytes_max = core.settings().statements_bytes_max;
    let _portion = match prepared.bytes.take([&text, b""], bytes_max) {
        Ok(portion) => portion,
        Err(error) => return client.error(&error, &[]).await,
    };
    let text = text.into();
    texts.insert(found.name.clone().into(), Kept { text, _portion });
    say_ok(client, variables, transaction, b"Statement prepared").await
}

/// Reads such a statement, if several groups may have a part in it.
pub(super) fn in_text(
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    shape: &Shape,
    text: &[u8],
) -> Option<InText> {
    let verb = shape.verb;
    if !matches!(verb, Verb::Prepare | Verb::Execute | Verb::ExecuteImmediate | Verb::Deallocate) {
        return None;
    }
    let all = pieces(text, &variables.mode)?;
    let mut rest = all.iter().skip(1);
    let name = |piece: &sqltext::Piece| {
        let name = piece.name(text, &variables.mode)?;
        Some(name.to_ascii_lowercase())
    };
    let mut found = InText {
        verb,
        name: Vec::new(),
        source: None,
        values: Vec::new(),
    };
    match verb {
        Verb::Prepare => found.name = name(rest.next()?)?,
        Verb::Execute => found.name = name(rest.next()?)?,
        // DEALLOCATE PREPARE, DROP PREPARE.
        Verb::Deallocate => found.name = name(rest.nth(1)?)?,
        _ => drop(rest.next()?),
    }
    let mut rest: Vec<&sqltext::Piece> = rest.collect();
    rest.retain(|piece| piece.kind != PieceKind::Semicolon);
    if verb == Verb::Prepare {
        rest = rest.split_first().filter(|(from, _)| from.is(text, "FROM"))?.1.to_vec();
    }
    if matches!(verb, Verb::Prepare | Verb::ExecuteImmediate) {
        let (first, behind) = rest.split_first()?;
        let known = matches!(first.kind, PieceKind::Literal | PieceKind::UserVariable);
        let alone = behind.first().is_none_or(|it| it.is(text, "USING"));
        found.source = Some(first.span.of(text).to_vec()).filter(|_| known && alone);
        rest = behind.to_vec();
    }
    if let Some((using, values)) = rest.split_first() {
        let plain = using.is(text, "USING")
            && values.iter().enumerate().all(|(at, piece)| match at % 2 {
                0 => matches!(piece.kind, PieceKind::UserVariable | PieceKind::Literal),
                _ => piece.kind == PieceKind::Comma,
            });
        if !plain {
            return None;
        }
        let values = values.iter().step_by(2);
        found.values = values.map(|it| it.span.of(text).to_vec()).collect();
    }
    let kept = prepared.texts.as_ref().is_some_and(|it| it.contains_key(&*found.name));
    let mine = match verb {
        Verb::Execute | Verb::Deallocate => kept,
        _ => found.source.is_some(),
    };
    mine.then_some(found)
}

async fn say_ok(
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    transaction: &Transaction,
    info: &[u8],
) -> Result<(), End> {
    let mut ok = OkPacket::new(session::status_now(variables, transaction));
    ok.info = info;
    client.answer_ok(&ok).await
}

/// Where a text goes that is prepared in SQL: `Rows` when it is kept here.
fn place_of_source(
    core: &Core,
    variables: &SessionVariables,
    connections: &GroupConnections,
    text: &[u8],
) -> Where {
    let snapshot = core.snapshot();
    let Some(sharding) = &snapshot.sharding else {
        return Where::Stay;
    };
    match place::by_names(variables, text, &snapshot, sharding) {
        Names::None => names::in_database(variables, connections, &snapshot, sharding),
        Names::Whole(name) => group(&name, &snapshot),
        Names::Part(_) => Where::Rows(Vec::new()),
    }
}
