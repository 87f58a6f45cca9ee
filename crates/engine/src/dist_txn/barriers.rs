//! The commit barriers of groups: the row of `heddle.gate`, which every commit of a transaction over several
//! groups share-locks at the group whose COMMIT decides it (see [`enginesql::decision`]).
//!
//! Who holds the commit barriers of all groups holds up those commits, and no others; what was decided before
//! is found by its branches, which servers list until they have ended. When none of these is left, a
//! view that is opened on each group shows each such transaction everywhere or nowhere.
//!
//! Clients' own accounts come to a commit barrier within [`enginesql::decision`]' routine only, in one packet with the
//! COMMIT that lets it go. One that stays there otherwise may be anybody who can read all tables of a
//! server: [`dismiss_holders`] ends his connection.
//!
//! Commit barriers are taken in the order of the groups' numbers, by everybody. A holder that says nothing more
//! for [`SILENT_S`] seconds is disconnected by the server, and its commit barrier is free.

use std::collections::{BTreeMap, HashSet};
use std::ops::DerefMut;
use std::time::{Duration, Instant};

use farm::Engine;
use farm::dist_txn::GlobalId;

use crate::binlog;
use crate::dist_txn::branches::prepared;
use crate::error::Error;
use crate::link::{Link, bytes_at, text_at};

/// ER_LOCK_WAIT_TIMEOUT and ER_LOCK_DEADLOCK.
const LOCKED: [u16; 2] = [1205, 1213];

/// So long a server keeps the commit barrier of a holder that says nothing, in seconds.
const SILENT_S: u32 = 5;

/// Pause between two looks whether branches have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What became of the attempt to take a commit barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    Held,
    /// Somebody else has it, or a commit holds it for longer than a second.
    Busy,
}

/// A commit barrier that is held, by the link whose transaction holds it.
pub struct Barrier<L> {
    /// The group's number.
    pub group: u32,
    pub link: L,
    /// Its server has XA.
    pub lists: bool,
}

/// Takes the commit barrier on a group's primary, in a transaction that [`let_go`] ends; waits for a second. The
/// link is of no use when this fails.
pub async fn take(link: &mut Link, timeout_ms: u64) -> Result<Taking, Error> {
    const OPERATION: &str = "take the commit barrier of a group";
    // The first consistent read comes when the commit barrier is held.
    let sql = format!(
        "SET SESSION wait_timeout={SILENT_S}, innodb_lock_wait_timeout=1; START TRANSACTION; \
         SELECT id FROM heddle.gate WHERE id = 1 FOR UPDATE"
    );
    let sets = match link.sets(OPERATION, &sql, timeout_ms).await {
        Ok(sets) => sets,
        Err(error) if error.number().is_some_and(|it| LOCKED.contains(&it)) => {
            return Ok(Taking::Busy);
        }
        Err(error) => return Err(error),
    };
    if sets.iter().all(Vec::is_empty) {
        return Err(Error::Reply {
            operation: OPERATION,
            server: link.address().to_owned(),
            what: "heddle.gate is empty".to_owned(),
        });
    }
    Ok(Taking::Held)
}

/// Ends the connections that keep a link from the commit barrier for which it waits now, unless they are of the link's
/// own account or in the middle of a commit. Their ids; `looker` is another link to the same server. A MySQL
/// server whose `performance_schema` is off does not tell who has a lock: there nobody is ended.
pub async fn dismiss_holders(
    looker: &mut Link,
    waiting: u64,
    timeout_ms: u64,
) -> Result<Vec<u32>, Error> {
    const OPERATION: &str = "see who keeps the commit barrier of a group";
    let blocking = match looker.version().engine {
        Engine::MariaDb => format!(
            "SELECT held.trx_mysql_thread_id FROM information_schema.INNODB_LOCK_WAITS w \
             JOIN information_schema.INNODB_TRX held ON held.trx_id = w.blocking_trx_id \
             JOIN information_schema.INNODB_TRX asks ON asks.trx_id = w.requesting_trx_id \
             WHERE asks.trx_mysql_thread_id = {waiting}"
        ),
        // In another order MySQL 8.0.12 finds nothing.
        Engine::MySql => format!(
            "SELECT held.PROCESSLIST_ID FROM performance_schema.data_lock_waits w \
             STRAIGHT_JOIN performance_schema.threads held ON held.THREAD_ID = w.BLOCKING_THREAD_ID \
             STRAIGHT_JOIN performance_schema.threads asks ON asks.THREAD_ID = w.REQUESTING_THREAD_ID \
             WHERE asks.PROCESSLIST_ID = {waiting}"
        ),
    };
    let rows = looker.rows(OPERATION, &blocking, timeout_ms).await?;
    let holders: Vec<String> = rows.iter().filter_map(|row| text_at(row, 0)).collect();
    if holders.is_empty() {
        return Ok(Vec::new());
    }
    // What a commit that passes the commit barrier runs, its routine's statements among it.
    let commits = [
        "COMMIT",
        "XA ",
        "CALL heddle.",
        "INSERT INTO heddle.",
        "SELECT id INTO held",
    ];
    let commits = commits
        .map(|text| format!("INFO LIKE '{text}%'"))
        .join(" OR ");
    let sql = format!(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE ID IN ({}) \
         AND (COMMAND = 'Sleep' OR NOT ({commits}))",
        holders.join(",")
    );
    let mut dismissed = Vec::new();
    for row in looker.rows(OPERATION, &sql, timeout_ms).await? {
        let id = text_at(&row, 0).and_then(|id| id.parse().ok());
        if let Some(id) = id
            && binlog::dismiss(looker, id, timeout_ms).await?
        {
            dismissed.push(id);
        }
    }
    Ok(dismissed)
}

/// Lets the commit barrier go. An error says that it may not have been held any more.
pub async fn let_go(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    let sql = "COMMIT; SET SESSION wait_timeout=DEFAULT, innodb_lock_wait_timeout=DEFAULT";
    link.run("let the commit barrier of a group go", sql, timeout_ms)
        .await
}

/// Passes the commit barrier as a commit does, in a transaction that [`let_go`] ends: while it is open nobody has
/// the commit barrier. For what is committed on another connection; waits for five seconds.
pub async fn pass(link: &mut Link, timeout_ms: u64) -> Result<Taking, Error> {
    let sql = format!(
        "SET SESSION wait_timeout={SILENT_S}, innodb_lock_wait_timeout=5; START TRANSACTION; \
         SELECT id FROM heddle.gate WHERE id = 1 LOCK IN SHARE MODE"
    );
    match link
        .run("pass the commit barrier of a group", &sql, timeout_ms)
        .await
    {
        Ok(()) => Ok(Taking::Held),
        Err(error) if error.number().is_some_and(|it| LOCKED.contains(&it)) => Ok(Taking::Busy),
        Err(error) => Err(error),
    }
}

/// What was under way when all commit barriers were held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Decided before, and still not to be seen on all groups.
    pub open: Vec<GlobalId>,
    /// Clients' own that were not decided. Their COMMIT may pass a commit barrier and outlive its router, which
    /// lets the commit barrier go: see [`stays`].
    pub held: Vec<GlobalId>,
}

/// True when none of these clients' own has been decided since [`settle`].
pub async fn stays<L: DerefMut<Target = Link>>(
    barriers: &mut [Barrier<L>],
    settled: &Settled,
    timeout_ms: u64,
) -> Result<bool, Error> {
    for barrier in barriers {
        let held = settled
            .held
            .iter()
            .filter(|id| id.coordinator == barrier.group);
        let held: Vec<GlobalId> = held.copied().collect();
        if !committed(&mut barrier.link, &held, timeout_ms)
            .await?
            .is_empty()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// With all commit barriers held: waits until what was decided can be seen on all groups, for at most `limit`.
pub async fn settle<L: DerefMut<Target = Link>>(
    barriers: &mut [Barrier<L>],
    farm: u64,
    limit: Duration,
    timeout_ms: u64,
) -> Result<Settled, Error> {
    let until = Instant::now() + limit;
    let mut open = listed(barriers, farm, None, timeout_ms).await?;
    let mut decided = HashSet::new();
    for barrier in &mut *barriers {
        let asked: Vec<GlobalId> = open
            .values()
            .flatten()
            .filter(|id| id.coordinator == barrier.group)
            .copied()
            .collect();
        decided.extend(committed(&mut barrier.link, &asked, timeout_ms).await?);
    }
    let all = open.values().flatten();
    let held = all.filter(|id| id.is_of_client() && !decided.contains(id));
    let held: Vec<GlobalId> = held.copied().collect();
    loop {
        for ids in open.values_mut() {
            ids.retain(|id| decided.contains(id));
        }
        open.retain(|_, ids| !ids.is_empty());
        if open.is_empty() || Instant::now() >= until {
            let open = open.into_values().flatten().collect();
            return Ok(Settled { open, held });
        }
        tokio::time::sleep(LOOK_AGAIN).await;
        let groups: Vec<u32> = open.keys().copied().collect();
        open = listed(barriers, farm, Some(&groups), timeout_ms).await?;
    }
}

/// The transactions of which each group lists a branch; of these groups, or all.
async fn listed<L: DerefMut<Target = Link>>(
    barriers: &mut [Barrier<L>],
    farm: u64,
    groups: Option<&[u32]>,
    timeout_ms: u64,
) -> Result<BTreeMap<u32, Vec<GlobalId>>, Error> {
    let mut all = BTreeMap::new();
    for barrier in barriers {
        if barrier.lists && groups.is_none_or(|groups| groups.contains(&barrier.group)) {
            let list = prepared(&mut barrier.link, farm, timeout_ms).await?;
            let ids = list.ours.iter().map(|branch| branch.id).collect();
            all.insert(barrier.group, ids);
        }
    }
    Ok(all)
}

/// Those that this group has decided to commit.
async fn committed(
    link: &mut Link,
    ids: &[GlobalId],
    timeout_ms: u64,
) -> Result<Vec<GlobalId>, Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = ids.iter().map(|id| format!("X'{id}'")).collect();
    let sql = format!(
        "SELECT id FROM heddle.mark WHERE state = 'commit' AND id IN ({})",
        names.join(",")
    );
    let rows = link.rows("read decisions", &sql, timeout_ms).await?;
    let id = |row| GlobalId::decode(&bytes_at(row, 0)?);
    Ok(rows.iter().filter_map(id).collect())
}
