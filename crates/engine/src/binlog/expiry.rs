//! How long a server keeps its binlog by its own settings, and from where on a reader of it would read.

use std::time::Duration;

use changes::Event;
use farm::Position;

use super::{OPERATION, Reader};
use crate::error::Error;
use crate::link::{Link, Login, text_at};
use crate::probe::is_on;

const SECONDS: &str = "binlog_expire_logs_seconds";
const DAYS: &str = "expire_logs_days";
const DAY_S: f64 = 86_400.0;

/// When a server removes its binlog's files by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// So long after the last change of a file; `None` for never.
    pub seconds: Option<u64>,
    /// When the files are longer than this together, the oldest ones (MariaDB); `None` for never.
    pub bytes: Option<u64>,
    /// It counts in days alone.
    pub in_days: bool,
}

impl Expiry {
    fn of(variables: &[(String, String)]) -> Expiry {
        let said = |name: &str| {
            let found = variables.iter().find(|(said, _)| said == name);
            found.map(|(_, value)| value.as_str())
        };
        let number = |name: &str| said(name).and_then(|it| it.parse::<f64>().ok());
        let days = number(DAYS).unwrap_or(0.0) * DAY_S;
        // The greater one counts where both are there.
        let seconds = number(SECONDS).unwrap_or(0.0).max(days);
        let purges = said("binlog_expire_logs_auto_purge").is_none_or(is_on);
        let bytes = number("max_binlog_total_size").unwrap_or(0.0);
        let some = |number: f64| (number >= 1.0).then_some(number as u64);
        Expiry {
            seconds: some(seconds).filter(|_| purges),
            bytes: some(bytes),
            in_days: said(SECONDS).is_none(),
        }
    }

    /// What has the server keep its files for at least so long; `None` where it does.
    fn raised(&self, seconds: u64) -> Option<String> {
        self.seconds.filter(|now| *now < seconds)?;
        Some(match self.in_days {
            true => format!("SET GLOBAL {DAYS}={}", seconds.div_ceil(86_400)),
            false => format!("SET GLOBAL {SECONDS}={seconds}"),
        })
    }
}

/// When the server removes its binlog's files by itself.
///
/// # Errors
/// The server cannot be asked.
pub async fn expiry(link: &mut Link, timeout_ms: u64) -> Result<Expiry, Error> {
    let sql = format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
         ('{SECONDS}','{DAYS}','binlog_expire_logs_auto_purge','max_binlog_total_size')"
    );
    let rows = link
        .rows("ask how long it keeps its binlog", &sql, timeout_ms)
        .await?;
    let said = |row, at| text_at(row, at).unwrap_or_default();
    let variables: Vec<_> = rows
        .iter()
        .map(|row| (said(row, 0), said(row, 1)))
        .collect();
    Ok(Expiry::of(&variables))
}

/// Has a server that removes its files earlier keep them for at least so long. One that never removes any, and one that
/// keeps them for longer, are left alone. Gives what was before, where that was less.
///
/// # Errors
/// The server cannot be asked, or refuses it.
pub async fn keep_for(
    link: &mut Link,
    seconds: u64,
    timeout_ms: u64,
) -> Result<Option<u64>, Error> {
    let now = expiry(link, timeout_ms).await?;
    let Some(sql) = now.raised(seconds) else {
        return Ok(None);
    };
    link.run("keep the binlog for longer", &sql, timeout_ms)
        .await?;
    Ok(now.seconds)
}

/// The first transaction behind a position, in one server's binlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// Seconds since it was logged, by the server's clock.
    pub age_s: u64,
    /// The file that has it, and about where in it.
    pub place: (String, u64),
}

/// The first transaction behind a position; `None` when nothing is behind it.
///
/// # Errors
/// The server cannot be asked, or has purged it; see [`is_gap`](super::is_gap).
pub async fn first_behind(
    link: &mut Link,
    login: &Login,
    position: &Position,
    timeout_ms: u64,
) -> Result<Option<First>, Error> {
    /// A server that has nothing to tell says that it is there. It may say so before it tells something, too.
    const SILENCE_MS: u64 = 1000;
    const SILENT_MAX: u32 = 3;
    let mut reader = Reader::open(login, position, SILENCE_MS, timeout_ms).await?;
    let first = async {
        let mut silent = 0;
        while silent < SILENT_MAX {
            match reader.next().await? {
                Event::Begin(_) => return Ok(true),
                Event::Alive => silent += 1,
                _ => {}
            }
        }
        Ok(false)
    };
    let limit = Duration::from_millis(timeout_ms);
    match tokio::time::timeout(limit, first).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => return Ok(None),
        Ok(Err(error)) => return Err(error),
        Err(_) => {
            return Err(Error::Timeout {
                operation: OPERATION,
                server: link.address().to_owned(),
                timeout_ms,
            });
        }
    }
    let now = link
        .cell(OPERATION, "SELECT UNIX_TIMESTAMP()", timeout_ms)
        .await?;
    let now: Option<u64> = now.and_then(|it| it.split('.').next()?.parse().ok());
    let (file, at) = reader.place();
    Ok(Some(First {
        age_s: now.unwrap_or(0).saturating_sub(u64::from(reader.time_s())),
        place: (file.to_owned(), at),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Expiry {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Expiry::of(&owned.collect::<Vec<_>>())
    }

    #[test]
    fn servers_say_when_they_remove_logs() {
        let mysql = of(&[
            (SECONDS, "2592000"),
            ("binlog_expire_logs_auto_purge", "ON"),
        ]);
        assert_eq!((mysql.seconds, mysql.bytes), (Some(2_592_000), None));
        let never = of(&[(SECONDS, "600"), ("binlog_expire_logs_auto_purge", "OFF")]);
        assert_eq!(never.seconds, None);
        let mariadb = of(&[
            (SECONDS, "0"),
            (DAYS, "0.500000"),
            ("max_binlog_total_size", "1073741824"),
        ]);
        assert_eq!(
            (mariadb.seconds, mariadb.bytes),
            (Some(43_200), Some(1 << 30))
        );
        assert_eq!(of(&[(SECONDS, "0"), (DAYS, "0.000000")]).seconds, None);
    }

    #[test]
    fn logs_are_kept_for_longer_never_for_less() {
        let short = of(&[(SECONDS, "600")]);
        let raised = short.raised(3600);
        assert_eq!(
            raised.as_deref(),
            Some("SET GLOBAL binlog_expire_logs_seconds=3600")
        );
        assert_eq!(short.raised(600), None);
        assert_eq!(
            of(&[(SECONDS, "0")]).raised(3600),
            None,
            "it never removes any"
        );
        let in_days = of(&[(DAYS, "1")]);
        assert_eq!(
            in_days.raised(86_401).as_deref(),
            Some("SET GLOBAL expire_logs_days=2")
        );
    }
}
