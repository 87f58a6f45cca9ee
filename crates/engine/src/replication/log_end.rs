//! How far a replica has received the binary log of its primary, while the primary goes on writing.
//!
//! Invariant: what stands in the log counts, executed or not. A MySQL that is told to have commits wait for a replica lets
//! those through without one that it had written to its log before, and it has not executed these yet.
//!
//! Must not know: why somebody waits.

use std::time::{Duration, Instant};

use enginesql::position::executed;
use enginesql::words;
use farm::{Engine, Position};

use super::LOOK_AGAIN;
use crate::error::Error;
use crate::link::{Link, text, text_at};
use crate::replication::exchange::look;

/// Where the binary log of a server ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// What was executed. On MariaDB this is all that the log holds.
    position: Position,
    /// On MySQL.
    place: Option<Place>,
}

/// A file of a binary log, by its number, and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: u64,
    offset: u64,
}

impl Place {
    fn parse(file: &str, offset: &str) -> Option<Place> {
        let (_, number) = file.rsplit_once('.')?;
        Some(Place {
            file: number.parse().ok()?,
            offset: offset.parse().ok()?,
        })
    }
}

/// Where the log ends now.
///
/// # Errors
/// The server fails, or does not say.
pub async fn log_end(link: &mut Link, timeout_ms: u64) -> Result<LogEnd, Error> {
    const OPERATION: &str = "say where its log ends";
    let engine = link.version().engine;
    let position = match engine {
        Engine::MariaDb => "@@global.gtid_binlog_pos",
        Engine::MySql => executed(engine),
    };
    let log = words::SHOW_LOG.of(link.version());
    let sql = format!("SELECT {position}; {log}");
    let sets = link.sets(OPERATION, &sql, timeout_ms).await?;
    // A statement without rows before them may or may not leave an empty set.
    let mut sets = sets.iter().skip_while(|rows| rows.is_empty());
    let told = sets.next().and_then(|rows| text_at(rows.first()?, 0));
    let told = told.unwrap_or_default().replace('\n', "");
    let position = Position::parse(engine, &told).ok_or_else(|| Error::Reply {
        operation: OPERATION,
        server: link.address().to_owned(),
        what: format!("the position {told:?}"),
    })?;
    let log = sets.next().and_then(|rows| rows.first());
    let place = log.and_then(|row| Place::parse(&text(row, "File")?, &text(row, "Position")?));
    Ok(LogEnd {
        position,
        // MariaDB tells no place to a replica that lacks nothing.
        place: place.filter(|_| engine == Engine::MySql),
    })
}

/// Waits until a replica has received its primary's log up to `end`, for at most `timeout_ms`.
///
/// # Errors
/// The replica fails.
pub async fn receive(link: &mut Link, end: &LogEnd, timeout_ms: u64) -> Result<(), Error> {
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    loop {
        let reached = match end.place {
            None => true,
            Some(place) => read_to(link, timeout_ms)
                .await?
                .is_some_and(|it| it >= place),
        };
        let is_there = reached && look(link, timeout_ms).await?.received.covers(&end.position);
        if is_there || Instant::now() >= deadline {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// How far a replica has read.
async fn read_to(link: &mut Link, timeout_ms: u64) -> Result<Option<Place>, Error> {
    let sql = words::SHOW_STATUS.of(link.version());
    let rows = link
        .rows("say how far it has read", sql, timeout_ms)
        .await?;
    Ok(rows.first().and_then(|row| {
        let either = |old, new| text(row, old).or_else(|| text(row, new));
        let file = either("Master_Log_File", "Source_Log_File")?;
        Place::parse(
            &file,
            &either("Read_Master_Log_Pos", "Read_Source_Log_Pos")?,
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_order_of_the_log() {
        let place = |file, offset| Place::parse(file, offset);
        let long = place("heddle-bin.999999", "900");
        assert!(long.is_some() && long < place("heddle-bin.1000000", "4"));
        assert!(place("a.b.000002", "154") < place("a.b.000002", "1540"));
        assert_eq!(place("", "4"), None, "nothing was read yet");
        assert_eq!(place("log", "4"), None);
    }
}
