//! Savepoints of a transaction over several groups: on all of them, and on those that come later.

use backend::ConnectionError;
use farm::error;
use sqltext::Verb;

use crate::end::End;
use crate::exec::{Job, Shape};
use crate::session::Session;

/// The name at the end of SAVEPOINT, ROLLBACK TO and RELEASE SAVEPOINT, as names are compared.
fn name_of(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end_matches(|c: char| c.is_whitespace() || c == ';');
    let name = match text.strip_suffix('`') {
        Some(quoted) => quoted.rsplit_once('`').map_or(quoted, |(_, name)| name),
        None => text.rsplit(char::is_whitespace).next().unwrap_or(text),
    };
    name.to_lowercase()
}

impl Session {
    /// Runs such a statement on all groups of the open transaction. False: it is one group's matter.
    pub(super) async fn savepoint(&mut self, shape: &Shape, job: Job) -> Result<bool, End> {
        let text = self.text(job).to_vec();
        let Some(crossing) = &mut self.crossing else {
            return Ok(false);
        };
        let name = name_of(&text);
        let at = crossing
            .savepoints
            .iter()
            .position(|it| name_of(it) == name);
        let groups: Vec<u32> = crossing.parts.iter().map(|part| part.group).collect();
        if groups.is_empty() && at.is_none() && shape.verb != Verb::Savepoint {
            self.client
                .error(&error::SAVEPOINT_UNKNOWN, &[&name])
                .await?;
            return Ok(true);
        }
        match (shape.verb, at) {
            (Verb::Savepoint, at) => {
                if let Some(at) = at {
                    crossing.savepoints.remove(at);
                }
                crossing.savepoints.push(text.clone());
            }
            (Verb::RollbackTo, Some(at)) => crossing.savepoints.truncate(at + 1),
            (_, Some(at)) => crossing.savepoints.truncate(at),
            (_, None) => {}
        }
        match groups[..] {
            [] => self.say_done(shape).await.map(|()| true),
            [_] => {
                self.sit_at_decider();
                Ok(false)
            }
            _ => {
                match self.run_on(&groups, &text).await {
                    Ok(()) => self.say_done(shape).await?,
                    Err(ConnectionError::Refused {
                        number,
                        sqlstate,
                        message,
                    }) => {
                        let client = &mut self.client;
                        client.server_error(number, sqlstate, &message).await?;
                    }
                    Err(error) => {
                        let why = error.to_string();
                        self.client.error(&error::CROSSING_UNDONE, &[&why]).await?;
                    }
                }
                Ok(true)
            }
        }
    }

    /// Runs a text on the connections of these groups, all at once; the first error counts. A
    /// connection that breaks is closed.
    pub(crate) async fn run_on(
        &mut self,
        groups: &[u32],
        text: &[u8],
    ) -> Result<(), ConnectionError> {
        let texts = groups.iter().map(|group| (*group, vec![text.to_vec()]));
        self.run_each(texts.collect()).await
    }
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn names_are_found_and_compared_without_case() {
        assert_eq!(name_of(b"SAVEPOINT a"), "a");
        assert_eq!(name_of(b"ROLLBACK WORK TO SAVEPOINT  A ; "), "a");
        assert_eq!(name_of(b"RELEASE SAVEPOINT `My Point`"), "my point");
    }
}
