//! How the death of a server is noticed: a connection that waits for it, one that asks again and
//! again, and the greeting that a new connection gets.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::error::Error;
use crate::link::Link;
use crate::probe::is_on;

/// A watch sleeps so long on the server, then again. Short enough that the server's list of
/// processes shows no long statement.
const WATCH_S: u64 = 10;

/// How the statement of a watch begins, so that other routers do not take it for a client's.
pub(crate) const WATCHES: &str = "DO /*heddle*/ SLEEP(";

/// What a new connection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// The server spoke, if only to refuse: its process runs.
    Given,
    /// Nobody listens there.
    Refused,
    /// Whoever listens says nothing, or the network swallows it.
    Silent,
    /// The connection was closed before a word was said: a server that just dies or starts.
    Closed,
}

/// Connects anew and waits for the server's first byte. No login is tried.
pub async fn greeting(host: &str, port: u16, timeout_ms: u64) -> Greeting {
    let limit = Duration::from_millis(timeout_ms);
    let spoken = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        let mut first = [0_u8; 128];
        stream.read(&mut first).await
    };
    match tokio::time::timeout(limit, spoken).await {
        Err(_) => Greeting::Silent,
        Ok(Ok(0)) => Greeting::Closed,
        Ok(Ok(_)) => Greeting::Given,
        Ok(Err(error)) => match error.kind() {
            ErrorKind::ConnectionRefused => Greeting::Refused,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Greeting::Closed,
            // No route, no name, no descriptor of ours: nothing that the server said.
            _ => Greeting::Silent,
        },
    }
}

/// Waits on the server until it ends or the connection breaks, for ten seconds at most. `Ok` says
/// that it lives; its own refusal (somebody killed the statement) is `Ok`, too.
pub async fn linger(link: &mut Link) -> Result<(), Error> {
    let sql = format!("{WATCHES}{WATCH_S})");
    let limit_ms = (WATCH_S + 10) * 1000;
    answered(link.run("wait for its end", &sql, limit_ms).await)
}

/// Asks the server for a sign of life, which costs it next to nothing: whether it is read-only. `None`
/// when it refused to say, which is a sign of life as well.
pub async fn touch(link: &mut Link, timeout_ms: u64) -> Result<Option<bool>, Error> {
    const SQL: &str = "SELECT @@global.read_only";
    match link.cell("ask for a sign of life", SQL, timeout_ms).await {
        Ok(cell) => Ok(cell.map(|value| is_on(&value))),
        Err(Error::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn answered(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(Error::Refused { .. }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn greetings_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        assert_eq!(greeting("127.0.0.1", port, 50).await, Greeting::Silent);
        let (ends, _) = tokio::join!(greeting("127.0.0.1", port, 5000), async {
            // The first connection is the one from before.
            for _ in 0..2 {
                drop(listener.accept().await.expect("a client"));
            }
        });
        assert_eq!(ends, Greeting::Closed);
        let (spoken, _) = tokio::join!(greeting("127.0.0.1", port, 5000), async {
            let (mut client, _) = listener.accept().await.expect("a client");
            client.write_all(b"hello").await.expect("written");
        });
        assert_eq!(spoken, Greeting::Given);
        drop(listener);
        assert_eq!(greeting("127.0.0.1", port, 5000).await, Greeting::Refused);
    }
}
