//! Comparing both sides of a move, a piece of a table at a time. Pieces that writers keep changing are
//! compared once more when nobody writes.

use std::time::Duration;

use engine::part::Key;

use super::run::{Crew, Trouble};
use crate::reshard::Resharding;

/// Rows of a piece.
const PIECE_ROWS: u64 = 2000;

/// A piece that differs is compared so often, each time with what changed meanwhile.
const TRIES: usize = 4;

/// Pieces that may be left to the cut, where clients wait for them.
const HOT_MAX: usize = 40;

/// A piece that writers change all the time.
pub(super) struct Hot {
    table: usize,
    behind: Option<Key>,
    up_to: Option<Key>,
}

impl Resharding {
    /// Compares everything.
    pub(super) async fn verify_part(&self, job: &str, crew: &mut Crew) -> Result<(), Trouble> {
        self.equip(job, crew).await?;
        crew.hot.clear();
        self.catch_up(job, crew, Duration::from_secs(5)).await?;
        if let Some(feed) = &mut crew.feed {
            feed.forget_branches();
        }
        for at in 0..crew.tables.len() {
            let mut behind: Option<Key> = None;
            loop {
                let table = crew.tables[at].clone();
                let ferry = crew.ferry.as_mut().ok_or_else(lost)?;
                let up_to = ferry
                    .end_of_piece(&table, behind.as_ref(), PIECE_ROWS)
                    .await?;
                let hot = Hot {
                    table: at,
                    behind,
                    up_to: up_to.clone(),
                };
                if !self.is_equal_in_time(job, crew, &hot).await? {
                    crew.hot.push(hot);
                }
                if crew.hot.len() > HOT_MAX {
                    return Err(Trouble::Failed(format!(
                        "{} pieces of {} rows differ still, because writers are at them all the time",
                        HOT_MAX, PIECE_ROWS
                    )));
                }
                match up_to {
                    Some(key) => behind = Some(key),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Compares a piece until both sides agree, or it is left to the cut.
    async fn is_equal_in_time(
        &self,
        job: &str,
        crew: &mut Crew,
        piece: &Hot,
    ) -> Result<bool, Trouble> {
        for tried in 0..TRIES {
            if tried > 0 {
                self.catch_up(job, crew, Duration::from_millis(500)).await?;
            }
            if is_equal(crew, piece).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares what was left, while nobody writes: it must be equal. Where it is not, what was brought has been lost with a
    /// primary, or the target was written past Heddle: everything is copied anew.
    pub(super) async fn verify_hot(&self, crew: &mut Crew) -> Result<(), Trouble> {
        for piece in std::mem::take(&mut crew.hot) {
            if !is_equal(crew, &piece).await? {
                let table = crew.tables[piece.table].full();
                return Err(Trouble::Gone(format!(
                    "{table} differs at the target though nobody writes: it is copied anew; is it written past Heddle?"
                )));
            }
        }
        Ok(())
    }
}

async fn is_equal(crew: &mut Crew, piece: &Hot) -> Result<bool, Trouble> {
    let table = crew.tables[piece.table].clone();
    let ferry = crew.ferry.as_mut().ok_or_else(lost)?;
    let [ours, theirs] = ferry
        .sum(&table, piece.behind.as_ref(), piece.up_to.as_ref())
        .await?;
    Ok(ours == theirs)
}

/// The connections of a move were given up.
pub(super) fn lost() -> Trouble {
    Trouble::Failed("the connections to the groups were lost".to_owned())
}
