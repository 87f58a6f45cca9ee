//! Which tier answers a SELECT over several groups: the first that can.

use crate::answer::{Answer, Asked, Unanswered};
use crate::depth;
use crate::gather;
use crate::parse;
use crate::push::{self, Not};
use crate::views;

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
            Ok(answer) => Ok(answer),
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
