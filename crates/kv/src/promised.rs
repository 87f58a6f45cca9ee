//! Reads that must have what a token promises, and the token of what was written here.
//!
//! Such reads are not one batch with those of others, who have no part in the promise: they use a session
//! of their own, and the row cache where it has read all that is promised.

use std::rc::Rc;

use farm::Token;
use session::token_of;

use crate::change::seen;
use crate::op::{Change, Op, Outcome, Refusal};
use crate::reading::{Reader, run};
use crate::store::{Line, Store, now, told};
use crate::ticket::Ticket;

impl Store {
    /// Like [`Store::submit`]; what it reads has all that the token promises.
    pub fn submit_after(self: &Rc<Store>, op: Op, token: &str) -> Ticket {
        let Some(core) = self.core.upgrade() else {
            let why = Refusal::server("the router ends");
            return Ticket::done(Outcome::Refused(why));
        };
        let refused = |why: Refusal| Ticket::done(Outcome::Refused(why));
        let snapshot = core.snapshot();
        let parsed = match Token::parse(token, &snapshot) {
            Ok(parsed) => parsed,
            Err(why) => return refused(Refusal::client(format!("flag G: {why}"))),
        };
        let line = match self.line(&snapshot, &op.key) {
            Ok(line) => line,
            Err(why) => return refused(why),
        };
        // Changes are made where everything is.
        if !op.change.is_read() || line.is_changing(&op.key) || self.may_be_early(&op.key) {
            return self.submit_to_servers(op);
        }
        if op.change == Change::Get
            && let Some(recalled) = self.recall_after(&op.key, &parsed)
        {
            return Ticket::done(Outcome::Hit(recalled.item()));
        }
        let (waiting, ticket) = Ticket::new();
        let (store, token) = (self.clone(), token.to_owned());
        reactor::spawn(async move {
            let outcome = store.read_after(&line, &op, &token).await;
            waiting.answer(outcome.unwrap_or_else(Outcome::Refused));
        })
        .detach();
        ticket
    }

    async fn read_after(&self, line: &Line, op: &Op, token: &str) -> Result<Outcome, Refusal> {
        let mut open = self.open(&line.promised).await?;
        let columns = self.columns(&mut open.internal).await?;
        open.internal.must_see(&self.written.borrow());
        // A token counts at the level `client`, as at the level `session`.
        if self.declared.consistency.as_deref() != Some("strong") {
            let level = run(&mut open.internal, b"SET heddle_consistency='client'").await;
            let level = level.map_err(|lost| told(&lost))?;
            level.map_err(|refused| refused.for_client())?;
        }
        let mut text = b"SET heddle_token=".to_vec();
        sqltext::put_string(token.as_bytes(), false, &mut text);
        let taken = run(&mut open.internal, &text).await;
        if let Err(refused) = taken.map_err(|lost| told(&lost))? {
            line.promised.internal.replace(Some(open));
            return Err(Refusal::client(format!("flag G: {}", refused.message)));
        }
        if columns.check_key(&op.key).is_err() {
            line.promised.internal.replace(Some(open));
            return Ok(Outcome::Miss);
        }
        let filling = self.filling(line, None);
        let mut reader = Reader {
            internal: &mut open.internal,
            prepared: &mut open.prepared,
            columns: &columns,
            filling: filling.as_ref(),
        };
        let rows = reader.read(&[&*op.key]).await;
        let mut rows = rows.map_err(|lost| told(&lost))??;
        line.promised.internal.replace(Some(open));
        let row = rows.remove(&op.key);
        Ok(seen(&op.change, row, &columns.layout, now().as_secs()))
    }

    /// A token with which reads elsewhere have all that was written here; `None` while nobody can say
    /// what that is.
    pub fn token(&self) -> Option<String> {
        let core = self.core.upgrade()?;
        token_of(&self.written.borrow(), &core.snapshot())
    }
}
