//! What a listener is sent, as server-sent events, and the answer's body that sends it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::body::Bytes;
use farm::Access;
use hyper::body::{Body as Answer, Frame};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// One event for all who are sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// `state`: the whole picture. `patch`: what differs, as JSON Merge Patch.
    pub(super) event: &'static str,
    pub(super) json: Arc<str>,
}

impl Told {
    fn bytes(&self) -> Bytes {
        event(self.event, &self.json)
    }
}

/// In the form of server-sent events; `json` has no line breaks.
fn event(name: &str, json: &str) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}

/// Why somebody is told nothing any more; set before the last sender goes.
pub(super) type Reason = Arc<OnceLock<&'static str>>;

/// Said to those who listen when the router takes no requests any more.
const ROUTER_ENDS: &str =
    "the router takes no requests any more: it ends, or another process takes over";

/// The body. Dropped, as when the client leaves, it makes room for another listener.
pub(super) struct Listening {
    /// What is said before anything else.
    hello: Option<Bytes>,
    told: mpsc::Receiver<Told>,
    reason: Reason,
    /// Ready when the door takes no requests any more: an answer without an end would keep it from closing.
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
    _place: OwnedSemaphorePermit,
}

impl Listening {
    pub(super) fn new(
        access: Access,
        told: mpsc::Receiver<Told>,
        reason: Reason,
        over: Pin<Box<dyn Future<Output = ()> + Send>>,
        place: OwnedSemaphorePermit,
    ) -> Listening {
        let hello = serde_json::json!({ "access": access.name() }).to_string();
        Listening {
            hello: Some(event("hello", &hello)),
            told,
            reason,
            over,
            has_ended: false,
            _place: place,
        }
    }

    /// The next event only; none when there will be none.
    pub(super) async fn first(mut self) -> Option<Arc<str>> {
        tokio::select! {
            told = self.told.recv() => told.map(|told| told.json),
            () = &mut self.over => None,
        }
    }

    fn end(&mut self, reason: &str) -> Bytes {
        self.has_ended = true;
        event("end", &serde_json::json!({ "reason": reason }).to_string())
    }
}

impl Answer for Listening {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Some(hello) = self.hello.take() {
            return Poll::Ready(Some(Ok(Frame::data(hello))));
        }
        let bytes = if self.over.as_mut().poll(context).is_ready() {
            self.end(ROUTER_ENDS)
        } else {
            match self.told.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(told)) => told.bytes(),
                Poll::Ready(None) => {
                    let reason = self.reason.get().copied().unwrap_or(ROUTER_ENDS);
                    self.end(reason)
                }
            }
        };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
