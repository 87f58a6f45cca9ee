//! Parts for groups that have rows which are not their shard's, while a part of a shard map moves.

use execute::per_core::Core;
use execute::variables::session_variables::SessionVariables;
use planner::sieve::{Sieve, sieved};

use super::Part;

/// Leaves those rows out of what the parts read and change. Nothing is done where nothing moves.
///
/// # Errors
/// Why that cannot be done, for the client.
pub(crate) fn sift(
    core: &Core,
    variables: &SessionVariables,
    parts: &mut [Part],
) -> Result<(), String> {
    let snapshot = core.glance();
    let Some(sharding) = &snapshot.sharding else {
        return Ok(());
    };
    if sharding.moves().iter().all(|moving| moving.mixed.is_none()) {
        return Ok(());
    }
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    for part in parts {
        let sieve = Sieve {
            sharding,
            database: &database,
            mode: &variables.mode,
            group: &part.group,
        };
        match sieved(&part.text, &sieve) {
            Ok(None) => {}
            Ok(Some(text)) => part.text = text,
            Err(why) => {
                let group = &part.group;
                return Err(format!(
                    "a part of a shard map moves, and on group {group} its rows cannot be told apart \
                     in this statement: {why}; run it when the move has ended (`heddle job list`)"
                ));
            }
        }
    }
    Ok(())
}
