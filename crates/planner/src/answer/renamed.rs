//! The same answer with other names of scratch tables.
//!
//! Invariants: an answer that is kept was made with a beginning of names that no text can have by chance, so that
//! nothing but names is changed.

use super::{Answer, Finish, Fragment, Load, Part, Reduction, Scratch, Sending};

impl Answer {
    /// The answer, whose scratch tables' names begin with `to` instead of `from`.
    #[must_use]
    pub fn renamed(&self, from: &str, to: &str) -> Answer {
        Names { from, to }.answer(self)
    }
}

struct Names<'n> {
    from: &'n str,
    to: &'n str,
}

impl Names<'_> {
    fn text(&self, text: &str) -> String {
        text.replace(self.from, self.to)
    }

    fn answer(&self, answer: &Answer) -> Answer {
        Answer {
            tier: answer.tier,
            fragments: answer
                .fragments
                .iter()
                .map(|it| self.fragment(it))
                .collect(),
            finish: match &answer.finish {
                Finish::Merge(merging) => Finish::Merge(merging.clone()),
                Finish::Scratch(scratch) => Finish::Scratch(self.scratch(scratch)),
            },
            locks: answer.locks,
            clock: answer.clock,
            reasons: answer.reasons.clone(),
            sending: answer.sending.as_ref().map(|it| Box::new(self.sending(it))),
            otherwise: answer
                .otherwise
                .as_ref()
                .map(|it| Box::new(self.answer(it))),
        }
    }

    fn fragment(&self, fragment: &Fragment) -> Fragment {
        Fragment {
            text: self.text(&fragment.text),
            groups: fragment.groups.clone(),
            any: fragment.any,
        }
    }

    fn scratch(&self, scratch: &Scratch) -> Scratch {
        let mut reduced = scratch.reduced.clone();
        // Columns of scratch tables, and conditions on tables of the groups.
        let by = reduced.iter_mut().flat_map(|it| &mut it.by);
        by.for_each(|one: &mut Reduction| one.from = self.text(&one.from));
        Scratch {
            tables: scratch.tables.iter().map(|it| self.part(it)).collect(),
            text: self.text(&scratch.text),
            variables: scratch.variables.clone(),
            order: scratch.order.clone(),
            reduced,
        }
    }

    fn part(&self, part: &Part) -> Part {
        Part {
            name: self.text(&part.name),
            into: self.text(&part.into),
            load: part.load.as_ref().map(|load| Load {
                text: self.text(&load.text),
                forget: load.forget.clone(),
            }),
            create: self.text(&part.create),
            loose: part.loose.as_deref().map(|it| self.text(it)),
            sorts_keys: part.sorts_keys,
            drop: self.text(&part.drop),
            is_temporary: part.is_temporary,
            columns: part.columns.clone(),
        }
    }

    fn sending(&self, sending: &Sending) -> Sending {
        Sending {
            fragments: sending
                .fragments
                .iter()
                .map(|it| self.fragment(it))
                .collect(),
            tables: sending.tables.iter().map(|it| self.part(it)).collect(),
            divided: sending.divided.clone(),
            places: sending.places.clone(),
            expected: sending.expected.clone(),
            bytes_max: sending.bytes_max,
            instead: Box::new(self.answer(&sending.instead)),
        }
    }
}
