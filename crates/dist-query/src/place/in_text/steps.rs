//! Runs PREPARE, EXECUTE and DEALLOCATE in SQL to their answers.

use dist_txn::admit;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::heard::Heard;
use execute::execution::exec::{Job, Shape};
use execute::session::Session;
use farm::error;
use sqltext::Verb;

use crate::place::in_text::{InText, keep_text, place_of_source, say_ok};
use crate::place::{Where, inner, recalled, several};

/// Runs it to its answer.
pub(crate) async fn run_in_text(
    session: &mut Session,
    found: &InText,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    match found.verb {
        Verb::Deallocate => {
            if let Some(texts) = &mut session.prepared.texts {
                texts.remove(&*found.name);
            }
            say_ok(&mut session.client, &session.variables, &session.transaction, b"").await
        }
        Verb::Execute => {
            let texts = session.prepared.texts.as_ref();
            let kept = texts.and_then(|texts| texts.get(&*found.name));
            let text = kept.map(|kept| kept.text.clone());
            execute_text(session, &text.unwrap_or_default(), &found.values).await
        }
        _ => {
            let Some(text) = source_of(session, found).await? else {
                return Ok(());
            };
            match place_of_source(&session.core, &session.variables, &session.connections, &text) {
                Where::Rows(_) if found.verb == Verb::Prepare => {
                    keep_text(
                        &session.core,
                        &mut session.client,
                        &session.variables,
                        &session.transaction,
                        &mut session.prepared,
                        found,
                        text,
                    )
                    .await
                }
                Where::Rows(_) => execute_text(session, &text, &found.values).await,
                place => {
                    if let Some(texts) = &mut session.prepared.texts {
                        texts.remove(&*found.name);
                    }
                    if let Where::Group(group) = &place
                        && !admit::admit(session, group, &shape, job).await?
                    {
                        return Ok(());
                    }
                    recalled::answer_here(session, shape, job).await
                }
            }
        }
    }
}

/// The text that is to be prepared. `None`: the client has been answered.
async fn source_of(session: &mut Session, found: &InText) -> Result<Option<Vec<u8>>, End> {
    let source = found.source.clone().unwrap_or_default();
    if !source.starts_with(b"@") {
        return Ok(Some(sqltext::unquote(&source, &session.variables.mode).into_owned()));
    }
    match inner::inner(session, &[b"SELECT ", &*source].concat()).await? {
        Heard::Rows(sheet) => {
            let value = sheet.rows.into_iter().next();
            // Of NULL the server says what it says.
            let value = value.and_then(|row| row.into_iter().next()).flatten();
            Ok(Some(value.unwrap_or_default()))
        }
        Heard::Refused(refusal) => {
            session.client.pass_refusal(&refusal).await?;
            Ok(None)
        }
        Heard::Ok { .. } => Ok(Some(Vec::new())),
    }
}

/// Runs a text with the values of these variables in place of its marks.
async fn execute_text(session: &mut Session, text: &[u8], values: &[Vec<u8>]) -> Result<(), End> {
    let marks: Vec<sqltext::Span> = sqltext::slots(text, &session.variables.mode)
        .iter()
        .filter(|slot| slot.parameter.is_some())
        .map(|slot| slot.span)
        .collect();
    if marks.len() != values.len() {
        return session.client.error(&error::WRONG_ARGUMENTS, &["EXECUTE"]).await;
    }
    if marks.is_empty() {
        return several::run_instead(session, text).await;
    }
    let sheet =
        match inner::inner(session, &[b"SELECT ", &*values.join(&b", "[..])].concat()).await? {
            Heard::Rows(sheet) => sheet,
            Heard::Refused(refusal) => return session.client.pass_refusal(&refusal).await,
            Heard::Ok { .. } => {
                return session.client.error(&error::WRONG_ARGUMENTS, &["EXECUTE"]).await;
            }
        };
    let row = sheet.rows.first().cloned().unwrap_or_default();
    let mut made = Vec::with_capacity(text.len() + 16 * marks.len());
    let mut from = 0;
    for (at, mark) in marks.iter().enumerate() {
        let Some(literal) = sheet.literals(&row, &[at], &session.variables.mode) else {
            let why = "text in this character set cannot be written out: use SET NAMES utf8mb4";
            return session.client.error(&error::NOT_OVER_GROUPS, &[why]).await;
        };
        made.extend_from_slice(&text[from..mark.start as usize]);
        made.extend(literal);
        from = mark.end as usize;
    }
    made.extend_from_slice(&text[from..]);
    several::run_instead(session, &made).await
}
