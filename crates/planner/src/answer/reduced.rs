//! What leaves rows of one table out because no row of another one can meet them.
//!
//! Must not know: how a statement tells so.

use super::Fragment;

/// Rows of one table matter only where their column has a value that a column of another has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// The fragment that has the values, and its column in the scratch table, in quotes.
    pub by: usize,
    pub from: String,
    /// The place of that column among the fragment's; `None` as long as it is not known.
    pub column: Option<usize>,
    /// What has them in the fragment that is reduced.
    pub to: String,
    pub passed: Passed,
    /// It is the shard key: groups without these values need not be asked.
    pub is_key: bool,
    /// A condition that says the same where each group can tell it by itself; it lets more rows pass
    /// than the values that came.
    pub there: Option<String>,
}

/// What leaves rows out of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// Each holds by itself, so that any of them may be left out.
    pub by: Vec<Reduction>,
    /// Where in the fragment's text a condition more is put, and the word in front of it.
    pub at: usize,
    pub word: &'static str,
    /// What the statement calls the table.
    pub called: String,
}

impl Reduced {
    /// The table has conditions of its own.
    pub(crate) fn has_conditions(&self) -> bool {
        self.word == "AND"
    }

    /// No condition leaves rows out where no values of others are put in.
    pub(crate) fn is_whole(&self) -> bool {
        !self.has_conditions() && self.by.iter().all(|it| it.there.is_none())
    }

    /// What is asked where no values of others are known.
    #[must_use]
    pub fn alone(&self, fragment: &Fragment) -> Fragment {
        let there: Vec<String> = self.by.iter().filter_map(|it| it.there.clone()).collect();
        Fragment {
            text: self.text(&fragment.text, &there),
            ..fragment.clone()
        }
    }

    /// The fragment's text with these conditions more.
    pub fn text(&self, text: &str, conditions: &[String]) -> String {
        match conditions.is_empty() {
            true => text.to_owned(),
            false => {
                let (before, behind) = text.split_at(self.at);
                let all = conditions.join(" AND ");
                format!("{before} {} {all}{behind}", self.word)
            }
        }
    }
}

/// How a value becomes a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    Number,
    Date,
    /// Bytes in this character set.
    Text(String),
}
