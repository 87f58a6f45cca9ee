//! Whether a server's data fit the primary that it should follow, and its first steps behind it.

use engine::{Divergence, Link, Login};
use farm::Position;

use crate::leadership::lead::Lead;
use crate::provision::Provision;
use catalog::command::CommandError;
use catalog::record::ServerRecord;

impl Provision {
    /// Lets a server of the group that was out of it follow the primary again.
    pub(crate) async fn follow_again(
        &self,
        lead: &Lead,
        link: &mut Link,
        primary: &ServerRecord,
    ) -> Result<(), CommandError> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        match self.join(lead, link, primary, timeout_ms).await? {
            None => self.links.await_acknowledged(lead, link, primary).await,
            Some(why) => Err(CommandError::Refused(format!(
                "server {} cannot follow {}: {why}; `server clone {} {}` fills it",
                link.address(),
                primary.address(),
                primary.group,
                link.address()
            ))),
        }
    }

    /// Makes a server follow the primary, unless it holds data that the primary has not. Gives the
    /// reason when it is empty and has to be filled first.
    pub(crate) async fn join(
        &self,
        lead: &Lead,
        link: &mut Link,
        primary: &ServerRecord,
        timeout_ms: u64,
    ) -> Result<Option<String>, CommandError> {
        let mut leader = self.links.reach(lead, primary).await?;
        let leading = engine::probe(&mut leader, false, timeout_ms).await?;
        if leading.read_only {
            return Err(CommandError::Refused(format!(
                "the primary {} of group {} is read-only, so nothing can be added to the group; see \
                 `group health {}`",
                primary.address(),
                primary.group,
                primary.group
            )));
        }
        let login = self.links.login(primary);
        let fits = fits(link, &mut leader, &login, &primary.group, timeout_ms).await?;
        if fits.is_some() {
            return Ok(fits);
        }
        engine::make_replica(link, &self.links.replica_login(primary), timeout_ms).await?;
        Ok(None)
    }
}

/// Whether a server's data are those of the primary to be, up to some point from which it can go on. Gives
/// the reason when it has to be filled first; changes nothing.
pub(crate) async fn fits(
    link: &mut Link,
    leader: &mut Link,
    login: &Login,
    group: &str,
    timeout_ms: u64,
) -> Result<Option<String>, CommandError> {
    let mine = Holdings::of(link, timeout_ms).await?;
    let leaders = Holdings::of(leader, timeout_ms).await?;
    let mut divergence = engine::divergence(link, leader, timeout_ms).await?;
    if divergence.count == 0 {
        divergence.out_of_reach = engine::is_out_of_reach(link, login, timeout_ms).await?;
    }
    fit(&mine, &leaders, &divergence, group, link.address()).map_err(|what| {
        CommandError::Refused(format!(
            "server {} cannot follow {}: {what}",
            link.address(),
            leader.address()
        ))
    })
}

/// Why a member has to be filled before it may follow: a copy into it was cut short, or was given up, which
/// empties it. The log of its primary would not lead it on: its accounts are still there, and statements
/// that make them again stop the replication.
pub(crate) async fn left_by_a_copy(
    link: &mut Link,
    leader: &mut Link,
    timeout_ms: u64,
) -> Result<Option<String>, CommandError> {
    let mine = Holdings::of(link, timeout_ms).await?;
    if mine.unfinished {
        return Ok(Some(CUT_SHORT.to_owned()));
    }
    if !mine.no_gtid {
        return Ok(None);
    }
    let leaders = Holdings::of(leader, timeout_ms).await?;
    Ok((leaders.objects > 0).then(|| EMPTY.to_owned()))
}

/// See [`Divergence::lost_own`].
pub(crate) const LOST_OWN: &str =
    "it lacks transactions of its own, which it takes from no other server";

const CUT_SHORT: &str = "a copy into it was cut short";
const EMPTY: &str = "it is empty and the group has data";

/// What a server holds, as far as it matters for joining.
struct Holdings {
    objects: u64,
    /// A copy into it was cut short.
    unfinished: bool,
    /// Nothing was ever executed there, as far as GTIDs tell.
    no_gtid: bool,
}

impl Holdings {
    async fn of(link: &mut Link, timeout_ms: u64) -> Result<Holdings, CommandError> {
        let contents = engine::copy::contents(link, timeout_ms).await?;
        let seen = engine::probe(link, false, timeout_ms).await?;
        let engine = link.version().engine;
        let position = Position::parse(engine, &seen.gtid).ok_or_else(|| {
            CommandError::Refused(format!(
                "the GTID position {:?} of server {} cannot be read",
                seen.gtid,
                link.address()
            ))
        })?;
        Ok(Holdings {
            objects: contents.objects,
            unfinished: contents.unfinished,
            no_gtid: position.is_empty(),
        })
    }
}

/// How a newcomer's data and the primary's fit together: it can follow at once, or (`Some`, with the
/// reason) must be filled first, or not at all.
fn fit(
    mine: &Holdings,
    leaders: &Holdings,
    divergence: &Divergence,
    group: &str,
    address: &str,
) -> Result<Option<String>, String> {
    if mine.unfinished {
        return Ok(Some(CUT_SHORT.to_owned()));
    }
    let over =
        format!("`server clone {group} {address} --force=true` replaces its data by the group's");
    if divergence.count > 0 {
        return Err(format!(
            "it has executed {} ({} transactions), which the primary has not; {over}",
            divergence.errant, divergence.count
        ));
    }
    if mine.objects > 0 && mine.no_gtid {
        return Err(format!(
            "it has {} tables, views or routines that did not come from the primary; drop them, or {over}",
            mine.objects
        ));
    }
    if mine.objects > 0 && divergence.out_of_reach {
        return Err(format!(
            "what it lacks is no longer in the primary's binary logs; {over}"
        ));
    }
    if mine.objects > 0 && divergence.lost_own {
        return Err(format!("{LOST_OWN}; {over}"));
    }
    if mine.objects > 0 {
        return Ok(None);
    }
    if divergence.out_of_reach {
        return Ok(Some(
            "the primary no longer has the binary logs from the beginning".to_owned(),
        ));
    }
    if divergence.lost_own {
        return Ok(Some(LOST_OWN.to_owned()));
    }
    // Whether the binary logs hold all that the primary has, nobody can tell: data may be older.
    if leaders.objects > 0 && mine.no_gtid {
        return Ok(Some(EMPTY.to_owned()));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_did_not_come_from_the_primary() {
        let holds = |objects, no_gtid| Holdings {
            objects,
            unfinished: false,
            no_gtid,
        };
        let leader = holds(5, false);
        let none = Divergence::default();
        let gone = Divergence {
            out_of_reach: true,
            ..Divergence::default()
        };
        let lost = Divergence {
            lost_own: true,
            ..Divergence::default()
        };
        let errant = Divergence {
            errant: "0-2-99..101".to_owned(),
            count: 3,
            ..Divergence::default()
        };
        let check = |mine: &Holdings, divergence| fit(mine, &leader, divergence, "g", "h:1");
        assert_eq!(check(&holds(5, false), &none), Ok(None), "a restored copy");
        let refused = |mine: &Holdings, divergence, words: &str| {
            let error = check(mine, divergence).expect_err(words);
            assert!(
                error.contains(words) && error.contains("server clone g h:1"),
                "{error}"
            );
        };
        refused(&holds(5, false), &errant, "0-2-99..101 (3 transactions)");
        refused(&holds(0, false), &errant, "0-2-99..101");
        refused(&holds(3, true), &none, "3 tables");
        refused(&holds(3, false), &gone, "no longer in the primary's");
        refused(&holds(3, false), &lost, "transactions of its own");
        let filled = |mine: &Holdings, divergence| check(mine, divergence).expect("fits").is_some();
        assert!(
            filled(&holds(0, true), &none),
            "data may be older than the logs"
        );
        assert!(filled(&holds(0, true), &gone));
        assert!(filled(&holds(0, false), &lost));
        let cut_short = Holdings {
            unfinished: true,
            ..holds(3, true)
        };
        assert!(filled(&cut_short, &none));
        let nothing = holds(0, true);
        assert_eq!(fit(&nothing, &nothing, &none, "g", "h:1"), Ok(None));
    }
}
