//! COM_QUERY: reads the text's shape, answers what is the router's own, runs the rest.

use mysql_wire::relay::Expect;
use sqltext::{Class, Verb};

use crate::end::End;
use crate::exec::{Job, Shape};
use crate::per_core::Core;
use crate::session::Session;

impl Session {
    /// Runs the text of the client's command.
    pub(crate) async fn query(&mut self) -> Result<(), End> {
        let mut shape = self.core.shape(&self.client.payload()[1..], &self.mode);
        if self.client.is_split() {
            // Only the first 16 MB were read: what follows may write.
            shape.class = if shape.class == Class::Read {
                Class::Write
            } else {
                shape.class
            };
        }
        shape.heed_hint();
        match (shape.class, shape.verb) {
            (Class::Local, _) => Box::pin(self.local()).await,
            (_, Verb::Kill { .. }) => Box::pin(self.kill_statement()).await,
            (Class::Show, _) => self.run_command(shape, Job::Frame(Expect::Results)).await,
            _ if self.asks_connection_id(&shape) => Box::pin(self.connection_id()).await,
            _ if self.asks_version_comment(&shape) => Box::pin(self.version_comment()).await,
            _ => self.run_command(shape, Job::Frame(Expect::Results)).await,
        }
    }
}

impl Core {
    /// What the tokenizer says of a text.
    pub(crate) fn shape(&self, text: &[u8], mode: &sqltext::Mode) -> Shape {
        let mut scan = self.scan.borrow_mut();
        scan.read(text, mode);
        Shape {
            class: scan.class,
            verb: scan.verb,
            facts: scan.facts,
            hint: scan.hint.ms,
            digest: scan.digest,
        }
    }
}
