//! Which tier answers a SELECT over several groups: the first that can.

use crate::answer::{Answer, Asked, Finish, Unanswered};
use crate::depth;
use crate::gather;
use crate::parse;
use crate::push::{self, Not};
use crate::views;

/// Why the rows of a list are gathered that were to be merged.
const TOO_LONG: &str = "a list is longer than group_concat_max_len, or nearly so";

/// Tells how a SELECT that needs more than one group is answered. Parameters stand in the text as
/// literals.
///
/// # Errors
/// It cannot be.
pub fn answer(text: &str, asked: &Asked<'_>) -> Result<Answer, Unanswered> {
    depth::fits(text).map_err(Unanswered::Unknown)?;
    let whole = views::expanded(text, asked)?;
    let text = &*whole;
    match parse::query(text, asked.mode) {
        Ok(query) if parse::counts_rows(text, asked.mode) => {
            let mut answer = gather::gather(text, &query, asked)?;
            let reason = "SQL_CALC_FOUND_ROWS: one server counts all rows";
            answer.reasons.push(reason.to_owned());
            Ok(answer)
        }
        Ok(query) => match push::push(text, &query, asked) {
            Ok(mut answer) => {
                if matches!(&answer.finish, Finish::Merge(merging) if !merging.lists.is_empty()) {
                    let mut rows = gather::gather(text, &query, asked)?;
                    rows.reasons.push(TOO_LONG.to_owned());
                    answer.otherwise = Some(Box::new(rows));
                }
                Ok(answer)
            }
            Err(Not::Unanswered(reason)) => Err(reason),
            Err(Not::Known(reason)) => {
                let mut answer = gather::gather(text, &query, asked)?;
                answer.reasons.push(reason);
                Ok(answer)
            }
        },
        Err(reason) => {
            let mut answer = gather::pull(text, asked)?;
            answer.reasons.push(format!("it is not read: {reason}"));
            Ok(answer)
        }
    }
}
