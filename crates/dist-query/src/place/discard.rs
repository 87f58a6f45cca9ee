//! DO over several groups: a SELECT whose rows nobody wants.

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::heard::Heard;
use execute::client::sink::ReplySink;
use execute::session::{self, Session};
use farm::error;

use crate::place::inner;

/// Runs a DO to its OK.
pub(super) async fn discard(session: &mut Session, text: &[u8]) -> Result<(), End> {
    let pieces = sqltext::pieces(text, &session.variables.mode).unwrap_or_default();
    let Some(verb) = pieces.first().filter(|it| it.is(text, "DO")) else {
        let why = "this form of DO is not known";
        return session.client.error(&error::NOT_OVER_GROUPS, &[why]).await;
    };
    let expressions = &text[verb.span.end as usize..];
    match inner::inner(session, &[b"SELECT ", expressions].concat()).await? {
        Heard::Refused(refusal) => session.client.pass_refusal(&refusal).await,
        Heard::Rows(_) | Heard::Ok { .. } => {
            let ok = mysql_wire::reply::OkPacket::new(session::status_now(
                &session.variables,
                &session.transaction,
            ));
            session.client.answer_ok(&ok).await
        }
    }
}
