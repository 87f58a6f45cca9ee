//! Connections that commit for a while, each one row after the other.

use std::time::{Duration, Instant};

use engine::commits;
use engine::{Link, Login};
use tokio::task::JoinSet;

use super::{BenchCommit, TIMEOUT_MS};
use crate::failure::Failure;

/// What a case gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub per_second: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

pub struct Load {
    login: Login,
    schema: String,
    lasts: Duration,
}

impl Load {
    pub fn new(login: Login, flags: &BenchCommit) -> Load {
        Load {
            login,
            schema: flags.schema.clone(),
            lasts: Duration::from_secs(flags.seconds),
        }
    }

    /// So many connections commit at the same time.
    ///
    /// # Errors
    /// A connection or a commit fails.
    pub async fn run(&self, threads: u32) -> Result<Measured, Failure> {
        let mut links = Vec::new();
        for _ in 0..threads {
            links.push(
                Link::open(&self.login, TIMEOUT_MS)
                    .await
                    .map_err(Failure::new)?,
            );
        }
        let begin = Instant::now();
        let mut writers = JoinSet::new();
        for (writer, link) in (0..threads).zip(links) {
            let (schema, until) = (self.schema.clone(), begin + self.lasts);
            writers.spawn(commit_until(link, schema, writer, until));
        }
        let mut all = Vec::new();
        while let Some(ended) = writers.join_next().await {
            all.extend(ended.map_err(Failure::new)?.map_err(Failure::new)?);
        }
        Ok(measured(all, begin.elapsed()))
    }
}

/// How long each commit took, in microseconds.
async fn commit_until(
    mut link: Link,
    schema: String,
    writer: u32,
    until: Instant,
) -> Result<Vec<u64>, engine::Error> {
    let mut took = Vec::new();
    // Rows of other cases stay, and this one's come behind them.
    let since = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default();
    let first = u64::try_from(since.as_micros()).unwrap_or(0);
    while Instant::now() < until {
        let begin = Instant::now();
        let number = first + took.len() as u64;
        commits::commit(&mut link, &schema, writer, number, TIMEOUT_MS).await?;
        took.push(u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    Ok(took)
}

fn measured(mut all: Vec<u64>, elapsed: Duration) -> Measured {
    all.sort_unstable();
    let at = |part: usize| {
        let place = (all.len() * part / 100).min(all.len().saturating_sub(1));
        let us = all.get(place).copied().unwrap_or(0);
        (us / 10) as f64 / 100.0
    };
    let seconds = elapsed.as_secs_f64().max(0.001);
    Measured {
        per_second: (all.len() as f64 / seconds) as u64,
        p50_ms: at(50),
        p99_ms: at(99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_a_rate_and_two_times() {
        let all = (1..=200).map(|ms| ms * 1000).collect();
        let found = measured(all, Duration::from_secs(2));
        assert_eq!(
            (found.per_second, found.p50_ms, found.p99_ms),
            (100, 101.0, 199.0)
        );
        assert_eq!(measured(Vec::new(), Duration::ZERO).per_second, 0);
    }
}
