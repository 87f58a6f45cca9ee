//! Writes that depend on rows of other groups: what they depend on is read first, from rows that stay
//! as they are until the transaction ends, and then they are ordinary writes of known rows.

use std::collections::HashSet;

use execute::client::heard::{Heard, Sheet};
use execute::session::Session;
use execute::variables::session_variables::SessionVariables;
use planner::{Answer, Changing, KeyPart, Target, To};
use sqltext::{Insert, Source, Span, edited};

use super::many::{BATCH_ROWS, Step, Stop, Tally};
use crate::place::own::with_own_values;
use crate::place::writes::many;
use crate::place::{inner, of_session, planned};

/// Rows in one UPDATE that gives each a value of its own: each is looked for among all of them.
const VARIED_ROWS: usize = 100;
/// Up to so many different values are written by an UPDATE for each.
const VALUES_MAX: usize = 16;

type Row = Vec<Option<Vec<u8>>>;
/// Values, and the rows that get them.
type Alike<'s> = (Vec<Option<&'s [u8]>>, Vec<&'s Row>);

/// UPDATE and DELETE whose rows depend on others. True for a DELETE.
pub(in crate::place) async fn change_by_rows(
    session: &mut Session,
    text: &[u8],
    tally: &mut Tally,
) -> Step<bool> {
    let text = known(session, text.to_vec()).await?;
    let shares = of_session::shares(&session.variables);
    let plan = planned::planned(
        &session.core,
        &session.handle,
        &session.variables,
        &text,
        |text, asked| planner::by_keys(text, asked, shares),
    )
    .map_err(|(error, detail)| Stop::Told(error, detail))?;
    let sheet = rows_of(session, plan.read, &plan.text).await?;
    let values = plan.targets.iter().flat_map(|target| &target.set);
    for (column, to) in values {
        if let To::Value(at) = to
            && sheet.is_short(*at)
        {
            let why = format!(
                "{column} is set to a FLOAT of another group, whose text has six digits: CAST it AS DOUBLE"
            );
            return Err(Stop::Told(farm::error::NOT_OVER_GROUPS, why));
        }
    }
    for target in &plan.targets {
        change_target(session, target, &sheet, tally).await?;
    }
    Ok(plan.delete)
}

/// With what only the session knows written out.
async fn known(session: &mut Session, text: Vec<u8>) -> Step<Vec<u8>> {
    with_own_values(session, text).await?.map_err(Stop::Server)
}

async fn rows_of(session: &mut Session, answer: Answer, text: &str) -> Step<Sheet> {
    let text = format!("{text} FOR UPDATE");
    match inner::inner_as(session, text.as_bytes(), Some(answer)).await? {
        Heard::Rows(sheet) => Ok(sheet),
        Heard::Ok { .. } => Err(Stop::Refused("no rows came where some were expected")),
        Heard::Refused(refusal) => Err(Stop::Server(refusal)),
    }
}

/// Changes the rows of one table, each of them once.
async fn change_target(
    session: &mut Session,
    target: &Target,
    sheet: &Sheet,
    tally: &mut Tally,
) -> Step<()> {
    let mut seen: HashSet<Vec<&[u8]>> = HashSet::new();
    let mut rows: Vec<&Row> = Vec::new();
    for row in &sheet.rows {
        let key = |part: &KeyPart| row.get(part.at)?.as_deref();
        // NULLs stand for a row that an outer join does not find.
        let keys: Option<Vec<&[u8]>> = target.keys.iter().map(key).collect();
        if keys.is_some_and(|keys| seen.insert(keys)) {
            rows.push(row);
        }
    }
    let values: Vec<usize> = target
        .set
        .iter()
        .filter_map(|(_, to)| match to {
            To::Value(at) => Some(*at),
            To::Text(_) => None,
        })
        .collect();
    // Rows of equal values together, in the order in which they were found.
    let mut alike: Vec<Alike<'_>> = Vec::new();
    let mut varied = false;
    for row in &rows {
        let own: Vec<Option<&[u8]>> = values.iter().map(|at| row[*at].as_deref()).collect();
        match alike.iter().position(|(theirs, _)| *theirs == own) {
            Some(at) => alike[at].1.push(row),
            None if alike.len() == VALUES_MAX => {
                varied = true;
                break;
            }
            None => alike.push((own, vec![row])),
        }
    }
    if varied {
        for rows in rows.chunks(VARIED_ROWS) {
            let text = change_text(&session.variables, target, sheet, rows, true)?;
            many::write_inner(session, &text, tally).await?;
        }
        return Ok(());
    }
    for (_, rows) in alike {
        for rows in rows.chunks(BATCH_ROWS) {
            let text = change_text(&session.variables, target, sheet, rows, false)?;
            many::write_inner(session, &text, tally).await?;
        }
    }
    Ok(())
}

/// An INSERT of rows with queries among their values: they are answered first, and stay true until
/// the transaction ends.
pub(in crate::place) async fn insert_computed(
    session: &mut Session,
    text: &[u8],
    insert: &Insert,
    tally: &mut Tally,
) -> Step<()> {
    let values: Vec<Span> = match &insert.source {
        Source::Rows { values, .. } => values.clone(),
        Source::Set(set) => set.iter().map(|(_, value)| *value).collect(),
        Source::Query(_) => Vec::new(),
    };
    let has_query = |span: &Span| {
        let all = sqltext::pieces(span.of(text), &session.variables.mode).unwrap_or_default();
        all.iter().any(|piece| piece.is(span.of(text), "SELECT"))
    };
    let spans: Vec<Span> = values.into_iter().filter(has_query).collect();
    if spans.is_empty() {
        return Err(Stop::Refused("the INSERT is not understood"));
    }
    if insert.returns {
        return Err(Stop::Refused(
            "INSERT … RETURNING with queries among its values is not known over several groups: \
             ask for the values first",
        ));
    }
    let mut query = b"SELECT ".to_vec();
    for (number, span) in spans.iter().enumerate() {
        let comma = if number == 0 { "" } else { ", " };
        query.extend_from_slice(comma.as_bytes());
        query.extend_from_slice(span.of(text));
        query.extend_from_slice(format!(" AS `heddle {number}`").as_bytes());
    }
    let query = known(session, query).await?;
    let changing = Changing {
        targets: &[],
        shares: of_session::shares(&session.variables),
    };
    let answer = planned::planned(
        &session.core,
        &session.handle,
        &session.variables,
        &query,
        |text, asked| {
            let asked = planner::Asked {
                changing: Some(changing),
                ..*asked
            };
            planner::to_change(text, &asked)
        },
    );
    let answer = answer.map_err(|(error, detail)| Stop::Told(error, detail))?;
    let query = String::from_utf8_lossy(&query).into_owned();
    let sheet = rows_of(session, answer, &query).await?;
    let [row] = &sheet.rows[..] else {
        return Err(Stop::Refused("the INSERT is not understood"));
    };
    let mut edits = Vec::with_capacity(spans.len());
    for (number, span) in spans.iter().enumerate() {
        let value = many::written(&session.variables, &sheet, row, &[number])?;
        let value = String::from_utf8(value).map_err(|_| {
            Stop::Refused("text in this character set cannot be written out: use SET NAMES utf8mb4")
        })?;
        edits.push(((span.start as usize, span.end as usize), value));
    }
    many::write_inner(session, &edited(text, edits), tally).await
}

/// The statement for some rows; `varied`: their values differ.
fn change_text(
    variables: &SessionVariables,
    target: &Target,
    sheet: &Sheet,
    rows: &[&Row],
    varied: bool,
) -> Step<Vec<u8>> {
    let mut text = target.head.clone().into_bytes();
    let columns: Vec<&str> = target.keys.iter().map(|part| &*part.column).collect();
    let tuple = format!("({})", columns.join(", "));
    let mut keys = Vec::with_capacity(rows.len());
    for row in rows {
        let mut all = Vec::new();
        for part in &target.keys {
            all.push(key_text(variables, sheet, row, part)?);
        }
        keys.push(all);
    }
    let whole = |all: &[Vec<u8>]| [b"(", &*all.join(&b", "[..]), b")"].concat();
    for (number, (column, to)) in target.set.iter().enumerate() {
        let word = if number == 0 { " SET " } else { ", " };
        text.extend_from_slice(format!("{word}{column} = ").as_bytes());
        match to {
            To::Text(written) => text.extend_from_slice(written.as_bytes()),
            To::Value(at) if !varied => {
                text.extend(many::written(variables, sheet, rows[0], &[*at])?)
            }
            To::Value(at) => {
                text.extend_from_slice(b"CASE");
                for (row, key) in rows.iter().zip(&keys) {
                    text.extend_from_slice(format!(" WHEN {tuple} = ").as_bytes());
                    text.extend(whole(key));
                    text.extend_from_slice(b" THEN ");
                    text.extend(many::written(variables, sheet, row, &[*at])?);
                }
                text.extend_from_slice(b" END");
            }
        }
    }
    text.extend_from_slice(b"\nWHERE ");
    // The first column of the primary key by itself, too: not every server uses an index for rows.
    let first = target.keys.len() - target.primary;
    if target.keys.len() > 1 {
        let mut values: Vec<&[u8]> = keys.iter().map(|key| &*key[first]).collect();
        values.sort_unstable();
        values.dedup();
        text.extend_from_slice(format!("{} IN (", columns[first]).as_bytes());
        text.extend_from_slice(&values.join(&b", "[..]));
        text.extend_from_slice(b") AND ");
    }
    let all: Vec<Vec<u8>> = keys.iter().map(|key| whole(key)).collect();
    text.extend_from_slice(format!("{tuple} IN (").as_bytes());
    text.extend_from_slice(&all.join(&b", "[..]));
    text.push(b')');
    Ok(text)
}

/// A key's value as a literal.
fn key_text(
    variables: &SessionVariables,
    sheet: &Sheet,
    row: &Row,
    part: &KeyPart,
) -> Step<Vec<u8>> {
    let (Some(charset), Some(Some(bytes))) = (&part.charset, row.get(part.at)) else {
        return many::written(variables, sheet, row, &[part.at]);
    };
    let plain = |byte: &u8| byte.is_ascii() && !byte.is_ascii_control() && !b"'\\".contains(byte);
    if bytes.iter().all(plain) {
        return Ok([b"'", &**bytes, b"'"].concat());
    }
    Ok(format!("_{charset} x'{}'", hex::encode(bytes)).into_bytes())
}
