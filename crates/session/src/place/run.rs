//! Runs what is for several groups, or answers why it is not run.

use farm::error;

use super::{Part, Where};
use crate::end::End;
use crate::exec::{Job, Shape};
use crate::session::Session;

impl Session {
    /// Runs the client's command to its answer, and those behind it that may go with it.
    pub(crate) async fn run_free(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        if shape.bad_hint {
            return Box::pin(self.refuse_hint()).await;
        }
        match self.place(&shape, job) {
            Where::Stay => {}
            Where::Group(group) => self.sit(&group),
            other => return Box::pin(self.run_placed(other)).await,
        }
        self.recording = None;
        if self.may_be_cached(&shape, job) && Box::pin(self.answer_from_cache(&shape)).await? {
            return Ok(());
        }
        self.run_on_servers(shape, job).await
    }

    /// Answers a command that is not for one group.
    pub(crate) async fn run_placed(&mut self, place: Where) -> Result<(), End> {
        let (error, detail) = match place {
            Where::Refuse(error, detail) => (error, detail),
            Where::Parts(parts) => {
                let part = |part: &Part| format!("{} bytes for {}", part.text.len(), part.group);
                let parts: Vec<String> = parts.iter().map(part).collect();
                (error::NOT_OVER_GROUPS, parts.join(", "))
            }
            Where::Rows(text) => {
                let bytes = text.len();
                let detail = format!("a query of {bytes} bytes needs several groups");
                (error::NOT_OVER_GROUPS, detail)
            }
            Where::Later(spot) => (error::NOT_OVER_GROUPS, format!("{spot:?}")),
            Where::Stay | Where::Group(_) => return Ok(()),
        };
        self.client.error(&error, &[&detail]).await
    }
}
