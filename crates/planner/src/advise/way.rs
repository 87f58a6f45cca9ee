//! What the planner makes of a statement: on how many groups it runs, and which rows it moves.

use std::sync::Arc;

use farm::Sharding;
use sqltext::{Mode, Span, slots, tables};

use crate::answer::{Answer, Asked, Finish};
use crate::place::{self, Literals, Spot, Statement};
use crate::tiers::answer;

/// A text, and what its meaning depends on.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub text: &'a str,
    pub database: &'a str,
    pub mode: &'a Mode,
    pub home: &'a Arc<str>,
    pub writes: bool,
}

/// How it is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// On one group, or by none.
    One,
    /// On so many groups, of which each has its part.
    Each(usize),
    /// On so many groups, of which each does the same.
    Same(usize),
    /// Rows of these tables are fetched first.
    Gather(Vec<Moved>),
    Refused,
}

/// Rows of a table that go from one server to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub database: String,
    pub table: String,
    /// So many of its columns.
    pub columns: usize,
}

impl Text<'_> {
    pub fn asked<'a>(&'a self, sharding: &'a Sharding) -> Asked<'a> {
        Asked {
            sharding,
            home: self.home,
            database: self.database,
            mode: self.mode,
            scratch: "s",
            changing: None,
        }
    }

    /// How it is carried out where tables are placed so.
    pub fn way(&self, sharding: &Sharding) -> Way {
        let bytes = self.text.as_bytes();
        let plan = place::plan(
            bytes,
            &place::Asked {
                sharding,
                home: self.home,
                database: self.database,
                mode: self.mode,
                writes: self.writes,
                locks: false,
            },
        );
        let slots = slots(bytes, self.mode);
        let spans: Vec<Span> = slots.iter().map(|slot| slot.span).collect();
        let literals = Literals {
            text: bytes,
            spans: &spans,
            mode: self.mode,
            utf8: true,
        };
        let statement = Statement {
            text: bytes,
            mode: self.mode,
            values: &literals,
            zero_is_value: false,
        };
        match plan.spot(&statement, sharding) {
            Spot::Anywhere | Spot::Group(_) | Spot::AnyOf(_) => Way::One,
            // The rows of an INSERT go to one group each.
            Spot::Rows(_) | Spot::Ids(_) | Spot::Evaluate(_) => Way::One,
            Spot::Each(groups) | Spot::Limited(groups) | Spot::Moves(groups) => {
                Way::Each(groups.len())
            }
            Spot::Same(groups) => Way::Same(groups.len()),
            Spot::Read(_) => self.read(sharding),
            Spot::Select | Spot::ByKeys => self.by_keys(sharding),
            Spot::Refused(_) => Way::Refused,
        }
    }

    fn read(&self, sharding: &Sharding) -> Way {
        let asked = self.asked(sharding);
        match answer(self.text, &asked) {
            Ok(answer) => of_answer(&answer, &asked),
            Err(_) => Way::Refused,
        }
    }

    /// Whatever it reads comes first.
    fn by_keys(&self, sharding: &Sharding) -> Way {
        let named = tables(self.text.as_bytes(), self.mode);
        let moved = named.iter().filter_map(|name| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let database = name.database.as_deref().map(text);
            let database = database.unwrap_or_else(|| self.database.to_owned());
            let table = text(&name.name);
            let columns = sharding.schema(&database, &table)?.columns.len();
            Some(Moved {
                database,
                table,
                columns,
            })
        });
        Way::Gather(moved.collect())
    }
}

fn of_answer(answer: &Answer, asked: &Asked<'_>) -> Way {
    let Finish::Scratch(scratch) = &answer.finish else {
        let groups = answer.fragments.iter().map(|it| match it.any {
            true => 1,
            false => it.groups.len(),
        });
        return match groups.sum() {
            0 | 1 => Way::One,
            several => Way::Each(several),
        };
    };
    let moved = answer.fragments.iter().zip(&scratch.tables);
    let moved = moved.filter_map(|(fragment, part)| {
        let name = tables(fragment.text.as_bytes(), asked.mode)
            .into_iter()
            .next()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(Moved {
            database: name.database.as_deref().map(text)?,
            table: text(&name.name),
            columns: part.columns.len(),
        })
    });
    Way::Gather(moved.collect())
}
