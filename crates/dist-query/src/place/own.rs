//! What only the session knows, put into a query for several groups before it is planned.

use execute::client::end::End;
use execute::client::heard::Heard;
use execute::client::refuse::ServerRefusal;
use execute::session::Session;

use crate::place::inner;

/// The text, with what only the session knows written out.
pub(super) async fn with_own_values(
    session: &mut Session,
    text: Vec<u8>,
) -> Result<Result<Vec<u8>, ServerRefusal>, End> {
    let Ok(read) = std::str::from_utf8(&text) else {
        return Ok(Ok(text));
    };
    let values = planner::session_values(read, &session.variables.mode);
    if values.is_empty() {
        return Ok(Ok(text));
    }
    let asked: Vec<&str> = values.iter().map(|value| &*value.expression).collect();
    let question = format!("SELECT {}", asked.join(", "));
    let question = question.into_bytes();
    let own = sqltext::identify(&question, &session.variables.mode, session.handle.id);
    let sheet = match inner::inner(session, &own.unwrap_or(question)).await? {
        Heard::Rows(sheet) => sheet,
        Heard::Refused(refusal) => return Ok(Err(refusal)),
        Heard::Ok { .. } => return Ok(Ok(text)),
    };
    let row = sheet.rows.first().cloned().unwrap_or_default();
    let literals: Option<Vec<String>> = (0..values.len())
        .map(|at| String::from_utf8(sheet.literals(&row, &[at], &session.variables.mode)?).ok())
        .collect();
    Ok(Ok(match literals {
        Some(literals) => planner::with_values(read, &values, &literals).into_bytes(),
        // What is not written out is refused with its reason.
        None => text,
    }))
}
