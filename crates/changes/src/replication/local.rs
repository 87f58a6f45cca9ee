//! A generator's transactions as lines, for an applier of the same process.

use std::collections::{HashSet, VecDeque};

use super::{Filter, Generator, Transport};
use crate::event::Event;
use crate::teller::{Teller, Told};
use crate::transactions::{Ended, Parts, Transactions};

/// Of a transaction that ends so late that it has to be kept.
const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// The last line where a transaction ends that began in front of all events.
const GAP: &str = r#""event":"gap","error":"a branch of an earlier file is committed""#;

/// Tells what a generator tells, as far as a filter wants it.
///
/// The token of a `commit` is the generator's position behind it: the GTIDs. The lines in front of it have none.
pub struct Local<G, F> {
    generator: G,
    gathering: Transactions,
    teller: Teller<F>,
    /// Lines that were not taken, each with the token that it has.
    lines: VecDeque<(Told, Option<String>)>,
}

impl<G: Generator, F: Filter> Local<G, F> {
    /// The lines have this name of a group.
    pub fn new(generator: G, group: &str, filter: F) -> Local<G, F> {
        let told = generator.position().clone();
        Local {
            gathering: Transactions::new(told, HashSet::new(), TRANSACTION_BYTES_MAX),
            teller: Teller::new(group, filter),
            generator,
            lines: VecDeque::new(),
        }
    }

    /// The next line without its braces; `None` at the generator's end.
    ///
    /// # Errors
    /// The generator's, or why something cannot be told.
    pub async fn told(&mut self) -> Result<Option<Told>, String> {
        Ok(self.next_told().await?.map(|(told, _)| told))
    }

    async fn next_told(&mut self) -> Result<Option<(Told, Option<String>)>, String> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(line));
            }
            let event = self.generator.next().await;
            let Some(event) = event.map_err(|error| error.to_string())? else {
                return Ok(None);
            };
            self.take(event)?;
        }
    }

    fn take(&mut self, event: Event) -> Result<(), String> {
        let (position, place) = (self.generator.position(), self.generator.place());
        let logged = self.generator.logged();
        match self.gathering.take(event, position, place, logged) {
            Ok(None) => Ok(()),
            Ok(Some(ended)) => self.tell(&ended),
            Err(_) => {
                let told = Told {
                    line: GAP.to_owned(),
                    index: None,
                };
                self.lines.push_back((told, None));
                Ok(())
            }
        }
    }

    fn tell(&mut self, ended: &Ended) -> Result<(), String> {
        let parts = match &ended.parts {
            Parts::Kept(parts) => parts,
            Parts::Reread { gtid, .. } => {
                return Err(format!(
                    "the transaction {gtid} has more than {TRANSACTION_BYTES_MAX} bytes"
                ));
            }
        };
        let xid = ended.xid.as_ref();
        self.teller.begin(&ended.gtid, ended.logged, xid, None);
        let mut told = Vec::new();
        for part in parts.iter() {
            self.teller.part(part, &mut told)?;
        }
        self.lines.extend(told.into_iter().map(|it| (it, None)));
        if let Some(commit) = self.teller.end() {
            let token = ended.position.to_string();
            self.lines.push_back((commit, Some(token)));
        }
        Ok(())
    }
}

impl<G: Generator, F: Filter> Transport for Local<G, F> {
    type Error = String;

    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let told = self.next_told().await?;
        Ok(told.map(|(Told { line, .. }, token)| {
            let line = match token {
                Some(token) => {
                    let token = serde_json::Value::from(token);
                    format!("{{\"token\":{token},{line}}}")
                }
                None => format!("{{{line}}}"),
            };
            line.into_bytes()
        }))
    }
}
