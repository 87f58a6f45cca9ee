//! DO over several groups: a SELECT whose rows nobody wants.

use farm::error;

use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::heard::Heard;
use crate::client::sink::ReplySink;
use crate::place::inner;
use crate::session::{self, Session};

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
