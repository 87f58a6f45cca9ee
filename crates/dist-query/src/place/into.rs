//! SELECT … INTO @variable over several groups: the query is answered first; then a SELECT of what it
//! gave, which needs no table, sets the variables and answers the client.

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::heard::Heard;
use execute::session::Session;
use execute::variables::session_variables::SessionVariables;
use farm::error;
use sqltext::{PieceKind, pieces};

use crate::place::{inner, several};

/// Where the INTO of a query stands, with the variables.
pub(super) struct Into {
    place: (usize, usize),
    count: usize,
}

/// Runs such a query to its OK.
pub(super) async fn select_into(
    session: &mut Session,
    text: &[u8],
    into: &Into,
) -> Result<(), End> {
    let (start, end) = into.place;
    let query = [&text[..start], b" ", &text[end..]].concat();
    let sheet = match inner::inner(session, &query).await? {
        Heard::Rows(sheet) => sheet,
        Heard::Refused(refusal) => return session.client.pass_refusal(&refusal).await,
        Heard::Ok { .. } => {
            let why = "the query has no rows";
            return session.client.error(&error::NOT_OVER_GROUPS, &[why]).await;
        }
    };
    let all: Vec<usize> = (0..sheet.names.len()).collect();
    let (values, from) = match &sheet.rows[..] {
        [] => (
            Some(vec!["NULL"; all.len()].join(", ").into_bytes()),
            "FROM (SELECT 1) none WHERE 1 = 0",
        ),
        [row] => (sheet.literals(row, &all, &session.variables.mode), ""),
        [row, ..] => (
            sheet.literals(row, &all, &session.variables.mode),
            "FROM (SELECT 1 UNION ALL SELECT 2) more",
        ),
    };
    let Some(values) = values else {
        let why = "text in this character set cannot be written out: use SET NAMES utf8mb4";
        return session.client.error(&error::NOT_OVER_GROUPS, &[why]).await;
    };
    // Without a row they stay as they are, of the types that they have.
    let none = format!("INTO {}", vec!["@heddle"; into.count].join(", "));
    let variables = match sheet.rows.is_empty() {
        true => none.as_bytes(),
        false => &text[start..end],
    };
    let text = [b"SELECT ", &*values, b" ", from.as_bytes(), b" ", variables].concat();
    several::run_instead(session, &text).await
}

/// The INTO of a query whose row goes to user variables; `None` for every other one.
pub(super) fn variables_of(variables: &SessionVariables, text: &[u8]) -> Option<Into> {
    let all = pieces(text, &variables.mode)?;
    let mut depth = 0usize;
    let at = all.iter().position(|piece| {
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && piece.is(text, "INTO")
    })?;
    let mut rest = all[at + 1..].iter();
    let mut count = 0;
    let end = loop {
        let variable = rest.next().filter(|it| it.kind == PieceKind::UserVariable)?;
        count += 1;
        if rest.next().is_none_or(|it| it.kind != PieceKind::Comma) {
            break variable.span.end;
        }
    };
    let place = (all[at].span.start as usize, end as usize);
    Some(Into { place, count })
}
