//! What became of writes whose answers were lost: looked up in the log of the group's primary, once it
//! has one that will stay.
//!
//! All that wait for one group are answered from one reading of the log. A write that was sent to the
//! server which is still the primary may yet be running there; it is ended first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::Link;
use engine::binlog::{self, Written, is_after};
use farm::{Engine, Fate, Group, GroupKind, LostWrite, Position, ServerId, TableRows};
use tokio::task::JoinSet;

use crate::context::Context;
use crate::context::supervision::Queue;
use crate::context::trail::Trail;
use crate::links::Links;
use crate::links::reach::Place;

/// A group's writes are looked up for so long; after that nobody can say.
const PATIENCE_MS: u64 = 60_000;

/// Pause between two looks at whether there is a primary, or a connection is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Pause after a server failed to answer.
const PAUSE: Duration = Duration::from_millis(50);

/// The log is read from so long before a write was sent: sessions count whole seconds, by clocks that
/// stand still while their core has no time. All who lost a write wait for the reading.
const MARGIN_US: u64 = 2_000_000;

/// Takes what became of a write, on the control thread; must not block.
pub type Verdict = Box<dyn FnOnce(Fate) + Send>;

/// A lost write and who asks for it.
pub(crate) struct Asked {
    pub(crate) lost: LostWrite,
    pub(crate) reply: Verdict,
    /// When it was asked, once that is known: its ages count from then.
    pub(crate) at_us: u64,
}

/// Those that wait, by group.
type Waiting = Arc<Mutex<HashMap<String, Vec<Asked>>>>;

/// Finds out what became of writes whose answers were lost.
pub(crate) struct LostWrites {
    context: Arc<Context>,
    links: Arc<Links>,
}

impl LostWrites {
    pub(crate) fn new(context: &Arc<Context>, links: &Arc<Links>) -> LostWrites {
        LostWrites {
            context: Arc::clone(context),
            links: Arc::clone(links),
        }
    }
}

impl LostWrites {
    /// Answers what sessions ask about their lost writes, for as long as the control plane runs.
    pub(crate) async fn settle_lost(self: Arc<Self>, asked: Queue<Asked>) {
        let mut asked = asked.lock().await;
        let waiting = Waiting::default();
        let mut groups: JoinSet<String> = JoinSet::new();
        let mut busy: Vec<String> = Vec::new();
        loop {
            tokio::select! {
                Some(mut one) = asked.recv() => {
                    one.at_us = self.context.now_us();
                    let mut all = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    all.entry(one.lost.group.clone()).or_default().push(one);
                }
                Some(done) = groups.join_next() => {
                    // A task that panicked answers nobody; its askers hear that it was dropped.
                    let done = done.unwrap_or_default();
                    busy.retain(|group| *group != done);
                }
                else => return,
            }
            let all = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            for group in all.keys().filter(|group| !busy.contains(group)) {
                groups.spawn(Arc::clone(&self).settle_group(group.clone(), waiting.clone()));
            }
            busy = all.keys().cloned().chain(busy).collect();
            busy.sort_unstable();
            busy.dedup();
        }
    }

    /// Answers all that wait for a group.
    async fn settle_group(self: Arc<Self>, group: String, waiting: Waiting) -> String {
        let since_us = self.context.now_us();
        let mut all: Vec<(LostWrite, u64)> = Vec::new();
        let mut replies: Vec<Verdict> = Vec::new();
        loop {
            let primary = self.primary_of(&group);
            let away = primary.is_none();
            let over = self.context.now_us() > since_us + PATIENCE_MS * 1000;
            if !away || over {
                for asked in take(&waiting, &group) {
                    all.push((asked.lost, asked.at_us));
                    replies.push(asked.reply);
                }
            }
            let read = match primary {
                Some((id, place)) => {
                    let now_us = self.context.now_us();
                    let aged: Vec<LostWrite> = all.iter().map(|one| aged(one, now_us)).collect();
                    self.settle_on(id, place, &aged).await
                }
                None => Err("the group has no primary that takes writes".to_owned()),
            };
            let fates = match read {
                Ok((reading, fates)) => (Some(reading), fates),
                Err(reason) if over => {
                    tracing::warn!(group, reason, writes = all.len(), "outcomes stay unknown");
                    (None, vec![Fate::Unknown(reason); all.len()])
                }
                Err(_) => {
                    tokio::time::sleep(if away { LOOK_AGAIN } else { PAUSE }).await;
                    continue;
                }
            };
            let (reading, fates) = fates;
            replies
                .into_iter()
                .zip(fates)
                .for_each(|(reply, fate)| reply(fate));
            if let Some(reading) = reading {
                self.settle_late(&group, &waiting, &reading).await;
            }
            return group;
        }
    }

    /// Answers from a reading those who asked while it was done, as far as it tells of their writes: a second one
    /// would tell them the same, later.
    async fn settle_late(&self, group: &str, waiting: &Waiting, reading: &Reading) {
        let snapshot = self.context.snapshot_now();
        let is_replicated = |group: &Arc<Group>| group.kind == GroupKind::Replication;
        if !snapshot.group(group).is_some_and(is_replicated) {
            // What one node of a cluster was asked for may be done by another one later.
            return;
        }
        let now_us = self.context.now_us();
        let is_told = |asked: &Asked| {
            let lost = aged(&(asked.lost.clone(), asked.at_us), now_us);
            reading.tells_of(&lost, start(&lost, &self.context.trail(), now_us))
        };
        let late = take(waiting, group);
        let (told, others): (Vec<Asked>, Vec<Asked>) = late.into_iter().partition(is_told);
        let (lost, replies): (Vec<LostWrite>, Vec<Verdict>) = told
            .into_iter()
            .map(|asked| (asked.lost, asked.reply))
            .unzip();
        let mut link = None;
        let fates = self.fates_in(reading, &lost, &mut link).await;
        replies
            .into_iter()
            .zip(fates)
            .for_each(|(reply, fate)| reply(fate));
        if !others.is_empty() {
            let mut all = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(group.to_owned()).or_default().extend(others);
        }
    }

    /// The primary that takes the group's writes now, if none is being exchanged.
    fn primary_of(&self, group: &str) -> Option<(u32, Place)> {
        let snapshot = self.context.snapshot_now();
        let group = snapshot.group(group).filter(|group| !group.paused)?;
        let primary = group.primary().filter(|server| server.serves_writes())?;
        Some((primary.id.0, Place::from(&**primary)))
    }

    /// Answers these from one reading of this server's log. An error is a reason to look again.
    async fn settle_on(
        &self,
        id: u32,
        place: Place,
        all: &[LostWrite],
    ) -> Result<(Reading, Vec<Fate>), String> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let text = |error: engine::Error| error.to_string();
        let login = self.links.login(place.clone());
        let mut link = Link::open(&login, timeout_ms).await.map_err(text)?;
        let takes = binlog::takes_writes(&mut link, timeout_ms).await;
        if !takes.map_err(text)? {
            return Err(format!("{} is read-only", link.address()));
        }
        for lost in all.iter().filter(|lost| lost.server == ServerId(id)) {
            self.end_write(&mut link, lost).await?;
        }
        let mut from = self.before_all(all);
        let written = match binlog::written(&login, from.as_ref(), timeout_ms).await {
            // The position is not in the log any more: what is there is read.
            Err(error) if from.is_some() && error.number() == Some(1236) => {
                from = None;
                binlog::written(&login, None, timeout_ms).await
            }
            other => other,
        };
        let reading = Reading {
            server: ServerId(id),
            place,
            from,
            log: Log::new(written.map_err(text)?),
        };
        let mut link = Some(link);
        let fates = self.fates_in(&reading, all, &mut link).await;
        Ok((reading, fates))
    }

    /// What a reading tells of these. `link` is opened where a value is to be looked up that the log does not name.
    async fn fates_in(
        &self,
        reading: &Reading,
        all: &[LostWrite],
        link: &mut Option<Link>,
    ) -> Vec<Fate> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let (mut columns, mut fates) = (HashMap::new(), Vec::with_capacity(all.len()));
        for lost in all {
            let (mut fate, tables) = reading.log.fate(lost);
            if let Fate::Committed {
                rows: Some(rows), ..
            } = &mut fate
            {
                if link.is_none() {
                    let login = self.links.login(reading.place.clone());
                    *link = Link::open(&login, timeout_ms).await.ok();
                }
                for (rows, touched) in rows.iter_mut().zip(tables) {
                    if let Some(link) = link {
                        rows.insert_id = insert_id(link, touched, &mut columns, timeout_ms).await;
                    }
                }
            }
            let (group, tag) = (&lost.group, &lost.tag);
            tracing::info!(group, tag, ?fate, "a lost write was looked up");
            fates.push(fate);
        }
        fates
    }

    /// From where the log must be read, so that none of these writes can be before it.
    fn before_all(&self, all: &[LostWrite]) -> Option<Position> {
        let now_us = self.context.now_us();
        let trail = self.context.trail();
        before_all(all, &trail, now_us)
    }

    /// Sees to it that a write which this server was asked for is over there, one way or the other.
    async fn end_write(&self, link: &mut Link, lost: &LostWrite) -> Result<(), String> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let text = |error: engine::Error| error.to_string();
        let up_s = binlog::uptime_s(link, timeout_ms).await.map_err(text)?;
        // After a restart the id may be that of somebody else's connection. Both ages are rounded down,
        // so a server that runs for less has surely been restarted.
        if up_s < lost.opened_s {
            return Ok(());
        }
        let connected = binlog::is_connected(link, lost.thread_id, timeout_ms);
        if !connected.await.map_err(text)? {
            return Ok(());
        }
        let killed = binlog::kill(link, lost.thread_id, timeout_ms).await;
        killed.map_err(text)?;
        let since_us = self.context.now_us();
        while binlog::is_connected(link, lost.thread_id, timeout_ms)
            .await
            .map_err(text)?
        {
            if self.context.now_us() > since_us + timeout_ms * 1000 {
                return Err("the write still runs, though it was ended".to_owned());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}

/// One reading of a primary's log.
struct Reading {
    /// The primary, and where it is.
    server: ServerId,
    place: Place,
    /// Everything behind this position was read; `None` where that is not known.
    from: Option<Position>,
    log: Log,
}

impl Reading {
    /// A write for which nobody looks before `start` was there when the log was read, or will never be: it was sent to
    /// a server whose log this one followed before it became the primary, and follows no more.
    fn tells_of(&self, lost: &LostWrite, start: Option<Position>) -> bool {
        let behind = start
            .zip(self.from.as_ref())
            .is_some_and(|(start, from)| start.covers(from));
        behind && lost.server != self.server
    }
}

/// From where a log must be read, so that none of these writes can be before it.
fn before_all(all: &[LostWrite], trail: &Trail, now_us: u64) -> Option<Position> {
    let mut starts = all.iter().map(|lost| start(lost, trail, now_us));
    let first = starts.next()??;
    starts.try_fold(first, |from, start| Some(from.meet(&start?)))
}

/// From where one write has to be looked for: what its server held some time before it was sent, and what its
/// connection had reported. For who writes often the second is a moment ago, whatever the clocks say.
fn start(lost: &LostWrite, trail: &Trail, now_us: u64) -> Option<Position> {
    let sent_us = now_us.saturating_sub(lost.sent_s * 1_000_000 + MARGIN_US);
    let mut start = trail.before(lost.server.0, sent_us)?;
    // MySQL's transactions that are numbered lower may come later, where a client chose a number.
    if let Position::MariaDb(_) = start
        && let Some(after) = Position::parse(Engine::MariaDb, &lost.after)
    {
        start.join(&after);
    }
    Some(start)
}

/// A write with the ages that it has now.
fn aged((lost, at_us): &(LostWrite, u64), now_us: u64) -> LostWrite {
    let waited_us = now_us.saturating_sub(*at_us);
    LostWrite {
        sent_s: lost.sent_s + waited_us.div_ceil(1_000_000),
        opened_s: lost.opened_s + waited_us / 1_000_000,
        ..lost.clone()
    }
}

/// Takes out all that wait for a group.
fn take(waiting: &Waiting, group: &str) -> Vec<Asked> {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.remove(group).unwrap_or_default()
}

/// The AUTO_INCREMENT value that a table's first row got.
async fn insert_id(
    link: &mut Link,
    touched: &binlog::Touched,
    columns: &mut HashMap<(String, String), Option<(u32, String)>>,
    timeout_ms: u64,
) -> Option<u64> {
    let name = (touched.database.clone(), touched.table.clone());
    if !columns.contains_key(&name) {
        let found = binlog::auto_column(link, &name.0, &name.1, timeout_ms).await;
        columns.insert(name.clone(), found.ok().flatten());
    }
    let (place, kind) = columns.get(&name)?.as_ref()?;
    let value = touched.integers.iter().find(|(at, _)| at == place)?.1;
    Some(binlog::unsigned_value(kind, value))
}

/// Why a log in which a write is not found does not say that it never happened.
const MUTE: &str = "the binary log has changes without their statements (MySQL keeps these with \
                    binlog_rows_query_log_events = ON, MariaDB with binlog_annotate_row_events = ON \
                    and, on replicas, replicate_annotate_row_events = ON)";

/// The transactions of a log, to be found by their write tags.
struct Log {
    written: Vec<Written>,
    by_tag: HashMap<String, Vec<usize>>,
}

impl Log {
    fn new(written: Vec<Written>) -> Log {
        let mut by_tag: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, one) in written.iter().enumerate() {
            if let Some(tag) = &one.tag {
                by_tag.entry(tag.clone()).or_default().push(at);
            }
        }
        Log { written, by_tag }
    }

    /// What became of a write, and the tables that it touched.
    fn fate(&self, lost: &LostWrite) -> (Fate, &[binlog::Touched]) {
        if lost.tag.is_empty() {
            let why = "its statements carried no write tag".to_owned();
            return (Fate::Unknown(why), &[]);
        }
        let later = |one: &&Written| is_after(&one.gtid, &lost.after);
        let marked = self.by_tag.get(&lost.tag).into_iter().flatten();
        let Some(one) = marked.map(|at| &self.written[*at]).find(later) else {
            // Few are mute, and each of many lost writes looks at all.
            let mute = self.written.iter().any(|one| one.mute && later(&one));
            return match mute {
                true => (Fate::Unknown(MUTE.to_owned()), &[]),
                false => (Fate::Lost, &[]),
            };
        };
        let rows = one.tables.iter().map(|touched| TableRows {
            database: touched.database.clone(),
            table: touched.table.clone(),
            inserted: touched.inserted,
            updated: touched.updated,
            deleted: touched.deleted,
            insert_id: None,
        });
        let fate = Fate::Committed {
            gtid: one.gtid.clone(),
            rows: one.counted.then(|| rows.collect()),
        };
        (fate, &one.tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(gtid: &str, tag: Option<&str>) -> Written {
        Written {
            gtid: gtid.to_owned(),
            tables: Vec::new(),
            counted: true,
            tag: tag.map(str::to_owned),
            mute: false,
        }
    }

    fn lost(tag: &str, after: &str) -> LostWrite {
        LostWrite {
            group: "g".to_owned(),
            server: ServerId(1),
            thread_id: 9,
            tag: tag.to_owned(),
            after: after.to_owned(),
            sent_s: 1,
            opened_s: 1,
        }
    }

    /// A server that held 0-1-100 until 10 s, and after that a hundred more in each second.
    fn trail() -> Trail {
        let mut trail = Trail::default();
        for second in 10..=60u64 {
            let text = format!("0-1-{}", 100 * (second - 9));
            let held = Position::parse(Engine::MariaDb, &text).expect("a position");
            trail.note(1, second * 1_000_000, &held);
        }
        trail
    }

    const NOW_US: u64 = 60_000_000;

    fn from(all: &[LostWrite]) -> Option<String> {
        before_all(all, &trail(), NOW_US).map(|from| from.to_string())
    }

    #[test]
    fn who_wrote_a_moment_ago_is_looked_for_from_there() {
        let (busy, busier, idle) = (lost("a", "0-1-5090"), lost("b", "0-1-5095"), lost("c", ""));
        assert_eq!(from(&[busy.clone(), busier]).as_deref(), Some("0-1-5090"));
        let by_time = Some("0-1-4800");
        assert_eq!(from(std::slice::from_ref(&idle)).as_deref(), by_time);
        assert_eq!(
            from(&[busy, idle]).as_deref(),
            by_time,
            "none may be missed"
        );
        let old = lost("d", "0-1-7");
        assert_eq!(
            from(&[old]).as_deref(),
            by_time,
            "what it wrote long ago says less"
        );
    }

    #[test]
    fn who_asks_late_is_told_by_the_same_reading_where_that_can_be() {
        let asked = lost("a", "0-1-5090");
        let place = Place {
            host: "h".to_owned(),
            port: 1,
            key: None,
        };
        let reading = Reading {
            server: ServerId(2),
            place,
            from: before_all(&[asked], &trail(), NOW_US),
            log: Log::new(Vec::new()),
        };
        let tells = |lost: &LostWrite| reading.tells_of(lost, start(lost, &trail(), NOW_US));
        assert!(tells(&lost("b", "0-1-5095")));
        assert!(!tells(&lost("c", "")), "it may be before what was read");
        let still_running = LostWrite {
            server: ServerId(2),
            ..lost("d", "0-1-5095")
        };
        assert!(!tells(&still_running), "it may have come after the reading");
    }

    fn gtid(fate: Fate) -> Option<String> {
        match fate {
            Fate::Committed { gtid, .. } => Some(gtid),
            _ => None,
        }
    }

    #[test]
    fn a_write_is_the_one_behind_what_its_connection_reported() {
        let log = Log::new(vec![
            written("0-1-5", Some("a")),
            written("0-1-6", Some("b")),
            written("0-1-7", Some("a")),
        ]);
        let fate = |tag: &str, after: &str| log.fate(&lost(tag, after)).0;
        assert_eq!(gtid(fate("a", "0-1-5")).as_deref(), Some("0-1-7"));
        assert_eq!(gtid(fate("b", "")).as_deref(), Some("0-1-6"));
        assert_eq!(fate("a", "0-1-7"), Fate::Lost);
        assert_eq!(fate("c", ""), Fate::Lost);
        assert!(matches!(fate("", ""), Fate::Unknown(_)));
    }

    #[test]
    fn a_write_grows_older_while_the_group_has_no_primary() {
        let now = aged(&(lost("a", ""), 1_000_000), 5_500_000);
        assert_eq!((now.sent_s, now.opened_s), (6, 5));
    }

    fn mysql(gtids: &str) -> String {
        gtids.replace('$', "3e11fa47-71ca-11e1-9e33-c80aa9429562")
    }

    /// A connection that writes with one tag and then with another has reported both.
    #[test]
    fn an_earlier_write_of_another_tag_is_not_the_lost_one() {
        let log = Log::new(vec![
            written(&mysql("$:5"), Some("a")),
            written(&mysql("$:tag:1"), Some("a")),
        ]);
        let fate = |after: &str| log.fate(&lost("a", &mysql(after))).0;
        assert_eq!(fate("$:5:tag:1"), Fate::Lost);
        assert_eq!(gtid(fate("$:5")).as_deref(), Some(&*mysql("$:tag:1")));
    }

    #[test]
    fn a_log_that_tells_no_statements_proves_no_absence() {
        let mute = Written {
            mute: true,
            ..written(&mysql("$:8"), None)
        };
        let log = Log::new(vec![written(&mysql("$:7"), Some("a")), mute]);
        let fate = |tag: &str, after: &str| log.fate(&lost(tag, &mysql(after))).0;
        assert_eq!(gtid(fate("a", "$:1-6")).as_deref(), Some(&*mysql("$:7")));
        assert!(matches!(fate("a", "$:1-7"), Fate::Unknown(_)));
        assert_eq!(fate("a", "$:1-8"), Fate::Lost, "it comes before");
    }
}
