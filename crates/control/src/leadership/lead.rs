//! The right to act for the farm, as a value.
//!
//! Job: a [`Lead`] says that this router led when the value was made. What changes the farm demands one: records
//! written to the store, links over which servers are changed, the steps of a change of primary, and how servers
//! come into a group. So nobody acts for the farm without having asked who leads.
//!
//! Invariants: only [`Leadership`] makes a lead, and only while it holds the leadership. A lead carries the fencing
//! number of its leadership; one whose leadership is over is refused here, by the store, and by servers
//! ([`engine::term`]). Keep it for one command, one step or one round, and ask again behind a long wait.
//!
//! Must not know: the farm, and what is done by the right.

use meta::Transaction;

use crate::leadership::Leadership;
use crate::leadership::presence::LEADER;
use catalog::command::CommandError;

/// The right to act for the farm, under one leadership. It cannot be copied, so that nobody keeps one aside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lead {
    /// The fencing number; `None` for a router that is alone, which nobody replaces.
    number: Option<u64>,
}

impl Lead {
    /// The fencing number; `None` for a router that is alone.
    pub(crate) fn number(&self) -> Option<u64> {
        self.number
    }
}

impl Leadership {
    /// The right to act at this moment; `None` when another router leads, or may do so.
    pub(crate) fn lead(&self) -> Option<Lead> {
        if self.is_retired() {
            return None;
        }
        let number = match self.is_alone() {
            true => None,
            false => Some(self.number_held()?),
        };
        Some(Lead { number })
    }

    /// The same, for who has to say why not.
    ///
    /// # Errors
    /// [`CommandError::Refused`]: another router leads, or may do so.
    pub(crate) fn must_lead(&self) -> Result<Lead, CommandError> {
        self.lead().ok_or_else(|| {
            CommandError::Refused(
                "this router does not lead the farm, so it changes nothing; `router list` shows who \
                 does"
                    .to_owned(),
            )
        })
    }

    /// The right to act under this very leadership.
    ///
    /// # Errors
    /// [`CommandError::Refused`]: it is over.
    pub(crate) fn lead_under(&self, number: Option<u64>) -> Result<Lead, CommandError> {
        let lead = self.lead().filter(|lead| lead.number == number);
        lead.ok_or_else(|| {
            CommandError::Refused("this router does not lead the farm any more".to_owned())
        })
    }

    /// False once the leadership of this lead is over.
    pub(crate) fn stands(&self, lead: &Lead) -> bool {
        self.lead().as_ref() == Some(lead)
    }

    /// A change of the farm that the store refuses when the leadership of this lead is over.
    ///
    /// # Errors
    /// [`CommandError::Refused`]: this router knows already that it is.
    pub(crate) fn fenced(
        &self,
        lead: &Lead,
        transaction: Transaction,
    ) -> Result<Transaction, CommandError> {
        if !self.stands(lead) {
            self.must_lead()?;
            // It leads again, by another number: what it began before is not taken up half done.
            return Err(CommandError::Stale);
        }
        Ok(match lead.number {
            None => transaction,
            Some(number) => transaction.when_revision(LEADER, number),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn a_router_that_is_alone_leads_until_it_has_a_successor() {
        let alone = Leadership::new("a".to_owned(), true);
        let lead = alone.must_lead().expect("nobody else is there");
        assert_eq!(lead.number(), None);
        let change = Transaction::new().put("/k", "v");
        let fenced = alone.fenced(&lead, change.clone()).expect("it leads");
        assert_eq!(fenced.compares, change.compares, "nobody could replace it");
        alone.retired.store(true, Relaxed);
        assert!(!alone.stands(&lead));
        assert!(matches!(
            alone.fenced(&lead, change),
            Err(CommandError::Refused(_))
        ));
    }

    #[test]
    fn a_router_with_others_leads_only_while_it_was_elected() {
        let leadership = Leadership::new("a".to_owned(), false);
        assert_eq!(leadership.lead(), None);
        assert!(leadership.must_lead().is_err());
        assert!(leadership.lead_under(None).is_err());
        let old = Lead { number: Some(7) };
        assert!(!leadership.stands(&old));
        let change = Transaction::new().put("/k", "v");
        assert!(leadership.fenced(&old, change).is_err());
    }
}
