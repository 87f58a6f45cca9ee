//! One reading of a primary's log: from where it has to begin, and of whose writes it tells.

use std::collections::HashMap;

use engine::Link;
use engine::binlog;
use farm::{Engine, Fate, LostWrite, Position, ServerId};

use super::log::Log;
use crate::context::trail::Trail;
use crate::links::Links;
use crate::links::reach::Place;

/// A reading ahead begins so long before the first write that somebody asks for: others who lost theirs at the same
/// moment are only about to ask.
const SLACK_US: u64 = 100_000;

/// Where what a server held when a write was sent is not in the log, it is read from so long before.
const EARLIER_US: [u64; 2] = [1_000_000, 5_000_000];

/// The AUTO_INCREMENT columns of tables, by database and name: place from 1, and type.
type Columns = HashMap<(String, String), Option<(u32, String)>>;

/// One reading of a primary's log.
pub(super) struct Reading {
    /// The primary, and where it is.
    pub(super) server: ServerId,
    place: Place,
    /// Everything behind this position was read; `None` where that is not known.
    from: Option<Position>,
    log: Log,
    /// For values that the log does not name.
    link: Option<Link>,
    columns: Columns,
}

impl Reading {
    /// Reads the log of this server to its end, from the first of these starts that is in the log; what is there of
    /// the last files, if none is.
    ///
    /// # Errors
    /// The server does not answer, or has no log that can be read.
    pub(super) async fn take(
        links: &Links,
        (server, place): (ServerId, Place),
        starts: Vec<Position>,
        timeout_ms: u64,
    ) -> Result<Reading, engine::Error> {
        /// ER_MASTER_FATAL_ERROR_READING_BINLOG.
        const NOT_THERE: u16 = 1236;
        let login = links.login(place.clone());
        let mut link = Link::open(&login, timeout_ms).await?;
        // The last commits of a primary that died may be nowhere else, and nobody reads from there.
        let holds = engine::heartbeat::position(&mut link, timeout_ms).await?;
        let starts = starts.iter().map(|start| start.meet(&holds));
        let starts = starts.filter(|start| !start.is_empty()).map(Some);
        for from in starts.chain([None]) {
            match binlog::written(&login, from.as_ref(), timeout_ms).await {
                Err(error) if from.is_some() && error.number() == Some(NOT_THERE) => {}
                written => {
                    return Ok(Reading {
                        server,
                        place,
                        from,
                        log: Log::new(written?),
                        link: Some(link),
                        columns: Columns::new(),
                    });
                }
            }
        }
        unreachable!("without a position whatever is there is read")
    }

    /// True for the log of this server at this address.
    pub(super) fn is_of(&self, id: u32, place: &Place) -> bool {
        self.server == ServerId(id) && self.place == *place
    }

    /// True while the server takes writes: it leads, and was not restarted since.
    pub(super) async fn takes_writes(&mut self, links: &Links, timeout_ms: u64) -> bool {
        let Some(link) = self.connected(links, timeout_ms).await else {
            return false;
        };
        let takes = binlog::takes_writes(link, timeout_ms).await;
        takes.unwrap_or(false)
    }

    async fn connected(&mut self, links: &Links, timeout_ms: u64) -> Option<&mut Link> {
        if self.link.is_none() {
            let login = links.login(self.place.clone());
            self.link = Link::open(&login, timeout_ms).await.ok();
        }
        self.link.as_mut()
    }

    /// A write for which nobody looks before `start` was there when the log was read, or will never be: it was sent to
    /// a server whose log this one followed before it became the primary, and follows no more.
    pub(super) fn tells_of(&self, lost: &LostWrite, start: Option<Position>) -> bool {
        let behind = start
            .zip(self.from.as_ref())
            .is_some_and(|(start, from)| start.covers(from));
        behind && lost.server != self.server
    }

    /// What it tells of these.
    pub(super) async fn fates(
        &mut self,
        links: &Links,
        all: &[LostWrite],
        timeout_ms: u64,
    ) -> Vec<Fate> {
        let mut fates = Vec::with_capacity(all.len());
        for lost in all {
            let (mut fate, tables) = self.log.fate(lost);
            let tables = tables.to_vec();
            if let Fate::Committed {
                rows: Some(rows), ..
            } = &mut fate
            {
                for (rows, touched) in rows.iter_mut().zip(&tables) {
                    rows.insert_id = self.insert_id(links, touched, timeout_ms).await;
                }
            }
            fates.push(fate);
        }
        fates
    }

    /// The AUTO_INCREMENT value that a table's first row got.
    async fn insert_id(
        &mut self,
        links: &Links,
        touched: &binlog::Touched,
        timeout_ms: u64,
    ) -> Option<u64> {
        let name = (touched.database.clone(), touched.table.clone());
        if !self.columns.contains_key(&name) {
            let link = self.connected(links, timeout_ms).await?;
            let found = binlog::auto_column(link, &name.0, &name.1, timeout_ms).await;
            self.columns.insert(name.clone(), found.ok().flatten());
        }
        let (place, kind) = self.columns.get(&name)?.as_ref()?;
        let value = touched.integers.iter().find(|(at, _)| at == place)?.1;
        Some(binlog::unsigned_value(kind, value))
    }
}

/// From where a log must be read, so that none of these writes can be before it.
fn before_all(all: &[LostWrite], trail: &Trail) -> Option<Position> {
    let mut starts = all.iter().map(|lost| start(lost, trail));
    let first = starts.next()??;
    starts.try_fold(first, |from, start| Some(from.meet(&start?)))
}

/// The same, and a little before: for those, too, who are about to ask.
fn well_before_all(all: &[LostWrite], trail: &Trail) -> Option<Position> {
    all.iter().try_fold(before_all(all, trail)?, |from, lost| {
        Some(from.meet(&before(lost, SLACK_US, trail)?))
    })
}

/// What the server held so long before a write was sent.
fn before(lost: &LostWrite, us: u64, trail: &Trail) -> Option<Position> {
    trail.before(lost.server.0, lost.sent_us.saturating_sub(us))
}

/// From where a log is read for these: the first start that is in it. A server that took a primary's place need not
/// have what that one held a moment before.
pub(super) fn starts(all: &[LostWrite], trail: &Trail, ahead: bool) -> Vec<Position> {
    let first = match ahead {
        true => well_before_all(all, trail),
        false => before_all(all, trail),
    };
    let earlier = EARLIER_US.iter().filter_map(|&us| {
        let mut starts = all.iter().map(|lost| before(lost, us, trail));
        let start = starts.next()??;
        starts.try_fold(start, |from, start| Some(from.meet(&start?)))
    });
    first.into_iter().chain(earlier).collect()
}

/// From where one write has to be looked for: what its server held before it was sent, and what its connection had
/// reported. For who writes often the second is a moment ago.
pub(super) fn start(lost: &LostWrite, trail: &Trail) -> Option<Position> {
    let mut start = trail.before(lost.server.0, lost.sent_us)?;
    // MySQL's transactions that are numbered lower may come later, where a client chose a number.
    if let Position::MariaDb(_) = start
        && let Some(after) = Position::parse(Engine::MariaDb, &lost.after)
    {
        start.join(&after);
    }
    Some(start)
}

#[cfg(test)]
mod tests {
    use super::super::samples::lost;
    use super::*;

    /// A server that held 0-1-100 at 10 s, and after that a hundred more in each second.
    fn trail() -> Trail {
        let mut trail = Trail::default();
        for second in 10..=60u64 {
            let text = format!("0-1-{}", 100 * (second - 9));
            let held = Position::parse(Engine::MariaDb, &text).expect("a position");
            trail.note(1, second * 1_000_000, &held);
        }
        trail
    }

    fn from(all: &[LostWrite]) -> Option<String> {
        before_all(all, &trail()).map(|from| from.to_string())
    }

    fn sent(sent_us: u64, lost: LostWrite) -> LostWrite {
        LostWrite { sent_us, ..lost }
    }

    #[test]
    fn who_wrote_a_moment_ago_is_looked_for_from_there() {
        let (busy, busier, idle) = (lost("a", "0-1-5090"), lost("b", "0-1-5095"), lost("c", ""));
        assert_eq!(from(&[busy.clone(), busier]).as_deref(), Some("0-1-5090"));
        let by_time = Some("0-1-5000");
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
    fn what_the_server_held_just_before_a_write_was_sent_is_not_read() {
        let at = |sent_us: u64| from(&[sent(sent_us, lost("a", ""))]);
        assert_eq!(at(58_999_999).as_deref(), Some("0-1-4900"));
        assert_eq!(at(59_000_000).as_deref(), Some("0-1-5000"));
        assert_eq!(at(9_000_000), None, "nothing is known of that time");
    }

    #[test]
    fn a_reading_ahead_begins_before_those_who_are_about_to_ask() {
        let all = [
            lost("a", "0-1-5090"),
            sent(59_050_000, lost("b", "0-1-5095")),
        ];
        let from = well_before_all(&all, &trail()).map(|from| from.to_string());
        assert_eq!(from.as_deref(), Some("0-1-4900"));
    }

    #[test]
    fn a_start_that_is_not_in_the_log_has_earlier_ones_behind_it() {
        let starts = starts(&[lost("a", "0-1-5090")], &trail(), false);
        let starts: Vec<String> = starts.iter().map(Position::to_string).collect();
        assert_eq!(starts, ["0-1-5090", "0-1-4900", "0-1-4500"]);
    }

    #[test]
    fn who_asks_late_is_told_by_the_same_reading_where_that_can_be() {
        let asked = lost("a", "0-1-5090");
        let place = Place {
            host: "h".to_owned(),
            port: 1,
            key: None,
            engine: farm::Engine::MariaDb,
        };
        let reading = Reading {
            server: ServerId(2),
            place,
            from: before_all(&[asked], &trail()),
            log: Log::new(Vec::new()),
            link: None,
            columns: Columns::new(),
        };
        let tells = |lost: &LostWrite| reading.tells_of(lost, start(lost, &trail()));
        assert!(tells(&lost("b", "0-1-5095")));
        assert!(!tells(&lost("c", "")), "it may be before what was read");
        let still_running = LostWrite {
            server: ServerId(2),
            ..lost("d", "0-1-5095")
        };
        assert!(!tells(&still_running), "it may have come after the reading");
    }
}
