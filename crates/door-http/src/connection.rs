//! Connections with limits: so many at once, and none that is silent for ever.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Open connections; a further client waits in the kernel until one closes.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// A client that sends nothing for so long is cut, whether or not an answer is on its way. Longer
/// than any command takes.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// A listener that hands out a bounded number of connections.
pub(crate) struct Bounded {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl Bounded {
    pub(crate) fn new(listener: TcpListener, connections_max: usize) -> Bounded {
        Bounded {
            listener,
            permits: Arc::new(Semaphore::new(connections_max)),
        }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        // Retries by itself when the process is out of descriptors.
        let (stream, client) = Listener::accept(&mut self.listener).await;
        let connection = Connection {
            stream,
            silence: Box::pin(sleep(SILENCE_MAX)),
            _permit: permit,
        };
        (connection, client)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One client's connection; its place is free again when it is dropped.
pub(crate) struct Connection {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
            return read;
        }
        let overdue = self.silence.as_mut().poll(context);
        overdue.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn bounded(connections_max: usize) -> Bounded {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Bounded::new(listener, connections_max)
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_its_client_leaves() {
        let mut listener = bounded(1).await;
        let address = listener.local_addr().expect("bound");
        let _first = TcpStream::connect(address).await.expect("connected");
        let (first, _) = listener.accept().await;
        let _second = TcpStream::connect(address)
            .await
            .expect("the kernel takes it");
        let waits = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(waits.is_err(), "no place yet");
        drop(first);
        listener.accept().await;
    }

    #[tokio::test]
    async fn a_silent_client_is_cut() {
        let mut listener = bounded(1).await;
        let address = listener.local_addr().expect("bound");
        let _client = TcpStream::connect(address).await.expect("connected");
        let (mut connection, _) = listener.accept().await;
        // As if the time had passed: the limit itself is minutes.
        connection.silence = Box::pin(sleep(Duration::ZERO));
        let error = connection.read_u8().await.expect_err("cut");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
