//! Lines of a transport, brought to an applier as transactions.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::{Applier, Transport};
use crate::apply::{Gatherer, Heard};

/// Why nothing more is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped<T, A> {
    /// No line comes any more.
    Transport(T),
    /// A line is none of a stream, or tells less than can be carried out.
    Line(String),
    /// The stream says that it cannot go on: `gap`, `undone`, `error`.
    Over(String),
    Applier(A),
}

/// Brings everything from a transport to an applier, until the transport has no more.
///
/// # Errors
/// Something ended it before; what was under way at the applier may have been done or not.
pub async fn carry<T: Transport, A: Applier>(
    transport: &mut T,
    applier: &mut A,
) -> Result<(), Stopped<T::Error, A::Error>> {
    let mut gatherer = Gatherer::default();
    loop {
        let heard = match next(transport, applier).await {
            None => {
                applier.go_on().await.map_err(Stopped::Applier)?;
                continue;
            }
            Some(line) => match line.map_err(Stopped::Transport)? {
                Some(line) => gatherer.take(&line).map_err(Stopped::Line)?,
                None => break,
            },
        };
        let taken = match heard {
            Heard::Nothing => Ok(()),
            Heard::Transaction(transaction) => applier.apply(transaction).await,
            Heard::Alive(token) => applier.alive(token).await,
            Heard::Complete { group, token } => applier.complete(group, token).await,
            Heard::Over(text) => return Err(Stopped::Over(text)),
        };
        taken.map_err(Stopped::Applier)?;
    }
    applier.finish().await.map_err(Stopped::Applier)
}

/// What the transport says, if the applier has room for it; `None` when the applier has something to do.
async fn next<T: Transport, A: Applier>(
    transport: &mut T,
    applier: &mut A,
) -> Option<Result<Option<Vec<u8>>, T::Error>> {
    let has_room = applier.has_room();
    let (mut line, mut due) = (pin!(transport.next()), pin!(applier.due()));
    let first = poll_fn(|context| {
        if due.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        match has_room {
            true => line.as_mut().poll(context).map(Some),
            false => Poll::Pending,
        }
    });
    first.await
}
