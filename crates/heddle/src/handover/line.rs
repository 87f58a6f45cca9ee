//! Lines of JSON over a unix socket, each with the descriptors that go with it.

use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde_json::Value;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Descriptors that one line may carry.
const DESCRIPTORS_MAX: usize = 8;

/// The longest line: the whole state of a farm of hundreds of servers.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Room for what one call receives.
const CHUNK_BYTES: usize = 64 << 10;

/// One end of a conversation with another process of the same user.
pub struct Line {
    stream: UnixStream,
    received: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Line {
    /// Speaks over a connected socket.
    pub fn new(stream: UnixStream) -> Line {
        Line {
            stream,
            received: Vec::new(),
            descriptors: Vec::new(),
        }
    }

    /// Connects to whoever listens at `path`.
    pub async fn connect(path: &Path) -> Result<Line> {
        Ok(Line::new(UnixStream::connect(path).await?))
    }

    /// The process and the user at the other end.
    pub fn peer(&self) -> Result<(i32, u32)> {
        let peer = self.stream.peer_cred()?;
        Ok((peer.pid().unwrap_or(0), peer.uid()))
    }

    /// Sends one line; the descriptors stay open here.
    pub async fn send(&self, line: &Value, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let text = format!("{line}\n");
        let mut left = text.as_bytes();
        let mut with = descriptors;
        while !left.is_empty() {
            let call = || send_with(&self.stream, left, with);
            let sent = self.stream.async_io(Interest::WRITABLE, call).await?;
            left = &left[sent..];
            with = &[];
        }
        Ok(())
    }

    /// The next line, and the descriptors that came up to its end. An error at the end of the
    /// conversation ([`ErrorKind::UnexpectedEof`]) and when `limit` passes.
    pub async fn receive(&mut self, limit: Duration) -> Result<(Value, Vec<OwnedFd>)> {
        let received = tokio::time::timeout(limit, self.next()).await;
        received.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    }

    /// The same without a limit. Cancellation-safe.
    pub async fn next(&mut self) -> Result<(Value, Vec<OwnedFd>)> {
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                let line = serde_json::from_slice(&line)
                    .map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
                return Ok((line, std::mem::take(&mut self.descriptors)));
            }
            if self.received.len() > LINE_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            let Line {
                stream,
                received,
                descriptors,
            } = self;
            let call = || receive_with(&*stream, received, descriptors);
            if stream.async_io(Interest::READABLE, call).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Sends what there is room for; the descriptors go with the first byte.
pub fn send_with(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let bytes = [IoSlice::new(bytes)];
    let flags = SendFlags::NOSIGNAL;
    Ok(rustix::net::sendmsg(socket, &bytes, &mut ancillary, flags)?)
}

/// Takes what has come behind what was received before; 0 at the end.
fn receive_with(
    socket: impl AsFd,
    received: &mut Vec<u8>,
    descriptors: &mut Vec<OwnedFd>,
) -> Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut chunk = vec![0; CHUNK_BYTES];
    let taken = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut chunk)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    received.extend_from_slice(&chunk[..taken.bytes]);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = message {
            descriptors.extend(all);
        }
    }
    Ok(taken.bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use serde_json::json;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn lines_and_sockets_go_over() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (one, mut other) = (Line::new(one), Line::new(other));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let long = json!({"text": "x".repeat(300_000)});
        let told = tokio::join!(
            async {
                let sent = one.send(&json!({"first": 1}), &[listener.as_fd()]).await;
                sent.expect("sent");
                one.send(&long, &[]).await.expect("sent");
                drop(listener);
            },
            async {
                let (first, mut sockets) = other.receive(SOON).await.expect("the first");
                assert_eq!(first, json!({"first": 1}));
                let (second, none) = other.receive(SOON).await.expect("the second");
                assert_eq!((&second, none.len()), (&long, 0));
                sockets.pop().expect("a socket")
            }
        );
        let taken = TcpListener::from(told.1);
        let mut client = TcpStream::connect(address).expect("it still listens");
        let (mut served, _) = taken.accept().expect("a client");
        served.write_all(b"x").expect("sent");
        client.read_exact(&mut [0]).expect("received");

        assert_eq!(other.peer().expect("known").0, std::process::id() as i32);
        drop(one);
        let error = other.receive(SOON).await.expect_err("the end");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn silence_and_nonsense_are_errors() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let mut other = Line::new(other);
        let error = other.receive(Duration::ZERO).await.expect_err("silence");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        one.try_write(b"nonsense\n").expect("sent");
        let error = other.receive(SOON).await.expect_err("nonsense");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
